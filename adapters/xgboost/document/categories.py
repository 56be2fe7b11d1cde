"""Categories of a column as a booster stores them."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, pairwise
from typing import Any

from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.errors import DataMismatchError

__all__ = ["library_cuts_names", "stored_categories"]


def stored_categories(stored: Any, column: Any) -> list[Any]:
    """Return categories for a column of a pandas table, which XGBoost finds again among those of its training.

    XGBoost 3.1 and 3.2 cut the names of pandas' categories by their numbers of characters where bytes are meant
    (mended by its pull request 12371). A letter that is no ASCII then shifts all names after it, and the end of
    the last one is lost. Names that were cut so are recognised as the values of `column`, in sorted order as
    pandas has them. Names from an Arrow table were stored whole; of these the ASCII ones are returned where no
    other is in `column`, because a table of pandas would be cut again.

    Parameters
    ----------
    stored : pyarrow Array
        From ``Booster.get_categories``.
    column : Series
        Values to find among the categories.

    Raises
    ------
    DataMismatchError
        If the names were cut, and those of `column` would have been cut in another way; or if they are whole, and
        the installed XGBoost would cut those of `column`.

    Examples
    --------
    >>> import pandas as pd
    >>> import pyarrow as pa
    >>> stored_categories(pa.array(["no", "yes"]), pd.Series(["yes"]))
    ['no', 'yes']
    """
    import pyarrow as pa

    if not pa.types.is_string(stored.type):
        return list(stored.to_pylist())
    pieces: list[bytes] = stored.cast(pa.binary()).to_pylist()
    if all(piece.isascii() for piece in pieces):
        return [piece.decode() for piece in pieces]
    values = sorted({str(value) for value in column.dropna().unique()})
    if _cut_by_characters(values) == pieces:
        return list(values)
    names = [piece.decode(errors="replace") for piece in pieces]
    if not _are_whole(pieces, values):
        raise DataMismatchError(
            f"The categories of the column {str(column.name)!r} cannot be read from the booster. XGBoost 3.1 and 3.2 "
            f"cut names with letters that are no ASCII, here to {shortened(names)}, and the values of this column, "
            f"{shortened(values)}, are not all that it was trained on, or it had them in another order. Pass the "
            "column as the categories of training: in a parquet file of pandas, which stores them, or in Python as "
            "X[column].astype(X_train[column].dtype)."
        )
    if all(map(str.isascii, values)):
        return [name for name in names if name.isascii()]
    if library_cuts_names():
        raise DataMismatchError(
            f"The column {str(column.name)!r} holds names with letters that are no ASCII, {shortened(values)}. XGBoost "
            "3.1 and 3.2 cut them in a table of pandas, and would not find them among those that the booster was "
            "trained on. Install another release of XGBoost, or pass an ensemble that was trained on such a table."
        )
    return list(names)


def _cut_by_characters(names: list[str]) -> list[bytes]:
    text = "".join(names).encode()
    return [text[start:stop] for start, stop in pairwise(accumulate(map(len, names), initial=0))]


def _are_whole(pieces: list[bytes], values: list[str]) -> bool:
    """Return whether pieces are whole names, or the same of all `values` if they are cut ones."""
    try:
        names = [piece.decode() for piece in pieces]
    except UnicodeDecodeError:
        return False
    # What was cut has as many characters as the pieces have bytes, of which those at the end were lost.
    text = "".join(names)
    ends = [*accumulate(map(len, pieces))]
    before = [(text[end - len(piece) : end], len(piece)) for piece, end in zip(pieces, ends, strict=True)]
    return len({*names}) == len(names) and all(
        names[place] == value
        for value in values
        for place, (begin, length) in enumerate(before)
        if len(value) == length and value.startswith(begin)
    )


@cache
def library_cuts_names() -> bool:
    """Return whether the installed XGBoost cuts the names of pandas' categories by their numbers of characters."""
    import pandas as pd
    import pyarrow as pa
    import xgboost

    name = "\u00e9"
    table = pd.DataFrame({"x": pd.Categorical([name])})
    found = xgboost.DMatrix(table, enable_categorical=True).get_categories(export_to_arrow=True).to_arrow()
    stored = [own.cast(pa.binary()).to_pylist() for _, own in found or () if own is not None]
    return stored != [[name.encode()]]
