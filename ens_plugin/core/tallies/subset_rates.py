r"""Rates at which random subsets of each row's members are wrong, and differ from the row's other members.

Averages over subsets drawn without replacement are unbiased at every size up to a row's number of
members, whatever the model's rule.  Subsets of one permutation share no member, so that all members
count about equally often, and sums over many subsets are one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray

__all__ = ["SubsetRates", "subset_rates"]

SingleArray = NDArray[np.float32]
RowIndex = NDArray[np.intp]

ROW_SUBSETS = 150_000
FEWEST_SUBSETS, MOST_SUBSETS = 12, 512
MORE_BELOW = 12
MOST_MEMBERS = 400
MOST_BINS = 6
SLOTS = np.array([1, 2, 3, 4, 6, 9, 15, 30])
MOST_CONTESTS, FEWEST_TOGETHER = 30, 60
PART_SUMS = 400_000
OUTPUTS_AT_ONCE = 4_000_000
ROWS_AT_ONCE = 2048
# Whole numbers below it are exact in single precision.
EXACT_SINGLES = 2**24


@dataclass(frozen=True, eq=False)
class SubsetRates:
    """Shares of random subsets of each row's members that are wrong, or differ from the other members.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
    members : ndarray of int, shape (n_rows,)
        Number of members of each row that its subsets are drawn from.
    wrong : ndarray, shape (n_sizes, n_rows)
        Share of subsets whose label is wrong; NaN where a row has fewer members than the size.
    apart : ndarray, shape (n_sizes, n_rows)
        Share of subsets whose label differs from that of the other members; NaN without other members.
    noise : ndarray, shape (n_sizes, n_rows)
        Upper bound on the variance of `wrong` over draws of the subsets; 0 where all subsets were taken.
    """

    sizes: IntArray
    members: IntArray
    wrong: FloatArray
    apart: FloatArray
    noise: FloatArray


def subset_rates(block: RowBlock, sizes: IntArray, rng: np.random.Generator) -> SubsetRates:
    """Return how often labels of random subsets of each row's members are wrong, or differ from the other members'.

    Parameters
    ----------
    block : RowBlock
        Votes, probabilities or scores by label.
    sizes : ndarray of int, shape (n_sizes,)
        Ascending.
    rng : numpy Generator

    Notes
    -----
    Rows with similar numbers of members form a bin, and use as many as the row with fewest, at most 400.  If a bin's
    members have few subsets of a size, all are taken and the average is exact.  The first label wins ties.

    Examples
    --------
    >>> block = RowBlock(np.array([[0], [0], [1]]), np.ones((3, 1), dtype=bool), np.array([0]), 2)
    >>> rates = subset_rates(block, np.array([1, 3]), np.random.default_rng(0))
    >>> rates.wrong.round(3).tolist(), rates.apart.round(3).tolist()
    ([[0.333], [0.0]], [[0.333], [nan]])
    """
    n_rows = block.target.size
    wrong, apart, noise = np.full((3, sizes.size, n_rows), np.nan)
    members = np.zeros(n_rows, dtype=np.int64)
    n_drawn = int(np.clip(ROW_SUBSETS // max(n_rows, 1), FEWEST_SUBSETS, MOST_SUBSETS))
    n_together = max(n_rows // MOST_CONTESTS, FEWEST_TOGETHER)
    for n_members, rows in _bins(np.count_nonzero(block.counted, axis=0)):
        members[rows] = n_members
        reached = np.flatnonzero(sizes <= n_members)
        drawn = [_subsets(n_members, int(size), n_drawn, rng) for size in sizes[reached]]
        for part in _parts(rows, n_members * block.n_labels):
            outputs = _first_outputs(block, part, n_members)
            for contest in _contests(outputs, block.target[part], block.n_labels, n_together, rng):
                for index, subsets in zip(reached, drawn, strict=True):
                    share, differing = contest.shares(subsets)
                    here = index, part[contest.rows]
                    wrong[here], apart[here] = share, differing
                    exact = len(subsets) == comb(n_members, int(sizes[index]))
                    noise[here] = 0.0 if exact else share * (1.0 - share) / len(subsets)
        apart[np.ix_(sizes == n_members, rows)] = np.nan
    return SubsetRates(sizes, members, wrong, apart, noise)


def _bins(trials: NDArray[np.intp]) -> Iterator[tuple[int, RowIndex]]:
    """Yield, for each bin of rows with similar numbers of members, the fewest members of a row, and the rows."""
    used = np.minimum(trials, MOST_MEMBERS)
    known = np.sort(used[used > 0])
    if known.size == 0:
        return
    least = np.unique(known[np.arange(MOST_BINS) * known.size // MOST_BINS])
    bin_of_row = np.searchsorted(least, used, side="right") - 1
    for index, n_members in enumerate(least):
        yield int(n_members), np.flatnonzero(bin_of_row == index)


def _parts(rows: RowIndex, outputs_per_row: int) -> list[RowIndex]:
    height = max(OUTPUTS_AT_ONCE // outputs_per_row, 1)
    return [rows[start : start + height] for start in range(0, rows.size, height)]


def _first_outputs(block: RowBlock, rows: RowIndex, n_members: int) -> NDArray[Any]:
    """Return the outputs of each row's first members that count.

    Label codes, shape (n_members, n_rows), or outputs by label, shape (n_members, n_labels, n_rows), float32.
    """
    is_vote = block.outputs.ndim == 2
    shape = (n_members, rows.size) if is_vote else (n_members, block.n_labels, rows.size)
    outputs = np.empty(shape, dtype=block.outputs.dtype if is_vote else np.float32)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        row, member = np.nonzero(block.counted[:, some].T)
        first = np.searchsorted(row, np.arange(some.size))
        taken = block.outputs[member[first + np.arange(n_members)[:, None]], some]
        outputs[..., start : start + some.size] = taken if is_vote else np.moveaxis(taken, 2, 1)
    return outputs


def _subsets(n_members: int, size: int, n_drawn: int, rng: np.random.Generator) -> SingleArray:
    """Return subsets of members as rows of zeros and ones: all subsets, or disjoint ones of random permutations.

    Small subsets differ most from one another, so more of them are drawn.
    """
    n_drawn *= max(MORE_BELOW // size, 1)
    if comb(n_members, size) <= n_drawn:
        places = np.array(list(combinations(range(n_members), size)))
    else:
        in_each = n_members // size
        orders = rng.permuted(np.tile(np.arange(n_members), (-(-n_drawn // in_each), 1)), axis=1)
        places = orders[:, : in_each * size].reshape(-1, size)[:n_drawn]
    subsets = np.zeros((len(places), n_members), dtype=np.float32)
    np.put_along_axis(subsets, places, 1.0, axis=1)
    return subsets


@dataclass(frozen=True, eq=False)
class _Contest:
    """Rows on which the same number of labels can win, with the members' outputs for these labels.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
    outputs : ndarray, shape (n_members, n_slots, n_rows)
        Outputs for the labels that can win, in the order of the labels; 0 and 1 for votes.
    target : ndarray of int, shape (n_rows,)
        Slot of the true label; -1 where it cannot win.
    is_vote : bool
    """

    rows: RowIndex
    outputs: SingleArray
    target: IntArray
    is_vote: bool

    def shares(self, subsets: SingleArray) -> tuple[FloatArray, FloatArray]:
        """Return the share of subsets that are wrong, and that differ from the other members, both shape (n_rows,)."""
        n_members, n_slots, n_rows = self.outputs.shape
        if n_slots == 1:
            return (self.target < 0).astype(np.float64), np.zeros(n_rows)
        rank_base = 1 << int(n_slots - 1).bit_length()
        if self.is_vote and (n_members + 1) * rank_base < EXACT_SINGLES:
            return self._shares_of_votes(subsets, rank_base)
        flat = self.outputs.reshape(n_members, -1)
        total = self.outputs.sum(axis=0)
        counts = np.zeros((2, n_rows))
        for start in self._starts(subsets):
            sums = (subsets[start] @ flat).reshape(-1, n_slots, n_rows)
            label = _winner(sums)
            counts[0] += np.count_nonzero(label != self.target, axis=0)
            counts[1] += np.count_nonzero(label != _winner(total - sums), axis=0)
        counts /= len(subsets)
        return counts[0], counts[1]

    def _shares_of_votes(self, subsets: SingleArray, rank_base: int) -> tuple[FloatArray, FloatArray]:
        """Return the same shares, found by one maximum over whole numbers that hold the votes and the slot's rank.

        Parameters
        ----------
        subsets : ndarray, shape (n_subsets, n_members)
        rank_base : int
            A power of 2, at least the number of slots; each vote counts so much.
        """
        n_members, n_slots, n_rows = self.outputs.shape
        rank = (rank_base - 1 - np.arange(n_slots, dtype=np.float32))[:, None]
        votes = self.outputs * np.float32(rank_base)
        total = votes.sum(axis=0) + 2.0 * rank
        flat = np.concatenate([votes, np.broadcast_to(rank, (1, n_slots, n_rows))]).reshape(n_members + 1, -1)
        with_rank = np.column_stack([subsets, np.ones(len(subsets), dtype=np.float32)])
        true_rank = rank_base - 1 - self.target
        counts = np.zeros((2, n_rows))
        for start in self._starts(subsets):
            sums = (with_rank[start] @ flat).reshape(-1, n_slots, n_rows)
            best = sums.max(axis=1).astype(np.int32) & (rank_base - 1)
            others = np.subtract(total, sums, out=sums).max(axis=1).astype(np.int32) & (rank_base - 1)
            counts[0] += np.count_nonzero(best != true_rank, axis=0)
            counts[1] += np.count_nonzero(best != others, axis=0)
        counts /= len(subsets)
        return counts[0], counts[1]

    def _starts(self, subsets: SingleArray) -> Iterator[slice]:
        """Yield slices of subsets, so few at a time that their sums take little memory."""
        step = max(PART_SUMS // (self.outputs.shape[1] * self.outputs.shape[2]), 1)
        return (slice(start, start + step) for start in range(0, len(subsets), step))


def _winner(sums: SingleArray) -> NDArray[np.int8 | np.int16]:
    """Return the slot with the highest sum, the first of equals, from sums of shape (n_subsets, n_slots, n_rows)."""
    best = sums[:, 0].copy()
    slot = np.zeros(best.shape, dtype=np.int16)
    for index in range(1, sums.shape[1]):
        better = sums[:, index] > best
        np.maximum(best, sums[:, index], out=best)
        np.maximum(slot, better * np.int16(index), out=slot)
    return slot


def _contests(
    outputs: NDArray[Any], target: NDArray[np.integer], n_labels: int, n_together: int, rng: np.random.Generator
) -> Iterator[_Contest]:
    """Yield batches of rows on which equally many labels can win: those that some member prefers to the leading one.

    The members are in another random order for every contest, so that contests with the same subsets are independent.
    """
    is_vote = outputs.ndim == 2
    can_win = _voted(outputs, n_labels) if is_vote else _preferred(outputs)
    kinds = np.append(SLOTS[n_labels > SLOTS], n_labels)
    n_slots = np.count_nonzero(can_win, axis=1)
    kind = np.searchsorted(kinds, n_slots)
    for index in np.unique(kind):
        alike = np.flatnonzero(kind == index)
        for start in range(0, alike.size, n_together):
            chosen = alike[start : start + n_together]
            # A label without a vote wins nothing, so that votes need no more slots than some row has labels.
            width = n_slots[chosen].max() if is_vote else kinds[index]
            # A stable sort by whether labels can win keeps their order.
            slots = np.argsort(~can_win[chosen], axis=1, kind="stable")[:, :width].T
            is_target = slots == target[chosen]
            order = rng.permutation(outputs.shape[0])
            if is_vote:
                own = (outputs[order[:, None, None], chosen] == slots).astype(np.float32)
            else:
                own = np.ascontiguousarray(outputs[order[:, None, None], slots, chosen])
            yield _Contest(chosen, own, np.where(is_target.any(axis=0), np.argmax(is_target, axis=0), -1), is_vote)


def _voted(votes: NDArray[Any], n_labels: int) -> BoolArray:
    """Return which labels some member votes for, shape (n_rows, n_labels)."""
    voted = np.zeros((votes.shape[1], n_labels), dtype=bool)
    for own in votes:
        voted[np.arange(own.size), own] = True
    return voted


def _preferred(outputs: SingleArray) -> BoolArray:
    """Return which labels some member prefers to the leading one, and the leading one; shape (n_rows, n_labels)."""
    rows = np.arange(outputs.shape[2])
    lead = np.argmax(outputs.sum(axis=0), axis=0)
    leading = outputs[:, lead, rows]
    preferred = np.stack([(outputs[:, label] > leading).any(axis=0) for label in range(outputs.shape[1])], axis=1)
    preferred[rows, lead] = True
    return preferred
