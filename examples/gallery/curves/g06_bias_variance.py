"""
Bias and variance over seeds
============================

More trees remove the part of the error that comes from the random seed.  The rest stays, however many trees there are.
"""

# %%
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin
from ens_plugin.report.plots import plot_bias_variance

X, y = load_diabetes(return_X_y=True)
report = ens_plugin.analyze(RandomForestRegressor(150, random_state=0).fit(X, y), X, y)
axes = plot_bias_variance(report)
