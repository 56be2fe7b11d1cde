"""
Error against the number of trees
=================================

The error that a forest of each size is expected to have on fresh rows, with its interval, and the recommended size.
"""

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = load_breast_cancer(return_X_y=True)
report = ens_plugin.analyze(RandomForestClassifier(300, random_state=0).fit(X, y), X, y)
axes = report.plot()
