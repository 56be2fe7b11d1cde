"""Ensembles that do not predict the mean of their members, and members that do not predict what their leaves hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError

_RNG = np.random.default_rng(11)
X = _RNG.normal(size=(700, 5))
VALUES = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * _RNG.normal(size=700)
LABELS = (VALUES > 0.4).astype(int)
TRAIN, FRESH = slice(0, 450), slice(450, 700)


class Threshold(RandomForestClassifier):  # type: ignore[misc]
    def predict(self, X: Any) -> Any:
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.42).astype(int)]


class Calibrated(RandomForestClassifier):  # type: ignore[misc]
    def predict_proba(self, X: Any) -> Any:
        raised = super().predict_proba(X) ** 1.5
        return raised / raised.sum(axis=1, keepdims=True)


class OfLogarithms(RandomForestRegressor):  # type: ignore[misc]
    def predict(self, X: Any) -> Any:
        return np.exp(super().predict(X))


class WeightedTrees(ExtraTreesRegressor):  # type: ignore[misc]
    def predict(self, X: Any) -> Any:
        weight = np.linspace(0.5, 1.5, len(self.estimators_))
        return np.average([tree.predict(X) for tree in self.estimators_], axis=0, weights=weight)


class ThresholdOfBagging(BaggingClassifier):  # type: ignore[misc]
    def predict(self, X: Any) -> Any:
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.42).astype(int)]


class Same(RandomForestClassifier):  # type: ignore[misc]
    def predict(self, X: Any) -> Any:
        return super().predict(X)


class Compiled(RandomForestRegressor):  # type: ignore[misc]
    """Predicts by a copy of the trees that it was trained with, as a library of faster predictions does."""

    def fit_copy(self) -> Any:
        self.copy_ = list(self.estimators_)
        return self

    def predict(self, X: Any) -> Any:
        return np.mean([tree.predict(np.asarray(X, dtype=np.float32)) for tree in self.copy_], axis=0)


def target_of(model: Any) -> Any:
    return LABELS if hasattr(model, "predict_proba") else VALUES


def trained(model: Any) -> Any:
    return model.set_params(n_estimators=40, random_state=0).fit(X[TRAIN], target_of(model)[TRAIN])


OTHERS = [
    Threshold(),
    Calibrated(),
    OfLogarithms(),
    WeightedTrees(bootstrap=True),
    ThresholdOfBagging(),
    ThresholdOfBagging(LogisticRegression()),
]
VERBS: dict[str, Callable[[Any, Any], Any]] = {
    "oob": lambda model, y: ens_plugin.analyze(model, X[TRAIN], y[TRAIN]),
    "held out": lambda model, y: ens_plugin.analyze(model, X[FRESH], y[FRESH], data="holdout"),
    "truncate": lambda model, y: ens_plugin.truncate(model, 7),
    "oob_predictions": lambda model, y: ens_plugin.oob_predictions(model, X[TRAIN], y[TRAIN]),
    "importance": lambda model, y: ens_plugin.oob_permutation_importance(model, X[TRAIN], y[TRAIN], n_repeats=1),
    "uncertainty": lambda model, y: ens_plugin.predict_with_uncertainty(model, X[TRAIN], y[TRAIN], X[FRESH][:3]),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("model", OTHERS, ids=lambda model: type(model).__name__)
def test_what_is_no_mean_of_its_members_is_refused_with_its_name(model: Any, verb: str) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"of this {type(model).__name__} returns something else than the"):
        VERBS[verb](trained(model), target_of(model))


@pytest.mark.parametrize("verb", VERBS)
def test_subclass_that_predicts_the_mean_is_taken(verb: str) -> None:
    VERBS[verb](trained(Same()), LABELS)


def test_patched_class_and_patched_model_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = trained(RandomForestClassifier())
    monkeypatch.setattr(forest, "predict", lambda rows: np.ones(len(rows), dtype=int), raising=False)
    with pytest.raises(UnsupportedModelError, match="predict of this RandomForestClassifier returns something else"):
        ens_plugin.analyze(forest, X[FRESH], LABELS[FRESH], data="holdout")
    monkeypatch.undo()
    ens_plugin.analyze(forest, X[FRESH], LABELS[FRESH], data="holdout")
    monkeypatch.setattr(RandomForestClassifier, "predict", Threshold.predict)
    with pytest.raises(UnsupportedModelError, match="predict of this RandomForestClassifier returns something else"):
        ens_plugin.analyze(forest, X[FRESH], LABELS[FRESH], data="holdout")


def test_a_cut_that_leaves_the_predictions_as_they_are_is_refused() -> None:
    """As of scikit-learn-intelex: 7 trees were stated, and all 40 predicted."""
    forest = trained(Compiled()).fit_copy()
    assert ens_plugin.analyze(forest, X[FRESH], VALUES[FRESH], data="holdout").error > 0
    with pytest.raises(UnsupportedModelError, match="cannot be cut: a copy with its first 7 members does not predict"):
        ens_plugin.truncate(forest, 7)


def test_edited_members_are_judged_as_the_model_predicts() -> None:
    forest = trained(RandomForestClassifier())
    forest.estimators_ = forest.estimators_[3:30]
    report = ens_plugin.analyze(forest, X[TRAIN], LABELS[TRAIN])
    assert report.n_members == 27
    forest.classes_ = np.array(["no", "yes"])
    renamed = ens_plugin.analyze(forest, X[TRAIN], np.array(["no", "yes"])[LABELS[TRAIN]])
    assert renamed.error == report.error


class Smoothed(DecisionTreeClassifier):  # type: ignore[misc]
    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        return 0.7 * super().predict_proba(X, check_input) + np.array([0.0, 0.3])


class SmoothedExtra(ExtraTreeClassifier):  # type: ignore[misc]
    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        return 0.7 * super().predict_proba(X, check_input) + np.array([0.0, 0.3])


class Unlike(DecisionTreeClassifier):  # type: ignore[misc]
    def apply(self, X: Any, check_input: bool = True) -> Any:
        return np.zeros(len(X), dtype=np.intp)


class Cubic(DecisionTreeRegressor):  # type: ignore[misc]
    def predict(self, X: Any, check_input: bool = True) -> Any:
        return super().predict(X, check_input) ** 3


class Centred(DecisionTreeClassifier):  # type: ignore[misc]
    """A tree with a preparation of its own, as in a pipeline."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, check_input: bool = True) -> Any:
        self.mean_ = X.mean(axis=0)
        return super().fit(X - self.mean_, y, sample_weight)

    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        return super().predict_proba(X - self.mean_)


