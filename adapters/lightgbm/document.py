"""The text of a LightGBM model: its trees, its damage, and that of a shorter one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.tree_table import LEAF, MOST_STATED, damage_of_tree, splits_by_column
from ens_plugin.core.validation import FloatArray, IntArray, counted

# Bit of a split's decision type.
CATEGORICAL = 1
MODEL_START = b"tree\nversion="
TREES_END = b"end of trees\n"
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
PARAMETER = re.compile(rb"\[\w+: ?[^\n]*\]")
TREE = re.compile(rb"[0-9]+(?:\n\w+=[^\n]*)*\n*")
WHOLE = re.compile(r"[0-9]{1,10}")
SPLIT_KEYS = ("split_feature", "left_child", "right_child", "decision_type")
# Keys that a tree need not have; nothing depends on the first two.
OPTIONAL_KEYS = ("internal_count", "leaf_count", "internal_value", "internal_weight", "leaf_weight", "split_gain")
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


def is_complete(text: bytes) -> bool:
    r"""Return whether a model's text has all its trees, each at the position that the sizes in its header state."""
    # LightGBM itself uses the sizes without a check, and wrong ones can end the process.
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


class _DamageError(ValueError):
    pass


def find_damage(text: bytes) -> str | None:
    r"""Return the damage that makes the text of a model unsafe for LightGBM to read."""
    # LightGBM uses the numbers of leaves, children, features and categories that the text states. Wrong ones can end
    # the process, or make prediction never end.
    if not is_complete(text):
        return "trees are missing or cut short"
    if CONTROL.search(text):
        return "it holds control characters"
    forest = text.partition(b"\nend of trees")[0]
    for index, lines in enumerate(forest.split(b"\nTree=")[1:]):
        if TREE.fullmatch(lines) is None:
            return f"tree {index} has a line without a name, where LightGBM stops reading it"
    try:
        model = parse_model(text.decode())
        _check_header(model)
        _check_parameters(text.partition(b"\nparameters:\n")[2].partition(b"\nend of parameters")[0])
        n_features = _whole(model.header, "max_feature_idx") + 1
        for index, tree in enumerate(model.trees):
            _check_tree(tree, n_features, index)
    except KeyError as error:
        return f"a line {error.args[0]!r} is missing"
    except (_DamageError, UnicodeDecodeError) as error:
        return str(error)
    return None


def _check_header(model: ModelText) -> None:
    header = model.header
    n_labels, per_iteration = _whole(header, "num_class"), _whole(header, "num_tree_per_iteration")
    if not 1 <= n_labels <= MOST_STATED or per_iteration not in (1, n_labels):
        raise _DamageError(
            f"it states {counted(n_labels, 'label')} and {counted(per_iteration, 'tree')} per iteration, which do not "
            "fit"
        )
    if len(model.trees) % per_iteration:
        raise _DamageError(f"its {counted(len(model.trees), 'tree')} are no multiple of {per_iteration} per iteration")
    n_features = _whole(header, "max_feature_idx") + 1
    for key in ("feature_names", "feature_infos"):
        if len(header[key].split(" ")) != n_features:
            raise _DamageError(f"{key} does not name {counted(n_features, 'feature')}")
    if "objective" in header:
        _check_objective(header["objective"], n_labels)


def _check_parameters(lines: bytes) -> None:
    """Raise _DamageError for a parameter without a colon, which LightGBM expects in each line without a check."""
    for line in filter(None, lines.split(b"\n")):
        if PARAMETER.fullmatch(line) is None:
            raise _DamageError(f"its parameters have a line without a colon, {line.decode(errors='replace')[:40]!r}")


def _check_objective(objective: str, n_labels: int) -> None:
    for part in objective.split(" ")[1:]:
        name, _, value = part.partition(":")
        if name == "num_class" and value != str(n_labels):
            raise _DamageError(f"its objective has {counted(value, 'label')}, and the model {n_labels}")
        if value and not _is_number(value):
            raise _DamageError(f"its objective has {part!r}, in which a number is missing")


