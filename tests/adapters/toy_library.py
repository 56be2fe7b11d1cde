"""A small model library, and the adapter that makes all of ens_plugin work with it."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.tree import DecisionTreeRegressor

from ens_plugin.adapters import (
    EnsembleAdapter,
    EnsembleInfo,
    Library,
    fit_methods,
    outputs_by_member,
    retrain,
)
from ens_plugin.core.bags import Bags
from ens_plugin.errors import DataMismatchError


class ToyForest(RegressorMixin, BaseEstimator):
    def __init__(self, n_trees: int = 60, random_state: int = 0) -> None:
        self.n_trees, self.random_state = n_trees, random_state

    def fit(self, X: Any, y: Any) -> ToyForest:
        rows, values, self.n_features_in_ = np.asarray(X), np.asarray(y), X.shape[1]
        bags = np.random.default_rng(self.random_state).integers(0, len(y), (self.n_trees, len(y)))
        self.members_ = [(bag, DecisionTreeRegressor(random_state=0).fit(rows[bag], values[bag])) for bag in bags]
        return self

    def predict(self, X: Any) -> Any:
        return np.asarray(sum(tree.predict(np.asarray(X)) for _, tree in self.members_) / len(self.members_))


class ToyAdapter(EnsembleAdapter, Library):
    library = __name__
    accepts = staticmethod(lambda model: isinstance(model, ToyForest))
    fit_sites = staticmethod(lambda: fit_methods(ToyForest))
    trainer = staticmethod(lambda estimator: lambda *given: retrain("n_trees", *given))

    def describe(self) -> EnsembleInfo:
        return EnsembleInfo("regression", None, len(self.model.members_), "mean", "values", "recorded")

    def prepare(self, X: Any) -> Any:
        if X.shape[1] != self.model.n_features_in_:
            raise DataMismatchError("These are not the columns of the training.")
        return np.asarray(X, dtype=np.float64)

    def outputs(self, features: Any, members: range | None = None, wanted: Any = None) -> Any:
        trees = self.model.members_
        return outputs_by_member(lambda i, x: trees[i][1].predict(x), members or range(len(trees)), features, wanted)

    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        if len(features) != len(self.model.members_[0][0]):
            raise DataMismatchError("These are not the rows of the training.")
        return Bags.from_indices([bag for bag, _ in self.model.members_], len(features))

    def truncated(self, size: int) -> Any:
        part = copy(self.model)
        part.n_trees, part.members_ = size, self.model.members_[:size]
        return part
