"""Rows on which equally many labels can win, and how often random subsets of the members are wrong on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.tally import count_members
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray
from ens_plugin.records import record

__all__ = [
    "Contest",
    "LeadContest",
    "ScoreContest",
    "SingleArray",
    "Subsets",
    "VoteContest",
    "VoteCounts",
    "contests",
    "count_votes_by",
    "lead_contests",
]

SingleArray = NDArray[np.float32]
RowIndex = NDArray[np.intp]

SLOTS = np.array([1, 2, 3, 4, 6, 9, 15, 30])
PART_SUMS = 400_000
# Of a contest that only one label can win.
_NO_VOTES = np.empty((0, 0), dtype=np.uint16)


class Subsets(NamedTuple):
    """Subsets of the same number of members.

    Attributes
    ----------
    places : ndarray of int, shape (n_subsets, size)
        Members of each subset.
    indicators : ndarray, shape (n_subsets, n_members)
        1 for the members of each subset, else 0.
    """

    places: IntArray
    indicators: SingleArray


# Returns, for the slots that members vote for, shape (n_members, n_rows), the slot of the true label of each row, the
# number of slots and subsets, how many subsets are wrong, and how many differ from the other members; (2, n_rows).
VoteCounts: TypeAlias = Callable[[NDArray[np.uint16], IntArray, int, Subsets], FloatArray]


@record
class VoteContest:
    """Rows on which the same number of labels can win, with the members' votes for them.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
    votes : ndarray of uint16, shape (n_members, n_rows)
        Slot that each member votes for; slots are the labels with votes, in their order.
    target : ndarray of int, shape (n_rows,)
        Slot of the true label; -1 where it cannot win.
    n_slots : int
    count : callable
        Counts the votes of subsets as :func:`count_votes_by`.
    """

    rows: RowIndex
    votes: NDArray[np.uint16]
    target: IntArray
    n_slots: int
    count: VoteCounts

    def shares(self, subsets: Subsets) -> tuple[FloatArray, FloatArray]:
        """Return the share of subsets that are wrong, and that differ from the other members, both shape (n_rows,)."""
        if self.n_slots == 1:
            return (self.target < 0).astype(np.float64), np.zeros(self.rows.size)
        wrong, apart = self.count(self.votes, self.target, self.n_slots, subsets) / len(subsets.places)
        return wrong, apart


@record
class ScoreContest:
    """Rows on which the same number of labels can win, with the members' probabilities or scores for them.

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

    def shares(self, subsets: Subsets) -> tuple[FloatArray, FloatArray]:
        """Return the share of subsets that are wrong, and that differ from the other members, both shape (n_rows,)."""
        n_members, n_slots, n_rows = self.outputs.shape
        if n_slots == 1:
            return (self.target < 0).astype(np.float64), np.zeros(n_rows)
        flat = self.outputs.reshape(n_members, -1)
        total = self.outputs.sum(axis=0)
        counts = np.zeros((2, n_rows))
        for some in _parts(subsets.indicators, n_slots * n_rows):
            sums = (some @ flat).reshape(-1, n_slots, n_rows)
            label = _winner(sums)
            counts[0] += np.count_nonzero(label != self.target, axis=0)
            counts[1] += np.count_nonzero(label != _winner(total - sums), axis=0)
        wrong, apart = counts / len(subsets.indicators)
        return wrong, apart


@record
class LeadContest:
    """Rows on which two labels can win, and each member's score of the one is minus that of the other.

    Sums of such scores are minus one another too, to the bit, so that the sign of one says which label wins.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
    lead : ndarray, shape (n_members, n_rows)
        Score of the second label that can win.
    target : ndarray of int, shape (n_rows,)
        Slot of the true label; -1 where it cannot win.
    """

    rows: RowIndex
    lead: SingleArray
    target: IntArray

    def shares(self, subsets: Subsets) -> tuple[FloatArray, FloatArray]:
        """Return the share of subsets that are wrong, and that differ from the other members, both shape (n_rows,)."""
        total, target = self.lead.sum(axis=0), self.target.astype(np.int8)
        counts = np.zeros((2, self.rows.size))
        for some in _parts(subsets.indicators, self.rows.size):
            sums = some @ self.lead
            is_second = sums > 0
            counts[0] += count_members(is_second.view(np.int8) != target)
            # The others' sum is above 0 where that of the subset is below the total.
            counts[1] += count_members(is_second != (sums < total))
        wrong, apart = counts / len(subsets.indicators)
        return wrong, apart


Contest: TypeAlias = VoteContest | ScoreContest | LeadContest


