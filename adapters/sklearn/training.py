"""How ensembles of scikit-learn were trained and predict: their rows, targets, weights, classes and checks."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import sklearn.exceptions
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.metrics import r2_score
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ens_plugin import errors
from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.library import NextSize, TrainedModel, TrainingRows, fix_seed
from ens_plugin.adapters.members import column_names, label_codes, other_row_count, reason_of, refusals, shortened
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.tally import both_scores
from ens_plugin.core.validation import ROUNDING, counted
from ens_plugin.errors import DataMismatchError, InputError, NotFittedError, UnsupportedModelError

RELEASE = tuple(int(part) for part in sklearn.__version__.split(".")[:2])

# scikit-learn 1.6 renamed the argument; nothing else about the call differs from 1.4 to 1.9.
_ACCEPT_NAN = {"ensure_all_finite" if RELEASE >= (1, 6) else "force_all_finite": False}
TRAINING = ("fit", "estimators_samples_")
_PREDICTING = ("predict", "predict_proba")
LEARNING = (*TRAINING, *_PREDICTING)
# The model predicts some of the rows of which the members' mean is known: half of them at random, and half where the
# two likeliest labels are closest, which another threshold than the largest mean predicts differently.
KNOWN_ROWS, MIXTURES, COMPARED_ROWS = 128, 3, 32
# Relative difference of predictions that single precision explains.
CLOSE = 1e-5
_REMEDY = (
    "If the members' mean is what you want to judge, pass an ensemble of scikit-learn's own class with the same "
    "members, such as plain = RandomForestClassifier(), after vars(plain).update(vars(model)), or model.booster_ of "
    "LightGBM, or model.get_booster() of XGBoost. Else pass what the "
    "members predict, ens_plugin.CustomEnsemble(outputs, in_bag, ...), or register an adapter with "
    "ens_plugin.register_adapter."
)


def check_fitted(model: Any) -> None:
    """Raise NotFittedError unless `model` has been fitted."""
    try:
        check_is_fitted(model, "estimators_")
    except SklearnNotFittedError as error:
        name = type(model).__name__
        raise NotFittedError(f"This {name} has not been fitted; call its fit(X, y) first.") from error


def known_class(model: object, known: tuple[type, ...]) -> type | None:
    """Return the first of the `known` classes that a model is of, or the class of scikit-learn-intelex in its place."""
    # After `patch_sklearn()`, the same names in `sklearn.ensemble` are classes that are not derived from the known
    # ones. What these leave to scikit-learn, as a fit of sparse rows, is an ensemble like scikit-learn's own.
    names = {cls.__name__ for cls in known}
    for cls in type(model).__mro__:
        if cls in known or (cls.__module__.startswith("sklearnex.") and cls.__name__ in names):
            return cls
    return None


def check_learner(model: Any, known: tuple[type, ...], methods: tuple[str, ...] = LEARNING) -> None:
    """Raise UnsupportedModelError if a subclass of the `known` classes replaces how they train or predict."""
    parent = known_class(model, known)
    assert parent is not None
    replaced = [name for name in methods if getattr(type(model), name, None) is not getattr(parent, name, None)]
    if replaced:
        raise UnsupportedModelError(
            f"{type(model).__name__} replaces {', '.join(replaced)} of scikit-learn's {parent.__name__}, so its bags "
            "or its votes may be others than scikit-learn's. Pass ens_plugin.CustomEnsemble(outputs, in_bag, ...) "
            "instead, or, with rows that none of them was trained on, ens_plugin.CustomEnsemble.from_estimators("
            "model.estimators_, None), or register an adapter for it with ens_plugin.register_adapter, or install one "
            "as a package with an entry point of the group 'ens_plugin.adapters', which the command line finds too."
        )


def prepare_rows(model: Any, X: Any, dtype: type | None) -> Any:
    """Return X as a C-ordered array or CSR matrix of `dtype`, its columns checked against `model`.

    Parameters
    ----------
    model : fitted scikit-learn estimator
    X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features)
    dtype : type or None
        None keeps the type of `X`.

    Raises
    ------
    DataMismatchError
        If the columns are not the ones the model was trained on.
    InputError
        If `X` is not a table of numbers, or holds values the model refuses.
    """
    check_columns(model, X)
    try:
        with np.errstate(over="ignore"):  # values too large for float32 become infinite, which is refused below
            rows = check_array(X, accept_sparse="csr", dtype=dtype, order="C", **_ACCEPT_NAN)
    except (TypeError, ValueError) as error:
        raise InputError(f"X cannot be used ({error}); pass the rows as the model's predict takes them.") from error
    if rows.shape[1] != model.n_features_in_:
        raise DataMismatchError(
            f"X has {counted(rows.shape[1], 'column')}, but the {type(model).__name__} was trained on "
            f"{model.n_features_in_}; pass the columns it was trained on, in the same order."
        )
    if not isinstance(rows, np.ndarray) and dtype is not None and rows.indices.dtype != np.intc:
        raise InputError(
            "X is a sparse matrix with 64-bit indices, which scikit-learn's trees cannot read; convert its indices and "
            "indptr to 32-bit integers."
        )
    _check_values(model, rows)
    return rows


def check_columns(model: Any, X: Any) -> None:
    """Raise DataMismatchError if a DataFrame's or Table's columns are not those `model` was trained on, in order."""
    expected = getattr(model, "feature_names_in_", None)
    columns = column_names(X)
    if expected is None or columns is None or columns == list(expected):
        return
    missing = [name for name in expected if name not in set(columns)]
    extra = [name for name in columns if name not in set(expected)]
    found = "; ".join(
        [f"missing {shortened(missing)}"] * bool(missing)
        + [f"unknown {shortened(extra)}"] * bool(extra)
        + ["the same names in another order, or repeated"] * (not missing and not extra)
    )
    remedy = (
        "rename or add the missing columns of X"
        if missing
        else "pass X[model.feature_names_in_], of an Arrow Table X.select(model.feature_names_in_)"
    )
    raise DataMismatchError(
        f"The columns of X are not the ones the {type(model).__name__} was trained on ({found}); {remedy}."
    )


def check_row_count(model: Any, n_rows: int) -> None:
    """Raise DataMismatchError if `model` was fitted on another number of rows than `n_rows`."""
    # No public attribute keeps the number of training rows; every release from 1.4 to 1.9 keeps this one.
    trained = model._n_samples
    if trained != n_rows:
        raise other_row_count(model, n_rows, str(trained))


def drawing_weight(model: Any) -> NDArray[np.float64] | None:
    """Return the weights by which `model` drew its rows; None where all rows had the same chance."""
    # scikit-learn draws by weight since 1.9; before, weights did not change which rows are drawn.
    # No public attribute keeps them; a forest or bagging ensemble of an earlier release has none.
    weight = getattr(model, "_sample_weight", None)
    if weight is None or np.ptp(weight) == 0:
        return None
    return np.asarray(weight, dtype=np.float64)


def draws_by_weight(model: Any) -> bool:
    """Return whether the release that trained `model` draws rows by weights, which have no effect inside its trees."""
    # scikit-learn does so since 1.9, of bagging since 1.8, and keeps the weights from then on, or None where there are
    # none. What an earlier release trained has no such attribute, also after a later one has loaded it.
    return hasattr(model, "_sample_weight")


def redrawable(model: Any) -> Any:
    """Return an ensemble whose ``estimators_samples_`` can be read: `model`, or a copy whose rows have no weights."""
    # Of an ensemble that an earlier release trained, scikit-learn from 1.9 on misses the weights of its rows; they had
    # no effect on which rows were drawn.
    if draws_by_weight(model):
        return model
    again = copy(model)
    again._sample_weight = None
    return again


def training_target(y: ArrayLike | None, classes: NDArray[Any] | None, n_rows: int) -> NDArray[Any] | None:
    """Return the training target as label codes, or as float64 where `classes` is None; None stays None.

    Raises
    ------
    DataMismatchError
        If `y` is not one value per row, or holds a label the model was not trained on.
    """
    if y is None:
        return None
    target = np.asarray(y)
    if target.shape not in {(n_rows,), (n_rows, 1)}:
        raise DataMismatchError(
            f"y has shape {target.shape}, but X has {counted(n_rows, 'row')}; pass one value per row."
        )
    target = target.reshape(n_rows)
    return target.astype(np.float64) if classes is None else label_codes(target, classes)


def oob_score(outputs: NDArray[Any], target: NDArray[Any]) -> float:
    """Return the out-of-bag score of bagging ensembles: accuracy of the likeliest label, or R2 of the values."""
    if outputs.ndim == 2:
        return float(np.mean(np.argmax(outputs, axis=1) == target))
    return float(r2_score(target, outputs))


def _check_values(model: Any, rows: Any) -> None:
    values = rows if isinstance(rows, np.ndarray) else rows.data
    if values.dtype.kind != "f":
        return
    # A finite sum proves every value finite, with no second array as large as X.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    for name, suspect in (("NaN", np.isnan(values)), ("infinite values", np.isinf(values))):
        if suspect.any():
            _check_with_model(model, rows, _rows_with(rows, suspect), name)


def _rows_with(rows: Any, suspect: NDArray[np.bool_]) -> NDArray[np.intp]:
    if isinstance(rows, np.ndarray):
        return np.flatnonzero(suspect.any(axis=1))
    return np.unique(np.searchsorted(rows.indptr, np.flatnonzero(suspect), side="right") - 1)


def _check_with_model(model: Any, rows: Any, found: NDArray[np.intp], name: str) -> None:
    """Raise InputError if the model refuses NaN or infinite values, which depends on release and parameters."""
    first = int(found[0])
    try:
        with warnings.catch_warnings():
            # These rows are an array, also where the user passed a data frame as for the training.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            model.predict(rows[first : first + 1])
    except ValueError as error:
        raise InputError(
            f"{counted(found.size, 'holds', 'hold', of=f'{rows.shape[0]} rows of X')} {name} as {rows.dtype} (row "
            f"{first} is the first), which the model refuses. Fill these values in as for the training, or leave the "
            f"rows out. The model's own message: {error}"
        ) from error


def warm_started(ensemble: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Return an ensemble trained by warm starts, with the same members, to the bit, as in one training: a Trainer."""
    fix_seed(ensemble)
    kept, size, wanted, seeds = ensemble.warm_start, 0, first, list[Any]()
    ensemble.set_params(warm_start=True)
    while True:
        for part in _parts(size, wanted, rows.batch):
            with warnings.catch_warnings():
                # scikit-learn warns of balanced weights in warm starts; here every call has the same rows.
                warnings.filterwarnings("ignore", message="class_weight presets", category=UserWarning)
                rows.fit(ensemble.set_params(n_estimators=part))
            if hasattr(ensemble, "_seeds"):
                # A warm start of bagging keeps the seeds of its own members only, and the bags of the others could not
                # be drawn again.
                seeds.append(ensemble._seeds)
                ensemble._seeds = np.concatenate(seeds)
            rows.progress(part)
        size = wanted
        larger = next_size(TrainedModel(ensemble, rows.X, rows.y, size, size))
        if larger is None:
            return ensemble.set_params(warm_start=kept)
        wanted = larger


