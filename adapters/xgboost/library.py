"""Training, logging and model files of XGBoost, for the rest of the package; does not import XGBoost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ens_plugin.adapters.library import (
    FitSite,
    Flavor,
    Library,
    NextSize,
    Trainer,
    TrainingData,
    TrainingRows,
    fit_methods,
    fix_seed,
    retrain,
)
from ens_plugin.adapters.members import GROWABLE, as_pandas, label_positions, shortened, with_trained_categories
from ens_plugin.adapters.trees import damage_of_tree
from ens_plugin.errors import DataMismatchError, UnsupportedModelError

# These releases cut the names of pandas' categories where a letter is no ASCII, because they count characters where
# bytes are meant (mended by XGBoost's pull request 12371).
CUTTING = ((3, 1), (3, 2))
LINKS = ("left_children", "right_children", "split_indices")
DENSE_SHARE = 0.5  # share of stored entries above which a DMatrix is taken as dense


class XGBoost(Library):
    """The library XGBoost: its ``train``, scikit-learn interface and model files."""

    library: ClassVar[str] = "xgboost"
    title: ClassVar[str] = "XGBoost"
    flavor: ClassVar[Flavor | None] = Flavor("xgboost", "mlflow.xgboost", "xgb_model")
    requirement: ClassVar[str] = "ens-plugin[xgboost]"
    suffixes: ClassVar[tuple[str, ...]] = (".xgb", ".json", ".ubj")

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return ``xgboost.train`` and the ``fit`` methods of the scikit-learn interface."""
        import xgboost

        forests = xgboost.XGBRFClassifier, xgboost.XGBRFRegressor
        return [
            FitSite(xgboost, "train", train_arguments),
            *fit_methods(xgboost.XGBClassifier, xgboost.XGBRegressor, *forests, read=fit_arguments),
        ]

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains one round of parallel trees anew at each size."""
        import xgboost

        if _is_forest(estimator):
            # Another round of trees would correct the first.
            return partial(_retrained, "n_estimators")
        if not isinstance(estimator, (xgboost.XGBClassifier, xgboost.XGBRegressor)):
            raise UnsupportedModelError(
                f"An {type(estimator).__module__}.{type(estimator).__name__} cannot be grown: a Booster only exists "
                "once it is trained. Pass an unfitted XGBRFClassifier, XGBRFRegressor, or XGBClassifier or "
                f"XGBRegressor with n_estimators=1, learning_rate=1 and subsample below 1. {GROWABLE}."
            )
        cls.refuse_boosting(estimator)
        return partial(_retrained, "num_parallel_tree")

    @classmethod
    def reads(cls, start: bytes) -> bool:
        """Return whether a file with this start is the document of an XGBoost model, JSON or UBJSON."""
        return start.startswith(b"{") and b"learner" in start

    @classmethod
    def read(cls, content: bytes) -> Any:
        """Return the Booster that is read from the document of a model."""
        import xgboost

        # From memory, because XGBoost takes the format of a path from the file's name.
        return xgboost.Booster(model_file=bytearray(content))

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return the damage that makes a Booster unsafe to predict with, or None."""
        return find_damage(held) if type(held).__name__ == "Booster" and cls.accepts(held) else None

    @classmethod
    def refuse_boosting(cls, estimator: Any) -> None:
        """Raise UnsupportedModelError if an unfitted estimator's parameters request several boosting rounds."""
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
        """Return the predictions of a model for rows: of a booster for a DMatrix, or for any table."""
        if not _is_booster(model):
            return model.predict(_as_table(rows))
        return model.predict(rows) if hasattr(rows, "get_data") else model.inplace_predict(as_pandas(rows))

    @classmethod
    def predict_proba(cls, model: Any, rows: Any) -> Any:
        """Return the probabilities that a classifier predicts for rows, tables of Arrow among them."""
        return model.predict_proba(_as_table(rows))

    @classmethod
    def labels(cls, model: Any, rows: Any) -> NDArray[Any]:
        """Return the predicted labels; of a Booster, the position of the highest margin of each row."""
        if not _is_booster(model):
            return super().labels(model, rows)
        return label_positions(model.inplace_predict(as_pandas(rows), predict_type="margin"))

    @classmethod
    def feature_names(cls, model: Any) -> list[str] | None:
        """Return the names of the features that the model was trained on; None if it was trained without names."""
        return model.feature_names if _is_booster(model) else super().feature_names(model)

    @classmethod
    def n_features(cls, model: Any) -> int | None:
        """Return the number of features that the model was trained on; None where it is not stored."""
        return int(model.num_features()) if _is_booster(model) else super().n_features(model)

    @classmethod
    def with_categories(cls, model: Any, table: Any) -> Any:
        """Return a table whose columns of categories are those that the booster was trained on."""
        # Boosters store them from XGBoost 3.1 on; before, the table is returned as it is.
        booster = model if _is_booster(model) else model.get_booster()
        if "c" not in (booster.feature_types or ()) or not hasattr(booster, "get_categories"):
            return table
        stored = booster.get_categories(export_to_arrow=True).to_arrow()
        if stored is None:
            return table
        trained = {
            name: stored_categories(own, table[name])
            for name, own in stored
            if own is not None and not hasattr(table[name].dtype, "categories")
        }
        return with_trained_categories(table, trained)


