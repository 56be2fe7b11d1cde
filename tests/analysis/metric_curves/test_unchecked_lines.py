"""A doubt about a metric of labels that is known for subsets of one and three members only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score, make_scorer

from ens_plugin import EnsembleReport, analyze

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
