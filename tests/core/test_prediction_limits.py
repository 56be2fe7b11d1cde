"""Limits of a residual, by definition and simulation, with weights and groups; residuals of a larger ensemble."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.losses import residual_limits, residuals_at_size
from ens_plugin.core.tally import ValueTally
from ens_plugin.errors import InputError


@pytest.mark.parametrize(("n_rows", "level"), [(39, 0.95), (40, 0.95), (79, 0.95), (100, 0.9), (999, 0.99), (3, 0.5)])
def test_limits_are_the_order_statistics_of_the_definition(n_rows: int, level: float) -> None:
    residuals = np.random.default_rng(0).standard_t(3, n_rows) + 0.3
    # The (n + 1) p-th, interpolated.
    expected = np.quantile(residuals, [(1 - level) / 2, (1 + level) / 2], method="weibull")
    np.testing.assert_allclose(residual_limits(residuals, level, np.ones(n_rows)), expected)
    # Only the proportions of the weights matter.
    np.testing.assert_allclose(residual_limits(residuals, level, np.full(n_rows, 0.37)), expected)


@pytest.mark.parametrize("n_rows", [20, 30, 60])
def test_a_further_row_lies_between_them_as_often_as_stated(n_rows: int) -> None:
    rng = np.random.default_rng(n_rows)
    values = rng.exponential(size=(5_000, n_rows + 1))
    inside = [
        low <= row[-1] <= high for row in values for low, high in [residual_limits(row[:-1], 0.9, np.ones(n_rows))]
    ]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.015)


def test_weights_count_as_copies_do_but_for_the_fresh_row() -> None:
    residuals = np.random.default_rng(1).normal(size=60)
    copies = np.random.default_rng(2).integers(1, 4, 60)
    found = residual_limits(residuals, 0.8, copies.astype(float))
    grouped = residual_limits(
        np.repeat(residuals, copies), 0.8, np.ones(copies.sum()), np.repeat(np.arange(60), copies)
    )
    # Up to a step between two residuals, along which copies are not interpolated.
    ordered = np.sort(residuals)
    assert [*np.searchsorted(ordered, found, side="right")] == [*np.searchsorted(ordered, grouped, side="right")]
    plain = residual_limits(np.repeat(residuals, copies), 0.8, np.ones(copies.sum()))
    assert grouped[0] <= plain[0] < plain[1] <= grouped[1]


def test_rows_without_weight_are_as_if_left_out() -> None:
    residuals, weight = np.random.default_rng(1).normal(size=80), np.tile([0.0, 1.0], 40)
    assert residual_limits(residuals, 0.9, weight) == residual_limits(residuals[1::2], 0.9, np.ones(40))


def test_limits_of_0_have_no_sign() -> None:
    found = residual_limits(np.tile([0.0, -0.0], 20), 0.9, np.ones(40))
    assert not np.signbit(found).any()


def test_a_row_of_a_fresh_group_lies_between_them() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 8)
    inside, plain = [], []
    for _ in range(1000):
        shift = rng.normal(size=31)
        residuals = shift[:30][groups] + 0.3 * rng.normal(size=240)
        fresh = shift[30] + 0.3 * rng.normal()
        for found, own in ((inside, groups), (plain, None)):
            low, high = residual_limits(residuals, 0.9, np.ones(240), own)
            found.append(low <= fresh <= high)
    assert 0.89 < np.mean(inside) < 0.95
    assert np.mean(plain) < 0.89


@pytest.mark.parametrize(("n_rows", "level"), [(38, 0.95), (18, 0.9), (198, 0.99), (1, 0.5)])
def test_too_few_rows_are_refused(n_rows: int, level: float) -> None:
    needed = f"at least {n_rows + 1 if n_rows > 1 else 3} rows with out-of-bag members, and there are {n_rows}[.] Pass"
    with pytest.raises(InputError, match=needed):
        residual_limits(np.arange(n_rows, dtype=float), level, np.ones(n_rows))


def test_too_few_groups_or_too_unequal_weights_are_refused() -> None:
    with pytest.raises(InputError, match="at least 39 groups"):
        residual_limits(np.arange(100.0), 0.95, np.ones(100), np.arange(100) // 5)
    with pytest.raises(InputError, match="weigh as much as 1 of equal"):
        residual_limits(np.arange(100.0), 0.95, np.where(np.arange(100) == 3, 1e6, 1.0))


def test_residuals_have_the_spread_of_the_whole_ensemble() -> None:
    """Members whose noise is known: fresh means of 40 members have the spread of narrowed ones of about 15."""
    rng, n_rows = np.random.default_rng(0), 4000
    counted = rng.random((40, n_rows)) < 0.37
    outputs = 2.0 * rng.normal(size=(40, n_rows))
    target = rng.normal(size=n_rows) + 0.7
    trials = counted.sum(axis=0).astype(float)
    mean = (outputs * counted).sum(axis=0) / trials
    variance = ((outputs - mean) ** 2 * counted).sum(axis=0) / (trials - 1)
    tally = ValueTally(trials, mean, variance, target)
    plain, narrowed = target - mean, residuals_at_size(tally, np.ones(n_rows), 40)
    assert plain.var() == pytest.approx(target.var() + 4 * np.mean(1 / trials), rel=0.03)
    assert narrowed.var() == pytest.approx(target.var() + 4 / 40, rel=0.03)
    assert narrowed.mean() == pytest.approx(plain.mean(), abs=0.005)
    whole = target - outputs.mean(axis=0)
    assert narrowed.std() == pytest.approx(whole.std(), rel=0.03)


def test_weighted_residuals_are_those_of_repeated_rows() -> None:
    rng = np.random.default_rng(3)
    weight = rng.integers(0, 4, 30)
    tally = ValueTally(
        rng.integers(1, 9, 30).astype(float), rng.normal(size=30), rng.exponential(size=30), 1.0 + rng.normal(size=30)
    )
    columns = (tally.trials, tally.mean, tally.variance, tally.target)
    repeated = ValueTally(*(np.repeat(column, weight) for column in columns))
    found = residuals_at_size(tally, weight.astype(float), 20)
    again = residuals_at_size(repeated, np.ones(int(weight.sum())), 20)
    np.testing.assert_allclose(np.repeat(found, weight), again, rtol=1e-12)


def test_residuals_without_member_variance_stay() -> None:
    ones = np.ones(5)
    tally = ValueTally(3 * ones, ones, 0 * ones, np.arange(5.0))
    np.testing.assert_allclose(residuals_at_size(tally, ones, 10), np.arange(5.0) - 1)
    exact = ValueTally(3 * ones, ones, 0 * ones, ones)
    assert residuals_at_size(exact, ones, 10).tolist() == [0.0] * 5


def test_negative_asymptotes_leave_a_spread() -> None:
    ones = np.ones(4)
    tally = ValueTally(4 * ones, 0 * ones, 100 * ones, np.array([-1.0, 1.0, -1.0, 1.0]))
    np.testing.assert_allclose(residuals_at_size(tally, ones, 16), np.array([-0.5, 0.5, -0.5, 0.5]))


def test_rows_of_one_member_take_part_but_cannot_be_all() -> None:
    trials = np.array([1.0, 2.0, 2.0, 2.0])
    tally = ValueTally(trials, np.zeros(4), np.ones(4), np.array([4.0, -4.0, 4.0, -4.0]))
    found = residuals_at_size(tally, np.ones(4), 100)
    assert found.shape == (4,)
    assert 0 < found[0] < found[2] < 4
    with pytest.raises(InputError, match="train more members"):
        residuals_at_size(ValueTally(np.ones(4), np.zeros(4), np.zeros(4), np.ones(4)), np.ones(4), 10)
