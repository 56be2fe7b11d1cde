"""The protocol of a fitted distribution over rows, on a grid of points, and the estimates computed from it."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.row_models.density import Density
from ens_plugin.core.row_models.likelihoods.band import Likelihood
from ens_plugin.core.validation import FloatArray

__all__ = [
    "RowModel",
    "group_means",
    "mean_posterior",
    "model_agreement",
    "model_error",
    "posterior_products",
    "row_means",
    "row_slopes",
    "row_variances",
]

IntArray = NDArray[np.integer]

ALL_ROWS = slice(None)


class RowModel(Protocol):
    """A fitted distribution of the rows' parameters, on a grid of points."""

    @property
    def density(self) -> Density | None:
        """Return the fitted density on the grid; None for a point mass."""
        ...

    @property
    def likelihood(self) -> Likelihood:
        """Return the likelihood of each group of rows at each point, shape (n_groups, n_points)."""
        ...

    @property
    def counts(self) -> FloatArray:
        """Return the weight of each group of rows, shape (n_groups,)."""
        ...

    @property
    def group(self) -> IntArray:
        """Return the group of each row, shape (n_rows,)."""
        ...

    @property
    def point_weights(self) -> FloatArray:
        """Return the estimated distribution of the rows over the points, shape (n_points,); sums to 1."""
        ...

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability of a wrong label at each size and point, shape (n_sizes, n_points)."""
        ...

    def agreement_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability of the infinite ensemble's label at each size and point, shape (n_sizes, n_points)."""
        ...

    def slope_by_point(self, size: float) -> FloatArray:
        """Return the derivative of the error in the mean output at each point, shape (n_points,)."""
        ...


def model_error(model: RowModel, sizes: ArrayLike) -> FloatArray:
    """Return the expected error at each size, shape (n_sizes,)."""
    return np.asarray(np.tensordot(model.error_by_point(sizes), model.point_weights, axes=1))


def model_agreement(model: RowModel, sizes: ArrayLike) -> FloatArray:
    """Return the mean agreement with the infinite ensemble at each size, shape (n_sizes,)."""
    return np.asarray(np.tensordot(model.agreement_by_point(sizes), model.point_weights, axes=1))


def mean_posterior(model: RowModel, weights: FloatArray) -> FloatArray:
    """Return the mean over rows of their posterior on the grid, under one or more prior densities.

    Parameters
    ----------
    weights : ndarray, shape (..., n_points)

    Returns
    -------
    ndarray, shape (..., n_points); each sums to 1
    """
    densities = np.atleast_2d(weights)
    # In place, because memory of many densities times groups takes longer to get than to fill.
    evidence = densities @ model.likelihood.T
    np.maximum(evidence, 1e-300, out=evidence)
    np.divide(model.counts, evidence, out=evidence)
    means = (evidence @ model.likelihood) * densities / model.counts.sum()
    return np.asarray(means.reshape(weights.shape))


def group_means(model: RowModel, by_point: FloatArray) -> FloatArray:
    """Return the posterior mean, for each group of rows, of quantities given at every grid point.

    Parameters
    ----------
    by_point : ndarray, shape (n_quantities, n_points)

    Returns
    -------
    ndarray, shape (n_quantities, n_groups)
    """
    weights = _grid_weights(model)
    evidence = np.maximum(model.likelihood @ weights, 1e-300)
    return np.asarray((by_point * weights) @ model.likelihood.T / evidence)


def posterior_products(model: RowModel, by_group: FloatArray) -> FloatArray:
    """Return the mean over rows of their posterior on the grid times quantities given for each group of rows.

    Parameters
    ----------
    by_group : ndarray, shape (n_quantities, n_groups)

    Returns
    -------
    ndarray, shape (n_quantities, n_points)
    """
    weights = _grid_weights(model)
    evidence = np.maximum(model.likelihood @ weights, 1e-300)
    products = ((by_group * model.counts / evidence) @ model.likelihood) * weights
    return np.asarray(products / model.counts.sum())


def _grid_weights(model: RowModel) -> FloatArray:
    return np.ones(model.likelihood.shape[1]) if model.density is None else model.density.weights


def row_means(model: RowModel, by_point: FloatArray, rows: IntArray | slice = ALL_ROWS) -> FloatArray:
    """Return the posterior mean, for some rows, of quantities given at every point, shape (n_quantities, n_rows)."""
    return np.asarray(group_means(model, by_point)[:, model.group[rows]])


def row_variances(model: RowModel, size: float) -> FloatArray:
    """Return the posterior mean, for each row, of the variance over seeds of its 0-1 error, shape (n_rows,)."""
    wrong = model.error_by_point([size])
    return np.asarray(row_means(model, wrong * (1.0 - wrong))[0])


def row_slopes(model: RowModel, size: float) -> FloatArray:
    """Return the posterior mean, for each row, of the derivative of its error in the mean output, shape (n_rows,)."""
    return np.asarray(row_means(model, model.slope_by_point(size)[None])[0])
