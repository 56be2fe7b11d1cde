"""A metric of several outputs: that of each output as alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

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
def test_a_function_of_the_user_s_gets_the_labels_as_given() -> None:
    words = np.where(LABELS == 1, "yes", "no")
    model = RandomForestClassifier(**FOREST).fit(X[TRAINED], words[TRAINED])
    found: set[str] = set()

    def brier(y: Any, mean_output: Any) -> float:
        found.update(y)
        return float(np.mean((mean_output[:, 1] - (y == "yes")) ** 2))

    report = analyzed(model, words, brier)
    assert found == {"yes", "no"}
    assert report.error == max(own.error for own in report.outputs.values())
