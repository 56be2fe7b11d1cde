"""An error by the number of members: averages over subsets, their limit, and curves that pass through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.sample import SubsetRates
from ens_plugin.core.validation import (
    FloatArray,
    IntArray,
    as_probability,
    as_sizes,
    as_weight,
    whole_counts,
)
from ens_plugin.core.votes import (
    majority_curve,
    soft_majority_error,
)
from ens_plugin.core.weights import row_quantiles
from ens_plugin.errors import InputError

ROWS_PER_DROPPED_ROW = 10


def hypergeometric_limit(trials: ArrayLike, rows: FloatArray | None = None) -> int:
    """Return the largest odd size such that at least 90 % of the rows have as many members (0 if there is none)."""
    # `rows` is the number of rows of each entry; None for one each.
    n = np.asarray(trials, dtype=np.float64)
    found = whole_counts(n) if rows is None else None
    if found is not None:
        n, rows = found
    if rows is None:
        n = np.sort(n)
        place = n.size // ROWS_PER_DROPPED_ROW
    else:
        order = np.argsort(n, kind="stable")
        last = np.cumsum(rows[order])
        n, place = n[order], int(np.searchsorted(last, last[-1] // ROWS_PER_DROPPED_ROW, side="right"))
    largest = int(n[place])
    return largest if largest % 2 else max(largest - 1, 0)


STRAIGHT_RANGE = 2
CURVED_RANGE = 3
MAX_SUBSET_SIZES = 16
ERROR_FACTOR = 3.0


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """Curve through subset averages of a metric, continued by a straight line fitted to the larger subsets.

    The line is one in the inverse, 1/(size + offset).

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
    averages : ndarray, shape (..., n_sizes)
        Mean of the metric over subsets of each size.
    straight, curved : ndarray, shape (..., 3)
        Coefficients of 1, the inverse and its square of a line and of a parabola.
    line_by_average : ndarray, shape (2, n_sizes)
        Derivatives of the first two coefficients of the line in each average.
    offset : float
    """

    sizes: IntArray
    averages: FloatArray
    straight: FloatArray
    curved: FloatArray
    line_by_average: FloatArray
    offset: float = 0.0

    @property
    def inverses(self) -> FloatArray:
        """Return the inverse of each size of the averages."""
        return np.asarray(1.0 / (self.sizes + self.offset))

    def inverse(self, sizes: ArrayLike) -> FloatArray:
        """Return the inverse of each size, infinity allowed."""
        return np.asarray(1.0 / (as_sizes(sizes) + self.offset))

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the metric at each size, infinity allowed; at the sizes of the averages, the averages themselves."""
        return self._through_averages(self.straight, self.inverse(sizes))

    def model_error(self, sizes: ArrayLike) -> FloatArray:
        """Return a bound on the line's error: three times its distance from the parabola; 0 up to the largest subset.

        The metric is an average of smooth functions of means, so its expansion starts with 1/size, and the line
        omits the higher powers.  Where these matter, the parabola deviates from the line by the first of them.
        """
        apart = self.apart(sizes)
        return np.asarray(np.where(self.inverse(sizes) < self.inverses[-1], ERROR_FACTOR * np.abs(apart), 0.0))

    def apart(self, sizes: ArrayLike) -> FloatArray:
        """Return the parabola less the line at each size."""
        inverse = self.inverse(sizes)
        return self._through_averages(self.curved, inverse) - self._through_averages(self.straight, inverse)

    def order_variance(self, sizes: ArrayLike, covariance: FloatArray) -> FloatArray:
        """Return the metric's variance at each size, from the averages' covariance over orders of the members."""
        inverse = self.inverse(sizes)
        by_average = self._weights(inverse)
        return np.asarray(np.maximum(np.einsum("si,ij,sj->s", by_average, covariance, by_average), 0.0))

    def _weights(self, inverse: FloatArray) -> FloatArray:
        """Return the metric's derivatives at each size with respect to the averages, shape (n_sizes, n_averages)."""
        n_known = self.sizes.size
        line: FloatArray = self.line_by_average[0] + inverse[:, None] * self.line_by_average[1]
        residual = np.eye(n_known) - self.line_by_average[0] - self.line_by_average[1] * self.inverses[:, None]
        return np.asarray(line + (residual.T @ self._between(inverse)).T)

    def _through_averages(self, coefficients: FloatArray, inverse: FloatArray) -> FloatArray:
        residual = self.averages - _polynomial(coefficients, self.inverses)
        return np.asarray(_polynomial(coefficients, inverse) + residual @ self._between(inverse))

    def _between(self, inverse: FloatArray) -> FloatArray:
        """Return the share that each average has in a straight line between two of them, 0 towards infinity."""
        known = np.append(0.0, self.inverses[::-1])
        corners = np.eye(known.size)[:0:-1]
        return np.array([np.interp(inverse, known, corner) for corner in corners])


