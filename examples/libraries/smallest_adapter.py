"""A library of one class, and an adapter that makes ens_plugin work with it."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge

import ens_plugin
from ens_plugin.adapters import BagProof, Bags, EnsembleAdapter, EnsembleInfo, draw_bags, outputs_by_member
from ens_plugin.errors import DataMismatchError, NotFittedError
from ens_plugin.testing import check_adapter


class RidgeBag:
    """Ridge regressions, each trained on the rows that follow from its seed."""

    def __init__(self, n_members: int = 40) -> None:
        self.n_members = n_members

    def fit(self, X: Any, y: Any) -> RidgeBag:
        """Train the members and return the ensemble."""
        self.n_rows, self.n_columns = X.shape
        self.seeds = list(range(self.n_members))
        samples = [self.sample(seed) for seed in self.seeds]
        self.members = [Ridge().fit(X[rows], y[rows]) for rows in samples]
        return self

    def sample(self, seed: int) -> Any:
        """Return the rows that a member is trained on, drawn with replacement."""
        return np.random.default_rng(seed).integers(0, self.n_rows, self.n_rows)

    def predict(self, X: Any) -> Any:
        """Return the mean of the members' values."""
        return np.mean([member.predict(X) for member in self.members], axis=0)


# The adapter
OTHER_ROWS = (
    "These are not the rows the model was trained on, or y is not the target the model "
    "was trained on: the members become others when they are trained again"
)


@ens_plugin.register_adapter
class RidgeBagAdapter(EnsembleAdapter):
    """Adapter of `RidgeBag`."""

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a RidgeBag."""
        return isinstance(model, RidgeBag)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble."""
        if not hasattr(self.model, "members"):
            raise NotFittedError("This RidgeBag is not fitted; call fit(X, y) first.")
        return EnsembleInfo(
            task="regression",
            classes=None,
            n_members=len(self.model.members),
            aggregation="mean",
            output_kind="values",
            bag_provenance="recorded",
        )

    def prepare(self, X: Any) -> Any:
        """Return X as an array, its columns checked."""
        rows = np.asarray(X, dtype=float)
        if rows.ndim != 2 or rows.shape[1] != self.model.n_columns:
            wanted = f"{self.model.n_columns} columns of the training"
            raise DataMismatchError(f"X has shape {rows.shape}; pass the {wanted}.")
        return rows

    def outputs(
        self,
        features: Any,
        members: range | None = None,
        wanted: Any = None,
    ) -> Any:
        """Return the value of each member for each row."""

        def predict(member: int, rows: Any) -> Any:
            return self.model.members[member].predict(rows)

        members = members or range(self.n_members)
        return outputs_by_member(predict, members, features, wanted)

    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        """Return the bags, drawn from the seeds, after training three members again."""
        n_rows = len(features)
        if n_rows != self.model.n_rows:
            trained = f"the model was trained on {self.model.n_rows}"
            raise DataMismatchError(f"X has {n_rows} rows, but {trained}.")
        bags = draw_bags(self._draw, self.n_members, n_rows)
        if y is None:
            return bags
        for member in (0, self.n_members // 2, self.n_members - 1):
            rows = self._draw(member)
            again = Ridge().fit(features[rows], np.asarray(y)[rows])
            if not np.allclose(again.coef_, self.model.members[member].coef_):
                raise DataMismatchError(f"{OTHER_ROWS} (member {member}).")
        return bags.with_proof(BagProof(rows=True, target=True))

    def truncated(self, size: int) -> RidgeBag:
        """Return a RidgeBag with the first `size` members."""
        part: RidgeBag = copy(self.model)
        part.n_members = size
        part.members, part.seeds = self.model.members[:size], self.model.seeds[:size]
        return part

    def _draw(self, member: int) -> Any:
        return self.model.sample(self.model.seeds[member])


# The check
def drawn(model: RidgeBag) -> list[Any]:
    """Return the rows of each member, from the library itself."""
    return [model.sample(seed) for seed in model.seeds]


X, y = load_diabetes(return_X_y=True)
bag = RidgeBag().fit(X, y)
promises = check_adapter(bag, X, y, samples=drawn, tolerance=1e-9, needs_target=True)
print(f"{len(promises)} promises are kept.")

# The result
print(ens_plugin.analyze(bag, X, y))
