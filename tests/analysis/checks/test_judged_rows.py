"""The difference of two ensembles' errors, from the rows that members of both predict."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin import CustomEnsemble
from ens_plugin.analysis import analyze_rows
from ens_plugin.core.comparison import mean_difference, paired_difference
from ens_plugin.core.judged_rows import JudgedRows, judged_by_both

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
        assert found.row_factor == 1.0
        variances.append(found.seed_variance)
    assert np.mean(variances) == pytest.approx(40.0**2 * 0.3**2 / 40, rel=0.12)


def test_the_variance_of_squared_errors_out_of_bag_is_taken_twice() -> None:
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(40, 150)), rng.normal(size=150)
    ensemble = CustomEnsemble(outputs, rng.random((40, 150)) < 0.63, aggregation="mean")
    found = analyze_rows(ensemble, None, y, data="oob")[1]
    assert found.row_factor == 2.0
