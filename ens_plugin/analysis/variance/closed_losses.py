r"""The closed form of metrics that depend on squared or logarithmic losses of the rows only.

To the first order in 1/B the mean of either loss is :math:`L_\infty + v/B`, with a limit and a term of one member from
each row.  The rows' terms give the limits of both, with long tails, and the members' own give the luck of the members.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.analysis.metrics.formulas import squared_error
from ens_plugin.core.estimates.brier_score import member_terms
from ens_plugin.core.estimates.log_loss import (
    expected_log_loss,
    inverse_probability,
    relative_variance,
    vote_variances,
)
from ens_plugin.core.estimates.squared_loss import SquaredLoss, fit_moments, term_moments
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock, count_members
from ens_plugin.core.uncertainty.comparison_noise import influence_on_variance, shared_luck_variance
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["closed_form", "log_terms", "member_log_terms"]

ROWS_OF_LUCK = 1000
STEP = 1e-4
LEAST_RELATIVE_WEIGHT = 0.25


def closed_form(rows: MetricRows, groups: NDArray[np.integer] | None) -> SquaredLoss | None:
    """Return the closed form of the mean loss that a metric depends on.

    Parameters
    ----------
    rows : MetricRows
    groups : ndarray of int, shape (n_sampled,), or None
        Groups of rows that count as one draw.

    Returns
    -------
    SquaredLoss or None
        None for other metrics, where members do not differ, and where fewer than two rows or groups have two members.
    """
    weight = np.ones(rows.trials.size) if rows.weight is None else rows.weight
    chosen = np.flatnonzero((rows.trials > 1) & (weight > 0))
    units = chosen if groups is None else groups[chosen]
    if rows.losses == "" or np.unique(units).size < 2:
        return None
    weight = weight[chosen]
    terms = _squared_terms(rows, chosen) if rows.losses == "squared" else _log_terms(rows, chosen, weight)
    if terms is None:
        return None
    at_members, slope = terms
    own_groups = None if groups is None else units
    found = fit_moments(term_moments(at_members, slope, rows.trials[chosen], weight, own_groups))
    if found.member_variance <= 0:
        return None
    return replace(found, luck=_luck_of_members(rows, chosen, weight))


def _squared_terms(rows: MetricRows, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the squared error of rows with all of their members, and the variance of one member."""
    return squared_error(rows.sample.block.target[chosen], rows.mean[chosen]), _per_member(rows, rows.squares, chosen)


