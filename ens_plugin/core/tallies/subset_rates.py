r"""Rates at which random subsets of each row's members are wrong, and differ from the row's other members.

Averages over subsets drawn without replacement are unbiased at every size up to a row's number of
members, whatever the model's rule.  Subsets of one permutation share no member, so that all members
count about equally often, and sums over many subsets are one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.contests import Subsets, VoteCounts, contests, count_votes_by, lead_contests
from ens_plugin.core.tallies.samples.score_block import ScoreBlock
from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.records import record

__all__ = ["SubsetRates", "rates_of_subsets"]

RowIndex = NDArray[np.intp]

ROW_SUBSETS = 150_000
FEWEST_SUBSETS, MOST_SUBSETS = 12, 512
MORE_BELOW = 12
MOST_MEMBERS = 400
MOST_BINS = 6
MOST_CONTESTS, FEWEST_TOGETHER = 30, 60
OUTPUTS_AT_ONCE = 4_000_000
# Few, so that all members' outputs for them stay in a processor's cache.
ROWS_AT_ONCE = 64


@record
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


def rates_of_subsets(
    block: RowBlock, sizes: IntArray, rng: np.random.Generator, count: VoteCounts = count_votes_by
) -> SubsetRates:
    """Return how often labels of random subsets of each row's members are wrong, or differ from the other members'.

    Parameters
    ----------
    block : RowBlock
        Votes, probabilities or scores by label.
    sizes : ndarray of int, shape (n_sizes,)
        Ascending.
    rng : numpy Generator
    count : callable
        Counts the votes of subsets as :func:`~ens_plugin.core.tallies.contests.count_votes_by`.

    Notes
    -----
    Rows with similar numbers of members form a bin, and use as many as the row with fewest, at most 400.  If a bin's
    members have few subsets of a size, all are taken and the average is exact.  The first label wins ties.

    Examples
    --------
    >>> block = RowBlock(np.array([[0], [0], [1]]), np.ones((3, 1), dtype=bool), np.array([0]), 2)
    >>> rates = rates_of_subsets(block, np.array([1, 3]), np.random.default_rng(0))
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
            outputs, target = _first_outputs(block, part, n_members), block.target[part]
            held = (
                lead_contests(outputs, target, n_together, rng)
                if isinstance(block, ScoreBlock)
                else contests(outputs, target, block.n_labels, n_together, rng, count)
            )
            for contest in held:
                for index, subsets in zip(reached, drawn, strict=True):
                    share, differing = contest.shares(subsets)
                    here = index, part[contest.rows]
                    wrong[here], apart[here] = share, differing
                    exact = len(subsets.places) == comb(n_members, int(sizes[index]))
                    noise[here] = 0.0 if exact else share * (1.0 - share) / len(subsets.places)
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

    Label codes or, of a ScoreBlock, the second label's scores in float32, shape (n_members, n_rows); or outputs by
    label, shape (n_members, n_labels, n_rows), float32.
    """
    stored = block.stored
    is_alone = stored.ndim == 2
    shape = (n_members, rows.size) if is_alone else (n_members, block.n_labels, rows.size)
    outputs = np.empty(shape, dtype=stored.dtype if block.is_vote else np.float32)
    flat, (by_member, by_row, *by_label) = _as_stored(stored)
    for start in range(0, rows.size, ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        # Positions in one row of numbers, which are found in less time than those along two axes.
        begin = np.arange(some.size) * block.counted.shape[0]
        counted = np.flatnonzero(block.counted[:, some].T.ravel())
        first = np.searchsorted(counted, begin)
        member = counted.take(first + np.arange(n_members)[:, None]) - begin
        place = member * by_member + some * by_row
        own = outputs[..., start : start + some.size]
        if is_alone:
            own[:] = flat.take(place)
        for label in range(0 if is_alone else block.n_labels):
            own[:, label] = flat.take(place + label * by_label[0])
    return outputs


def _as_stored(values: NDArray[Any]) -> tuple[NDArray[Any], list[int]]:
    """Return values in one row, without a copy where they lie side by side, and the step along each of their axes.

    A take from one row is several times as fast as an index of several axes.
    """
    flat = values.ravel(order="K")
    if not np.may_share_memory(flat, values):
        values = np.ascontiguousarray(values)
        flat = values.reshape(-1)
    return flat, [step // values.itemsize for step in values.strides]


def _subsets(n_members: int, size: int, n_drawn: int, rng: np.random.Generator) -> Subsets:
    """Return subsets of members: all subsets, or disjoint ones of random permutations.

    Small subsets differ most from one another, so more of them are drawn.
    """
    n_drawn *= max(MORE_BELOW // size, 1)
    if comb(n_members, size) <= n_drawn:
        places = np.array(list(combinations(range(n_members), size)))
    else:
        in_each = n_members // size
        orders = rng.permuted(np.tile(np.arange(n_members), (-(-n_drawn // in_each), 1)), axis=1)
        places = orders[:, : in_each * size].reshape(-1, size)[:n_drawn]
    indicators = np.zeros((len(places), n_members), dtype=np.float32)
    np.put_along_axis(indicators, places, 1.0, axis=1)
    return Subsets(places, indicators)
