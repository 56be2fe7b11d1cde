"""The metric that a user named or passed, checked against the ensemble."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import JudgedByLoss
from ens_plugin.analysis.metrics.positive_label import resolve_scorer_of_label, with_positive_label
from ens_plugin.analysis.metrics.resolved import ResolvedMetric, accepts_weights
from ens_plugin.analysis.metrics.scorers import RANKED, RANKINGS, has_greatest, is_scorer, resolve_scorer, scorer_called
from ens_plugin.analysis.options import Metric, ScorerOfLabel
from ens_plugin.core.validation import one_line, shown
from ens_plugin.errors import InputError

__all__ = ["check_metric", "resolve_metric"]


def resolve_metric(
    metric: Metric | None, adapter: EnsembleAdapter, y: ArrayLike | None = None
) -> ResolvedMetric | None:
    """Return the metric that a user named or passed, ready to be computed from y and mean outputs.

    For None, the loss of an ensemble that is judged by a loss of its own; None for any other ensemble.

    Parameters
    ----------
    metric : str, scorer, ScorerOfLabel, callable or None
        As for :func:`ens_plugin.analyze`.
    adapter : EnsembleAdapter
        Of the ensemble that it will be computed for.
    y : array-like of shape (n_rows,), optional
        Target of the rows, whose rarer label is the positive one of a scorer that needs one.

    Raises
    ------
    InputError
        If it is neither, no scorer has that name, the scorer is for the other task, or it needs a positive label and
        `y` is not given.
    """
    check_metric(metric)
    if metric is None:
        return _own(adapter.loss, adapter.loss_name) if isinstance(adapter, JudgedByLoss) else None
    kind = _outputs_of(adapter)
    if isinstance(metric, ScorerOfLabel):
        return resolve_scorer_of_label(metric, adapter.classes, kind)
    if isinstance(metric, str) or is_scorer(metric):
        name, scorer = (metric, scorer_called(metric)) if isinstance(metric, str) else (None, metric)
        found = resolve_scorer(name, scorer, adapter.classes, kind)
        if adapter.classes is None or len(adapter.classes) != 2:
            return found
        return with_positive_label(found, metric, adapter.classes, kind, y)
    name = getattr(metric, "__name__", None)
    if has_greatest(metric):
        raise InputError(
            f"metric={name} is a function, and lower values of a function are taken as better, but greater values of "
            f"this one are better. Pass its name as in sklearn.metrics.get_scorer_names(), or make_scorer({name}"
            f"{RANKED if name in RANKINGS else ''})."
        )
    return _own(metric, one_line(name if isinstance(name, str) else type(metric).__name__))


def check_metric(metric: object) -> None:
    """Raise InputError for what is neither the name of a scorer of scikit-learn, nor a callable, nor None."""
    if isinstance(metric, str | ScorerOfLabel):
        name = metric if isinstance(metric, str) else metric.scorer
        if isinstance(name, str):
            scorer_called(name)
    elif metric is not None and not callable(metric):
        raise InputError(
            "metric must be the name of a scorer of scikit-learn, a scorer, a callable (y, mean_output) -> float, or "
            f"None, got {shown(metric)}."
        )


def _outputs_of(adapter: EnsembleAdapter) -> str:
    if adapter.info.aggregation == "vote":
        return "labels"
    has_no_link = type(adapter).inverse_link is EnsembleAdapter.inverse_link
    return "scores" if adapter.output_kind == "scores" and has_no_link else "probabilities"


def _own(function: Callable[..., float], name: str) -> ResolvedMetric:
    """Return a function that is no scorer as a metric; lower is better."""

    def evaluate(target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return function(target, mean) if weight is None else function(target, mean, sample_weight=weight)

    return ResolvedMetric(
        name=name,
        evaluate=evaluate,
        greater_is_better=False,
        lowest=-inf,
        highest=inf,
        is_absolute=False,
        takes_weights=accepts_weights(function),
    )