def _check_tree(tree: TreeText, n_features: int, index: int) -> None:
    try:
        n_leaves = _whole(tree.lines, "num_leaves")
        if not 1 <= n_leaves <= MOST_STATED:
            raise _DamageError(f"has {n_leaves} leaves")
        _floats(tree.lines, "leaf_value", n_leaves)
        for key in OPTIONAL_KEYS:
            if tree.lines.get(key):
                _floats(tree.lines, key, n_leaves if key.startswith("leaf") else n_leaves - 1, finite=False)
        for key in ("shrinkage", "is_linear"):
            if key in tree.lines and not _is_number(tree.lines[key]):
                raise _DamageError(f"has {key}={tree.lines[key]!r}")
        n_categorical = _whole(tree.lines, "num_cat")
        if n_leaves > 1:
            _check_splits(tree, n_leaves, n_features, n_categorical)
        if tree.has_linear_leaves:
            _check_linear(tree, n_leaves, n_features)
    except _DamageError as error:
        raise _DamageError(f"tree {index} {error}") from None


def _check_splits(tree: TreeText, n_leaves: int, n_features: int, n_categorical: int) -> None:
    features, left, right, kind = (_integers(tree.lines, key, n_leaves - 1) for key in SPLIT_KEYS)
    thresholds = _floats(tree.lines, "threshold", n_leaves - 1, finite=False)
    if kind.min() < 0 or kind.max() >= 12:
        raise _DamageError("has an unknown kind of split")
    if max(left.max(), right.max()) >= n_leaves - 1:
        raise _DamageError("leads to a split that it does not have")
    below, none = [_as_nodes(child, n_leaves) for child in (left, right)], np.full(n_leaves, LEAF)
    left, right, features = (np.concatenate([own, none]) for own in (*below, features))
    damage = damage_of_tree(left, right, features, n_features, np.concatenate([thresholds, none]))
    if damage is not None:
        raise _DamageError(damage)
    by_category = kind & CATEGORICAL != 0
    if n_categorical or by_category.any():
        _check_categories(tree, n_categorical, thresholds[by_category])


def _check_categories(tree: TreeText, n_categorical: int, thresholds: NDArray[np.float64]) -> None:
    if not 1 <= n_categorical <= MOST_STATED:
        raise _DamageError(f"states that it has {n_categorical} sets of categories, and needs 1 to {MOST_STATED}")
    bounds = _integers(tree.lines, "cat_boundaries", n_categorical + 1)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > np.iinfo(np.int32).max // np.iinfo(np.uint32).bits:
        raise _DamageError("has sets of categories that overlap")
    words = _integers(tree.lines, "cat_threshold", int(bounds[-1]))
    if words.size and (words.min() < 0 or words.max() > np.iinfo(np.uint32).max):
        raise _DamageError("has a set of categories out of range")
    if not np.isin(thresholds, np.arange(n_categorical)).all():
        raise _DamageError("refers to a set of categories that it does not have")


def _check_linear(tree: TreeText, n_leaves: int, n_features: int) -> None:
    _floats(tree.lines, "leaf_const", n_leaves)
    counts = _integers(tree.lines, "num_features", n_leaves)
    if counts.min() < 0 or counts.max() > n_features:
        raise _DamageError("has a leaf with more features than the model")
    features = _integers(tree.lines, "leaf_features", int(counts.sum()))
    _floats(tree.lines, "leaf_coeff", int(counts.sum()))
    if features.size and (features.min() < 0 or features.max() >= n_features):
        raise _DamageError("has a leaf with a feature that the model does not have")


def _whole(lines: dict[str, str], key: str) -> int:
    if WHOLE.fullmatch(lines[key]) is None:
        raise _DamageError(f"has {key}={lines[key][:40]!r}")
    return int(lines[key])


def _integers(lines: dict[str, str], key: str, size: int) -> NDArray[np.int64]:
    return _numbers(lines, key, size, np.int64)


def _floats(lines: dict[str, str], key: str, size: int, finite: bool = True) -> NDArray[np.float64]:
    values = _numbers(lines, key, size, np.float64)
    if finite and not np.isfinite(values).all():
        raise _DamageError(f"has values in {key} that are not finite")
    return values


def _numbers(lines: dict[str, str], key: str, size: int, dtype: Any) -> NDArray[Any]:
    try:
        values = np.array(lines[key].split(), dtype=dtype)
    except (ValueError, OverflowError):
        raise _DamageError(f"has values in {key} that are no numbers") from None
    if values.size != size:
        raise _DamageError(f"has {counted(values.size, 'value')} in {key} instead of {size}")
    return values


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _as_nodes(child: NDArray[Any], n_leaves: int) -> NDArray[Any]:
    """Return children as nodes: LightGBM numbers leaves from -1 downwards."""
    return np.where(child < 0, n_leaves - 2 - child, child)


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
