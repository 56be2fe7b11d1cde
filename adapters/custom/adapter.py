"""The adapter of CustomEnsemble, which reads the outputs and bags that a user gave."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import Aggregation, EnsembleAdapter, EnsembleInfo, OutputKind, outputs_by_member
from ens_plugin.adapters.capabilities import CountsDraws, RowOrigin, Truncatable, VerifiesRows
from ens_plugin.adapters.custom.ensemble import CustomEnsemble, EstimatorEnsemble, FrameRows
from ens_plugin.adapters.shared.draws import DrawCounts
from ens_plugin.adapters.shared.labels import label_codes
from ens_plugin.adapters.shared.member_parameters import order_doubts
from ens_plugin.adapters.shared.trees.leaf_cover import judge_origin
from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError

__all__ = ["CustomAdapter"]

_OUTPUT_KIND: dict[Aggregation, OutputKind] = {
    "vote": "labels",
    "mean_proba": "probabilities",
    "mean_score": "scores",
    "mean": "values",
}


class CustomAdapter(EnsembleAdapter, VerifiesRows, CountsDraws, Truncatable):
    """Adapter that reads the outputs and bags of a :class:`CustomEnsemble`.

    Examples
    --------
    >>> import numpy as np
    >>> adapter = CustomAdapter(CustomEnsemble(np.eye(2), np.eye(2, dtype=bool), aggregation="mean"))
    >>> adapter.outputs(adapter.prepare(None)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a CustomEnsemble."""
        return isinstance(model, CustomEnsemble)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble, as the user stated them."""
        return EnsembleInfo(
            task="regression" if self.model.aggregation == "mean" else "classification",
            classes=self.model.classes,
            n_members=self.model.n_members,
            aggregation=self.model.aggregation,
            output_kind=_OUTPUT_KIND[self.model.aggregation],
            bag_provenance="given",
        )

    def prepare(self, X: Any) -> Any:
        """Return `X` as the models take it; for outputs given as arrays, row positions (`X` may be None)."""
        return self.model.rows(X)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the members' label codes, probabilities, scores or values for the prepared rows."""
        return outputs_by_member(self._member_outputs, members or range(self.n_members), features, wanted)

    def _member_outputs(self, member: int, features: Any) -> NDArray[Any]:
        outputs: NDArray[Any] = self.model.member_outputs(member, features)
        return outputs if self.output_kind == "labels" else outputs.astype(np.float64, copy=False)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags that the user gave; raise BagError if there are none."""
        if self.model.in_bag is None:
            raise _no_bags()
        bags: Bags = self.model.in_bag.pack(features.shape[0])
        # The user states which rows they are; there is nothing to compare that with.
        return bags.with_proof(BagProof())

    def doubts(self) -> tuple[str, ...]:
        """Return a doubt where models of equal parameters follow each other, and others have other parameters."""
        return order_doubts(self.model.models) if isinstance(self.model, EstimatorEnsemble) else ()

    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether rows are training rows, by stored rows and splits of the models; unknown without models."""
        if not isinstance(self.model, EstimatorEnsemble):
            return "unknown"
        # Arrays of outputs need no model library; models are inspected only for held-out rows.
        kept_rows = import_module("ens_plugin.adapters.sklearn.recognition.kept_rows")
        rows = features.frame if isinstance(features, FrameRows) else features
        models, target = [(model, rows) for model in self.model.models], np.asarray(y).reshape(-1)
        target = target if self.classes is None else label_codes(target, self.classes)
        known = kept_rows.known_rows(models, target, self.classes, self._draw)
        cells = kept_rows.tree_cells(models, target, self.classes)
        return judge_origin(known.are_given(), cells, target.size, known.would_show)

    def _draw(self, member: int) -> NDArray[np.integer[Any]] | None:
        """Return the training rows that a model was given, if the user gave them in order."""
        bags = self.model.in_bag
        return None if bags is None else bags.drawn(member)

    def column_splits(self, features: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that models split, where they are trees."""
        if not isinstance(self.model, EstimatorEnsemble):
            return features, ()
        kept_rows = import_module("ens_plugin.adapters.sklearn.recognition.kept_rows")
        rows = features.frame if isinstance(features, FrameRows) else features
        columns: tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]] = kept_rows.split_columns(
            self.model.models, rows
        )
        return columns

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each model drew each row, counted in the index arrays that the user gave."""
        if not isinstance(self.model, EstimatorEnsemble):
            raise BagError(
                "This CustomEnsemble was made of arrays, without a record of how often members drew rows. Make it "
                "of fitted models and the rows of each: CustomEnsemble.from_estimators(models, row_indices)."
            )
        if self.model.in_bag is None:
            raise _no_bags()
        return self.model.in_bag.counts(features.shape[0])

    def truncated(self, size: int) -> Any:
        """Return a CustomEnsemble of the first `size` members; models themselves are not copied."""
        return self.model.first(size)


def _no_bags() -> BagError:
    return BagError(
        "This CustomEnsemble was made without bags (in_bag=None), so no row is known to be out of bag. Give "
        'the rows each member was trained on, or pass {data="holdout"} with rows no member was trained on.'
    )
