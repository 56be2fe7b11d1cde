"""A doubt about a metric of labels that is known for subsets of one and three members only."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, analyze

WORDS = "subsets of 1 and 3 members only"


def report_of(n_members: int, metric: str, n_labels: int = 4) -> EnsembleReport:
    """Return the report of a forest on rows of overlapping labels, each half as frequent as the one before."""
    rng = np.random.default_rng(0)
    chances = 0.5 ** np.arange(n_labels)
    y = rng.choice(n_labels, 300, p=chances / chances.sum())
    X = rng.normal(size=(300, 6)) + np.random.default_rng(1).normal(size=(n_labels, 6))[y]
    return analyze(RandomForestClassifier(n_members, random_state=0).fit(X, y), X, y, metric=metric)


@pytest.mark.parametrize("metric", ["balanced_accuracy", "f1_macro"])
def test_nine_members_of_four_labels_are_doubted(metric: str) -> None:
    report = report_of(9, metric)
    assert any(WORDS in doubt and doubt.startswith(f"The {metric} is known") for doubt in report.basis.doubts)
    assert not report.is_actionable


@pytest.mark.parametrize(
    ("n_members", "metric", "n_labels"),
    [(20, "balanced_accuracy", 4), (9, "neg_brier_score", 2), (9, "balanced_accuracy", 2)],
    ids=["more members", "smooth metric", "two labels"],
)
def test_a_checked_course_is_not(n_members: int, metric: str, n_labels: int) -> None:
    """More members have larger subsets, a smooth metric one of two members; of two labels the errors are fitted."""
    assert not any(WORDS in doubt for doubt in report_of(n_members, metric, n_labels).basis.doubts)
