"""Data frames of any library, read with the names and the categories of their columns."""

from __future__ import annotations

from typing import Any

from ens_plugin.core.validation import one_line, with_article
from ens_plugin.errors import InputError

__all__ = ["as_pandas", "column_names"]


def column_names(X: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame or of a table or batch of Arrow; None for what has none.

    Examples
    --------
    >>> import pandas as pd
    >>> import pyarrow as pa
    >>> column_names(pd.DataFrame({"a": [1]})), column_names(pa.table({"b": [1]})), column_names([[1]])
    (['a'], ['b'], None)
    """
    # The `columns` of an Arrow Table are arrays.
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def as_pandas(X: Any) -> Any:
    """Return a data frame of another library, or a table or batch of Arrow, as one of pandas; other rows as they are.

    Dictionaries of Arrow, such as the categories of polars, become categories, and missing values NaN.

    Raises
    ------
    InputError
        If the columns of a data frame cannot be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> as_pandas(pa.table({"a": [1, None], "b": [True, None]})).to_numpy().tolist()
    [[1.0, 1.0], [nan, nan]]
    """
    is_pandas = hasattr(X, "iloc") and not hasattr(X, "to_pandas")
    if isinstance(X, dict):
        raise InputError("X is a dict, whose columns have no order; pass pandas.DataFrame(X).")
    if is_pandas or column_names(X) is None:
        return X
    try:
        if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
            return _from_arrow(X)
        return X.to_pandas()
    except Exception as error:  # another library may raise anything
        raise InputError(
            f"X is {with_article(type(X).__name__)} of {type(X).__module__.partition('.')[0]}, whose columns cannot be "
            f"read ({type(error).__name__}: {one_line(str(error), 150)}); pass it as a DataFrame of pandas."
        ) from error


def _from_arrow(X: Any) -> Any:
    import pyarrow as pa

    table = pa.table(X)
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_null(field.type) or (pa.types.is_boolean(field.type) and column.null_count):
            # pandas would hold these as objects.
            table = table.set_column(place, field.name, column.cast(pa.int8()))
    # The metadata would turn columns into an index, and names into numbers.
    return table.to_pandas(ignore_metadata=True)
