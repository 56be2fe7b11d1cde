"""LightGBM as a library: training, files, rows and objectives; does not import LightGBM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ens_plugin.adapters.library import (
    FitSite,
    Flavor,
    Library,
    NextSize,
    TrainedModel,
    Trainer,
    TrainingData,
    TrainingRows,
    fit_methods,
    fix_seed,
)
from ens_plugin.adapters.lightgbm.document import MODEL_START, SIZE_ALIASES, find_damage
from ens_plugin.adapters.members import (
    GROWABLE,
    as_pandas,
    check_no_text,
    is_text,
    label_positions,
    shortened,
    with_trained_categories,
)
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import BagError, DataMismatchError, InputError, UnsupportedModelError


class PreparedRows:
    """A table that can be sliced by rows, with the leaves that its rows reach where these are computed."""

    def __init__(self, table: Any, leaves: NDArray[Any] | None = None) -> None:
        self.table = table
        self.shape: tuple[int, int] = table.shape
        self.leaves = leaves

    def __getitem__(self, rows: Any) -> PreparedRows:
        table = self.table.iloc[rows] if hasattr(self.table, "iloc") else self.table[rows]
        return PreparedRows(table, None if self.leaves is None else self.leaves[:, rows])

    def blocks(self, n_rows: int) -> Iterator[PreparedRows]:
        """Yield all rows in order, `n_rows` at a time."""
        for start in range(0, self.shape[0], n_rows):
            yield self[start : start + n_rows]


def prepare_table(booster: Any, X: Any) -> Any:
    """Return X as an array, CSR matrix or DataFrame, its columns checked against `booster`.

    LightGBM itself turns these into numbers, categories included, when it predicts.
    """
    X = as_pandas(X)
    if hasattr(X, "iloc"):
        table = X
    elif hasattr(X, "tocsr"):
        table = X.tocsr()
    else:
        table = _as_array(X)
    if len(table.shape) != 2:
        raise InputError(f"X must have two dimensions, rows and columns, got shape {table.shape}.")
    if table.shape[1] != booster.num_feature():
        raise DataMismatchError(
            f"X has {counted(table.shape[1], 'column')}, but the model was trained on {booster.num_feature()}; pass "
            "the columns it was trained on, in the same order."
        )
    if hasattr(table, "columns"):
        _check_names(booster.feature_name(), table.columns)
        _check_categories(booster, table)
    return table


def with_categories(booster: Any, table: Any) -> Any:
    """Return a DataFrame whose columns of text, or of values that were categories, are the booster's categories.

    The booster stores the categories of each column in order, without its name.  The table is returned as it is unless
    its columns of text, or the columns that the trees split by category, are as many as those that are stored.
    """
    stored = booster.pandas_categorical or []
    if not stored or _category_columns(table):
        return table
    texts = [name for name, column in table.items() if is_text(column)]
    for names in (texts, [name for name in table.columns if name in {*texts, *_split_by_category(booster, table)}]):
        if len(names) == len(stored):
            return with_trained_categories(table, dict(zip(names, stored, strict=True)))
    return table


def _split_by_category(booster: Any, table: Any) -> list[Any]:
    known = booster.dump_model(num_iteration=1)["feature_infos"]
    trained = zip(booster.feature_name(), table.columns, strict=True)
    return [name for own, name in trained if known.get(own, {}).get("values")]


def _category_columns(table: Any) -> list[str]:
    return [str(name) for name, column in table.items() if hasattr(column.dtype, "categories")]


def _check_categories(booster: Any, table: Any) -> None:
    found, stored = _category_columns(table), booster.pandas_categorical or []
    if len(found) != len(stored):
        raise DataMismatchError(
            f"The model was trained on {counted(len(stored), 'column')} of categories, and X has {len(found)}"
            f"{f' ({shortened(found)})' if found else ''}. Pass the same columns as categories of pandas as for "
            "training: X[column] = X[column].astype(X_train[column].dtype)."
        )
    check_no_text(table)


def _as_array(X: Any) -> NDArray[Any]:
    try:
        array = np.asarray(X)
        return array.astype(np.float64) if array.dtype.kind not in "biuf" else array
    except (TypeError, ValueError) as error:
        raise InputError(
            f"X cannot be used ({error}); pass numbers as an array, a sparse matrix or a DataFrame."
        ) from error


def _check_names(trained: list[str], columns: Any) -> None:
    if trained == [f"Column_{index}" for index in range(len(trained))]:
        return  # trained on an array
    # LightGBM stores names with underscores for blanks.
    names = [str(name).replace(" ", "_") for name in columns]
    if names == trained:
        return
    missing = [name for name in trained if name not in set(names)]
    found = f"missing {shortened(missing)}" if missing else "the same names in another order, or repeated"
    raise DataMismatchError(
        f"The columns of X are not the ones the model was trained on ({found}); pass them in training order."
    )


# The names of a parameter, LightGBM's own first, which it prefers to the others.
FRACTION = ("bagging_fraction", "bagging", "sub_row", "subsample")
FREQUENCY = ("bagging_freq", "subsample_freq")
FRACTIONS_BY_LABEL = tuple(
    (f"{sign}_bagging_fraction", f"{sign}_sub_row", f"{sign}_subsample", f"{sign}_bagging") for sign in ("pos", "neg")
)


class LightGBM(Library):
    """The library LightGBM: its ``train``, scikit-learn interface and model files."""

    library: ClassVar[str] = "lightgbm"
    title: ClassVar[str] = "LightGBM"
    flavor: ClassVar[Flavor | None] = Flavor("lightgbm", "mlflow.lightgbm", "lgb_model")
    requirement: ClassVar[str] = "ens-plugin[lightgbm]"
    suffixes: ClassVar[tuple[str, ...]] = (".lgb",)

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return ``lightgbm.train`` and the ``fit`` methods of the scikit-learn interface."""
        import lightgbm

        return [
            FitSite(lightgbm, "train", train_arguments),
            *fit_methods(lightgbm.LGBMClassifier, lightgbm.LGBMRegressor),
        ]

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains an estimator in ``rf`` mode in a single fit."""
        from lightgbm import LGBMClassifier, LGBMRegressor

        if not isinstance(estimator, (LGBMClassifier, LGBMRegressor)):
            raise UnsupportedModelError(
                f"A {type(estimator).__module__}.{type(estimator).__name__} cannot be grown: pass an unfitted "
                f"LGBMClassifier or LGBMRegressor with boosting_type='rf'. {GROWABLE}."
            )
        cls.refuse_boosting(estimator)
        _refuse_no_bags(estimator)
        return _in_one_fit

    @classmethod
    def reads(cls, start: bytes) -> bool:
        """Return whether a file with this start is the text of a LightGBM model."""
        return start.startswith(MODEL_START)

    @classmethod
    def read(cls, content: bytes) -> Any:
        """Return the Booster that is read from the text of a model."""
        import lightgbm

        return lightgbm.Booster(model_str=content.decode())

    @classmethod
    def find_file_damage(cls, content: bytes) -> str | None:
        """Return the damage that makes the text of a model unsafe for LightGBM to read, or None."""
        return find_damage(content)

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return the damage that makes a Booster unsafe to predict with, or None."""
        is_booster = type(held).__name__ == "Booster" and cls.accepts(held)
        return find_damage(held.model_to_string(num_iteration=-1).encode()) if is_booster else None

    @classmethod
    def refuse_boosting(cls, estimator: Any) -> None:
        """Raise UnsupportedModelError unless an unfitted estimator's parameters request ``rf`` mode."""
        from lightgbm import LGBMModel

        if not isinstance(estimator, LGBMModel):
            return
        parameters = estimator.get_params()
        kind = next((parameters[name] for name in ("boosting", "boost") if name in parameters), estimator.boosting_type)
        if kind not in ("rf", "random_forest"):
            raise UnsupportedModelError(
                f"This {type(estimator).__name__} has boosting_type={kind!r}: its trees correct one another, so they "
                "are not members drawn alike. Set boosting_type='rf', subsample=0.632 and subsample_freq=1."
            )

    @classmethod
    def predict(cls, model: Any, rows: Any) -> Any:
        """Return the predictions of a model for rows, without categories of Arrow, which end LightGBM's process."""
        return model.predict(as_pandas(rows))

    @classmethod
    def predict_proba(cls, model: Any, rows: Any) -> Any:
        """Return the probabilities that a classifier predicts for rows, without categories of Arrow."""
        return model.predict_proba(as_pandas(rows))

    @classmethod
    def labels(cls, model: Any, rows: Any) -> NDArray[Any]:
        """Return the predicted labels; of a Booster, the position of the highest raw score of each row."""
        if not _is_booster(model):
            return super().labels(model, rows)
        return label_positions(model.predict(as_pandas(rows), raw_score=True))

    @classmethod
    def feature_names(cls, model: Any) -> list[str] | None:
        """Return the names of the features; None where LightGBM generated them for features without names."""
        booster = model if _is_booster(model) else getattr(model, "booster_", None)
        names = [] if booster is None else booster.feature_name()
        return None if names == [f"Column_{index}" for index in range(len(names))] else names

    @classmethod
    def n_features(cls, model: Any) -> int | None:
        """Return the number of features that the model was trained on; None where it is not stored."""
        return int(model.num_feature()) if _is_booster(model) else super().n_features(model)

    @classmethod
    def with_categories(cls, model: Any, table: Any) -> Any:
        """Return a table whose columns of categories are those that the booster was trained on."""
        booster = model if _is_booster(model) else getattr(model, "booster_", None)
        return table if booster is None else with_categories(booster, table)


