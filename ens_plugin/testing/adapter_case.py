"""A fitted model with its training rows, and what its library computes from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.tallies.tally import both_scores
from ens_plugin.errors import UnsupportedModelError

__all__ = ["AdapterCase", "own_prediction"]

Array = NDArray[Any]
Samples = Callable[[Any], Sequence[Array]]


def own_prediction(model: Any, X: Any) -> Array:
    """Return the probabilities that a model predicts, or its values where it predicts none.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from ens_plugin.testing.adapter_case import own_prediction
    >>> own_prediction(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]), [[2.0]]).round(3).tolist()
    [2.0]
    """
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))


@dataclass(frozen=True, eq=False)
class AdapterCase:
    """A fitted model, the rows it was trained on, and what its library computes from it.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit()`` returns the fitted model; called once.
    X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    samples : callable or None
        ``samples(ensemble)`` returns the rows that each member drew, repeated or not, from a source other than the
        adapter, such as the library's own record; `ensemble` is unwrapped.  None where there is no such source.
    predict : callable
        ``predict(model, X)`` returns the mean output over all members, as the library computes it.
    tolerance : float
        Largest absolute difference of two outputs that should be equal; 0 means equal to the bit.  Members that
        multiply matrices round by the number of rows.
    proves_rows : bool
        Whether the adapter recognises other rows than the training rows.
    proves_target : bool or None
        Whether it recognises another target than that of training; None means `proves_rows`.
    needs_target : bool
        Whether the bags depend on the target.
    has_columns : bool
        Whether the adapter reads the columns of X.
    counts_rows : bool
        Whether the model determines the number of training rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.testing import AdapterCase
    >>> X, y = load_diabetes(return_X_y=True)
    >>> case = AdapterCase("a small forest", lambda: RandomForestRegressor(10, random_state=0).fit(X, y), X, y)
    >>> case.adapter.n_members, case.has_bags, case.n_rows
    (10, True, 442)
    """

    name: str
    fit: Callable[[], Any]
    X: Any
    y: Any
    samples: Samples | None = None
    predict: Callable[[Any, Any], Array] = own_prediction
    tolerance: float = 0.0
    proves_rows: bool = True
    proves_target: bool | None = None
    needs_target: bool = False
    has_columns: bool = True
    counts_rows: bool = True

    @cached_property
    def model(self) -> Any:
        """The fitted model."""
        return self.fit()

    @cached_property
    def prepared(self) -> tuple[EnsembleAdapter, Any, Any]:
        """The adapter, the rows as they reach it, and the rows as the adapter prepares them."""
        ensemble, rows = unwrap(self.model, self.X)
        adapter = find_adapter(ensemble)
        return adapter, rows, adapter.prepare(rows)

    @property
    def adapter(self) -> EnsembleAdapter:
        """The adapter of the model."""
        return self.prepared[0]

    @property
    def has_bags(self) -> bool:
        """Whether the adapter determines bags; without, only held-out rows can be analysed."""
        return self.adapter.info.bag_provenance != "unknown"

    @property
    def is_portable(self) -> bool:
        """Whether another process can use the model; not if it is on a server."""
        try:
            self.adapter.portable()
        except UnsupportedModelError:
            return False
        return True

    @property
    def checks_target(self) -> bool:
        """Whether the adapter recognises a target that is not the one of the training."""
        return self.proves_rows if self.proves_target is None else self.proves_target

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self.y)

    def bags_for(self, X: Any, y: Any) -> Bags:
        """Return the bags as if X and y were the training rows."""
        ensemble, rows = unwrap(self.model, X)
        adapter = find_adapter(ensemble)
        return adapter.bags(rows, adapter.prepare(rows), y)

    def is_oob(self) -> NDArray[np.bool_]:
        """Return for which rows each member is out of bag, shape (n_members, n_rows); if unknown, a fixed pattern."""
        adapter, rows, features = self.prepared
        if not self.has_bags:
            return np.asarray(np.add.outer(np.arange(adapter.n_members), np.arange(self.n_rows)) % 3 == 0)
        return adapter.block(features, adapter.bags(rows, features, self.y), slice(0, self.n_rows))[1]

    def numeric_outputs(self, wanted: NDArray[np.bool_] | None = None) -> Array:
        """Return the members' outputs, labels as indicators: shape (n_members, n_rows) or (..., n_labels)."""
        adapter, _, features = self.prepared
        outputs = adapter.outputs(features, wanted=wanted)
        if adapter.output_kind == "scores" and outputs.ndim == 2:
            return both_scores(outputs)
        if adapter.output_kind == "labels":
            assert adapter.classes is not None
            return np.asarray(np.eye(len(adapter.classes))[outputs])
        return outputs

    def summed_outputs(self, counted: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the sums of outputs over the `counted` members of each row, in member order, and their numbers."""
        outputs = self.numeric_outputs(counted)
        total = np.zeros(outputs.shape[1:])
        for values, rows in zip(outputs, counted, strict=True):
            total[rows] += values[rows]
        return total, counted.sum(axis=0).astype(np.float64)