def _parts(size: int, wanted: int, batch: int | None) -> Iterator[int]:
    """Yield increasing sizes above `size` up to `wanted`, at most `batch` members apart."""
    if batch is not None:
        yield from range(size + batch, wanted, batch)
    yield wanted


class UnfittedLearnerError(errors.NotFittedError, sklearn.exceptions.NotFittedError):
    """Error for an estimator that has not been fitted yet; also a scikit-learn NotFittedError."""


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if the block raises an exception."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def require_fitted(estimator: Any, attribute: str) -> None:
    """Raise UnfittedLearnerError if the estimator lacks `attribute`."""
    try:
        check_is_fitted(estimator, attribute)
    except sklearn.exceptions.NotFittedError as error:
        raise UnfittedLearnerError(str(error)) from error


def check_fitted_columns(estimator: Any, X: Any) -> None:
    """Raise DataMismatchError unless the names and the number of the columns of X are those of the fit."""
    if not hasattr(estimator, "n_features_in_") or getattr(X, "ndim", 2) != 2:
        return
    # An array has no names, and all that scikit-learn compares then is this; its function takes longer than a tree.
    is_plain = type(X) is np.ndarray and not hasattr(estimator, "feature_names_in_")
    if is_plain and X.shape[1] == estimator.n_features_in_:
        return
    try:
        if hasattr(estimator, "_check_n_features"):  # scikit-learn before 1.6
            estimator._check_feature_names(X, reset=False)
            estimator._check_n_features(X, reset=False)
        else:
            from sklearn.utils.validation import validate_data

            validate_data(estimator, X, reset=False, skip_check_array=True)
    except ValueError as error:
        raise errors.DataMismatchError(str(error)) from error


