"""A metric of several outputs: that of each output as alone, and the mean over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import mean_absolute_error, roc_auc_score

import ens_plugin
from ens_plugin import EnsembleReport

RNG = np.random.default_rng(0)
X = RNG.normal(size=(700, 4))
CHANCES = 1.0 / (1.0 + np.exp(-X[:, :2] * 1.5))
LABELS = (RNG.random((700, 2)) < CHANCES).astype(int)
VALUES = X[:, :2] * [1.0, 3.0] + RNG.normal(size=(700, 2))
TRAINED, FRESH = slice(0, 200), slice(200, 700)
FOREST: dict[str, Any] = {"n_estimators": 40, "min_samples_leaf": 5, "random_state": 0}


def fitted(y: Any) -> Any:
    kind = RandomForestClassifier if y is LABELS else RandomForestRegressor
    return kind(**FOREST).fit(X[TRAINED], y[TRAINED])


def analyzed(model: Any, y: Any, metric: Any) -> EnsembleReport:
    return ens_plugin.analyze(model, X[TRAINED], y[TRAINED], metric=metric, random_state=0)


KINDS = [
    pytest.param(LABELS, "roc_auc", id="auc", marks=pytest.mark.slow),
    pytest.param(VALUES, "neg_mean_absolute_error", id="mae"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("y", "metric"), KINDS)
def test_each_output_has_the_figures_that_it_has_alone(y: Any, metric: str) -> None:
    model = fitted(y)
    report = analyzed(model, y, metric)
    for output, alone in enumerate(ens_plugin.split_outputs(model)):
        expected = analyzed(alone, y[:, output], metric)
        np.testing.assert_array_equal(report.outputs[str(output)].error_curve.error, expected.error_curve.error)
        assert report.outputs[str(output)].recommended_size == expected.recommended_size


@pytest.mark.slow
@pytest.mark.parametrize(("y", "metric"), KINDS)
def test_the_mean_is_that_of_the_outputs_on_held_out_rows(y: Any, metric: str) -> None:
    model = fitted(y)
    report = ens_plugin.analyze(model, X[FRESH], y[FRESH], data="holdout", metric=metric)
    found = model.predict(X[FRESH]) if y is VALUES else [own[:, 1] for own in model.predict_proba(X[FRESH])]
    scores = [
        -mean_absolute_error(y[FRESH, output], found[:, output])
        if y is VALUES
        else roc_auc_score(y[FRESH, output], found[output])
        for output in range(2)
    ]
    assert report.error_curve.metric == metric
    assert report.error == pytest.approx(np.mean(scores), abs=1e-9)
    assert report.recommendation.criterion == "metric"
    curves = [own.error_curve.error for own in report.outputs.values()]
    np.testing.assert_allclose(report.error_curve.error, np.mean(curves, axis=0), rtol=1e-12)
    low, high = report.error_interval
    assert low < report.error < high


@pytest.mark.slow
def test_two_equal_outputs_have_the_interval_of_one() -> None:
    """What outputs of a row have in common is counted once."""
    twice = np.repeat(VALUES[:, 1:], 2, axis=1)
    model = RandomForestRegressor(**FOREST).fit(X[TRAINED], twice[TRAINED])
    report = analyzed(model, twice, "neg_mean_absolute_error")
    one = report.outputs["0"].error_interval
    assert np.diff(report.error_interval) == pytest.approx(np.diff(one), rel=0.15)
    (low, high), (own_low, own_high) = (found.recommendation.interval for found in (report, report.outputs["0"]))
    assert low == pytest.approx(own_low, rel=0.3)
    assert (high or math.inf) == pytest.approx(own_high or math.inf, rel=0.3)


@pytest.mark.slow
def test_a_function_of_the_user_s_gets_the_labels_as_given() -> None:
    words = np.where(LABELS == 1, "yes", "no")
    model = RandomForestClassifier(**FOREST).fit(X[TRAINED], words[TRAINED])
    found: set[str] = set()

    def brier(y: Any, mean_output: Any) -> float:
        found.update(y)
        return float(np.mean((mean_output[:, 1] - (y == "yes")) ** 2))

    report = analyzed(model, words, brier)
    assert found == {"yes", "no"}
    levels = [own.error_curve.asymptote for own in report.outputs.values()]
    assert report.error_curve.asymptote == pytest.approx(np.mean(levels), rel=1e-12)
