"""
Errors by label
===============

Which digit is taken for which, by the out-of-bag trees of each row.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import ConfusionMatrixDisplay

import ens_plugin

X, y = load_digits(return_X_y=True)
forest = RandomForestClassifier(100, random_state=0).fit(X, y)
found = ens_plugin.oob_predictions(forest, X, y)
figure, axes = plt.subplots(figsize=(5, 4.6), layout="constrained")
shown = ConfusionMatrixDisplay.from_predictions(y, found.labels, ax=axes, colorbar=False, cmap="Blues")
