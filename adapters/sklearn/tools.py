"""Public tools for adapters of other libraries whose members are estimators of scikit-learn.

``SeededEnsemble`` is the base class of adapters of ensembles with ``estimators_`` that are built like scikit-learn's,
with their proof, and with all that recognises training rows.  For others, ``prepare_rows`` and ``training_target``
check the rows and the target.  ``leaf_outputs`` reads what trees predict.  ``check_growth`` proves that a tree was
grown on drawn rows, those drawn several times as one row with a weight: they must fill its leaves as often as the tree
counted at training, and y must give the leaves' values; ``prove_members`` does so for some trees of every part of an
ensemble.

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
from ens_plugin.adapters.sklearn.bags import check_growth, checked_members, prove_members
from ens_plugin.adapters.sklearn.seeded import SeededEnsemble, leaf_outputs
from ens_plugin.adapters.sklearn.training import check_columns, prepare_rows, training_target
from ens_plugin.adapters.trees import judge_origin
from ens_plugin.core.bags import BagProof, Bags

__all__ = [
    "BagProof",
    "Bags",
    "SeededEnsemble",
    "check_columns",
    "check_growth",
    "checked_members",
    "draw_bags",
    "judge_origin",
    "leaf_outputs",
    "prepare_rows",
    "prove_members",
    "training_target",
]
