"""
How many trees each row takes
=============================

Dynamic pruning queries the trees one after the other and stops for a row when its label is settled.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = load_breast_cancer(return_X_y=True)
pruned = ens_plugin.DynamicPruningClassifier(RandomForestClassifier(201, random_state=0)).fit(
    X[::2], y[::2]
)
queried = np.sort(pruned.count_queries(X[1::2]))
figure, axes = plt.subplots(layout="constrained")
axes.step(np.linspace(0, 100, queried.size), queried, where="post")
axes.set_yscale("log")
axes.set_xlabel("rows in %, by the number of trees")
axes.set_ylabel("trees used")
