"""Per-row tallies of what the members said: the only thing an estimator sees.

Tallies of disjoint blocks of rows merge by concatenation, so blocks, threads and partitions change
nothing, to the bit: sums over members run in member order, sums over rows wait for all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "AnyTally",
    "MarginTally",
    "RowBlock",
    "SupportTally",
    "ValueTally",
    "concatenate",
    "label_support",
    "member_labels",
    "member_margins",
    "select_rows",
    "strongest_rival",
    "sum_over_members",
    "tally_margins",
    "tally_support",
    "tally_two_scores",
    "tally_values",
    "wrong_support",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RowBlock:
    """What every member says about a contiguous block of rows.

    Attributes
    ----------
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Label codes (integer), probabilities or scores by label, or values.
    seen : ndarray of bool, shape (n_members, n_rows)
        True where the output counts: the member is out of bag for the row (or the row is held out).
    target : ndarray, shape (n_rows,)
        True label codes (integer) or values.
    n_labels : int
        Labels; 0 for regression.
    """

    outputs: NDArray[Any]
    seen: BoolArray
    target: NDArray[Any]
    n_labels: int


@dataclass(frozen=True, eq=False)
class SupportTally:
    """Support for the wrong label of two; hard votes are 0 or 1.

    Attributes
    ----------
    trials : ndarray, shape (n_rows,)
        Members that speak about the row.
    wrong : ndarray, shape (n_rows,)
        Sum of their support for the wrong label.
    squares : ndarray, shape (n_rows,)
        Sum of the squares of that support; equal to `wrong` for hard votes.
    wrong_labels : ndarray, shape (n_rows,)
        Members whose own label is wrong.
    """

    trials: FloatArray
    wrong: FloatArray
    squares: FloatArray
    wrong_labels: FloatArray


@dataclass(frozen=True, eq=False)
class MarginTally:
    """Margins against the strongest rival, and against rivals chosen by the other half of members.

    Attributes
    ----------
    trials : ndarray, shape (n_rows,)
    mean, sd : ndarray, shape (n_rows,)
        Of the margin (true label minus strongest rival) over members, ddof 1.
    cross_mean, cross_sd : ndarray, shape (n_rows,)
        The same, each half of the members using the rival that the other half prefers.
    wrong_labels : ndarray, shape (n_rows,)
        Members whose own label is wrong.
    dissent : ndarray, shape (n_rows,)
        Members whose own label differs from the label the others choose together.
    """

    trials: FloatArray
    mean: FloatArray
    sd: FloatArray
    cross_mean: FloatArray
    cross_sd: FloatArray
    wrong_labels: FloatArray
    dissent: FloatArray


@dataclass(frozen=True, eq=False)
class ValueTally:
    """Mean and variance (ddof 1) of real-valued outputs, and the target.

    Attributes
    ----------
    trials, mean, variance, target : ndarray, shape (n_rows,)
    """

    trials: FloatArray
    mean: FloatArray
    variance: FloatArray
    target: FloatArray


AnyTally: TypeAlias = SupportTally | MarginTally | ValueTally


def concatenate(tallies: Sequence[AnyTally]) -> AnyTally:
    """Merge tallies of disjoint blocks of rows, in row order."""
    kind = type(tallies[0])
    columns = (np.concatenate([getattr(tally, field.name) for tally in tallies]) for field in fields(kind))
    return kind(*columns)


def select_rows(tally: AnyTally, usable: BoolArray) -> AnyTally:
    """The tally of some of the rows; the same one, not a copy, where all are."""
    if usable.all():
        return tally
    return type(tally)(*(getattr(tally, field.name)[usable] for field in fields(tally)))


def sum_over_members(values: NDArray[Any], seen: BoolArray) -> FloatArray:
    """Sum over members in member order of the outputs that count, shape (n_rows, ...)."""
    total = np.zeros(values.shape[1:])
    extra = (1,) * (values.ndim - 2)
    for value, mask in zip(values, seen, strict=True):
        total += np.where(mask.reshape(-1, *extra), value, 0.0)
    return total


def tally_support(block: RowBlock) -> SupportTally:
    """Tally one block of a two-label ensemble that votes or averages probabilities."""
    trials = np.count_nonzero(block.seen, axis=0).astype(np.float64)
    labels = member_labels(block)
    target = block.target.astype(labels.dtype)
    wrong_labels = np.count_nonzero((labels != target) & block.seen, axis=0).astype(np.float64)
    if block.outputs.ndim == 2:
        return SupportTally(trials, wrong_labels, wrong_labels, wrong_labels)
    support = wrong_support(block)
    squares = np.zeros(trials.size)
    for said, mask in zip(support, block.seen, strict=True):
        squares += np.where(mask, said, 0.0) ** 2
    return SupportTally(trials, sum_over_members(support, block.seen), squares, wrong_labels)


def wrong_support(block: RowBlock) -> NDArray[Any]:
    """Each member's support for the wrong one of two labels, shape (n_members, n_rows); bool for votes."""
    if block.outputs.ndim == 2:
        return np.asarray(block.outputs != block.target.astype(block.outputs.dtype))
    return np.asarray(block.outputs[:, np.arange(block.target.size), 1 - block.target], dtype=np.float64)


