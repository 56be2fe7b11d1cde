"""The generator against one draw after the other, and the chance of a false match against counting."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ens_plugin.adapters.lightgbm.bags import Sampling, draw_rounds, log_chance, read_sampling
from ens_plugin.errors import BagError
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags


@pytest.mark.parametrize("n_rows", [1, 6, 37, 1023, 1024, 1025, 2500])
@pytest.mark.parametrize("seed", [3, 7719, 2**31 - 1, 2**32 - 1])
@pytest.mark.parametrize("limit", [1, 1638, 19661, 32767])
def test_rounds_are_those_of_one_draw_after_the_other(n_rows: int, seed: int, limit: int) -> None:
    np.testing.assert_array_equal(draw_rounds(seed, limit, 4, n_rows).in_bag(), drawn_bags(n_rows, seed, limit, 4))


def test_rows_have_limits_of_their_own() -> None:
    limits = np.where(np.arange(1500) % 3 == 0, 32768, 5000)
    expected = drawn_bags(1500, 11, limits.tolist(), 3)
    np.testing.assert_array_equal(draw_rounds(11, limits, 3, 1500).in_bag(), expected)
    assert expected[:, ::3].all()


def test_full_bag_ends_the_drawing() -> None:
    # Of six rows at 0.8, some bag among the first 20 holds all and none of the first does.
    in_bag = draw_rounds(5, 26215, 20, 6).in_bag()
    first = int(in_bag.all(axis=1).argmax())
    assert 0 < first < 19
    assert in_bag[first:].all()
    np.testing.assert_array_equal(in_bag, drawn_bags(6, 5, 26215, 20))


@pytest.mark.parametrize("limit", [1, 1638, 10923, 16384, 20000, 32767])
def test_printed_fraction_leaves_the_true_limit_among_the_candidates(limit: int) -> None:
    for fraction in (limit / 32768, (limit - 0.5) / 32768):
        printed = float(f"{fraction:.6g}")
        candidates = Sampling(3, 1, (printed,)).limits()
        assert (limit,) in candidates
        assert len(candidates) <= 2


def test_balanced_fractions_are_combined() -> None:
    candidates = Sampling(3, 1, (0.610352, 1.0)).limits()
    assert set(candidates) == {(20001, 32768), (20000, 32768)}


def test_pos_fraction_matters_to_binary_objectives_only() -> None:
    parameters = {
        "objective": "regression",
        "bagging_freq": "1",
        "bagging_fraction": "0.5",
        "pos_bagging_fraction": "0.2",
        "bagging_seed": "3",
    }
    assert read_sampling(parameters).fractions == (0.5,)
    assert read_sampling({**parameters, "objective": "binary"}).fractions == (1.0, 0.2)
    with pytest.raises(BagError, match="without bagging"):
        read_sampling({**parameters, "bagging_fraction": "1"})


def test_chance_of_a_false_match_is_the_share_of_masks_with_these_counts() -> None:
    leaves = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    counts, reached = np.array([2, 1, 2]), np.bincount(leaves)
    masks = [np.bincount(leaves[list(rows)], minlength=3) for rows in combinations(range(9), int(counts.sum()))]
    share = np.mean([np.array_equal(mask, counts) for mask in masks])
    np.testing.assert_allclose(np.exp(log_chance(counts, reached)), share, rtol=1e-12)


@pytest.mark.parametrize("n_rows", [5, 1024, 1025, 5000])
def test_draws_of_single_rows_are_those_of_all(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    rows, limit = rng.integers(0, n_rows, 300), rng.integers(1, 32769, n_rows)
    whole = draw_rounds(7, limit, 6, n_rows).in_bag()
    np.testing.assert_array_equal(draw_rounds(7, limit[rows], 6, n_rows, rows).in_bag(), whole[:, rows])


def test_rows_are_not_drawn_once_a_bag_held_them_all() -> None:
    whole = draw_rounds(2, 20000, 40, 5).in_bag()
    complete = int(whole.all(axis=1).argmax())
    assert 0 < complete < 39
    found = draw_rounds(2, 20000, 40, 5, np.arange(5), n_drawn=complete + 1).in_bag()
    np.testing.assert_array_equal(found, whole)
