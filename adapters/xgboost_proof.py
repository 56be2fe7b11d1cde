"""Whether bags and rows give the sums that XGBoost's trees keep.

Every leaf keeps the summed second derivative of its in-bag rows.  A mask is right if it gives that sum
in every leaf of every tree.  A wrong one, coin tosses independent of the right one, passes with a
chance of at most the product over leaves of the largest probability of a binomial count of the leaf's
rows: masks that agree in a leaf's sum never contain one another, and no such family of sets is likelier
than the likeliest size (Lubell, Yamamoto, Meshalkin).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.stats import binom

from ens_plugin.adapters.threads import in_threads
from ens_plugin.adapters.xgboost_hessians import Hessians
from ens_plugin.adapters.xgboost_model import Forest, leaf_reader
from ens_plugin.adapters.xgboost_rows import Rows
from ens_plugin.core.bags import Bags

__all__ = ["Proof", "TreeEvidence", "prove", "tree_evidence"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK_CELLS = 2_000_000


@dataclass(frozen=True, eq=False)
class Proof:
    """Outcome for each tree.

    Attributes
    ----------
    passed : ndarray of bool, shape (n_trees,)
    log_chance : ndarray, shape (n_trees,)
        Logarithm of a bound on the chance that a wrong mask passes.
    """

    passed: NDArray[np.bool_]
    log_chance: FloatArray


@dataclass(frozen=True, eq=False)
class TreeEvidence:
    """What one tree says about the mask it was trained with.

    Attributes
    ----------
    leaf : ndarray of int, shape (n_rows,)
        Node each row ends in.
    covers : ndarray of float64, shape (n_nodes,)
        What the leaves keep; 0 for inner nodes.
    hessian : ndarray, shape (n_rows,)
    tolerance : float
    """

    leaf: NDArray[np.int32]
    covers: FloatArray
    hessian: FloatArray
    tolerance: float

    @cached_property
    def sizes(self) -> IntArray:
        """Rows in each node, shape (n_nodes,)."""
        return np.bincount(self.leaf, minlength=self.covers.size)

    def accepts(self, in_bag: NDArray[np.bool_]) -> bool:
        """Tell whether a mask gives the sum of every leaf."""
        sums = np.bincount(self.leaf[in_bag], weights=self.hessian[in_bag], minlength=self.covers.size)
        return bool(_agree(sums, self.covers, self.tolerance).all())


def prove(forest: Forest, rows: Rows, hessians: Hessians, bags: Bags, subsample: float) -> Proof:
    """Compare every leaf of every tree, in blocks of rows, in as many threads as joblib's context grants."""
    nodes = _Nodes.of(forest)
    n_rows = rows.shape[0]
    n_spans = max(min(effective_n_jobs(None), n_rows // 1024), 1)
    edges = np.linspace(0, n_rows, n_spans + 1).astype(int) // 8 * 8
    edges[-1] = n_rows
    reader = leaf_reader(forest)

    def count(span: int) -> tuple[FloatArray, IntArray]:
        return _count(forest, nodes, reader, rows, hessians, bags, slice(int(edges[span]), int(edges[span + 1])))

    sums, sizes = np.zeros(nodes.covers.size), np.zeros(nodes.covers.size, dtype=np.int64)
    for part_sums, part_sizes in in_threads(count, range(n_spans)):
        sums += part_sums
        sizes += part_sizes
    agree = _agree(sums, nodes.covers, hessians.tolerance()[nodes.tree]) | ~nodes.is_leaf
    log_chance = _log_chances(sizes, subsample)
    return Proof(
        passed=np.logical_and.reduceat(agree, nodes.edges[:-1]),
        log_chance=np.add.reduceat(log_chance, nodes.edges[:-1]),
    )


def tree_evidence(forest: Forest, rows: Rows, hessians: Hessians, chosen: list[int]) -> list[TreeEvidence]:
    """Read some of the trees for all rows, with the derivatives of their rounds."""
    leaves = _leaves(forest, rows, chosen)
    tolerance = hessians.tolerance()
    n_rows = rows.shape[0]
    margin = np.array(hessians.first(slice(0, n_rows)))
    found, known_round = [], 0
    for member, leaf in zip(chosen, leaves, strict=True):
        if hessians.depend_on_margin:
            earlier = np.flatnonzero((forest.round >= known_round) & (forest.round < forest.round[member])).tolist()
            for start in range(0, len(earlier), 16):
                part = earlier[start : start + 16]
                for before, reached in zip(part, _leaves(forest, rows, part), strict=True):
                    margin[:, forest.group[before]] += forest.trees[before].values[reached]
            known_round = int(forest.round[member])
        tree = forest.trees[member]
        hessian = hessians.at(slice(0, n_rows), margin)[:, forest.group[member]]
        covers = np.where(tree.is_leaf, tree.covers, 0.0).astype(np.float64)
        found.append(TreeEvidence(leaf, covers, np.asarray(hessian, dtype=np.float64), float(tolerance[member])))
    return found


@dataclass(frozen=True, eq=False)
class _Nodes:
    """All nodes of all trees in one row: tree t's are edges[t], ..., edges[t + 1] - 1."""

    edges: IntArray
    tree: IntArray
    is_leaf: NDArray[np.bool_]
    covers: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, forest: Forest) -> _Nodes:
        counts = [tree.is_leaf.size for tree in forest.trees]
        is_leaf = np.concatenate([tree.is_leaf for tree in forest.trees])
        covers = np.where(is_leaf, np.concatenate([tree.covers for tree in forest.trees]), 0.0).astype(np.float64)
        return cls(
            edges=np.concatenate([[0], np.cumsum(counts)]),
            tree=np.repeat(np.arange(len(counts)), counts),
            is_leaf=is_leaf,
            covers=covers,
            values=np.concatenate([tree.values for tree in forest.trees]).astype(np.float64),
        )


def _count(
    forest: Forest, nodes: _Nodes, reader: Any, rows: Rows, hessians: Hessians, bags: Bags, span: slice
) -> tuple[FloatArray, IntArray]:
    """Sum of derivatives of in-bag rows, and rows that the tolerance cannot hide, in every node."""
    sums, sizes = np.zeros(nodes.covers.size), np.zeros(nodes.covers.size, dtype=np.int64)
    step = max(BLOCK_CELLS // len(forest.trees) // 8, 32) * 8
    for start in range(span.start, span.stop, step):
        block = slice(start, min(start + step, span.stop))
        said = reader.predict(rows[block].matrix())
        reached = said.reshape(block.stop - start, -1).T.astype(np.int64)
        reached += nodes.edges[:-1, None]
        _count_block(forest, nodes, reached, bags.in_bag(block), hessians, block, (sums, sizes))
    return sums, sizes


def _count_block(
    forest: Forest,
    nodes: _Nodes,
    reached: IntArray,
    in_bag: NDArray[np.bool_],
    hessians: Hessians,
    block: slice,
    totals: tuple[FloatArray, IntArray],
) -> None:
    margin = np.array(hessians.first(block))
    hidden = 2.0 * hessians.tolerance()
    for number in range(forest.n_rounds):
        trees = np.flatnonzero(forest.round == number)
        span = slice(int(trees[0]), int(trees[-1]) + 1)
        own = slice(int(nodes.edges[span.start]), int(nodes.edges[span.stop]))
        hessian = np.asarray(hessians.at(block, margin), dtype=np.float64)
        least = hidden[nodes.tree[own]] * nodes.covers[own]
        local = reached[span] - own.start
        if bool((hessian == hessian[0]).all()):
            by_node = hessian[0][forest.group[nodes.tree[own]]]
            sums, sizes = _count_alike(local, in_bag[span], by_node, least)
        else:
            sums, sizes = _count_each(local, in_bag[span], hessian.T[forest.group[span]], least)
        totals[0][own] += sums
        totals[1][own] += sizes
        if hessians.depend_on_margin and number + 1 < forest.n_rounds:
            for tree in trees:
                margin[:, forest.group[tree]] += nodes.values[reached[tree]]


def _count_alike(
    reached: IntArray, in_bag: NDArray[np.bool_], hessian: FloatArray, least: FloatArray
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Sums and visible rows by node where all rows have the same derivative, that of the node's group: mere counts."""
    sums = np.asarray(np.bincount(reached[in_bag], minlength=hessian.size) * hessian, dtype=np.float64)
    return sums, np.where(hessian > least, np.bincount(reached.ravel(), minlength=hessian.size), 0)


def _count_each(
    reached: IntArray, in_bag: NDArray[np.bool_], hessian: FloatArray, least: FloatArray
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Sums by node, and rows whose derivative the tolerance of the node's sum cannot hide."""
    sums = np.asarray(np.bincount(reached[in_bag], weights=hessian[in_bag], minlength=least.size), dtype=np.float64)
    return sums, np.bincount(reached[hessian > least[reached]], minlength=least.size)


def _leaves(forest: Forest, rows: Rows, chosen: list[int]) -> list[NDArray[np.int32]]:
    reader = leaf_reader(forest, chosen)
    step = max(BLOCK_CELLS // len(chosen), 256)
    found = np.empty((len(chosen), rows.shape[0]), dtype=np.int32)
    for start in range(0, rows.shape[0], step):
        block = rows[slice(start, start + step)]
        found[:, start : start + step] = reader.predict(block.matrix()).reshape(-1, len(chosen)).T
    return list(found)


def _agree(sums: NDArray[Any], covers: FloatArray, tolerance: FloatArray | float) -> NDArray[np.bool_]:
    return np.asarray(np.abs(sums - covers) <= tolerance * np.maximum(sums, covers))


def _log_chances(sizes: IntArray, subsample: float) -> FloatArray:
    """Logarithm of the largest binomial probability for each number of rows."""
    found, position = np.unique(sizes, return_inverse=True)
    mode = np.floor((found + 1) * subsample)
    return np.asarray(binom.logpmf(np.minimum(mode, found), found, subsample))[position]