def tally_margins(block: RowBlock) -> MarginTally:
    """Tally one block by margins: any number of labels, votes, probabilities or scores."""
    trials = np.count_nonzero(block.seen, axis=0).astype(np.float64)
    labels = member_labels(block)
    support = label_support(block, block.seen)
    margin = member_margins(block, strongest_rival(support, block.target))
    mean, sd = _mean_sd(margin, block.seen, trials)
    cross_mean, cross_sd = _mean_sd(_cross_margins(block), block.seen, trials)
    wrong = np.count_nonzero((labels != block.target) & block.seen, axis=0).astype(np.float64)
    return MarginTally(trials, mean, sd, cross_mean, cross_sd, wrong, _dissent(block, labels))


def tally_two_scores(block: RowBlock) -> MarginTally:
    """Tally one block of a two-label ensemble by margins, from the score of label 1, shape (n_members, n_rows).

    The same as :func:`tally_margins` on minus and plus half the score: there is one rival only.
    """
    trials = np.count_nonzero(block.seen, axis=0).astype(np.float64)
    positive = block.target == 1
    mean, sd = _mean_sd(np.where(positive, block.outputs, -block.outputs), block.seen, trials)
    labels = block.outputs > 0
    wrong = np.count_nonzero((labels != positive) & block.seen, axis=0).astype(np.float64)
    others = sum_over_members(block.outputs, block.seen) - block.outputs
    dissent = np.count_nonzero(((others > 0) != labels) & block.seen, axis=0).astype(np.float64)
    return MarginTally(trials, mean, sd, mean, sd, wrong, dissent)


def tally_values(block: RowBlock) -> ValueTally:
    """Tally one block of a regression ensemble."""
    trials = np.count_nonzero(block.seen, axis=0).astype(np.float64)
    mean, sd = _mean_sd(block.outputs, block.seen, trials)
    return ValueTally(trials, mean, sd**2, block.target.astype(np.float64))


def member_labels(block: RowBlock) -> NDArray[Any]:
    """Each member's own label code, shape (n_members, n_rows); the first label wins ties."""
    return block.outputs if block.outputs.ndim == 2 else np.argmax(block.outputs, axis=2)


def label_support(block: RowBlock, seen: BoolArray) -> FloatArray:
    """Summed support for each label over the members that count, shape (n_rows, n_labels)."""
    if block.outputs.ndim == 3:
        return sum_over_members(block.outputs, seen)
    support = np.zeros((block.target.size, block.n_labels))
    for label in range(block.n_labels):
        support[:, label] = np.count_nonzero((block.outputs == label) & seen, axis=0)
    return support


def member_margins(block: RowBlock, rival: NDArray[np.int64]) -> FloatArray:
    """Each member's support for the true label minus that for the rival, shape (n_members, n_rows)."""
    if block.outputs.ndim == 2:
        return np.asarray((block.outputs == block.target).astype(np.float64) - (block.outputs == rival))
    rows = np.arange(rival.size)
    return np.asarray(block.outputs[:, rows, block.target] - block.outputs[:, rows, rival], dtype=np.float64)


def strongest_rival(support: FloatArray, target: NDArray[Any]) -> NDArray[np.int64]:
    """The label other than the truth with the highest support."""
    others = support.copy()
    others[np.arange(target.size), target] = -np.inf
    return np.asarray(np.argmax(others, axis=1), dtype=np.int64)


def _cross_margins(block: RowBlock) -> FloatArray:
    even = np.zeros((block.seen.shape[0], 1), dtype=bool)
    even[::2] = True
    rival_of_odd = strongest_rival(label_support(block, block.seen & even), block.target)
    rival_of_even = strongest_rival(label_support(block, block.seen & ~even), block.target)
    return np.asarray(np.where(even, member_margins(block, rival_of_even), member_margins(block, rival_of_odd)))


def _mean_sd(values: NDArray[Any], seen: BoolArray, trials: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (ddof 1) over the members that count; 0 where undefined."""
    mean = sum_over_members(values, seen) / np.maximum(trials, 1.0)
    squares = np.zeros_like(mean)
    for value, mask in zip(values, seen, strict=True):
        squares += np.where(mask, (value - mean) ** 2, 0.0)
    return mean, np.sqrt(squares / np.maximum(trials - 1.0, 1.0))


def _dissent(block: RowBlock, labels: NDArray[Any]) -> FloatArray:
    """Members whose label differs from the one that the other members choose together."""
    support = label_support(block, block.seen)
    rows = np.arange(block.target.size)
    dissent = np.zeros(rows.size)
    for member, (own, mask) in enumerate(zip(labels, block.seen, strict=True)):
        others = support.copy()
        if block.outputs.ndim == 2:
            others[rows, own] -= 1.0
        else:
            others -= block.outputs[member]
        dissent += mask & (np.argmax(others, axis=1) != own)
    return dissent
