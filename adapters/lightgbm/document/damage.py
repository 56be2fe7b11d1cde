"""A check for damage in the text of a LightGBM model, which LightGBM itself reads without a check."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.lightgbm.document.text import ModelText, TreeText, is_complete, parse_model
from ens_plugin.adapters.shared.trees.child_links import are_sound
from ens_plugin.core.validation import counted

__all__ = ["find_damage"]

MAX_LEAVES = 2**20
MAX_FEATURE_VALUE = 2**31 - 1
CATEGORICAL = 1
BITS_PER_WORD = 32
CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
PARAMETER = re.compile(rb"\[\w+: ?[^\n]*\]")
TREE = re.compile(rb"[0-9]+(?:\n\w+=[^\n]*)*\n*")
WHOLE = re.compile(r"[0-9]{1,10}")
SPLIT_KEYS = ("split_feature", "left_child", "right_child", "decision_type")
# Keys that a tree need not have; nothing depends on the first two.
OPTIONAL_KEYS = ("internal_count", "leaf_count", "internal_value", "internal_weight", "leaf_weight", "split_gain")


class _DamageError(ValueError):
    pass


def find_damage(text: bytes) -> str | None:
    r"""Return the damage that makes the text of a model unsafe for LightGBM to read.

    LightGBM uses the numbers of leaves, children, features and categories that the text states.
    Wrong ones can end the process, or make prediction never end.

    Parameters
    ----------
    text : bytes
        As ``Booster.save_model`` writes it.

    Returns
    -------
    str or None
        None where nothing is wrong.

    Examples
    --------
    >>> find_damage(b"tree\ntree_sizes=12\n\nTree=0\na=")
    'trees are missing or cut short'
    """
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
    if not 1 <= n_labels <= MAX_LEAVES or per_iteration not in (1, n_labels):
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
        if not 1 <= n_leaves <= MAX_LEAVES:
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
    if np.isnan(thresholds).any():
        raise _DamageError("has a threshold that is no number")
    if features.min() < 0 or features.max() >= n_features:
        raise _DamageError("splits on a feature that the model does not have")
    if kind.min() < 0 or kind.max() >= 12:
        raise _DamageError("has an unknown kind of split")
    leaves = ~np.concatenate([left, right])
    leaves = leaves[leaves >= 0]
    if not are_sound(left, right) or leaves.size != n_leaves or np.unique(leaves).size != n_leaves:
        raise _DamageError("does not lead from its root to each leaf once")
    if leaves.max() >= n_leaves:
        raise _DamageError("leads to a leaf that it does not have")
    by_category = kind & CATEGORICAL == CATEGORICAL
    if n_categorical or by_category.any():
        _check_categories(tree, n_categorical, thresholds[by_category])


def _check_categories(tree: TreeText, n_categorical: int, thresholds: NDArray[np.float64]) -> None:
    if not 1 <= n_categorical <= MAX_LEAVES:
        raise _DamageError(f"states that it has {n_categorical} sets of categories, and needs 1 to {MAX_LEAVES}")
    bounds = _integers(tree.lines, "cat_boundaries", n_categorical + 1)
    if bounds[0] != 0 or (np.diff(bounds) < 0).any() or bounds[-1] > MAX_FEATURE_VALUE // BITS_PER_WORD:
        raise _DamageError("has sets of categories that overlap")
    words = _integers(tree.lines, "cat_threshold", int(bounds[-1]))
    if words.size and (words.min() < 0 or words.max() >= 2**BITS_PER_WORD):
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
