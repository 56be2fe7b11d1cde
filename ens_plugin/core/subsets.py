"""Averages over random subsets of the members, for a sample of the rows.

Unbiased at every size that the rows' out-of-bag members reach, for any rule and any metric: the
check of the margin method, and the road for a user's own metric.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tally import RowBlock, label_support, sum_over_members

__all__ = ["Sample", "subset_error", "subset_means", "subset_statistics"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sample:
    """The members' outputs for a random subset of the rows.

    Attributes
    ----------
    block : RowBlock
        Outputs, mask and target of the sampled rows.
    rows : ndarray of int, shape (n_sampled,)
        Positions of the sampled rows in the whole data.
    weight : ndarray, shape (n_sampled,)
    """

    block: RowBlock
    rows: IntArray
    weight: FloatArray

    def mean_outputs(self) -> FloatArray:
        """Mean output of the members that count, votes as indicators; NaN-free, 0 where none counts."""
        block = self.block
        total = label_support(block, block.seen) if block.n_labels else sum_over_members(block.outputs, block.seen)
        trials = np.maximum(block.seen.sum(axis=0), 1).astype(np.float64)
        return np.asarray(total / trials.reshape(-1, *(1,) * (total.ndim - 1)))

    def select(self, chosen: IntArray) -> Sample:
        """The sample reduced to some of its rows, by position in the sample."""
        block = self.block
        part = RowBlock(block.outputs[:, chosen], block.seen[:, chosen], block.target[chosen], block.n_labels)
        return Sample(part, self.rows[chosen], self.weight[chosen])

    def thin(self, n_rows: int, rng: np.random.Generator) -> Sample:
        """At most `n_rows` of the sampled rows, chosen at random."""
        return self.select(np.sort(rng.permutation(self.rows.size)[:n_rows]))

    def keep(self, usable: NDArray[np.bool_]) -> Sample:
        """Leave out the rows of the whole data that are not usable, and renumber the others."""
        position = np.cumsum(usable) - 1
        kept = self.select(np.flatnonzero(usable[self.rows]))
        return Sample(kept.block, position[kept.rows], kept.weight)


def subset_means(block: RowBlock, sizes: IntArray, rng: np.random.Generator) -> FloatArray:
    """Mean output of one random subset of each row's members at each size, without replacement.

    Parameters
    ----------
    block : RowBlock
    sizes : ndarray of int, shape (n_sizes,)
        Ascending; the subset of one size contains that of the size before.
    rng : numpy Generator

    Returns
    -------
    ndarray, shape (n_sizes, n_rows) or (n_sizes, n_rows, n_labels)
        Votes are turned to indicators first.  Rows with fewer members than a size hold NaN.
    """
    n_members, n_rows = block.seen.shape
    shape = (n_rows, block.n_labels) if block.n_labels else (n_rows,)
    hard = block.outputs.ndim == 2 and block.n_labels > 0
    index_of_size = np.full(max(int(sizes[-1]), n_members) + 1, -1)
    index_of_size[sizes] = np.arange(sizes.size)
    total = np.zeros(shape)
    drawn = np.zeros(n_rows, dtype=np.int64)
    means = np.full((sizes.size, *shape), np.nan)
    reachable = np.minimum(block.seen.sum(axis=0), sizes[-1])
    for member in rng.permutation(n_members):
        if np.array_equal(drawn, reachable):
            break
        rows = np.flatnonzero(block.seen[member] & (drawn < sizes[-1]))
        said = block.outputs[member, rows]
        if hard:
            total[rows, said] += 1.0
        else:
            total[rows] += said
        drawn[rows] += 1
        index = index_of_size[drawn[rows]]
        reached = rows[index >= 0]
        means[index[index >= 0], reached] = total[reached]
    return np.asarray(means / sizes.reshape(-1, *(1,) * len(shape)))


def subset_error(sample: Sample, sizes: IntArray, n_orders: int, rng: np.random.Generator) -> FloatArray:
    """Mean 0-1 error of the model's own rule over random subsets of the members, shape (n_sizes,).

    Rows with fewer members than a size do not enter it.
    """

    def error(mean: FloatArray) -> float:
        enough = ~np.isnan(mean[:, 0])
        wrong = np.argmax(mean[enough], axis=1) != sample.block.target[enough]
        return float(np.average(wrong, weights=sample.weight[enough]))

    return np.asarray(subset_statistics(sample.block, sizes, n_orders, rng, error).mean(axis=0))


def subset_statistics(
    block: RowBlock,
    sizes: IntArray,
    n_orders: int,
    rng: np.random.Generator,
    statistic: Callable[[FloatArray], float],
) -> FloatArray:
    """A statistic of the subset means in several random orders of the members, shape (n_orders, n_sizes)."""
    return np.array([[statistic(mean) for mean in subset_means(block, sizes, rng)] for _ in range(n_orders)])
