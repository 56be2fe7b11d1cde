"""The growth path: error along the members' own order, as other tools draw it.

At T members each row is scored by its out-of-bag members among the first T only: the error of an
ensemble of about 0.37 T members, on one noisy path.  It serves for comparison.
"""

from __future__ import annotations

import numpy as np

from ens_plugin.core.tallies.tally import CHUNK, RowBlock
from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["PathTally", "merge_paths", "tally_path"]


@record
class PathTally:
    """Summed loss and weight of the rows with at least one of the first T members, by T and chunk of 256 rows.

    Chunks are aligned to the whole data, so that sums over rows do not depend on the blocks.

    Attributes
    ----------
    loss, weight : ndarray, shape (n_members, n_chunks)
    """

    loss: FloatArray
    weight: FloatArray

    def curve(self) -> FloatArray:
        """Return the mean loss after 1, 2, ..., n_members members; NaN while all rows are in bag."""
        weight = self.weight.sum(axis=1)
        return np.where(weight > 0, self.loss.sum(axis=1) / np.where(weight > 0, weight, 1.0), np.nan)


def merge_paths(paths: list[PathTally]) -> PathTally:
    """Return the merged path of consecutive blocks of rows."""
    return PathTally(
        np.concatenate([path.loss for path in paths], axis=1), np.concatenate([path.weight for path in paths], axis=1)
    )


def tally_path(block: RowBlock, weight: FloatArray) -> PathTally:
    """Return the growth path of one block that starts at a multiple of 256 rows.

    Parameters
    ----------
    block : RowBlock
    weight : ndarray, shape (n_rows,)
        Row weights.

    Notes
    -----
    Classification follows the model's own predict: the first of tied labels wins.
    """
    n_members, n_rows = block.counted.shape
    starts = np.arange(0, n_rows, CHUNK)
    loss = np.empty((n_members, starts.size))
    covered = np.empty((n_members, starts.size))
    total = np.zeros((n_rows, block.n_labels) if block.n_labels else n_rows)
    drawn = np.zeros(n_rows)
    for member in range(n_members):
        rows = np.flatnonzero(block.counted[member])
        predicted = block.outputs[member, rows]
        if block.n_labels and block.outputs.ndim == 2:
            total[rows, predicted] += 1.0
        else:
            total[rows] += predicted
        drawn[rows] += 1
        row_loss = np.where(drawn > 0, weight * _loss(total, drawn, block), 0.0)
        loss[member] = np.add.reduceat(row_loss, starts)
        covered[member] = np.add.reduceat(np.where(drawn > 0, weight, 0.0), starts)
    return PathTally(loss, covered)


def _loss(total: FloatArray, drawn: FloatArray, block: RowBlock) -> FloatArray:
    if block.n_labels:
        return np.asarray(np.argmax(total, axis=1) != block.target, dtype=np.float64)
    return np.asarray((total / np.maximum(drawn, 1.0) - block.target) ** 2)
