"""A matrix of likelihoods that are 0 far from each group's own point of the grid, kept without most of these zeros."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.row_models.likelihoods.product import ProductMatrix
from ens_plugin.core.validation import FloatArray

__all__ = ["BandMatrix", "Likelihood"]


class BandMatrix:
    """Blocks of a matrix outside of which it is 0; multiplied from both sides as the whole matrix would be.

    Parameters
    ----------
    order : ndarray of int, shape (n_rows,)
        The rows in the order in which they form blocks.
    n_columns : int
    blocks : list of tuple
        Of each block its place in `order`, its columns, and its transposed values.

    Examples
    --------
    >>> blocks = [(slice(0, 1), slice(0, 1), np.array([[7.0]])), (slice(1, 3), slice(1, 2), np.array([[8.0, 9.0]]))]
    >>> band = BandMatrix(np.array([1, 0, 2]), 2, blocks)
    >>> np.asarray(band).tolist()
    [[0.0, 8.0], [7.0, 0.0], [0.0, 9.0]]
    >>> (band @ np.array([1.0, 10.0])).tolist(), (np.array([1.0, 2.0, 3.0]) @ band).tolist()
    ([80.0, 7.0, 90.0], [14.0, 35.0])
    """

    # Else NumPy's arrays would take it for a number.
    __array_ufunc__ = None

    def __init__(self, order: NDArray[np.intp], n_columns: int, blocks: list[tuple[slice, slice, FloatArray]]) -> None:
        self.shape = (order.size, n_columns)
        self._order, self._blocks = order, blocks

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        """Return the product with a vector, shape (n_rows,)."""
        return self.T.product(vector)

    def __rmatmul__(self, left: FloatArray) -> FloatArray:
        """Return the product of a vector, or of the rows of a matrix, with this matrix, shape (..., n_columns)."""
        product, ordered = np.zeros((*left.shape[:-1], self.shape[1])), left.take(self._order, axis=-1)
        for rows, columns, values in self._blocks:
            product[..., columns] += ordered[..., rows] @ values.T
        return product

    @property
    def T(self) -> _Transposed:
        """Return the transposed matrix, for products with it from the left."""
        return _Transposed(self._order, self._blocks)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole matrix with its zeros."""
        whole = np.zeros(self.shape, dtype)
        for rows, columns, values in self._blocks:
            whole[self._order[rows], columns] = values.T
        return whole


class _Transposed:
    """The transposed matrix, with the same parameters."""

    __array_ufunc__ = None

    def __init__(self, order: NDArray[np.intp], blocks: list[tuple[slice, slice, FloatArray]]) -> None:
        self._order, self._blocks = order, blocks

    def __rmatmul__(self, left: FloatArray) -> FloatArray:
        return self.product(left)

    def product(self, left: FloatArray) -> FloatArray:
        """Return the product of a vector, or of the rows of a matrix, with this matrix."""
        ordered, product = np.empty((2, *left.shape[:-1], self._order.size))
        for rows, columns, values in self._blocks:
            ordered[..., rows] = left[..., columns] @ values
        product[..., self._order] = ordered
        return np.asarray(product)


# Of groups of rows at the points of a grid, shape (n_groups, n_points).
Likelihood: TypeAlias = FloatArray | BandMatrix | ProductMatrix
