"""
A forest with several outputs
=============================

Each output has a curve of its own, and the report is that of the worst one.
"""

# %%
from sklearn.datasets import make_regression
from sklearn.ensemble import RandomForestRegressor

import ens_plugin

X, y = make_regression(400, 8, n_targets=2, noise=20.0, random_state=0)
y = (y - y.mean(axis=0)) / y.std(axis=0)
report = ens_plugin.analyze(RandomForestRegressor(100, random_state=0).fit(X, y), X, y)
axes = ens_plugin.compare(
    dict(zip(("first output", "second output"), report.outputs.values(), strict=True))
).plot()
