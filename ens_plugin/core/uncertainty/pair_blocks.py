"""Blocks of rows whose pairs are used, of many rows a part: at equal strides, and copied together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import BoolArray, FloatArray

__all__ = ["copied_blocks", "row_blocks"]

MAX_PRODUCTS = 200_000_000
LEAST_BLOCK = 100
# Strided blocks are copied together up to so many bytes of outputs; rows of fewer do not fill a line of the cache.
BYTES_TOGETHER, FEWEST_TOGETHER = 2**23, 8
# Members whose outputs stay in the cache while they are copied.
MEMBERS_AT_ONCE = 8


def row_blocks(n_rows: int, n_members: int) -> Iterator[slice]:
    """Return blocks of rows at equal strides, so that each is spread over all rows, however they are sorted."""
    most_rows = max(MAX_PRODUCTS // (n_members * LEAST_BLOCK), LEAST_BLOCK)
    n_used = min(n_rows, most_rows)
    per_block = min(max(MAX_PRODUCTS // (n_members * n_used), LEAST_BLOCK), n_rows)
    n_blocks = -(-n_rows // per_block)
    return (slice(start, None, n_blocks) for start in range(max(n_used // per_block, 1)))


def copied_blocks(
    outputs: NDArray[Any], is_oob: BoolArray, slopes: FloatArray
) -> Iterator[tuple[NDArray[Any], BoolArray, FloatArray]]:
    """Yield outputs, members that count and slopes of the rows of each of :func:`row_blocks`.

    Several blocks are copied together: a copy of one strided block reads nearly all of the outputs from memory.
    """
    n_members, n_rows = outputs.shape
    blocks = list(row_blocks(n_rows, n_members))
    step = blocks[0].step
    if step == 1:
        yield np.ascontiguousarray(outputs), np.ascontiguousarray(is_oob), slopes
        return
    # A row is in one of `step` blocks.
    together = max(BYTES_TOGETHER * step // outputs.nbytes, FEWEST_TOGETHER)
    for start in range(0, len(blocks), together):
        some = blocks[start : start + together]
        copied, counted = (_by_block(values, range(start, start + len(some)), step) for values in (outputs, is_oob))
        for place, rows in enumerate(some):
            own = slice(0, slopes[rows].size)
            yield copied[place, :, own], counted[place, :, own], slopes[rows]


def _by_block(values: NDArray[Any], blocks: range, step: int) -> NDArray[Any]:
    """Return the values of every `step`-th row from each of some rows on, shape (n_blocks, n_members, n_rows_of_block).

    The last row of a block that has one less than the first is not set.
    """
    n_members, n_rows = values.shape
    whole = n_rows // step
    rest = values[:, whole * step :][:, blocks.start : blocks.stop]
    copied = np.empty((len(blocks), n_members, whole + (rest.shape[1] > 0)), values.dtype)
    strided = values[:, : whole * step].reshape(n_members, whole, step)[:, :, blocks.start : blocks.stop]
    for start in range(0, n_members, MEMBERS_AT_ONCE):
        members = slice(start, start + MEMBERS_AT_ONCE)
        copied[:, members, :whole] = strided[members].transpose(2, 0, 1)
    copied[: rest.shape[1], :, whole:] = rest.T[:, :, None]
    return copied