def train_arguments(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of ``lightgbm.train``, which frees the rows later."""
    dataset = arguments["train_set"]
    return TrainingData(dataset.data if hasattr(dataset.data, "shape") else None, dataset.label, dataset.weight)


def _refuse_no_bags(estimator: Any) -> None:
    """Raise BagError if an unfitted estimator's parameters let every tree be trained on every row."""
    parameters = estimator.get_params()
    fraction, frequency, *by_label = (
        next((parameters[name] for name in names if name in parameters), None)
        for names in (FRACTION, FREQUENCY, *FRACTIONS_BY_LABEL)
    )
    is_drawn = any(drawn is not None and drawn < 1 for drawn in (fraction, *by_label))
    if not (is_drawn and frequency and frequency > 0):
        raise BagError(
            f"With subsample={fraction} and subsample_freq={frequency}, every tree of this {type(estimator).__name__} "
            "would be trained on every row, so no row would be out of bag. Set subsample=0.632 and subsample_freq=1."
        )


def _is_booster(model: object) -> bool:
    from lightgbm import Booster

    return isinstance(model, Booster)


def _in_one_fit(model: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Return a forest trained in a single fit, ended by a callback, because LightGBM cannot continue a forest."""
    from lightgbm import Booster, LGBMClassifier
    from lightgbm.callback import EarlyStopException

    if model.random_state is not None:
        fix_seed(model)
    codes = np.unique(rows.y, return_inverse=True)[1].ravel() if isinstance(model, LGBMClassifier) else rows.y
    wanted = first

    def stop_at_size(environment: Any) -> None:
        nonlocal wanted
        size = environment.iteration + 1
        rows.progress(size)
        if size < wanted:
            return
        so_far = Booster(model_str=environment.model.model_to_string())
        larger = next_size(TrainedModel(so_far, rows.X, codes, size, size))
        if larger is None:
            raise EarlyStopException(environment.iteration, [])
        wanted = larger

    sizes = ["n_estimators", *(name for name in SIZE_ALIASES if name in model.get_params())]
    rows.fit(model.set_params(**dict.fromkeys(sizes, rows.max_size)), callbacks=[stop_at_size])
    # The parameters state the final size, as if the model had been trained at it from the start.
    return find_adapter(model).truncated(wanted)


_VALUES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
_LABELS = ("binary", "multiclass", "multiclassova")


@dataclass(frozen=True)
class Objective:
    """Objective that a LightGBM model was trained for, read from its text.

    Attributes
    ----------
    name : str
        LightGBM's own name, ``"custom"`` where the text has none.
    n_labels : int
        Number of labels; 0 unless the task is classification.
    sigmoid : float
        Factor of the raw score inside the logistic function.
    square_root : bool
        Whether square roots of the target were fitted (``reg_sqrt``).
    """

    name: str
    n_labels: int
    sigmoid: float
    square_root: bool

    @property
    def averages_values(self) -> bool:
        """Return whether a prediction is the mean of the members' values, without a link."""
        return self.name in _VALUES and not self.square_root

    @property
    def is_covered(self) -> bool:
        """Return whether an error curve can be estimated: for mean values, or labels chosen by mean scores."""
        return self.averages_values or self.n_labels > 0

    def inverse_link(self, mean_score: FloatArray) -> FloatArray:
        """Return the predictions for mean raw scores of shape (n_rows, n_labels), or for mean values."""
        if self.name == "binary":
            positive = expit(self.sigmoid * (mean_score[:, 1] - mean_score[:, 0]))
            return np.stack([1.0 - positive, positive], axis=1)
        if self.name == "multiclass":
            return np.asarray(softmax(mean_score, axis=1))
        if self.name == "multiclassova":
            return np.asarray(expit(self.sigmoid * mean_score))
        return mean_score


def read_objective(line: str | None) -> Objective:
    """Return the objective that a line of a model's text states."""
    name, *options = (line or "custom").split()
    values = dict(option.split(":", 1) for option in options if ":" in option)
    n_labels = 0
    if name in _LABELS:
        n_labels = int(values.get("num_class", "2"))
    return Objective(name, n_labels, float(values.get("sigmoid", "1")), "sqrt" in options)
