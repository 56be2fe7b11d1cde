"""A small model library: bagged trees that keep the seeds of their samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

__all__ = ["TreeBag"]


class TreeBag:
    """Bagged trees, trained on bootstrap samples that follow from one seed each."""

    def __init__(
        self, n_trees: int = 100, max_depth: int | None = None, seed: int = 0
    ) -> None:
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""
        return {"n_trees": self.n_trees, "max_depth": self.max_depth, "seed": self.seed}

    def set_params(self, **params: Any) -> TreeBag:
        """Set parameters and return the ensemble."""
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit(self, X: Any, y: Any) -> TreeBag:
        """Train the trees and return the ensemble."""
        rows, labels = np.asarray(X, dtype=np.float32), np.asarray(y)
        self.classes, self.n_rows, self.n_columns = np.unique(labels), *rows.shape
        self.seeds = (
            np.random.default_rng(self.seed).integers(0, 2**31, self.n_trees).tolist()
        )
        self.trees = []
        for seed in self.seeds:
            counts = np.bincount(self.sample(seed), minlength=self.n_rows)
            tree = DecisionTreeClassifier(
                max_depth=self.max_depth, max_features="sqrt", random_state=seed
            )
            self.trees.append(tree.fit(rows, labels, sample_weight=counts))
        return self

    def sample(self, seed: int) -> NDArray[np.int64]:
        """Return the rows of the bootstrap sample that follows from a seed."""
        return np.random.default_rng(seed).integers(0, self.n_rows, self.n_rows)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the mean probabilities of the trees."""
        rows = np.asarray(X, dtype=np.float32)
        return np.asarray(
            sum(tree.predict_proba(rows) for tree in self.trees) / len(self.trees)
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest labels."""
        return np.asarray(self.classes[self.predict_proba(X).argmax(axis=1)])
