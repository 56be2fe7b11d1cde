"""
Regression: mean squared error and RMSE
=======================================

For values, the mean squared error falls by a term in 1/size.  The second picture has its root, the RMSE, in the
unit of the target.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin

X, y = load_diabetes(return_X_y=True)
report = ens_plugin.analyze(RandomForestRegressor(200, random_state=0).fit(X, y), X, y)
axes = report.plot()

# %%
curve = report.error_curve
figure, axes = plt.subplots(layout="constrained")
axes.plot(curve.sizes, np.sqrt(curve.error))
axes.fill_between(
    curve.sizes, np.sqrt(curve.lower), np.sqrt(curve.upper), alpha=0.2, label="95 % interval"
)
axes.set(
    xscale="log",
    xlim=(1, 1000),
    xlabel="number of trees",
    ylabel="RMSE: error of the disease progression",
)
axes.legend()
