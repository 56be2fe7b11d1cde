r"""The Brier score of an ensemble's mean probabilities, as a function of its size.

A probability is a mean over members, so the score of a row is a squared loss: its expected value is that of the
infinite ensemble plus the variance of one member divided by the size, :math:`\mathrm{BS}_\infty + V/B`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core import uncertainty
from ens_plugin.core.estimates.squared_loss import SquaredLoss, fit_moments, term_moments
from ens_plugin.core.tallies.samples.score_block import ScoreBlock
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock, sum_squares_over_members
from ens_plugin.core.uncertainty.comparison_noise import influence_on_variance, shared_luck_variance
from ens_plugin.core.validation import FloatArray

if TYPE_CHECKING:
    from ens_plugin.core.uncertainty.mean_curvature import LossOfRows

__all__ = ["brier_loss", "brier_terms", "brier_terms_of_scores", "member_terms"]

# Ways to split a row's members into halves; each doubles the length of the alternating pieces.
N_SPLITS = 4
N_CLASSES = 2**N_SPLITS
# Few, so that what is read of them stays in a processor's cache.
ROWS_AT_ONCE = 256
ROWS_OF_LUCK = 1000
# Of scores; bounds the time where labels are many, and of two labels no row is left.
MOST_PROBABILITIES = 250_000
FEWEST_ROWS = 100


def brier_loss(
    sample: Sample,
    inverse_link: Callable[[FloatArray], NDArray[Any]] | None = None,
    groups: NDArray[np.integer] | None = None,
) -> SquaredLoss | None:
    r"""Return the Brier score of an ensemble of any size, from the outputs of its members for a sample of rows.

    Parameters
    ----------
    sample : Sample
        Votes, probabilities or scores; rows with fewer than two members, or without weight, do not count.
    inverse_link : callable, optional
        Turns mean scores, shape (n_rows, n_labels), into probabilities; None where the outputs are votes or
        probabilities.
    groups : ndarray of int, shape (n_sampled,), optional
        Groups of rows that count as one draw.

    Returns
    -------
    SquaredLoss or None
        Of two labels that of the second one, :math:`(p - y)^2`; of more the sum over labels.  None where fewer than
        two rows, or rows of fewer than two groups, count.
    """
    counts = (sample.block.trials >= 2) & (sample.weight > 0)
    if np.count_nonzero(counts) < 2 or (groups is not None and np.unique(groups[counts]).size < 2):
        return None
    used = sample if counts.all() else sample.select(np.flatnonzero(counts))
    if inverse_link is None:
        (squared, variance), luck = brier_terms(used.block), _luck_of_members(used)
    else:
        squared, variance, luck = _terms_of_scores(used, inverse_link)
    trials = used.block.trials
    moments = term_moments(squared, variance, trials, used.weight, None if groups is None else groups[counts])
    return replace(fit_moments(moments), luck=luck)


def _luck_of_members(sample: Sample) -> float:
    """Return the standard deviation of the mean variance by which members were trained, as far as all rows share it.

    Of trees with one split each, some predict all rows alike far from their means.
    """
    part = sample.some_rows(ROWS_OF_LUCK)
    block, relative = part.block, part.weight / part.weight.mean()
    if block.is_vote and block.n_labels == 2:
        terms, relative = block.outputs == 1, relative * _rise_by_vote(block)
    else:
        terms = member_terms(block)
    return math.sqrt(shared_luck_variance(terms, block.counted, relative, sample.rows.size))


def _rise_by_vote(block: RowBlock) -> FloatArray:
    """Return by how much :func:`member_terms` of votes for the second of two labels exceed those for the first."""
    trials = block.trials
    first, second = block.support.T / trials
    return np.asarray((first - second) * influence_on_variance(trials))


def _terms_of_scores(
    sample: Sample, inverse_link: Callable[[FloatArray], NDArray[Any]]
) -> tuple[FloatArray, FloatArray, float]:
    """Return each row's Brier score and variance of one member, from raw scores, and the luck of the members.

    Of many labels, only some rows' variances are those of all members.  Those of the other rows come from halves of
    their members, and are moved by what the halves are off in the former rows: rows share the noise of the halves.
    """
    (n_members, n_rows), n_labels = sample.block.counted.shape, sample.block.n_labels
    n_losses = min(n_labels * (n_labels + 3) // 2, 2 * n_members) + 1
    rows = sample.random_rows(max(MOST_PROBABILITIES // (n_losses * n_labels), FEWEST_ROWS))
    exact, luck = _exact_variances(sample if rows.size == n_rows else sample.select(rows), inverse_link)
    if rows.size == n_rows:
        mean = sample.block.support / sample.block.trials[:, None]
        return _score_of_means(sample.block, inverse_link)(mean), exact, luck
    squared, variance = brier_terms_of_scores(sample.block, inverse_link)
    weight, off = sample.weight[rows] / sample.weight[rows].sum(), exact - variance[rows]
    shift = float(weight @ off)
    variance += shift
    variance[rows] = exact
    return squared, variance, math.hypot(luck, math.sqrt(float(weight**2 @ (off - shift) ** 2)))


def _exact_variances(sample: Sample, inverse_link: Callable[[FloatArray], NDArray[Any]]) -> tuple[FloatArray, float]:
    """Return the variance of one member in each row, from all members, and the luck of the members."""
    block = sample.block
    n_few = max(ROWS_OF_LUCK // block.n_labels, FEWEST_ROWS)
    if sample.rows.size <= n_few:
        variance, shared = uncertainty.shared_terms(*_smooth_loss(block, inverse_link), block.counted, sample.weight)
        return variance, math.sqrt(shared)
    few = sample.some_rows(n_few)
    shared = uncertainty.shared_terms(*_smooth_loss(few.block, inverse_link), few.block.counted, few.weight)[1]
    if isinstance(block, ScoreBlock):
        # Of one output by member, the sum over members is that of their variance.
        mean, loss = block.support[:, 1:] / block.trials[:, None], _score_of_second(block, inverse_link)
        return uncertainty.terms_of_variance(loss, mean, block.variance / 4.0), math.sqrt(shared)
    return uncertainty.mean_terms(*_smooth_loss(block, inverse_link), block.counted), math.sqrt(shared)


def _smooth_loss(
    block: RowBlock, inverse_link: Callable[[FloatArray], NDArray[Any]]
) -> tuple[LossOfRows, NDArray[Any]]:
    """Return the Brier score of rows as a function of mean outputs, and these outputs of all members.

    Of two labels whose scores are each other's negative, the outputs are the scores of the second one.
    """

    def score(rows: slice) -> Callable[[FloatArray], FloatArray]:
        return _score_of_means(replace(block, target=block.target[rows]), inverse_link)

    def score_of_second(rows: slice) -> Callable[[FloatArray], FloatArray]:
        return _score_of_second(replace(block, target=block.target[rows]), inverse_link)

    if isinstance(block, ScoreBlock):
        return score_of_second, block.score[:, :, None] / 2.0
    second = block.outputs[:, :, 1:]
    if block.n_labels > 2 or not np.array_equal(block.outputs[:, :, :1], -second):
        return score, block.outputs
    return score_of_second, second


def brier_terms(block: RowBlock) -> tuple[FloatArray, FloatArray]:
    r"""Return each row's Brier score and the variance of one member, from votes or probabilities.

    Parameters
    ----------
    block : RowBlock
        At least two members count for every row.

    Returns
    -------
    squared : ndarray, shape (n_rows,)
        :math:`\sum_k (\bar p_k - y_k)^2` of the mean over the members that count, halved for two labels.
    variance : ndarray, shape (n_rows,)
        :math:`\sum_k s_k^2` with ddof 1, halved alike.

    Examples
    --------
    >>> votes = np.array([[0], [0], [1], [0]], dtype=np.int8)
    >>> block = RowBlock(votes, np.ones((4, 1), dtype=bool), np.array([0]), 2)
    >>> [float(term[0]) for term in brier_terms(block)]
    [0.0625, 0.25]
    """
    trials = block.trials
    support = block.support
    squares = trials if block.outputs.ndim == 2 else sum_squares_over_members(block.outputs, block.counted).sum(axis=1)
    mean = support / trials[:, None]
    length = (mean**2).sum(axis=1)
    variance = np.maximum(squares - trials * length, 0.0) / (trials - 1.0)
    scale = _scale(block.n_labels)
    return scale * _squared_error(mean, length, block.target), scale * variance


def member_terms(block: RowBlock) -> FloatArray:
    r"""Return the influence of each member on the variance that :func:`brier_terms` returns, up to a constant by row.

    Of votes or probabilities.

    Parameters
    ----------
    block : RowBlock
        At least two members count for every row.

    Returns
    -------
    ndarray, shape (n_members, n_rows)
        :math:`\sum_k (p_{mk} - \bar p_k)^2 \, n / (n - 2)`, halved for two labels, of n members that count, at least 3.
        Of members that do not count, any value.

    Examples
    --------
    >>> votes = np.array([[0], [0], [1], [0]], dtype=np.int8)
    >>> member_terms(RowBlock(votes, np.ones((4, 1), dtype=bool), np.array([0]), 2)).ravel()
    array([0.125, 0.125, 1.125, 0.125])
    """
    trials = block.trials
    mean = block.support / trials[:, None]
    if block.outputs.ndim == 2:
        labels = np.where(block.counted, block.outputs, 0)
        squared = (mean**2).sum(axis=1) - 2.0 * mean[np.arange(trials.size), labels] + 1.0
    else:
        squared = np.stack([np.square(outputs - mean).sum(axis=1) for outputs in block.outputs])
    return np.asarray(_scale(block.n_labels) * squared * influence_on_variance(trials))


def brier_terms_of_scores(
    block: RowBlock, inverse_link: Callable[[FloatArray], NDArray[Any]]
) -> tuple[FloatArray, FloatArray]:
    r"""Return each row's Brier score and what one member adds to it, from raw scores that are averaged.

    The expected score of B members is :math:`\mathrm{BS}_\infty + V/B` up to terms in :math:`1/B^2`.  V follows from
    the scores of the two halves of a row's members beside that of all.

    Parameters
    ----------
    block : RowBlock
        At least two members count for every row.
    inverse_link : callable
        Turns mean scores, shape (n_rows, n_labels), into probabilities.

    Returns
    -------
    squared, variance : ndarray, shape (n_rows,)
        As of :func:`brier_terms`; the variance of a single row can come out negative, that of many rows does not.
    """
    squared, variance = np.empty((2, block.target.size))
    for start in range(0, block.target.size, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        part = block.like(block.stored[:, rows], block.counted[:, rows], block.target[rows])
        squared[rows], variance[rows] = _terms_by_halves(part, block.support[rows], inverse_link)
    return squared, variance


def _terms_by_halves(
    block: RowBlock, support_of_all: FloatArray, inverse_link: Callable[[FloatArray], NDArray[Any]]
) -> tuple[FloatArray, FloatArray]:
    trials, score = block.trials, _score_of_means(block, inverse_link)
    squared = score(support_of_all / trials[:, None])
    support, number = _sums_by_rank(block)
    place = np.arange(N_CLASSES)
    gain, inverse = np.zeros(trials.size), np.zeros(trials.size)
    for length in 2 ** np.arange(N_SPLITS):
        odd = (place // length) % 2 == 1
        halves = [(support[half].sum(axis=0), number[half].sum(axis=0)) for half in (odd, ~odd)]
        divides = (halves[0][1] > 0) & (halves[1][1] > 0)
        for total, size in halves:
            gain += divides * (score(total / np.maximum(size, 1.0)[:, None]) - squared)
            inverse += divides * (1.0 / np.maximum(size, 1.0) - 1.0 / trials)
    return squared, gain / inverse


def _score_of_means(
    block: RowBlock, inverse_link: Callable[[FloatArray], NDArray[Any]]
) -> Callable[[FloatArray], FloatArray]:
    """Return the function that gives each row's Brier score, (n_rows,), from mean scores, (n_rows, n_labels)."""

    def score(mean: FloatArray) -> FloatArray:
        probabilities = np.asarray(inverse_link(mean), dtype=np.float64)
        return _scale(block.n_labels) * _squared_error(probabilities, (probabilities**2).sum(axis=1), block.target)

    return score