def _polynomial(coefficients: FloatArray, inverse: FloatArray) -> FloatArray:
    constant, slope, curvature = (coefficients[..., place : place + 1] for place in range(3))
    return np.asarray(constant + inverse * (slope + inverse * curvature))


def subset_sizes(limit: int) -> IntArray:
    """Return the sizes of subsets to average over: at most 16, log-spaced, up to `limit`."""
    return np.unique(np.geomspace(1, limit, MAX_SUBSET_SIZES).astype(np.int64))


def extrapolate(sizes: IntArray, averages: FloatArray, offset: float = 0.0) -> Extrapolation:
    """Fit a line in 1/(size + offset) to the averages from half the largest size on, and a parabola from a third on."""
    # Sizes are ascending; averages have shape (..., n_sizes).
    line, parabola = (
        _projection(sizes, offset, span, degree) for span, degree in ((STRAIGHT_RANGE, 1), (CURVED_RANGE, 2))
    )
    return Extrapolation(sizes, averages, averages @ line.T, averages @ parabola.T, line[:2], offset)


def _projection(sizes: IntArray, offset: float, span: int, degree: int) -> FloatArray:
    """Return the matrix from averages to the coefficients of a least-squares polynomial, shape (3, n_sizes)."""
    degree = min(degree, sizes.size - 1)
    first = min(int(np.searchsorted(sizes, sizes[-1] / span)), sizes.size - degree - 1)
    columns = (1.0 / (sizes[first:, None] + offset)) ** np.arange(degree + 1)
    found = np.zeros((3, sizes.size))
    found[: degree + 1, first:] = np.linalg.pinv(columns)
    return found


def agreement(probability: ArrayLike, weight: ArrayLike | None, sizes: ArrayLike) -> FloatArray:
    r"""Return the mean probability that an ensemble of each size predicts the infinite ensemble's label.

    :math:`A(T) = \sum_i w_i I_{\max(p_i, 1-p_i)}(\lfloor T/2 \rfloor + 1, T - \lfloor T/2 \rfloor)` (2013 eq. 9 and
    17); even sizes as the odd size below.  Probabilities are those of one vote, of rows or of the points of a fitted
    distribution.
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    return 1.0 - majority_curve(np.minimum(p, 1.0 - p), w / w.sum(), sizes)


def recommended_size(
    probability: ArrayLike, weight: ArrayLike | None = None, confidence: float = 0.99, max_size: int = 20001
) -> int | None:
    """Return the smallest odd size whose agreement with the infinite ensemble is at least `confidence`."""
    # None if the size is above `max_size`.
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    folded, index = np.unique(np.minimum(p, 1.0 - p), return_inverse=True)
    shares = np.bincount(index, w) / w.sum()

    def mean_agreement(size: float) -> float:
        return float(1.0 - soft_majority_error(folded, [size])[0] @ shares)

    return smallest_odd_size(mean_agreement, confidence, max_size)


def smallest_odd_size(mean_agreement: Callable[[float], float], confidence: float, max_size: int) -> int | None:
    """Return the smallest odd size at which an increasing function reaches `confidence`; None if above `max_size`."""
    if not 0.5 < confidence < 1.0:
        raise InputError(f"confidence must lie strictly between 0.5 and 1, got {confidence}.")
    if max_size < 1:
        raise InputError(f"max_size must be at least 1, got {max_size}.")
    low, high = 0, (int(max_size) - 1) // 2
    if mean_agreement(2 * high + 1) < confidence:
        return None
    while low < high:
        middle = (low + high) // 2
        if mean_agreement(2 * middle + 1) >= confidence:
            high = middle
        else:
            low = middle + 1
    return 2 * low + 1


N_POWERS = 3
# Standard errors that a residual is beyond, if it is no noise.
CLEAR_OF_NOISE = 1.5
EXACT_SD = 1e-9
LEAST_SD = 2e-4


@dataclass(frozen=True, eq=False)
class Anchor:
    r"""Difference between the error of random subsets of the members and that of a model, as a function of size.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Subset sizes, ascending.
    differences : ndarray, shape (n_sizes,)
        Error of subsets minus error of the model, on the rows with enough members.
    sd : ndarray, shape (n_sizes,)
        Standard deviation of each difference over samples of rows and draws of subsets.
    coefficients : ndarray, shape (n_powers,)
        Coefficients of :math:`B^{-1}, B^{-2}, \dots` in the fitted difference.
    residuals : ndarray, shape (n_sizes,)
        What the differences have beyond that, as far as it is more than noise.
    """

    sizes: IntArray
    differences: FloatArray
    sd: FloatArray
    coefficients: FloatArray
    residuals: FloatArray

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the difference at each size, to be added to the model's error; 0 at infinity."""
        # It is fitted up to the largest subset, and falls with the size beyond, where higher powers would swing.
        wanted, largest = as_sizes(sizes), float(self.sizes[-1])
        inside = np.minimum(wanted, largest)
        fitted = _powers(inside, self.coefficients.size) @ self.coefficients
        fitted += np.interp(-(inside**-0.5), -(self.sizes**-0.5), self.residuals)
        return np.asarray(fitted * np.minimum(largest / wanted, 1.0))

    @property
    def mismatch(self) -> float:
        """Return the absolute fitted difference between subsets and model at the largest subset size."""
        # It indicates the error of the model beyond that size.
        return float(abs(self.at(self.sizes[-1:])[0]))


