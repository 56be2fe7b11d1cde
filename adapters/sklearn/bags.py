"""The bags of scikit-learn's ensembles, drawn again from their seeds and proved by what some of the trees counted."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.members import other_rows, other_target
from ens_plugin.adapters.sklearn.training import RELEASE, draws_by_weight
from ens_plugin.adapters.trees import LeafSums, target_ranges
from ens_plugin.adapters.unwrap import JOINT_WEIGHTS
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    PART_ROWS,
    SINGLE_ROUNDING,
    AnyIntArray,
    BoolArray,
    FloatArray,
    counted,
)
from ens_plugin.errors import BagError, DataMismatchError

_MEANS = ("squared_error", "friedman_mse", "poisson")
# Trees that are compared with the rows: by chance, the leaves of one hardly ever agree with other rows, so a few would
# prove the seeds.  Of trees of which a tenth was added on other rows, so many find one with a chance of 81 %.
PROVING_TREES = 16
# From release 1.9 on, weights decide which rows are drawn, and have no effect inside a tree.
_WEIGHTS_ONLY_DRAW = RELEASE >= (1, 9)


def checked_members(n_members: int, most: int = PROVING_TREES) -> list[int]:
    """Return the positions of the members to compare with the rows: `most` or all, the first and the last too."""
    # One is drawn from each of so many equal parts, so that members which a warm start added on other rows are among
    # them wherever they stand, unless they are few.
    edges = np.linspace(0, n_members, most + 1).astype(np.int64)
    drawn = np.random.default_rng(n_members).integers(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1))
    return sorted({0, n_members - 1, *drawn.tolist()})


def prove_members(check: Callable[[int], bool], n_members: int) -> bool:
    """Return whether `check` proves the target for each of the :func:`checked_members`.

    Parameters
    ----------
    check : callable
        ``check(member)`` raises DataMismatchError for a member that was trained on other rows or targets; it returns
        whether the target is proved, as :func:`check_growth` does.
    n_members : int

    Raises
    ------
    DataMismatchError
        That of the first member for which `check` raises it; with how many there are, if others passed.
    """
    members, are_proved, refused = checked_members(n_members), list[bool](), dict[int, DataMismatchError]()
    for member in members:
        try:
            are_proved.append(check(member))
        except DataMismatchError as error:
            refused[member] = error
    if not refused:
        return all(are_proved)
    first = next(iter(refused))
    if not are_proved:
        raise refused[first]
    raise DataMismatchError(
        f"{refused[first]} Or these are not the rows of all its trees: of {len(members)} that were compared, "
        f"{len(refused)} differ, tree {first} the first, and the others do not. Trees that were added on other rows, "
        "by estimators_ += or by a warm start, have bags of rows that are not kept: refit all trees on one table, or "
        'pass data="holdout" with rows that no tree was trained on.'
    ) from refused[first]


def check_growth(
    tree: Any,
    features: Any,
    drawn: AnyIntArray,
    target: NDArray[Any] | None,
    member: int,
    *,
    weights_are_known: bool = _WEIGHTS_ONLY_DRAW,
) -> bool:
    """Raise DataMismatchError unless `tree` can have been grown on the drawn rows and their targets.

    The drawn rows must fall into the leaves as often as the tree counted at training; and every
    leaf's value must be the one that the targets of its rows give.

    Parameters
    ----------
    tree : fitted DecisionTree* or ExtraTree*
    features : float32 array or CSR matrix of shape (n_rows, n_features)
        What the tree's own ``apply`` takes.
    drawn : ndarray of int, shape (n_drawn,)
        Rows the member drew, repeated or not.
    target : ndarray of shape (n_rows,) or None
        Label codes (classification) or values (regression).
    member : int
        Position of the tree, for the message.
    weights_are_known : bool, optional
        Whether rows that were drawn equally often, with the same label, count alike inside the tree.

    Returns
    -------
    bool
        Whether the targets are proved: they give the values of all leaves.
    """
    draws = np.bincount(drawn, minlength=features.shape[0])
    in_bag = np.flatnonzero(draws)
    # All rows of a bag at once are half the size of the table.
    parts = [in_bag[start : start + PART_ROWS] for start in range(0, max(in_bag.size, 1), PART_ROWS)]
    # On arrays, take is three times as fast as an index.
    rows_at = features.take if isinstance(features, np.ndarray) else lambda rows, axis: features[rows]
    sums = [
        _growth_sums(tree, rows_at(rows, axis=0), None if target is None else target[rows], draws[rows])
        for rows in parts
    ]
    return _judge_growth(tree, _merged(sums), member, weights_are_known)


def leaf_counts(tree: Any, features: Any, target: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the numbers of bag rows that a tree counted, by leaf and label, and those of the given rows."""
    # For a leaf with several labels, the tree's number is 1 for each of these: at least one row had it. Without target,
    # numbers are by leaf alone.
    nodes, leaves = tree.tree_, tree.tree_.apply(features)
    is_leaf = nodes.children_left == -1
    if target is None or not hasattr(tree, "classes_") or getattr(tree, "monotonic_cst", None) is not None:
        return nodes.n_node_samples[is_leaf], np.bincount(leaves, minlength=nodes.node_count)[is_leaf]
    value = nodes.value[is_leaf, 0, :]
    n_labels = value.shape[1]
    is_pure = (value > 0).sum(axis=1, keepdims=True) == 1
    counted = np.where(value > 0, np.where(is_pure, nodes.n_node_samples[is_leaf, None], 1), 0)
    known = target < n_labels
    found = np.bincount(leaves[known] * n_labels + target[known], minlength=nodes.node_count * n_labels)
    return counted.ravel(), found.reshape(nodes.node_count, n_labels)[is_leaf].ravel()


