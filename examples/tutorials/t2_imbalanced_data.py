"""
Imbalanced data, and a metric of your own
=========================================

One customer in twenty leaves.  A model that predicts "stays" for everybody is right in 95 % of the cases, and
useless.  So the error is the wrong thing to choose the number of trees by.  This tutorial sizes a forest by its AUC, by
its average precision and by a cost of your own, and shows what ``class_weight`` changes.
"""

# %%
# Data with a rare label
# ----------------------

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = make_classification(
    2500, n_features=12, n_informative=6, weights=[0.96], flip_y=0.02, random_state=7
)
forest = RandomForestClassifier(200, min_samples_leaf=3, random_state=0, n_jobs=2)
forest.fit(X, y)
print(f"{y.mean():.1%} of the rows have the rare label")

# %%
# What the error hides
# --------------------
#
# The error looks small.  The errors by label show that most rows with the rare label are missed.

report = ens_plugin.analyze(forest, X, y)
print(f"error {report.error_curve.at(200):.1%}")
for entry in report.label_errors:
    print(f"label {entry.label}: error {entry.error:.1%} of {entry.n_rows} rows")

# %%
# The confusion matrix counts the rows by the label that their out-of-bag trees predict together.  These are about 74 of
# the 200 trees, so its shares differ a little from the errors above, which are those of all 200.

report.confusion_matrix()

# %%
# The area under the ROC curve (AUC)
# ----------------------------------
#
# Name any metric of scikit-learn.  Curve, interval and recommended size are then of this metric.

by_auc = ens_plugin.analyze(forest, X, y, metric="roc_auc")
print(by_auc.summary().split("\n\n")[0])

# %%
axes = by_auc.plot()

# %%
# Average precision looks at the rare label alone.  It improves for longer:

by_precision = ens_plugin.analyze(forest, X, y, metric="average_precision")
reports = {"default": report, "roc_auc": by_auc, "average_precision": by_precision}
for name, found in reports.items():
    size, decided = found.recommended_size, found.recommendation.criterion
    print(f"{name:18}  {size} trees, by {decided}")

# %%
# The first of these sizes is that of the plain report, for accuracy and probabilities both, which works for rare
# labels too.  :doc:`/how-to/size` has the choices.  Each size is a promise, and those of the metrics are large because
# few rows have the rare label.  The forest can be cut to the first:

small = ens_plugin.truncate(forest, min(report.recommended_size, 200))
print(f"{len(small.estimators_)} trees")

# %%
# A cost of your own
# ------------------
#
# Say that a wrong probability is twenty times as bad for a customer who leaves as for one who stays.  A metric is a
# function of the true labels and the mean output of the trees; column 1 is the probability of the rare label.  Lower
# is better.


def cost(y: np.ndarray, p: np.ndarray) -> float:
    """Return the squared error of the probabilities; the rare label counts 20 times."""
    return float(np.where(y == 1, 20 * p[:, 0] ** 2, p[:, 1] ** 2).mean())


by_cost = ens_plugin.analyze(forest, X, y, metric=cost)
print(by_cost.summary().split("\n\n")[0])

# %%
# What ``class_weight`` changes
# -----------------------------
#
# ``class_weight="balanced_subsample"`` makes rows of the rare label count more in the training of each tree.  Nothing
# changes for the analysis: pass the same rows, without weights.  The report is of the forest that you have.

weighted = RandomForestClassifier(
    200, min_samples_leaf=3, class_weight="balanced_subsample", random_state=0, n_jobs=2
)
weighted.fit(X, y)
by_weights = ens_plugin.analyze(weighted, X, y, metric="average_precision")
compared = ens_plugin.compare({"plain": by_precision, "class_weight": by_weights})
axes = compared.plot()

# %%
compared.to_frame()

# %%
# ``class_weight="balanced"`` is another matter.  From scikit-learn 1.9 on, the trees *draw* their rows by these
# weights, so that a row with a rare label is in nearly every *bag*, the rows that a tree was trained on.  Hardly any
# tree is left to judge the row, and the analysis is refused, with a way out:

from ens_plugin.errors import TooFewMembersError

balanced = RandomForestClassifier(200, class_weight="balanced", random_state=0)
balanced.fit(X, y)
try:
    ens_plugin.analyze(balanced, X, y)
except TooFewMembersError as error:
    print(error)

# %%
# :doc:`/how-to/metrics` has what a metric may be, and :doc:`/faq` more on ``class_weight``.
