"""The error by the trained members, or by cross-validation where that is dubious (1996, section 6)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_regression
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold, cross_val_score

import ens_plugin
from ens_plugin.papers import bagging_error_1996
from ens_plugin.papers.bagging_error_1996 import hybrid_error

X, Y = load_breast_cancer(return_X_y=True)


def test_ordinary_rows_need_no_cross_validation() -> None:
    forest = RandomForestClassifier(60, random_state=0).fit(X, Y)
    assert hybrid_error(forest, X, Y) == (ens_plugin.analyze(forest, X, Y).error, "out of bag", ())


def test_rows_of_subjects_are_cross_validated_by_the_folds_that_keep_them_together() -> None:
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(40), 10)
    features = rng.normal(size=(40, 6))[subject] + 0.05 * rng.normal(size=(400, 6))
    labels = rng.integers(0, 2, 40)[subject]
    forest = RandomForestClassifier(60, random_state=0).fit(features, labels)
    folds = list(GroupKFold(5).split(features, labels, subject))
    found = hybrid_error(forest, features, labels, cv=folds)
    assert found.source == "cross-validation"
    assert found.doubts
    expected = 1.0 - np.average(
        cross_val_score(forest, features, labels, cv=folds), weights=[len(test) for _, test in folds]
    )
    assert found.error == pytest.approx(expected)
    assert found.error > 0.3 > ens_plugin.analyze(forest, features, labels).error


def test_members_without_bags_are_cross_validated() -> None:
    model = BaggingClassifier(n_estimators=10, bootstrap=False, random_state=0).fit(X, Y)
    found = hybrid_error(model, X, Y)
    assert found.source == "cross-validation"
    assert len(found.doubts) == 1


def test_few_rows_of_values_are_cross_validated() -> None:
    features, target = make_regression(20, 4, noise=1.0, random_state=0)
    forest = RandomForestRegressor(40, random_state=0).fit(features, target)
    found = hybrid_error(forest, features, target)
    assert found.source == "cross-validation"
    assert "There are only 20 rows." in found.doubts
    expected = -cross_val_score(forest, features, target, scoring="neg_mean_squared_error").mean()
    assert found.error == pytest.approx(expected)


def test_an_error_below_zero_is_cross_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    features, target = make_regression(60, 4, noise=1.0, random_state=0)
    forest = RandomForestRegressor(40, random_state=0).fit(features, target)
    report = ens_plugin.analyze(forest, features, target)
    assert hybrid_error(forest, features, target).source == "out of bag"
    below = replace(report, error_curve=replace(report.error_curve, asymptote_raw=-0.1))
    monkeypatch.setattr(bagging_error_1996, "analyze", lambda *rows: below)
    found = hybrid_error(forest, features, target)
    assert found.source == "cross-validation"
    assert found.doubts == ("The error of infinitely many members is estimated below 0.",)
