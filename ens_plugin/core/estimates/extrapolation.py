r"""Any smooth metric as a function of ensemble size: subset averages, extrapolated in 1/size, with an error bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray, IntArray, as_sizes
from ens_plugin.records import record

__all__ = ["ERROR_FACTOR", "Extrapolation", "extrapolate", "subset_sizes"]

STRAIGHT_RANGE = 2
CURVED_RANGE = 3
MAX_SUBSET_SIZES = 16
ERROR_FACTOR = 3.0


@record
class Extrapolation:
    r"""Curve through subset averages of a metric, continued by a straight line fitted to the larger subsets.

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

        Notes
        -----
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
        """Return the share that each average has in a straight line between two of them, 0 towards infinity.

        Returns
        -------
        ndarray, shape (n_averages, n_sizes)
        """
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
    """Fit a line in 1/(size + offset) to the averages from half the largest size on, and a parabola from a third on.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Ascending.
    averages : ndarray, shape (..., n_sizes)
    offset : float, default=0.0

    Examples
    --------
    >>> fit = extrapolate(np.array([1, 2, 4]), np.array([3.0, 2.0, 1.5]))
    >>> fit.at([4, 8, float("inf")]).round(3), fit.model_error([float("inf")]).round(3)
    (array([1.5 , 1.25, 1.  ]), array([0.]))
    """
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
