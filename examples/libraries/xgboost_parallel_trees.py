"""XGBoost as a random forest: out-of-bag estimates that the library itself does not offer.

All trees grow in one boosting round (``num_parallel_tree``), each on rows and columns of its own.
"""

from __future__ import annotations

import xgboost
from sklearn.datasets import load_digits

import ens_plugin


def main() -> None:
    X, y = load_digits(return_X_y=True)
    options = {
        "objective": "multi:softprob",
        "num_class": 10,
        "num_parallel_tree": 200,
        "subsample": 0.632,
        "colsample_bynode": 0.3,
        "learning_rate": 1,
        "seed": 0,
    }
    booster = xgboost.train(options, xgboost.DMatrix(X, y), num_boost_round=1)

    in_bag = ens_plugin.in_bag(booster, X)
    print(
        f"{in_bag.shape[0]} trees (200 for each of 10 digits), "
        f"each grown on {in_bag.mean():.1%} of {in_bag.shape[1]} rows.\n"
    )
    print(ens_plugin.analyze(booster, X, y).summary())


if __name__ == "__main__":
    main()
