"""
Error curves from few members
=============================

Shares of votes in place of chances to be wrong put the error too high (Hernandez-Lobato, Martinez-Munoz and Suarez
2007, Fig. 1 and 2).  First the expected estimate of one row's error, then the estimated curves of bagged trees, means
of 30 samples of 300 rows.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.papers import error_curves_2007
from ens_plugin.papers.plots import plot_estimated_curves, plot_expected_plugin_error

figure, axes = plt.subplots(figsize=(6.4, 4), dpi=200, layout="constrained")
plot_expected_plugin_error([1, 18, 50, 135], ax=axes)

# %%
SIZES = np.array([1, 3, 5, 7, 11, 17, 25, 35, 51, 71, 101, 135])
rng = np.random.default_rng(0)


def twonorm(n_rows):
    y = np.arange(n_rows) % 2
    return rng.standard_normal((n_rows, 20)) + 2 / np.sqrt(20) * (2 * y - 1)[:, None], y


def curves_of_one_sample(seed):
    X, y = twonorm(300)
    trees = RandomForestClassifier(135, max_features=None, random_state=seed).fit(X, y)
    few = error_curves_2007.curves(ens_plugin.truncate(trees, 50), X, y, SIZES)
    many = error_curves_2007.curves(trees, X, y, SIZES)
    X_test, y_test = twonorm(2000)
    votes = np.cumsum([tree.predict(X_test) for tree in trees.estimators_], axis=0)[SIZES - 1]
    test_error = np.mean((2 * votes > SIZES[:, None]) != y_test, axis=1)
    return np.column_stack([SIZES, few.plug_in, many.plug_in, few.deconvolved, test_error])


mean = np.mean([curves_of_one_sample(seed) for seed in range(30)], axis=0)
names = ["size", "plugged in, M = 50", "plugged in, M = 135", "deconvolved, M = 50"]
figure, axes = plt.subplots(figsize=(6.4, 4), dpi=200, layout="constrained")
plot_estimated_curves(pd.DataFrame(mean[:, :4], columns=names), mean[:, 4], ax=axes)
axes.set_xticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
