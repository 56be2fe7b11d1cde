"""
Several models in one chart
===========================

``compare`` draws the curves of several reports with the same metric, and has their numbers in a table.
"""

# %%
from sklearn.datasets import load_wine
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier

import ens_plugin

X, y = load_wine(return_X_y=True)
models = {
    "random forest": RandomForestClassifier(150, random_state=0),
    "extra trees": ExtraTreesClassifier(150, bootstrap=True, random_state=0),
    "bagged trees": BaggingClassifier(n_estimators=150, random_state=0),
}
compared = ens_plugin.compare(
    {name: ens_plugin.analyze(model.fit(X, y), X, y) for name, model in models.items()}
)
axes = compared.plot()

# %%
compared.to_frame()