def mean_of(model: Any, rows: Any) -> Any:
    adapter = find_adapter(model)
    outputs = adapter.outputs(adapter.prepare(rows))
    if adapter.output_kind == "labels":
        return np.stack([(outputs == code).mean(axis=0) for code in range(2)], axis=1)
    return outputs.mean(axis=0)


def forest_of(tree: Any) -> Any:
    forest = RandomForestClassifier()
    forest.estimator = tree
    return forest


@pytest.mark.parametrize(
    "model",
    [
        BaggingClassifier(Smoothed()),
        BaggingClassifier(SmoothedExtra(), max_features=0.6),
        BaggingClassifier(Unlike()),
        BaggingRegressor(Cubic()),
        forest_of(Smoothed()),
        forest_of(Unlike()),
    ],
    ids=lambda model: f"{type(model).__name__} of {type(model.estimator).__name__}",
)
def test_trees_of_other_methods_predict_by_these_and_prove_their_rows(model: Any) -> None:
    y = target_of(model)
    fitted = trained(model)
    predicted = fitted.predict_proba(X[FRESH]) if y is LABELS else fitted.predict(X[FRESH])
    np.testing.assert_allclose(mean_of(fitted, X[FRESH]), predicted, atol=1e-12)
    report = ens_plugin.analyze(fitted, X[TRAIN], y[TRAIN])
    assert not [text for text in report.warnings if "Nothing in this model shows" in text]
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        ens_plugin.analyze(fitted, X[TRAIN][::-1], y[TRAIN][::-1])


def test_trees_that_prepare_their_rows_predict_and_are_not_proved() -> None:
    fitted = trained(BaggingClassifier(Centred()))
    np.testing.assert_allclose(mean_of(fitted, X[FRESH]), fitted.predict_proba(X[FRESH]), atol=1e-12)
    report = ens_plugin.analyze(fitted, X[TRAIN], LABELS[TRAIN])
    assert [text for text in report.warnings if "Nothing in this model shows" in text]


class Wrapped:
    """A member that is no tree, and predicts otherwise than the tree inside it."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.random_state = tree.random_state

    def _support_missing_values(self, X: Any) -> bool:
        return False

    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        return 0.7 * self.tree.predict_proba(X, check_input=check_input) + np.array([0.0, 0.3])


def test_wrapped_trees_predict_held_out_rows_and_have_no_proved_bags() -> None:
    forest = trained(RandomForestClassifier())
    forest.estimators_ = [Wrapped(tree) for tree in forest.estimators_]
    np.testing.assert_allclose(mean_of(forest, X[FRESH]), forest.predict_proba(X[FRESH]), atol=1e-12)
    report = ens_plugin.analyze(forest, X[FRESH], LABELS[FRESH], data="holdout")
    assert report.error == pytest.approx(np.mean(forest.predict(X[FRESH]) != LABELS[FRESH]), abs=0.05)
    with pytest.raises(BagError, match=r"are of the class Wrapped, which is no tree"):
        ens_plugin.in_bag(forest, X[TRAIN])
