"""Out-of-bag error of a LightGBM random forest, which LightGBM itself does not offer.

Needs LightGBM: ``pip install 'ens-plugin[lightgbm]'``.
"""

from __future__ import annotations

from lightgbm import LGBMClassifier
from sklearn.datasets import load_breast_cancer

import ens_plugin


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = LGBMClassifier(
        boosting_type="rf",
        n_estimators=200,
        subsample=0.632,
        subsample_freq=1,
        colsample_bytree=0.3,
        min_child_samples=5,
        random_state=0,
        verbose=-1,
    ).fit(X, y)

    in_bag = ens_plugin.in_bag(forest, X, y)
    print(f"Proved: each tree was trained on {in_bag.sum(axis=1).mean():.0f} of {len(y)} rows on average.\n")

    print(ens_plugin.analyze(forest, X, y).summary())


if __name__ == "__main__":
    main()
