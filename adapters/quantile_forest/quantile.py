"""The adapter of quantile-forest's forests, for one quantile that they predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo
from ens_plugin.adapters.capabilities import CombinesMembers, RowOrigin, VerifiesRows
from ens_plugin.adapters.quantile_forest.at_quantile import QuantileAt
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.validation import with_article
from ens_plugin.errors import UnsupportedModelError

if TYPE_CHECKING:
    from ens_plugin.adapters.quantile_forest.forest import QuantileForestAdapter

__all__ = ["QuantileAtAdapter"]


class QuantileAtAdapter(EnsembleAdapter, CombinesMembers, VerifiesRows):
    """Adapter of a forest for one quantile, as :func:`ens_plugin.adapters.quantile_forest.quantile_at` makes it.

    A tree's output is the training value that the library keeps for its leaf.  The quantile of these values over the
    trees is ``predict(X, quantiles=...)``.
    """

    def __init__(self, model: Any) -> None:
        self._forest = _adapter_of(model.forest)
        super().__init__(model)

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a forest for one quantile."""
        return isinstance(model, QuantileAt)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose leaves must keep one training value each."""
        kept = self.model.forest.max_samples_leaf
        if kept != 1:
            raise UnsupportedModelError(
                f"This {type(self.model.forest).__name__} keeps several training values for each leaf "
                f"(max_samples_leaf={kept!r}), which the library weights where it takes a quantile of those of all "
                "trees; that of fewer trees is not known here. Refit with max_samples_leaf=1, the default."
            )
        return replace(self._forest.info, aggregation="quantile")

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

    def prepare(self, X: Any) -> Any:
        """Return X as float32, the type the trees compare with their thresholds."""
        return self._forest.prepare(X)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return the kept training values of the leaves that the prepared rows reach in each tree."""
        return self._forest.outputs(features, members, wanted)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, redrawn from the trees' seeds, after checking three trees against the rows."""
        return self._forest.bags(X, features, y)

    def doubts(self) -> tuple[str, ...]:
        """Return a doubt where a warm start added trees with other parameters."""
        return self._forest.doubts()

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, as far as the forest shows it."""
        return self._forest.verify_rows(features, y)

    def column_splits(self, features: Any) -> tuple[Any, Iterator[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that trees split."""
        return self._forest.column_splits(features)


def _adapter_of(forest: Any) -> QuantileForestAdapter:
    # Every model of a class of this package is tried by this adapter, also where quantile-forest is not installed.
    from ens_plugin.adapters.quantile_forest.forest import QuantileForestAdapter

    if not QuantileForestAdapter.accepts(forest):
        raise UnsupportedModelError(
            "quantile_at takes a RandomForestQuantileRegressor or ExtraTreesQuantileRegressor of quantile-forest, not "
            f"{with_article(type(forest).__name__)}."
        )
    return QuantileForestAdapter(forest)
