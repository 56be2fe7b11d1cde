"""Dependence of an error curve on the members that were trained, by a jackknife over groups of members."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.row_models.margins import fit_margins
from ens_plugin.core.row_models.row_model import model_error
from ens_plugin.core.tallies.row_weight import RowWeight, as_row_weight
from ens_plugin.core.tallies.tally import count_members
from ens_plugin.core.validation import FloatArray

__all__ = ["left_out_sd"]

N_GROUPS = 8
# Two members in a group, and two outside it.
FEWEST_MEMBERS = 4


def left_out_sd(
    margins: FloatArray, counted: NDArray[np.bool_], weight: ArrayLike | RowWeight, sizes: ArrayLike
) -> FloatArray:
    r"""Return the standard deviation, over draws of the members, of the errors of a margin model fitted to them.

    Parameters
    ----------
    margins : ndarray, shape (n_members, n_rows)
        Each member's margin on each row.
    counted : ndarray of bool, shape (n_members, n_rows)
        True where the member is out of bag for the row, or the row is held out.
    weight : array-like, shape (n_rows,), or RowWeight
        A RowWeight also holds the number of rows that each sampled row stands for.  Of more than 2000 rows, nearly
        equal ones are fitted together, as in the fit of all members.
    sizes : array-like of shape (n_sizes,)
        May hold infinity.

    Returns
    -------
    ndarray, shape (n_sizes,)
        0 for fewer than 4 members, which cannot be split into groups.

    Notes
    -----
    The delete-a-group jackknife: with :math:`\theta_{(g)}` fitted without group g of G, the variance is
    :math:`\frac{G-1}{G} \sum_g (\theta_{(g)} - \bar\theta)^2` (J. Shao, D. Tu 1995, The Jackknife and Bootstrap,
    section 5.1).  Unlike a linear expansion it holds where a few members of extreme scores move many rows at once.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> margins = rng.normal(0.5, 1.0, (20, 100))
    >>> sd = left_out_sd(margins, np.ones((20, 100), dtype=bool), np.ones(100), [1, np.inf])
    >>> sd.shape, bool((sd >= 0).all())
    ((2,), True)
    """
    wanted = np.asarray(sizes, dtype=np.float64)
    n_members = margins.shape[0]
    if n_members < FEWEST_MEMBERS:
        return np.zeros(wanted.size)
    n_groups, row_weight = min(N_GROUPS, n_members // 2), as_row_weight(weight, margins.shape[1])
    parts = np.array([_sums(margins[one::n_groups], counted[one::n_groups]) for one in range(n_groups)])
    errors = [_error(sums, row_weight, wanted) for sums in parts.sum(axis=0) - parts]
    return np.asarray(np.sqrt(len(errors) - 1.0) * np.std(errors, axis=0))


def _sums(margins: FloatArray, counted: NDArray[np.bool_]) -> FloatArray:
    """Return the number of members that count, and their summed margins and squared margins, shape (3, n_rows)."""
    # Margins are finite, so that a product with the mask drops those that do not count.
    known = margins * counted
    return np.array([count_members(counted), known.sum(axis=0), np.einsum("mr,mr->r", known, known)])


def _error(sums: FloatArray, weight: RowWeight, sizes: FloatArray) -> FloatArray:
    used = (sums[0] >= 2) & (weight.total > 0)
    if not used.any():
        return np.zeros(sizes.size)
    trials, total, squares = sums[:, used]
    mean = total / trials
    variance = np.maximum(squares - trials * mean**2, 0.0) / (trials - 1.0)
    return model_error(fit_margins(mean, np.sqrt(variance), trials, weight.select(used)), sizes)
