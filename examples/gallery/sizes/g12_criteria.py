"""
The size by each criterion
==========================

How many trees are enough depends on what the predictions are for.  Every report has the size in each respect: a promise
(the dot), beside the interval of the size that is needed.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = load_breast_cancer(return_X_y=True)
report = ens_plugin.analyze(RandomForestClassifier(300, random_state=0).fit(X, y), X, y)
figure, axes = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
for row, found in enumerate(report.criteria):
    low, high = found.interval
    axes.plot([low, high or found.max_size], [row, row], color="tab:blue", lw=2)
    if found.size is not None:
        axes.plot(found.size, row, "o", color="tab:blue")
axes.set_yticks(
    range(len(report.criteria)), [found.criterion.replace("_", " ") for found in report.criteria]
)
axes.set(xlabel="number of trees, with 95 % interval", ylim=(-0.6, len(report.criteria) - 0.4))
