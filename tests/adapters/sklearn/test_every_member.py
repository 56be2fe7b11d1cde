"""Bags of every classifier and regressor of scikit-learn: what out-of-bag members predict, or the true refusal."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import all_estimators

import ens_plugin
from ens_plugin.errors import InputError, UnsupportedModelError

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(45, 3)))
LABELS = np.argmax(X + 0.5 * RNG.normal(size=X.shape), axis=1)
VALUES = 1.0 + X[:, 0] + 0.3 * RNG.normal(size=45)
TWO = np.column_stack([VALUES, X[:, 1] + 0.3 * RNG.normal(size=45)])


def learner(kind: Any) -> Any:
    """Return an estimator that is small, that needs no second column of y, and that predicts every row."""
    inner = GaussianNB() if issubclass(kind, ClassifierMixin) else Ridge()
    wanted = {
        "estimator": inner,
        "estimators": [("a", inner), ("b", inner)],
        "n_components": 1,
        "max_iter": 30 if kind.__name__.startswith("MLP") else None,
        "n_estimators": 2,
        "outlier_label": 0,
        "radius": 9.0,
        "min_samples": 10,
        "nu": 0.3,
        "cv": 2,
        "out_of_bounds": "clip",
        "Cs": 1,
        "n_restarts_optimizer": 0,
        "max_subpopulation": 10,
    }
    known = inspect.signature(kind).parameters
    options = {name: value for name, value in wanted.items() if name in known and value is not None}
    return kind(**options)


def bagged(kind: Any, y: NDArray[Any], rows: NDArray[np.float64] = X) -> Any:
    """Return a fitted bag of learners; skip what scikit-learn itself does not train on such a target."""
    bag = BaggingClassifier if y is LABELS else BaggingRegressor
    try:
        return bag(learner(kind), 5, random_state=0).fit(rows, y)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        pytest.skip(f"scikit-learn does not train it: {error}")


def out_of_bag_means(model: Any, rows: NDArray[np.float64], n_labels: int) -> NDArray[np.float64]:
    shape = (len(rows), n_labels) if n_labels else (len(rows),)
    total, count = np.zeros(shape), np.zeros(len(rows))
    for member, drawn in zip(model.estimators_, model.estimators_samples_, strict=True):
        out = np.setdiff1d(np.arange(len(rows)), drawn)
        if not n_labels:
            found = np.asarray(member.predict(rows[out]), dtype=np.float64).reshape(out.size)
        elif hasattr(member, "predict_proba"):
            found = np.zeros((out.size, n_labels))
            found[:, member.classes_] = member.predict_proba(rows[out])
        else:
            found = np.eye(n_labels)[member.predict(rows[out])]
        total[out] += found
        count[out] += 1
    with np.errstate(invalid="ignore"):
        mean = total / count.reshape(-1, *(1,) * (total.ndim - 1))
        return mean if not n_labels else mean / mean.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind"), all_estimators(type_filter="classifier"))
def test_every_classifier_is_averaged_or_votes(name: str, kind: Any) -> None:
    model = bagged(kind, LABELS)
    assert ens_plugin.truncate(model, 3).n_estimators == 3
    found = ens_plugin.oob_predictions(model, X, LABELS)
    np.testing.assert_allclose(found.values, out_of_bag_means(model, X, 3), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind"), all_estimators(type_filter="regressor"))
def test_every_regressor_is_averaged(name: str, kind: Any) -> None:
    rows = X[:, :1] if name == "IsotonicRegression" else X
    model = bagged(kind, VALUES, rows)
    assert ens_plugin.truncate(model, 3).n_estimators == 3
    found = ens_plugin.oob_predictions(model, rows, VALUES)
    np.testing.assert_allclose(found.values, out_of_bag_means(model, rows, 0), rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "kind"), all_estimators(type_filter="regressor"))
def test_every_regressor_of_two_values_has_two_outputs(name: str, kind: Any) -> None:
    model = bagged(kind, TWO)
    with pytest.raises(UnsupportedModelError, match=r"predicts 2 outputs.*split_outputs\(model\)\[k\]"):
        ens_plugin.oob_predictions(model, X, TWO)
    second = ens_plugin.split_outputs(model)[1]
    values = ens_plugin.oob_predictions(second, X, TWO[:, 1]).values
    part = second.predict(X)
    np.testing.assert_allclose(part, model.predict(X)[:, 1], rtol=1e-9)
    assert np.isfinite(values).mean() > 0.8
    assert ens_plugin.truncate(model, 3).predict(X).shape == (45, 2)


@pytest.mark.filterwarnings("ignore")
def test_how_many_outputs_is_not_guessed_where_members_refuse_the_trial_row() -> None:
    """A row of zeros has no category that the encoders were trained on."""
    rows = np.random.default_rng(1).integers(1, 4, (80, 2)).astype(np.float64)
    y = np.column_stack([rows[:, 0], rows.sum(axis=1)])
    model = BaggingRegressor(make_pipeline(OneHotEncoder(), Ridge()), 30, random_state=0).fit(rows, y)
    assert ens_plugin.analyze(model, rows, y).n_members == 30
    with pytest.raises(UnsupportedModelError, match="not known: its members refuse a row of zeros"):
        ens_plugin.split_outputs(model)
    with pytest.raises(InputError, match=r"shape \(80, 2\)\. Pass one column; if the ensemble was trained on several"):
        ens_plugin.oob_predictions(model, rows, y)


@pytest.mark.filterwarnings("ignore")
def test_values_that_are_no_numbers_are_counted() -> None:
    model = BaggingRegressor(IsotonicRegression(), 5, random_state=0).fit(X[:, :1], VALUES)
    with pytest.raises(InputError, match=r"returned NaN.* for \d+ of \d+ rows\. Have it predict a number"):
        ens_plugin.oob_predictions(model, X[:, :1], VALUES)


@pytest.mark.filterwarnings("ignore")
def test_bagged_networks_are_analysed_at_every_door() -> None:
    """The number of outputs that a network stores is that of its last units: three for three labels."""
    model = BaggingClassifier(MLPClassifier((5,), max_iter=30), 20, random_state=0).fit(X, LABELS)
    report = ens_plugin.analyze(model, X, LABELS)
    mean = out_of_bag_means(model, X, 3)
    known = np.isfinite(mean[:, 0])
    oob_error = np.mean(mean[known].argmax(axis=1) != LABELS[known])
    assert report.error_curve.at(7) == pytest.approx(oob_error, abs=0.1)
    assert ens_plugin.agreement(model, X + 0.01).n_members == 20
    assert ens_plugin.measure_costs(model, X).n_members == 20
    assert ens_plugin.predict_with_uncertainty(model, X, LABELS, X[:4]).prediction.shape == (4, 3)
    members, drawn = model.estimators_, model.estimators_samples_
    assert ens_plugin.analyze(ens_plugin.CustomEnsemble.from_estimators(members, drawn), X, LABELS).n_members == 20
    values = BaggingRegressor(MLPRegressor(hidden_layer_sizes=(5,), max_iter=30), 8, random_state=0).fit(X, TWO)
    assert ens_plugin.analyze(values, X, TWO).n_members == 8
