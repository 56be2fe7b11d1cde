"""Reading of the leaf of each tree that a row reaches, by a copy of the model with leaf numbers as leaf values.

``predict(pred_leaf=True)`` returns the same in about four times the time, and of all trees only.  Where the compiled
walk of ens-plugin-walk is used, it finds the leaves, and no copy is made.  The copy's
leaves of several trees add up to one output: as float32 holds whole numbers of 24 bits, one output has
room for the leaves of four trees of 64 leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import xgboost
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.document.model import Forest
from ens_plugin.adapters.xgboost.document.ubjson import encode
from ens_plugin.adapters.xgboost.rows import Rows

__all__ = ["LeafReader", "read_leaves"]

EXACT_BITS = 24
OUTPUT_BYTES = 2_000_000
# The library's own copy of a block takes eight bytes for each value in it.
MOST_ROWS = 16_384
# Rows whose codes stay in a processor's cache while they become leaves.
UNPACKED_ROWS = 200
_OBJECTIVE = {"name": "reg:squarederror", "reg_loss_param": {"scale_pos_weight": "1"}}


class LeafReader:
    """Reader of the leaves that rows reach in some trees of a forest, or in all, in the order given.

    Leaves are numbered from 0 in the order of the nodes.

    Parameters
    ----------
    forest : Forest
    chosen : sequence of int, optional
        Trees to read.

    Attributes
    ----------
    dtype : dtype
        The smallest unsigned integer type that holds a leaf's number.
    """

    def __init__(self, forest: Forest, chosen: Sequence[int] | None = None) -> None:
        trees = range(len(forest.trees)) if chosen is None else chosen
        self._forest, self._trees = forest, trees
        self._n_trees = len(trees)
        n_leaves = max(forest.trees[tree].n_leaves for tree in trees)
        self._bits = max((n_leaves - 1).bit_length(), 1)
        self._shared = max(EXACT_BITS // self._bits, 1)
        self.dtype = np.min_scalar_type(n_leaves - 1)
        self._n_outputs = -(-self._n_trees // self._shared)

    def read(self, rows: Rows, wanted: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the leaf of every tree that each row reaches, unsigned int, shape (n_trees, n_rows).

        Parameters
        ----------
        rows : Rows
        wanted : ndarray of bool, shape (n_trees, n_rows), optional
            True for leaves to find; the others may be any leaf.
        """
        found = None
        if rows.kept is not None and wanted is not None and self._trees == range(len(self._forest.trees)):
            found = rows.kept.read(wanted)
        if found is None:
            found = self._forest.walk.leaves(rows, self._trees, wanted)
        return self._read_copy(rows) if found is None else found

    @cached_property
    def _booster(self) -> Any:
        return self._copy(self._forest, self._trees)

    def _read_copy(self, rows: Rows) -> NDArray[Any]:
        """Return the leaves that the copy of the model finds."""
        leaves = np.empty((self._n_trees, rows.shape[0]), dtype=self.dtype)
        step = min(max(OUTPUT_BYTES // (4 * self._n_outputs), 64), MOST_ROWS)
        for start in range(0, rows.shape[0], step):
            block = slice(start, min(start + step, rows.shape[0]))
            outputs = self._booster.predict(rows[block].matrix()).reshape(block.stop - start, -1)
            self._unpack(outputs, leaves[:, block])
        return leaves

    def _unpack(self, outputs: NDArray[np.float32], leaves: NDArray[Any]) -> None:
        """Write the leaves of some rows, shape (n_trees, n_rows), whose codes the copy returned by row."""
        for start in range(0, len(outputs), UNPACKED_ROWS):
            rows = slice(start, start + UNPACKED_ROWS)
            codes = np.ascontiguousarray(outputs[rows].astype(np.uint32).T)
            for place in range(self._shared):
                own = leaves[place :: self._shared, rows]
                np.bitwise_and(codes[: len(own)], np.uint32(2**self._bits - 1), out=own, casting="unsafe")
                codes >>= np.uint32(self._bits)

    def _copy(self, forest: Forest, chosen: Sequence[int]) -> Any:
        """Return a booster of the chosen trees with leaf numbers as values, several trees to one output."""
        learner = forest.document["learner"]
        model = learner["gradient_booster"]["model"]
        trees = []
        for position, member in enumerate(chosen):
            tree = forest.trees[member]
            numbers = (np.cumsum(tree.is_leaf) - 1) * 2.0 ** (self._bits * (position % self._shared))
            conditions = np.where(tree.is_leaf, numbers, tree.values).astype(np.float32)
            trees.append({**model["trees"][member], "id": position, "split_conditions": conditions})
        changed_model = {
            **model,
            "gbtree_model_param": {
                **model["gbtree_model_param"],
                "num_trees": str(self._n_trees),
                "num_parallel_tree": "1",
            },
            "iteration_indptr": [0, self._n_trees],
            "tree_info": [position // self._shared for position in range(self._n_trees)],
            "trees": trees,
        }
        parameters = {
            **learner["learner_model_param"],
            "base_score": "0E0",
            "boost_from_average": "0",
            "num_class": "0",
            "num_target": str(self._n_outputs),
        }
        changed = {
            **learner,
            "attributes": {},
            "gradient_booster": {**learner["gradient_booster"], "model": changed_model},
            "learner_model_param": parameters,
            "objective": _OBJECTIVE,
        }
        # One thread: several blocks of rows are already read in parallel.
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(encode({**forest.document, "learner": changed}))
        return booster


def read_leaves(forest: Forest, rows: Rows, chosen: Sequence[int]) -> NDArray[Any]:
    """Return the leaves that rows reach in some trees, kept or newly read, shape (len(chosen), n_rows)."""
    if rows.leaves is not None:
        return np.asarray(rows.leaves[chosen])
    return LeafReader(forest, chosen).read(rows)
