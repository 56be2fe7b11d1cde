"""What the rest of the package needs to know about XGBoost, beside its trained trees; does not import it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.adapters.library import FileReadable, Flavor, NativeInterface, Trainable
from ens_plugin.adapters.shared.labels import label_positions
from ens_plugin.adapters.shared.refusals import GROWABLE
from ens_plugin.adapters.training import (
    FitSite,
    NextSize,
    Trainer,
    TrainingData,
    TrainingRows,
    fit_methods,
    fix_seed,
    retrain,
)
from ens_plugin.adapters.xgboost.document import damage
from ens_plugin.errors import UnsupportedModelError

__all__ = ["XGBoost", "fit_arguments", "train_arguments"]

DENSE_SHARE = 0.5  # of stored entries, above which a DMatrix was made of a dense table


class XGBoost(Trainable, FileReadable, NativeInterface):
    """XGBoost's ``train``, scikit-learn interface and model files."""

    library: ClassVar[str] = "xgboost"
    size_parameters: ClassVar[tuple[str, ...]] = ("num_parallel_tree", "n_estimators")
    title: ClassVar[str] = "XGBoost"
    flavor: ClassVar[Flavor | None] = Flavor("xgboost", "mlflow.xgboost", "xgb_model")
    requirement: ClassVar[str] = "ens-plugin[xgboost]"
    suffixes: ClassVar[tuple[str, ...]] = (".xgb", ".json", ".ubj")

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return ``xgboost.train`` and the ``fit`` methods."""
        import xgboost

        forests = xgboost.XGBRFClassifier, xgboost.XGBRFRegressor
        return [
            FitSite(xgboost, "train", train_arguments),
            *fit_methods(xgboost.XGBClassifier, xgboost.XGBRegressor, *forests, read=fit_arguments),
        ]

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the training anew, at each size, of one round of parallel trees."""
        import xgboost

        if _is_forest(estimator):
            # Another round of trees would correct the first.
            return partial(_retrained, "n_estimators")
        if not isinstance(estimator, (xgboost.XGBClassifier, xgboost.XGBRegressor)):
            raise UnsupportedModelError(
                f"A {type(estimator).__module__}.{type(estimator).__name__} cannot be grown: a Booster only exists "
                "once it is trained. Pass an unfitted XGBRFClassifier, XGBRFRegressor, or XGBClassifier or "
                f"XGBRegressor with n_estimators=1, learning_rate=1 and subsample below 1. {GROWABLE}."
            )
        cls.refuse_boosting(estimator)
        return partial(_retrained, "num_parallel_tree")

    @classmethod
    def reads(cls, start: bytes) -> bool:
        """Return whether a file with this start is a document of XGBoost, JSON or UBJSON."""
        return start.startswith(b"{") and b"learner" in start

    @classmethod
    def read(cls, content: bytes) -> Any:
        """Return the Booster in a document."""
        import xgboost

        # From memory, because XGBoost takes the format of a path from the file's name.
        return xgboost.Booster(model_file=bytearray(content))

    @classmethod
    def find_file_damage(cls, content: bytes) -> str | None:
        """Return what makes a document unsafe to give to XGBoost."""
        return damage.find_damage(content)

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return what makes a Booster unsafe to predict with."""
        is_booster = type(held).__name__ == "Booster" and cls.accepts(held)
        return damage.find_damage(bytes(held.save_raw("ubj"))) if is_booster else None

    @classmethod
    def refuse_boosting(cls, estimator: Any) -> None:
        """Raise UnsupportedModelError if the parameters request several rounds."""
        import xgboost

        if not isinstance(estimator, xgboost.XGBModel) or _is_forest(estimator):
            return
        if estimator.n_estimators != 1:
            raise UnsupportedModelError(
                f"This {type(estimator).__name__} has n_estimators={estimator.n_estimators} boosting rounds (None "
                "stands for 100), and the trees of each round correct those of the rounds before. Set n_estimators=1, "
                "learning_rate=1 and subsample=0.632: the members are then the num_parallel_tree trees of one round. "
                "Or pass an XGBRFClassifier or XGBRFRegressor."
            )

    @classmethod
    def predict(cls, model: Any, rows: Any) -> Any:
        """Return the predictions; ``Booster.predict`` takes a DMatrix only."""
        return model.inplace_predict(rows) if _is_booster(model) else model.predict(rows)

    @classmethod
    def labels(cls, model: Any, rows: Any) -> NDArray[Any]:
        """Return the labels; of a Booster, the position of the highest margin."""
        if not _is_booster(model):
            return super().labels(model, rows)
        return label_positions(model.inplace_predict(rows, predict_type="margin"))

    @classmethod
    def feature_names(cls, model: Any) -> list[str] | None:
        """Return the names of the features, or None."""
        return model.feature_names if _is_booster(model) else super().feature_names(model)

    @classmethod
    def n_features(cls, model: Any) -> int | None:
        """Return the number of features, or None."""
        return int(model.num_features()) if _is_booster(model) else super().n_features(model)


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


def _is_booster(model: object) -> bool:
    import xgboost

    return isinstance(model, xgboost.Booster)


def _is_forest(estimator: object) -> bool:
    import xgboost

    return isinstance(estimator, (xgboost.XGBRFClassifier, xgboost.XGBRFRegressor))


def _retrained(parameter: str, model: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    if model.random_state is not None:
        fix_seed(model)
    return retrain(parameter, model, rows, first, next_size, _weighted_matrix(model, rows))


def _weighted_matrix(model: Any, rows: TrainingRows) -> Any:
    """Return X with its weights, without which the sums in XGBoost's leaves prove no bags."""
    if rows.sample_weight is None:
        return rows.X
    from xgboost import DMatrix

    options = {"missing": model.missing, "enable_categorical": model.enable_categorical}
    return DMatrix(rows.X, weight=rows.sample_weight, **options)