def _log_terms(rows: MetricRows, chosen: IntArray, weight: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the log loss of rows with all of their members, and its slope in 1/B.

    A row of probability 0 has the one of the loss that is expected of it, and the variance of votes.
    """
    codes = rows.sample.block.target[chosen].astype(np.intp)
    mean = np.minimum(rows.finite[chosen, codes], 1.0)
    variance = _per_member(rows, rows.own_squares, chosen)
    variance = np.where(rows.own_probability[chosen] > 0.0, variance, mean * (1.0 - mean))
    return log_terms(mean, variance, rows.trials[chosen], weight)


def _per_member(rows: MetricRows, squares: FloatArray, chosen: IntArray) -> FloatArray:
    return np.asarray(squares[chosen] / (rows.trials[chosen] - 1.0))


def log_terms(
    mean: FloatArray, variance: FloatArray, trials: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    r"""Return each row's log loss with all of its members to the first order, and its slope in 1/B.

    Parameters
    ----------
    mean, variance, trials : ndarray, shape (n_rows,)
        As for :func:`ens_plugin.core.estimates.log_loss.relative_variance`.
    weight : ndarray, shape (n_rows,)
        Weight of each row in the mean loss, above 0.  The share c is that of all rows alike.

    Returns
    -------
    at_members, slope : ndarray, shape (n_rows,)
        None where no member differs from the others.

    Notes
    -----
    The slope is :math:`c(1/p - 1)/2`.  Rows also determine the share c that all have in common, to which a row counts
    whatever its weight: what each adds to it is added to its slope, over its weight.  This leaves the mean and gives
    the slopes the spread of their mean over samples of rows.  Rows of next to no weight count as of a quarter of the
    mean weight here: their slopes would be taken for a long tail.
    """
    share = relative_variance(mean, variance, trials)
    if share <= 0.0:
        return None
    inverse = inverse_probability(mean, trials / share - 1.0)
    slope = share * (inverse - 1.0) / 2.0
    votes, precision = vote_variances(mean, variance, trials)
    by_share = float(np.average(slope, weights=weight)) * mean.size / (share * float(precision @ votes))
    relative = np.maximum(weight / weight.mean(), LEAST_RELATIVE_WEIGHT)
    added = by_share * precision * (variance - share * votes) / relative
    slope = slope + added - np.average(added, weights=weight)
    return expected_log_loss(mean, trials, share, np.inf) + slope / trials, slope


def _luck_of_members(rows: MetricRows, chosen: IntArray, weight: FloatArray) -> float:
    """Return the standard deviation of the mean slope by which members were trained, as far as all rows share it."""
    is_squared = rows.losses == "squared"
    some = np.sort(np.random.default_rng(0).permutation(chosen.size)[:ROWS_OF_LUCK])
    if not is_squared:
        some = some[rows.own_probability[chosen[some]] > 0.0]
    part, own = rows.sample.select(chosen[some]), weight[some]
    block = part.block
    terms = _squares_of_members(part) if is_squared else member_log_terms(_own_outputs(block), block.counted)
    return math.sqrt(shared_luck_variance(terms, block.counted, own / own.mean(), chosen.size))


def _squares_of_members(part: Sample) -> FloatArray:
    """Return the influence of each member on the variance of each row, shape (n_members, n_rows), up to a constant."""
    block = part.block
    if block.n_labels:
        # Of two labels the Brier score is that of one of them.
        return member_terms(block) * (2.0 if block.n_labels == 2 else 1.0)
    return np.asarray(np.square(block.outputs - part.mean_outputs()) * influence_on_variance(block.trials))


def _own_outputs(block: RowBlock) -> FloatArray:
    """Return each member's probability of each row's label, shape (n_members, n_rows)."""
    codes = block.target.astype(np.intp)
    if block.outputs.ndim == 2:
        return np.asarray(block.outputs == codes, dtype=np.float64)
    return np.asarray(block.outputs[:, np.arange(codes.size), codes], dtype=np.float64)


def member_log_terms(own: FloatArray, counted: NDArray[np.bool_]) -> FloatArray:
    """Return the part of each member in the mean slope of the log loss, to the first order.

    Parameters
    ----------
    own : ndarray, shape (n_members, n_rows)
        Probability of the label of each row.
    counted : ndarray of bool, shape (n_members, n_rows)
        True where the member counts for the row.

    Returns
    -------
    ndarray, shape (n_members, n_rows)
        Up to a constant of each row.  Of members that do not count, any value.
    """
    trials = count_members(counted)
    mean = np.minimum(np.where(counted, own, 0.0).sum(axis=0) / trials, 1.0)
    apart = own - mean
    squares = np.square(apart)
    variance = np.where(counted, squares, 0.0).sum(axis=0) / (trials - 1.0)
    share = relative_variance(mean, variance, trials)
    if share <= 0.0:
        return np.zeros(own.shape)
    concentration, (votes, weight) = trials / share - 1.0, vote_variances(mean, variance, trials)
    slope = share * float(inverse_probability(mean, concentration).mean() - 1.0) / 2.0
    by_share = slope * mean.size * weight / (share * float(weight @ votes))
    down, up = mean * (1.0 - STEP), np.minimum(mean * (1.0 + STEP), 1.0)
    by_mean = inverse_probability(up, concentration) - inverse_probability(down, concentration)
    by_mean *= share / 2.0 / (up - down)
    by_mean -= by_share * (share * (1.0 - 2.0 * mean) + 2.0 * (variance - share * votes) / (mean + 1.0 / trials))
    return np.asarray(by_share * influence_on_variance(trials) * squares + by_mean * apart)
