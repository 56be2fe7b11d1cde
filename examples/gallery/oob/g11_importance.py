"""
Importance of columns, with standard errors
===========================================

How much the out-of-bag error rises when a column is permuted.
"""

# %%
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin

X, y = load_diabetes(return_X_y=True, as_frame=True)
forest = RandomForestRegressor(80, random_state=0).fit(X, y)
axes = ens_plugin.oob_permutation_importance(forest, X, y, random_state=0).plot()
