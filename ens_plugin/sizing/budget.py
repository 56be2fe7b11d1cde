"""Bytes and times of a trained ensemble, measured, and the ensemble cut to what limits on them allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from statistics import median, quantiles
from typing import Any

from ens_plugin.adapters.members import model_errors, reason_of
from ens_plugin.adapters.registry import find_adapter, find_library
from ens_plugin.adapters.unwrap import inner_ensemble, output_count, output_ensemble, replace_ensemble
from ens_plugin.errors import EnsPluginError, InputError, UnsupportedModelError, ends_at_caller
from ens_plugin.report.budget import check_limits
from ens_plugin.report.result import Costs, LinearCost
from ens_plugin.report.text import bytes_text, seconds_text
from ens_plugin.sizing.truncate import alternating, first_of, first_rows, pickled_bytes, seconds_of

__all__ = ["allowed_size", "measure_costs"]

BATCH_ROWS = 1000
# A request of one row takes microseconds to milliseconds, and its quartiles take some rounds.
REQUESTS, BATCHES = 31, 5


@ends_at_caller
def measure_costs(model: Any, X: Any, *, explain: Callable[[Any], object] | None = None) -> Costs:
    """Measure the bytes of a trained ensemble and the time of its predictions, as functions of its size.

    The ensemble and a copy of its first member are pickled, and predict the same rows in turns: a request of one row
    31 times, and up to 1000 rows at once five times.  Both costs are linear in the number of members.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.truncate`.
    X : array-like
        Rows in the form that ``predict`` takes; the first 1000 are used.
    explain : callable, optional
        ``explain(row)`` explains the prediction of one row, such as ``shap.TreeExplainer(forest).shap_values``.  It
        takes time in proportion to the members, as exact SHAP values do.

    Returns
    -------
    Costs

    Raises
    ------
    InputError
        If X has no rows, is of a kind whose rows cannot be taken, or the model's ``predict`` or `explain` fails on it.
    UnsupportedModelError
        If no adapter accepts the model, its adapter cannot truncate, or it has no ``predict``.

    Notes
    -----
    Times are those of this machine, as busy as it is.  Of a search or a right-sized estimator, the costs are
    those of the ensemble in it, as :func:`ens_plugin.truncate` returns it.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> costs = ens_plugin.measure_costs(forest, X)
    >>> costs.bytes.per_member < costs.bytes.at(50) / 50
    True
    """
    rows = first_rows(X, BATCH_ROWS)
    n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    if not n_rows:
        raise InputError("X has no rows to predict; pass one or more.")
    n_members, one, whole = _member_count(model), first_of(model, 1), _as_cut(model)
    if not hasattr(whole, "predict"):
        raise UnsupportedModelError(
            f"This {type(whole).__name__} has no predict whose time could be measured. "
            "ens_plugin.truncate with max_bytes alone needs none."
        )
    requests = [rows[place : place + 1] for place in range(min(n_rows, REQUESTS))]
    return Costs(
        n_members=n_members,
        bytes=_linear(pickled_bytes(one), pickled_bytes(whole), n_members),
        latency=_predicting(one, whole, requests, REQUESTS, n_members),
        row_seconds=_scaled(_predicting(one, whole, [rows], BATCHES, n_members), n_rows),
        batch_rows=n_rows,
        explain_seconds=None if explain is None else _explaining(explain, requests[0], n_members),
    )


def _member_count(model: Any) -> int:
    with model_errors(model):
        ensemble = inner_ensemble(model)
        several = output_count(ensemble) > 1
        return find_adapter(output_ensemble(ensemble, 0) if several else ensemble).n_members


def _as_cut(model: Any) -> Any:
    """Return the model in the form in which it is cut, with all members; of a search, its best estimator."""
    return replace_ensemble(model, lambda ensemble: ensemble)


def _predicting(one: Any, whole: Any, requests: list[Any], n_rounds: int, n_members: int) -> LinearCost:
    """Return the seconds of ``predict`` for each of some requests, by those of one member and of all."""
    calls = [_calls(model, requests) for model in (one, whole)]
    with _refused_rows(f"the predict of this {type(whole).__name__}", "rows in the form that it takes"):
        for call in calls:
            # The first call may import modules and start threads.
            call()
        of_one, of_all = alternating(calls[0], calls[1], n_rounds)
    return _linear(median(of_one), median(of_all), n_members, _spread(of_all))


@contextmanager
def _refused_rows(what: str, wanted: str) -> Iterator[None]:
    """Raise InputError in place of any exception of another library that a prediction or explanation raises."""
    try:
        yield
    except EnsPluginError:
        raise
    except Exception as error:  # a model or a user's function may raise anything
        raise InputError(
            f"The time cannot be measured: {what} failed on X ({reason_of(error)}). Pass {wanted}."
        ) from error


def _calls(model: Any, requests: list[Any]) -> Callable[[], object]:
    predict, in_turn = find_library(model).predict, cycle(requests)
    return lambda: predict(model, next(in_turn))


def _explaining(explain: Callable[[Any], object], row: Any, n_members: int) -> LinearCost:
    with _refused_rows("explain", "a function of one row of X, in the form in which X came"):
        explain(row)
        took = [seconds_of(lambda: explain(row)) for _ in range(BATCHES)]
    return LinearCost(0.0, median(took) / n_members, _spread(took))


def _linear(of_one: float, of_all: float, n_members: int, spread: float = 0.0) -> LinearCost:
    """Return the cost that is `of_all` for all members and `of_one` for one, with neither of its parts below 0."""
    if n_members == 1:
        return LinearCost(0.0, of_all, spread)
    per_member = min(max((of_all - of_one) / (n_members - 1), 0.0), of_all / n_members)
    return LinearCost(of_all - n_members * per_member, per_member, spread)


def _scaled(cost: LinearCost, n_rows: int) -> LinearCost:
    return LinearCost(cost.fixed / n_rows, cost.per_member / n_rows, cost.spread)


def _spread(seconds: list[float]) -> float:
    lower, middle, upper = quantiles(seconds, n=4, method="inclusive")
    return (upper - lower) / (2.0 * middle) if middle else 0.0


def allowed_size(model: Any, X: Any, max_bytes: float | None, max_latency: float | None) -> int:
    """Return the most members of an ensemble, all of them at most, that have no more bytes and latency."""
    check_limits(max_bytes, max_latency)
    size = _member_count(model)
    if max_latency is not None:
        size = min(size, _fast_size(model, X, max_latency))
    return size if max_bytes is None else _small_size(model, size, max_bytes)


def _fast_size(model: Any, X: Any, max_latency: float) -> int:
    if X is None:
        raise InputError("max_latency is the time of a request of one row, which is measured on yours: pass X, rows.")
    latency = measure_costs(model, X).latency
    size = latency.largest_size(max_latency)
    if not size:
        raise InputError(
            f"A latency of {seconds_text(max_latency)} allows not even one member, which takes "
            f"{seconds_text(latency.at(1))} for one row. Allow more, or train smaller members."
        )
    return size


def _small_size(model: Any, most: int, max_bytes: float) -> int:
    """Return how many members, at most `most`, are pickled in `max_bytes`, by interpolation between measured sizes."""
    high, high_bytes = most, pickled_bytes(first_of(model, most))
    if high_bytes <= max_bytes:
        return most
    low, low_bytes = 1, pickled_bytes(first_of(model, 1))
    if low_bytes > max_bytes:
        raise InputError(
            f"{bytes_text(max_bytes)} allow not even one member, which takes {bytes_text(low_bytes)}, pickled. Allow "
            "more, or train smaller members."
        )
    while high - low > 1:
        share = (max_bytes - low_bytes) / (high_bytes - low_bytes)
        size = min(max(low + int(share * (high - low)), low + 1), high - 1)
        size_bytes = pickled_bytes(first_of(model, size))
        if size_bytes <= max_bytes:
            low, low_bytes = size, size_bytes
        else:
            high, high_bytes = size, size_bytes
    return low
