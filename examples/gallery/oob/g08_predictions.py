"""
Out-of-bag predictions of the training rows
===========================================

All trees together have seen every training row, and predict it too well.  The out-of-bag trees of a row have not
seen it.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin

X, y = load_diabetes(return_X_y=True)
forest = RandomForestRegressor(150, random_state=0).fit(X, y)
figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for ax, title, values in (
    (axes[0], "by all trees", forest.predict(X)),
    (axes[1], "by out-of-bag trees", ens_plugin.oob_predictions(forest, X, y).values),
):
    ax.plot(values, y, ".", ms=4)
    ax.axline((150, 150), slope=1, color="0.6", lw=1)
    ax.set(title=title, xlabel="prediction")
axes[0].set_ylabel("disease progression")
