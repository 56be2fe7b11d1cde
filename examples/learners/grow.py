"""Forests trained to the size they need: from the data, not from habit."""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier
from sklearn.model_selection import cross_val_score

import ens_plugin


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    for tolerance in (0.02, 0.01, 0.005):
        forest = RandomForestClassifier(random_state=0)
        growth = ens_plugin.grow(forest, X, y, criterion="agreement", tolerance=tolerance)
        print(f"{1 - tolerance:.1%} of the labels: {growth.n_members} trees. {growth.reason}\n")

    print("The last one, step by step:")
    columns = ["n_members", "recommended_size", "loss", "train_seconds", "estimate_seconds"]
    print(growth.to_frame()[columns].round(4).to_string(index=False))

    # As an estimator: each fold trains the forest its own rows need.
    model = ens_plugin.RightSizedClassifier(criterion="agreement", tolerance=0.02, random_state=0)
    print(f"\nFive-fold accuracy, right-sized: {cross_val_score(model, X, y).mean():.3f}")

    X, y = load_diabetes(return_X_y=True)
    regressor = ens_plugin.RightSizedRegressor(BaggingRegressor(), tolerance=0.02, random_state=0).fit(X, y)
    print(f"\nDiabetes, 2 % above the error of infinitely many: {regressor.n_members_} members.")


if __name__ == "__main__":
    main()
