"""The out-of-bag error of LightGBM's and XGBoost's forests against the error on fresh rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")
pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from benchmarks.accuracy.booster_forests import LIBRARIES, fresh_error, tossed_rows
from benchmarks.accuracy.few_booster_trees import fresh_differences
from benchmarks.shared.forests import Plan

pytestmark = pytest.mark.slow

N_REPETITIONS = 20


@pytest.mark.parametrize("problem", ["twonorm", "ringnorm"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_out_of_bag_error_is_that_on_fresh_rows(library: str, problem: str) -> None:
    """Within three standard errors of 20 repetitions, each against 10 000 fresh rows.

    Their noise is a sixth of that of 300 out-of-bag rows, so more of them would narrow the bound by 2 % at most.

    Labels are tossed: with a fixed number of rows of each label, a row left out makes its own label the
    rarer one in the trees that judge it, and the out-of-bag error of any forest is too high.
    """
    plans = [Plan(problem, 300, 200, None, 10_000, 7, repetition) for repetition in range(N_REPETITIONS)]
    difference = fresh_differences([fresh_error(library, tossed_rows, plan) for plan in plans])
    assert np.isfinite(difference.bias_se)
    assert abs(difference.bias) < 3 * difference.bias_se
