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
    columns = {curve.key: curve.error, f"{curve.key}_lower": curve.lower, f"{curve.key}_upper": curve.upper}
    lines = {
        name: values[np.searchsorted(curve.sizes, sizes).clip(max=curve.sizes.size - 1)].copy()
        for name, values in columns.items()
    }
    if sizes[-1] == report.n_members:
        # The current size need not be tabulated.
        for line, value in zip(lines.values(), (report.error, *report.error_interval), strict=True):
            line[-1] = value
    return [
        Point(f"{prefix}/{name}", float(value), int(size))
        for name, values in lines.items()
        for size, value in zip(sizes, values, strict=True)
        if math.isfinite(value)
    ]


def charted_sizes(report: EnsembleReport) -> NDArray[np.int64]:
    """Return the sizes at which the error curve is logged: about 100, log-spaced, in ascending order.

    The first is about a quarter of the current size, and at most half of the recommended and of the last tabulated
    one, but at least 5: the steep beginning would flatten the rest on the linear axis of MLflow's chart.  The last is
    the current size, because MLflow shows a curve's last value as the value of the run, which then equals the scalar.
    All others are odd and tabulated, as far as the curve has such sizes.

    Returns
    -------
    ndarray of int64, shape (n_sizes,)
    """
    now, recommended = report.n_members, report.recommended_size or report.recommendation.max_size
    sizes = report.error_curve.sizes
    first = max(SMALLEST_SIZE, min(now // 2, recommended, int(sizes[-1])) // 2)
    for wanted in ((sizes >= first) & (sizes < now) & (sizes % 2 == 1), sizes < now, sizes > 0):
        if wanted.any():
            charted = _log_spaced(sizes[wanted])
            break
    if report.error_curve.reaches(now):
        return np.union1d(charted[charted < now], [now])
    return charted


def _log_spaced(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    if sizes.size <= N_POINTS:
        return sizes
    targets = np.geomspace(sizes[0], sizes[-1], N_POINTS)
    right = np.clip(np.searchsorted(sizes, targets), 0, sizes.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(targets - sizes[left] < sizes[right] - targets, left, right)
    spaced: NDArray[np.int64] = sizes[np.unique(nearest)]
    return spaced
