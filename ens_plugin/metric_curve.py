"""The curve of a user's own metric, by subset averages and extrapolation in 1/B."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.core.error_curve import hypergeometric_limit
from ens_plugin.core.extrapolation import extrapolate, subset_sizes
from ens_plugin.core.subsets import Sample, subset_statistics
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.estimates import Estimates, Settings
from ens_plugin.report import ErrorCurve

__all__ = ["with_metric_curve"]

FloatArray = NDArray[np.float64]
Metric = Callable[[NDArray[Any], NDArray[Any]], float]

N_ORDERS = 30
N_RESAMPLES = 200
MIN_LIMIT = 3
MAX_TRIES = 20


def with_metric_curve(
    estimates: Estimates,
    metric: Metric,
    adapter: EnsembleAdapter,
    sample: Sample,
    y: NDArray[Any],
    settings: Settings,
    groups: NDArray[np.integer] | None = None,
) -> Estimates:
    """Replace the error curve by that of `metric`; size, bias and variance stay those of the task.

    Parameters
    ----------
    metric : callable
        ``metric(y, mean_output) -> float``, lower is better.
    sample : Sample
        At most 20 000 rows; the metric is averaged over subsets of their members.
    y : ndarray, shape (n_sampled,)
        Target of the sampled rows as the user gave it.
    groups : ndarray of int, shape (n_sampled,), optional
        Group of each sampled row: the interval is then from bootstrap samples of groups.

    Raises
    ------
    TooFewMembersError
        If the rows have too few out-of-bag members for subsets of three.
    InputError
        If the metric fails or does not return a finite number.
    """
    trials = sample.block.seen.sum(axis=0)
    limit = hypergeometric_limit(trials)
    if limit < MIN_LIMIT:
        raise TooFewMembersError(
            f"The rows have {limit} out-of-bag members or fewer: subsets of at least {MIN_LIMIT} are needed to see how "
            "a metric depends on size. Train more members."
        )
    target = y
    rng = np.random.default_rng(settings.random_state)
    sizes = subset_sizes(limit)
    answering = np.flatnonzero(trials >= limit)
    same_rows = sample.select(answering)

    def value(mean: FloatArray, rows: NDArray[np.intp] = answering) -> float:
        return _call(metric, target[rows], adapter.link(mean))

    averages = subset_statistics(same_rows.block, sizes, N_ORDERS, rng, value).mean(axis=0)
    # The rows that cannot answer every size move the level of the curve, not its shape.
    known = np.flatnonzero(trials)
    left_out = value(sample.mean_outputs()[known], known) - value(same_rows.mean_outputs())
    law = extrapolate(sizes, averages + left_out)
    half = float(ndtri(0.5 + settings.interval_level / 2)) * _sampling_sd(metric, adapter, sample, target, rng, groups)
    error = law.at(settings.sizes)
    asymptote = float(law.coefficients[0])
    curve = ErrorCurve(
        sizes=settings.sizes,
        error=error,
        lower=error - half,
        upper=error + half,
        asymptote=asymptote,
        asymptote_interval=(asymptote - half, asymptote + half),
        asymptote_raw=asymptote,
        estimator="subset_average",
        metric=getattr(metric, "__name__", type(metric).__name__),
        interval_level=settings.interval_level,
    )
    return replace(estimates, error_curve=curve, algorithmic_sd=float("nan"))


def _sampling_sd(
    metric: Metric,
    adapter: EnsembleAdapter,
    sample: Sample,
    target: NDArray[Any],
    rng: np.random.Generator,
    groups: NDArray[np.integer] | None,
) -> float:
    """Standard deviation of the metric over bootstrap samples of the rows or groups, all members at once.

    A sample that misses a label is drawn again: many metrics are not defined without it.  Where that hardly
    ever helps, each label's rows are drawn by themselves.
    """
    known = sample.block.seen.any(axis=0)
    mean, target = adapter.link(sample.mean_outputs()[known]), target[known]
    codes = sample.block.target[known] if sample.block.n_labels else np.zeros(target.size, dtype=np.int64)
    by_label = [np.flatnonzero(codes == code) for code in np.unique(codes)]
    n_present = len(by_label)
    members = None if groups is None else _rows_by_group(groups[known])

    def draw() -> NDArray[np.int64]:
        for _ in range(MAX_TRIES):
            if members is None:
                rows = rng.integers(0, target.size, size=target.size)
            else:
                rows = np.concatenate([members[index] for index in rng.integers(0, len(members), size=len(members))])
            if np.count_nonzero(np.bincount(codes[rows])) == n_present:
                return rows
        return np.concatenate([rng.choice(rows, size=rows.size) for rows in by_label])

    resamples = (draw() for _ in range(N_RESAMPLES))
    return float(np.std([_call(metric, target[rows], mean[rows]) for rows in resamples], ddof=1))


def _rows_by_group(groups: NDArray[np.integer]) -> list[NDArray[np.int64]]:
    order = np.argsort(groups, kind="stable").astype(np.int64)
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def _call(metric: Metric, target: NDArray[Any], mean: NDArray[Any]) -> float:
    name = getattr(metric, "__name__", type(metric).__name__)
    try:
        value = float(metric(target, mean))
    except Exception as error:  # a user's function may raise anything
        raise InputError(
            f"metric {name!r} failed on y of shape {target.shape} and mean output of shape {mean.shape}: {error}"
        ) from error
    if not np.isfinite(value):
        raise InputError(f"metric {name!r} returned {value}; it must return a finite number, lower is better.")
    return value
