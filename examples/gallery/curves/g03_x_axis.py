"""
The usual plot beside the curve
===============================

The path that other tools draw scores each row with only those of the first trees that were not trained on it.  It
lies above the truth because it shows smaller forests than its axis states.  The truth here is the error of the
first trees on 20 000 fresh rows.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.papers.ensemble_size_2013 import path_curve

X, y = make_classification(
    20_500, n_features=12, n_informative=8, flip_y=0.02, class_sep=1.2, random_state=3
)
X_fresh, y_fresh, X, y = X[500:], y[500:], X[:500], y[:500]
forest = RandomForestClassifier(101, random_state=0, max_features=3).fit(X, y)

curve = ens_plugin.analyze(forest, X, y).error_curve
path = path_curve(forest, X, y)
votes = np.cumsum([tree.predict(X_fresh) for tree in forest.estimators_], axis=0)
sizes = np.arange(1, 102, 2)
truth = [np.mean((votes[size - 1] > size / 2) != y_fresh) for size in sizes]

# %%
figure, axes = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
shown = curve.sizes <= 101
axes.plot(
    path["size"],
    path["error"],
    color="tab:orange",
    label="usual plot: out-of-bag error after each tree",
)
axes.plot(
    curve.sizes[shown],
    curve.error[shown],
    color="tab:blue",
    label="ens_plugin: error of a forest of that size",
)
axes.plot(sizes, truth, color="black", ls=":", label="truth: the first trees on 20 000 fresh rows")
axes.set(xscale="log", xlabel="number of trees", ylabel="share of wrong labels")
axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
axes.legend(frameon=False)
