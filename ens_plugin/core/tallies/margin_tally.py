"""The tally of margins: a row's support for its true label minus that for the strongest of the other labels.

The cost of votes grows with the members and not with members times labels.  Of probabilities and scores, the labels
are searched once for each member; the others' label is searched anew only on rows where one member can change it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.columns import in_few_bytes
from ens_plugin.core.tallies.tally import (
    MarginTally,
    RowBlock,
    Sums,
    cached_rows,
    count_members,
    count_votes,
    mean_and_sd,
    value_sums,
)
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.records import record

__all__ = [
    "margin_sums",
    "member_margins",
    "score_sums",
    "strongest_rival",
    "tally_margins",
    "tally_score_signs",
]

# Up to so many labels, a loop over labels is faster than np.argmax across them.
FEW_LABELS = 16
# Supports of so many cells are read at once, which stay in a processor's cache.
CELLS_AT_ONCE = 32_768
# Rows are few if so many times as many are more than all.
FEW_ROWS = 4
# Far above the rounding of a sum over members.
ROUNDING = 1e-9


def tally_margins(block: RowBlock, sums: Sums | None = None) -> MarginTally:
    """Return the tally of one block by margins, for any number of labels, from votes, probabilities or scores.

    Parameters
    ----------
    block : RowBlock
    sums : callable, optional
        Computes :func:`margin_sums`, which is the default; not called for votes.
    """
    if block.outputs.ndim == 2:
        return _tally_votes(block)
    trials, *moments, wrong, dissent = (sums or margin_sums)(block)
    plain, crossed = (mean_and_sd(total, squares, trials) for total, squares in (moments[:2], moments[2:]))
    return _tally_of([trials, *plain, *crossed, wrong, dissent], block.counted.shape[0])


def _tally_votes(block: RowBlock) -> MarginTally:
    columns = np.empty((7, block.target.size))
    for rows in cached_rows(block):
        votes, counted = block.outputs[:, rows], block.counted[:, rows]
        halves = [count_votes(votes[side::2], counted[side::2], block.n_labels) for side in (0, 1)]
        columns[:, rows] = _vote_columns(halves, block.target[rows])
    return _tally_of(columns, block.counted.shape[0])


def _tally_of(columns: Sequence[FloatArray] | FloatArray, n_members: int) -> MarginTally:
    """Return the tally of columns, its counts in few bytes."""
    trials, mean, sd, cross_mean, cross_sd, wrong_labels, dissent = columns
    trials, wrong_labels, dissent = (in_few_bytes(counts, n_members) for counts in (trials, wrong_labels, dissent))
    return MarginTally(trials, mean, sd, cross_mean, cross_sd, wrong_labels, dissent)


def _vote_columns(halves: list[IntArray], target: NDArray[Any]) -> list[FloatArray]:
    """Return the columns of the tally from the votes of the even and of the odd members, shape (n_rows, n_labels)."""
    rows = np.arange(target.size)
    support = halves[0] + halves[1]
    trials = support.sum(axis=1).astype(np.float64)
    true = support[rows, target]
    rival = support[rows, strongest_rival(support, target)]
    # Each half meets the rival that the other half prefers.
    even, odd = (own[rows, strongest_rival(other, target)] for own, other in zip(halves, halves[::-1], strict=True))
    mean, sd = _vote_moments(true, rival, trials)
    cross_mean, cross_sd = _vote_moments(true, even + odd, trials)
    return [trials, mean, sd, cross_mean, cross_sd, trials - true, trials - _agreeing(support)]


def _vote_moments(true: IntArray, rival: IntArray, trials: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (ddof 1) of margins that are 1 for `true`, -1 for `rival` and else 0."""
    mean = (true - rival) / np.maximum(trials, 1.0)
    squares = true * (1.0 - mean) ** 2 + rival * (1.0 + mean) ** 2 + (trials - true - rival) * mean**2
    return mean, np.sqrt(squares / np.maximum(trials - 1.0, 1.0))


