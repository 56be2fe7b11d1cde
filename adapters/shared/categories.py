"""Columns of a table as those that a model was trained on: their names, and the categories of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ens_plugin.adapters.shared.frames import as_pandas
from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError, InputError

__all__ = ["check_no_text", "is_text", "trained_columns", "with_trained_categories"]


def is_text(column: Any) -> bool:
    """Return whether a column of a DataFrame holds text, or objects of any class.

    Examples
    --------
    >>> import pandas as pd
    >>> is_text(pd.Series(["a", "b"])), is_text(pd.Series([1, 2])), is_text(pd.Series(["a"], dtype="category"))
    (True, False, False)
    """
    kind = column.dtype
    return not hasattr(kind, "categories") and (kind.kind == "O" or getattr(kind, "type", None) is str)


def check_no_text(table: Any) -> None:
    """Raise InputError for a column of text in a DataFrame that a booster is to predict.

    Raises
    ------
    InputError
    """
    texts = [str(name) for name, column in table.items() if is_text(column)]
    if texts:
        raise InputError(
            f"X cannot be used: the columns {shortened(texts)} hold text, which boosters take as categories only. Make "
            "them the categories of training: X[column] = X[column].astype(X_train[column].dtype)."
        )


def with_trained_categories(table: Any, trained: Mapping[str, Sequence[Any]]) -> Any:
    """Return a DataFrame with some columns as categories: first those of training, then values that only the table has.

    Parameters
    ----------
    table : DataFrame
    trained : mapping of str to sequence
        By column, the categories that the model was trained on.  The columns are no categories yet.

    Returns
    -------
    DataFrame
        A copy.

    Raises
    ------
    DataMismatchError
        If no value of a column is among its categories.

    Examples
    --------
    >>> import pandas as pd
    >>> table = with_trained_categories(pd.DataFrame({"city": ["b", "a", "z"]}), {"city": ["b", "a", "c"]})
    >>> table["city"].cat.categories.tolist(), table["city"].cat.codes.tolist()
    (['b', 'a', 'c', 'z'], [0, 1, 3])
    """
    return table.assign(**{name: _as_categories(table[name], list(own)) for name, own in trained.items()})


def trained_columns(X: Any, names: Sequence[str]) -> Any:
    """Return the columns of X that a model was trained on, in their order, as a DataFrame.

    Parameters
    ----------
    X : data frame, dict of str to array-like, or array-like of shape (n_rows, n_features)
        Columns of an array are taken in the order of `names`.
    names : sequence of str

    Raises
    ------
    DataMismatchError
        If a column is missing, or an array has another number of columns.

    Examples
    --------
    >>> import pandas as pd
    >>> trained_columns(pd.DataFrame({"a": [1], "b": [2], "c": [3]}), ["c", "a"]).columns.tolist()
    ['c', 'a']
    """
    import pandas as pd

    table: Any = X if isinstance(X, dict) else as_pandas(X)
    frame = table if hasattr(table, "iloc") else pd.DataFrame(table)
    if frame is not table and not isinstance(X, dict):
        if frame.shape[1] != len(names):
            raise DataMismatchError(
                f"X has {counted(frame.shape[1], 'column')}, but the forest was trained on {len(names)}; pass a "
                f"DataFrame with the columns {shortened(names)}."
            )
        frame.columns = names
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise DataMismatchError(f"X lacks columns that the forest was trained on: {shortened(missing)}; add them.")
    return frame[list(names)]


def _as_categories(column: Any, trained: list[Any]) -> Any:
    import pandas as pd

    if all(isinstance(category, str) for category in trained) and column.dtype.kind in "iu":
        # In a csv file, the text "7" and the number look the same.
        column = column.map(str)
    values = column.dropna().unique().tolist()
    known = set(trained)
    others = [value for value in values if value not in known]
    if values and len(others) == len(values):
        raise DataMismatchError(
            f"No value of the column {str(column.name)!r} is among the categories that the model was trained on: "
            f"{shortened(values)} instead of {shortened(trained)}. Pass the values of training."
        )
    return column.astype(pd.CategoricalDtype([*trained, *others]))
