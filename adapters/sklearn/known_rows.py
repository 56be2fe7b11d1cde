"""Training rows that are passed as held out, in any order and in part: recognised by what fitted models show of them.

Members are wrong about rows out of their bags only, and trees split at values of their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import BaseDecisionTree

from ens_plugin.adapters.contract import draw_bags
from ens_plugin.adapters.sklearn.bags import leaf_counts
from ens_plugin.adapters.trees import ENOUGH, MOST_SHARED, are_too_many, chance_of_value, column_of, splits_by_column
from ens_plugin.core.bags import are_wrong_too_often, match_training_rows, may_be_known
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.training_rows import MOST_DRAWS, UNLIMITED, LeafDraws
from ens_plugin.core.validation import ROUNDING, AnyIntArray, FloatArray

# Trees of which rows are followed through so many nodes: more would be slower, not surer.
CHECKED_TREES, CHECKED_NODES = 8, 64
# Rows about which members' errors are compared.  Among the first few fresh rows there usually is one that too many
# members are wrong about.
CHECKED_ROWS, FIRST_ROWS = 2_000, 200
# Trees whose thresholds are read: those of all would be alike.
COMPARED_TREES = 20


def are_left_out_rows(
    outputs_of: Callable[[NDArray[np.intp]], Iterable[NDArray[Any]]],
    target: NDArray[Any],
    draw: Callable[[int], AnyIntArray],
    n_trained: int,
    n_members: int,
) -> bool:
    """Return whether rows are training rows in any order: members are wrong about out-of-bag rows only."""
    # `outputs_of` takes positions of rows and returns the outputs of each member, one after the other, because those of
    # all for many labels may not fit into memory. `draw` returns the training rows that a member drew.
    left_out = 1.0 - float(np.unique(draw(0)).size / n_trained)
    if left_out == 0.0:
        return False
    # Among the first few fresh rows there usually is one that too many members are wrong about.
    for most in (FIRST_ROWS, CHECKED_ROWS):
        chosen = spread_rows(target.size, most)
        wrong = np.stack([_are_wrong(own, target[chosen]) for own in outputs_of(chosen)])
        if are_wrong_too_often(wrong, left_out):
            return False
        if chosen.size == target.size:
            break
    return may_be_known(wrong, left_out, n_trained) and match_training_rows(
        wrong, draw_bags(draw, n_members, n_trained)
    )


def _are_wrong(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    """Return about which rows a member is wrong, by its label codes, probabilities or values."""
    if outputs.dtype.kind == "f" and outputs.ndim == 1:
        # A leaf's mean of equal values is that value but for rounding.
        return np.asarray(np.abs(outputs - target) > ROUNDING * np.abs(target))
    return np.asarray((outputs if outputs.ndim == 1 else outputs.argmax(axis=1)) != target)


def draws_by_leaves(
    trees: Sequence[tuple[Any, Any]], n_labels: int, draw: Callable[[int], AnyIntArray], n_trained: int
) -> LeafDraws:
    """Return how often trees drew training rows, and how many draws of the predicted label the rows' leaves hold."""
    # Labels of the trees are codes from 0 on.
    chosen = range(min(len(trees), max(MOST_DRAWS // n_trained, 1)))
    draws = np.stack([_as_limits(np.bincount(draw(member), minlength=n_trained)) for member in chosen])
    leaves = [trees[member][0].apply(trees[member][1], check_input=False) for member in chosen]
    held = [_draws_in_leaves(trees[member][0], n_labels, int(draws[member].sum())) for member in chosen]
    shares = (own / own.sum(axis=1, keepdims=True) for own in held)
    label = np.argmax(sum(own.take(leaf, axis=0) for own, leaf in zip(shares, leaves, strict=True)), axis=1)
    return LeafDraws(
        draws,
        np.stack([_as_limits(own[leaf, label]) for own, leaf in zip(held, leaves, strict=True)]),
        np.stack([_as_limits(own.sum(axis=1)[leaf]) for own, leaf in zip(held, leaves, strict=True)]),
        np.stack(leaves),
    )


def _as_limits(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.minimum(np.rint(numbers), UNLIMITED), dtype=np.uint8)


def _draws_in_leaves(tree: Any, n_labels: int, n_drawn: int) -> NDArray[np.float64]:
    """Return how many draws of each label each node holds, (n_nodes, n_labels); any number if rows had weights."""
    # Weights change how much a draw counts: where they were given, a label is held, or it is not.
    nodes = tree.tree_
    held = np.zeros((nodes.node_count, n_labels))
    held[:, np.asarray(tree.classes_, dtype=np.intp)] = nodes.value[:, 0, :]
    # Releases before 1.3 store the weights of labels, later ones their shares.
    held *= (nodes.weighted_n_node_samples / held.sum(axis=1))[:, None]
    is_counted = abs(nodes.weighted_n_node_samples[0] - n_drawn) <= ROUNDING * n_drawn
    return held if is_counted else np.where(held > 0.0, float(UNLIMITED), 0.0)


def compare_node_values(trees: Sequence[tuple[Any, Any]]) -> tuple[bool, bool]:
    """Return whether more thresholds are midpoints of rows' values at their nodes than chance explains, and may be."""
    # They may be where enough nodes that were split in the best way compare columns of distinct values.
    if not trees:
        return False, False
    counts: dict[tuple[int, int], list[int]] = {}
    columns: dict[tuple[int, int], tuple[NDArray[np.float32], float]] = {}
    for tree, features in [own for own in trees if own[0].splitter == "best"]:
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
    return are_too_many(found, trees[0][1].shape[0]), sum(tested for tested, _, _ in found) >= ENOUGH


def _column_and_chance(features: Any, column: int) -> tuple[NDArray[np.float32], float]:
    values = column_of(features, column)
    assert values is not None
    return values.astype(np.float32), chance_of_value(values[np.isfinite(values)].astype(np.float32))


def _is_midpoint(values: NDArray[np.float32], threshold: np.float64) -> bool:
    """Return whether a threshold is half-way between the nearest values below and above it."""
    below, above = values[values <= threshold], values[values > threshold]
    return bool(below.size and above.size and (float(below.max()) + float(above.min())) / 2.0 == threshold)


def tree_splits(
    trees: Sequence[Any], columns: Sequence[AnyIntArray | None] | None = None
) -> Iterator[tuple[int, FloatArray]]:
    """Yield each column that trees split, with the thresholds of some of the trees."""
    parts = []
    for member in range(0, len(trees), max(len(trees) // COMPARED_TREES, 1)):
        nodes, own = trees[member].tree_, None if columns is None else columns[member]
        is_split = nodes.children_left >= 0
        feature = nodes.feature[is_split]
        parts.append((feature if own is None else own.take(feature), nodes.threshold[is_split]))
    column, threshold = (np.concatenate(own) for own in zip(*parts, strict=True))
    return splits_by_column(column, threshold)


def trees_among(models: Sequence[Any], rows: Any) -> list[tuple[Any, Any]]:
    """Return the decision trees among some of the models, each with the rows as it takes them, float32."""
    chosen = models[:: max(len(models) // CHECKED_TREES, 1)][:CHECKED_TREES]
    tables = ((model, _table(model, rows)) for model in chosen if isinstance(model, BaseDecisionTree))
    return [(model, table.astype(np.float32)) for model, table in tables if table is not None]


def tree_cells(
    models: Sequence[Any], rows: Any, target: NDArray[Any] | None, classes: NDArray[Any] | None
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield, for every tree, which cells held a training row, and the number of given rows in each cell."""
    # A cell is a leaf, or one label in a leaf.
    for model in models:
        table = _table(model, rows) if isinstance(model, BaseDecisionTree) else None
        if table is None or (classes is not None and not np.array_equal(getattr(model, "classes_", ()), classes)):
            continue
        counted, found = leaf_counts(model, table.astype(np.float32), target)
        yield np.minimum(counted, 1), found


def split_columns(models: Sequence[Any], rows: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
    """Return rows as a table, and the thresholds of the columns that the trees among the models split."""
    trees = [model for model in models if isinstance(model, BaseDecisionTree)]
    table = _table(trees[0], rows) if trees else None
    return rows if table is None else table, () if table is None else tree_splits(trees)


def _table(model: Any, rows: Any) -> NDArray[np.float64] | None:
    """Return rows as float64; None where they are no table of numbers, or have other columns than the model."""
    if rows.shape[1:] != (getattr(model, "n_features_in_", None),):
        return None
    try:
        return np.ascontiguousarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return None
