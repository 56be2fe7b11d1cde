"""Rows that no member tells apart, such as those on the same side of every split of shallow trees."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ens_plugin.core.tallies.margin_tally import member_margins, strongest_rival
from ens_plugin.core.tallies.samples import ScoreBlock
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock, count_members
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["are_alike", "leads", "output_cells"]

LOOKED_AT, CLOSE_ROWS = 2_000, 256
# Rows whose leading label is right at infinity with less than this certainty have close votes.
CLOSE = 0.02
# Two votes on rows with close votes are the same by chance half of the time, and a row is compared with many.
SHARED_BY_PAIR, FEWEST_ALIKE = 8, 4
# Once it is known that rows are alike.
SHARED_WITH_CELL = 5
MOST_CELLS = 1_000


def are_alike(sample: Sample) -> bool:
    """Return whether most rows with close votes are among four rows or more that no member tells apart.

    Parameters
    ----------
    sample : Sample
        Of a classifier's rows, with at least two members each.
    """
    rows = sample.random_rows(LOOKED_AT)
    doubt = _chance_of_rival(sample, rows) * (sample.weight[rows] > 0)
    close = np.flatnonzero(doubt >= CLOSE)
    close = close[np.random.default_rng(0).permutation(close.size)[:CLOSE_ROWS]]
    if close.size < FEWEST_ALIKE:
        return False
    first, second = _equal_pairs(sample.select(rows[np.sort(close)]).block)
    n_alike = 1 + np.bincount(np.concatenate([first, second]), minlength=close.size)
    doubt = doubt[np.sort(close)]
    return bool(2.0 * doubt[n_alike >= FEWEST_ALIKE].sum() > doubt.sum())


def output_cells(block: RowBlock) -> IntArray | None:
    """Return a number for each row, from 0 without gaps, equal for rows to which all members give the same output.

    Only members that count for two rows are compared.  A row joins the cell that shares most members with it.

    Parameters
    ----------
    block : RowBlock
        Votes, probabilities or scores by label.

    Returns
    -------
    ndarray of int, shape (n_rows,), or None
        None where there are more than a thousand cells.

    Examples
    --------
    >>> outputs = np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]] * 3)
    >>> counted = np.array([[True] * 3, [True] * 3, [True] * 3, [True, False, True]] * 3)
    >>> output_cells(RowBlock(outputs, counted, np.zeros(3, dtype=int), 2)).tolist()
    [0, 0, 1]
    """
    n_members, n_rows = block.counted.shape
    outputs = block.stored.reshape(n_members, n_rows, -1)
    cell = np.empty(n_rows, dtype=np.int64)
    held = np.empty((0, *outputs[:, 0].shape), dtype=outputs.dtype)
    known = np.empty((0, n_members), dtype=bool)
    for row in range(n_rows):
        own, counts = outputs[:, row], block.counted[:, row]
        shared = known & counts
        n_shared = np.count_nonzero(shared, axis=1)
        fits = n_shared >= min(SHARED_WITH_CELL, np.count_nonzero(counts))
        place = np.flatnonzero(fits)
        differs = ((held[place] != own).any(axis=2) & shared[place]).any(axis=1)
        place = place[~differs]
        if place.size == 0:
            if len(held) == MOST_CELLS:
                return None
            cell[row] = len(held)
            held, known = np.concatenate([held, own[None]]), np.concatenate([known, counts[None]])
            continue
        cell[row] = joined = place[np.argmax(n_shared[place])]
        held[joined] = np.where(known[joined][:, None], held[joined], own)
        known[joined] |= counts
    return cell


def leads(sample: Sample, rows: IntArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the leading label of some rows, its mean margin over the second one, and the standard error of that.

    Parameters
    ----------
    sample : Sample
        Of a classifier's rows, with at least two members each.
    rows : ndarray of int, shape (n_rows,)

    Returns
    -------
    leading, lead, error : ndarrays, shape (n_rows,)
    """
    if isinstance(sample.block, ScoreBlock):
        # The margin of the leading label is the score of the second one, or minus it.
        trials, score = np.maximum(sample.block.trials[rows], 2.0), sample.block.support[rows, 1]
        return (score > 0).astype(np.int64), 2.0 * np.abs(score) / trials, np.sqrt(sample.block.variance[rows] / trials)
    block = sample.select(rows).block
    support = block.support
    leading = np.argmax(support, axis=1)
    own = block.like(block.stored, block.counted, leading)
    margins = member_margins(own, strongest_rival(support, leading)) * block.counted
    trials = np.maximum(block.trials, 2.0)
    mean = margins.sum(axis=0) / trials
    squares = _sum_of_squares(margins) / trials - mean**2
    return leading, mean, np.sqrt(np.maximum(squares, 0.0) / (trials - 1.0))


def _chance_of_rival(sample: Sample, rows: IntArray) -> FloatArray:
    """Return the chance that the runner-up leads at infinity, by normal margins of the members, of some rows."""
    _, lead, error = leads(sample, rows)
    return _chance_below_zero(lead, error)


def _chance_below_zero(mean: FloatArray, error: FloatArray) -> FloatArray:
    """Return the chance that a normal variable is below 0; 0 without any error."""
    return np.asarray(ndtr(-mean / np.where(error > 0, error, 1.0)) * (error > 0))


def _sum_of_squares(margins: NDArray[Any]) -> FloatArray:
    if margins.dtype == np.int8:
        # Of votes: -1, 0 and 1.
        return count_members(margins != 0)
    return np.asarray(np.square(margins, dtype=np.float64).sum(axis=0))


def _equal_pairs(block: RowBlock) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the pairs of rows, as two arrays, that share eight members or more, none of which tells them apart."""
    return _pairs_of_votes(block) if block.is_vote and block.n_labels == 2 else _pairs_of_outputs(block)


def _pairs_of_votes(block: RowBlock) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return these pairs from products of matrices, which count members exactly; for votes on two labels."""
    counted = block.counted.astype(np.float32)
    seconds = counted * (block.outputs == 1)
    differing = seconds.T @ (counted - seconds)
    are_equal = (counted.T @ counted >= SHARED_BY_PAIR) & (differing + differing.T == 0.0)
    first, second = np.nonzero(np.triu(are_equal, 1))
    return first, second


def _pairs_of_outputs(block: RowBlock) -> tuple[NDArray[Any], NDArray[Any]]:
    first, second = np.triu_indices(block.target.size, 1)
    n_shared = np.zeros(first.size, dtype=np.int64)
    outputs = block.stored.reshape(*block.counted.shape, -1)
    for own, counts in zip(outputs, block.counted, strict=True):
        shared = counts[first] & counts[second]
        n_shared += shared
        stays = ~shared
        here = np.flatnonzero(shared)
        stays[here] = (own[first[here]] == own[second[here]]).all(axis=1)
        first, second, n_shared = first[stays], second[stays], n_shared[stays]
    enough = n_shared >= SHARED_BY_PAIR
    return first[enough], second[enough]