def _growth_sums(tree: Any, features: Any, target: NDArray[Any] | None, draws: AnyIntArray) -> LeafSums:
    """Return, for each node of a tree, the sums over some rows of its bag that prove its growth."""
    leaves = tree.tree_.apply(features)
    n_nodes = tree.tree_.node_count
    sums: LeafSums = {
        "rows": np.bincount(leaves, minlength=n_nodes),
        "draws": np.bincount(leaves, draws, n_nodes),
    }
    if target is None:
        return sums
    if hasattr(tree, "classes_"):
        n_labels = tree.tree_.value.shape[2]
        sums["by_label"] = np.bincount(leaves * n_labels + target, draws, n_nodes * n_labels)
        return sums
    held = tree.tree_.value[:, 0, 0].take(leaves)
    slack = SINGLE_ROUNDING * np.abs(held)
    sums["total"] = np.bincount(leaves, draws * target, n_nodes)
    sums["size"] = np.bincount(leaves, draws * np.abs(target), n_nodes)
    sums["below"] = np.bincount(leaves, draws * (target < held - slack), n_nodes)
    sums["above"] = np.bincount(leaves, draws * (target > held + slack), n_nodes)
    return sums | target_ranges(leaves, target, n_nodes)


def _merged(parts: list[LeafSums]) -> LeafSums:
    """Return the sums over all rows, and their ranges, from those of disjoint parts."""
    ranges = {"lowest": np.minimum, "highest": np.maximum}
    return {name: reduce(ranges.get(name, np.add), [part[name] for part in parts]) for name in parts[0]}


def _judge_growth(tree: Any, sums: LeafSums, member: int, weights_are_known: bool) -> bool:
    """Raise DataMismatchError unless `tree` can have been grown on its bag's rows, whose sums by node are `sums`."""
    nodes, counts = tree.tree_, sums["rows"]
    is_leaf = nodes.children_left == -1
    # Rows of weight zero are drawn but not counted (scikit-learn before 1.9), so a count may fall short.
    excess = is_leaf & (nodes.n_node_samples > counts)
    if excess.any():
        raise other_rows(
            f"in {np.count_nonzero(excess)} of {nodes.n_leaves} leaves of tree {member}, X has fewer rows than the "
            "tree counted at training"
        )
    # Monotonic constraints move the values of leaves.
    if not {"by_label", "total"} & sums.keys() or getattr(tree, "monotonic_cst", None) is not None:
        return False
    differing = _differing_leaves(tree, sums, is_leaf)
    if differing is None or (differing.any() and not _are_checkable(tree, sums, is_leaf, weights_are_known)):
        complete = is_leaf & (counts > 0) & (nodes.n_node_samples == counts)
        differing, is_proved = (complete & _is_impossible(nodes.value, sums))[is_leaf], False
    else:
        is_proved = True
    if differing.any():
        raise other_target(differing, member)
    return is_proved


def _are_checkable(tree: Any, sums: LeafSums, is_leaf: BoolArray, weights_are_known: bool) -> bool:
    """Return whether other leaf values prove another target, because no weights of rows can explain them."""
    if _counts_draws(tree.tree_, sums, is_leaf):
        return True
    # Of a single leaf, some weights of the labels explain any shares.
    has_labels = hasattr(tree, "classes_") and not getattr(tree, JOINT_WEIGHTS, False)
    return weights_are_known and has_labels and tree.tree_.n_leaves > 1


def _counts_draws(nodes: Any, sums: LeafSums, is_leaf: BoolArray) -> bool:
    """Return whether every draw of a row has weight 1 inside the tree."""
    gap = np.abs(nodes.weighted_n_node_samples - sums["draws"])[is_leaf]
    return bool((gap <= SINGLE_ROUNDING * sums["draws"][is_leaf]).all())


