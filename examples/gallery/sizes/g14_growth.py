"""
A forest grown to the size it needs
===================================

``grow`` trains 50 trees, estimates how many promise to be enough, and trains the rest.  The points are its estimates
from the 50 and from all.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

X, y = load_breast_cancer(return_X_y=True)
growth = ens_plugin.grow(RandomForestClassifier(random_state=0), X, y)
steps = [step for step in growth.history if step.interval is not None]
figure, axes = plt.subplots(layout="constrained")
for step in steps:
    axes.plot([step.n_members] * 2, step.interval, color="tab:blue", lw=1.5)
told = [step for step in steps if step.recommended_size is not None]
axes.plot(
    [step.n_members for step in told],
    [step.recommended_size for step in told],
    "o",
    label="recommended",
)
axes.axline((50, 50), slope=1, color="0.6", lw=1, label="as many as there are")
axes.set(xlabel="trees trained", ylabel="trees recommended, with 95 % interval")
axes.legend()