def _score_of_second(
    block: RowBlock, inverse_link: Callable[[FloatArray], NDArray[Any]]
) -> Callable[[FloatArray], FloatArray]:
    """Return the function of :func:`_score_of_means` of the second of two labels' scores, minus the first's."""
    score = _score_of_means(block, inverse_link)
    return lambda mean: score(np.concatenate([-mean, mean], axis=1))


def _sums_by_rank(block: RowBlock) -> tuple[FloatArray, FloatArray]:
    """Return the summed scores, and the number, of a row's members whose ranks are equal modulo 16.

    Every half that a row's members are split into is made of eight of these classes.

    Returns
    -------
    support : ndarray, shape (16, n_rows, n_labels)
    number : ndarray, shape (16, n_rows)
    """
    n_rows = block.target.size
    n_cells = N_CLASSES * n_rows
    # Modulo 256, a multiple of 16.
    rank = np.add.accumulate(block.counted.view(np.uint8), axis=0, dtype=np.uint8) - np.uint8(1)
    place = np.flatnonzero(block.counted)
    cell = rank.reshape(-1).take(place) % N_CLASSES * np.intp(n_rows) + place % n_rows
    # Members are added in their order.
    scores = block.stored.reshape(-1)
    if isinstance(block, ScoreBlock):
        half = np.bincount(cell, weights=scores.take(place) / 2.0, minlength=n_cells)
        support = [-half, half]
    else:
        at = place * block.n_labels
        support = [
            np.bincount(cell, weights=scores.take(at + label), minlength=n_cells) for label in range(block.n_labels)
        ]
    number = np.bincount(cell, minlength=n_cells).astype(np.float64)
    sums = np.stack(support, axis=1, dtype=np.float64)
    return sums.reshape(N_CLASSES, n_rows, -1), number.reshape(N_CLASSES, n_rows)


def _squared_error(probabilities: FloatArray, length: FloatArray, target: NDArray[Any]) -> FloatArray:
    """Return the squared distance of each row's probabilities, of this squared length, from its label's indicators."""
    rows = np.arange(target.size)
    of_truth = probabilities[rows, target]
    return np.asarray(length - of_truth**2 + (1.0 - of_truth) ** 2)


def _scale(n_labels: int) -> float:
    return 0.5 if n_labels == 2 else 1.0
