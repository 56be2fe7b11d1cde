"""The protocol of a fitted distribution over rows, and the estimates that follow from it.

Two models have these members: :class:`~ens_plugin.core.row_models.mixture.Mixture` (counts of wrong votes) and
:class:`~ens_plugin.core.row_models.margins.MarginModel` (margins).  Everything here is arithmetic on a grid of
points, by strata of rows that share a spread.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.row_models.density import Density
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
    """A fitted distribution of the rows' parameters, on a grid of points.

    Attributes
    ----------
    density : Density or None
        The fitted density on the grid; None for a point mass.
    likelihood : ndarray, shape (n_groups, n_points)
    counts : ndarray, shape (n_groups,)
        Weight of each group of rows.
    stratum : ndarray of int, shape (n_groups,)
        Stratum of each group, ascending: rows with the same spread of a single member.
    group : ndarray of int, shape (n_rows,)
        Group of each row.
    point_weights : ndarray, shape (n_strata, n_points)
        Estimated distribution of the rows over strata and points; sums to 1.
    """

    @property
    def density(self) -> Density | None:
        """The fitted density on the grid."""
        ...

    @property
    def likelihood(self) -> FloatArray:
        """Likelihood of each group at each point."""
        ...

    @property
    def counts(self) -> FloatArray:
        """Weight of each group of rows."""
        ...

    @property
    def stratum(self) -> IntArray:
        """Stratum of each group."""
        ...

    @property
    def group(self) -> IntArray:
        """Group of each row."""
        ...

    @property
    def point_weights(self) -> FloatArray:
        """Distribution of the rows over strata and points."""
        ...

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Probability of a wrong label, shape (n_sizes, n_strata, n_points)."""
        ...

    def agreement_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Probability of the infinite ensemble's label, shape (n_sizes, n_strata, n_points)."""
        ...

    def slope_by_point(self, size: float) -> FloatArray:
        """Derivative of the error in the mean output, shape (n_strata, n_points)."""
        ...


def model_error(model: RowModel, sizes: ArrayLike) -> FloatArray:
    """Expected error at each size, shape (n_sizes,)."""
    return np.asarray(np.tensordot(model.error_by_point(sizes), model.point_weights, axes=2))


def model_agreement(model: RowModel, sizes: ArrayLike) -> FloatArray:
    """Mean agreement with the infinite ensemble at each size, shape (n_sizes,)."""
    return np.asarray(np.tensordot(model.agreement_by_point(sizes), model.point_weights, axes=2))


def mean_posterior(model: RowModel, weights: FloatArray) -> FloatArray:
    """Mean over rows of their posterior under one or more grid densities, by stratum.

    Parameters
    ----------
    weights : ndarray, shape (..., n_points)

    Returns
    -------
    ndarray, shape (..., n_strata, n_points); each sums to 1
    """
    densities = np.atleast_2d(weights)
    strata = _groups_by_stratum(model)
    means = np.empty((densities.shape[0], len(strata), densities.shape[1]))
    for stratum, rows in enumerate(strata):
        likelihood = model.likelihood[rows]
        evidence = np.maximum(densities @ likelihood.T, 1e-300)
        means[:, stratum] = ((model.counts[rows] / evidence) @ likelihood) * densities
    means /= model.counts.sum()
    return means.reshape(*weights.shape[:-1], len(strata), weights.shape[-1])


def group_means(model: RowModel, by_point: FloatArray) -> FloatArray:
    """Posterior mean, for each group of rows, of quantities known at every point.

    Parameters
    ----------
    by_point : ndarray, shape (n_quantities, n_strata, n_points)

    Returns
    -------
    ndarray, shape (n_quantities, n_groups)
    """
    weights = _grid_weights(model)
    evidence = np.maximum(model.likelihood @ weights, 1e-300)
    groups = np.empty((by_point.shape[0], evidence.size))
    for stratum, rows in enumerate(_groups_by_stratum(model)):
        groups[:, rows] = (by_point[:, stratum] * weights) @ model.likelihood[rows].T / evidence[rows]
    return groups


def posterior_products(model: RowModel, by_group: FloatArray) -> FloatArray:
    """Mean over rows of their posterior times quantities known for each group, by stratum.

    Parameters
    ----------
    by_group : ndarray, shape (n_quantities, n_groups)

    Returns
    -------
    ndarray, shape (n_quantities, n_strata, n_points)
    """
    weights = _grid_weights(model)
    strata = _groups_by_stratum(model)
    products = np.empty((by_group.shape[0], len(strata), weights.size))
    for stratum, rows in enumerate(strata):
        likelihood = model.likelihood[rows]
        evidence = np.maximum(likelihood @ weights, 1e-300)
        products[:, stratum] = ((by_group[:, rows] * model.counts[rows] / evidence) @ likelihood) * weights
    products /= model.counts.sum()
    return products


def _grid_weights(model: RowModel) -> FloatArray:
    return np.ones(model.likelihood.shape[1]) if model.density is None else model.density.weights


def _groups_by_stratum(model: RowModel) -> list[slice]:
    """Return the slice of each stratum's groups."""
    edges = np.searchsorted(model.stratum, np.arange(int(model.stratum[-1]) + 2))
    return [slice(int(start), int(stop)) for start, stop in pairwise(edges)]


def row_means(model: RowModel, by_point: FloatArray, rows: IntArray | slice = ALL_ROWS) -> FloatArray:
    """Posterior mean, for some of the rows, of quantities known at every point, shape (n_quantities, n_rows)."""
    return np.asarray(group_means(model, by_point)[:, model.group[rows]])


def row_variances(model: RowModel, size: float, rows: IntArray | slice = ALL_ROWS) -> FloatArray:
    """Posterior mean, for some of the rows, of the variance over seeds of being wrong; shape (n_rows,)."""
    wrong = model.error_by_point([size])
    return np.asarray(row_means(model, wrong * (1.0 - wrong), rows)[0])


def row_slopes(model: RowModel, size: float, rows: IntArray | slice = ALL_ROWS) -> FloatArray:
    """Posterior mean, for some of the rows, of the derivative of its error; shape (n_rows,)."""
    return np.asarray(row_means(model, model.slope_by_point(size)[None], rows)[0])
