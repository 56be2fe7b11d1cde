"""The error that a library's rule for tied votes adds at even sizes (docs/methods.md, section 2)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln

from ens_plugin.core.row_models.density import GRID
from ens_plugin.core.row_models.majority import LOWER_HALF, MOST_CACHED
from ens_plugin.core.row_models.mixture import FEW_ROWS, Mixture, fit_mixture
from ens_plugin.core.row_models.row_model import row_means
from ens_plugin.core.tallies.row_weight import as_row_weight
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.validation import FloatArray

__all__ = ["even_size_shift", "tie_probability"]


def tie_probability(probability: ArrayLike, sizes: ArrayLike) -> FloatArray:
    r"""Return the probability that the votes of an even number of members tie, shape (n_sizes, n_points).

    Parameters
    ----------
    probability : array-like, shape (n_points,)
        Probabilities of one vote, in [0, 1].
    sizes : array-like, shape (n_sizes,)
        Even sizes, at least 2.

    Returns
    -------
    ndarray
        :math:`\binom{B}{B/2} (p(1-p))^{B/2}`.

    Examples
    --------
    >>> tie_probability([0.5, 0.1], [2, 4]).round(4).tolist()
    [[0.5, 0.18], [0.375, 0.0486]]
    """
    wanted = np.asarray(sizes, dtype=np.float64)
    if probability is GRID and 1 < wanted.size <= MOST_CACHED:
        return _grid_ties(tuple(wanted))
    half = wanted[:, None] / 2.0
    p = np.asarray(probability, dtype=np.float64)
    inside = (p > 0.0) & (p < 1.0)
    safe = np.where(inside, p * (1.0 - p), 0.25)
    log_choices = -betaln(half + 1.0, half + 1.0) - np.log(2.0 * half + 1.0)
    return np.asarray(np.where(inside, np.exp(log_choices + half * np.log(safe)), 0.0))


@lru_cache(maxsize=4)
def _grid_ties(sizes: tuple[float, ...]) -> FloatArray:
    """Return the probability of a tie on the points of the density's grid, shape (n_sizes, 400), read-only."""
    lower = tie_probability(LOWER_HALF, sizes)
    ties = np.hstack([lower, lower[:, ::-1]])
    ties.flags.writeable = False
    return ties


def even_size_shift(model: Mixture, sample: Sample, sizes: ArrayLike) -> FloatArray:
    r"""Return the error at even sizes if the first label wins ties, minus the error if a tie is half an error.

    Parameters
    ----------
    model : Mixture
        Model of the hard votes of all rows, including the sampled ones.
    sample : Sample
        Rows of two labels with hard votes.
    sizes : array-like, shape (n_sizes,)
        Whole sizes; an odd one is replaced by the even one above it.

    Returns
    -------
    ndarray, shape (n_sizes,)
        :math:`(s_2 \bar t_2 - s_1 \bar t_1) / 2`, with :math:`s` the shares of the two labels among the rows and
        :math:`\bar t` the mean probability of a tie among the rows of each.

    Notes
    -----
    The mean over the rows of one label is taken under a distribution fitted to these rows: near 1/2 the rows of a rare
    label are much more frequent among its own than among all.  For a label of fewer than 30 rows, the mean of its rows'
    posteriors under `model` is used.
    """
    even = np.asarray(sizes, dtype=np.float64)
    even = even + even % 2.0
    block = sample.block
    trials, wrong = block.trials, np.where(block.target == 0, block.support[:, 1], block.support[:, 0])
    by_point = tie_probability(model.support, even)
    shift = np.zeros(even.size)
    for label, sign in ((0, -0.5), (1, 0.5)):
        rows = np.flatnonzero((block.target == label) & (trials > 0) & (sample.weight > 0))
        if rows.size == 0:
            continue
        weight = sample.weight[rows]
        share = weight.sum() / sample.weight[trials > 0].sum()
        if as_row_weight(weight, rows.size).n_effective >= FEW_ROWS:
            own = fit_mixture(wrong[rows], trials[rows], weight)
            # The points are the same unless no member is wrong about these rows, or all are.
            is_grid = own.support is model.support
            ties = (by_point if is_grid else tie_probability(own.support, even)) @ own.weights
        else:
            by_row = row_means(model, by_point, sample.rows[rows])
            ties = by_row @ weight / weight.sum()
        shift += sign * share * ties
    return shift
