"""Counts and moments by row, which are added over blocks of rows: the contests of labels, votes, values and margins.

Per-row tallies of the members' outputs, the input of every estimator; those of disjoint rows merge, to the bit.
Whoever makes a tally of counted members keeps the counts in few bytes, by
:func:`ens_plugin.core.validation.in_few_bytes`. Every column is read as float64; :func:`parts_of` gives few rows at a
time, whose columns take little memory.

The tally of margins: a row's support for its true label minus that for the strongest of the other labels. The cost of
votes grows with the members and not with members times labels. Of probabilities and scores, the labels are searched
once for each member; the others' label is searched anew only on rows where one member can change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import BoolArray, Column, FloatArray, IntArray, in_few_bytes, row_parts

__all__ = [
    "CHUNK",
    "AnyTally",
    "MarginTally",
    "RowBlock",
    "Subsets",
    "SupportTally",
    "ValueTally",
    "both_scores",
    "concatenate",
    "contests",
    "copy_rows",
    "count_members",
    "empty_tally",
    "label_support",
    "lead_contests",
    "mean_share",
    "member_labels",
    "member_margins",
    "parts_of",
    "select_rows",
    "strongest_rival",
    "sum_over_members",
    "sum_squares_over_members",
    "take_rows",
    "tally_margins",
    "tally_score_signs",
    "tally_support",
    "tally_values",
    "value_sums",
    "wrong_support",
]

# Blocks of rows start at multiples of so many, of which what is computed stays in a processor's cache.
CHUNK = 256
CELLS_AT_ONCE = 2**17
# Votes on two labels are counted by masks, of a byte for each member.
MASKS_AT_ONCE = 2**20
SUMS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Outputs of every member for a contiguous block of rows.

    Attributes
    ----------
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Label codes (integer), probabilities or scores by label, or values.
    counted : ndarray of bool, shape (n_members, n_rows)
        True where the output counts: the member is out of bag for the row (or the row is held out).
    target : ndarray, shape (n_rows,)
        True label codes (integer) or values.
    n_labels : int
        Number of labels; 0 for regression.
    """

    outputs: NDArray[Any]
    counted: BoolArray
    target: NDArray[Any]
    n_labels: int

    @cached_property
    def trials(self) -> FloatArray:
        """Return the number of members that count for each row, shape (n_rows,); read-only."""
        trials = count_members(self.counted)
        trials.flags.writeable = False
        return trials

    @cached_property
    def support(self) -> FloatArray:
        """Return :func:`label_support` over the members that count, shape (n_rows, n_labels); read-only."""
        support = label_support(self, self.counted)
        support.flags.writeable = False
        return support

    @property
    def is_vote(self) -> bool:
        """Return whether the outputs are label codes, or the values of a regression."""
        return self.outputs.ndim == 2

    @property
    def stored(self) -> NDArray[Any]:
        """Return the array of which rows are copied: the outputs, or what they are made of."""
        return self.outputs

    def like(self, stored: NDArray[Any], counted: BoolArray, target: NDArray[Any]) -> RowBlock:
        """Return other rows of the same kind, from what :attr:`stored` returns for them."""
        return RowBlock(stored, counted, target, self.n_labels)

    def leads(self) -> FloatArray:
        """Return each member's support for the second of two labels minus that for the first, as a new array."""
        return np.asarray(np.subtract(self.outputs[..., 1], self.outputs[..., 0], dtype=np.float64))

    def seconds(self) -> BoolArray:
        """Return which members predict the second of two labels; the first label wins ties."""
        return np.asarray(self.outputs[..., 1] > self.outputs[..., 0])


@dataclass(frozen=True, eq=False)
class _Tally:
    """A tally of any kind, whose first column is the number of members that count for each row."""

    trials: Column = Column()

    @property
    def n_rows(self) -> int:
        """Return the number of rows, or of groups of rows."""
        return int(vars(self)["trials"].size)


