"""Trees of scikit-learn as they would come from Spark ML."""

from __future__ import annotations

from typing import Any

import numpy as np

from ens_plugin.adapters.spark_ml import SparkForest, Tree


def spark_forest_of(forest: Any) -> SparkForest:
    """The same trees as of a fitted RandomForestClassifier or RandomForestRegressor."""
    n_labels = len(forest.classes_) if hasattr(forest, "classes_") else None
    name = f"RandomForest{'Regression' if n_labels is None else 'Classification'}Model"
    trees = tuple(_tree(estimator.tree_, n_labels) for estimator in forest.estimators_)
    return SparkForest(name, forest.n_features_in_, n_labels, trees)


def _tree(nodes: Any, n_labels: int | None) -> Tree:
    feature = np.where(nodes.feature < 0, -1, nodes.feature).astype(np.int32)
    children = np.column_stack([nodes.children_left, nodes.children_right]).astype(np.intp)
    children = np.where(feature[:, None] < 0, np.arange(feature.size)[:, None], children)
    value = nodes.value[:, 0, 0] if n_labels is None else nodes.value[:, 0, :]
    return Tree(feature, nodes.threshold, children, value, {}, nodes.max_depth)
