"""Parsing of the text of a LightGBM model: its parameters, and the lines of each tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.trees.split_values import splits_by_column
from ens_plugin.records import record

__all__ = ["MODEL_START", "ModelText", "TreeText", "is_complete", "parse_model", "split_values"]

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MODEL_START = b"tree\nversion="
# Bit of a split's decision type.
CATEGORICAL = 1
TREES_END = b"end of trees\n"


@record
class TreeText:
    """Lines of one tree in the text of a LightGBM model.

    Attributes
    ----------
    lines : dict of str
        ``key=value`` lines of the tree.
    """

    lines: dict[str, str]

    @property
    def n_leaves(self) -> int:
        """Return the number of leaves; a tree of one leaf has no split."""
        return int(self.lines["num_leaves"])

    @property
    def has_linear_leaves(self) -> bool:
        """Return whether a leaf's output depends on the row (``linear_tree``)."""
        return self.lines.get("is_linear", "0") != "0"

    @property
    def has_categorical_splits(self) -> bool:
        """Return whether some split is by category."""
        return self.lines.get("num_cat", "0") != "0"

    def floats(self, key: str) -> FloatArray:
        """Return the numbers of one line of the text, shape (n_leaves,) or (n_leaves - 1,)."""
        return np.array(self.lines[key].split(), dtype=np.float64)

    def integers(self, key: str) -> IntArray:
        """Return the whole numbers of one line of the text, shape (n_leaves,) or (n_leaves - 1,)."""
        return np.array(self.lines[key].split(), dtype=np.int64)


@record
class ModelText:
    """Text of a LightGBM model, split into header, parameters and trees.

    Attributes
    ----------
    header : dict of str
        ``key=value`` lines above the first tree.
    averages : bool
        Whether predictions are means over trees, as in ``rf`` mode, not sums.
    parameters : dict of str, or None
        Training parameters; None where the model was saved without.
    trees : list of TreeText
    """

    header: dict[str, str]
    averages: bool
    parameters: dict[str, str] | None
    trees: list[TreeText]

    @property
    def trees_per_iteration(self) -> int:
        """Return the number of trees that were grown on the same bag: one, or one for each label."""
        return int(self.header.get("num_tree_per_iteration", "1"))


def parse_model(text: str) -> ModelText:
    r"""Return the header, parameters and trees in a text of ``Booster.model_to_string``.

    Examples
    --------
    >>> model = parse_model("tree\nobjective=binary\naverage_output\n\nTree=0\nnum_leaves=1\nleaf_value=0.5\n")
    >>> model.averages, model.trees[0].floats("leaf_value").tolist()
    (True, [0.5])
    """
    forest, _, rest = text.partition("\nend of trees")
    header, *trees = forest.split("\nTree=")
    return ModelText(
        header=_key_values(header),
        averages="\naverage_output" in header,
        parameters=_parameters(rest),
        trees=[TreeText(_key_values(tree)) for tree in trees],
    )


def split_values(model: ModelText) -> Iterator[tuple[int, FloatArray]]:
    """Yield the position of each column with numerical splits, and all its thresholds."""
    trees = [tree for tree in model.trees if tree.n_leaves > 1]
    if not trees:
        return
    column, value, kind = (
        np.concatenate([getattr(tree, read)(key) for tree in trees])
        for key, read in (("split_feature", "integers"), ("threshold", "floats"), ("decision_type", "integers"))
    )
    is_number = kind & CATEGORICAL == 0
    yield from splits_by_column(column[is_number], value[is_number])


def is_complete(text: bytes) -> bool:
    r"""Return whether a model's text has all its trees, each at the position that the sizes in its header state.

    LightGBM itself uses the sizes without a check, and wrong ones can end the process.

    Examples
    --------
    >>> is_complete(b"tree\ntree_sizes=12\n\nTree=0\na=b\n\nend of trees\n")
    True
    >>> is_complete(b"tree\ntree_sizes=12\n\nTree=0\na=")
    False
    """
    sizes = re.search(rb"^tree_sizes=(.*)$", text, re.MULTILINE)
    if sizes is None:
        return TREES_END in text
    at = text.find(b"\nTree=0\n") + 1
    for index, size in enumerate(sizes.group(1).split()):
        if not text.startswith(b"Tree=%d\n" % index, at) or not size.isdigit():
            return False
        at += int(size)
    return text.startswith(TREES_END, at)


def _key_values(text: str) -> dict[str, str]:
    lines: list[Any] = [line.split("=", 1) for line in text.split("\n") if "=" in line]
    return dict(lines)


def _parameters(text: str) -> dict[str, str] | None:
    _, found, section = text.partition("\nparameters:")
    if not found:
        return None
    return dict(re.findall(r"^\[(\w+): ?(.*)\]$", section.partition("\nend of parameters")[0], re.MULTILINE))
