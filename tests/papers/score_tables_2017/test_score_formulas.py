from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.scores import fit_normal_scores, linearized_scores, scores_of_truth
from tests.papers.score_tables_2017.score_examples import tables

finite = st.floats(-5, 5)


@given(st.lists(st.tuples(finite, finite, st.integers(0, 1)), min_size=3, max_size=12))
def test_two_labels_are_the_binary_case_exactly(values: list[tuple[float, float, int]]) -> None:
    pairs = np.array([[v[0], v[1]] for v in values])
    target = np.array([v[2] for v in values])
    scores = np.stack([pairs, 2.0 * pairs, pairs - 1.0])
    binary = scores_of_truth(scores[:, :, 1] - scores[:, :, 0], target)
    np.testing.assert_allclose(linearized_scores(scores, target), binary, atol=1e-12)


def test_linearised_odds_are_exact_at_the_mean_and_tangent_there() -> None:
    rng = np.random.default_rng(1)
    mean, target = rng.normal(size=(6, 4)), np.array([0, 1, 2, 3, 0, 1])
    step = 1e-4 * rng.normal(size=(6, 4))
    scores = np.stack([mean - step, mean + step])
    found = linearized_scores(scores, target)
    for sign, member in ((-1, 0), (1, 1)):
        log_p = log_softmax(mean + sign * step, axis=1)[np.arange(6), target]
        np.testing.assert_allclose(found[member], log_p - np.log1p(-np.exp(log_p)), atol=1e-6)


def test_linearised_loss_of_three_labels_is_near_the_simulated_one() -> None:
    rng = np.random.default_rng(2)
    mean = rng.normal(size=(30, 3)) * 1.5
    target = rng.integers(0, 3, 30)
    members = mean + 0.5 * rng.normal(size=(4000, 30, 3))
    exact = -log_softmax(members.reshape(400, 10, 30, 3).mean(axis=1), axis=2)[:, np.arange(30), target].mean()
    rows = fit_normal_scores(linearized_scores(members, target))
    from ens_plugin.papers.score_tables_2017.scores import loss_curve

    assert loss_curve(rows, [10], tables(), loss="log", aggregation="mean_score")[0] == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: linearized_scores([[1.0, 2.0]], [0]), "scores"),
        (lambda: linearized_scores([[[1.0]]], [0]), "scores"),
        (lambda: linearized_scores([[[1.0, 2.0]]], [2]), "target"),
        (lambda: linearized_scores([[[1.0, np.inf]]], [0]), "scores"),
    ],
)
def test_bad_input(call: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        call()  # type: ignore[operator]
