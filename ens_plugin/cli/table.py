"""Tables of rows, split into a model's features, target, weights and groups."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.library import NativeInterface
from ens_plugin.adapters.registry import find_library
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.cli.table_files import column_texts
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError, InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ModelRows", "left_out_note", "rows_for_model"]

MAX_NAMES = 20


class ModelRows(NamedTuple):
    """Features, target, weights and groups of a table, in the form of the arguments of ``analyze``.

    Attributes
    ----------
    names : sequence of str
        Columns of the features.
    left_out : tuple of str
        Columns that the model was not trained on.
    """

    X: Any
    y: NDArray[Any]
    sample_weight: NDArray[np.float64] | None
    groups: NDArray[Any] | None = None
    names: Sequence[str] = ()
    left_out: tuple[str, ...] = ()


def rows_for_model(
    frame: pd.DataFrame,
    model: Any,
    *,
    target: str,
    sample_weight: str | None = None,
    groups: str | None = None,
    drop: Sequence[str] = (),
    features: Sequence[str] = (),
    path: str | None = None,
) -> ModelRows:
    """Return a table as the features that `model` was trained on, the target, the weights and the groups.

    Features are ordered by the names that the model was trained on, as it keeps them
    (``feature_names_in_``, or a booster's own list); columns that it does not know are left out.  A model that was
    trained without names gets a plain array, in the order of `features`, or else of the file.  Columns of text become
    categories where a booster was trained on categories.

    Parameters
    ----------
    frame : DataFrame, shape (n_rows, n_columns)
    model : fitted model
    target : str
        Column with the true labels or values.
    sample_weight : str, optional
        Column with the rows' weights.
    groups : str, optional
        Column with the group of each row.
    drop : sequence of str, default=()
        Columns to leave out; each may be several names with commas between them.
    features : sequence of str, default=()
        The only columns to take as features, named as in `drop`; all that are left if empty.
    path : str, optional
        File that the table was read from, for the labels of a model that was trained on texts: a csv file does not
        tell ``None`` from a missing label, nor ``007`` from a number.

    Returns
    -------
    ModelRows

    Raises
    ------
    InputError
        If `target`, `sample_weight`, `groups`, or one of `drop` or `features` is not a column, or weights or features
        are not numbers where they have to be.
    DataMismatchError
        If features are missing, or the model was trained without names on another number of features.
    UnsupportedModelError
        If stages of a Spark pipeline come before the ensemble: they take a DataFrame of Spark.
    """
    inner_ensemble(model)
    y = _as_trained(_column(frame, target, "target"), model, path).to_numpy()
    rest = frame.drop(columns=[target])
    weights = None
    if sample_weight is not None:
        weights = _numeric(_column(rest, sample_weight, "sample weight"))
        rest = rest.drop(columns=[sample_weight])
    together = None
    if groups is not None:
        together = _column(rest, groups, "group").to_numpy()
        rest = rest.drop(columns=[groups])
    chosen = _chosen(rest, drop, features)
    known = _trained_names(model)
    if known is None:
        return ModelRows(_plain_features(chosen, model), y, weights, together, [str(name) for name in chosen.columns])
    X, left_out = _named_features(chosen, known)
    if inner_ensemble(model) is model:
        # The steps of a pipeline take the columns as they are in the file.
        X = _interface(model).with_categories(model, X)
    return ModelRows(X, y, weights, together, list(X.columns), left_out)


def left_out_note(columns: Sequence[str]) -> str:
    """Return a sentence on columns that were left out, because the model was not trained on them.

    Examples
    --------
    >>> left_out_note(["id"])
    'Note: the model was not trained on the column id, which is left out.'
    """
    are = "column {}, which is" if len(columns) == 1 else "columns {}, which are"
    return f"Note: the model was not trained on the {are.format(_listed(list(columns)))} left out."


def _chosen(frame: pd.DataFrame, drop: Sequence[str], features: Sequence[str]) -> pd.DataFrame:
    """Return the columns of `features`, or else all, without those of `drop`."""
    names = [str(column) for column in frame.columns]
    dropped, wanted = (_split_names(names, given) for given in (drop, features))
    for name in (*dropped, *wanted):
        _column(frame, name, "feature")
    kept = [names.index(name) for name in wanted] if wanted else range(len(names))
    return frame.iloc[:, [place for place in kept if names[place] not in dropped]]


def _split_names(names: Sequence[str], given: Sequence[str]) -> list[str]:
    """Return names of columns, of which several may have been given as one text with commas between them."""
    return [name for text in given for name in ([text] if text in names else text.split(","))]


def _column(frame: pd.DataFrame, name: str, role: str) -> pd.Series[Any]:
    names = [str(column) for column in frame.columns]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"There is no {role} column {name!r} in the data.{hint} Available: {_listed(names)}.")
    if names.count(name) > 1:
        raise InputError(f"The data has {names.count(name)} columns called {name!r}. Rename all but the {role}.")
    return frame.iloc[:, names.index(name)]


def _as_trained(labels: pd.Series[Any], model: Any, path: str | None) -> pd.Series[Any]:
    """Return labels as texts where the model was trained on these texts."""
    classes = getattr(model, "classes_", None)
    texts = {label for label in classes.tolist() if isinstance(label, str)} if isinstance(classes, np.ndarray) else None
    if not texts or _are_among(labels, texts):
        return labels
    written = None if path is None else column_texts(path, str(labels.name))
    if written is not None and _are_among(written, texts):
        return written
    numbers = labels.map(str) if labels.dtype.kind in "biu" else labels
    return numbers if _are_among(numbers, texts) else labels


def _are_among(labels: pd.Series[Any], texts: set[str]) -> bool:
    return labels.dtype.kind == "O" and all(isinstance(label, str) for label in labels) and set(labels) <= texts


def _numeric(column: pd.Series[Any]) -> NDArray[np.float64]:
    try:
        return column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The sample weight column {column.name!r} is not numeric ({error}). Name a column of numbers."
        ) from error


def _plain_features(features: pd.DataFrame, model: Any) -> NDArray[np.float64]:
    """Return the features for a model that was trained without names."""
    n_wanted = _n_trained_on(model, features.shape[1])
    if features.shape[1] != n_wanted:
        raise DataMismatchError(
            f"The model was trained on {counted(n_wanted, 'feature')} without names, and the data has "
            f"{features.shape[1]} besides the target: {_listed(list(features.columns))}. Leave the others out with "
            "--drop, or name the features in training order with --features."
        )
    texts = [name for name, kind in features.dtypes.items() if kind.kind not in "biuf"]
    if texts:
        raise InputError(
            f"The model was trained on plain arrays, and these columns are not numbers: {_listed(texts)}. "
            "Encode them as they were for training, or leave them out with --drop."
        )
    return features.to_numpy(dtype=np.float64, na_value=np.nan)


def _trained_names(model: Any) -> list[str] | None:
    """Return the names of the features a model was trained on; None if it was trained without names."""
    ensemble = inner_ensemble(model)
    names = _interface(ensemble).feature_names(ensemble)
    found = getattr(model, "feature_names_in_", None)
    if model is ensemble:
        return names
    if found is None:
        return None
    # A wrapper has the names of its ensemble, also those that the library generated.
    is_repeated = np.array_equal(found, getattr(ensemble, "feature_names_in_", ()))
    return names if is_repeated else [str(name) for name in found]


def _n_trained_on(model: Any, default: int) -> int:
    """Return the number of features of a model that was trained without names."""
    found = _interface(model).n_features(model)
    return default if found is None else found


def _interface(model: Any) -> type[NativeInterface]:
    return find_library(model, NativeInterface) or NativeInterface


def _named_features(features: pd.DataFrame, known: list[str]) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the columns that the model was trained on, in its order, and the names of the others."""
    names = [str(name) for name in features.columns]
    features = features.set_axis(names, axis="columns")
    wanted = _file_names(names, known)
    missing = [name for name in wanted if name not in names]
    others = tuple(name for name in names if name not in wanted)
    if missing:
        found = f"missing: {_listed(missing)}" + (f"; not in the model: {_listed(list(others))}" if others else "")
        raise DataMismatchError(
            f"The columns are not the {counted(len(known), 'feature')} the model was trained on ({found}). "
            "Pass a file with these features and the target."
        )
    doubled = [name for name in wanted if names.count(name) > 1]
    doubled += [name for name in others if name.replace(" ", "_") in wanted]
    if doubled:
        raise DataMismatchError(
            f"The data has more than one column for the feature {doubled[0]!r}. Leave out all but one with --drop."
        )
    return features[wanted], others


def _file_names(names: list[str], known: list[str]) -> list[str]:
    """Return the model's feature names as the file spells them: LightGBM replaces blanks by underscores."""
    spelled = {name.replace(" ", "_"): name for name in names}
    return [name if name in names else spelled.get(name, name) for name in known]


def _listed(names: list[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:MAX_NAMES]) or "none"
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"
