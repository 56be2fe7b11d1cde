"""The difference of two ensembles' errors, from the rows that members of both predict."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from ens_plugin import CustomEnsemble
from ens_plugin.analysis import analyze_rows
from ens_plugin.core.comparison import mean_difference, paired_difference
from ens_plugin.core.judged_rows import JudgedRows, judged_by_both
from tests.forests import Array

CANDIDATE = np.array([1.0, np.nan, 3.0, 5.0, 4.0])
BASELINE = np.array([2.0, 1.0, 1.0, np.nan, 1.0])


def test_only_rows_that_both_predict_are_compared() -> None:
    one, other = JudgedRows(CANDIDATE, 0.0, 0.0), JudgedRows(BASELINE, 0.0, 0.0)
    assert judged_by_both(one, other).tolist() == [True, False, True, False, True]
    expected = mean_difference(CANDIDATE[[0, 2, 4]], BASELINE[[0, 2, 4]], 0.9)
    assert paired_difference(one, other, "regression", 0.9) == pytest.approx(expected)


def test_missing_members_shift_the_difference_and_seeds_widen_it() -> None:
    one, other = JudgedRows(CANDIDATE, 0.5, -0.25), JudgedRows(BASELINE, 1.5, 0.5)
    plain = paired_difference(JudgedRows(CANDIDATE, 0.0, 0.0), JudgedRows(BASELINE, 0.0, 0.0), "regression", 0.9)
    found = paired_difference(one, other, "regression", 0.9)
    assert found.estimate == plain.estimate - 0.75
    half = np.hypot(plain.upper - plain.estimate, 1.6448536269514722 * np.sqrt(2.0))
    assert found.upper - found.estimate == pytest.approx(half)


def test_losses_that_are_correlated_in_pairs_widen_the_interval() -> None:
    plain = mean_difference(CANDIDATE[[0, 2, 4]], BASELINE[[0, 2, 4]], 0.9)
    one, other = JudgedRows(CANDIDATE, 0.0, 0.0, 2.0), JudgedRows(BASELINE, 0.0, 0.0, 2.0)
    found = paired_difference(one, other, "regression", 0.9)
    assert found.upper - found.estimate == pytest.approx(np.sqrt(2.0) * (plain.upper - plain.estimate))
    assert found.estimate - found.lower == pytest.approx(np.sqrt(2.0) * (plain.estimate - plain.lower))


def test_the_variance_over_seeds_of_squared_errors_is_that_of_the_luck_all_rows_share() -> None:
    """The outputs are 20 above the target: the mean squared error rises by 40 times their mean."""
    variances = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        outputs = rng.normal(0.0, 0.3, (40, 1)) + rng.normal(size=(40, 150))
        y = rng.normal(-20.0, 1.0, 150)
        found = analyze_rows(CustomEnsemble(outputs, None, aggregation="mean"), None, y, data="holdout")[1]
        assert isinstance(found, JudgedRows)
        assert found.row_factor == 1.0
        variances.append(found.seed_variance)
    assert np.mean(variances) == pytest.approx(40.0**2 * 0.3**2 / 40, rel=0.12)


def test_the_variance_of_squared_errors_out_of_bag_is_taken_twice() -> None:
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(40, 150)), rng.normal(size=150)
    ensemble = CustomEnsemble(outputs, rng.random((40, 150)) < 0.63, aggregation="mean")
    found = analyze_rows(ensemble, None, y, data="oob")[1]
    assert isinstance(found, JudgedRows)
    assert found.row_factor == 2.0


def signal(features: Array) -> Array:
    return np.asarray(1.5 * (features[:, 0] + features[:, 1] * features[:, 2]))


def judged_forest(features: Array, y: Array, least: int, seed: int) -> tuple[RandomForestRegressor, JudgedRows]:
    forest = RandomForestRegressor(40, min_samples_leaf=least, random_state=seed).fit(features, y)
    return forest, analyze_rows(forest, features, y, data="oob")[1]


@pytest.mark.slow
def test_the_interval_of_squared_errors_out_of_bag_covers_the_difference_of_two_forests() -> None:
    """Of a deep and a smooth forest; without the allowance for pairs of rows, it held 52 of 60 differences."""
    errors, variances, held = [], [], 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        features, fresh = rng.normal(size=(200, 8)), rng.normal(size=(3000, 8))
        y = signal(features) + rng.normal(size=200)
        (deep, own), (smooth, other) = (judged_forest(features, y, least, seed) for least in (1, 15))
        truth = [float(np.mean((forest.predict(fresh) - signal(fresh)) ** 2)) for forest in (deep, smooth)]
        found, difference = paired_difference(other, own, "regression", 0.95), truth[1] - truth[0]
        errors.append(found.estimate - difference)
        variances.append(((found.upper - found.lower) / 3.92) ** 2)
        held += found.lower <= difference <= found.upper
    assert held >= 54
    assert 0.5 < np.mean(np.square(errors)) / np.mean(variances) < 1.3