def take_columns(estimator: Any, fitted: Any) -> None:
    """Set the number and the names of an estimator's columns to those that the model inside it was fitted to."""
    # What the model does not store is deleted from the estimator.
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(fitted, name):
            setattr(estimator, name, getattr(fitted, name))
        else:
            vars(estimator).pop(name, None)


def checked_rows(estimator: Any, **rows: Any) -> Any:
    """Return X (and y), checked as in a fit or a prediction of `estimator`, but with missing values allowed."""
    with refusals():
        if RELEASE < (1, 6):  # which has no public name for this
            return estimator._validate_data(**rows, accept_sparse="csr", dtype=None, **_ACCEPT_NAN)
        from sklearn.utils.validation import validate_data

        return validate_data(estimator, **rows, accept_sparse="csr", dtype=None, **_ACCEPT_NAN)


def check_predictions(adapter: EnsembleAdapter, features: Any, known: tuple[type, ...], **options: Any) -> None:
    """Raise UnsupportedModelError unless a model predicts the mean of its members, on some rows."""
    # A model of one of the `known` classes, with their own methods, does so by its class.
    model = adapter.model
    if type(model) in known and not any(_is_replaced(model, name) for name in _PREDICTING):
        return
    rows = _with_mixed(features[spread_rows(features.shape[0], KNOWN_ROWS)])
    mean = _means(adapter, rows)
    chosen = _telling_rows(mean)
    rows, mean = rows[chosen], mean[chosen]
    if adapter.classes is None:
        pairs = [("predict", _are_close(_called(model, "predict", rows, **options), mean))]
    else:
        pairs = [
            ("predict", _are_labels(_called(model, "predict", rows, **options), mean, adapter.classes)),
            ("predict_proba", _are_close(_called(model, "predict_proba", rows), mean)),
        ]
    for name, is_same in pairs:
        if not is_same.all():
            raise _other(model, adapter.n_members, name, int(np.count_nonzero(~is_same)), is_same.size)