def count_votes_by(votes: NDArray[np.uint16], target: IntArray, n_slots: int, subsets: Subsets) -> FloatArray:
    """Return how many subsets are wrong, and how many differ from the other members; the first slot wins ties.

    One maximum over whole numbers, which hold the votes and the rank of the slot, finds the winner.

    Parameters
    ----------
    votes : ndarray of uint16, shape (n_members, n_rows)
        Slot that each member votes for.
    target : ndarray of int, shape (n_rows,)
        Slot of the true label; -1 where it cannot win.
    n_slots : int
    subsets : Subsets

    Returns
    -------
    ndarray, shape (2, n_rows)

    Examples
    --------
    >>> pairs = Subsets(np.array([[0, 1], [1, 2]]), np.array([[1, 1, 0], [0, 1, 1]], dtype=np.float32))
    >>> count_votes_by(np.array([[0], [0], [1]], dtype=np.uint16), np.array([0]), 2, pairs).tolist()
    [[0.0], [1.0]]
    """
    n_members, n_rows = votes.shape
    # A power of 2, at least the number of slots; each vote counts so much.  Sums are exact in single precision up to
    # 2900 members.
    base = 1 << int(n_slots - 1).bit_length()
    rank = (base - 1 - np.arange(n_slots, dtype=np.float32))[:, None]
    by_slot = (votes[:, None, :] == np.arange(n_slots, dtype=votes.dtype)[:, None]) * np.float32(base)
    total = by_slot.sum(axis=0) + 2.0 * rank
    flat = np.concatenate([by_slot, np.broadcast_to(rank, (1, n_slots, n_rows))]).reshape(n_members + 1, -1)
    with_rank = np.column_stack([subsets.indicators, np.ones(len(subsets.indicators), dtype=np.float32)])
    true_rank = base - 1 - target
    counts = np.zeros((2, n_rows))
    for some in _parts(with_rank, n_slots * n_rows):
        sums = (some @ flat).reshape(-1, n_slots, n_rows)
        best = sums.max(axis=1).astype(np.int32) & (base - 1)
        others = np.subtract(total, sums, out=sums).max(axis=1).astype(np.int32) & (base - 1)
        counts[0] += np.count_nonzero(best != true_rank, axis=0)
        counts[1] += np.count_nonzero(best != others, axis=0)
    return counts


def contests(
    outputs: NDArray[Any],
    target: NDArray[np.integer],
    n_labels: int,
    n_together: int,
    rng: np.random.Generator,
    count: VoteCounts,
) -> Iterator[Contest]:
    """Yield batches of rows on which equally many labels can win: those that some member prefers to the leading one.

    The members are in another random order for every contest, so that contests with the same subsets are independent.

    Parameters
    ----------
    outputs : ndarray
        Label codes, shape (n_members, n_rows), or outputs by label, shape (n_members, n_labels, n_rows).
    target : ndarray of int, shape (n_rows,)
    n_labels, n_together : int
        Number of labels; largest number of rows of a contest.
    rng : numpy Generator
    count : callable
        Counts the votes of subsets as :func:`count_votes_by`.
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
            order = rng.permutation(outputs.shape[0])
            if is_vote:
                yield _vote_contest(chosen, outputs[order[:, None], chosen], target[chosen], can_win[chosen], count)
            else:
                yield _score_contest(chosen, outputs, order, target[chosen], can_win[chosen], int(kinds[index]))


def lead_contests(
    scores: SingleArray, target: IntArray, n_together: int, rng: np.random.Generator
) -> Iterator[Contest]:
    """Yield what :func:`contests` does for two labels, from the second one's scores, minus which are the first one's.

    Parameters
    ----------
    scores : ndarray of float32, shape (n_members, n_rows)
    target, n_together, rng
        As of :func:`contests`.
    """
    leads = scores.sum(axis=0) > 0
    # The other label can win where some member prefers it to the one that leads.
    can_change = np.where(leads, scores.min(axis=0) < 0, scores.max(axis=0) > 0)
    for changes in (False, True):
        alike = np.flatnonzero(can_change == changes)
        for start in range(0, alike.size, n_together):
            chosen = alike[start : start + n_together]
            order = rng.permutation(scores.shape[0])
            if changes:
                yield LeadContest(chosen, scores.take(chosen, axis=1).take(order, axis=0), target[chosen])
            else:
                yield VoteContest(
                    chosen, _NO_VOTES, np.where(target[chosen] == leads[chosen], 0, -1), 1, count_votes_by
                )


def _vote_contest(
    rows: RowIndex, votes: NDArray[Any], target: NDArray[np.integer], can_win: BoolArray, count: VoteCounts
) -> VoteContest:
    # A label without a vote wins nothing, so that votes need no more slots than some row has labels.
    n_slots = int(np.count_nonzero(can_win, axis=1).max())
    slot = np.cumsum(can_win, axis=1, dtype=np.uint16) - np.uint16(1)
    places = np.arange(rows.size)
    true_slot = np.where(can_win[places, target], slot[places, target].astype(np.int64), -1)
    return VoteContest(rows, slot[places, votes], true_slot, n_slots, count)


def _score_contest(
    rows: RowIndex, outputs: SingleArray, order: IntArray, target: NDArray[np.integer], can_win: BoolArray, n_slots: int
) -> ScoreContest | LeadContest:
    # A stable sort by whether labels can win keeps their order.
    slots = np.argsort(~can_win, axis=1, kind="stable")[:, :n_slots].T
    is_target = slots == target
    true_slot = np.where(is_target.any(axis=0), np.argmax(is_target, axis=0), -1)
    # Takes are several times as fast as an index of three axes.
    own = outputs.reshape(order.size, -1).take(slots * outputs.shape[2] + rows, axis=1).take(order, axis=0)
    if n_slots == 2 and np.array_equal(own[:, 0], -own[:, 1]):
        return LeadContest(rows, np.ascontiguousarray(own[:, 1]), true_slot)
    return ScoreContest(rows, own, true_slot)


def _parts(subsets: NDArray[Any], n_sums: int) -> Iterator[NDArray[Any]]:
    """Yield some subsets at a time, so few that their sums, `n_sums` of each, take little memory."""
    step = max(PART_SUMS // n_sums, 1)
    return (subsets[start : start + step] for start in range(0, len(subsets), step))


def _winner(sums: SingleArray) -> NDArray[np.int8 | np.int16]:
    """Return the slot with the highest sum, the first of equals, from sums of shape (n_subsets, n_slots, n_rows)."""
    best = sums[:, 0].copy()
    slot = np.zeros(best.shape, dtype=np.int16)
    for index in range(1, sums.shape[1]):
        better = sums[:, index] > best
        np.maximum(best, sums[:, index], out=best)
        np.maximum(slot, better * np.int16(index), out=slot)
    return slot


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
