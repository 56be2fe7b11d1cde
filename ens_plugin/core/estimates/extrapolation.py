r"""Any smooth metric as a function of ensemble size: subset averages, extrapolated in 1/size, with an error bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray, IntArray, as_sizes

__all__ = ["Extrapolation", "extrapolate", "subset_sizes"]

STRAIGHT_RANGE = 2
CURVED_RANGE = 3
MAX_SUBSET_SIZES = 16
ERROR_FACTOR = 3.0


@dataclass(frozen=True, eq=False)
class Extrapolation:
    r"""Curve through subset averages of a metric, continued by a straight line in 1/size fitted to the larger subsets.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
    averages : ndarray, shape (n_sizes,)
        Mean of the metric over subsets of each size.
    straight, curved : ndarray, shape (3,)
        Coefficients of 1, 1/size and 1/size² of a line and of a parabola.
    line_by_average : ndarray, shape (2, n_sizes)
        Derivatives of the first two coefficients of the line in each average.
    """

    sizes: IntArray
    averages: FloatArray
    straight: FloatArray
    curved: FloatArray
    line_by_average: FloatArray

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the metric at each size, infinity allowed; at the sizes of the averages, the averages themselves."""
        return self._through_averages(self.straight, 1.0 / as_sizes(sizes))

    def model_error(self, sizes: ArrayLike) -> FloatArray:
        """Return a bound on the line's error: three times its distance from the parabola; 0 up to the largest subset.

        Notes
        -----
        The metric is an average of smooth functions of means, so its expansion starts with 1/size, and the line
        omits the higher powers.  Where these matter, the parabola deviates from the line by the first of them.
        """
        inverse = 1.0 / as_sizes(sizes)
        apart = self._through_averages(self.curved, inverse) - self._through_averages(self.straight, inverse)
        return np.asarray(np.where(inverse < 1.0 / self.sizes[-1], ERROR_FACTOR * np.abs(apart), 0.0))

    def order_variance(self, sizes: ArrayLike, covariance: FloatArray) -> FloatArray:
        """Return the metric's variance at each size, from the averages' covariance over orders of the members."""
        inverse = np.asarray(1.0 / as_sizes(sizes))
        by_average = self._weights(inverse)
        return np.asarray(np.maximum(np.einsum("si,ij,sj->s", by_average, covariance, by_average), 0.0))

    def _weights(self, inverse: FloatArray) -> FloatArray:
        """Return the metric's derivatives at each size with respect to the averages, shape (n_sizes, n_averages)."""
        n_known = self.sizes.size
        line: FloatArray = self.line_by_average[0] + inverse[:, None] * self.line_by_average[1]
        residual = np.eye(n_known) - self.line_by_average[0] - self.line_by_average[1] / self.sizes[:, None]
        known, values = _with_infinity(self.sizes, residual)
        return np.asarray(line + np.stack([np.interp(inverse, known, column) for column in values.T], axis=1))

    def _through_averages(self, coefficients: FloatArray, inverse: FloatArray) -> FloatArray:
        residual = self.averages - _polynomial(coefficients, 1.0 / self.sizes)
        known, values = _with_infinity(self.sizes, residual)
        return np.asarray(_polynomial(coefficients, inverse) + np.interp(inverse, known, values))


def _with_infinity(sizes: IntArray, residual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return 1/size and the residual of each size in ascending order of 1/size, with 0 and 0 added for infinity."""
    inverse = np.asarray(1.0 / sizes[::-1])
    return np.append(0.0, inverse), np.concatenate([np.zeros_like(residual[:1]), residual[::-1]])


def _polynomial(coefficients: FloatArray, inverse: FloatArray) -> FloatArray:
    return np.asarray(coefficients[0] + inverse * (coefficients[1] + inverse * coefficients[2]))


def subset_sizes(limit: int) -> IntArray:
    """Return the sizes of subsets to average over: at most 16, log-spaced, up to `limit`."""
    return np.unique(np.geomspace(1, limit, MAX_SUBSET_SIZES).astype(np.int64))


def extrapolate(sizes: IntArray, averages: FloatArray) -> Extrapolation:
    """Fit a line in 1/size to the averages from half the largest size on, and a parabola from a third on.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Ascending.
    averages : ndarray, shape (n_sizes,)

    Examples
    --------
    >>> fit = extrapolate(np.array([1, 2, 4]), np.array([3.0, 2.0, 1.5]))
    >>> fit.at([4, 8, float("inf")]).round(3), fit.model_error([float("inf")]).round(3)
    (array([1.5 , 1.25, 1.  ]), array([0.]))
    """
    line, parabola = (_projection(sizes, span, degree) for span, degree in ((STRAIGHT_RANGE, 1), (CURVED_RANGE, 2)))
    return Extrapolation(sizes, averages, line @ averages, parabola @ averages, line[:2])


def _projection(sizes: IntArray, span: int, degree: int) -> FloatArray:
    """Return the matrix from averages to the coefficients of a least-squares polynomial in 1/size, (3, n_sizes)."""
    degree = min(degree, sizes.size - 1)
    first = min(int(np.searchsorted(sizes, sizes[-1] / span)), sizes.size - degree - 1)
    columns = (1.0 / sizes[first:, None]) ** np.arange(degree + 1)
    found = np.zeros((3, sizes.size))
    found[: degree + 1, first:] = np.linalg.pinv(columns)
    return found
