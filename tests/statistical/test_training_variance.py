"""The variance over training sets, estimated from one forest, against that of forests on 100 training sets."""

from __future__ import annotations

import pytest

from benchmarks.hard_data import training_variance
from benchmarks.hard_data.training_variance import Setting, measure


@pytest.mark.long
@pytest.mark.slow
def test_variance_is_within_15_percent_of_that_of_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_variance, "REFIT_TREES", 50)
    found = measure(Setting(200, 1.0, 1), refits=100, forests=4, n_trees=1000, seed=1, n_jobs=1)
    assert found.estimate == pytest.approx(1, abs=0.15)
    assert found.uncorrected > found.estimate + 0.2
    assert found.jackknife > 1
