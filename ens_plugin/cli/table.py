"""Tables of rows: reading them from a file, and splitting them into a model's features, target and weights."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.library import NativeInterface
from ens_plugin.adapters.registry import find_library
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.errors import DataMismatchError, InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ModelRows", "read_table", "rows_for_model"]

MAX_NAMES = 20


class ModelRows(NamedTuple):
    """Features, target, weights and groups of a table, in the form of the arguments of ``analyze``."""

    X: Any
    y: NDArray[Any]
    sample_weight: NDArray[np.float64] | None
    groups: NDArray[Any] | None = None


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a csv or parquet file, numbers to the last bit, and return it as a data frame.

    Parameters
    ----------
    path : str or Path
        Ends in ``.csv`` (possibly compressed: ``.csv.gz``), ``.parquet`` or ``.pq``.

    Returns
    -------
    DataFrame, shape (n_rows, n_columns)

    Raises
    ------
    InputError
        If there is no such file, its name ends otherwise, it is not a file of the kind in its name,
        or it has no rows.

    Examples
    --------
    >>> read_table("rows.csv")
    Traceback (most recent call last):
        ...
    ens_plugin.errors.InputError: There is no data file 'rows.csv'. Pass a csv or parquet file.
    """
    import pandas as pd

    path = Path(path)
    name = path.name.lower()
    if not path.is_file():
        raise InputError(f"There is no data file {str(path)!r}. Pass a csv or parquet file.")
    try:
        if name.endswith((".parquet", ".pq")):
            frame = pd.read_parquet(path)
        elif name.endswith((".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip")):
            frame = pd.read_csv(path, **_exact_floats(pd.__version__))
        else:
            raise InputError(f"The data file {str(path)!r} is neither .csv nor .parquet. Convert it to one of them.")
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"The data file {str(path)!r} cannot be read: {reason}. Check that it is complete and really "
            f"{'parquet' if name.endswith(('.parquet', '.pq')) else 'a csv table with one header line, in UTF-8'}."
        ) from error
    if frame.empty:
        raise InputError(f"The data file {str(path)!r} has no rows. Pass the rows to analyse the model on.")
    return frame


def _exact_floats(pandas_version: str) -> dict[str, Any]:
    """Return options by which read_csv keeps every bit: one bit can decide which leaf of a tree a row is in."""
    release = tuple(int(part) for part in pandas_version.split(".")[:2])
    # From 3.1 the default parser is exact and the option is deprecated.
    return {"float_precision": "round_trip"} if release < (3, 1) else {}


def rows_for_model(
    frame: pd.DataFrame, model: Any, *, target: str, sample_weight: str | None = None, groups: str | None = None
) -> ModelRows:
    """Return a table as the features that `model` was trained on, the target, the weights and the groups.

    Features are ordered by the names that the model was trained on, as it keeps them
    (``feature_names_in_``, or a booster's own list).  A model that was trained without names gets a
    plain array, in the order of the file.

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

    Returns
    -------
    ModelRows

    Raises
    ------
    InputError
        If `target`, `sample_weight` or `groups` is not a column, or weights or features are not numbers
        where they have to be.
    DataMismatchError
        If features are missing, or there are columns that are not the model's.
    UnsupportedModelError
        If stages of a Spark pipeline come before the ensemble: they take a DataFrame of Spark.
    """
    inner_ensemble(model)
    y = _column(frame, target, "target").to_numpy()
    features = frame.drop(columns=[target])
    weights = None
    if sample_weight is not None:
        weights = _numeric(_column(features, sample_weight, "sample weight"))
        features = features.drop(columns=[sample_weight])
    together = None
    if groups is not None:
        together = _column(features, groups, "group").to_numpy()
        features = features.drop(columns=[groups])
    return ModelRows(_features(features, model), y, weights, together)


def _column(frame: pd.DataFrame, name: str, role: str) -> pd.Series[Any]:
    names = [str(column) for column in frame.columns]
    if name not in names:
        close = get_close_matches(name, names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InputError(f"There is no {role} column {name!r} in the data.{hint} Available: {_listed(names)}.")
    if names.count(name) > 1:
        raise InputError(f"The data has {names.count(name)} columns called {name!r}. Rename all but the {role}.")
    return frame.iloc[:, names.index(name)]


def _numeric(column: pd.Series[Any]) -> NDArray[np.float64]:
    try:
        return column.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"The sample weight column {column.name!r} is not numeric ({error}). Name a column of numbers."
        ) from error


def _features(features: pd.DataFrame, model: Any) -> Any:
    known = _trained_names(model)
    if known is not None:
        return _named_features(features, known)
    n_wanted = _n_trained_on(model, features.shape[1])
    if features.shape[1] != n_wanted:
        raise DataMismatchError(
            f"The model was trained on {n_wanted} features without names, and the data has {features.shape[1]} "
            f"besides the target: {_listed(list(features.columns))}. Remove the others from the file."
        )
    texts = [name for name, kind in features.dtypes.items() if kind.kind not in "biuf"]
    if texts:
        raise InputError(
            f"The model was trained on plain arrays, and these columns are not numbers: {_listed(texts)}. "
            "Encode them as they were for training, or remove them."
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


def _named_features(features: pd.DataFrame, known: list[str]) -> pd.DataFrame:
    names = [str(name) for name in features.columns]
    features = features.set_axis(names, axis="columns")
    wanted = _file_names(names, known)
    missing = [name for name in wanted if name not in names]
    unexpected = [name for name in names if name not in wanted]
    if missing or unexpected:
        found = [
            f"{what}: {_listed(columns)}"
            for what, columns in (("missing", missing), ("not in the model", unexpected))
            if columns
        ]
        raise DataMismatchError(
            f"The columns are not the {len(known)} features the model was trained on ({'; '.join(found)}). "
            "Pass a file with these features and the target only (name a weight column with --sample-weight)."
        )
    return features[wanted]


def _file_names(names: list[str], known: list[str]) -> list[str]:
    """Return the model's feature names as the file spells them: LightGBM replaces blanks by underscores."""
    spelled = {name.replace(" ", "_"): name for name in names}
    return [name if name in names else spelled.get(name, name) for name in known]


def _listed(names: list[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:MAX_NAMES]) or "none"
    return shown if len(names) <= MAX_NAMES else f"{shown} and {len(names) - MAX_NAMES} more"
