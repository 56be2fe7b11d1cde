"""A metric of two labels, from the expected confusion matrix at each size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import RectBivariateSpline

from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.core.estimates.tied_sizes import is_tied, previous_odd_size
from ens_plugin.core.uncertainty.error_draws import ErrorDraws, size_of_approach
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import InputError
from ens_plugin.records import record

__all__ = [
    "LabelMetricCurve",
    "MatrixMetricCurve",
    "TwoErrors",
    "error_metric_curve",
    "label_metric_curve",
    "line_in_error",
    "typical_size",
]

# Errors of each label at which the metric is computed; a cubic spline has it between them.
N_KNOTS = 16
LEAST_RANGE = 1e-6
# Random confusion matrices by which a metric that is linear in the error is found.
N_MATRICES = 6
ROUNDING = 1e-9
# The draws of a curve are of distributions of one smooth form; their deviations are multiplied by this for the size, so
# that its interval holds (docs/methods.md, section 7).
SPREAD_OF_FORM = 1.4


@record
class TwoErrors:
    """The 0-1 errors of the rows of each of two labels, and the weight of these rows.

    Attributes
    ----------
    errors : tuple of two ErrorDraws
        Draw k of the one belongs to draw k of the other.
    weights : tuple of two floats
    ties : tuple of two ndarrays, each of shape (n_sizes,), or None
        Of hard votes: the probability that the votes on a row of each label tie, at the even size above each size of
        the errors.  The first label wins ties.
    """

    errors: tuple[ErrorDraws, ErrorDraws]
    weights: tuple[float, float]
    ties: tuple[FloatArray, FloatArray] | None = None

    def mean(self) -> ErrorDraws:
        """Return the error of the rows of both labels."""
        (first, second), (n, m) = self.errors, self.weights
        error, draws = (
            (n * one + m * other) / (n + m) for one, other in ((first.error, second.error), (first.draws, second.draws))
        )
        return ErrorDraws(first.sizes, error, draws)

    def with_mean(self, error: FloatArray) -> TwoErrors:
        """Return both errors, and their draws, times one factor at each size, so that their mean is `error`."""
        mean = self.mean().error
        factor = np.where((mean > 0) & (error > 0), error / np.where(mean > 0, mean, 1.0), 1.0)
        one, other = (ErrorDraws(each.sizes, each.error * factor, each.draws * factor) for each in self.errors)
        return TwoErrors((one, other), self.weights, self.ties)


@record
class LabelMetricCurve:
    """A metric of labels at a grid of odd sizes, the last of them infinity, with draws from its posterior.

    Attributes
    ----------
    sizes, values : ndarray, shape (n_sizes,)
    draws : ndarray, shape (n_draws, n_sizes)
    level_sd : float
        Standard deviation of the metric over samples of the rows.
    tie_effects : ndarray, shape (n_sizes,), or None
        What ties of hard votes add to the metric at the even size above each size.
    """

    sizes: FloatArray
    values: FloatArray
    draws: FloatArray
    level_sd: float
    tie_effects: FloatArray | None = None

    @property
    def limit(self) -> float:
        """Return the metric of the infinite ensemble."""
        return float(self.values[-1])

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the metric at each size, linear in 1/size between the sizes of the grid, with ties at even ones."""
        wanted = np.asarray(sizes, dtype=np.float64)
        shift = self.even_shift(wanted)
        if shift is None:
            return np.asarray(np.interp(1.0 / wanted, *self._ascending(self.values)))
        untied = np.interp(1.0 / previous_odd_size(wanted, np.inf), *self._ascending(self.values))
        return np.asarray(untied + np.where(is_tied(wanted, np.inf), shift, 0.0))

    def even_shift(self, sizes: ArrayLike) -> FloatArray | None:
        """Return what ties add to the metric at each size, or at the even size above an odd one; None without ties."""
        if self.tie_effects is None:
            return None
        even = previous_odd_size(sizes, np.inf) + 1.0
        return np.asarray(np.interp(1.0 / even, 1.0 / (self.sizes[::-1] + 1.0), self.tie_effects[::-1]))

    def change_sd(self, sizes: ArrayLike, known: float) -> FloatArray:
        """Return the posterior standard deviation of the metric's difference from its value at a known size."""
        wanted = 1.0 / np.append(np.asarray(sizes, dtype=np.float64), known)
        values = np.array([np.interp(wanted, *self._ascending(draw)) for draw in self.draws])
        return np.asarray((values[:, :-1] - values[:, -1:]).std(axis=0, ddof=1))

    def differences(self, sizes: IntArray) -> FloatArray:
        """Return the metric at each size less that of the infinite ensemble."""
        return self.at(sizes) - self.limit

    def close_size(self, distance: float, max_size: int) -> int | None:
        """Return the smallest size from which on the metric is within a distance of its limit, or None."""
        if self.tie_effects is None:
            size = _first_close(self.sizes, self.values, distance)
            return int(size) if size <= max_size else None
        far = np.flatnonzero(np.abs(self.differences(np.arange(1, max_size + 1))) > distance)
        first = int(far[-1]) + 2 if far.size else 1
        return first if first <= max_size else None

    def size_draws(self, settings: ResolvedOptions) -> FloatArray:
        """Return :meth:`close_size` of each draw, shape (n_draws,); infinity where above `max_size`."""
        distances = np.maximum(settings.metric_distances(self.draws[:, -1]), LEAST_RANGE)
        found = np.array([self._first_close(draw, far) for draw, far in zip(self.draws, distances, strict=True)])
        return np.where(found <= settings.max_size, found, np.inf)

    def _first_close(self, draw: FloatArray, distance: float) -> float:
        """Return the size from which on a draw stays within a distance of its limit, at odd sizes and at even ones."""
        odd = _first_close(self.sizes, draw, distance)
        if self.tie_effects is None:
            return odd
        even = _first_close(self.sizes + 1.0, draw + self.tie_effects, distance)
        # The last far sizes are the odd one below the first close odd one, and likewise of even sizes.
        odd, even = 2.0 * np.ceil((odd - 1.0) / 2.0) + 1.0, 2.0 * np.ceil(even / 2.0)
        return float(max(odd - 1.0, even - 1.0, 1.0))

    def _ascending(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        return 1.0 / self.sizes[::-1], values[::-1]


@record
class MatrixMetricCurve(LabelMetricCurve):
    """A metric that both errors of two labels move, often in opposite directions."""

    def size_draws(self, settings: ResolvedOptions) -> FloatArray:
        """Return the sizes of the draws, whose deviations from the curve are multiplied by `SPREAD_OF_FORM`."""
        draws = self.values + SPREAD_OF_FORM * (self.draws - self.values)
        return LabelMetricCurve(self.sizes, self.values, draws, self.level_sd, self.tie_effects).size_draws(settings)


def typical_size(draws: FloatArray, max_size: int) -> int | None:
    """Return the geometric mean of drawn sizes; None where more than half are above `max_size`.

    The size by the mean of the drawn curves would be too small where they go up as well as down: their mean is flat,
    and none of them is.  Of all sizes, the mean of the logarithms has the least expected square of the doublings.

    Parameters
    ----------
    draws : ndarray, shape (n_draws,)
        Infinity where above `max_size`.
    max_size : int

    Examples
    --------
    >>> typical_size(np.array([10.0, 40.0]), 100), typical_size(np.array([10.0, np.inf, np.inf]), 100)
    (20, None)
    """
    if np.isinf(draws).mean() > 0.5:
        return None
    return int(np.ceil(np.exp(np.log(np.minimum(draws, max_size)).mean()) - ROUNDING))


def label_metric_curve(
    found: TwoErrors, metric: ResolvedMetric, classes: NDArray[np.generic], level_sd: float
) -> MatrixMetricCurve:
    r"""Return a metric of labels as a function of the expected confusion matrix at each size.

    Of the rows of label k, a share :math:`e_k(B)` has the other label at size B, by the row models of these rows
    alone; the metric is computed on four rows, one for each cell of the matrix, with the cells as weights.

    Parameters
    ----------
    found : TwoErrors
    metric : ResolvedMetric
        That takes weights.
    classes : ndarray, shape (2,)
    level_sd : float
        Standard deviation of the metric over samples of the rows.
    """
    first, second = found.errors
    pairs = [np.clip(np.vstack([each.error[None], each.draws]), 0.0, 1.0) for each in (first, second)]
    knots = [_knots(values) for values in pairs]
    truth, outputs = classes[[0, 0, 1, 1]], np.eye(2)[[0, 1, 1, 0]]

    def value(errors: Sequence[float]) -> float:
        (e, f), (n, m) = errors, found.weights
        return metric.value(truth, outputs, np.array([n * (1.0 - e), n * e, m * (1.0 - f), m * f]))

    table = np.array([[value((e, f)) for f in knots[1]] for e in knots[0]])
    values = RectBivariateSpline(knots[0], knots[1], table).ev(pairs[0], pairs[1])
    values = np.clip(values, metric.lowest, metric.highest)
    ties = _tie_effects(found, value, values[0], metric)
    return MatrixMetricCurve(first.sizes, values[0], values[1:], level_sd, ties)


def _tie_effects(
    found: TwoErrors, value: Callable[[Sequence[float]], float], untied: FloatArray, metric: ResolvedMetric
) -> FloatArray | None:
    """Return what ties add to the metric: the rows that tie, half of which are wrong, get the first label."""
    if found.ties is None:
        return None
    signs = (-0.5, 0.5)
    errors = [
        np.clip(each.error + sign * ties, 0.0, 1.0)
        for each, sign, ties in zip(found.errors, signs, found.ties, strict=True)
    ]
    tied = np.array([value(pair) for pair in zip(*errors, strict=True)])
    return np.asarray(np.clip(tied, metric.lowest, metric.highest) - untied)


def error_metric_curve(whole: ErrorDraws, line: tuple[float, float], level_sd: float) -> LabelMetricCurve:
    """Return a metric of labels that is linear in the error, such as the accuracy.

    Parameters
    ----------
    whole : ErrorDraws
        Of the rows of all labels.
    line : tuple of two floats
        Intercept and slope; see :func:`line_in_error`.
    level_sd : float
        Standard deviation of the metric over samples of the rows.
    """
    intercept, slope = line
    values, draws = (intercept + slope * np.clip(errors, 0.0, 1.0) for errors in (whole.error, whole.draws))
    tie_effects = None if whole.even_shift is None else slope * whole.even_shift
    return LabelMetricCurve(whole.sizes, values, draws, level_sd, tie_effects)


def line_in_error(metric: ResolvedMetric, classes: NDArray[np.generic], n_rows: int) -> tuple[float, float] | None:
    """Return intercept and slope of a metric of labels as a function of the error; None for other metrics.

    It is found by random confusion matrices of as many rows: some metrics are numbers of rows, not shares.
    """
    n_labels = classes.size
    truth, predicted = (each.ravel() for each in np.indices((n_labels, n_labels)))
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(truth.size), size=N_MATRICES)
    shares[0] = (shares[0] + (truth == predicted) / n_labels) / 2.0
    counts = [rng.multinomial(n_rows, share) for share in shares]
    errors = np.array([each @ (truth != predicted) / n_rows for each in counts])
    columns = np.eye(n_labels)
    try:
        values = np.array(
            [
                metric.value(np.repeat(classes[truth], each), np.repeat(columns[predicted], each, axis=0))
                for each in counts
            ]
        )
    except InputError:  # some metrics have no value where a label is missing
        return None
    if errors[0] == errors[1]:
        return None
    slope = float((values[1] - values[0]) / (errors[1] - errors[0]))
    intercept = float(values[0] - slope * errors[0])
    is_line = np.abs(intercept + slope * errors - values) <= ROUNDING * np.maximum(np.abs(values), 1.0)
    return (intercept, slope) if is_line.all() else None


def _knots(values: FloatArray) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    if high - low < LEAST_RANGE:
        low, high = max(low - LEAST_RANGE, 0.0), min(high + LEAST_RANGE, 1.0)
    return np.linspace(low, high, N_KNOTS)


def _first_close(sizes: FloatArray, values: FloatArray, distance: float) -> float:
    """Return the size from which on the values stay within a distance of the last one; infinity where none does."""
    return float(np.ceil(size_of_approach(sizes, np.abs(values[:-1] - values[-1]) - distance) - 1e-9))