def _differing_leaves(tree: Any, sums: LeafSums, is_leaf: BoolArray) -> BoolArray | None:
    """Return which leaves have other values than the targets give, (n_leaves,); None for an unknown criterion."""
    nodes, draws = tree.tree_, sums["draws"][is_leaf]
    value = nodes.value[is_leaf, 0, :]
    if "by_label" in sums:
        drawn = sums["by_label"].reshape(nodes.node_count, -1)[is_leaf]
        weight = nodes.weighted_n_node_samples[is_leaf, None] * value
        # Of a single leaf, some factors of the labels explain any shares.
        return _has_other_shares(weight, drawn, drawn.shape[0] == 1 or _counts_draws(nodes, sums, is_leaf))
    if tree.criterion in _MEANS:
        size = sums["size"]
        gap = np.abs(value[:, 0] * draws - sums["total"][is_leaf])
        return np.asarray(gap > SINGLE_ROUNDING * size[is_leaf] + NEGLIGIBLE * size.sum())
    if tree.criterion == "absolute_error":
        half = draws / 2 + SINGLE_ROUNDING
        return np.asarray((sums["below"][is_leaf] > half) | (sums["above"][is_leaf] > half))
    return None


def _has_other_shares(weight: FloatArray, drawn: FloatArray, is_exact: bool) -> BoolArray:
    """Return which leaves have weights by label that are not the draws of the label, times a factor of each label."""
    n_leaves, n_labels = weight.shape
    # Most leaves have few of many labels.
    cell = np.flatnonzero((weight != 0) | (drawn != 0))
    leaf, label = np.divmod(cell, n_labels)
    weight, drawn = weight.take(cell), drawn.take(cell)
    factor = np.bincount(label, weight, n_labels) / np.maximum(np.bincount(label, drawn, n_labels), 1.0)
    expected = drawn if is_exact else factor[label] * drawn
    slack = SINGLE_ROUNDING * np.maximum(np.bincount(leaf, weight, n_leaves)[leaf], expected)
    return np.bincount(leaf, np.abs(weight - expected) > slack, n_leaves) > 0


def _is_impossible(value: FloatArray, sums: LeafSums) -> BoolArray:
    """Return which nodes store a value that is not a mean of their rows' targets, whatever the weights of the rows."""
    if "by_label" in sums:
        drawn = sums["by_label"].reshape(value.shape[0], -1)
        return np.asarray(((drawn > 0) & (value[:, 0, :] == 0)).any(axis=1))
    lowest, highest = sums["lowest"], sums["highest"]
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    slack = SINGLE_ROUNDING * np.where(np.isfinite(largest), largest, 0.0)
    return np.asarray((value[:, 0, 0] < lowest - slack) | (value[:, 0, 0] > highest + slack))


def without_bootstrap(model: object) -> BagError:
    """Return the error for a forest each tree of which was trained on every row."""
    return BagError(
        f"This {type(model).__name__} was trained without bootstrap, each tree on every row, so no row is out of bag. "
        'Pass data="holdout" with rows the model was not trained on, or refit with bootstrap=True.'
    )


def drawn_numbers(model: Any) -> NDArray[np.float64] | None:
    """Return how many rows each tree drew, counting repeats, shape (n_trees,); None where the trees do not show it."""
    trees = model.estimators_
    # Weights of labels inside a tree are those of its own rows.
    if not draws_by_weight(model) or any(getattr(tree, "class_weight", None) is not None for tree in trees):
        return None
    return np.array([tree.tree_.weighted_n_node_samples[0] for tree in trees])


def refuse_other_numbers(model: Any, n_drawn: NDArray[np.float64] | None, n_draws: int) -> None:
    """Raise BagError if some trees drew another number of rows than the seeds of the ensemble give now."""
    if n_drawn is None:
        return
    is_other = np.abs(n_drawn - n_draws) > SINGLE_ROUNDING * n_draws
    if not is_other.any():
        return
    first = int(np.flatnonzero(is_other)[0])
    raise BagError(
        f"{np.count_nonzero(is_other)} of {counted(n_drawn.size, 'tree')} of this {type(model).__name__} drew another "
        f"number of rows than {n_draws}, which its last fit drew for each tree: tree {first} drew "
        f"{n_drawn[first]:.0f}. So trees were added with warm_start after max_samples, bootstrap or the "
        "number of rows had changed, and the bags of the earlier trees are not kept. Refit all trees in one call of "
        'fit, or pass data="holdout" with rows the model was not trained on.'
    )
