"""A size by a score that is hardly above its lowest value is no confident one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.analysis.metric_rows import large_tolerance_notes, low_score_doubts


def forecast(strength: float, **options: Any) -> EnsembleReport:
    """Report on 30 members that predict a label of 3 % with noise around `strength` times the truth."""
    rng = np.random.default_rng(0)
    y = (np.arange(2000) < 60).astype(int)
    rare = np.clip(0.05 + strength * y + rng.normal(0.0, 0.02, (30, y.size)) + rng.normal(0.0, 0.02, y.size), 0.0, 1.0)
    outputs = np.stack([1.0 - rare, rare], axis=-1)
    return analyze(CustomEnsemble(outputs, None, aggregation="mean_proba"), None, y, data="holdout", **options)


def test_a_score_at_its_lowest_value_is_doubted() -> None:
    report = forecast(0.1, metric="f1")
    assert report.error == 0.0
    assert any("hardly above its lowest value" in doubt for doubt in report.basis.doubts)


def test_a_lowest_value_on_the_rows_is_doubted_where_the_curve_is_above_it() -> None:
    """All bootstrap samples of the rows have F1 0, so that its interval would show no uncertainty of them."""
    rng = np.random.default_rng(1)
    y = (rng.random(400) < 0.08).astype(int)
    X = rng.normal(size=(400, 5))
    X[:, 0] += 1.2 * y
    report = analyze(RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(X, y), X, y, metric="f1")
    assert report.error_curve.asymptote > 0.01
    assert any("of all members is 0 on these rows, hardly above its lowest" in text for text in report.basis.doubts)


@pytest.mark.parametrize("metric", ["average_precision", "roc_auc", "matthews_corrcoef", "neg_log_loss"])
def test_other_scores_are_not(metric: str) -> None:
    report = forecast(0.1, metric=metric)
    assert not any("lowest value" in doubt for doubt in report.basis.doubts)
    assert not any("The tolerance of" in warning for warning in report.warnings)


def test_a_tolerance_that_is_a_large_share_of_the_score_is_warned_of() -> None:
    report = forecast(0.0, metric="average_precision", tolerance=0.01)
    warning = next(text for text in report.warnings if "The tolerance of 0.01 is" in text)
    assert "of what the average_precision of the infinite ensemble" in warning
    assert "has above that of chance, 0.0" in warning
    finer = forecast(0.0, metric="average_precision", tolerance=0.0003)
    assert not any("The tolerance of" in text for text in finer.warnings)


@pytest.mark.parametrize(
    ("height", "is_doubted", "is_cautioned"), [(0.009, True, False), (0.011, False, True), (0.21, False, False)]
)
def test_a_doubt_ends_at_the_tolerance_and_a_caution_at_twenty_times_it(
    height: float, is_doubted: bool, is_cautioned: bool
) -> None:
    curve: Any = SimpleNamespace(asymptote=-1.0 + height, metric="score")
    for is_absolute in (True, False):
        metric = SimpleNamespace(is_absolute=is_absolute, lowest=-1.0)
        settings: Any = SimpleNamespace(metric_distances=lambda limit: 0.01, metric=metric)
        assert bool(low_score_doubts(curve, settings, curve.asymptote)) is (is_doubted and is_absolute)
        assert bool(large_tolerance_notes(curve, settings, -1.0)) is (is_cautioned and is_absolute)
