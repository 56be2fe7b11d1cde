"""Metrics of labels on confusion matrices: the formulas have the values of scikit-learn's scorers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    cohen_kappa_score,
    f1_score,
    fbeta_score,
    get_scorer,
    jaccard_score,
    make_scorer,
    matthews_corrcoef,
    precision_score,
    recall_score,
    zero_one_loss,
)

from ens_plugin import CustomEnsemble
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.formulas import scored_matrix
from ens_plugin.analysis.metric_rows import metric_rows
from ens_plugin.analysis.metrics import resolve_metric, resolve_scorer
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock

Array = NDArray[Any]

BINARY = ("f1", "precision", "recall", "jaccard")
AVERAGED = tuple(f"{name}_{kind}" for name in BINARY for kind in ("macro", "weighted", "micro"))
NAMED = ("accuracy", "balanced_accuracy", "matthews_corrcoef")
OTHERS = {
    "kappa": make_scorer(cohen_kappa_score),
    "linear kappa": make_scorer(cohen_kappa_score, weights="linear"),
    "quadratic kappa": make_scorer(cohen_kappa_score, weights="quadratic"),
    "F2": make_scorer(fbeta_score, beta=2, average="macro"),
    "F3": make_scorer(fbeta_score, beta=3, average="micro"),
    "F0.5": make_scorer(fbeta_score, beta=0.5, average="weighted"),
    "adjusted": make_scorer(balanced_accuracy_score, adjusted=True),
    "error": make_scorer(zero_one_loss, greater_is_better=False),
}


def formula_of(scorer: Any, classes: Array) -> Any:
    """The formula of a scorer as a function of the confusion matrix, or None; and the scorer as a metric."""
    metric = resolve_scorer("metric", scorer, classes, "probabilities")
    return None if metric.formula is None else metric.formula.matrix, metric


def matrices(n_labels: int) -> list[Array]:
    rng = np.random.default_rng(1)
    found = [rng.poisson(rng.gamma(0.3, 20.0, (n_labels, n_labels))).astype(float) for _ in range(30)]
    for matrix in found:
        # Every label has a row, as in the samples that metrics are computed on.
        matrix[np.arange(n_labels), rng.integers(n_labels, size=n_labels)] += 1.0
    return found


def rows_of(matrix: Array) -> tuple[Array, Array]:
    truth, predicted = np.indices(matrix.shape).reshape(2, -1)
    counts = matrix.ravel().astype(int)
    return np.repeat(truth, counts), np.repeat(predicted, counts)


@pytest.mark.filterwarnings("ignore")  # of scikit-learn, about labels that nothing is predicted to be
@pytest.mark.parametrize(
    ("name", "n_labels"), [*product(BINARY, [2]), *product([*AVERAGED, *NAMED, *OTHERS], [2, 3, 7])]
)
def test_a_formula_is_found_and_has_the_values_of_the_scorer(name: str, n_labels: int) -> None:
    classes = (
        np.arange(n_labels) if "label" in name or n_labels == 2 else np.array([f"label {k}" for k in range(n_labels)])
    )
    value, metric = formula_of(OTHERS.get(name) or get_scorer(name), classes)
    for matrix in matrices(n_labels):
        truth, predicted = rows_of(matrix)
        expected = metric.value(classes[truth], np.eye(n_labels)[predicted])
        assert value(matrix) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "scorer",
    [
        make_scorer(precision_score, zero_division=1.0),
        make_scorer(lambda y, p, sample_weight=None: float(np.average((y == p) * (1 + y), weights=sample_weight))),
        make_scorer(f1_score, labels=[1]),
    ],
)
def test_without_a_formula_the_scorer_itself_is_called(scorer: Any) -> None:
    classes = np.array([0, 1])
    value, metric = formula_of(scorer, classes)
    assert value is None
    found = scored_matrix(metric.value, classes)(np.array([[30.0, 4.0], [6.0, 9.0]]))
    truth, predicted = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    assert found == scorer._score_func(
        truth, predicted, sample_weight=np.array([30.0, 4.0, 6.0, 9.0]), **scorer._kwargs
    )


@pytest.mark.parametrize(
    "function", [accuracy_score, f1_score, jaccard_score, matthews_corrcoef, precision_score, recall_score]
)
def test_a_matrix_on_which_a_metric_has_no_spread_has_its_value_of_scikit_learn(function: Any) -> None:
    classes = np.array([0, 1])
    value, _ = formula_of(make_scorer(function), classes)
    for matrix in (np.diag([5.0, 3.0]), np.array([[5.0, 0.0], [3.0, 0.0]]), np.array([[0.0, 5.0], [0.0, 3.0]])):
        truth, predicted = rows_of(matrix)
        options = {} if function in (accuracy_score, matthews_corrcoef) else {"zero_division": 0.0}
        assert value(matrix) == pytest.approx(function(truth, predicted, **options), abs=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_mean_of_gains_is_read_from_single_rows_and_another_function_is_not_taken_for_one() -> None:
    classes, gains = np.array(["a", "b", "c"]), np.array([[3.0, -1.0, 0.0], [-5.0, 2.0, 0.5], [0.0, 0.0, 1.0]])
    rng = np.random.default_rng(0)
    y, outputs = classes[np.arange(60) % 3], rng.dirichlet(np.ones(3), (9, 60))
    adapter = find_adapter(CustomEnsemble(outputs, None, aggregation="mean_proba", classes=classes))
    sample = Sample(RowBlock(outputs, np.ones((9, 60), dtype=bool), np.arange(60) % 3, 3), np.arange(60), np.ones(60))

    def profit(truth: Array, predicted: Array) -> float:
        return float(gains[np.searchsorted(classes, truth), np.searchsorted(classes, predicted)].mean())

    def recall(truth: Array, predicted: Array) -> float:
        return float(np.mean([(predicted[truth == label] == label).mean() for label in classes]))

    found = {}
    for function in (profit, recall):
        metric = resolve_metric(make_scorer(function), adapter)
        found[function] = metric_rows(metric, adapter, sample, y).matrix
    matrix = rng.random((3, 3))
    assert found[profit](matrix) == pytest.approx((gains * matrix).sum() / matrix.sum())
    assert found[recall] is None
