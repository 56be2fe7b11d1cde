"""Adapters of quantile forests: their mean, and one quantile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor

from ens_plugin.adapters.contract import EnsembleInfo
from ens_plugin.adapters.library import FitSite, Trainer, fit_methods, retrain_members
from ens_plugin.adapters.members import DrawCounts
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.adapters.sklearn.training import check_predictions
from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.findings import Finding, finding

MEAN_ONLY = finding(
    "mean-only",
    "Every figure is of the mean that predict(X, quantiles='mean') returns. Quantiles are not means over the members; "
    "pass ens_plugin.adapters.quantile_forest.quantile_at(forest, 0.9) for one of them, which may take more members.",
)


class QuantileAt:
    """A quantile forest that predicts one quantile; see :func:`quantile_at`.

    Attributes
    ----------
    forest : fitted RandomForestQuantileRegressor or ExtraTreesQuantileRegressor
    quantile : float
    """

    def __init__(self, forest: Any, quantile: float) -> None:
        self.forest = forest
        self.quantile = quantile

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted quantile of each row, shape (n_rows,)."""
        return np.asarray(self.forest.predict(X, quantiles=self.quantile), dtype=np.float64)


def quantile_at(forest: Any, quantile: float) -> QuantileAt:
    """Return a quantile forest as the predictor of one quantile.

    For :func:`ens_plugin.analyze`: the curve and the recommended size are then of the pinball loss of that quantile.
    With one training value in each leaf, ``max_samples_leaf=1``, the quantile that the forest predicts is that of its
    trees' values, so that of any subset of trees is known.

    Parameters
    ----------
    forest : fitted RandomForestQuantileRegressor or ExtraTreesQuantileRegressor
        With ``max_samples_leaf=1``, the default.
    quantile : float
        Strictly between 0 and 1.

    Returns
    -------
    QuantileAt

    Raises
    ------
    InputError
        If `quantile` is no number between 0 and 1.

    Examples
    --------
    >>> import ens_plugin
    >>> from ens_plugin.adapters.quantile_forest import quantile_at
    >>> from quantile_forest import RandomForestQuantileRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestQuantileRegressor(n_estimators=200, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(quantile_at(forest, 0.9), X, y)
    >>> report.error_curve.metric
    'pinball loss of quantile 0.9'
    """
    if isinstance(quantile, bool) or not (isinstance(quantile, Real) and 0 < float(quantile) < 1):
        raise InputError(f"quantile={quantile!r} is no number between 0 and 1; pass 0.9 for example.")
    return QuantileAt(forest, float(quantile))


