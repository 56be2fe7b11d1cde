"""Predict as a forest of 501 trees does, with a few of them for most rows."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import ens_plugin


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X, y, random_state=0)

    pruned = ens_plugin.DynamicPruningClassifier(RandomForestClassifier(501, random_state=0)).fit(X_train, y_train)
    print(f"Expected beforehand: {pruned.expected_queries_:.1f} of {pruned.n_members_} trees per row,")
    print(f"and another label than the whole forest's for {pruned.expected_disagreement_:.2%} of the rows.")

    found = pruned.query(X_test)
    whole = pruned.estimator_.predict(X_test)
    print(f"\nOn {len(X_test)} test rows: {found.n_queries.mean():.1f} trees per row,")
    print(f"another label for {np.count_nonzero(found.labels != whole)} rows.")
    for share in (0.5, 0.9, 1.0):
        print(f"{share:4.0%} of the rows are settled by {np.quantile(found.n_queries, share):.0f} trees.")


if __name__ == "__main__":
    main()
