"""The difference of two ensembles' errors, from the rows that members of both predict."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.analysis.checks import JudgedRows, judged_by_both, paired_difference
from ens_plugin.core.uncertainty import mean_difference

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
