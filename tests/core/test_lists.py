"""Lists of the largest means: against brute force, exact values and drawn ensembles whose true means are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from ens_plugin.core.lists import RankedItems, close_values, largest, open_items

Array = np.ndarray[Any, np.dtype[Any]]
MEANS = np.random.default_rng(3).normal(size=200)
LENGTH = 20


def drawn(n_members: int, seed: int) -> Array:
    """Return members' values with a part that a member's items share, and skewed noise of their own."""
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=(n_members, 1)), rng.standard_exponential(size=(n_members, MEANS.size))
    return np.asarray(MEANS + 3.0 * shared + 2.0 * (own - 1.0))


def true_overlaps(size: int) -> tuple[float, float]:
    """Return the overlap of drawn ensembles of a size with that of the true means, and with each other."""
    means = np.stack([drawn(size, 10_000 + seed).mean(axis=0) for seed in range(60)])
    lists = np.argsort(-means, axis=1)[:, :LENGTH]
    sets, true = [set(own.tolist()) for own in lists], set(np.argsort(-MEANS)[:LENGTH].tolist())
    with_true = [len(own & true) for own in sets]
    pairs = [len(one & other) for one, other in zip(sets[::2], sets[1::2], strict=True)]
    return float(np.mean(with_true)) / LENGTH, float(np.mean(pairs)) / LENGTH


@pytest.mark.parametrize("size", [25, 100, 400])
def test_overlaps_are_the_true_ones(size: int) -> None:
    laws = [RankedItems(drawn(100, seed), LENGTH).laws(20_001) for seed in range(6)]
    agreement, overlap = true_overlaps(size)
    assert np.mean([1.0 - law.to_infinity.losses([size])[0] for law in laws]) == pytest.approx(agreement, abs=0.035)
    assert np.mean([1.0 - law.between.losses([size])[0] for law in laws]) == pytest.approx(overlap, abs=0.035)
    held = [law.between.loss_interval(size, 0.95) for law in laws]
    assert sum(low <= 1.0 - overlap <= high for low, high in held) >= 5


def test_overlap_of_half_of_the_members_is_that_of_disjoint_halves() -> None:
    values = drawn(60, 1)
    rng, shares = np.random.default_rng(0), []
    for _ in range(300):
        order = rng.permutation(60)
        halves = (set(np.argsort(-values[part].mean(axis=0))[:LENGTH].tolist()) for part in (order[:30], order[30:]))
        shares.append(len(set.intersection(*halves)) / LENGTH)
    found = RankedItems(values, LENGTH).laws(2000).between
    assert 1.0 - found.losses([31])[0] == pytest.approx(np.mean(shares), abs=0.02)


def test_rows_that_stand_for_several_members_are_those_members() -> None:
    values = drawn(80, 2)
    groups = values.reshape(20, 4, -1).mean(axis=1)
    alone, grouped = RankedItems(values, LENGTH), RankedItems(groups, LENGTH, per_row=4.0)
    for size in (40, 80, 320):
        one, other = (items.laws(2000).between.losses([size])[0] for items in (alone, grouped))
        assert other == pytest.approx(one, abs=0.06)


def test_chances_sum_to_the_length_and_follow_the_means() -> None:
    values = np.random.default_rng(0).normal(size=(50, 40)) + np.linspace(0.0, 2.0, 40)
    chances = RankedItems(values, 10).chances()
    assert chances.sum() == pytest.approx(10.0)
    assert chances[:15].max() < 0.05 < 0.8 < chances[-3:].min()


def test_chance_of_two_items_is_normal() -> None:
    values = np.random.default_rng(1).normal(size=(100, 2)) + np.array([0.0, 0.1])
    difference = values[:, 1] - values[:, 0]
    expected = ndtr(difference.mean() / (difference.std(ddof=1) / 10.0))
    assert RankedItems(values, 1).chances()[1] == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("values", "length", "overlap"),
    [
        (np.tile(np.arange(20.0), (50, 1)), 5, 1.0),
        (np.random.default_rng(0).normal(size=(50, 20)), 20, 1.0),
        (np.ones((50, 20)), 5, 0.25),
        (np.repeat(np.tile(np.arange(30.0), (50, 1)), 2, axis=1), 5, 0.9),
        (np.where(np.arange(50) < 5, 1.0, 0.0) * np.ones((50, 1)), 7, (5 + 2 * 2 / 45) / 7),
    ],
    ids=["members alike", "all items", "all tied", "pairs of copies", "zeros at the end"],
)
def test_ties_are_broken_at_random(values: Array, length: int, overlap: float) -> None:
    found = RankedItems(values, length).laws(2000)
    assert 1.0 - found.between.losses([100])[0] == pytest.approx(overlap, abs=0.03)
    assert 1.0 - found.to_infinity.losses([100])[0] == pytest.approx(overlap, abs=0.03)


def votes(n_members: int, seed: int) -> Array:
    """Votes for items, of which a third are hardly ever outvoted, so that few members give many of them all votes."""
    chance = 1.0 - np.geomspace(0.002, 0.9, 300)
    return np.asarray((np.random.default_rng(seed).random((n_members, 300)) < chance).astype(np.float64))


def sparse_values(n_members: int, seed: int) -> Array:
    """Values that are 0 but for a few members, as the importances of columns that few trees split."""
    rng, chance = np.random.default_rng(seed), np.geomspace(0.3, 0.001, 300)
    return np.asarray(np.where(rng.random((n_members, 300)) < chance, rng.exponential(size=(n_members, 300)), 0.0))


@pytest.mark.parametrize("values", [votes, sparse_values])
@pytest.mark.parametrize("length", [20, 100])
def test_ties_of_few_members_are_resolved_by_more(values: Any, length: int) -> None:
    laws = [RankedItems(values(60, seed), length).laws(20_001).between for seed in range(6)]
    rng, n_held = np.random.default_rng(0), 0
    for size in (61, 121, 481):
        means = np.stack([values(size, 1000 + seed).mean(axis=0) for seed in range(40)])
        lists = largest(means, length, 1e-12, rng).astype(float)
        true = (lists @ lists.T)[np.triu_indices(40, 1)].mean() / length
        assert 1.0 - np.mean([law.losses([size])[0] for law in laws]) == pytest.approx(true, abs=0.05)
        n_held += sum(low <= 1.0 - true <= high for low, high in (law.loss_interval(size, 0.95) for law in laws))
    assert n_held >= 14  # of 18, of only six ensembles


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_neither_unit_nor_a_shift_of_each_member_matters(scale: float) -> None:
    values = drawn(50, 4)
    shifted = scale * (values + np.random.default_rng(0).normal(size=(50, 1)))
    one, other = (RankedItems(own, LENGTH).laws(2000).between.losses([50, 500]) for own in (values, shifted))
    assert other == pytest.approx(one, abs=0.02)


def test_differences_beside_large_values_are_no_ties() -> None:
    """They were taken for ties below 1e-10 of the largest value, so that an overlap of 69 % was said to be 4 %."""
    values = 1e-3 * drawn(50, 4)
    with_large = RankedItems(np.column_stack([values, np.full(50, 1e7)]), LENGTH + 1)
    plain, shifted, beside = (
        items.laws(2000).between.losses([50, 500])
        for items in (RankedItems(values, LENGTH), RankedItems(1e7 + values, LENGTH), with_large)
    )
    assert shifted == pytest.approx(plain, abs=0.03)
    assert beside * (LENGTH + 1) / LENGTH == pytest.approx(plain, abs=0.03)


def test_closed_items_are_never_moved() -> None:
    rng = np.random.default_rng(0)
    mean, sd = rng.normal(size=300), rng.uniform(0.1, 1.0, 300)
    is_open, length = open_items(mean, sd, 30, 0.01)
    n_open = int(is_open.sum())
    assert 30 < n_open < 250
    for _ in range(500):
        listed = np.argsort(-(mean + 0.1 * sd * np.clip(rng.normal(size=300), -5.0, 5.0)))[:30]
        assert np.count_nonzero(is_open[listed]) == length


def test_certain_items_are_listed_by_all() -> None:
    values = drawn(100, 5)
    certain = np.concatenate([values, 100.0 + values[:, :10]], axis=1)
    whole = RankedItems(certain, LENGTH + 10).laws(2000).between
    part = RankedItems(values, LENGTH, n_certain=10).laws(2000).between
    assert part.losses([100, 1000]) == pytest.approx(whole.losses([100, 1000]), rel=0.2)


def test_largest_are_the_largest() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 50))
    found = largest(values, 7, 1e-12, rng)
    for own, row in zip(found, values, strict=True):
        assert set(np.flatnonzero(own)) == set(np.argsort(-row)[:7])


def test_close_values_are_those_of_normal_means() -> None:
    rng = np.random.default_rng(0)
    sd = np.array([0.5, 1.0, 2.0])
    noise = rng.normal(size=(400, 3))
    found = close_values(sd * noise / noise.std(axis=0, ddof=1), 0.2, 2000)
    for size in (51, 401):
        apart = [2.0 * float(np.mean(ndtr(-0.2 * np.sqrt(size) / (np.sqrt(n) * sd)))) for n in (1, 2)]
        assert found.to_infinity.losses([size])[0] == pytest.approx(apart[0], rel=0.06)
        assert found.between.losses([size])[0] == pytest.approx(apart[1], rel=0.06)


def test_constant_values_are_close() -> None:
    values = np.where(np.arange(4) < 3, 1.0, np.random.default_rng(0).normal(size=(50, 4)))
    sd = values[:, 3].std(ddof=1)
    for within in (1e-12, 0.1):
        expected = 2.0 * float(ndtr(-within * np.sqrt(51) / (np.sqrt(2.0) * sd))) / 4.0
        assert close_values(values, within, 2000).between.losses([51])[0] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("n_items", "length"), [(2, 1), (3, 2), (20, 5)])
def test_lists_have_at_least_in_common_what_chance_gives_them(n_items: int, length: int) -> None:
    """Two lists of one of two items were said to have 35 % in common, and at least 0 %."""
    for values in (np.random.default_rng(0).normal(size=(10, n_items)), np.ones((10, n_items))):
        for law in RankedItems(values, length).laws(2000):
            assert 1.0 - law.losses([2, 10, 100]).max() >= length / n_items - 1e-12
            assert 1.0 - law.loss_interval(10, 0.95)[1] >= length / n_items - 1e-12


def test_larger_ensembles_lose_less_and_bounds_do_too() -> None:
    law = RankedItems(drawn(100, 6), LENGTH).laws(20_001).between
    sizes = [5, 25, 101, 401, 1601, 6401, 20_001]
    assert (np.diff(law.losses(sizes)) <= 0).all()
    low, high = law.size_interval(0.1, 20_001, 0.9)
    size = law.size_within(0.1, 20_001)
    assert size is not None
    assert high is not None
    assert low < size < high
