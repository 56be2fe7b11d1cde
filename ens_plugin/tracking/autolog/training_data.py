"""The rows, target and weights that are passed to a training function, by library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["TrainingData", "from_booster_call", "from_dataset_call", "from_method_call"]

DENSE_SHARE = 0.5  # of stored entries, above which a DMatrix was made of a dense table


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a model was trained on.

    Attributes
    ----------
    X : array-like, DataFrame, sparse matrix, xgboost.DMatrix or None
        None where the library has freed the rows.
    y : array-like or None
    sample_weight, base_margin : array-like or None
    """

    X: Any
    y: Any
    sample_weight: Any = None
    base_margin: Any = None

    def rows_for(self, model: Any) -> Any:
        """Return X in the form that the adapter of `model` takes: XGBoost's proof needs weights and margins too."""
        weighted = self.sample_weight is not None or self.base_margin is not None
        if not weighted or not _is_xgboost(model) or hasattr(self.X, "get_base_margin"):
            return self.X
        import xgboost

        return xgboost.DMatrix(
            self.X,
            weight=self.sample_weight,
            base_margin=self.base_margin,
            missing=model.missing,
            enable_categorical=True,
        )

    def table(self) -> Any:
        """Return X as a table: the values of a DMatrix, or X itself."""
        return _stored_values(self.X) if hasattr(self.X, "get_base_margin") else self.X


def from_method_call(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of an estimator's ``fit``."""
    return TrainingData(
        arguments.get("X"), arguments.get("y"), arguments.get("sample_weight"), arguments.get("base_margin")
    )


def from_booster_call(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of ``xgboost.train``."""
    matrix = arguments["dtrain"]
    weight = matrix.get_weight()
    return TrainingData(matrix, matrix.get_label(), weight if weight.size else None)


def from_dataset_call(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of ``lightgbm.train``, which frees the rows later."""
    dataset = arguments["train_set"]
    return TrainingData(dataset.data if hasattr(dataset.data, "shape") else None, dataset.label, dataset.weight)


def _is_xgboost(model: Any) -> bool:
    return any(cls.__module__.partition(".")[0] == "xgboost" for cls in type(model).__mro__)


def _stored_values(matrix: Any) -> Any:
    """Return the values of a DMatrix; of one that was dense, entries that are not stored are missing, not zero."""
    stored = sparse.csr_matrix(matrix.get_data())
    if stored.nnz < DENSE_SHARE * matrix.num_row() * matrix.num_col():
        return stored
    dense = np.full(stored.shape, np.nan, dtype=np.float32)
    rows = np.repeat(np.arange(stored.shape[0]), np.diff(stored.indptr))
    dense[rows, stored.indices] = stored.data
    return dense
