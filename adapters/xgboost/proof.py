"""The proof that bags are right: their rows give the sums that XGBoost's leaves store.

Every leaf stores the summed second derivative of its in-bag rows.  A mask is right if it gives that sum
in every leaf of every tree.  A wrong one, coin tosses independent of the right one, passes with a
chance of at most the product over leaves of the largest probability of a binomial count of the leaf's
rows: masks that agree in a leaf's sum never contain one another, and no such family of sets is likelier
than the likeliest size (Lubell, Yamamoto, Meshalkin).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.adapters.shared.trees.leaf_counts import count_leaves
from ens_plugin.adapters.xgboost.document.leaves import LeafReader, read_leaves
from ens_plugin.adapters.xgboost.document.model import Forest
from ens_plugin.adapters.xgboost.hessians import Hessians
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.records import record

__all__ = ["Proof", "TreeEvidence", "judge_leaf_sums", "leaf_sums", "prove", "tree_evidence"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK_CELLS = 8_000_000


@record
class Proof:
    """Result of the proof of the bags, for each tree.

    Attributes
    ----------
    passed : ndarray of bool, shape (n_trees,)
    log_chance : ndarray, shape (n_trees,)
        Logarithm of a bound on the chance that a wrong mask passes.
    """

    passed: NDArray[np.bool_]
    log_chance: FloatArray


@record
class TreeEvidence:
    """Data of one tree to test bags with: sums stored in its leaves, and each row's leaf and second derivative.

    Attributes
    ----------
    leaf : ndarray of unsigned int, shape (n_rows,)
        Leaf each row ends in.
    covers : ndarray of float64, shape (n_leaves,)
        Sums of second derivatives that the leaves store.
    hessian : ndarray, shape (n_rows,)
    tolerance : float
    """

    leaf: NDArray[Any]
    covers: FloatArray
    hessian: FloatArray
    tolerance: float

    @cached_property
    def sizes(self) -> IntArray:
        """Return the number of rows in each leaf, shape (n_leaves,)."""
        return np.bincount(self.leaf, minlength=self.covers.size)

    def accepts(self, in_bag: NDArray[np.bool_]) -> bool:
        """Return whether the rows of a bag give the sum stored in every leaf."""
        sums = np.bincount(self.leaf[in_bag], weights=self.hessian[in_bag], minlength=self.covers.size)
        return bool(_agree(sums, self.covers, self.tolerance).all())

    def log_chance(self, subsample: float) -> float:
        """Return the logarithm of a bound on the chance that a wrong bag is accepted."""
        hidden = 2.0 * self.tolerance * self.covers
        visible = np.bincount(self.leaf[self.hessian > hidden[self.leaf]], minlength=self.covers.size)
        return float(_log_chances(visible, subsample).sum())


def prove(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags, subsample: float) -> Proof:
    """Return the result, for each tree, of comparing the sums of its leaves with those that `bags` give."""
    every = _Leaves.of(forest)
    n_rows = rows.shape[0]
    n_spans = max(min(effective_n_jobs(None), n_rows // 1024), 1)
    edges = np.linspace(0, n_rows, n_spans + 1).astype(int) // 8 * 8
    edges[-1] = n_rows
    counter = _Counter(forest, every, rows, hessians, bags, None if rows.leaves is not None else LeafReader(forest))
    if rows.kept is not None:
        rows.kept.begin(bags)
    if rows.sums is not None:
        # They are computed where rows are counted, which those of unequal derivatives are not.
        rows.sums.begin(bags if hessians.are_alike else None)

    def count(span: int) -> tuple[FloatArray, IntArray]:
        return counter.count(slice(int(edges[span]), int(edges[span + 1])))

    sums, sizes = np.zeros(every.covers.size), np.zeros(every.covers.size, dtype=np.int64)
    for part_sums, part_sizes in in_threads(count, range(n_spans)):
        sums += part_sums
        sizes += part_sizes
    return judge_leaf_sums(forest, hessians, sums, sizes, subsample)


def leaf_sums(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags) -> tuple[FloatArray, IntArray]:
    """Return sums over some rows by leaf, the leaves of all trees in one array.

    Returns
    -------
    sums : ndarray, shape (n_leaves,)
        Derivatives of the rows in each tree's bag.
    sizes : ndarray of int, shape (n_leaves,)
        Number of rows whose derivatives exceed the tolerance.
    """
    reader = None if rows.leaves is not None else LeafReader(forest)
    return _Counter(forest, _Leaves.of(forest), rows, hessians, bags, reader).count(slice(0, rows.shape[0]))


def judge_leaf_sums(forest: Forest, hessians: Hessians, sums: FloatArray, sizes: IntArray, subsample: float) -> Proof:
    """Return the result, for each tree, of comparing the sums over all rows with those that its leaves store."""
    every = _Leaves.of(forest)
    agree = _agree(sums, every.covers, hessians.tolerance()[every.tree])
    log_chance = _log_chances(sizes, subsample)
    return Proof(
        passed=np.logical_and.reduceat(agree, every.edges[:-1]),
        log_chance=np.add.reduceat(log_chance, every.edges[:-1]),
    )


def tree_evidence(forest: Forest, rows: Rows, hessians: Hessians, chosen: list[int]) -> list[TreeEvidence]:
    """Return the evidence of some trees: the leaves of all rows, and their derivatives in the trees' rounds."""
    leaves = read_leaves(forest, rows, chosen)
    tolerance = hessians.tolerance()
    n_rows = rows.shape[0]
    margin = np.array(hessians.first(slice(0, n_rows)))
    by_group = np.asarray(hessians.at(slice(0, n_rows), margin), dtype=np.float64)
    found, known_round = [], 0
    for member, leaf in zip(chosen, leaves, strict=True):
        if hessians.depend_on_margin and forest.round[member] > known_round:
            earlier = np.flatnonzero((forest.round >= known_round) & (forest.round < forest.round[member])).tolist()
            for start in range(0, len(earlier), 16):
                part = earlier[start : start + 16]
                for before, reached in zip(part, read_leaves(forest, rows, part), strict=True):
                    margin[:, forest.group[before]] += forest.trees[before].leaf_values[reached]
            known_round = int(forest.round[member])
            by_group = np.asarray(hessians.at(slice(0, n_rows), margin), dtype=np.float64)
        own = by_group[:, forest.group[member]]
        found.append(TreeEvidence(leaf, forest.trees[member].leaf_covers, own, float(tolerance[member])))
    return found


