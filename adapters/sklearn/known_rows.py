"""Recognition of training rows of scikit-learn's ensembles, in any order, and of a part of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter, draw_bags
from ens_plugin.adapters.trees import ENOUGH, MOST_SHARED, are_too_many, chance_of_value, column_of
from ens_plugin.core.bags import are_wrong_too_often, match_training_rows, may_be_known
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.training_rows import MOST_DRAWS, UNLIMITED, LeafDraws
from ens_plugin.core.validation import ROUNDING

CHECKED_TREES, CHECKED_NODES = 8, 64
CHECKED_ROWS, FIRST_ROWS = 2_000, 200


def are_shuffled_rows(
    adapter: EnsembleAdapter,
    features: Any,
    target: NDArray[Any],
    draw: Callable[[int], NDArray[np.integer[Any]]],
    n_trained: int,
) -> bool:
    """Return whether rows are training rows in any order: members are wrong about out-of-bag rows only.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows, n_rows of them
    target : ndarray, shape (n_rows,)
        Label codes or values.
    draw : callable
        ``draw(member)`` returns the training rows that a member drew.
    n_trained : int
        Number of training rows.
    """
    left_out, n_rows = _share_left_out(draw, n_trained), features.shape[0]
    if left_out == 0.0:
        return False
    # Among the first few fresh rows there usually is one that too many members are wrong about.
    for most in (FIRST_ROWS, CHECKED_ROWS) if n_rows > FIRST_ROWS else (CHECKED_ROWS,):
        chosen = spread_rows(n_rows, most)
        rows = features[chosen]
        # Member by member: the outputs of all for many labels may not fit into memory.
        outputs = (adapter.outputs(rows, range(member, member + 1))[0] for member in range(adapter.n_members))
        wrong = _wrong(adapter, outputs, target[chosen])
        if are_wrong_too_often(wrong, left_out):
            return False
    return _are_left_out(adapter, wrong, left_out, draw, n_trained)


def are_outputs_of_known_rows(
    adapter: EnsembleAdapter,
    outputs: NDArray[Any],
    target: NDArray[Any],
    draw: Callable[[int], NDArray[np.integer[Any]]],
    n_trained: int,
) -> bool:
    """Return whether outputs are of training rows in any order: members are wrong about out-of-bag rows only.

    Parameters
    ----------
    adapter, target, draw, n_trained
        As of :func:`are_shuffled_rows`.
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    """
    chosen, left_out = spread_rows(target.size, CHECKED_ROWS), _share_left_out(draw, n_trained)
    if left_out == 0.0:
        return False
    wrong = _wrong(adapter, (own[chosen] for own in outputs), target[chosen])
    return _are_left_out(adapter, wrong, left_out, draw, n_trained)


def draws_by_leaves(
    trees: Sequence[tuple[Any, Any]], n_labels: int, draw: Callable[[int], NDArray[np.integer[Any]]], n_trained: int
) -> LeafDraws:
    """Return how often trees drew training rows, and how many draws of the predicted label the rows' leaves hold.

    Parameters
    ----------
    trees : sequence of (tree, features)
        Fitted classifiers, each with the rows as it takes them, float32.  Their labels are codes from 0 on.
    n_labels : int
    draw, n_trained
        As of :func:`are_shuffled_rows`.
    """
    chosen = range(min(len(trees), max(MOST_DRAWS // n_trained, 1)))
    draws = _draw_counts(draw, chosen, n_trained)
    leaves = [trees[member][0].apply(trees[member][1], check_input=False) for member in chosen]
    held = [_draws_in_leaves(trees[member][0], n_labels, int(draws[member].sum())) for member in chosen]
    total = sum(_shares(own).take(leaf, axis=0) for own, leaf in zip(held, leaves, strict=True))
    label = np.argmax(total, axis=1)
    return LeafDraws(
        draws,
        _as_limits(own[leaf, label] for own, leaf in zip(held, leaves, strict=True)),
        _as_limits(own.sum(axis=1)[leaf] for own, leaf in zip(held, leaves, strict=True)),
        np.stack(leaves),
    )


def _draw_counts(draw: Callable[[int], NDArray[np.integer[Any]]], members: range, n_trained: int) -> NDArray[np.uint8]:
    counts = (np.bincount(draw(member), minlength=n_trained) for member in members)
    return np.stack([np.minimum(own, UNLIMITED).astype(np.uint8) for own in counts])


def _draws_in_leaves(tree: Any, n_labels: int, n_drawn: int) -> NDArray[np.float64]:
    """Return how many draws of each label each node holds, shape (n_nodes, n_labels); any number if rows had weights.

    Weights change how much a draw counts: where they were given, a label is held, or it is not.
    """
    nodes = tree.tree_
    held = np.zeros((nodes.node_count, n_labels))
    held[:, np.asarray(tree.classes_, dtype=np.intp)] = nodes.value[:, 0, :]
    # Releases before 1.3 store the weights of labels, later ones their shares.
    held *= (nodes.weighted_n_node_samples / held.sum(axis=1))[:, None]
    is_counted = abs(nodes.weighted_n_node_samples[0] - n_drawn) <= ROUNDING * n_drawn
    return held if is_counted else np.where(held > 0.0, float(UNLIMITED), 0.0)


def _shares(held: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(held / held.sum(axis=1, keepdims=True))


def _as_limits(numbers: Iterable[NDArray[np.float64]]) -> NDArray[np.uint8]:
    return np.stack([np.minimum(np.rint(own), UNLIMITED).astype(np.uint8) for own in numbers])


def hold_node_values(trees: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether more thresholds are midpoints of the rows' values at their nodes than chance explains.

    Parameters
    ----------
    trees : sequence of (tree, features)
        Fitted trees, each with the rows as it takes them, float32; some of the trees are checked.
    """
    counts: dict[tuple[int, int], list[int]] = {}
    columns: dict[tuple[int, int], tuple[NDArray[np.float32], float]] = {}
    for tree, features in trees[:: max(len(trees) // CHECKED_TREES, 1)][:CHECKED_TREES]:
        nodes, reached = tree.tree_, {0: np.arange(features.shape[0])}
        # Nodes have larger numbers than their parents.
        for node in np.flatnonzero(nodes.children_left != -1)[:CHECKED_NODES]:
            column = int(nodes.feature[node])
            key = id(features), column
            if key not in columns:
                columns[key] = _column_and_chance(features, column)
            values, chance = columns[key]
            rows, threshold = reached.pop(int(node)), nodes.threshold[node]
            own_values = values[rows]
            goes_left = (own_values <= threshold) | (np.isnan(own_values) & bool(nodes.missing_go_to_left[node]))
            reached[int(nodes.children_left[node])] = rows[goes_left]
            reached[int(nodes.children_right[node])] = rows[~goes_left]
            if chance > MOST_SHARED:
                continue
            own = counts.setdefault(key, [0, 0])
            own[0] += 1
            own[1] += _is_midpoint(own_values, threshold)
    found = [(tested, matched, columns[key][1]) for key, (tested, matched) in counts.items()]
    return are_too_many(found, trees[0][1].shape[0])


def show_node_values(trees: Sequence[tuple[Any, Any]]) -> bool:
    """Return whether trees have enough midpoint splits on columns with distinct values to recognise training rows."""
    n_usable, chances = 0, dict[tuple[int, int], float]()
    for tree, features in trees[:: max(len(trees) // CHECKED_TREES, 1)][:CHECKED_TREES]:
        if tree.splitter != "best":
            continue
        split = tree.tree_.feature[tree.tree_.feature >= 0]
        for column in np.unique(split).tolist():
            key = id(features), column
            if key not in chances:
                chances[key] = _column_and_chance(features, column)[1]
            n_usable += int(np.count_nonzero(split == column)) if chances[key] <= MOST_SHARED else 0
            if n_usable >= ENOUGH:
                return True
    return False


def _column_and_chance(features: Any, column: int) -> tuple[NDArray[np.float32], float]:
    values = column_of(features, column)
    assert values is not None
    return values.astype(np.float32), chance_of_value(values[np.isfinite(values)].astype(np.float32))


def _is_midpoint(values: NDArray[np.float32], threshold: np.float64) -> bool:
    """Return whether a threshold is half-way between the nearest values below and above it."""
    below, above = values[values <= threshold], values[values > threshold]
    return bool(below.size and above.size and (float(below.max()) + float(above.min())) / 2.0 == threshold)


def _share_left_out(draw: Callable[[int], NDArray[np.integer[Any]]], n_trained: int) -> float:
    """Return the share of the training rows that are out of the first member's bag."""
    return 1.0 - float(np.unique(draw(0)).size / n_trained)


def _wrong(adapter: EnsembleAdapter, outputs: Iterable[NDArray[Any]], target: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which members are wrong about each row, shape (n_members, n_rows)."""
    is_wrong = _other_value if adapter.info.task == "regression" else _other_label
    return np.stack([is_wrong(own, target) for own in outputs])


def _are_left_out(
    adapter: EnsembleAdapter,
    wrong: NDArray[np.bool_],
    left_out: float,
    draw: Callable[[int], NDArray[np.integer[Any]]],
    n_trained: int,
) -> bool:
    return may_be_known(wrong, left_out, n_trained) and match_training_rows(
        wrong, draw_bags(draw, adapter.n_members, n_trained)
    )


def _other_value(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    # A leaf's mean of equal values is that value but for rounding.
    return np.asarray(np.abs(outputs - target) > 1e-9 * np.abs(target))


def _other_label(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    labels = outputs if outputs.ndim == 1 else outputs.argmax(axis=1)
    return np.asarray(labels != target)
