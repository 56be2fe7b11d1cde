"""What remains of the members' outputs for each row, the input of every estimator; records of disjoint rows merge.

Whoever makes a record keeps counts in few bytes, by :func:`ens_plugin.core.validation.in_few_bytes`; every column is
read as float64.  Votes are counted by label, at a cost that grows with the members and not with members times labels;
of probabilities and scores, the labels are searched once for each member.

The contests of labels, of which random subsets of the members elect one, stand here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import BoolArray, Column, FloatArray, IntArray, in_few_bytes

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

    def like(self, outputs: NDArray[Any], counted: BoolArray, target: NDArray[Any]) -> RowBlock:
        """Return other rows of the same kind."""
        return RowBlock(outputs, counted, target, self.n_labels)

    def leads(self) -> FloatArray:
        """Return each member's support for the second of two labels minus that for the first, as a new array."""
        return np.asarray(np.subtract(self.outputs[..., 1], self.outputs[..., 0], dtype=np.float64))

    def seconds(self) -> BoolArray:
        """Return which members predict the second of two labels; the first label wins ties."""
        return np.asarray(self.outputs[..., 1] > self.outputs[..., 0])


@dataclass(frozen=True, eq=False)
class Tally:
    """What remains of the members' outputs for each row, or for rows alike; by itself, how many members count."""

    trials: Column = Column()

    @property
    def n_rows(self) -> int:
        """Return the number of rows, or of kinds of rows."""
        return int(vars(self)["trials"].size)


@dataclass(frozen=True, eq=False)
class LabelTally(Tally):
    """How many of each row's members predict a wrong label, and whether all of them together do.

    Attributes
    ----------
    trials : ndarray, shape (n_rows,)
        Number of members that count for the row: out of bag, or all where it is held out.
    wrong_members : ndarray, shape (n_rows,)
        Number of members whose own label is wrong.
    error : ndarray, shape (n_rows,)
        1 where another label has more support than the true one, 1/2 where it has as much, else 0.
    is_wrong : ndarray, shape (n_rows,)
        1 where the first of the labels with most support, which libraries return, is wrong, else 0.
    """

    wrong_members: Column = Column()
    error: Column = Column()
    is_wrong: Column = Column()


@dataclass(frozen=True, eq=False)
class LeadTally(Tally):
    """The two labels with most support of each row, and mean and spread of the members' margins between them.

    Attributes
    ----------
    trials, label, runner_up : ndarray, shape (n_rows,)
    mean, sd : ndarray, shape (n_rows,)
        Mean and standard deviation, divided by n, of the support for the label minus that for the other.
    """

    label: Column = Column()
    runner_up: Column = Column()
    mean: Column = Column()
    sd: Column = Column()


@dataclass(frozen=True, eq=False)
class ValueTally(Tally):
    """Mean and variance (ddof 1) of each row's real-valued outputs, and the target."""

    mean: Column = Column()
    variance: Column = Column()
    target: Column = Column()


TallyOfRows = TypeVar("TallyOfRows", bound=Tally)


def empty_tally(like: TallyOfRows, n_rows: int) -> TallyOfRows:
    """Return a tally for `n_rows` rows, its values not set yet, of the same kind as `like`."""
    return _by_column(like, lambda column: np.empty(n_rows, dtype=column.dtype))


def copy_rows(part: Tally, whole: Tally, start: int) -> None:
    """Copy a tally of a block of rows into the rows of `whole` from `start` on, whose columns have types as wide."""
    for column, into in zip(vars(part).values(), vars(whole).values(), strict=True):
        np.copyto(into[start : start + column.size], column, casting="safe")


def select_rows(tally: TallyOfRows, usable: BoolArray) -> TallyOfRows:
    """Return the tally of some of the rows; the same object, not a copy, if all are usable."""
    return tally if usable.all() else take_rows(tally, np.flatnonzero(usable))


def take_rows(tally: TallyOfRows, rows: IntArray) -> TallyOfRows:
    """Return the tally of some of the rows, by position."""
    return _by_column(tally, lambda column: column[rows])


def _by_column(tally: TallyOfRows, change: Callable[[NDArray[Any]], NDArray[Any]]) -> TallyOfRows:
    """Return a tally of the columns that `change` makes of those of another."""
    return type(tally)(*map(change, vars(tally).values()))


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


