"""What the rest of the package needs to know about XGBoost, beside its trained trees; does not import it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.training import FitSite, TrainingData, fit_methods

__all__ = ["XGBoost", "fit_arguments", "train_arguments"]

DENSE_SHARE = 0.5  # of stored entries, above which a DMatrix was made of a dense table


class XGBoost(Trainable):
    """XGBoost's ``train`` and scikit-learn interface."""

    library: ClassVar[str] = "xgboost"

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return ``xgboost.train`` and the ``fit`` methods."""
        import xgboost

        forests = xgboost.XGBRFClassifier, xgboost.XGBRFRegressor
        return [
            FitSite(xgboost, "train", train_arguments),
            *fit_methods(xgboost.XGBClassifier, xgboost.XGBRegressor, *forests, read=fit_arguments),
        ]


@dataclass(frozen=True, eq=False)
class _Table(TrainingData):
    """Training data of an estimator; the sums in XGBoost's leaves prove bags with weights and margins only."""

    base_margin: Any = None

    def rows_for(self, model: Any) -> Any:
        if self.sample_weight is None and self.base_margin is None:
            return self.X
        import xgboost

        return xgboost.DMatrix(
            self.X,
            weight=self.sample_weight,
            base_margin=self.base_margin,
            missing=model.missing,
            enable_categorical=True,
        )


class _Matrix(TrainingData):
    """Training data in a DMatrix."""

    def table(self) -> Any:
        """Return the stored values; of a matrix that was dense, entries that are not stored are missing, not zero."""
        stored = sparse.csr_matrix(self.X.get_data())
        if stored.nnz < DENSE_SHARE * self.X.num_row() * self.X.num_col():
            return stored
        dense = np.full(stored.shape, np.nan, dtype=np.float32)
        rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))
        dense[rows, stored.indices] = stored.data
        return dense


def fit_arguments(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of an estimator's ``fit``."""
    return _Table(arguments.get("X"), arguments.get("y"), arguments.get("sample_weight"), arguments.get("base_margin"))


def train_arguments(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of ``xgboost.train``."""
    matrix = arguments["dtrain"]
    weight = matrix.get_weight()
    return _Matrix(matrix, matrix.get_label(), weight if weight.size else None)