def subset_limit(trials: FloatArray, rows: FloatArray | None = None) -> int:
    """Return the largest odd size such that at least half of the rows have as many members; 0 if there is none."""
    # `rows` is the number of rows of each entry; None for one each.
    median = int(row_quantiles(trials, [0.5], rows)[0])
    return median if median % 2 else max(median - 1, 0)


def anchor_models(
    expected: FloatArray,
    error_at: Callable[[FloatArray], FloatArray],
    rates: SubsetRates,
    weight: FloatArray,
    first: float,
    n_rows: float,
) -> Anchor:
    """Return the difference of the errors of random subsets and of a model, on the sampled rows.

    Subsets of each size, up to that of most rows, are drawn independently, so that their covariance is diagonal.  A
    difference is noisy from its draws and from the rows left out; at size 1, where `first`, over all rows and members,
    is used in place of the sample's error, it is exact, and the fit interpolates it.

    Parameters
    ----------
    expected : ndarray, shape (n_sizes, n_sampled)
        Error of each sampled row by the model, at the subsets' sizes.
    error_at : callable
        Returns the model's error of all rows at some sizes.
    rates, weight, first, n_rows
        Errors of the subsets; weights of the sampled rows; error of one member; number of all rows.
    """
    sizes = rates.sizes
    reached = ~np.isnan(rates.wrong)
    shares = np.where(reached, weight, 0.0)
    shares /= shares.sum(axis=1, keepdims=True)
    residual = np.where(reached, rates.wrong - expected, 0.0)
    differences = np.sum(shares * residual, axis=1)
    of_rows = np.sum(shares**2 * (residual - differences[:, None]) ** 2, axis=1)
    of_draws = np.sum(shares**2 * np.where(reached, rates.noise, 0.0), axis=1)
    differences[0] = first - error_at(sizes[:1].astype(np.float64))[0]
    left_out = np.clip(1.0 - np.count_nonzero(reached, axis=1) / n_rows, 0.0, 1.0)
    sd = np.sqrt(of_draws + left_out * of_rows + LEAST_SD**2)
    sd[0] = EXACT_SD
    columns = _powers(sizes.astype(np.float64), min(N_POWERS, sizes.size))
    coefficients = np.linalg.lstsq(columns / sd[:, None], differences / sd, rcond=None)[0]
    residuals = differences - columns @ coefficients
    # As far as they are more than noise, which makes corners.
    noise = CLEAR_OF_NOISE * sd
    residuals *= 1.0 - (noise / np.maximum(np.abs(residuals), noise)) ** 2
    return Anchor(sizes, differences, np.sqrt(of_draws + of_rows), np.asarray(coefficients), residuals)


def _powers(sizes: FloatArray, n_powers: int) -> FloatArray:
    return np.asarray(sizes[:, None] ** -np.arange(1.0, n_powers + 1.0))