def tally_labels(block: RowBlock) -> LabelTally:
    """Return the tally of one block of the rows of a classifier."""
    target = np.asarray(block.target, dtype=np.int64)
    if block.n_labels == 2:
        lead = _lead_of_second(block)
        ahead, rival = np.where(target == 1, lead, -lead), 1 - target
        wrong = count_members((member_labels(block) != target.astype(np.int8)) & block.counted)
    elif block.is_vote:
        ahead, rival, wrong = np.empty(target.size), np.empty(target.size, np.int64), np.empty(target.size)
        for rows in cached_rows(block):
            support = count_votes(block.outputs[:, rows], block.counted[:, rows], block.n_labels)
            ahead[rows], rival[rows] = _ahead_of_rival(support, target[rows])
            wrong[rows] = support.sum(axis=1) - support[np.arange(len(support)), target[rows]]
    else:
        sums, own = _support_and_labels(block)
        ahead, rival = _ahead_of_rival(sums, target)
        wrong = count_members((own != target) & block.counted)
    n_members = block.counted.shape[0]
    # A half needs a fraction, and no more than two bytes.
    error = ((1.0 - np.sign(ahead)) / 2.0).astype(np.float16)
    is_wrong = (ahead < 0) | ((ahead == 0) & (rival < target))
    counts = in_few_bytes(block.trials, n_members), in_few_bytes(wrong, n_members)
    return LabelTally(*counts, error, is_wrong.view(np.uint8))


def _lead_of_second(block: RowBlock) -> FloatArray:
    """Return the support for the second of two labels, over the members that count, minus that for the first."""
    if block.is_vote:
        return np.asarray(block.support[:, 1] - block.support[:, 0])
    return sum_over_members(block.leads(), block.counted)


def _ahead_of_rival(support: NDArray[Any], target: IntArray) -> tuple[NDArray[Any], IntArray]:
    """Return by how much the true label's support exceeds that of the strongest other one, and this label."""
    rows, rival = np.arange(target.size), strongest_rival(support, target)
    return support[rows, target] - support[rows, rival], rival


def tally_leads(block: RowBlock) -> LeadTally:
    """Return the leading labels of one block of rows, whose target is not read."""
    label = np.argmax(block.support, axis=1)
    runner_up = strongest_rival(block.support, label)
    margins = member_margins(block.like(block.outputs, block.counted, label), runner_up)
    trials, total, squares = value_sums(RowBlock(margins, block.counted, label, 0))
    mean, sd = total / np.maximum(trials, 1.0), np.sqrt(squares / np.maximum(trials, 1.0))
    first, second = (in_few_bytes(own, block.n_labels) for own in (label, runner_up))
    return LeadTally(in_few_bytes(trials, block.counted.shape[0]), first, second, mean, sd)


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
    """Return sums over the members of each row, from one number of each, shape (3, n_rows)."""
    # They are the number of members that count, the sum of their outputs, and that of squared deviations from the mean.
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
    """Return each row's votes for each label over the members that count, shape (n_rows, n_labels)."""
    # The label codes of members that do not count may be anything.
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
    """Return how many subsets are wrong, shape (n_rows,)."""
    # One maximum over whole numbers, which hold the votes and the rank of the slot, finds the winner; the first slot
    # wins ties.
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
    """Yield batches of rows on which equally many labels can win: those that some member prefers to the leading one."""
    # The members are in another random order for every contest, so that contests with the same subsets are independent.
    # The outputs are label codes, shape (n_members, n_rows), or of shape (n_members, n_labels, n_rows).
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
    """Return the slot with the highest sum, the first of equals, of subsets of the members."""
    # The outputs have shape (n_slots, n_members, n_rows), the result (n_subsets, n_rows). Slots take turns, so that the
    # sums of one stay in the processor's cache.
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


def _support_and_labels(block: RowBlock) -> tuple[FloatArray, NDArray[Any]]:
    """Return the summed probabilities or scores of the members, shape (n_rows, n_labels), and the label of each."""
    # The label, shape (n_members, n_rows), is 0 where the member does not count.
    own = np.zeros(block.counted.shape, dtype=np.min_scalar_type(block.n_labels))
    if block.n_labels <= FEW_LABELS:
        total = np.zeros((block.n_labels, block.target.size))
        at_once = max(SUPPORTS_AT_ONCE // max(total.size, 1), 1)
        for start in range(0, len(own), at_once):
            members = slice(start, start + at_once)
            # Rows next to each other, because NumPy is slow where the last axis is short.
            support = np.ascontiguousarray(block.outputs[members].transpose(0, 2, 1), dtype=np.float64)
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


def member_margins(block: RowBlock, rival: NDArray[np.int64]) -> NDArray[Any]:
    """Return each member's support for the true label minus that for the rival, shape (n_members, n_rows)."""
    # Of votes, they are whole numbers in 8 bits.
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


def _first_best(support: FloatArray) -> NDArray[Any]:
    """Return the label with the most support, the first of equals, from support of shape (..., n_labels, n_rows)."""
    # The result is that of np.argmax, which takes ten times as long across short axes.
    best = support[..., 0, :].copy()
    label = np.zeros(best.shape, dtype=np.min_scalar_type(support.shape[-2]))
    for index in range(1, support.shape[-2]):
        own = support[..., index, :]
        better = own > best
        np.maximum(best, own, out=best)
        np.maximum(label, better * label.dtype.type(index), out=label)
    return label
