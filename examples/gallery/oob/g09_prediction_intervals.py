"""
Predictions with intervals
==========================

The line is the prediction, the bars two standard errors of it, and the band is where 95 % of the targets are expected.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin

X, y = load_diabetes(return_X_y=True)
forest = RandomForestRegressor(200, random_state=0).fit(X[:342], y[:342])
found = ens_plugin.predict_with_uncertainty(forest, X[:342], y[:342], X[342:])

order = np.argsort(found.prediction)
rank = np.arange(order.size)
figure, axes = plt.subplots(layout="constrained")
axes.fill_between(rank, found.lower[order], found.upper[order], alpha=0.15, label="95 % of the targets")
axes.errorbar(
    rank,
    found.prediction[order],
    2 * found.standard_error[order],
    fmt=".",
    ms=3,
    lw=0.8,
    label="prediction",
)
axes.plot(rank, y[342:][order], "k.", ms=4, label="target")
axes.set(xlabel="new rows, by prediction", ylabel="disease progression")
axes.legend(loc="upper left")
