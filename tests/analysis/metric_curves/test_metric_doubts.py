"""A size by a score that is hardly above its lowest value is no confident one."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score, make_scorer

from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.analysis.metric_rows import large_tolerance_notes, low_score_doubts
from tests.scorers import MACRO_F1


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


WORDS = "subsets of 1 and 3 members only"


def report_of(n_members: int, metric: Any, n_labels: int = 4) -> EnsembleReport:
    """Return the report of a forest on rows of overlapping labels, each half as frequent as the one before."""
    rng = np.random.default_rng(0)
    chances = 0.5 ** np.arange(n_labels)
    y = rng.choice(n_labels, 300, p=chances / chances.sum())
    X = rng.normal(size=(300, 6)) + np.random.default_rng(1).normal(size=(n_labels, 6))[y]
    return analyze(RandomForestClassifier(n_members, random_state=0).fit(X, y), X, y, metric=metric)


def unweighted_f1(y: Any, predicted: Any) -> float:
    """A metric of labels that takes no weights, and so is no function of an expected confusion matrix."""
    return float(f1_score(y, predicted, average="macro"))


def test_nine_members_of_four_labels_are_doubted() -> None:
    report = report_of(9, make_scorer(unweighted_f1))
    assert any(WORDS in doubt for doubt in report.basis.doubts)
    assert not report.is_actionable


@pytest.mark.parametrize(
    ("n_members", "metric", "n_labels"),
    [(20, make_scorer(unweighted_f1), 4), (9, "neg_brier_score", 2), (9, "balanced_accuracy", 4)],
    ids=["more members", "smooth metric", "a confusion matrix"],
)
def test_a_checked_course_is_not(n_members: int, metric: Any, n_labels: int) -> None:
    """More members have larger subsets, a smooth metric one of two members; the confusion matrix is drawn."""
    assert not any(WORDS in doubt for doubt in report_of(n_members, metric, n_labels).basis.doubts)
