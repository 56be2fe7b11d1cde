"""Categories of a column as a booster stores them."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.errors import DataMismatchError

__all__ = ["stored_categories"]


def stored_categories(stored: Any, column: Any) -> list[Any]:
    """Return the categories that a booster was trained on, in the order of their codes.

    XGBoost 3.1 and 3.2 cut the names of pandas' categories by their numbers of characters where bytes are meant
    (mended by its pull request 12371). A letter that is no ASCII then shifts all names after it, and the end of
    the last one is lost. Names that were cut so are recognised as the values of `column`, in sorted order as
    pandas has them.

    Parameters
    ----------
    stored : pyarrow Array
        From ``Booster.get_categories``.
    column : Series
        Values to find among the categories.

    Raises
    ------
    DataMismatchError
        If the names were cut, and those of `column` would have been cut in another way.

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
    # A whole name that is no ASCII shows that the names were stored by bytes.
    names = [piece.decode(errors="replace") for piece in pieces]
    if any(name in values for name in names if not name.isascii()):
        return list(names)
    raise DataMismatchError(
        f"The categories of the column {str(column.name)!r} cannot be read from the booster. XGBoost 3.1 and 3.2 cut "
        f"names with letters that are no ASCII, here to {shortened(names)}, and the values of this column, "
        f"{shortened(values)}, are not all that it was trained on, or it had them in another order. Pass the column "
        "as the categories of training: in a parquet file of pandas, which stores them, or in Python as "
        "X[column].astype(X_train[column].dtype)."
    )


def _cut_by_characters(names: list[str]) -> list[bytes]:
    text = "".join(names).encode()
    return [text[start:stop] for start, stop in pairwise(accumulate(map(len, names), initial=0))]
