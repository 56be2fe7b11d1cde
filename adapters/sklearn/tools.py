"""Public tools for adapters of other libraries whose members are trees of scikit-learn.

``prepare_rows`` and ``training_target`` check the rows and the target.  ``leaf_outputs``, ``leaf_labels`` and
``tree_output_kind`` read what trees predict.  ``check_growth`` proves that a tree was grown on drawn rows, those drawn
several times as one row with a weight: they must fill its leaves as often as the tree counted at training, and y must
give the leaves' values.  The other functions recognise training rows that are passed as held out.

Examples
--------
>>> import numpy as np
>>> from sklearn.tree import DecisionTreeClassifier
>>> X, y, drawn = np.arange(6.0, dtype=np.float32)[:, None], np.array([0, 0, 1, 1, 1, 0]), np.array([0, 2, 2, 4, 5])
>>> tree = DecisionTreeClassifier(random_state=0).fit(X, y, sample_weight=np.bincount(drawn, minlength=6))
>>> check_growth(tree, X, drawn, y, member=0)
True
>>> check_growth(tree, X, drawn, 1 - y, member=0)
Traceback (most recent call last):
ens_plugin.errors.DataMismatchError: y is not the target the model was trained on: ...
"""

from __future__ import annotations

from ens_plugin.adapters.contract import draw_bags
from ens_plugin.adapters.sklearn.bags import check_growth, checked_members, leaf_counts
from ens_plugin.adapters.sklearn.known_rows import (
    are_outputs_of_known_rows,
    are_shuffled_rows,
    hold_node_values,
    show_node_values,
)
from ens_plugin.adapters.sklearn.seeded import (
    are_recognised,
    growth_is_known,
    leaf_labels,
    leaf_outputs,
    tree_output_kind,
)
from ens_plugin.adapters.sklearn.training import check_columns, prepare_rows, training_target
from ens_plugin.adapters.trees import judge_origin
from ens_plugin.core.bags import BagProof, Bags

__all__ = [
    "BagProof",
    "Bags",
    "are_outputs_of_known_rows",
    "are_recognised",
    "are_shuffled_rows",
    "check_columns",
    "check_growth",
    "checked_members",
    "draw_bags",
    "growth_is_known",
    "hold_node_values",
    "judge_origin",
    "leaf_counts",
    "leaf_labels",
    "leaf_outputs",
    "prepare_rows",
    "show_node_values",
    "training_target",
    "tree_output_kind",
]
