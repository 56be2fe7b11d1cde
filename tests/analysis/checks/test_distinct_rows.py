from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import analyze


def test_a_size_that_is_not_known_has_no_upper_end() -> None:
    """The members are evenly split over one of two different rows."""
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0], [1.0]], 150, axis=0)
    y = np.concatenate([np.arange(150) % 2, rng.random(150) < 0.9]).astype(np.int64)
    report = analyze(RandomForestClassifier(40, random_state=0).fit(X, y), X, y, criterion="agreement")
    assert report.recommendation.interval[1] is None
    assert report.recommended_size is None
    assert report.recommendation.interval[0] < 2000


def test_of_rows_that_are_all_alike_the_size_is_that_of_means_of_bootstrap_samples() -> None:
    X, y = np.zeros((100, 2)), np.arange(100) % 5 == 0
    report = analyze(RandomForestClassifier(200, random_state=0).fit(X, y), X, y, tolerance=0.0004)
    # A tree predicts the share of ones in its bag, so n_trees of them are 1 / (100 n_trees) above the limit.
    low, high = report.recommendation.interval
    assert low <= 25 <= (high or 0) < 50
    assert report.basis.n_distinct == 1
    by_agreement = next(found for found in report.criteria if found.criterion == "agreement")
    assert "the members' outputs for 1 kind of rows" in by_agreement.reason


def test_different_rows_change_nothing_but_their_count() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    report = analyze(forest, X, y)
    assert report.basis.n_distinct == np.unique(X, axis=0).shape[0]
    assert not any("kinds of rows" in found.reason for found in report.criteria)
