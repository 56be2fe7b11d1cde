"""
LightGBM and XGBoost
====================

Both libraries are known for boosting, and both can train forests too.  The analysis finds how many trees a
forest needs; it cannot do so for boosting, because each tree corrects the ones before it.  This tutorial analyses
both kinds of forests and shows what is refused.
"""

# %%
# A random forest of LightGBM
# ---------------------------
#
# ``boosting_type="rf"`` trains a forest.  LightGBM keeps no list of the rows of each tree.  They are drawn again from
# the seed, and accepted only if they give the counts in the leaves of every tree.

import lightgbm
import xgboost
from sklearn.datasets import make_friedman1

import ens_plugin

X, y = make_friedman1(1500, noise=1.0, random_state=0)
forest = lightgbm.LGBMRegressor(
    boosting_type="rf",
    n_estimators=150,
    bagging_fraction=0.63,
    bagging_freq=1,
    num_leaves=31,
    random_state=0,
    verbose=-1,
).fit(X, y)
report = ens_plugin.analyze(forest, X, y)
print(report.summary().split("\n\n")[0])

# %%
axes = report.plot()

# %%
# A random forest of XGBoost
# --------------------------
#
# ``XGBRFRegressor`` trains all its trees in one round.  The same goes for ``num_parallel_tree`` with one boosting
# round.  The learning rate has to be 1, because one round with a smaller one predicts a fraction of the target only.

parallel = xgboost.XGBRFRegressor(
    n_estimators=150, subsample=0.63, max_depth=8, random_state=0
).fit(X, y)
other = ens_plugin.analyze(parallel, X, y)
print(other.summary().split("\n\n")[0])

# %%
# Which one is better, and at which size?
# ---------------------------------------

compared = ens_plugin.compare({"LightGBM rf": report, "XGBoost": other})
axes = compared.plot()

# %%
compared.to_frame()

# %%
# The error here is the mean squared error.  Its root, the RMSE, is in the unit of the target:

for name, found in compared.reports.items():
    print(f"{name:12} RMSE {found.error_curve.at(found.n_members) ** 0.5:.2f}")

# %%
# A smaller model
# ---------------
#
# ``truncate`` returns a model of the same library, which predicts the mean of its first trees.

small = ens_plugin.truncate(parallel, 60)
print(
    type(small).__name__,
    small.get_booster().num_boosted_rounds(),
    "round,",
    len(small.get_booster().get_dump()),
    "trees",
)

# %%
# What is refused
# ---------------
#
# Boosting, and forests whose trees were all trained on all rows.

from ens_plugin.errors import EnsPluginError

boosted = xgboost.XGBRegressor(n_estimators=50, random_state=0).fit(X, y)
all_rows = xgboost.XGBRFRegressor(n_estimators=50, subsample=1.0).fit(X, y)
for model in (boosted, all_rows):
    try:
        ens_plugin.analyze(model, X, y)
    except EnsPluginError as error:
        print(f"{type(error).__name__}: {error}\n")

# %%
# A model saved with XGBoost's own ``save_model`` has lost its seed.  It is searched for when the model is analysed;
# joblib and MLflow keep it.  :doc:`/reference/models` has the details of each library.
