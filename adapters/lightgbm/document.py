"""The text of a LightGBM model: its trees, its damage, and that of a shorter one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ens_plugin.adapters.trees import LEAF, damage_of_tree, splits_by_column
from ens_plugin.core.validation import FloatArray, IntArray, counted

# Bit of a split's decision type.
CATEGORICAL = 1
MODEL_START = b"tree\nversion="
SIZE_ALIASES = (
    "num_iterations",
    "num_iteration",
    "n_iter",
    "num_tree",
    "num_trees",
    "num_round",
    "num_rounds",
    "nrounds",
    "num_boost_round",
    "max_iter",
)


class TreeText:
    """The text of one tree of a LightGBM model: ``key=value`` lines, which are read when they are asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def lines(self) -> dict[str, str]:
        """Return the values by key."""
        return _key_values(self._text)

    @cached_property
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

    @cached_property
    def leaf_counts(self) -> IntArray:
        """Return how many rows of the tree's bag reached each leaf; none of a tree without a split."""
        if self.n_leaves == 1:
            return np.zeros(0, dtype=np.int64)
        return self.integers("leaf_count") if self.lines.get("leaf_count") else np.zeros(self.n_leaves, dtype=np.int64)

    def floats(self, key: str) -> FloatArray:
        """Return the numbers of one line of the text, shape (n_leaves,) or (n_leaves - 1,)."""
        return np.array(self.lines[key].split(), dtype=np.float64)

    def integers(self, key: str) -> IntArray:
        """Return the whole numbers of one line of the text, shape (n_leaves,) or (n_leaves - 1,)."""
        return np.array(self.lines[key].split(), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ModelText:
    """Text of a LightGBM model, split into header, parameters and trees."""

    # ``key=value`` lines above the first tree.
    header: dict[str, str]
    # Whether predictions are means over trees, as in ``rf`` mode, not sums.
    averages: bool
    # Training parameters; None where the model was saved without.
    parameters: dict[str, str] | None
    trees: list[TreeText]

    @property
    def trees_per_iteration(self) -> int:
        """Return the number of trees that were grown on the same bag: one, or one for each label."""
        return int(self.header.get("num_tree_per_iteration", "1"))

    @property
    def n_iterations(self) -> int:
        """Return the number of iterations."""
        return len(self.trees) // self.trees_per_iteration

    def trees_of(self, iteration: int) -> range:
        """Return the positions of the trees of one iteration."""
        return range(iteration * self.trees_per_iteration, (iteration + 1) * self.trees_per_iteration)

    def number(self, parameter: str, default: float) -> float:
        """Return the value of a training parameter that is a number."""
        return float((self.parameters or {}).get(parameter, default))

    def splits(self) -> Iterator[tuple[int, FloatArray]]:
        """Yield each column that trees split by value, in ascending order, with all its thresholds."""
        trees = [tree for tree in self.trees if tree.n_leaves > 1]
        keys = ("split_feature", "threshold", "decision_type")
        column, threshold, kind = (np.array(" ".join(tree.lines[key] for tree in trees).split(), float) for key in keys)
        is_number = kind.astype(np.int64) & CATEGORICAL == 0
        return splits_by_column(column[is_number].astype(np.int64), threshold[is_number])


def parse_model(text: str) -> ModelText:
    r"""Return the header, parameters and trees in a text of ``Booster.model_to_string``."""
    forest, _, rest = text.partition("\nend of trees")
    header, *trees = forest.split("\nTree=")
    return ModelText(
        header=_key_values(header),
        averages="\naverage_output" in header,
        parameters=_parameters(rest),
        trees=[TreeText(tree) for tree in trees],
    )


def _key_values(text: str) -> dict[str, str]:
    lines: list[Any] = [line.split("=", 1) for line in text.split("\n") if "=" in line]
    return dict(lines)


def _parameters(text: str) -> dict[str, str] | None:
    _, found, section = text.partition("\nparameters:")
    if not found:
        return None
    return dict(re.findall(r"^\[(\w+): ?(.*)\]$", section.partition("\nend of parameters")[0], re.MULTILINE))


def find_damage(text: str) -> str | None:
    """Return the damage that makes a model, whose text LightGBM itself has written, unsafe to predict with, or None."""
    model = parse_model(text)
    n_labels = int(model.header["num_class"])
    stated = re.search(r"num_class:(\d+)", model.header.get("objective", ""))
    if model.trees_per_iteration not in (1, n_labels) or (stated is not None and int(stated[1]) != n_labels):
        return f"its trees, or its objective, are not those of {counted(n_labels, 'label')}"
    n_features = int(model.header["max_feature_idx"]) + 1
    for index, tree in enumerate(model.trees):
        if (damage := _damage_of(tree, n_features)) is not None:
            return f"tree {index} {damage}"
    return None


def _damage_of(tree: TreeText, n_features: int) -> str | None:
    n_leaves = tree.n_leaves
    if tree.floats("leaf_value").size != n_leaves or not np.isfinite(tree.floats("leaf_value")).all():
        return "has values that are not finite"
    if n_leaves == 1:
        return None
    left, right, features, kind = (
        tree.integers(key) for key in ("left_child", "right_child", "split_feature", "decision_type")
    )
    if max(left.max(), right.max()) >= n_leaves - 1:
        return "leads to a split that it does not have"
    # LightGBM numbers leaves from -1 downwards.
    none = np.full(n_leaves, LEAF)
    left, right = (np.append(np.where(own < 0, n_leaves - 2 - own, own), none) for own in (left, right))
    by_category, thresholds = kind & CATEGORICAL != 0, tree.floats("threshold")
    if by_category.any() and not _has_categories(tree, thresholds[by_category]):
        return "refers to a set of categories that it does not have"
    return damage_of_tree(left, right, np.append(features, none), n_features, np.append(thresholds, none))


def _has_categories(tree: TreeText, thresholds: FloatArray) -> bool:
    """Return whether a tree has the sets of categories that its splits refer to."""
    if not tree.has_categorical_splits:
        return False
    bounds = tree.integers("cat_boundaries")
    is_in_order = bounds[0] == 0 and (np.diff(bounds) >= 0).all() and bounds[-1] <= tree.integers("cat_threshold").size
    return bool(is_in_order and np.isin(thresholds, np.arange(bounds.size - 1)).all())


def truncated_forest(model: Any, booster: Any, size: int) -> Any:
    """Return a copy of a fitted forest with its first `size` iterations, which LightGBM averages."""
    # Documents are searched for damage before LightGBM is loaded.
    from lightgbm import Booster

    text = booster.model_to_string(num_iteration=size)
    if model is booster:
        return Booster(model_str=text)
    part = deepcopy(model)
    part.booster_.model_from_string(text)
    # LightGBM prefers the value given to set_params to the attribute of the same name.
    part.set_params(**{name: size for name in ("n_estimators", *SIZE_ALIASES) if name in part.get_params()})
    _cut_history(part, size)
    return part


def _cut_history(part: Any, size: int) -> None:
    """Cut the evaluation results to the first `size` iterations; LightGBM has no public way to set them."""
    history = {
        name: {metric: values[:size] for metric, values in measured.items()}
        for name, measured in part.evals_result_.items()
    }
    part._evals_result = history
    part._best_iteration = 0
    part._best_score = {
        name: {metric: values[-1] for metric, values in measured.items()} for name, measured in history.items()
    }
