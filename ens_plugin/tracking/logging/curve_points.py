"""The points of a report that are logged to MLflow: scalars by name, curves by ensemble size."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.report.result import EnsembleReport

__all__ = ["SCALAR_STEP", "Point", "charted_sizes", "curve_points", "scalar_points"]

SMALLEST_SIZE = 5
# MLflow copies the metrics of a run's step 0 to each model that the run logs later, whatever they are about.
SCALAR_STEP = -1
N_POINTS = 99  # and the current size


class Point(NamedTuple):
    """One value of one MLflow metric, with its step: the ensemble size for a curve, -1 for a scalar."""

    key: str
    value: float
    step: int


def scalar_points(report: EnsembleReport, prefix: str) -> list[Point]:
    """Return the scalars of `report` as ``<prefix>.<name>`` at step -1; infinities are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(20, random_state=0).fit(X, y), X, y)
    >>> scalar_points(report, "ens")[0].key
    'ens.error'
    """
    return [
        Point(f"{prefix}.{name}", value, SCALAR_STEP)
        for name, value in report.metrics().items()
        if math.isfinite(value)
    ]


def curve_points(report: EnsembleReport, prefix: str) -> list[Point]:
    """Return the error curve and its interval as ``<prefix>/error``, ``/error_lower``, ``/error_upper``.

    A curve of a scorer of scikit-learn has its name in place of "error".

    Parameters
    ----------
    report : EnsembleReport
    prefix : str

    Returns
    -------
    list of Point
        About 300, by ascending size; points that are not finite are left out.
    """
    curve = report.error_curve
    sizes = charted_sizes(report)
    values = np.array([_value_and_interval(report, int(size)) for size in sizes])
    names = (curve.key, f"{curve.key}_lower", f"{curve.key}_upper")
    return [
        Point(f"{prefix}/{name}", float(value), int(size))
        for name, line in zip(names, values.T, strict=True)
        for size, value in zip(sizes, line, strict=True)
        if math.isfinite(value)
    ]


def _value_and_interval(report: EnsembleReport, size: int) -> tuple[float, float, float]:
    """Return the error at a size and the ends of its interval: the report's own numbers where it has them."""
    curve = report.error_curve
    if size == report.n_members:
        return (report.error, *report.error_interval)
    row = int(np.searchsorted(curve.sizes, size))
    if row < curve.sizes.size and curve.sizes[row] == size:
        return float(curve.error[row]), float(curve.lower[row]), float(curve.upper[row])
    return (curve.at(size), *curve.interval_at(size))


def charted_sizes(report: EnsembleReport) -> NDArray[np.int64]:
    """Return the sizes at which the error curve is logged: about 100, log-spaced, in ascending order.

    The first is about a quarter of the current size, and at most half of the recommended and of the last tabulated
    one, but at least 5: the steep beginning would flatten the rest on the linear axis of MLflow's chart.  The last is
    the current size, because MLflow shows a curve's last value as the value of the run, which then equals the scalar.
    All are odd where the current size is odd, and even where it is even, as far as the curve has such sizes: the votes
    of an even number of members can tie, so that a curve over both would end in a step.

    Returns
    -------
    ndarray of int64, shape (n_sizes,)
    """
    now, recommended = report.n_members, report.recommended_size or report.recommendation.max_size
    curve, sizes = report.error_curve, report.error_curve.sizes
    first = max(SMALLEST_SIZE, min(now // 2, recommended, int(sizes[-1])) // 2)
    below = sizes[sizes < now] if np.any(sizes < now) else sizes
    odd = below[(below >= first) & (below % 2 == 1)]
    charted = _log_spaced(odd if odd.size else below)
    if not curve.reaches(now):
        return charted
    if odd.size and now % 2 == 0:
        charted = charted + 1
    return np.union1d(charted[charted < now], [now])


def _log_spaced(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    if sizes.size <= N_POINTS:
        return sizes
    targets = np.geomspace(sizes[0], sizes[-1], N_POINTS)
    right = np.clip(np.searchsorted(sizes, targets), 0, sizes.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(targets - sizes[left] < sizes[right] - targets, left, right)
    spaced: NDArray[np.int64] = sizes[np.unique(nearest)]
    return spaced
