"""Formulas of metrics, against scikit-learn and against averages over all subsets of the members."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    get_scorer,
    log_loss,
    make_scorer,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    roc_auc_score,
)

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.metrics import resolve_metric
from tests.forests import Array

N = 150
PINBALL = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.8)
OF_TWO = ["roc_auc", "average_precision", "neg_log_loss", "neg_brier_score"]
OF_MORE = ["roc_auc_ovr", "neg_log_loss", "average_precision"]
OF_VALUES: list[Any] = [
    "r2", "neg_mean_squared_error", "neg_root_mean_squared_error", "neg_mean_absolute_error",
    "neg_mean_poisson_deviance", "neg_mean_squared_log_error", PINBALL, mean_squared_error, mean_absolute_error,
]  # fmt: skip


def of_labels(n_labels: int, seed: int = 0) -> tuple[Any, Array, Array]:
    """An ensemble of probabilities, the labels of its rows, and mean probabilities with many equal ones."""
    rng = np.random.default_rng(seed)
    y = np.append(np.arange(n_labels), rng.integers(0, n_labels, N - n_labels))
    proba = rng.dirichlet(np.ones(n_labels), N)
    proba[:, 0] = np.round(proba[:, 0], 1)
    proba[:, 1] += 1.0 - proba.sum(axis=1)
    proba = np.clip(proba + 0.2 * np.eye(n_labels)[y], 0.0, None)
    proba /= proba.sum(axis=1, keepdims=True)
    return CustomEnsemble(np.stack([proba, proba]), None, aggregation="mean_proba"), y, proba


def of_values() -> tuple[Any, Array, Array]:
    rng = np.random.default_rng(1)
    y = rng.poisson(3.0, N).astype(np.float64)
    values = np.maximum(y + rng.normal(0.0, 1.5, N), 0.3)
    return CustomEnsemble(np.stack([values, values]), None, aggregation="mean"), y, values


def assert_same(problem: tuple[Any, Array, Array], name: Any, *, weighted: bool) -> None:
    """The formula is the metric on other outputs, and on rows that count several times."""
    ensemble, y, output = problem
    metric = resolve_metric(name, find_adapter(ensemble))
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.5, 3.0, N) if weighted else None
    for out in (output, output[rng.permutation(N)], np.full_like(output, output[0])):
        counts = rng.integers(0, 3, N)
        counts[:5] = 1
        rows = np.repeat(np.arange(N), counts)
        right = metric.value(y[rows], out[rows], None if weight is None else weight[rows])
        found = metric.formula.formula(y, out)(counts * (1.0 if weight is None else weight))
        assert found == pytest.approx(right, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", OF_TWO)
def test_formula_of_two_labels_is_the_metric(name: str, weighted: bool) -> None:
    assert_same(of_labels(2), name, weighted=weighted)


@pytest.mark.parametrize("name", OF_MORE)
def test_formula_of_more_labels_is_the_metric(name: str) -> None:
    assert_same(of_labels(4), name, weighted=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", OF_VALUES, ids=lambda name: getattr(name, "__name__", str(name)))
def test_formula_of_values_is_the_metric(name: Any, weighted: bool) -> None:
    assert_same(of_values(), name, weighted=weighted)


@pytest.mark.parametrize(
    "metric",
    [
        lambda y, p: float(log_loss(y, p)),
        make_scorer(roc_auc_score, response_method="predict_proba", max_fpr=0.5),
        "roc_auc_ovo",
        "top_k_accuracy",
    ],
)
def test_functions_of_a_users_own_and_other_options_have_no_formula(metric: Any) -> None:
    resolved = resolve_metric(metric, find_adapter(of_labels(2 if callable(metric) else 4)[0]))
    assert resolved.formula is None


def brier(y: Array, mean: Array) -> float:
    return float(np.mean((np.eye(3)[y] - mean) ** 2))


def members(metric: Callable[[Array, Array], float]) -> tuple[Any, Array, Array]:
    """Eight members, their outputs, and labels or values of 40 rows."""
    rng = np.random.default_rng(3)
    if metric is brier:
        outputs = rng.dirichlet(np.ones(3), (8, 40))
        return CustomEnsemble(outputs, None, aggregation="mean_proba"), outputs, rng.integers(0, 3, 40)
    outputs = rng.normal(size=(8, 40))
    return CustomEnsemble(outputs, None, aggregation="mean"), outputs, rng.normal(size=40)


def over_subsets(metric: Callable[[Array, Array], float], outputs: Array, y: Array, size: int) -> list[float]:
    return [metric(y, outputs[list(chosen)].mean(axis=0)) for chosen in combinations(range(8), size)]


def test_a_squared_error_of_scikit_learn_is_averaged_over_all_subsets() -> None:
    ensemble, outputs, y = members(mean_squared_error)
    curve = analyze(ensemble, None, y, metric=mean_squared_error, data="holdout").error_curve
    for size in (1, 2, 4, 8):
        assert curve.at(size) == pytest.approx(np.mean(over_subsets(mean_squared_error, outputs, y, size)), rel=1e-9)
    one, all_members = curve.at(1), curve.at(8)
    assert curve.asymptote == pytest.approx(all_members - (one - all_members) / 7.0, rel=1e-9)


def test_a_function_of_a_users_own_is_averaged_over_some_subsets() -> None:
    """Of 30 orders of the members; up to four standard errors of their mean."""
    ensemble, outputs, y = members(brier)
    curve = analyze(ensemble, None, y, metric=brier, data="holdout").error_curve
    for size in (1, 2, 4, 8):
        exact = over_subsets(brier, outputs, y, size)
        assert curve.at(size) == pytest.approx(np.mean(exact), abs=4.0 * np.std(exact) / np.sqrt(30) + 1e-12)


@pytest.mark.fast_cases("accuracy-4", "neg_brier_score-4")
@pytest.mark.parametrize(
    ("name", "most"), [("neg_brier_score", 4), ("roc_auc", 4), ("neg_log_loss", 4), ("accuracy", 4)]
)
def test_few_evaluations_are_needed(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, y, _ = of_labels(2)
    rng = np.random.default_rng(4)
    proba = rng.dirichlet([2.0, 2.0], (20, N))
    many = CustomEnsemble(proba, None, aggregation="mean_proba")
    large: list[int] = []
    scorer = get_scorer(name)
    function = scorer._score_func

    def counted(truth: Array, *args: Any, **options: Any) -> float:
        large.append(len(truth))
        return float(function(truth, *args, **options))

    counted.__name__, counted.__module__ = function.__name__, function.__module__
    counted.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    monkeypatch.setattr(scorer, "_score_func", counted)
    analyze(many, None, y, metric=scorer, data="holdout")
    assert sum(n >= N for n in large) <= most
