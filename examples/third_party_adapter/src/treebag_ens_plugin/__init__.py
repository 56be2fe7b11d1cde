"""The adapter of treebag for ens_plugin, found by the entry point in pyproject.toml."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar

import numpy as np
import treebag
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters import (
    BagProof,
    Bags,
    EnsembleAdapter,
    EnsembleInfo,
    FitSite,
    Library,
    draw_bags,
    fit_methods,
    outputs_by_member,
    retrain,
)
from ens_plugin.adapters.sklearn.tools import (
    check_growth,
    leaf_outputs,
    prove_members,
    training_target,
)
from ens_plugin.errors import DataMismatchError, InputError, NotFittedError

__all__ = ["TreeBagAdapter"]


class TreeBagAdapter(EnsembleAdapter, Library):
    """Adapter of treebag.TreeBag.

    For autolog it has `fit_sites`, for grow `trainer`, for truncate and rightsize
    `truncated`.
    """

    library: ClassVar[str] = "treebag"

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a TreeBag."""
        return isinstance(model, treebag.TreeBag)

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the functions that autologging watches."""
        return fit_methods(treebag.TreeBag)

    @classmethod
    def trainer(cls, estimator: Any) -> Any:
        """Return the function that trains an ensemble anew at each size."""
        return partial(retrain, "n_trees")

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble."""
        if not hasattr(self.model, "trees"):
            raise NotFittedError(
                "This TreeBag has not been fitted; call its fit(X, y) first."
            )
        return EnsembleInfo(
            task="classification",
            classes=self.model.classes,
            n_members=len(self.model.trees),
            aggregation="mean_proba",
            output_kind="probabilities",
            bag_provenance="recorded",
            is_row_independent=True,
            distributions=("treebag-ens-plugin",),
        )

    def prepare(self, X: Any) -> NDArray[np.float32]:
        """Return X as treebag's own predict_proba passes it to the trees."""
        try:
            rows = np.asarray(X, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"X does not hold numbers ({error}). Encode its columns "
                "as for the training, in which all of them were numbers."
            ) from error
        if rows.ndim != 2 or rows.shape[1] != self.model.n_columns:
            raise DataMismatchError(
                f"X has shape {rows.shape}, and the TreeBag was trained on "
                f"{self.model.n_columns} columns. Pass those columns, in their order."
            )
        return rows

    def outputs(
        self,
        features: Any,
        members: range | None = None,
        wanted: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return the probabilities of the leaves that the rows reach in each tree."""
        trees = self.model.trees
        return outputs_by_member(
            lambda member, rows: leaf_outputs(trees[member], rows),
            members or range(len(trees)),
            features,
            wanted,
        )

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags, drawn from the seeds, after checking some trees."""
        n_rows = features.shape[0]
        if n_rows != self.model.n_rows:
            raise DataMismatchError(
                f"X has {n_rows} rows, but the TreeBag was trained on "
                f"{self.model.n_rows}. Pass the training rows in training order, or "
                'data="holdout" for rows the model was not trained on.'
            )
        target = training_target(y, self.classes, n_rows)

        def check(member: int) -> bool:
            tree, drawn = self.model.trees[member], self._draw(member)
            return check_growth(tree, features, drawn, target, member)

        proof = BagProof(target=prove_members(check, self.n_members))
        return draw_bags(self._draw, self.n_members, n_rows).with_proof(proof)

    def truncated(self, size: int) -> Any:
        """Return a TreeBag with the first `size` trees."""
        part = copy(self.model)
        part.n_trees, part.trees, part.seeds = (
            size,
            list(self.model.trees[:size]),
            self.model.seeds[:size],
        )
        return part

    def _draw(self, member: int) -> NDArray[np.int64]:
        return np.asarray(self.model.sample(self.model.seeds[member]))
