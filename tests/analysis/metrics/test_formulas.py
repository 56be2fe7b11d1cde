"""Formulas of metrics, against scikit-learn and against averages over all subsets of the members."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import (
    get_scorer,
    get_scorer_names,
    log_loss,
    make_scorer,
    mean_absolute_error,
    mean_pinball_loss,
    mean_squared_error,
    roc_auc_score,
)

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.metrics import find_formula, resolve_metric
from ens_plugin.errors import InputError
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
    assert metric is not None
    found = find_formula(metric, y, y, output, weight)
    assert found is not None
    other = output[rng.permutation(N)]
    for out in (output, other, np.full_like(output, output[0])):
        counts = rng.integers(0, 3, N)
        counts[:5] = 1
        rows = np.repeat(np.arange(N), counts)
        right = metric.value(y[rows], out[rows], None if weight is None else weight[rows])
        assert found[0](y, out)(counts * (1.0 if weight is None else weight)) == pytest.approx(
            right, rel=1e-9, abs=1e-12
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", OF_TWO)
def test_formula_of_two_labels_is_the_metric(name: str, weighted: bool) -> None:
    assert_same(of_labels(2), name, weighted=weighted)


@pytest.mark.parametrize("name", OF_MORE)
def test_formula_of_more_labels_is_the_metric(name: str) -> None:
    # Its value of weighted rows is no mean over labels where scikit-learn takes no weights.
    assert_same(of_labels(4), name, weighted=name != "average_precision")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", OF_VALUES, ids=lambda name: getattr(name, "__name__", str(name)))
def test_formula_of_values_is_the_metric(name: Any, weighted: bool) -> None:
    assert_same(of_values(), name, weighted=weighted)


def clipped(y: Array, p: Array) -> float:
    return float(log_loss(y, np.clip(p, 0.05, 0.95)))


def partial_area(y: Array, p: Array) -> float:
    return -float(roc_auc_score(y, p[:, 1], max_fpr=0.5))


def huber(y: Array, mean: Array) -> float:
    apart = np.abs(y - mean)
    return float(np.mean(np.where(apart < 1.0, apart**2 / 2.0, apart - 0.5)))


@pytest.mark.parametrize("metric", [clipped, partial_area, "balanced_accuracy", "f1", "roc_auc_ovr_weighted"])
def test_other_metrics_of_labels_have_no_formula(metric: Any) -> None:
    """The area over labels by weight is that of two labels, and has the formula of it."""
    ensemble, y, output = of_labels(2)
    resolved = resolve_metric(metric, find_adapter(ensemble))
    assert resolved is not None
    found = find_formula(resolved, y, y, output, None)
    assert (found is None) == (metric != "roc_auc_ovr_weighted")


@pytest.mark.parametrize("metric", [huber, "neg_median_absolute_error", "neg_max_error", "explained_variance"])
def test_other_metrics_of_values_have_no_formula(metric: Any) -> None:
    if isinstance(metric, str) and metric not in get_scorer_names():
        pytest.skip(f"this release of scikit-learn has no {metric}")
    ensemble, y, output = of_values()
    resolved = resolve_metric(metric, find_adapter(ensemble))
    assert resolved is not None
    assert find_formula(resolved, y, y, output, None) is None


def test_perfect_outputs_do_not_confuse_metrics() -> None:
    """Where every row is right, the area, the precision and the accuracy are all 1."""
    ensemble, y, _ = of_labels(2)
    perfect = np.eye(2)[y]
    rng = np.random.default_rng(0)
    out = rng.dirichlet([1.0, 1.0], N)
    for name in ("roc_auc", "average_precision"):
        metric = resolve_metric(name, find_adapter(ensemble))
        assert metric is not None
        found = find_formula(metric, y, y, perfect, None)
        assert found is not None
        assert found[0](y, out)(np.ones(N)) == pytest.approx(metric.value(y, out))


def squared(y: Array, mean: Array) -> float:
    return float(np.mean((y - mean) ** 2))


def brier(y: Array, mean: Array) -> float:
    return float(np.mean((np.eye(3)[y] - mean) ** 2))


@pytest.mark.fast_cases("squared")
@pytest.mark.parametrize("metric", [squared, brier])
def test_squared_errors_are_averaged_over_all_subsets(metric: Callable[[Array, Array], float]) -> None:
    rng = np.random.default_rng(3)
    n_members, n_rows = 8, 40
    y = rng.normal(size=n_rows) if metric is squared else rng.integers(0, 3, n_rows)
    outputs = (
        rng.normal(size=(n_members, n_rows)) if metric is squared else rng.dirichlet(np.ones(3), (n_members, n_rows))
    )
    ensemble = CustomEnsemble(outputs, None, aggregation="mean" if metric is squared else "mean_proba")
    curve = analyze(ensemble, None, y, metric=metric, data="holdout").error_curve
    for size in (1, 2, 4, 8):
        subsets = [metric(y, outputs[list(chosen)].mean(axis=0)) for chosen in combinations(range(n_members), size)]
        assert curve.at(size) == pytest.approx(np.mean(subsets), rel=1e-9)
    one, all_members = curve.at(1), curve.at(8)
    assert curve.asymptote == pytest.approx(all_members - (one - all_members) / 7.0, rel=1e-9)


@pytest.mark.fast_cases("accuracy-20", "neg_brier_score-4")
@pytest.mark.parametrize(
    ("name", "most"), [("neg_brier_score", 4), ("roc_auc", 4), ("neg_log_loss", 4), ("accuracy", 20)]
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


def test_equal_confusion_matrices_are_evaluated_once() -> None:
    """Of three rows of a rare label, most samples of the rows have a matrix that others had."""
    calls: Counter[tuple[bytes, ...]] = Counter()

    def recall(truth: Array, predicted: Array, sample_weight: Array | None = None) -> float:
        weight = np.ones(truth.size) if sample_weight is None else sample_weight
        calls[truth.tobytes(), predicted.tobytes(), weight.tobytes()] += 1
        return float(np.average(predicted[truth == 1] == 1, weights=weight[truth == 1]))

    y = np.repeat([1, 0], [3, 60])
    votes = (np.random.default_rng(0).random((15, y.size)) < 0.2 + 0.5 * y).astype(int)
    analyze(CustomEnsemble(votes, None, aggregation="vote"), None, y, metric=make_scorer(recall), data="holdout")
    # Some before it is known that the metric is one of labels.
    assert calls.total() < len(calls) + 10


def test_a_poisson_deviance_is_refused_where_some_subsets_predict_0() -> None:
    rng = np.random.default_rng(0)
    y = rng.poisson(1.0, 60).astype(float)
    outputs = np.maximum(rng.poisson(1.0, (40, 60)), np.arange(40)[:, None] % 4 == 0)  # no row has 0 from all members
    model = CustomEnsemble(outputs, None, aggregation="mean")
    with pytest.raises(InputError, match="The Poisson deviance has no value where 0 is predicted"):
        analyze(model, None, y, metric="neg_mean_poisson_deviance", data="holdout")
    analyze(model, None, y, metric="neg_mean_absolute_error", data="holdout", max_size=101)
