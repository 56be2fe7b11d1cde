"""A matrix of likelihoods as the product of two smaller matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import FloatArray

__all__ = ["ProductMatrix"]


class ProductMatrix:
    """A matrix as the product of two smaller ones; multiplied from both sides as the whole matrix would be.

    Parameters
    ----------
    left : ndarray, shape (n_rows, n_inner)
    right : ndarray, shape (n_inner, n_columns)

    Examples
    --------
    >>> product = ProductMatrix(np.array([[1.0], [2.0]]), np.array([[3.0, 4.0]]))
    >>> np.asarray(product).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    >>> (product @ np.array([1.0, 10.0])).tolist(), (np.array([1.0, 10.0]) @ product).tolist()
    ([43.0, 86.0], [63.0, 84.0])
    """

    # Else NumPy's arrays would take it for a number.
    __array_ufunc__ = None

    def __init__(self, left: FloatArray, right: FloatArray) -> None:
        self.shape = (left.shape[0], right.shape[1])
        self._left, self._right = left, right

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        """Return the product with a vector, or with the columns of a matrix."""
        return np.asarray(self._left @ (self._right @ vector))

    def __rmatmul__(self, left: FloatArray) -> FloatArray:
        """Return the product of a vector, or of the rows of a matrix, with this matrix."""
        return np.asarray((left @ self._left) @ self._right)

    @property
    def T(self) -> ProductMatrix:
        """Return the transposed matrix."""
        return ProductMatrix(self._right.T, self._left.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole matrix."""
        return np.asarray(self._left @ self._right, dtype)
