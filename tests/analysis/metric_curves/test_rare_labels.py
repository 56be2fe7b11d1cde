"""Metrics that depend on few rows of a label."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, analyze
from tests.scorers import MACRO_F1


@cache
def report(metric: str, n_rare: int) -> EnsembleReport:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(120, 4)), np.array(["usual"] * 120)
    y[:n_rare] = "rare"
    X[:n_rare] += 1.5
    scorer = MACRO_F1 if metric == "f1" else metric
    return analyze(RandomForestClassifier(60, random_state=0).fit(X, y), X, y, metric=scorer)


def page(found: EnsembleReport, directory: Path) -> str:
    path = directory / "report.html"
    found.to_html(path)
    return path.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["f1", "balanced_accuracy"])
def test_a_metric_of_three_rows_is_not_relied_upon(metric: str, tmp_path: Path) -> None:
    found = report(metric, 3)
    assert any("Only 3 out-of-bag rows have the label 'rare'" in doubt for doubt in found.basis.doubts)
    assert "Do not use these figures." in found.summary()
    assert "Do not use these figures." in page(found, tmp_path)


def test_a_ranking_of_three_rows_is_known_within_wide_limits() -> None:
    """Of the rows that most members are out of bag for, none may have the rare label."""
    lower, upper = report("roc_auc", 3).error_curve.asymptote_interval
    assert 0.0 <= lower < upper <= 1.0
    assert upper - lower > 0.3