@dataclass(frozen=True, eq=False)
class SupportTally(_Tally):
    """Summed support of each row's members for the wrong one of two labels; hard votes are 0 or 1.

    Attributes
    ----------
    trials : ndarray, shape (n_rows,)
        Number of members that count for the row: out of bag, or all where it is held out.
    wrong : ndarray, shape (n_rows,)
        Sum of the members' support for the wrong label.
    squares : ndarray, shape (n_rows,)
        Sum of the squares of that support; equal to `wrong` for hard votes.
    wrong_labels : ndarray, shape (n_rows,)
        Number of members whose own label is wrong.
    """

    wrong: Column = Column()
    squares: Column = Column()
    wrong_labels: Column = Column()


@dataclass(frozen=True, eq=False)
class MarginTally(_Tally):
    """Mean and spread of each row's margins against its strongest rival.

    Attributes
    ----------
    trials : ndarray, shape (n_rows,)
    mean, sd : ndarray, shape (n_rows,)
        Mean and standard deviation (ddof 1) over members of the margin (true label minus strongest rival).
    wrong_labels : ndarray, shape (n_rows,)
        Number of members whose own label is wrong.
    """

    mean: Column = Column()
    sd: Column = Column()
    wrong_labels: Column = Column()


@dataclass(frozen=True, eq=False)
class ValueTally(_Tally):
    """Mean and variance (ddof 1) of each row's real-valued outputs, and the target."""

    mean: Column = Column()
    variance: Column = Column()
    target: Column = Column()


AnyTally: TypeAlias = SupportTally | MarginTally | ValueTally
TallyOfRows = TypeVar("TallyOfRows", bound=_Tally)


def concatenate(tallies: Sequence[AnyTally]) -> AnyTally:
    """Return the tally merged from tallies of disjoint blocks of rows, in row order."""
    return _by_column(tallies, np.concatenate)


def empty_tally(like: AnyTally, n_rows: int) -> AnyTally:
    """Return a tally for `n_rows` rows, its values not set yet, of the same kind as `like`."""
    return _by_column([like], lambda columns: np.empty(n_rows, dtype=columns[0].dtype))


def copy_rows(part: AnyTally, whole: AnyTally, start: int) -> None:
    """Copy a tally of a block of rows into the rows of `whole` from `start` on, whose columns have types as wide."""
    for column, into in zip(vars(part).values(), vars(whole).values(), strict=True):
        np.copyto(into[start : start + column.size], column, casting="safe")


def select_rows(tally: AnyTally, usable: BoolArray) -> AnyTally:
    """Return the tally of some of the rows; the same object, not a copy, if all are usable."""
    return tally if usable.all() else take_rows(tally, np.flatnonzero(usable))


def take_rows(tally: AnyTally, rows: NDArray[np.integer]) -> AnyTally:
    """Return the tally of some of the rows, by position."""
    return _by_column([tally], lambda columns: columns[0][rows])


def parts_of(tally: TallyOfRows) -> Iterator[tuple[slice, TallyOfRows]]:
    """Return the rows of a tally some at a time: their positions, and the tally of these, without copying it."""
    for rows in row_parts(tally.n_rows):
        yield rows, type(tally)(*(column[rows] for column in vars(tally).values()))


def mean_share(tally: TallyOfRows, count: Callable[[TallyOfRows], FloatArray], weight: FloatArray) -> float:
    """Return the weighted mean over rows of a count of members, such as those with a wrong label, over their number.

    Every row has at least one member.
    """
    weighted = np.empty(tally.n_rows)
    for rows, part in parts_of(tally):
        weighted[rows] = count(part) / part.trials * weight[rows]
    return float(weighted.sum() / weight.sum())


def _by_column(tallies: Sequence[AnyTally], change: Callable[[list[NDArray[Any]]], NDArray[Any]]) -> AnyTally:
    """Return a tally of the columns that `change` makes of those of several tallies; equal columns remain one array."""
    made: dict[tuple[int, ...], NDArray[Any]] = {}
    columns = []
    for parts in zip(*(vars(tally).values() for tally in tallies), strict=True):
        key = tuple(map(id, parts))
        if key not in made:
            made[key] = change(list(parts))
        columns.append(made[key])
    return type(tallies[0])(*columns)


def count_members(mask: BoolArray) -> FloatArray:
    """Return the number of members for which `mask` of shape (n_members, n_rows) is True, shape (n_rows,)."""
    # Adding bytes, which hold sums up to 255, is ten times as fast as np.count_nonzero.
    parts = [
        np.add.reduce(mask[start : start + 255].view(np.uint8), axis=0, dtype=np.uint8)
        for start in range(0, mask.shape[0], 255)
    ]
    return np.asarray(np.sum(parts, axis=0, dtype=np.float64))