def _agreeing(support: IntArray) -> IntArray:
    """Return how many of a row's members vote for the label that the row's other members elect, shape (n_rows,).

    The others elect the leading label whichever member is left out, or the runner-up once the leader has lost a vote.
    """
    rows = np.arange(support.shape[0])
    lead = np.argmax(support, axis=1)
    second = strongest_rival(support, lead)
    most, next_most = support[rows, lead], support[rows, second]
    stays = (most - 1 > next_most) | ((most - 1 == next_most) & (lead < second))
    return np.where(stays, most, 0)


def margin_sums(block: RowBlock) -> FloatArray:
    """Return sums over the members of each row, from their probabilities or scores by label.

    Returns
    -------
    ndarray, shape (7, n_rows)
        Number of members that count; sum of their margins against the strongest rival, and of squared deviations from
        the mean; the same two where each half of the members has the rival that the other half prefers; members whose
        label is wrong; members whose label is not the one that the others predict together.
    """
    trials = count_members(block.counted)
    outputs = _Supports(block)
    halves, own = outputs.searched()
    support = halves[0] + halves[1]
    rival = strongest_rival(support, block.target)
    crossed = [strongest_rival(half, block.target) for half in halves[::-1]]
    wrong = count_members((own != block.target) & block.counted)
    moments = np.stack([*outputs.moments(halves, [rival, rival], trials)] * 2)
    # Mostly, nearly all rows have one rival, whichever half prefers it.
    differing = np.flatnonzero((crossed[0] != rival) | (crossed[1] != rival))
    chosen, part = outputs.few_rows(differing)
    moments[2:, chosen] = part.moments(halves[:, chosen], [own[chosen] for own in crossed], trials[chosen])
    return np.stack([trials, *moments, wrong, outputs.dissent(support, own, trials)])


