"""
A search without folds
======================

Five-fold cross-validation trains every setting five times, each time on four fifths of the rows.  A bagged ensemble
has out-of-bag rows, so each setting needs to be trained only once, on all rows.  This tutorial searches both ways
and compares.
"""

# %%
# Two lines differ
# ----------------

from time import perf_counter

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, train_test_split

import ens_plugin

X, y = make_classification(
    6000, n_features=20, n_informative=8, flip_y=0.1, random_state=0
)
X, X_test, y, y_test = train_test_split(X, y, train_size=1500, random_state=0)
grid = {"max_features": [0.1, 0.3, 1.0], "min_samples_leaf": [1, 20]}
forest = RandomForestClassifier(60, random_state=0)

start = perf_counter()
search = GridSearchCV(
    forest, grid, scoring=ens_plugin.make_oob_scorer(), cv=ens_plugin.OneFold()
).fit(X, y)
seconds = perf_counter() - start

start = perf_counter()
folds = GridSearchCV(forest, grid, cv=5).fit(X, y)
seconds_of_folds = perf_counter() - start

# %%
# What they chose
# ---------------

for name, found in {"without folds": search, "five folds": folds}.items():
    accuracy = found.best_estimator_.score(X_test, y_test)
    print(f"{name:14} test accuracy {accuracy:.3f}", found.best_params_)

# %%
# The scores are minus the error, estimated for infinitely many trees: settings are compared as if each had enough of
# them.

import matplotlib.pyplot as plt

names = [
    f"{p['max_features']}, {p['min_samples_leaf']}"
    for p in search.cv_results_["params"]
]
figure, axes = plt.subplots(layout="constrained")
without, with_folds = (
    found.cv_results_["mean_test_score"] for found in (search, folds)
)
axes.plot(names, -without, "o", label="out of bag, infinitely many trees")
axes.plot(names, 1 - with_folds, "s", mfc="none", label="five folds, 60 trees")
axes.set(xlabel="max_features, min_samples_leaf", ylabel="error")
axes.tick_params(axis="x", rotation=45)
axes.legend()
# %%
# How much time it saves depends on how long the training takes beside the analysis.  Here the forests are small:

print(f"the folds took {seconds_of_folds / seconds:.1f} times as long")

# %%
# The size comes last
# -------------------
#
# The number of trees is no parameter to search for.  Choose the other parameters first, then train as many trees as the
# chosen setting needs:

growth = ens_plugin.grow(search.best_estimator_, X, y)
print(growth.reason)

# %%
# :doc:`/how-to/search` has halving searches, weights, groups and other optimisers.