@record
class _Leaves:
    """Leaves of all trees in one array: those of tree t are edges[t], ..., edges[t + 1] - 1."""

    edges: IntArray
    tree: IntArray
    covers: FloatArray

    @classmethod
    def of(cls, forest: Forest) -> _Leaves:
        counts = [tree.n_leaves for tree in forest.trees]
        return cls(
            edges=np.concatenate([[0], np.cumsum(counts)]),
            tree=np.repeat(np.arange(len(counts)), counts),
            covers=np.concatenate([tree.leaf_covers for tree in forest.trees]),
        )


@record
class _Counter:
    """Counter that sums in-bag derivatives and counts the rows with derivatives above the tolerance, by leaf."""

    forest: Forest
    every: _Leaves
    rows: Rows
    hessians: Hessians
    bags: Bags
    reader: LeafReader | None

    def count(self, span: slice) -> tuple[FloatArray, IntArray]:
        """Return each leaf's sum of in-bag derivatives and count of rows above the tolerance, in a range of rows."""
        if self.reader is not None and self.hessians.are_alike:
            rows, bags = self.rows[span], self.bags.part(span)
            counted = (
                self.forest.walk.count(rows, bags) if rows.sums is None else rows.sums.count(self.forest, rows, bags)
            )
            if counted is not None:
                return self._sums_alike(*counted)
        n_leaves = self.every.covers.size
        sums, sizes = np.zeros(n_leaves), np.zeros(n_leaves, dtype=np.int64)
        step = max(BLOCK_CELLS // len(self.forest.trees) // 8, 32) * 8
        for start in range(span.start, span.stop, step):
            self._count_block(slice(start, min(start + step, span.stop)), sums, sizes)
        return sums, sizes

    def _sums_alike(self, in_bag: IntArray, counts: IntArray) -> tuple[FloatArray, IntArray]:
        """Return what :meth:`count` does, from numbers of rows by leaf, for equal derivatives."""
        hessians, tree = self.hessians, self.every.tree
        one = np.asarray(hessians.at(slice(0, 1), hessians.first(slice(0, 1))), dtype=np.float64)[0]
        hessian = one[self.forest.group][tree]
        hidden = 2.0 * hessians.tolerance()[tree] * self.every.covers
        return in_bag * hessian, np.where(hessian > hidden, counts, 0)

    def _count_block(self, block: slice, sums: FloatArray, sizes: IntArray) -> None:
        forest, hessians, edges = self.forest, self.hessians, self.every.edges
        rows, in_bag = self.rows[block], self.bags.in_bag(block)
        leaves = rows.leaves if self.reader is None else self.reader.read(rows)
        assert leaves is not None
        if rows.kept is not None:
            rows.kept.keep(leaves)
        hidden = 2.0 * hessians.tolerance()[self.every.tree] * self.every.covers
        margin = np.array(hessians.first(block))
        for number in range(forest.n_rounds):
            hessian = np.asarray(hessians.at(block, margin), dtype=np.float64)
            alike = bool((hessian == hessian[0]).all())
            for tree in np.flatnonzero(forest.round == number):
                own = slice(int(edges[tree]), int(edges[tree + 1]))
                of_tree = hessian[:, forest.group[tree]]
                counted = (
                    _count_alike(leaves[tree], in_bag[tree], float(of_tree[0]), hidden[own])
                    if alike
                    else _count_each(leaves[tree], in_bag[tree], of_tree, hidden[own])
                )
                sums[own] += counted[0]
                sizes[own] += counted[1]
            if hessians.depend_on_margin and number + 1 < forest.n_rounds:
                for tree in np.flatnonzero(forest.round == number):
                    margin[:, forest.group[tree]] += forest.trees[tree].leaf_values[leaves[tree]]


def _count_alike(
    leaves: NDArray[Any], in_bag: NDArray[np.bool_], hessian: float, hidden: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return each leaf's sum of in-bag derivatives and count of rows above the tolerance, for equal derivatives."""
    in_bag_counts, counts = count_leaves(leaves, in_bag, hidden.size)
    return in_bag_counts.astype(np.float64) * hessian, np.where(hessian > hidden, counts, 0)


def _count_each(
    leaves: NDArray[Any], in_bag: NDArray[np.bool_], hessian: FloatArray, hidden: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return each leaf's sum of in-bag derivatives, and its count of rows with derivatives above the tolerance."""
    sums = np.bincount(leaves[in_bag], weights=hessian[in_bag], minlength=hidden.size)
    return sums.astype(np.float64), np.bincount(leaves[hessian > hidden[leaves]], minlength=hidden.size)


def _agree(sums: NDArray[Any], covers: FloatArray, tolerance: FloatArray | float) -> NDArray[np.bool_]:
    return np.asarray(np.abs(sums - covers) <= tolerance * np.maximum(sums, covers))


def _log_chances(sizes: IntArray, subsample: float) -> FloatArray:
    """Return the logarithm of the largest binomial probability for each number of rows."""
    found, position = np.unique(sizes, return_inverse=True)
    mode = np.floor((found + 1) * subsample)
    return np.asarray(binom.logpmf(np.minimum(mode, found), found, subsample))[position]