def refuse_other_part(whole: EnsembleAdapter, check: Callable[[], None], size: int) -> None:
    """Raise UnsupportedModelError where `check`, of a copy with the first members of an ensemble, raises anything."""
    try:
        check()
    except Exception as error:  # a user's class may raise anything without all of its members
        name = type(whole.model).__name__
        raise UnsupportedModelError(
            f"This {name} cannot be cut: a copy with its first {counted(size, 'member')} does not predict their mean "
            f"({reason_of(error)}). Train one with n_estimators={size} instead."
        ) from error


def probe_rows(n_features: int, thresholds: dict[int, NDArray[np.float64]]) -> NDArray[np.float32]:
    """Return rows of thresholds of trees, by column in random order; standard normal values where there are none."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(KNOWN_ROWS, n_features))
    for column, values in thresholds.items():
        rows[:, column] = rng.choice(values, KNOWN_ROWS)
    return rows.astype(np.float32)


def _is_replaced(model: Any, name: str) -> bool:
    """Return whether a method of a model is not the one that its library defines."""
    method = getattr(type(model), name, None)
    if method is None or name in vars(model):
        return name in vars(model)
    # A wrapper keeps the name of the module of what it wraps, but not the file.
    homes = (sys.modules[library] for library in ("sklearn", type(model).__module__.partition(".")[0]))
    return not any(Path(method.__code__.co_filename).is_relative_to(Path(str(home.__file__)).parent) for home in homes)


def _with_mixed(rows: Any) -> Any:
    """Return rows of an array, with others whose columns are in random order: members are certain of training rows."""
    if not isinstance(rows, np.ndarray):
        return rows
    rng = np.random.default_rng(0)
    return np.concatenate([rows, *(rng.permuted(rows, axis=0) for _ in range(MIXTURES))])


def _means(adapter: EnsembleAdapter, rows: Any) -> NDArray[np.float64]:
    outputs = adapter.outputs(rows)
    if adapter.output_kind != "labels":
        mean = outputs.mean(axis=0)
        return adapter.inverse_link(both_scores(mean) if adapter.output_kind == "scores" and mean.ndim == 1 else mean)
    assert adapter.classes is not None
    return np.stack([(outputs == code).mean(axis=0) for code in range(len(adapter.classes))], axis=1)


def _telling_rows(mean: NDArray[np.float64]) -> NDArray[np.intp]:
    chosen = spread_rows(len(mean), COMPARED_ROWS)
    if mean.ndim == 1:
        return chosen
    lead = np.diff(np.sort(mean, axis=1)[:, -2:], axis=1)[:, 0]
    close = np.argsort(np.where(lead > ROUNDING, lead, np.inf))[: COMPARED_ROWS // 2]
    return np.union1d(chosen[::2], close)


def _called(model: Any, name: str, rows: Any, **options: Any) -> NDArray[Any]:
    # Boosters' rows hold the table that their own methods take.
    rows = getattr(rows, "table", rows)
    names = getattr(model, "feature_names_in_", None)
    if names is not None and isinstance(rows, np.ndarray):
        # A subclass may read columns by their names.
        import pandas as pd

        rows = pd.DataFrame(rows, columns=names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(getattr(model, name)(rows, **options))
    except Exception as error:  # a user's class may raise anything
        raise UnsupportedModelError(
            f"The {name} of this {type(model).__name__} failed on rows of X ({reason_of(error)}), so it is not known "
            f"to predict the mean of its members. {_REMEDY}"
        ) from error


def _are_close(found: NDArray[Any], mean: NDArray[np.float64]) -> NDArray[np.bool_]:
    if found.shape != mean.shape or found.dtype.kind not in "fiu":
        return np.zeros(len(mean), np.bool_)
    gap = np.abs(found - mean) <= CLOSE * max(float(np.abs(mean).max()), 1.0 if mean.ndim == 2 else 0.0)
    return np.asarray(gap if gap.ndim == 1 else gap.all(axis=1))


def _are_labels(found: NDArray[Any], mean: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[np.bool_]:
    if found.shape != (len(mean),):
        return np.zeros(len(mean), np.bool_)
    is_likeliest = mean >= mean.max(axis=1, keepdims=True) - ROUNDING
    return np.asarray((is_likeliest & (found[:, None] == classes[None, :])).any(axis=1))


def _other(model: Any, n_members: int, method: str, n_other: int, n_rows: int) -> UnsupportedModelError:
    name = type(model).__name__
    return UnsupportedModelError(
        f"The {method} of this {name} returns something else than the mean of its {n_members} members in "
        f"{n_other} of {n_rows} rows that were compared, as where a subclass or a patch replaces how it predicts. So "
        f"no mean over members describes what it predicts. {_REMEDY}"
    )
