from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ens_plugin.sizing.truncate import labels, predict_alike, predicted

DATA = {2: load_breast_cancer(return_X_y=True), 3: load_iris(return_X_y=True)}


def xgboost_model(n_labels: int) -> Any:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install 'ens-plugin[xgboost]'")
    return xgboost.XGBClassifier(n_estimators=1, num_parallel_tree=12, subsample=0.6).fit(*DATA[n_labels])


def lightgbm_model(n_labels: int) -> Any:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed: pip install 'ens-plugin[lightgbm]'")
    forest = lightgbm.LGBMClassifier(boosting_type="rf", n_estimators=12, subsample=0.6, subsample_freq=1, verbose=-1)
    return forest.fit(*DATA[n_labels])


@pytest.mark.parametrize("n_labels", DATA)
def test_a_booster_gives_the_labels_of_its_own_wrapper(n_labels: int) -> None:
    rows = DATA[n_labels][0]
    for model, booster in (
        (xgboost_model(n_labels), lambda model: model.get_booster()),
        (lightgbm_model(n_labels), lambda model: model.booster_),
    ):
        expected = model.predict(rows)
        assert set(expected) == set(range(n_labels))
        assert np.array_equal(labels(model, rows), expected)
        assert np.array_equal(labels(booster(model), rows), expected)


def test_labels_of_a_classifier_are_its_own() -> None:
    rows, y = DATA[3]
    names = np.array(["x", "y", "z"])[y]
    forest = RandomForestClassifier(5, random_state=0).fit(rows, names)
    assert np.array_equal(labels(forest, rows), forest.predict(rows))
    assert np.array_equal(predicted(forest, rows), forest.predict(rows))


def test_a_booster_predicts_rows() -> None:
    rows = DATA[2][0]
    model = xgboost_model(2)
    assert np.allclose(predicted(model.get_booster(), rows), model.predict_proba(rows)[:, 1])


def shuffled(forest: Any, seed: int) -> Any:
    """The same forest with its members in another order, which its sums are then rounded in."""
    other = copy(forest)
    other.estimators_ = [forest.estimators_[index] for index in np.random.default_rng(seed).permutation(60)]
    return other


@pytest.mark.fast_cases("0.0")
@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_the_order_of_the_members_is_rounding(shift: float) -> None:
    rows, y = load_breast_cancer(return_X_y=True)
    classifier = RandomForestClassifier(60, min_samples_leaf=3, random_state=0).fit(rows, y)
    noise = np.random.default_rng(0).normal(0, 1e6, size=len(y))
    regressor = RandomForestRegressor(60, min_samples_leaf=3, random_state=0).fit(rows, noise + shift)
    assert not np.array_equal(classifier.predict_proba(rows), shuffled(classifier, 1).predict_proba(rows))
    for seed in range(10):
        assert predict_alike(classifier, shuffled(classifier, seed), rows)
        assert predict_alike(regressor, shuffled(regressor, seed), rows)


def test_one_member_less_or_a_changed_leaf_is_not_rounding() -> None:
    rows, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(60, random_state=0).fit(rows, y)
    shorter = copy(forest)
    shorter.estimators_ = forest.estimators_[:-1]
    assert not predict_alike(forest, shorter, rows)
    regressor = RandomForestRegressor(60, random_state=0).fit(rows, y)
    changed = deepcopy(regressor)
    changed.estimators_[0].tree_.value[:] += 1e-9
    assert not predict_alike(regressor, changed, rows)


@pytest.mark.parametrize(("roundings", "is_alike"), [(1.9, True), (2.1, False)])
def test_two_labels_may_change_places_within_twice_the_rounding(roundings: float, is_alike: bool) -> None:
    """Both means may be off by a rounding, in opposite directions."""
    rows, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(rows, y)
    other = copy(forest)
    rounding = 20 * np.finfo(float).eps
    gap = np.array([0.5 - roundings * rounding / 2, 0.5 + roundings * rounding / 2])
    forest.predict_proba = lambda rows: np.tile(gap, (len(rows), 1))
    other.predict_proba = lambda rows: np.tile([0.5, 0.5], (len(rows), 1))
    forest.predict = lambda rows: np.ones(len(rows))
    other.predict = lambda rows: np.zeros(len(rows))
    assert predict_alike(forest, other, rows) == is_alike


def test_renamed_labels_are_not_rounding() -> None:
    rows, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(rows, y)
    renamed = copy(forest)
    renamed.classes_ = forest.classes_ + 1
    assert not predict_alike(forest, renamed, rows)