@dataclass(frozen=True, eq=False)
class _Table(TrainingData):
    """Training data of an estimator, with the weights and base margins that the proof of its bags needs."""

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
        """Return the rows as a CSR matrix or, where most values are stored, as an array with NaN for the others."""
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


def _as_table(rows: Any) -> Any:
    """Return rows as an estimator takes them, which refuses a DMatrix."""
    return rows.get_data() if hasattr(rows, "get_data") else as_pandas(rows)


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


def stored_categories(stored: Any, column: Any) -> list[Any]:
    """Return the categories that a booster stores for a column; raise DataMismatchError where they may be cut."""
    import pyarrow as pa
    import xgboost

    if not pa.types.is_string(stored.type):
        return list(stored.to_pylist())
    names = [piece.decode(errors="replace") for piece in stored.cast(pa.binary()).to_pylist()]
    values = [str(value) for value in column.dropna().unique()]
    if all(map(str.isascii, [*names, *values])):
        return names
    is_cutting = tuple(map(int, xgboost.__version__.split(".")[:2])) in CUTTING
    if is_cutting or "\ufffd" in "".join(names) or not set(values) <= set(names):
        raise DataMismatchError(
            f"The categories of the column {str(column.name)!r} cannot be read from the booster: XGBoost 3.1 and 3.2 "
            f"cut names with letters that are no ASCII ({shortened(names)}; the column holds {shortened(values)}). "
            "Pass the column as the categories of training: in a parquet file of pandas, which stores them, or in "
            "Python as X[column].astype(X_train[column].dtype)."
        )
    return names


def find_damage(booster: Any) -> str | None:
    """Return the damage that makes a booster, which XGBoost itself has read, unsafe to predict with, or None."""
    learner = json.loads(booster.save_raw("json"))["learner"]
    part, parameters = learner["gradient_booster"], learner["learner_model_param"]
    if part["name"] == "gblinear":
        return None
    model = (part["gbtree"] if part["name"] == "dart" else part)["model"]
    n_groups = max(int(parameters["num_class"]), int(parameters.get("num_target", "1")), 1)
    trees, group = model["trees"], np.array(model["tree_info"], dtype=np.int64)
    starts = np.array(model.get("iteration_indptr", [0, len(trees)]), dtype=np.int64)
    if group.size != len(trees) or (group.size and (group.min() < 0 or group.max() >= n_groups)):
        return "it has trees of a label that it does not have"
    if starts.size == 0 or starts[0] != 0 or starts[-1] != len(trees) or (np.diff(starts) < 0).any():
        return "its rounds do not contain each of its trees once"
    for index, tree in enumerate(trees):
        left, right, feature = (np.array(tree[name], dtype=np.int64) for name in LINKS)
        if (damage := damage_of_tree(left, right, feature, int(parameters["num_feature"]))) is not None:
            return f"tree {index} {damage}"
    return None
