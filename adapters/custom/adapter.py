"""The adapter of CustomEnsemble: what users hand over, as the contract wants it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import Aggregation, EnsembleAdapter, OutputKind
from ens_plugin.adapters.custom.ensemble import CustomEnsemble, EstimatorEnsemble, FrameRows
from ens_plugin.adapters.shared.draws import DrawCounts
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import BagError

__all__ = ["CustomAdapter"]

_OUTPUT_KIND: dict[Aggregation, OutputKind] = {
    "vote": "labels",
    "mean_proba": "probabilities",
    "mean_score": "scores",
    "mean": "values",
}


class CustomAdapter(EnsembleAdapter):
    """Adapter of :class:`CustomEnsemble`.

    Examples
    --------
    >>> import numpy as np
    >>> adapter = CustomAdapter(CustomEnsemble(np.eye(2), np.eye(2, dtype=bool), aggregation="mean"))
    >>> adapter.outputs(adapter.prepare(None), None).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    library: ClassVar[str] = "ens_plugin"
    supported_versions: ClassVar[str] = ">=0.1"

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a CustomEnsemble."""
        return isinstance(model, CustomEnsemble)

    def __init__(self, model: Any) -> None:
        self.model = model
        self.task = "regression" if model.aggregation == "mean" else "classification"
        self.classes = model.classes
        self.n_members = model.n_members
        self.aggregation = model.aggregation
        self.output_kind = _OUTPUT_KIND[self.aggregation]
        self.bag_provenance = "given"

    def prepare(self, X: Any) -> Any:
        """Return row positions (arrays; `X` may be None) or `X` as the models take it."""
        return self.model.rows(X)

    def member_outputs(self, member: int, features: Any) -> NDArray[Any]:
        """Return one member's label codes, probabilities, scores or values for the prepared rows."""
        outputs: NDArray[Any] = self.model.member_outputs(member, features)
        return outputs if self.output_kind == "labels" else outputs.astype(np.float64, copy=False)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags the user gave."""
        if self.model.in_bag is None:
            raise _no_bags()
        bags: Bags = self.model.in_bag.pack(features.shape[0])
        return bags

    def are_training_rows(self, features: Any, y: ArrayLike) -> bool:
        """Return whether models keep these rows, or split at their values; False for outputs given as arrays."""
        if not isinstance(self.model, EstimatorEnsemble):
            return False
        rows = features.frame if isinstance(features, FrameRows) else features
        return bool(_kept_rows().hold_kept_rows([(model, rows) for model in self.model.models]))

    def leaf_counts(self, features: Any, target: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield the labels in the leaves of each tree, or its leaves: at least one training row is in each."""
        if isinstance(self.model, EstimatorEnsemble):
            rows = features.frame if isinstance(features, FrameRows) else features
            yield from _kept_rows().tree_cells([(model, rows) for model in self.model.models], target, self.classes)

    def checks_held_out_rows(self, features: Any) -> bool:
        """Return whether models are trees, or keep rows they were trained on."""
        return isinstance(self.model, EstimatorEnsemble) and bool(_kept_rows().keep_rows(self.model.models))

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each model drew each row, by the index arrays the user gave."""
        if not isinstance(self.model, EstimatorEnsemble):
            raise BagError(
                "This CustomEnsemble was made of arrays: it cannot predict other rows, and its in-bag outputs are "
                "not read. Make it of fitted models: CustomEnsemble.from_estimators(models, "
                "row_indices)."
            )
        if self.model.in_bag is None:
            raise _no_bags()
        return self.model.in_bag.counts(features.shape[0])

    def truncated(self, size: int) -> Any:
        """Return a CustomEnsemble of the first `size` members; models themselves are not copied."""
        return self.model.first(size)


def _kept_rows() -> Any:
    # Arrays of outputs need no model library; models are inspected only for held-out rows.
    return import_module("ens_plugin.adapters.sklearn.kept_rows")


def _no_bags() -> BagError:
    return BagError(
        "This CustomEnsemble was made without bags (in_bag=None), so no row is known to be out of bag. Give "
        'the rows each member was trained on, or pass data="holdout" with rows no member was trained on.'
    )
