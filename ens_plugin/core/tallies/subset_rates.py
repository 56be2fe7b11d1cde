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

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.core.validation import FloatArray, IntArray

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
    for n_members, rows in _bins(np.count_nonzero(block.seen, axis=0)):
        members[rows] = n_members
        reached = np.flatnonzero(sizes <= n_members)
        drawn = [_subsets(n_members, int(size), n_drawn, rng) for size in sizes[reached]]
        for part in _parts(rows, n_members * block.n_labels):
            outputs = _first_outputs(block, part, n_members)
            for contest in _contests(outputs, block.target[part], n_together, rng):
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


def _first_outputs(block: RowBlock, rows: RowIndex, n_members: int) -> SingleArray:
    """Return the outputs by label of each row's first members that count, shape (n_members, n_labels, n_rows)."""
    outputs = np.empty((n_members, block.n_labels, rows.size), dtype=np.float32)
    taken = np.zeros(rows.size, dtype=np.int64)
    labels = np.arange(block.n_labels)
    for output, counts in zip(block.outputs, block.seen, strict=True):
        chosen = np.flatnonzero(counts[rows] & (taken < n_members))
        mine = output[rows[chosen]]
        outputs[taken[chosen], :, chosen] = mine[:, None] == labels if mine.ndim == 1 else mine
        taken[chosen] += 1
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
        Outputs for the labels that can win, in the order of the labels.
    target : ndarray of int, shape (n_rows,)
        Slot of the true label; -1 where it cannot win.
    """

    rows: RowIndex
    outputs: SingleArray
    target: IntArray

    def shares(self, subsets: SingleArray) -> tuple[FloatArray, FloatArray]:
        """Return the share of subsets that are wrong, and that differ from the other members, both shape (n_rows,)."""
        n_members, n_slots, n_rows = self.outputs.shape
        if n_slots == 1:
            return (self.target < 0).astype(np.float64), np.zeros(n_rows)
        flat = self.outputs.reshape(n_members, -1)
        total = self.outputs.sum(axis=0)
        counts = np.zeros((2, n_rows))
        step = max(PART_SUMS // (n_slots * n_rows), 1)
        for start in range(0, len(subsets), step):
            sums = (subsets[start : start + step] @ flat).reshape(-1, n_slots, n_rows)
            label = _winner(sums)
            counts[0] += np.count_nonzero(label != self.target, axis=0)
            counts[1] += np.count_nonzero(label != _winner(total - sums), axis=0)
        counts /= len(subsets)
        return counts[0], counts[1]


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
    outputs: SingleArray, target: NDArray[np.integer], n_together: int, rng: np.random.Generator
) -> Iterator[_Contest]:
    """Yield batches of rows with as many labels that can win, those that some member prefers to the leading label.

    The members are in another random order for every contest, so that contests with the same subsets are independent.
    """
    n_labels, n_rows = outputs.shape[1:]
    rows = np.arange(n_rows)
    lead = np.argmax(outputs.sum(axis=0), axis=0)
    leading = outputs[:, lead, rows]
    can_win = np.stack([(outputs[:, label] > leading).any(axis=0) for label in range(n_labels)])
    can_win[lead, rows] = True
    n_slots = np.count_nonzero(can_win, axis=0)
    kinds = np.append(SLOTS[n_labels > SLOTS], n_labels)
    kind = np.searchsorted(kinds, n_slots)
    for index in np.unique(kind):
        alike = np.flatnonzero(kind == index)
        for start in range(0, alike.size, n_together):
            chosen = alike[start : start + n_together]
            # A stable sort by whether labels can win keeps their order.
            slots = np.argsort(~can_win[:, chosen], axis=0, kind="stable")[: kinds[index]]
            is_target = slots == target[chosen]
            order = rng.permutation(outputs.shape[0])
            own = np.ascontiguousarray(outputs[order[:, None, None], slots, chosen])
            yield _Contest(chosen, own, np.where(is_target.any(axis=0), np.argmax(is_target, axis=0), -1))