@record
class _Supports:
    """The members' probabilities or scores by label for a block of rows."""

    block: RowBlock

    def few_rows(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp] | slice, _Supports]:
        """Return rows with their supports; all rows where those that are asked for are not few, to copy none."""
        block = self.block
        if rows.size * FEW_ROWS > block.target.size:
            return slice(None), self
        # In the order in which they are stored.
        by_label = block.outputs.transpose(0, 2, 1)
        is_by_label = block.outputs[0].flags.f_contiguous
        outputs = by_label.take(rows, axis=2).transpose(0, 2, 1) if is_by_label else block.outputs.take(rows, axis=1)
        return rows, _Supports(RowBlock(outputs, block.counted.take(rows, axis=1), block.target[rows], block.n_labels))

    def searched(self) -> tuple[FloatArray, NDArray[Any]]:
        """Return the summed support of the even and the odd members, and the label of each member.

        Returns
        -------
        halves : ndarray, shape (2, n_rows, n_labels)
        own : ndarray of int, shape (n_members, n_rows)
            0 where the member does not count.
        """
        block = self.block
        own = np.zeros(block.counted.shape, dtype=np.min_scalar_type(block.n_labels))
        if block.n_labels <= FEW_LABELS:
            totals = np.zeros((2, block.n_labels, block.target.size))
            for members in self._slices():
                support = self._by_label(members)
                own[members] = _first_best(support)
                weighted = support * block.counted[members, None, :]
                for place, member in enumerate(range(*members.indices(own.shape[0]))):
                    totals[member % 2] += weighted[place]
            return totals.transpose(0, 2, 1), own
        halves = np.zeros((2, block.target.size, block.n_labels))
        for member, mask in enumerate(block.counted):
            rows = np.flatnonzero(mask)
            support = block.outputs[member].take(rows, axis=0)
            halves[member % 2][rows] += support
            own[member, rows] = np.argmax(support, axis=1)
        return halves, own

    def moments(
        self, halves: FloatArray, rivals: list[NDArray[np.int64]], trials: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sums of margins and of squared deviations, with a rival for the even members and for the odd."""
        target, rows = self.block.target, np.arange(trials.size)
        total: FloatArray = np.zeros(trials.size)
        for half, rival in zip(halves, rivals, strict=True):
            total += half[rows, target] - half[rows, rival]
        mean = total / np.maximum(trials, 1.0)
        squares = np.zeros(trials.size)
        true, *others = (_places(self.block.outputs[0], labels) for labels in (target, *rivals))
        # Several members at a time, an even number of them: the calls take as long as the arithmetic.
        at_once = max(CELLS_AT_ONCE // max(self.block.outputs[0].size, 1) // 2, 1) * 2
        starts = np.arange(at_once)[:, None] * self.block.outputs[0].size
        true_at, others_at = true + starts, np.tile(others, (at_once // 2, 1)) + starts
        for first in range(0, self.block.counted.shape[0], at_once):
            counted = self.block.counted[first : first + at_once]
            support = _flat(self.block.outputs[first : first + at_once])
            deviation = support.take(true_at[: len(counted)]) - support.take(others_at[: len(counted)])
            deviation -= mean
            deviation *= counted
            deviation *= deviation
            for own in deviation:
                squares += own
        return total, squares

    def dissent(self, support: FloatArray, own: NDArray[Any], trials: FloatArray) -> FloatArray:
        """Return how many members' labels differ from the label that the row's other members predict together."""
        rows = np.arange(trials.size)
        lead = np.argmax(support, axis=1)
        gap = support[rows, lead] - support[rows, strongest_rival(support, lead)]
        reach = float(np.ptp(self.block.outputs)) + ROUNDING * float(np.abs(support).max(initial=0.0))
        found = trials - count_members((own == lead) & self.block.counted)
        close = np.flatnonzero(gap <= reach)
        found[close] = self._dissent_of(close, support, own)
        return found

    def _dissent_of(self, rows: NDArray[np.intp], support: FloatArray, own: NDArray[Any]) -> FloatArray:
        block, apart = self.block, np.zeros((own.shape[0], rows.size), dtype=bool)
        others_of = support[rows]
        if block.n_labels <= FEW_LABELS:
            return self._dissent_by_slices(rows, others_of, own)
        for member, mask in enumerate(block.counted):
            here = np.flatnonzero(mask[rows])
            others = others_of[here] - block.outputs[member][rows[here]]
            apart[member, here] = own[member, rows[here]] != np.argmax(others, axis=1)
        return count_members(apart)

    def _dissent_by_slices(self, rows: NDArray[np.intp], support: FloatArray, own: NDArray[Any]) -> FloatArray:
        """Return the same for few labels, which are searched for several members at a time."""
        _, part = self.few_rows(rows)
        # Positions of the rows among those of the part.
        places = slice(None) if part is not self or rows.size == own.shape[1] else rows
        total, of_rows = np.ascontiguousarray(support.T), own[:, rows]
        apart = np.zeros(of_rows.shape, dtype=bool)
        for members in part._slices():
            best = _first_best(total - part._by_label(members)[:, :, places])
            apart[members] = (of_rows[members] != best) & part.block.counted[members, places]
        return count_members(apart)

    def _slices(self) -> list[slice]:
        """Return slices of the members whose supports are read together."""
        n_members, n_rows = self.block.counted.shape
        n_together = max(CELLS_AT_ONCE // max(self.block.n_labels * n_rows, 1), 1)
        return [slice(start, start + n_together) for start in range(0, n_members, n_together)]

    def _by_label(self, members: slice) -> FloatArray:
        """Return the supports of some members, shape (n_members, n_labels, n_rows), with rows next to each other."""
        return np.ascontiguousarray(self.block.outputs[members].transpose(0, 2, 1), dtype=np.float64)


def member_margins(block: RowBlock, rival: NDArray[np.int64]) -> NDArray[Any]:
    """Return each member's support for the true label minus that for the rival, shape (n_members, n_rows).

    Of votes, they are whole numbers in 8 bits.
    """
    if block.is_vote:
        return np.asarray(np.subtract(block.outputs == block.target, block.outputs == rival, dtype=np.int8))
    if block.n_labels == 2:
        # The rival is the other label: several times as fast as taking one label of each row by its position.
        leads = block.leads()
        leads *= np.where(block.target == 1, 1.0, -1.0)
        return np.asarray(leads)
    margins = np.empty(block.outputs.shape[:2])
    target, own = (np.arange(rival.size) * block.n_labels + labels for labels in (block.target, rival))
    for margin, output in zip(margins, block.outputs, strict=True):
        flat = output.reshape(-1)
        np.subtract(flat.take(target), flat.take(own), out=margin)
    return margins


def strongest_rival(support: NDArray[Any], target: NDArray[Any]) -> NDArray[np.int64]:
    """Return the code of the label with the highest support other than the true one, shape (n_rows,)."""
    others = support.copy()
    # Of counts, -1 is below every other.
    others[np.arange(target.size), target] = -1 if others.dtype.kind == "i" else -np.inf
    return np.asarray(np.argmax(others, axis=1), dtype=np.int64)


def tally_score_signs(block: RowBlock, sums: Sums | None = None) -> MarginTally:
    """Return the tally of one block of two labels by the second's raw score; faster than :func:`tally_margins`.

    Parameters
    ----------
    block : RowBlock
        Outputs have shape (n_members, n_rows): a positive score predicts the second label.
    sums : callable, optional
        Computes :func:`score_sums`, which is the default.
    """
    trials, total, squares, seconds, deciding = (sums or score_sums)(block)
    mean, sd = mean_and_sd(total, squares, trials)
    # The others predict the second label if their sum, the total minus a member's score, is positive.
    dissent = np.where(total > 0.0, trials - seconds + deciding, seconds + trials - deciding)
    is_second = block.target == 1
    margin = np.where(is_second, mean, -mean)
    wrong_labels = np.where(is_second, trials - seconds, seconds)
    return _tally_of([trials, margin, sd, margin, sd, wrong_labels, dissent], block.counted.shape[0])


def score_sums(block: RowBlock) -> FloatArray:
    """Return sums over the members of each row, from the second label's raw score of each.

    Returns
    -------
    ndarray, shape (5, n_rows)
        :func:`~ens_plugin.core.tallies.tally.value_sums`, the members with a positive score, and those whose score is
        at least the sum of all.
    """
    of_values = value_sums(block)
    masks = (block.outputs > 0.0, block.outputs >= of_values[1])
    return np.stack([*of_values, *(count_members(mask & block.counted) for mask in masks)])


def _first_best(support: FloatArray) -> NDArray[Any]:
    """Return the label with the most support, the first of equals, from support of shape (..., n_labels, n_rows).

    The result is that of np.argmax, which takes ten times as long across short axes.
    """
    best = support[..., 0, :].copy()
    label = np.zeros(best.shape, dtype=np.min_scalar_type(support.shape[-2]))
    for index in range(1, support.shape[-2]):
        own = support[..., index, :]
        better = own > best
        np.maximum(best, own, out=best)
        np.maximum(label, better * label.dtype.type(index), out=label)
    return label


def _flat(outputs: NDArray[Any]) -> NDArray[Any]:
    """Return outputs of shape (n_members, n_rows, n_labels) flat, in the order in which they are stored."""
    return outputs.transpose(0, 2, 1).reshape(-1) if outputs[0].flags.f_contiguous else outputs.reshape(-1)


def _places(outputs: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the place of one label of each row in :func:`_flat`."""
    n_rows, n_labels = outputs.shape
    rows = np.arange(n_rows)
    places = labels * n_rows + rows if outputs.flags.f_contiguous else rows * n_labels + labels
    return np.asarray(places, dtype=np.intp)
