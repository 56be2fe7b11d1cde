"""The bags of a LightGBM forest on a cluster: the draws of each row, computed from its position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.lightgbm.bags import Sampling, draw_rows
from ens_plugin.adapters.lightgbm.document.text import ModelText
from ens_plugin.adapters.lightgbm.objective import Objective
from ens_plugin.adapters.lightgbm.proof import count_grown, explained, grown_trees, judge_counts
from ens_plugin.adapters.lightgbm.target import checked_trees, judge_leaf_targets, target_sums
from ens_plugin.adapters.shared.distributed_bags import DistributedBags, ProofStatistics, merge_sums
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError

__all__ = ["DrawnRows"]


class DrawnRows(DistributedBags):
    """Bags of a LightGBM forest, drawn by row position and proved by the leaf counts of every tree.

    Parameters
    ----------
    text : ModelText
    sampling : Sampling
    objective : Objective
    n_rows : int
        Training rows.
    candidate : int
        Index of the limit of draws to use, of those that round to the model's fraction.
    leaves_of : callable
        ``leaves_of(features)`` returns the leaf of every tree that prepared rows reach, shape (n_trees, n_rows).
    """

    def __init__(
        self,
        text: ModelText,
        sampling: Sampling,
        objective: Objective,
        n_rows: int,
        candidate: int,
        leaves_of: Callable[[Any], NDArray[Any]],
    ) -> None:
        limits = sampling.limits()
        if candidate >= len(limits):
            raise BagError(
                f"No value of bagging_fraction that the model may have drawn its bags with ({len(limits)} tried) "
                "gives the numbers of rows in its leaves. Pass the training rows, in training order."
            )
        self._text, self._sampling, self._objective, self._n_rows = text, sampling, objective, n_rows
        self._limits, self._n_tried = limits[candidate], len(limits)
        self._leaves_of = leaves_of
        self._grown = grown_trees(text, sampling)

    def at(self, rows: NDArray[np.int64], target: NDArray[Any]) -> Bags:
        """Return the bags of the rows at some positions, drawn for these rows alone."""
        return Bags.from_mask(self._rounds(rows, target)[self._grown.round_of])

    def _rounds(self, rows: NDArray[np.int64], target: NDArray[Any]) -> NDArray[np.bool_]:
        limit = np.where(target > 0, self._limits[-1], self._limits[0])
        n_rounds = int(self._grown.round_of[-1]) + 1
        return draw_rows(self._sampling.seed, limit, n_rounds, self._n_rows, rows, self._n_drawn(n_rounds))

    def _n_drawn(self, n_rounds: int) -> int:
        """Return the number of rounds up to a bag with every row, after which LightGBM draws no more."""
        complete = [
            int(index) + 1
            for index, counts in zip(self._grown.rounds, self._grown.counts, strict=True)
            if counts.sum() == self._n_rows
        ]
        return min([n_rounds, *complete])

    def sums(self, rows: NDArray[np.int64], features: Any, target: NDArray[Any], bags: Bags) -> ProofStatistics:
        """Return row counts by leaf of every tree, and sums of the target by leaf of three iterations."""
        leaves = self._leaves_of(features)
        _, first = np.unique(self._grown.round_of, return_index=True)
        rounds = Bags(bags.bits[first], bags.n_rows)
        found, reached = count_grown(self._grown, rounds, [(slice(0, bags.n_rows), leaves)])
        added = {"found": np.concatenate(found), "reached": np.concatenate(reached)}
        parts = [ProofStatistics(added)]
        for tree in checked_trees(self._text):
            own = bags.member(tree // self._text.trees_per_iteration)
            parts.append(target_sums(self._text, self._objective, tree, leaves[tree], target, own).named(tree))
        return merge_sums(parts)

    def prove(self, sums: ProofStatistics) -> BagProof:
        """Return a BagProof after comparing leaf counts with those of the trees, and the target with leaf values."""
        edges = np.cumsum([counts.size for counts in self._grown.counts])[:-1]
        found, reached = (np.split(sums.added[name], edges) for name in ("found", "reached"))
        failure = judge_counts(self._grown, found, reached, self._n_rows, self._n_tried)
        if failure is not None:
            raise explained(failure, self._sampling)
        by_tree = {tree: sums.of_tree(tree) for tree in checked_trees(self._text)}
        return BagProof(target=judge_leaf_targets(self._text, self._objective, by_tree))
