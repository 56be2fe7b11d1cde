"""Recognition of training rows in another order by the members that are wrong about them."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core import bags as known_rows
from ens_plugin.core.bags import (
    Bags,
    chance_to_match,
    match_training_rows,
    may_be_known,
)

IN_BAG = np.random.default_rng(0).random((60, 300)) < 0.632


def wrong_about_left_out_rows(share: float, seed: int = 1) -> NDArray[np.bool_]:
    """Members are right about the rows in their bags, and wrong about a share of the others."""
    return ~IN_BAG & (np.random.default_rng(seed).random(IN_BAG.shape) < share)


def test_chance_to_match_is_the_mean_over_all_choices_of_members() -> None:
    rng = np.random.default_rng(3)
    out = rng.random((7, 5)) < 0.4
    for w in range(8):
        expected = sum(out[list(chosen)].all(axis=0).sum() for chosen in combinations(range(7), w)) / comb(7, w)
        found = chance_to_match(np.array([w]), out.sum(axis=0), 7)[0]
        assert found == pytest.approx(min(expected, 1.0), rel=1e-12)


def test_the_chance_is_that_of_random_members() -> None:
    rng = np.random.default_rng(4)
    out = ~IN_BAG
    hits = [out[rng.permutation(60)[:6]].all(axis=0).any() for _ in range(2000)]
    bound = chance_to_match(np.array([6]), out.sum(axis=0), 60)[0]
    assert np.mean(hits) <= bound
    assert np.mean(hits) > 0.5 * bound


@pytest.mark.parametrize("rows", [slice(None), slice(None, None, -1), slice(1, None, 2)])
def test_training_rows_are_known_in_any_order_and_number(rows: slice) -> None:
    assert match_training_rows(wrong_about_left_out_rows(0.95)[:, rows], Bags.from_mask(IN_BAG))


def test_one_hard_row_of_another_origin_makes_rows_unknown() -> None:
    wrong = wrong_about_left_out_rows(0.95)
    hardest = wrong.sum(axis=0).argmax()
    wrong[:, hardest] = np.random.default_rng(5).permutation(wrong[:, hardest])
    assert not match_training_rows(wrong, Bags.from_mask(IN_BAG))


def test_fresh_rows_as_hard_as_the_training_rows_are_not_known() -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        assert not match_training_rows(rng.permuted(wrong_about_left_out_rows(0.95), axis=0), Bags.from_mask(IN_BAG))


def telling_rows(wrong: NDArray[np.bool_]) -> NDArray[np.intp]:
    counts, left_out = wrong.sum(axis=0), (~IN_BAG).sum(axis=0)
    return np.flatnonzero((chance_to_match(counts, left_out, 60) < 1e-4) & (counts >= left_out.mean() / 2))


def test_seven_telling_rows_are_not_enough() -> None:
    wrong = wrong_about_left_out_rows(0.95)
    telling = telling_rows(wrong)
    easy = np.flatnonzero(wrong.sum(axis=0) < wrong[:, telling].sum(axis=0).min())
    assert not match_training_rows(wrong[:, [*telling[:7], *easy]], Bags.from_mask(IN_BAG))
    assert match_training_rows(wrong[:, [*telling[:8], *easy]], Bags.from_mask(IN_BAG))


def test_one_row_that_is_a_little_hard_and_of_another_origin_makes_rows_unknown() -> None:
    wrong = wrong_about_left_out_rows(0.95)[:, :40]
    stranger = np.zeros((60, 1), dtype=bool)
    stranger[:11] = True
    assert not (~IN_BAG[:11]).all(axis=0).any()
    assert 1e-4 < chance_to_match(np.array([11]), (~IN_BAG).sum(axis=0), 60)[0] < 0.5
    assert match_training_rows(wrong, Bags.from_mask(IN_BAG))
    assert not match_training_rows(np.hstack([wrong, stranger]), Bags.from_mask(IN_BAG))


def test_rows_of_which_two_are_like_one_training_row_are_not_known() -> None:
    """Fresh rows of data with few different ones, each as hard as the training row that it equals."""
    wrong = wrong_about_left_out_rows(0.95)
    telling = telling_rows(wrong)[:20]
    assert match_training_rows(wrong[:, telling], Bags.from_mask(IN_BAG))
    assert not match_training_rows(wrong[:, [*telling, telling[3]]], Bags.from_mask(IN_BAG))


def test_training_rows_that_are_equal_are_known_as_often_as_they_were_drawn_from() -> None:
    """Members know a row if they drew any of its copies."""
    wrong = wrong_about_left_out_rows(0.95)
    telling = telling_rows(wrong)[:20]
    first, second = telling[:2]
    in_bag = IN_BAG.copy()
    in_bag[:, second] = in_bag[:, first]
    wrong[:, second] = wrong[:, first]
    assert match_training_rows(wrong[:, telling], Bags.from_mask(in_bag))
    assert not match_training_rows(wrong[:, [*telling, first]], Bags.from_mask(in_bag))


def test_rows_that_few_of_many_members_get_wrong_prove_nothing() -> None:
    """Members may be right about a fresh row because they drew one that is like it."""
    in_bag = np.random.default_rng(7).random((400, 200)) < 0.632
    unlike = np.random.default_rng(8).random((400, 200))
    assert (chance_to_match(np.array([40]), (~in_bag).sum(axis=0), 400) < 1e-4).all()
    assert not match_training_rows(~in_bag & (unlike < 0.3), Bags.from_mask(in_bag))
    assert match_training_rows(~in_bag & (unlike < 0.6), Bags.from_mask(in_bag))


def test_rows_that_hardly_any_member_gets_wrong_prove_nothing() -> None:
    assert not match_training_rows(wrong_about_left_out_rows(0.1), Bags.from_mask(IN_BAG))


def test_training_rows_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_rows, "PART_ROWS", 64)
    assert match_training_rows(wrong_about_left_out_rows(0.95)[:, ::-1], Bags.from_mask(IN_BAG))


def test_a_row_wrong_for_more_members_than_leave_out_any_is_not_known() -> None:
    wrong = wrong_about_left_out_rows(1.0)
    assert may_be_known(wrong, 0.368, 300)
    wrong[:50, 3] = True
    assert not may_be_known(wrong, 0.368, 300)


def test_small_bags_prove_nothing() -> None:
    in_bag = np.random.default_rng(9).random((200, 300)) < 0.2
    assert match_training_rows(~in_bag, Bags.from_mask(in_bag))
    assert may_be_known(~in_bag, 0.74, 300)
    assert not may_be_known(~in_bag, 0.8, 300)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.95])
def test_no_bags_are_computed_only_where_they_would_prove_nothing(share: float) -> None:
    wrong = wrong_about_left_out_rows(share)
    matched = match_training_rows(wrong, Bags.from_mask(IN_BAG))
    assert matched is (share > 0.4)
    assert may_be_known(wrong, float(np.mean(~IN_BAG[0])), 300) >= matched
    assert not may_be_known(wrong_about_left_out_rows(0.1), 0.368, 300)
