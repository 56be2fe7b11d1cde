"""One harness for every adapter: a case is a fitted model with its rows, a check is run for all cases.

To test another adapter, add its models to CASES (test_contract.py) with `Case(name, fit, X, y)`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters import EnsembleAdapter, find_adapter
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.core.tallies import both_scores

Array = NDArray[Any]


def recorded_samples(ensemble: Any) -> list[Array]:
    """Rows each member drew, as scikit-learn publishes them."""
    return list(ensemble.estimators_samples_)


def own_prediction(model: Any, X: Any) -> Array:
    """What the model itself predicts: its mean output over all members."""
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, the rows it was trained on, and what its library computes from it.

    Attributes
    ----------
    fit : makes the fitted model; called once
    samples : the rows each member drew, from the unwrapped model
    predict : mean output over all members, from the model and X
    tolerance : 0 where the members give a row the same output whatever rows come with it; BLAS does
        not, so linear members may differ in the last bits
    knows_rows : whether the adapter recognises other rows than the training rows
    knows_target : whether it recognises another target than that of training; by default as for rows
    needs_target : whether the bags depend on the target
    has_columns : whether the adapter looks at the columns
    has_bags : whether the bags can be known; without, any cells stand for those out of bag
    """

    name: str
    fit: Callable[[], Any]
    X: Any
    y: Any
    samples: Callable[[Any], list[Array]] = recorded_samples
    predict: Callable[[Any, Any], Array] = own_prediction
    tolerance: float = 0.0
    knows_rows: bool = True
    knows_target: bool | None = None
    needs_target: bool = False
    has_columns: bool = True
    has_bags: bool = True

    @property
    def checks_target(self) -> bool:
        return self.knows_rows if self.knows_target is None else self.knows_target

    @cached_property
    def model(self) -> Any:
        return self.fit()

    @cached_property
    def road(self) -> tuple[EnsembleAdapter, Any, Any]:
        """The adapter, the rows as they reach it, and the same prepared."""
        ensemble, rows = unwrap(self.model, self.X)
        adapter = find_adapter(ensemble)
        return adapter, rows, adapter.prepare(rows)

    @property
    def n_rows(self) -> int:
        return len(self.y)

    def bags_for(self, X: Any, y: Any) -> Any:
        """Ask for the bags as if X and y were the training rows."""
        ensemble, rows = unwrap(self.model, X)
        adapter = find_adapter(ensemble)
        return adapter.bags(rows, adapter.prepare(rows), y)

    def seen(self) -> Array:
        """Out-of-bag indicator, shape (n_members, n_rows)."""
        adapter, rows, features = self.road
        if not self.has_bags:
            return np.add.outer(np.arange(adapter.n_members), np.arange(self.n_rows)) % 3 == 0
        return adapter.block(features, adapter.bags(rows, features, self.y), slice(0, self.n_rows))[1]


def numeric_outputs(case: Case, wanted: Array | None) -> Array:
    """Members' outputs, two scores made of one and labels made one-hot: (n_members, n_rows) or (..., n_labels)."""
    adapter, _, features = case.road
    outputs = adapter.outputs(features, wanted=wanted)
    if adapter.output_kind == "scores" and outputs.ndim == 2:
        return both_scores(outputs)
    if adapter.output_kind == "labels":
        assert adapter.classes is not None
        return np.asarray(np.eye(len(adapter.classes))[outputs])
    return outputs


def mean_output(case: Case, counted: Array) -> Array:
    """Mean output over the `counted` members of each row, summed in member order as libraries do."""
    outputs = numeric_outputs(case, counted)
    total = np.zeros(outputs.shape[1:])
    for values, rows in zip(outputs, counted, strict=True):
        total[rows] += values[rows]
    if outputs.ndim == 3 and has_normalised_mean(case):
        return np.asarray(total / total.sum(axis=1, keepdims=True))
    count = counted.sum(axis=0)
    return np.asarray(total / (count if outputs.ndim == 2 else count[:, None]))


def has_normalised_mean(case: Case) -> bool:
    """Whether the library divides out-of-bag sums of probabilities by their sum, not by the count."""
    adapter = case.road[0]
    return type(adapter).__name__ == "SklearnBaggingAdapter"


def assert_same(actual: Array, expected: Array, tolerance: float) -> None:
    """Equal to the bit, or within an absolute tolerance where one is stated."""
    if tolerance == 0:
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def take_rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def drop_column(X: Any) -> Any:
    return X.iloc[:, :-1] if hasattr(X, "iloc") else X[:, :-1]


def permutation(n_rows: int) -> Array:
    return np.random.default_rng(0).permutation(n_rows)


def frozen(value: Any) -> bytes:
    return pickle.dumps(value)
