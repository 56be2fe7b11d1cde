"""The out-of-bag score of imbalanced-learn on labels that nothing predicts, against the error on fresh rows.

With bootstrap=True and replacement=True, a BalancedRandomForestClassifier draws copies of rows first and a bootstrap
sample of these copies then. Its oob_score_ counts a copy that the bootstrap left out as out of bag, although another
copy of the same row may have been drawn. On labels that are drawn with a coin, its error should be a half.
"""

import numpy as np
from imblearn.ensemble import BalancedRandomForestClassifier

import ens_plugin

rng = np.random.default_rng(0)
X, y = rng.normal(size=(1000, 5)), rng.integers(0, 2, 1000)
forest = BalancedRandomForestClassifier(300, bootstrap=True, replacement=True, oob_score=True, random_state=0).fit(X, y)

in_bag = ens_plugin.in_bag(forest, X, y)
seen = []
for sampler, tree, bag in zip(forest.samplers_, forest.estimators_, in_bag, strict=True):
    kept = sampler.sample_indices_
    drawn = np.random.RandomState(tree.random_state).randint(0, kept.size, kept.size)
    left_out = np.unique(kept[np.setdiff1d(np.arange(kept.size), drawn)])
    seen.append(bag[left_out].mean())

fresh, labels = rng.normal(size=(10_000, 5)), rng.integers(0, 2, 10_000)
print(f"imbalanced-learn's out-of-bag error:      {1 - forest.oob_score_:.4f}")
print(f"error by rows that are out of bag:        {ens_plugin.analyze(forest, X, y).error:.4f}")
print(f"error on {len(labels)} fresh rows:               {np.mean(forest.predict(fresh) != labels):.4f}")
print(f"rows that its score takes to be out of a tree's bag and are in it: {100 * np.mean(seen):.0f} %")
