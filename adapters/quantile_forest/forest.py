"""The adapter of quantile-forest's random forests and extremely randomised trees, for their mean."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor

from ens_plugin.adapters.base import EnsembleInfo, outputs_by_member
from ens_plugin.adapters.shared.refusals import several_outputs
from ens_plugin.adapters.sklearn.data import check_fitted
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.adapters.sklearn.predictions import check_predictions
from ens_plugin.core.validation import with_article
from ens_plugin.errors import UnsupportedModelError

__all__ = ["QuantileForestAdapter"]

MEAN_ONLY = (
    "Every figure is of the mean that predict(X, quantiles='mean') returns. Quantiles are not means over the members; "
    "pass ens_plugin.adapters.quantile_forest.quantile_at(forest, 0.9) for one of them, which may take more members."
)


class QuantileForestAdapter(SklearnForestAdapter):
    """Adapter of RandomForestQuantileRegressor and ExtraTreesQuantileRegressor, with one output.

    A tree's output is the mean of the training values that the library keeps for its leaf, which by default is a single
    one, drawn at random.  Their mean over the trees is ``predict(X, quantiles="mean")``.

    Examples
    --------
    >>> import numpy as np
    >>> from quantile_forest import RandomForestQuantileRegressor
    >>> X, y = np.arange(8.0)[:, None], np.arange(8.0)
    >>> adapter = QuantileForestAdapter(RandomForestQuantileRegressor(n_estimators=5, random_state=0).fit(X, y))
    >>> features = adapter.prepare(X)
    >>> adapter.outputs(features).shape, adapter.bags(X, features, y).in_bag().shape
    ((5, 8), (5, 8))
    """

    known: ClassVar[tuple[type, ...]] = (RandomForestQuantileRegressor, ExtraTreesQuantileRegressor)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose leaves must all keep the same number of training values.

        Raises
        ------
        NotFittedError
            If the forest has not been fitted.
        UnsupportedModelError
            If leaves keep different numbers of values: the library pools them over the trees, so that its mean is not
            the mean of the trees.
        """
        check_fitted(self.model)
        if self.model.n_outputs_ > 1:
            raise UnsupportedModelError(several_outputs(type(self.model).__name__, self.model.n_outputs_))
        info = super().describe()
        if np.unique(np.concatenate([kept[kept > 0] for kept in self._kept_values])).size > 1:
            raise UnsupportedModelError(
                f"The leaves of this {type(self.model).__name__} keep different numbers of training values "
                f"(max_samples_leaf={self.model.max_samples_leaf!r}), and the library takes the mean of those of all "
                "trees together: larger leaves count more, and no mean over the members describes it. Refit with "
                "max_samples_leaf=1, the default, or pass "
                "ens_plugin.CustomEnsemble.from_estimators(model.estimators_, model.estimators_samples_)."
            )
        return replace(info, distributions=("quantile-forest", "scikit-learn"))

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the mean of the kept training values of the leaves that the prepared rows reach in each tree."""
        return outputs_by_member(self._leaf_values, members or range(self.n_members), features, wanted)

    def check_members(self, features: Any) -> None:
        """Raise UnsupportedModelError unless the forest predicts the mean of its trees, if asked for the mean."""
        check_predictions(self, features, self.known, quantiles="mean")

    def cautions(self, data: str) -> tuple[str, ...]:
        """Return a warning that the report is of the mean, not of quantiles."""
        return (MEAN_ONLY,)

    def stored_oob_outputs(self) -> None:
        """Return None: the stored outputs are means of all rows in a leaf, which the forest does not predict."""
        return None

    def truncated(self, size: int) -> Any:
        """Raise UnsupportedModelError: the kept values of all trees are in one compiled table."""
        raise UnsupportedModelError(
            f"The trees of {with_article(type(self.model).__name__)} share one table of training values, from which "
            f"none can be removed. Train one with n_estimators={size}: with the same random_state, its trees are the "
            f"first {size}."
        )

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        """Return the positions of kept values in the sorted target, from 1, shape (n_trees, n_nodes, n_kept)."""
        return np.asarray(self.model.forest_.y_train_leaves)[:, :, 0, :]

    @property
    def _kept_values(self) -> NDArray[np.int64]:
        return np.asarray(np.count_nonzero(self._positions, axis=2))

    @cached_property
    def _node_values(self) -> NDArray[np.float64]:
        """Return the mean of the kept values of every node, shape (n_trees, n_nodes); 0 for inner nodes."""
        values = np.concatenate([[0.0], np.asarray(self.model.forest_.y_train)[0]])
        found = values[self._positions].sum(axis=2) / np.maximum(self._kept_values, 1)
        # Older releases, 1.3.5 for one, have no bounds, and do not clip what they predict.
        kept_bounds = getattr(self.model.forest_, "y_bound_leaves", None)
        if self.model.monotonic_cst is None or kept_bounds is None:
            return np.asarray(found)
        bounds = np.asarray(kept_bounds)
        return np.asarray(np.clip(found, bounds[:, :, 0], bounds[:, :, 1]))

    def _leaf_values(self, member: int, rows: Any) -> NDArray[np.float64]:
        leaves = self.model.estimators_[member].apply(rows, check_input=False)
        return np.asarray(self._node_values[member].take(leaves))
