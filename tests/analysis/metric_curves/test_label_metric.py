"""Metrics of two labels from the expected confusion matrix, against exact values and simulated ensembles."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import balanced_accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

from ens_plugin import CustomEnsemble, analyze
from tests.forests import Array, cancer
from tests.scorers import ACCURACY


def votes(seed: int, n_rows: int = 3000, n_members: int = 60, share: float = 0.15) -> tuple[Any, Array, Array]:
    """Independent votes with a known chance of each row to get the second label; a rare second label."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < share).astype(int)
    chance = np.where(y == 1, rng.beta(3.0, 2.0, n_rows), rng.beta(1.2, 6.0, n_rows))
    outputs = (rng.random((n_members, n_rows)) < chance).astype(np.int8)
    return CustomEnsemble(outputs, None, aggregation="vote", classes=[0, 1]), y, chance


def exact(name: str, y: Array, chance: Array, size: float) -> float:
    """The metric of the expected confusion matrix of independent votes, of which ties are for the first label."""
    predicted = chance > 0.5 if np.isinf(size) else binom.sf(size // 2, size, chance)
    truth, label = np.repeat(y, 2), np.tile([0, 1], y.size)
    weight = np.stack([1.0 - predicted, predicted], axis=1).ravel()
    function = {"f1": f1_score, "matthews_corrcoef": matthews_corrcoef, "balanced_accuracy": balanced_accuracy_score}
    return float(function[name](truth, label, sample_weight=weight))


@pytest.mark.parametrize(
    "name", ["balanced_accuracy", *(pytest.param(name, marks=pytest.mark.slow) for name in ("f1", "matthews_corrcoef"))]
)
def test_curve_is_that_of_independent_votes(name: str) -> None:
    ensemble, y, chance = votes(0)
    curve = analyze(ensemble, None, y, metric=name, data="holdout").error_curve
    assert curve.estimator == "deconvolved"
    for size in (1, 15, 60 - 1, 301, np.inf):
        assert curve.at(size) == pytest.approx(exact(name, y, chance, size), abs=0.02), size
    low, high = curve.asymptote_interval
    assert low < exact(name, y, chance, np.inf) < high


@pytest.mark.fast_cases("balanced_accuracy-0")
@pytest.mark.parametrize("n_right", [0, 1])
@pytest.mark.parametrize("name", ["balanced_accuracy", "matthews_corrcoef", "f1_macro"])
def test_an_interval_has_a_width_where_hardly_a_rare_row_is_right(name: str, n_right: int) -> None:
    """No row of 40 is right, and up to one in ten of the population may be: 0.9**40 = 0.015."""
    y = np.repeat([1, 0], [40, 560])
    outputs = np.tile(np.where(np.arange(600) < n_right, 1, 0).astype(np.int8), (30, 1))
    outputs[0] = 1 - outputs[0]
    ensemble = CustomEnsemble(outputs, None, aggregation="vote", classes=[0, 1])
    curve = analyze(ensemble, None, y, metric=name, data="holdout").error_curve
    low, high = curve.asymptote_interval
    function = {
        "balanced_accuracy": balanced_accuracy_score,
        "matthews_corrcoef": matthews_corrcoef,
        "f1_macro": partial(f1_score, average="macro"),
    }[name]
    possible = function(np.repeat([1, 1, 0], [3, 97, 1400]), np.repeat([1, 0, 0], [3, 97, 1400]))
    assert low < possible < high
    assert high - low < 0.6


@pytest.mark.fast_cases("False")
@pytest.mark.parametrize("weighted", [False, True])
def test_accuracy_is_what_the_error_leaves(weighted: bool) -> None:
    forest, X, y = cancer()
    weight = np.where(y == 1, 4.0, 1.0) if weighted else None
    accuracy = analyze(forest, X, y, metric=ACCURACY, sample_weight=weight).error_curve
    error = analyze(forest, X, y, sample_weight=weight).error_curve
    for size in (5, 51, 501, np.inf):
        assert accuracy.at(size) == pytest.approx(1.0 - error.at(size), abs=2e-4)
    for size in (1, 11, 101):
        assert accuracy.at(size) == pytest.approx(1.0 - error.at(size), abs=0.003)


def test_a_perfect_ranking_is_no_metric_of_labels() -> None:
    """Where all labels are right, the area of the probabilities is that of the labels, but not at smaller sizes."""
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 60)
    proba = np.clip(0.2 + 0.6 * y + rng.normal(0.0, 0.3, (40, 120)), 0.0, 1.0)
    ensemble = CustomEnsemble(np.stack([1.0 - proba, proba], axis=2), None, aggregation="mean_proba")
    curve = analyze(ensemble, None, y, metric="roc_auc", data="holdout").error_curve
    assert curve.asymptote == pytest.approx(1.0)
    assert curve.estimator == "subset_average"
    assert curve.at(1) == pytest.approx(np.mean([roc_auc_score(y, each) for each in proba]), abs=0.01)