def sum_over_members(values: NDArray[Any], counted: BoolArray) -> FloatArray:
    """Return the sum, over members in their order, of the outputs that count, shape (n_rows, ...)."""
    return _sum_of(values, counted, lambda value: value)


def sum_squares_over_members(values: NDArray[Any], counted: BoolArray) -> FloatArray:
    """Return the sum, over members in their order, of the squares of the outputs that count, shape (n_rows, ...)."""
    return _sum_of(values, counted, lambda value: np.square(value, dtype=np.float64))


def _sum_of(values: NDArray[Any], counted: BoolArray, change: Callable[[NDArray[Any]], NDArray[Any]]) -> FloatArray:
    total = np.zeros(values.shape[1:])
    n_rows, width = values.shape[1], total[:1].size
    height = max(SUMS_AT_ONCE // max(width, 1), 1)
    for start in range(0, n_rows, height):
        rows = slice(start, start + height)
        # Flat, because NumPy is slow where the last axis is short, and the labels are few.
        own, masks = total[rows].reshape(-1), counted[:, rows]
        if width > 1:
            masks = np.repeat(masks, width, axis=1)
        # Outputs are finite, so a product with the mask drops those that do not count: five times as fast as np.where.
        for value, mask in zip(values[:, rows], masks, strict=True):
            own += change(value.reshape(-1)) * mask
    return total


def tally_support(block: RowBlock) -> SupportTally:
    """Return the tally of one block of a two-label ensemble that votes or averages probabilities."""
    n_members = block.counted.shape[0]
    trials = in_few_bytes(block.trials, n_members)
    labels = member_labels(block)
    target = block.target.astype(labels.dtype)
    wrong_labels = in_few_bytes(count_members((labels != target) & block.counted), n_members)
    if block.outputs.ndim == 2:
        return SupportTally(trials, wrong_labels, wrong_labels, wrong_labels)
    support = wrong_support(block)
    squares = sum_squares_over_members(support, block.counted)
    return SupportTally(trials, sum_over_members(support, block.counted), squares, wrong_labels)


def wrong_support(block: RowBlock) -> NDArray[Any]:
    """Return each member's support for the wrong one of two labels, shape (n_members, n_rows); bool for votes."""
    if block.outputs.ndim == 2:
        return np.asarray(block.outputs != block.target.astype(block.outputs.dtype))
    # Five times as fast as taking one label of each row by its position.
    return np.where(block.target == 0, block.outputs[:, :, 1], block.outputs[:, :, 0]).astype(np.float64, copy=False)


def tally_values(block: RowBlock) -> ValueTally:
    """Return the tally of one block of a regression ensemble."""
    trials, total, squares = value_sums(block)
    mean, sd = mean_and_sd(total, squares, trials)
    return ValueTally(in_few_bytes(trials, block.counted.shape[0]), mean, sd**2, block.target.astype(np.float64))


def value_sums(block: RowBlock) -> FloatArray:
    """Return sums over the members of each row, from one number of each, shape (3, n_rows).

    They are the number of members that count, the sum of their outputs, and that of squared deviations from the mean.
    """
    trials = block.trials
    total = sum_over_members(block.outputs, block.counted)
    return np.stack([trials, total, _squared_deviations(block, total / np.maximum(trials, 1.0))])


def mean_and_sd(total: FloatArray, squares: FloatArray, trials: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (ddof 1), 0 with fewer than two, from a sum and squared deviations."""
    return total / np.maximum(trials, 1.0), np.asarray(np.sqrt(squares / np.maximum(trials - 1.0, 1.0)))


def both_scores(scores: FloatArray) -> FloatArray:
    """Return -s/2 and s/2 as the scores of two labels, given the score s of the second, shape (..., 2)."""
    half = scores / 2.0
    both = np.empty((*half.shape, 2), half.dtype)
    np.negative(half, out=both[..., 0])
    both[..., 1] = half
    return both


def member_labels(block: RowBlock) -> NDArray[Any]:
    """Return each member's own label code, shape (n_members, n_rows); the first label wins ties."""
    if block.is_vote:
        return block.outputs
    if block.n_labels == 2:
        return np.asarray(block.seconds(), dtype=np.int8)
    return np.asarray(np.argmax(block.outputs, axis=2))


def label_support(block: RowBlock, counted: BoolArray) -> FloatArray:
    """Return the summed support for each label over the members that count, shape (n_rows, n_labels)."""
    if block.outputs.ndim == 3:
        return sum_over_members(block.outputs, counted)
    support = np.zeros((block.target.size, block.n_labels))
    for rows in cached_rows(block, MASKS_AT_ONCE if block.n_labels == 2 else CELLS_AT_ONCE):
        support[rows] = count_votes(block.outputs[:, rows], counted[:, rows], block.n_labels)
    return support


def cached_rows(block: RowBlock, n_cells: int = CELLS_AT_ONCE) -> list[slice]:
    """Return slices of a block's rows so short that counts by label and by member stay in a processor's cache."""
    height = max(n_cells // max(block.n_labels, block.counted.shape[0], 1), 1)
    return [slice(start, start + height) for start in range(0, block.target.size, height)]


def count_votes(votes: NDArray[Any], counted: BoolArray, n_labels: int) -> IntArray:
    """Return each row's votes for each label over the members that count, shape (n_rows, n_labels).

    The label codes of members that do not count may be anything.
    """
    n_rows = votes.shape[1]
    if n_labels == 2:
        second = count_members(counted & (votes == 1)).astype(np.int64)
        return np.column_stack([count_members(counted).astype(np.int64) - second, second])
    member, row = np.nonzero(counted)
    cell = row * n_labels + votes[member, row].astype(np.intp)
    return np.bincount(cell, minlength=n_rows * n_labels).reshape(n_rows, n_labels)


def _squared_deviations(block: RowBlock, mean: FloatArray) -> FloatArray:
    """Return the sum over the members that count of their outputs' squared deviations from the mean."""
    squares = np.zeros_like(mean)
    for value, mask in zip(block.outputs, block.counted, strict=True):
        deviation = value - mean
        deviation *= mask
        deviation *= deviation
        squares += deviation
    return squares


SingleArray = NDArray[np.float32]
RowIndex = NDArray[np.intp]

SLOTS = np.array([1, 2, 3, 4, 6, 9, 15, 30])
PART_SUMS = 400_000
# Sums of several sizes that are counted together: so few that counting them stays in a processor's cache.
RUN_SUMS = 100_000
# Of a contest that only one label can win.
_NO_VOTES = np.empty((0, 0), dtype=np.uint16)


class Subsets(NamedTuple):
    """Subsets of the same number of members: `places` are the members of each, shape (n_subsets, size).

    `indicators`, shape (n_subsets, n_members), are 1 for these members, else 0.
    """

    places: IntArray
    indicators: SingleArray


@dataclass(frozen=True, eq=False)
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
    """

    rows: RowIndex
    votes: NDArray[np.uint16]
    target: IntArray
    n_slots: int

    def shares(self, drawn: Sequence[Subsets]) -> FloatArray:
        """Return the share of subsets of each size that are wrong, shape (n_sizes, n_rows)."""
        if self.n_slots == 1:
            return _unchanged(self.target, len(drawn))
        return np.stack([_wrong_votes(self, subsets) / len(subsets.places) for subsets in drawn])


@dataclass(frozen=True, eq=False)
class ScoreContest:
    """Rows on which the same number of labels can win, with the members' probabilities or scores for them.

    The outputs, shape (n_slots, n_members, n_rows), are in the order of the labels.  The target is the slot of the true
    label, -1 where it cannot win.
    """

    rows: RowIndex
    outputs: SingleArray
    target: IntArray

    def shares(self, drawn: Sequence[Subsets]) -> FloatArray:
        """Return the share of subsets of each size that are wrong, shape (n_sizes, n_rows)."""
        if len(self.outputs) == 1:
            return _unchanged(self.target, len(drawn))
        target, found = self.target.astype(np.int16), []
        for run, indicators in _runs(drawn, self.rows.size):
            found.append(_shares(_winners(self.outputs, indicators) != target, run))
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class LeadContest:
    """Rows on which two labels can win, and each member's score of the one is minus that of the other.

    Sums of such scores are minus one another too, to the bit, so that the sign of one says which label wins.  The lead
    is the score of the second label; the target is the slot of the true one, -1 where it cannot win.
    """

    rows: RowIndex
    lead: SingleArray
    target: IntArray

    def shares(self, drawn: Sequence[Subsets]) -> FloatArray:
        """Return the share of subsets of each size that are wrong, shape (n_sizes, n_rows)."""
        target, found = self.target.astype(np.int8), []
        for run, indicators in _runs(drawn, self.rows.size):
            is_second = indicators @ self.lead > 0
            found.append(_shares(is_second.view(np.int8) != target, run))
        return np.concatenate(found)


Contest: TypeAlias = VoteContest | ScoreContest | LeadContest


def _runs(drawn: Sequence[Subsets], n_rows: int) -> Iterator[tuple[Sequence[Subsets], SingleArray]]:
    """Yield subsets of as many sizes in turn as have few sums together, and at least of one, with their indicators."""
    start, n_sums = 0, 0
    for stop, subsets in enumerate(drawn):
        n_sums += len(subsets.places) * n_rows
        if stop > start and n_sums > RUN_SUMS:
            yield drawn[start:stop], np.concatenate([each.indicators for each in drawn[start:stop]])
            start, n_sums = stop, len(subsets.places) * n_rows
    yield drawn[start:], np.concatenate([each.indicators for each in drawn[start:]])


def _unchanged(target: IntArray, n_sizes: int) -> FloatArray:
    """Return the shares of rows on which all subsets elect the one label that can win, shape (n_sizes, n_rows)."""
    return np.tile((target < 0).astype(np.float64), (n_sizes, 1))


def _shares(wrong: BoolArray, drawn: Sequence[Subsets]) -> FloatArray:
    """Return the share of the subsets of each size that are wrong, shape (n_sizes, n_rows)."""
    ends = np.cumsum([len(subsets.places) for subsets in drawn])
    return np.array([count_members(some) / len(some) for some in np.split(wrong, ends[:-1])])


def _wrong_votes(contest: VoteContest, subsets: Subsets) -> FloatArray:
    """Return how many subsets are wrong, shape (n_rows,).

    One maximum over whole numbers, which hold the votes and the rank of the slot, finds the winner; the first slot wins
    ties.
    """
    votes, n_slots = contest.votes, contest.n_slots
    n_members, n_rows = votes.shape
    # A power of 2, at least the number of slots; each vote counts so much.  Sums are exact in single precision up to
    # 2900 members.
    base = 1 << int(n_slots - 1).bit_length()
    rank = (base - 1 - np.arange(n_slots, dtype=np.float32))[:, None]
    by_slot = (votes[:, None, :] == np.arange(n_slots, dtype=votes.dtype)[:, None]) * np.float32(base)
    flat = np.concatenate([by_slot, np.broadcast_to(rank, (1, n_slots, n_rows))]).reshape(n_members + 1, -1)
    with_rank = np.column_stack([subsets.indicators, np.ones(len(subsets.indicators), dtype=np.float32)])
    true_rank = base - 1 - contest.target
    counts = np.zeros(n_rows)
    for some in _parts(with_rank, n_slots * n_rows):
        sums = (some @ flat).reshape(-1, n_slots, n_rows)
        best = sums.max(axis=1).astype(np.int32) & (base - 1)
        counts += np.count_nonzero(best != true_rank, axis=0)
    return counts


def contests(
    outputs: NDArray[Any],
    target: NDArray[np.integer],
    n_labels: int,
    n_together: int,
    rng: np.random.Generator,
) -> Iterator[Contest]:
    """Yield batches of rows on which equally many labels can win: those that some member prefers to the leading one.

    The members are in another random order for every contest, so that contests with the same subsets are independent.
    The outputs are label codes, shape (n_members, n_rows), or of shape (n_members, n_labels, n_rows).
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
                yield _vote_contest(chosen, outputs[order[:, None], chosen], target[chosen], can_win[chosen])
            else:
                yield _score_contest(chosen, outputs, order, target[chosen], can_win[chosen])


def lead_contests(
    scores: SingleArray, target: IntArray, n_together: int, rng: np.random.Generator
) -> Iterator[Contest]:
    """Yield what :func:`contests` does for two labels, from the second one's scores, minus which are the other's."""
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
                yield VoteContest(chosen, _NO_VOTES, np.where(target[chosen] == leads[chosen], 0, -1), 1)


def _vote_contest(rows: RowIndex, votes: NDArray[Any], target: NDArray[np.integer], can_win: BoolArray) -> VoteContest:
    # A label without a vote wins nothing, so that votes need no more slots than some row has labels.
    n_slots = int(np.count_nonzero(can_win, axis=1).max())
    slot = np.cumsum(can_win, axis=1, dtype=np.uint16) - np.uint16(1)
    places = np.arange(rows.size)
    true_slot = np.where(can_win[places, target], slot[places, target].astype(np.int64), -1)
    return VoteContest(rows, slot[places, votes], true_slot, n_slots)


def _score_contest(
    rows: RowIndex, outputs: SingleArray, order: IntArray, target: NDArray[np.integer], can_win: BoolArray
) -> ScoreContest | LeadContest:
    # Other labels win nothing, so that there need not be more slots than some row has labels that can win.
    n_slots = int(np.count_nonzero(can_win, axis=1).max())
    # A stable sort by whether labels can win keeps their order.
    slots = np.argsort(~can_win, axis=1, kind="stable")[:, :n_slots].T
    is_target = slots == target
    true_slot = np.where(is_target.any(axis=0), np.argmax(is_target, axis=0), -1)
    # Takes are several times as fast as an index of three axes.
    own = outputs.reshape(order.size, -1).take(slots * outputs.shape[2] + rows, axis=1).take(order, axis=0)
    own = np.ascontiguousarray(own.transpose(1, 0, 2))
    if n_slots == 2 and np.array_equal(own[0], -own[1]):
        return LeadContest(rows, own[1], true_slot)
    return ScoreContest(rows, own, true_slot)


def _parts(subsets: NDArray[Any], n_sums: int) -> Iterator[NDArray[Any]]:
    """Yield some subsets at a time, so few that their sums, `n_sums` of each, take little memory."""
    step = max(PART_SUMS // n_sums, 1)
    return (subsets[start : start + step] for start in range(0, len(subsets), step))


def _winners(outputs: SingleArray, indicators: SingleArray) -> NDArray[np.int16]:
    """Return the slot with the highest sum, the first of equals, of subsets of the members.

    The outputs have shape (n_slots, n_members, n_rows), the result (n_subsets, n_rows).  Slots take turns, so that the
    sums of one stay in the processor's cache.
    """
    shape = (len(indicators), outputs.shape[2])
    sums, best, slot = np.empty(shape, np.float32), np.full(shape, -np.inf, np.float32), np.zeros(shape, np.int16)
    for index, own in enumerate(outputs):
        np.matmul(indicators, own, out=sums)
        is_better = sums > best
        np.maximum(best, sums, out=best)
        np.maximum(slot, is_better * np.int16(index), out=slot)
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


# Up to so many labels, a loop over labels is faster than np.argmax across them.
FEW_LABELS = 16
# Supports of so many cells are read at once, which stay in a processor's cache.
SUPPORTS_AT_ONCE = 32_768


def tally_margins(block: RowBlock) -> MarginTally:
    """Return the tally of one block by margins, for any number of labels, from votes, probabilities or scores."""
    if block.outputs.ndim == 2:
        return _tally_votes(block)
    trials, outputs = count_members(block.counted), _Supports(block)
    support, own = outputs.searched()
    total, squares = outputs.moments(support, strongest_rival(support, block.target), trials)
    wrong = count_members((own != block.target) & block.counted)
    return _tally_of(trials, *mean_and_sd(total, squares, trials), wrong, block.counted.shape[0])


def _tally_votes(block: RowBlock) -> MarginTally:
    columns = np.empty((4, block.target.size))
    for rows in cached_rows(block):
        support = count_votes(block.outputs[:, rows], block.counted[:, rows], block.n_labels)
        columns[:, rows] = _vote_columns(support, block.target[rows])
    trials, mean, sd, wrong = columns
    return _tally_of(trials, mean, sd, wrong, block.counted.shape[0])


def _tally_of(trials: FloatArray, mean: FloatArray, sd: FloatArray, wrong: FloatArray, n_members: int) -> MarginTally:
    """Return the tally of columns, its counts in few bytes."""
    return MarginTally(in_few_bytes(trials, n_members), mean, sd, in_few_bytes(wrong, n_members))


def _vote_columns(support: IntArray, target: NDArray[Any]) -> list[FloatArray]:
    """Return the columns of the tally from the votes of the members, shape (n_rows, n_labels)."""
    rows = np.arange(target.size)
    trials = support.sum(axis=1).astype(np.float64)
    true, rival = support[rows, target], support[rows, strongest_rival(support, target)]
    mean = (true - rival) / np.maximum(trials, 1.0)
    # Margins are 1 for the true label, -1 for the rival, and else 0.
    squares = true * (1.0 - mean) ** 2 + rival * (1.0 + mean) ** 2 + (trials - true - rival) * mean**2
    return [trials, mean, np.sqrt(squares / np.maximum(trials - 1.0, 1.0)), trials - true]


@dataclass(frozen=True, eq=False)
class _Supports:
    """The members' probabilities or scores by label for a block of rows."""

    block: RowBlock

    def searched(self) -> tuple[FloatArray, NDArray[Any]]:
        """Return the summed support of the members, shape (n_rows, n_labels), and the label of each.

        The label, shape (n_members, n_rows), is 0 where the member does not count.
        """
        block = self.block
        own = np.zeros(block.counted.shape, dtype=np.min_scalar_type(block.n_labels))
        if block.n_labels <= FEW_LABELS:
            total = np.zeros((block.n_labels, block.target.size))
            for members in self._slices():
                support = self._by_label(members)
                own[members] = _first_best(support)
                for weighted in support * block.counted[members, None, :]:
                    total += weighted
            return total.T, own
        by_row = np.zeros((block.target.size, block.n_labels))
        for member, mask in enumerate(block.counted):
            rows = np.flatnonzero(mask)
            support = block.outputs[member].take(rows, axis=0)
            by_row[rows] += support
            own[member, rows] = np.argmax(support, axis=1)
        return by_row, own

    def moments(
        self, support: FloatArray, rival: NDArray[np.int64], trials: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the sums of margins over a rival, and of their squared deviations from the mean."""
        target, rows = self.block.target, np.arange(trials.size)
        total = np.asarray(support[rows, target] - support[rows, rival])
        mean = total / np.maximum(trials, 1.0)
        squares = np.zeros(trials.size)
        true, other = (_places(self.block.outputs[0], labels) for labels in (target, rival))
        # Several members at a time: the calls take as long as the arithmetic.
        at_once = max(SUPPORTS_AT_ONCE // max(self.block.outputs[0].size, 1), 1)
        starts = np.arange(at_once)[:, None] * self.block.outputs[0].size
        true_at, other_at = true + starts, other + starts
        for first in range(0, self.block.counted.shape[0], at_once):
            counted = self.block.counted[first : first + at_once]
            flat = _flat(self.block.outputs[first : first + at_once])
            deviation = flat.take(true_at[: len(counted)]) - flat.take(other_at[: len(counted)])
            deviation -= mean
            deviation *= counted
            deviation *= deviation
            for own in deviation:
                squares += own
        return total, squares

    def _slices(self) -> list[slice]:
        """Return slices of the members whose supports are read together."""
        n_members, n_rows = self.block.counted.shape
        n_together = max(SUPPORTS_AT_ONCE // max(self.block.n_labels * n_rows, 1), 1)
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


def tally_score_signs(block: RowBlock) -> MarginTally:
    """Return the tally of one block of two labels by the second's raw score; faster than :func:`tally_margins`.

    Outputs have shape (n_members, n_rows): a positive score predicts the second label.
    """
    trials, total, squares = value_sums(block)
    seconds = count_members((block.outputs > 0.0) & block.counted)
    mean, sd = mean_and_sd(total, squares, trials)
    is_second = block.target == 1
    margin = np.where(is_second, mean, -mean)
    wrong_labels = np.where(is_second, trials - seconds, seconds)
    return _tally_of(trials, margin, sd, wrong_labels, block.counted.shape[0])


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
