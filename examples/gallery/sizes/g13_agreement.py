"""
Agreement with the infinite forest
==================================

The share of rows whose label would stay the same with infinitely many trees.
"""

# %%
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.report.plots import plot_agreement

X, y = load_breast_cancer(return_X_y=True)
report = ens_plugin.analyze(
    RandomForestClassifier(300, random_state=0).fit(X, y), X, y, criterion="agreement"
)
axes = plot_agreement(report.recommendation, n_members=report.n_members)
