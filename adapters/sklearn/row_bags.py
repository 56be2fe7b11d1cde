"""The bags of scikit-learn's ensembles on a cluster, drawn again from the recorded seeds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.distributed_bags import DistributedBags, ProofStatistics, merge_sums
from ens_plugin.adapters.sklearn.data import draws_by_weight
from ens_plugin.adapters.sklearn.growth import BagCounts, first_splits, growth_sums, judge_first_splits, judge_growth
from ens_plugin.adapters.sklearn.trees.outputs import checked_members, growth_is_known
from ens_plugin.core.tallies.bags import BagProof, Bags

__all__ = ["RecordedBags"]


class RecordedBags(DistributedBags):
    """Bags of a scikit-learn ensemble, drawn from its seeds once in each process, one bit per row and member.

    Three members' leaf counts, and the first split of each tree, are compared with those of the rows.

    Parameters
    ----------
    model : fitted ensemble
    draw : callable
        ``draw(member)`` returns the rows a member was trained on.
    draw_all : callable
        ``draw_all()`` returns the bags of all members.
    n_rows : int
    trees : list or None
        The members, where they are trees.
    member_rows : callable
        ``member_rows(member, features)`` returns prepared rows as a member takes them.
    without_trees : BagProof
        Proof to return where the members are not trees.
    """

    def __init__(
        self,
        model: Any,
        draw: Callable[[int], NDArray[np.integer[Any]]],
        draw_all: Callable[[], Bags],
        n_rows: int,
        trees: list[Any] | None,
        member_rows: Callable[[int, Any], Any],
        without_trees: BagProof,
    ) -> None:
        self._model, self._draw, self._draw_all, self._n_rows = model, draw, draw_all, n_rows
        self._n_members = len(model.estimators_)
        self._trees, self._member_rows, self._without_trees = trees, member_rows, without_trees

    @cached_property
    def _bags(self) -> Bags:
        return self._draw_all()

    def at(self, rows: NDArray[np.int64], target: NDArray[Any]) -> Bags:
        """Return the bags of the rows at some positions."""
        return Bags.from_mask(self._bags.at(rows))

    def sums(self, rows: NDArray[np.int64], features: Any, target: NDArray[Any], bags: Bags) -> ProofStatistics:
        """Return row counts by node of three trees, and of the first split of each; none where routing is uncertain."""
        if self._trees is None:
            return ProofStatistics()
        if not growth_is_known(features, self._model):
            return ProofStatistics({"unknown": np.ones(1)})
        parts = []
        for member in checked_members(self._n_members):
            own = np.flatnonzero(bags.member(member))
            draws = np.bincount(self._draw(member), minlength=self._n_rows)[rows[own]]
            sums = growth_sums(self._trees[member], self._member_rows(member, features[own]), target[own], draws)
            parts.append(sums.named(member))
        columns = getattr(self._model, "estimators_features_", None)
        splits = first_splits(self._trees, features.astype(np.float32, copy=False), BagCounts(bags), columns)
        return merge_sums([*parts, ProofStatistics({"first splits": splits})])

    def prove(self, sums: ProofStatistics) -> BagProof:
        """Return a BagProof after comparing the counts and the target of all rows with those of the trees."""
        if self._trees is None:
            return self._without_trees
        if "unknown" in sums.added:
            return BagProof(target=False)
        are_proved = [
            judge_growth(
                self._trees[member],
                sums.of_tree(member),
                member,
                weights_are_known=draws_by_weight(self._model),
            )
            for member in checked_members(self._n_members)
        ]
        judge_first_splits(self._trees, sums.added["first splits"])
        return BagProof(target=all(are_proved))
