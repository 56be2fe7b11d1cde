"""
A metric: area under the ROC curve (AUC)
========================================

The curve, its interval and the recommended size are those of any metric of scikit-learn.
"""

# %%
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = make_classification(1500, weights=[0.9], n_informative=5, flip_y=0.05, random_state=1)
forest = RandomForestClassifier(150, random_state=0).fit(X, y)
axes = ens_plugin.analyze(forest, X, y, metric="roc_auc").plot()
