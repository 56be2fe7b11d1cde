r"""Any smooth metric as a function of ensemble size: subset averages, extrapolated in 1/B."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.validation import as_sizes

__all__ = ["Extrapolation", "extrapolate", "subset_sizes"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

FITTED_RANGE = 6
MAX_SUBSET_SIZES = 16


@dataclass(frozen=True, eq=False)
class Extrapolation:
    r"""Subset averages where they exist, :math:`a + b/B + c/B^2` fitted to the larger of them beyond.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
    averages : ndarray, shape (n_sizes,)
        Mean of the metric over subsets of each size.
    coefficients : ndarray, shape (3,)
        a, b and c.
    """

    sizes: IntArray
    averages: FloatArray
    coefficients: FloatArray

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Metric at each size, infinity allowed."""
        b = as_sizes(sizes)
        inverse = 1.0 / b
        fitted = self.coefficients @ np.stack([np.ones_like(inverse), inverse, inverse**2])
        inside = np.interp(inverse, 1.0 / self.sizes[::-1], self.averages[::-1])
        return np.where(b < self.sizes[-1] / FITTED_RANGE, inside, fitted)


def subset_sizes(limit: int) -> IntArray:
    """Sizes to average over subsets: at most 16, log-spaced, up to `limit`."""
    return np.unique(np.geomspace(1, limit, MAX_SUBSET_SIZES).astype(np.int64))


def extrapolate(sizes: IntArray, averages: FloatArray) -> Extrapolation:
    """Fit the law in 1/B to the subset averages at sizes of at least a sixth of the largest."""
    fitted = sizes >= sizes[-1] / FITTED_RANGE
    inverse = 1.0 / sizes[fitted]
    degree = min(2, inverse.size - 1)
    columns = np.stack([inverse**power for power in range(degree + 1)], axis=1)
    coefficients = np.zeros(3)
    coefficients[: degree + 1] = np.linalg.lstsq(columns, averages[fitted], rcond=None)[0]
    return Extrapolation(sizes, averages, coefficients)
