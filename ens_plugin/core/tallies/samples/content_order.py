"""An order of rows by the members' outputs, which does not depend on the order in which they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.columns import in_few_bytes
from ens_plugin.core.tallies.samples.score_block import ScoreBlock
from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["LabelOrder", "content_order", "move_rows"]

# NumPy adds so few numbers one after the other, and more of them in parts.
FEW_LABELS = 7
MOST_IN_SEVEN_BITS = 128


class LabelOrder(NamedTuple):
    """Functions that do the same for labels below 128, to the bit, in less time.

    Attributes
    ----------
    places : callable
        ``places(labels, counted, factors)`` returns the sum over the members of a row of their labels and 1, times a
        factor of each member, shape (n_rows,).
    move : callable
        ``move(labels, counted, order)`` overwrites labels, and whether they count, with those of the rows in an order.
    """

    places: Callable[[NDArray[Any], NDArray[np.bool_], FloatArray], FloatArray]
    move: Callable[[NDArray[Any], NDArray[np.bool_], IntArray], None]


def content_order(block: RowBlock, of_labels: LabelOrder | None = None) -> IntArray:
    """Return an order of a block's rows that depends on the members' outputs, not on the order of the rows.

    The order is as good as random; rows with the same outputs are interchangeable.

    Parameters
    ----------
    block : RowBlock
    of_labels : LabelOrder, optional
        For blocks of few labels.
    """
    rng = np.random.default_rng(0)
    by_member, by_label = rng.random((block.stored.shape[0],)), rng.random((max(block.n_labels, 1),))
    if of_labels is not None and _are_few_labels(block):
        place = of_labels.places(block.stored, block.counted, by_member)
    else:
        place = np.zeros(block.target.size)
        value_of = _counted_label if _are_few_labels(block) else _counted_mix
        for member, factor in enumerate(by_member):
            place += value_of(block, member, factor, by_label)
    part = np.modf(place * 1e3)[0]
    order = np.argsort(part)
    if block.n_labels == 0 or np.any(part[order[1:]] == part[order[:-1]]):
        return np.lexsort((place, part, block.target))
    # Without equal parts, as nearly always, this is the same order of labelled rows, in a fourth of the time.
    return order[np.argsort(in_few_bytes(block.target[order], block.n_labels), kind="stable")]


def move_rows(block: RowBlock, order: IntArray, of_labels: LabelOrder | None = None) -> None:
    """Overwrite a block's outputs, and which of them count, with those of its rows in another order.

    Parameters are those of :func:`content_order`.
    """
    if not _are_few_labels(block):
        _move_outputs(block, order)
    elif of_labels is not None and block.stored.flags.c_contiguous and block.counted.flags.c_contiguous:
        of_labels.move(block.stored, block.counted, order)
    else:
        _move_labels(block, order)


def _move_outputs(block: RowBlock, order: IntArray) -> None:
    for by_member in (*block.stored, *block.counted):
        by_member[:] = by_member.take(order, axis=0)


def _move_labels(block: RowBlock, order: IntArray) -> None:
    """Move labels of seven bits at most, with whether they count as the eighth: by half as many takes."""
    for labels, counted in zip(block.stored, block.counted.view(np.uint8), strict=True):
        moved = (labels << 1 | counted).take(order)
        np.right_shift(moved, 1, out=labels)
        np.bitwise_and(moved, 1, out=counted)


def _are_few_labels(block: RowBlock) -> bool:
    return block.is_vote and block.stored.dtype == np.uint8 and 0 < block.n_labels <= MOST_IN_SEVEN_BITS


def _counted_label(block: RowBlock, member: int, factor: float, _: FloatArray) -> FloatArray:
    """Return :func:`_counted_mix` of labels, to the bit, converted to numbers of eight bytes once."""
    # In one byte, whose numbers are made many at a time.
    return np.asarray((block.stored[member] + np.uint8(1)) * block.counted[member] * factor)


def _counted_mix(block: RowBlock, member: int, factor: float, by_label: FloatArray) -> FloatArray:
    """Return one more than a member's mixed outputs times its factor; 0 where they do not count."""
    value = _mixed_outputs(block, member, by_label)
    value += 1.0
    value *= factor
    value *= block.counted[member]
    return value


def _mixed_outputs(block: RowBlock, member: int, factors: FloatArray) -> FloatArray:
    """Return the sum over labels of a member's outputs times the labels' factors, or its votes; a new array."""
    own = block.stored[member]
    if isinstance(block, ScoreBlock):
        half = own / 2.0
        return np.asarray(half * -factors[0] + half * factors[1])
    return _weighted_sum(own, factors) if own.ndim == 2 else own.astype(np.float64)


def _weighted_sum(output: NDArray[np.float64], factors: FloatArray) -> FloatArray:
    """Return the sum over labels of one member's outputs times the labels' factors, shape (n_rows,)."""
    if factors.size > FEW_LABELS:
        return np.asarray(np.add.reduce(output * factors, axis=-1))
    # The same sum, label by label: five times as fast where the last axis is short.
    total = output[:, 0] * factors[:1]
    for label in range(1, factors.size):
        total += output[:, label] * factors[label : label + 1]
    return np.asarray(total)
