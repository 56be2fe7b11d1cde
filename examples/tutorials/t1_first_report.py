"""
How many trees? Your first report
=================================

How many trees does a random forest need?  You trained one with 500.  Were they enough?  Were they far too many?  This
tutorial finds out, in four steps and without any data held out.
"""

# %%
# 1. Train a forest as you always do
# ----------------------------------
#
# The data are scikit-learn's 569 tumours, benign or malignant.  There is no split into training and test rows here, and
# none is needed.

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
forest = RandomForestClassifier(500, random_state=0).fit(X, y)

# %%
# 2. Analyse it
# -------------
#
# ``analyze`` takes the forest and the rows that it was trained on, in the same order.  Each tree was trained on about
# 63 % of the rows.  It predicts the others, the *out-of-bag* rows, and nothing else is needed.

report = ens_plugin.analyze(forest, X, y)
print(report)

# %%
# Read it from the top.  The first sentence is the answer.  The first table has the error to expect on fresh rows, for
# several sizes of the forest.  The interval beside it is there because there are only 569 rows: other patients would
# give another error.  The last line shows how little is left to gain, even with infinitely many trees.
#
# In a notebook, the name of the report at the end of a cell shows the same as a card:

report

# %%
# 3. Look at the curve
# --------------------
#
# The horizontal axis is the number of trees.  The curve is that of the quantity that decided, here the quality of the
# probabilities (the Brier score, lower is better): in the shaded band, nobody would notice what is lost.

axes = report.plot()

# %%
# The numbers behind the picture:

for size in (1, 11, 101, 501, 1001):
    print(f"{size:5} trees: accuracy {1 - report.error_curve.at(size):.2%}")

# %%
# 4. Use the answer
# -----------------
#
# The recommended size is a promise: with 95 % certainty, it loses nothing that anyone would notice.

print(report.recommended_size)

# %%
# ``truncate`` returns the same kind of model with fewer trees.  Nothing is trained again: they are the first trees of
# your forest.

small = ens_plugin.truncate(forest, report.recommended_size)
same = (small.predict(X) == forest.predict(X)).mean()
print(f"{len(small.estimators_)} trees; the same label on {same:.1%} of the rows")

# %%
# What if the rows are not the right ones?
# ----------------------------------------
#
# All of this rests on knowing which rows each tree was trained on.  If the rows come in another order, the forest's own
# leaves show it, and the analysis is refused:

from ens_plugin.errors import DataMismatchError

shuffled = X.sample(frac=1, random_state=1)
try:
    ens_plugin.analyze(forest, shuffled, y.loc[shuffled.index])
except DataMismatchError as error:
    print(error)

# %%
# If the training rows are gone, rows that the forest was not trained on serve as well.  Here half of the rows are kept
# apart:

half = RandomForestClassifier(500, random_state=0).fit(X[::2], y[::2])
held_out = ens_plugin.analyze(half, X[1::2], y[1::2], data="holdout")
print(held_out.summary().split("\n\n")[0])

# %%
# Where to go from here
# ---------------------
#
# - Your labels are rare, or the error is not what matters to you: :doc:`t2_imbalanced_data`.
# - The report should be in MLflow: :doc:`t3_mlflow_registry_ci`.
# - Why not the usual plot of the out-of-bag error?  :doc:`/explanations/x-axis`.
