"""Correction of a model's curve at small sizes by averages over subsets of the members (docs/methods.md, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.row_models.row_model import RowModel, model_error, row_means
from ens_plugin.core.tallies.row_weight import row_quantiles
from ens_plugin.core.validation import FloatArray, IntArray, as_sizes
from ens_plugin.records import record

if TYPE_CHECKING:
    from ens_plugin.core.tallies.subset_rates import SubsetRates

__all__ = ["Anchor", "anchor_first_size", "anchor_models", "mean_error", "subset_limit"]

FEWER_POWERS = (4, 3)
EXACT_SD = 1e-7
LEAST_SD = 2e-4
BENDS_UP_TO, N_BEND_SIZES, FLAT = 2001, 30, 1e-3


@record
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
    """

    sizes: IntArray
    differences: FloatArray
    sd: FloatArray
    coefficients: FloatArray

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the fitted difference at each size, to be added to the model's error; 0 at infinity."""
        return np.asarray(_powers(as_sizes(sizes), self.coefficients.size) @ self.coefficients)

    @property
    def mismatch(self) -> float:
        """Return the absolute fitted difference between subsets and model at the largest subset size.

        It indicates the error of the model beyond that size.
        """
        return float(abs(self.at(self.sizes[-1:])[0]))


def mean_error(models: list[RowModel], sizes: ArrayLike) -> FloatArray:
    """Return the mean of the models' errors at each size, shape (n_sizes,)."""
    return np.asarray(np.mean([model_error(model, sizes) for model in models], axis=0))


def subset_limit(trials: FloatArray, rows: FloatArray | None = None) -> int:
    """Return the largest odd size such that at least half of the rows have as many members; 0 if there is none.

    Parameters
    ----------
    trials : ndarray, shape (n_entries,)
    rows : ndarray, shape (n_entries,), or None
        Number of rows of each entry; None for one each.
    """
    median = int(row_quantiles(trials, [0.5], rows)[0])
    return median if median % 2 else max(median - 1, 0)


def anchor_first_size(models: list[RowModel], first: float) -> Anchor:
    """Return the difference of the error of one member, which is known, and that of the mean of the models.

    It is divided by the size, as the first of the terms that are fitted to subsets.

    Parameters
    ----------
    models : list of RowModel
    first : float
        Error of one member over all rows and members.

    Examples
    --------
    >>> from ens_plugin.core.row_models import fit_mixture
    >>> model = fit_mixture([0, 1, 1, 3] * 10, [5, 4, 5, 5] * 10)
    >>> anchor = anchor_first_size([model], 0.2625)
    >>> (model.error([1, 3]) + anchor.at([1, 3])).round(4).tolist()
    [0.2625, 0.1875]
    """
    differences = first - mean_error(models, [1])
    return Anchor(np.ones(1, dtype=np.int64), differences, np.zeros(1), differences)


def anchor_models(
    models: list[RowModel], rates: SubsetRates, rows: IntArray, weight: FloatArray, first: float, n_rows: float
) -> Anchor:
    """Return the difference of the errors of random subsets and of the mean of the models, on the sampled rows.

    Parameters
    ----------
    models : list of RowModel
    rates : SubsetRates
        Labels of subsets of the sampled rows' members, at sizes up to that of most rows; the first size is 1.
    rows : ndarray of int, shape (n_sampled,)
        The sampled rows, numbered as in the models.
    weight : ndarray, shape (n_sampled,)
    first : float
        Error of one member over all rows and members, used in place of that over the sample.
    n_rows : float
        Number of rows of the whole data.

    Notes
    -----
    Subsets of each size are drawn independently, so that their covariance is diagonal.  A difference is noisy from its
    draws and from the rows left out; at size 1 it is exact, and the fit interpolates it.
    """
    sizes = rates.sizes
    expected = np.mean([row_means(model, model.error_by_point(sizes), rows) for model in models], axis=0)
    reached = ~np.isnan(rates.wrong)
    shares = np.where(reached, weight, 0.0)
    shares /= shares.sum(axis=1, keepdims=True)
    residual = np.where(reached, rates.wrong - expected, 0.0)
    differences = np.sum(shares * residual, axis=1)
    of_rows = np.sum(shares**2 * (residual - differences[:, None]) ** 2, axis=1)
    of_draws = np.sum(shares**2 * np.where(reached, rates.noise, 0.0), axis=1)
    differences[0] = first - mean_error(models, sizes[:1])[0]
    left_out = np.clip(1.0 - np.count_nonzero(reached, axis=1) / n_rows, 0.0, 1.0)
    sd = np.sqrt(of_draws + left_out * of_rows + LEAST_SD**2)
    sd[0] = EXACT_SD
    coefficients = _smoothest(models, [_fit(sizes, differences, sd, count) for count in FEWER_POWERS])
    return Anchor(sizes, differences, np.sqrt(of_draws + of_rows), coefficients)


def _fit(sizes: IntArray, differences: FloatArray, sd: FloatArray, n_powers: int) -> FloatArray:
    columns = _powers(sizes.astype(np.float64), min(n_powers, sizes.size)) / sd[:, None]
    return np.asarray(np.linalg.lstsq(columns, differences / sd, rcond=None)[0])


def _smoothest(models: list[RowModel], fits: list[FloatArray]) -> FloatArray:
    """Return the fit whose curve changes direction least often in log B; of equals the first."""
    if all(fit.size == fits[0].size for fit in fits):
        return fits[0]
    sizes = np.unique(np.geomspace(1, BENDS_UP_TO, N_BEND_SIZES).astype(np.int64) // 2 * 2 + 1).astype(np.float64)
    error = mean_error(models, sizes)
    bends = []
    for fit in fits:
        slopes = np.diff(error + _powers(sizes, fit.size) @ fit) / np.diff(np.log(sizes))
        turns = np.diff(slopes)
        signs = np.sign(turns[np.abs(turns) > FLAT * np.abs(slopes).max()])
        bends.append(np.count_nonzero(np.diff(signs)))
    return fits[int(np.argmin(bends))]


def _powers(sizes: FloatArray, n_powers: int) -> FloatArray:
    return np.asarray(sizes[:, None] ** -np.arange(1.0, n_powers + 1.0))
