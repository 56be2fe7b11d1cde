from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.papers.score_tables_2017.scores import fit_normal_scores, moments_of_mean, row_moments, scores_of_truth


def test_moments_are_those_of_the_members_used() -> None:
    rng = np.random.default_rng(0)
    scores, used = rng.normal(size=(9, 4)), rng.random((9, 4)) < 0.7
    mean, variance, trials = row_moments(scores, used)
    for row in range(4):
        mine = scores[used[:, row], row]
        assert (mean[row], variance[row], trials[row]) == pytest.approx((mine.mean(), mine.var(ddof=1), mine.size))


@given(st.integers(0, 1000))
def test_row_and_member_order_do_not_matter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, weight = rng.normal(size=(7, 5)), rng.random(5) + 0.1
    rows, members = rng.permutation(5), rng.permutation(7)
    one, other = (
        fit_normal_scores(scores, weight=weight),
        fit_normal_scores(scores[members][:, rows], weight=weight[rows]),
    )
    np.testing.assert_allclose(one.mean[rows], other.mean, atol=1e-12)
    np.testing.assert_allclose(one.variance[rows], other.variance, atol=1e-12)
    np.testing.assert_array_equal(one.weight[rows], other.weight)


def test_scores_of_label_zero_change_sign() -> None:
    np.testing.assert_array_equal(scores_of_truth([[1.0, -2.0], [0.5, 3.0]], [0, 1]), [[-1.0, -2.0], [-0.5, 3.0]])


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_moments_of_a_mean_by_enumeration(size: int) -> None:
    values, chance = np.array([0.1, 0.5, 0.8]), np.array([0.5, 0.2, 0.3])
    grid = np.array(np.meshgrid(*[range(3)] * size)).reshape(size, -1)
    means, weights = values[grid].mean(axis=0), chance[grid].prod(axis=0)
    single = np.array([[chance @ values**power] for power in (1, 2, 3, 4)])
    exact = [weights @ means**power for power in (1, 2, 3, 4)]
    np.testing.assert_allclose(moments_of_mean(single, size)[:, 0], exact, rtol=1e-12)


def test_the_mean_score_of_a_normal_is_normal() -> None:
    mixed = fit_normal_scores([[0.0], [2.0]]).mixed_scores(4)
    assert (mixed.mean[0], mixed.variance[0]) == (1.0, 0.5)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (([1.0, 2.0],), "scores"),
        (([[1.0], [np.nan]],), "scores"),
        (([["a"], ["b"]],), "scores"),
        (([[1.0], [2.0]], [[True]]), "used"),
        (([[1.0], [2.0]], None, [1.0, 1.0]), "weight"),
        (([[1.0], [2.0]], None, [-1.0]), "weight"),
    ],
)
def test_bad_input(arguments: tuple[object, ...], word: str) -> None:
    with pytest.raises(InputError, match=word):
        fit_normal_scores(*arguments)  # type: ignore[arg-type]


def test_bad_targets() -> None:
    with pytest.raises(InputError, match="target"):
        scores_of_truth([[1.0]], [2])
    with pytest.raises(InputError, match="target"):
        scores_of_truth([[1.0]], [0, 1])


def test_one_member_has_no_spread() -> None:
    with pytest.raises(TooFewMembersError, match="fewer than 2"):
        fit_normal_scores([[1.0, 2.0]])
