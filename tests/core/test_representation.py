"""The weights that make usable rows stand for all, and the parts that rows are estimated in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from ens_plugin.core.weights import Representation, bounds_by_members, represent
from tests.forests import Array


def of(trials: Array, label: Array | None = None, weight: Array | None = None, **options: object) -> Representation:
    label = np.zeros(trials.size, dtype=int) if label is None else label
    wanted = {"n_labels": int(label.max()) + 1, "n_members": 100, "needed": 1, **options}
    return represent(label, trials.astype(float), np.ones(trials.size) if weight is None else weight, **wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("n_members", [3, 10, 100, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_bags_that_leave_all_rows_out_alike_change_nothing(n_members: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    trials, label = rng.binomial(n_members, np.exp(-1.0), 800), (rng.random(800) < 0.02).astype(int)
    found = of(trials, label, n_members=n_members)
    assert found.is_even
    assert (found.factor == 1.0).all()
    assert bounds_by_members(trials[trials > 0].astype(float)).size == 0


def test_held_out_rows_are_even() -> None:
    found = of(np.full(50, 100), np.arange(50) % 3, needed=2)
    assert found.is_even
    assert not found.is_scarce.any()
    assert found.missing.tolist() == [0.0, 0.0, 0.0]


def test_labels_keep_their_share() -> None:
    rng = np.random.default_rng(0)
    label = (rng.random(2000) < 0.1).astype(int)
    weight = rng.lognormal(size=2000)
    trials = rng.binomial(100, np.where(label == 1, 0.02, 0.5))
    found = of(trials, label, weight)
    usable = trials > 0
    for code in (0, 1):
        mass = (weight * found.factor)[usable & (label == code)].sum()
        assert mass == pytest.approx(weight[label == code].sum())
    assert found.mean_factor(label, usable, weight)[1] > 1.08
    assert found.is_scarce.tolist() == [False, True]


@pytest.mark.parametrize(("deviation", "is_scarce"), [(-4.95, False), (-5.05, True), (5.05, False)])
def test_a_label_is_scarce_5_binomial_standard_errors_below_all_rows(deviation: float, is_scarce: bool) -> None:
    mean, n_rows = 37.0, np.array([900.0, 100.0])
    error = np.sqrt(mean * (1.0 - mean / 100) / n_rows[1])
    # The other label has as much more as keeps the mean of all rows.
    members = mean + deviation * error * np.array([-n_rows[1] / n_rows[0], 1.0])
    label = np.repeat([0, 1], n_rows.astype(int))
    found = represent(label, members[label], np.ones(1000), n_labels=2, n_members=100, needed=1)
    assert found.is_scarce.tolist() == [False, is_scarce]
    assert found.is_even == (abs(deviation) < 5.0)


def test_known_chances_take_the_bias_out_of_a_mean() -> None:
    rng = np.random.default_rng(1)
    biases = []
    for _ in range(60):
        z = rng.normal(size=1000)
        chance = np.exp(-np.exp(0.5 * z) / np.exp(0.125))
        loss = 1.0 / (1.0 + np.exp(2.0 - z))
        trials = rng.binomial(10, chance)
        usable = trials > 0
        found, guessed = (of(trials, n_members=10, chance=known) for known in (chance, None))
        weights = (found.factor, guessed.factor, np.ones(1000))
        biases.append([np.average(loss[usable], weights=factor[usable]) - loss.mean() for factor in weights])
    exact, empirical, plain = np.abs(np.mean(biases, axis=0))
    assert exact < 0.0015
    assert empirical < plain / 2
    assert plain > 0.01


def test_rows_that_none_stands_for_are_counted() -> None:
    trials = np.repeat([40, 0], [900, 100])
    assert of(trials).missing[0] == pytest.approx(0.1)
    chance = np.repeat([0.4, 1e-9], [900, 100])
    assert of(trials, chance=chance).missing[0] == pytest.approx(0.1)


@pytest.mark.parametrize("is_told", [True, False])
def test_rows_of_one_chance_are_represented_by_those_that_are_usable(is_told: bool) -> None:
    """Nine in ten rows of the second label have no member, by chance alone."""
    label = np.repeat([0, 1], [500, 200])
    trials = np.where(label == 0, 60, np.arange(700) % 10 == 0)
    chance = np.where(label == 0, 0.6, 0.001) if is_told else None
    found = of(trials, label, chance=chance)
    assert found.missing.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(found.factor[(label == 1) & (trials > 0)], 10.0)
    assert found.left_out == pytest.approx([0.6, 0.001])


def test_factors_are_the_inverse_chances_up_to_a_bound() -> None:
    chance = np.repeat([0.5, 0.01, 1e-6], [10, 10, 10])
    found = of(np.full(30, 3), chance=chance, n_members=20)
    wanted = 1.0 / np.maximum(binom.sf(0, 20, chance), 0.05)
    np.testing.assert_allclose(found.factor, wanted * 30 / wanted.sum())


def test_entries_that_stand_for_several_rows() -> None:
    rng = np.random.default_rng(2)
    label, trials = rng.integers(0, 2, 500), rng.binomial(100, 0.37, 500)
    trials[label == 1] //= 5
    whole = of(trials, label)
    table = np.zeros((2, 101))
    np.add.at(table, (label, trials), 1.0)
    code, count = np.divmod(np.arange(202), 101)
    grouped = of(count, code, table.ravel(), rows=table.ravel())
    np.testing.assert_allclose(grouped.factor[label * 101 + trials], whole.factor)
    np.testing.assert_allclose(grouped.members, whole.members)


def test_rows_without_weight_are_left_alone() -> None:
    trials = np.repeat([37, 0], [50, 50])
    found = of(trials, weight=np.repeat([1.0, 0.0], 50))
    assert (found.is_even, found.n_rows.tolist(), found.missing.tolist()) == (True, [50.0], [0.0])


@pytest.mark.parametrize(("few", "many", "n_few"), [(0.08, 0.53, 200), (0.08, 0.43, 30), (0.19, 0.49, 300)])
def test_rows_of_few_members_are_parted_from_those_of_many(few: float, many: float, n_few: int) -> None:
    rng = np.random.default_rng(3)
    trials = np.append(rng.binomial(100, few, n_few), rng.binomial(100, many, 1000 - n_few)).astype(float)
    bounds = bounds_by_members(trials)
    assert bounds.size == 1
    assert 100 * few < bounds[0] < 100 * many


@pytest.mark.parametrize(("many", "is_parted"), [(28.0, False), (33.0, True)])
def test_parts_lie_three_standard_deviations_apart(many: float, is_parted: bool) -> None:
    """Of 2 sqrt(n), whose standard deviation is 1: from 8 to 10.6, and from 8 to 11.5."""
    assert bounds_by_members(np.repeat([16.0, many], 100)).size == is_parted


@pytest.mark.parametrize(("dispersion", "looks_even"), [(1.1, True), (1.5, False)])
def test_numbers_of_members_that_vary_much_more_than_by_chance_are_uneven(dispersion: float, looks_even: bool) -> None:
    """Chances to be left out that differ by two values, of 20 000 rows: 1.25 times the binomial variance is usual."""
    spread = np.sqrt((dispersion - 1.0) * 0.37 * 0.63 / (100 - 1))
    chance = 0.37 + spread * np.where(np.arange(20_000) % 2 == 0, 1.0, -1.0)
    trials = np.random.default_rng(0).binomial(100, chance)
    assert np.var(trials) == pytest.approx(dispersion * 100 * 0.37 * 0.63, rel=0.03)
    assert of(trials).looks_even == looks_even


def test_a_handful_of_rows_is_no_part() -> None:
    assert bounds_by_members(np.repeat([2.0, 50.0], [9, 1000])).size == 0
    assert bounds_by_members(np.repeat([2.0, 50.0], [2, 100]), np.repeat([9.0, 30.0], [2, 100])).size == 1


@pytest.mark.parametrize("is_even", [True, False])
def test_sums_over_parts_of_the_rows_are_those_of_all_rows(is_even: bool) -> None:
    """More rows than are read at a time, with numbers and weights of their own."""
    rng = np.random.default_rng(0)
    n_rows = 150_000
    label = (rng.random(n_rows) < 0.1).astype(np.uint8)
    trials = rng.binomial(40, np.where((label == 1) & (not is_even), 0.1, 0.3)).astype(float)
    weight = rng.lognormal(size=n_rows) * (rng.random(n_rows) < 0.9)
    found = represent(label, trials, weight, n_labels=2, n_members=40, needed=2)
    assert found.is_even == is_even
    counted, usable = weight > 0, (weight > 0) & (trials >= 2)
    for code in (0, 1):
        own = label == code
        assert found.n_rows[code] == np.count_nonzero(own & counted)
        assert found.n_usable[code] == np.count_nonzero(own & usable)
        assert found.members[code] == trials[own & counted].sum() / found.n_rows[code]
        assert found.usable_members[code] == trials[own & usable].sum() / found.n_usable[code]
    np.testing.assert_array_equal(found.weight, np.bincount(label, weight) / np.bincount(label, weight).sum())
