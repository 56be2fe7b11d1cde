r"""Shrunken rows: the distribution over rows of the members' mean score, without the noise of few members.

With 25 members a row's mean score has a standard error of a fifth of one member's spread; uncorrected,
means vary more over rows than the true ones.  This is the future work no. 1 of 2017
(section 7); the distribution over rows is deconvolved as for margins (``docs/methods.md``, section 3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.row_models.margins import fit_margins
from ens_plugin.core.validation import FloatArray, IntArray, as_values, as_weight
from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.score_models import NormalScores, row_moments

__all__ = ["shrink_normal_scores", "shrink_rows"]

SCORE_QUANTILE = 0.995
NEGLIGIBLE_SHARE = 1e-9
# Rows on which members differ more have another distribution of means: each group has its own density.
MAX_GROUPS, GROUP_ROWS = 3, 100


def shrink_normal_scores(
    scores: ArrayLike, used: ArrayLike | None = None, weight: ArrayLike | None = None
) -> NormalScores:
    """Return the distribution over rows of mean score and spread, without the noise of few members, as weighted rows.

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows)
        Log odds of the true label.
    used : array-like of bool, shape (n_members, n_rows), optional
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    NormalScores
        Its rows are points of the fitted distribution, not the rows given.

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`ens_plugin.papers.score_tables_2017.score_models.row_moments`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.normal(0.5, 1.0, size=1000)
    >>> rows = shrink_normal_scores(rng.normal(truth, 2.0, size=(10, 1000)))
    >>> spread = np.sqrt(rows.weight @ (rows.mean - 0.5) ** 2 / rows.weight.sum())
    >>> bool(abs(spread - 1.0) < 0.1)
    True
    """
    mean, variance, trials = row_moments(scores, used, "scores")
    return shrink_rows(NormalScores(mean, variance, as_weight(weight, mean.size)), trials)


def shrink_rows(rows: NormalScores, trials: ArrayLike) -> NormalScores:
    """Return the distribution over rows of the mean score, without the noise of the estimates, as weighted rows.

    Parameters
    ----------
    rows : NormalScores
        Estimated means and variances.
    trials : array-like, shape (n_rows,)
        Number of members that each row's mean was estimated from, at least 2.

    Returns
    -------
    NormalScores

    Raises
    ------
    InputError
        If `trials` has another length or a value below 2.

    Notes
    -----
    Rows are fitted in up to three groups by variance, of 100 rows or more.  Rows beyond the 99.5 % quantile
    of the absolute mean, where the density's grid would be extended for a few rows, keep their means.
    """
    n = as_values(trials, "trials", rows.mean.size)
    if n.min() < 2:
        raise InputError(f"trials must be at least 2 for every row, got {n.min():g}.")
    inside = np.abs(rows.mean) <= np.quantile(np.abs(rows.mean), SCORE_QUANTILE)
    order = np.flatnonzero(inside)[np.lexsort((rows.mean[inside], rows.variance[inside]))]
    groups = np.array_split(order, max(1, min(MAX_GROUPS, order.size // GROUP_ROWS)))
    parts = [
        _subset(rows, np.flatnonzero(~inside)),
        *(_shrink_group(_subset(rows, group), n[group]) for group in groups),
    ]
    return NormalScores(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.variance for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def _subset(rows: NormalScores, chosen: IntArray) -> NormalScores:
    return NormalScores(rows.mean[chosen], rows.variance[chosen], rows.weight[chosen])


def _shrink_group(rows: NormalScores, trials: FloatArray) -> NormalScores:
    unit = float(np.abs(rows.mean).max())
    total = float(rows.weight.sum())
    if unit <= 0.0 or not rows.variance.any() or total <= 0.0:
        return rows
    model = fit_margins(rows.mean / unit, rows.spread / unit, trials, rows.weight)
    share = model.point_weights * total
    kept = share > NEGLIGIBLE_SHARE * total
    return NormalScores(model.support[kept] * unit, (model.spread[kept] * unit) ** 2, share[kept])
