"""Bytes and times of a trained ensemble, measured, and the ensemble cut to what limits on them allow."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from itertools import cycle
from numbers import Integral
from statistics import median, quantiles
from typing import Any

from ens_plugin.adapters.members import model_errors, reason_of
from ens_plugin.adapters.registry import find_adapter, find_library
from ens_plugin.adapters.unwrap import first_members, inner_ensemble, output_count, output_ensemble, replace_ensemble
from ens_plugin.core.validation import refuse_lazy, shown
from ens_plugin.errors import EnsPluginError, InputError, UnsupportedModelError, ends_at_caller
from ens_plugin.report.budget import check_limits
from ens_plugin.report.result import Costs, LinearCost
from ens_plugin.report.text import bytes_text, seconds_text

# A request of one row takes microseconds to milliseconds, and its quartiles take some rounds.
REQUESTS, BATCHES = 31, 5


@ends_at_caller
def measure_costs(model: Any, X: Any) -> Costs:
    """Measure the bytes of a trained ensemble and the time of its predictions, as functions of its size.

    The ensemble and a copy of its first member are pickled, and predict the same rows in turns: a request of one row
    31 times, and up to 1000 rows at once five times.  Both costs are linear in the number of members.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.truncate`.
    X : array-like
        Rows in the form that ``predict`` takes; the first 1000 are used.

    Returns
    -------
    Costs

    Raises
    ------
    InputError
        If X has no rows, is of a kind whose rows cannot be taken, or the model's ``predict`` fails on it.
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
    rows = first_rows(X, 1000)
    n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    if not n_rows:
        raise InputError("X has no rows to predict; pass one or more.")
    n_members, one, whole = _member_count(model), first_of(model, 1), replace_ensemble(model, lambda whole: whole)
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
    )


def _member_count(model: Any) -> int:
    with model_errors(model):
        ensemble = inner_ensemble(model)
        several = output_count(ensemble) > 1
        return find_adapter(output_ensemble(ensemble, 0) if several else ensemble).n_members


def _predicting(one: Any, whole: Any, requests: list[Any], n_rounds: int, n_members: int) -> LinearCost:
    """Return the seconds of ``predict`` for each of some requests, by those of one member and of all."""
    calls = [_calls(model, requests) for model in (one, whole)]
    try:
        for call in calls:
            # The first call may import modules and start threads.
            call()
        # Round by round, so that a busy machine slows both.
        rounds = [(seconds_of(calls[0]), seconds_of(calls[1])) for _ in range(n_rounds)]
    except EnsPluginError:
        raise
    except Exception as error:  # a model may raise anything
        raise InputError(
            f"The time cannot be measured: the predict of this {type(whole).__name__} failed on X "
            f"({reason_of(error)}). Pass rows in the form that it takes."
        ) from error
    of_one, of_all = ([took[place] for took in rounds] for place in range(2))
    return _linear(median(of_one), median(of_all), n_members, _spread(of_all))


def _calls(model: Any, requests: list[Any]) -> Callable[[], object]:
    predict, in_turn = find_library(model).predict, cycle(requests)
    return lambda: predict(model, next(in_turn))


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


def first_of(model: Any, size: Any) -> Any:
    """Return a trained ensemble cut to its first `size` members."""
    with model_errors(model):
        return replace_ensemble(model, lambda ensemble: _truncated(ensemble, size))


def _truncated(ensemble: Any, size: Any) -> Any:
    if output_count(ensemble) > 1:
        return first_members(ensemble, size, first_of)
    adapter = find_adapter(ensemble)
    if isinstance(size, bool) or not isinstance(size, Integral):
        raise InputError(
            f"size must be a whole number of members, got {shown(size, 40)}; this ensemble has {adapter.n_members}."
        )
    if not 1 <= int(size) <= adapter.n_members:
        raise InputError(
            f"size must lie between 1 and {adapter.n_members}, the members of this {type(ensemble).__name__}, got "
            f"{shown(size, 40)}. Truncation only removes members; for a larger ensemble, train more."
        )
    return adapter.truncated(int(size))


def first_rows(X: Any, most: int) -> Any:
    """Return the first rows of X, at most `most`, in the form in which X came; a sparse matrix as CSR."""
    refuse_lazy(X, "X")
    # Sparse matrices of other formats have no rows to choose.
    rows = X.tocsr() if hasattr(X, "tocsr") else X
    try:
        if isinstance(rows, (str, bytes)):
            raise TypeError("a text")
        return rows[:most]
    except Exception as error:  # an object of a user may raise anything
        raise InputError(
            f"X is of type {type(X).__name__}, whose first rows cannot be taken. Pass the rows as an array, a "
            "sparse matrix or a data frame; those of a file, read."
        ) from error


def seconds_of(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


class _Counter:
    """A file that counts the bytes written to it, because a pickle in memory doubles what a large model takes."""

    n_bytes = 0

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        self.n_bytes += size
        return size


def pickled_bytes(model: Any) -> int:
    """Return the number of bytes of a pickled model."""
    file = _Counter()
    try:
        pickle.dump(model, file)
    except (pickle.PicklingError, AttributeError, TypeError):
        # A lambda in a pipeline, for example; MLflow stores such models with cloudpickle too.
        import cloudpickle

        file = _Counter()
        cloudpickle.dump(model, file)
    except Exception as error:  # a class may have a __getstate__ of its own
        raise UnsupportedModelError(
            f"This {type(model).__name__} cannot be pickled ({reason_of(error)}), and its bytes are those of the "
            "pickle. Mend what its class stores, or leave out limits in bytes."
        ) from error
    return file.n_bytes