class QuantileForestAdapter(SklearnForestAdapter):
    """Adapter of RandomForestQuantileRegressor and ExtraTreesQuantileRegressor, with one output.

    A tree's output is the mean of the training values that the library keeps for its leaf, which by default is a single
    one, drawn at random.  Their mean over the trees is ``predict(X, quantiles="mean")``.
    """

    known: ClassVar[tuple[type, ...]] = (RandomForestQuantileRegressor, ExtraTreesQuantileRegressor)
    distributions: ClassVar[tuple[str, ...]] = ("quantile-forest", "scikit-learn")
    library: ClassVar[str] = "quantile_forest"
    flavor = None

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the forests."""
        return fit_methods(*cls.known)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains anew at each size."""
        return retrain_members

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose leaves must all keep the same number of training values."""
        info = super().describe()
        if np.unique(np.concatenate([kept[kept > 0] for kept in self._kept_values])).size > 1:
            raise UnsupportedModelError(
                f"The leaves of this {type(self.model).__name__} keep different numbers of training values "
                f"(max_samples_leaf={self.model.max_samples_leaf!r}), and the library takes the mean of those of all "
                "trees together: larger leaves count more, and no mean over the members describes it. Refit with "
                "max_samples_leaf=1, the default, or pass "
                "ens_plugin.CustomEnsemble.from_estimators(model.estimators_, model.estimators_samples_)."
            )
        return info

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the forest predicts the mean of its trees, if asked for the mean."""
        check_predictions(self, features, self.known, quantiles="mean")

    def cautions(self, data: str) -> tuple[Finding, ...]:
        """Return a warning that the report is of the mean, where the forest's own ``predict`` returns quantiles."""
        return () if self.other_prediction() is None else (MEAN_ONLY,)

    def other_prediction(self) -> str | None:
        """Return which quantiles ``predict`` returns, and the ways to the mean and to a quantile; None of the mean."""
        default = getattr(self.model, "default_quantiles", None)
        if isinstance(default, str) and default == "mean":
            return None
        # The library's own default is the median.
        first = np.atleast_1d(0.5 if default is None else default)[0]
        return (
            f"The predict of this {type(self.model).__name__} returns quantiles (default_quantiles={default!r}), and "
            "its members' mean is another number. For the mean, pass the forest after "
            "forest.set_params(default_quantiles='mean'), which changes no tree. For a quantile, pass "
            f"ens_plugin.adapters.quantile_forest.quantile_at(forest, {first}) to ens_plugin.oob_predictions or "
            "ens_plugin.analyze."
        )

    def stored_oob_outputs(self) -> None:
        """Return None: the stored outputs are means of all rows in a leaf, which the forest does not predict."""
        return None

    def truncated(self, size: int) -> Any:
        """Raise UnsupportedModelError: the kept values of all trees are in one compiled table."""
        raise UnsupportedModelError(
            f"The trees of this {type(self.model).__name__} share one table of training values, from which "
            f"none can be removed. Train one with n_estimators={size}: with the same random_state, its trees are the "
            f"first {size}."
        )

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        """Return the positions of kept values in the sorted target, from 1, shape (n_trees, n_nodes, n_kept)."""
        return np.asarray(self.ensemble.forest_.y_train_leaves)[:, :, 0, :]

    @property
    def _kept_values(self) -> NDArray[np.int64]:
        return np.asarray(np.count_nonzero(self._positions, axis=2))

    @cached_property
    def _node_values(self) -> NDArray[np.float64]:
        """Return the mean of the kept values of every node, shape (n_trees, n_nodes); 0 for inner nodes."""
        values = np.concatenate([[0.0], np.asarray(self.ensemble.forest_.y_train)[0]])
        found = values[self._positions].sum(axis=2) / np.maximum(self._kept_values, 1)
        # Older releases, 1.3.5 for one, have no bounds, and do not clip what they predict.
        kept_bounds = getattr(self.ensemble.forest_, "y_bound_leaves", None)
        if self.ensemble.monotonic_cst is None or kept_bounds is None:
            return np.asarray(found)
        bounds = np.asarray(kept_bounds)
        return np.asarray(np.clip(found, bounds[:, :, 0], bounds[:, :, 1]))

    def member_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        """Return the mean of the kept training values of the leaves that rows reach in one tree."""
        leaves = self.members[member].apply(rows, check_input=False)
        return np.asarray(self._node_values[member].take(leaves))


class QuantileAtAdapter(QuantileForestAdapter):
    """Adapter of a forest for one quantile, as :func:`ens_plugin.adapters.quantile_forest.quantile_at` makes it.

    A tree's output is the training value that the library keeps for its leaf.  The quantile of these values over the
    trees is ``predict(X, quantiles=...)``.
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a forest for one quantile."""
        return isinstance(model, QuantileAt)

    @property
    def ensemble(self) -> Any:
        """The fitted forest."""
        return self.model.forest

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose leaves must keep one training value each."""
        forest, name = self.ensemble, type(self.ensemble).__name__
        if not isinstance(forest, self.known):
            raise UnsupportedModelError(
                "quantile_at takes a RandomForestQuantileRegressor or ExtraTreesQuantileRegressor of quantile-forest, "
                f"not {name}."
            )
        info = QuantileForestAdapter(self.model.forest).info
        if (kept := self.model.forest.max_samples_leaf) != 1:
            raise UnsupportedModelError(
                f"This {name} keeps several training values for each leaf (max_samples_leaf={kept!r}), which the "
                "library weights where it takes a quantile of those of all trees; that of fewer trees is not known "
                "here. Refit with max_samples_leaf=1, the default."
            )
        return replace(info, aggregation="quantile")

    @property
    def loss_name(self) -> str:
        """Return the name of the loss, with the quantile."""
        return f"pinball loss of quantile {self.model.quantile:g}"

    def loss(
        self,
        target: NDArray[Any],
        prediction: NDArray[np.float64],
        sample_weight: NDArray[np.float64] | None = None,
    ) -> float:
        """Return the mean pinball loss."""
        above = target - prediction
        quantile = self.model.quantile
        return float(np.average(np.maximum(quantile * above, (quantile - 1.0) * above), weights=sample_weight))

    def combined(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the quantile of the members' values, interpolated as the library does it."""
        return np.asarray(np.quantile(outputs, self.model.quantile, axis=0))

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Raise UnsupportedModelError: the variance over training sets is known of means only."""
        raise UnsupportedModelError(
            f"This predicts the quantile {self.model.quantile:g}, and the variance over training sets is known of "
            "means only. Pass the forest itself, for that of its mean."
        )

    def check_members(self, features: Any) -> None:
        """Do nothing: the class of the forest is enough."""

    def other_prediction(self) -> None:
        """Return None: the quantile is what is predicted."""
