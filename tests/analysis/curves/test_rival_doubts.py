"""A doubt about many labels and few members, of which the strongest rival of the true label is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, analyze

WORDS = "too few to tell which label is the strongest rival"


def normal_labels(n_labels: int) -> tuple[Any, Any]:
    """Return rows around one centre for each label, which overlap."""
    centres = np.random.default_rng(n_labels).normal(scale=1.2, size=(n_labels, 8))
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_labels, 500)
    return rng.normal(size=(500, 8)) + centres[y], y


def report_of(n_labels: int, n_members: int, max_depth: int | None = 2) -> EnsembleReport:
    X, y = normal_labels(n_labels)
    return analyze(RandomForestClassifier(n_members, max_depth=max_depth, random_state=0).fit(X, y), X, y)


@pytest.mark.parametrize("n_members", [6, 10])
def test_few_shallow_members_of_ten_labels_are_doubted_in_the_headline(n_members: int) -> None:
    report = report_of(10, n_members)
    (doubt,) = report.basis.doubts
    assert WORDS in doubt
    assert not report.is_actionable
    assert "Do not use these figures. Rows have too few members" in " ".join(report.summary().split())


@pytest.mark.parametrize(("n_labels", "n_members"), [(10, 20), (10, 40), (2, 6), (2, 10)])
def test_more_members_or_two_labels_are_not(n_labels: int, n_members: int) -> None:
    assert report_of(n_labels, n_members).basis.doubts == ()


def test_small_correction_is_no_doubt() -> None:
    """Of three labels far apart, the rival hardly matters."""
    assert report_of(3, 10, max_depth=None).basis.doubts == ()
