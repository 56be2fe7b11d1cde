"""Per-row tallies of the members' outputs, the input of every estimator; those of disjoint rows merge, to the bit.

Whoever makes a tally of counted members keeps the counts in few bytes, by
:func:`ens_plugin.core.columns.in_few_bytes`.  Every column is read as float64; :func:`parts_of` gives few rows at a
time, whose columns take little memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.columns import Column, in_few_bytes
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray, row_parts
from ens_plugin.records import record

__all__ = [
    "CHUNK",
    "AnyTally",
    "MarginTally",
    "RowBlock",
    "Sums",
    "SupportTally",
    "ValueTally",
    "both_scores",
    "cached_rows",
    "concatenate",
    "copy_rows",
    "count_members",
    "count_votes",
    "empty_tally",
    "label_support",
    "mean_and_sd",
    "mean_share",
    "member_labels",
    "parts_of",
    "select_rows",
    "sum_over_members",
    "sum_squares_over_members",
    "take_rows",
    "tally_support",
    "tally_values",
    "value_sums",
    "wrong_support",
]

# Blocks of rows start at multiples of so many.
CHUNK = 256
CELLS_AT_ONCE = 2**17
# Votes on two labels are counted by masks, of a byte for each member.
MASKS_AT_ONCE = 2**20
SUMS_AT_ONCE = 2**16


@record
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


@record
class _Tally:
    """A tally of any kind, whose first column is the number of members that count for each row."""

    trials: Column = Column()

    @property
    def n_rows(self) -> int:
        """Return the number of rows, or of groups of rows."""
        return int(vars(self)["trials"].size)


@record
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


@record
class MarginTally(_Tally):
    """Mean and spread of each row's margins against its strongest rival, and against the rivals of half the members.

    Attributes
    ----------
    trials : ndarray, shape (n_rows,)
    mean, sd : ndarray, shape (n_rows,)
        Mean and standard deviation (ddof 1) over members of the margin (true label minus strongest rival).
    cross_mean, cross_sd : ndarray, shape (n_rows,)
        The same, each half of the members with the rival that the other half prefers.
    wrong_labels : ndarray, shape (n_rows,)
        Number of members whose own label is wrong.
    dissent : ndarray, shape (n_rows,)
        Number of members whose own label differs from the label that the others predict together.
    """

    mean: Column = Column()
    sd: Column = Column()
    cross_mean: Column = Column()
    cross_sd: Column = Column()
    wrong_labels: Column = Column()
    dissent: Column = Column()


@record
class ValueTally(_Tally):
    """Mean and variance (ddof 1) of each row's real-valued outputs, and the target.

    Attributes
    ----------
    trials, mean, variance, target : ndarray, shape (n_rows,)
    """

    mean: Column = Column()
    variance: Column = Column()
    target: Column = Column()


AnyTally: TypeAlias = SupportTally | MarginTally | ValueTally
TallyOfRows = TypeVar("TallyOfRows", bound=_Tally)
# Returns sums over the members, one row for each, with the rows of a block as columns.
Sums: TypeAlias = Callable[[RowBlock], FloatArray]


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

    Parameters
    ----------
    tally : SupportTally or MarginTally
        Of rows with at least one member.
    count : callable
        Returns the column of counts.
    weight : ndarray, shape (n_rows,)
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


def tally_values(block: RowBlock, sums: Sums | None = None) -> ValueTally:
    """Return the tally of one block of a regression ensemble; `sums` computes :func:`value_sums`, the default."""
    trials, total, squares, *_ = (sums or value_sums)(block)
    mean, sd = mean_and_sd(total, squares, trials)
    return ValueTally(in_few_bytes(trials, block.counted.shape[0]), mean, sd**2, block.target.astype(np.float64))


def value_sums(block: RowBlock) -> FloatArray:
    """Return sums over the members of each row, from one number of each.

    Returns
    -------
    ndarray, shape (3, n_rows)
        Number of members that count; sum of their outputs, and of squared deviations from the mean.
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

    Parameters
    ----------
    votes : ndarray of int, shape (n_members, n_rows)
        Label codes; anything where a member does not count.
    counted : ndarray of bool, shape (n_members, n_rows)
    n_labels : int
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
