"""Tables read from files: comma- or tab-separated text, Parquet and Feather."""

from __future__ import annotations

import os
import zlib
from lzma import LZMAError
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from ens_plugin.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["KINDS", "column_texts", "is_read_in_two_ways", "read_table"]

PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".ftr")
COMPRESSED = ("", ".gz", ".bz2", ".xz", ".zip", ".zst")
CSV = tuple(f".csv{ending}" for ending in COMPRESSED)
TSV = tuple(f".tsv{ending}" for ending in COMPRESSED)
KINDS = "csv, tsv, parquet or feather"  # in words
UNREADABLE = (OSError, ValueError, ImportError)
DAMAGED = (EOFError, zlib.error, LZMAError, BadZipFile)  # of compressed files, in the libraries' own kinds of error


def read_table(path: str | Path, *, exact: bool = True) -> pd.DataFrame:
    """Read a csv, tsv, parquet or feather file, numbers to the last bit, and return it as a data frame.

    Parameters
    ----------
    path : str or Path
        Ends in ``.csv`` or ``.tsv`` (possibly compressed: ``.csv.gz``), ``.parquet`` or ``.feather``.
    exact : bool, default=True
        False: numbers of text files as ``pandas.read_csv`` reads them by default, which before pandas 3.1 was with
        another last bit for many.

    Returns
    -------
    DataFrame, shape (n_rows, n_columns)

    Raises
    ------
    InputError
        If there is no such file, its name ends otherwise, it is a folder, it is not a complete file of the kind in
        its name, or it has no rows.

    Examples
    --------
    >>> read_table("rows.csv")
    Traceback (most recent call last):
        ...
    ens_plugin.errors.InputError: There is no data file 'rows.csv'. Pass a csv, tsv, parquet or feather file.
    """
    path = Path(path)
    if os.path.isdir(path):
        raise InputError(
            f"The data file {str(path)!r} is a folder, such as Spark writes. Write the rows to one {KINDS} file, "
            "training rows in the order of training."
        )
    if not os.path.isfile(path):
        raise InputError(f"There is no data file {str(path)!r}. Pass a {KINDS} file.")
    if not path.name.lower().endswith((*PARQUET, *FEATHER, *CSV, *TSV)):
        raise InputError(
            f"The name of the data file {str(path)!r} ends in no format that can be read. Convert the file to {KINDS}."
        )
    try:
        frame = _read(path, exact)
    except (*UNREADABLE, *DAMAGED) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(
            f"The data file {str(path)!r} cannot be read: {reason}. Check that it is complete and really "
            f"{_form(path.name.lower())}."
        ) from error
    if frame.empty:
        raise InputError(f"The data file {str(path)!r} has no rows. Pass the rows to analyse the model on.")
    return frame


def column_texts(path: str | Path, name: str) -> pd.Series[Any] | None:
    """Return a column of a csv or tsv file that :func:`read_table` has read, as the texts that are in the file.

    Parameters
    ----------
    path : str or Path
    name : str
        Of the column.

    Returns
    -------
    Series of str, or None
        None for files of other formats, which keep the kind of each value.
    """
    path = Path(path)
    if not path.name.lower().endswith((*CSV, *TSV)):
        return None
    frame = _read_text(path, usecols=lambda column: column == name, dtype=str, keep_default_na=False)
    return frame[name] if name in frame.columns else None


def is_read_in_two_ways(path: str | Path) -> bool:
    """Return whether :func:`read_table` may read other numbers with `exact` than without."""
    import pandas as pd

    return Path(path).name.lower().endswith((*CSV, *TSV)) and bool(_exact_floats(pd.__version__))


def _read(path: Path, exact: bool) -> pd.DataFrame:
    import pandas as pd

    name = path.name.lower()
    if name.endswith(PARQUET):
        return pd.read_parquet(path)
    if name.endswith(FEATHER):
        return pd.read_feather(path)
    return _read_text(path, **(_exact_floats(pd.__version__) if exact else {}))


def _read_text(path: Path, **options: Any) -> pd.DataFrame:
    import pandas as pd

    frame: pd.DataFrame = pd.read_csv(path, sep="," if path.name.lower().endswith(CSV) else "\t", **options)
    return frame


def _form(name: str) -> str:
    if name.endswith((*CSV, *TSV)):
        return f"a {'csv' if name.endswith(CSV) else 'tsv'} table with one header line, in UTF-8"
    return "parquet" if name.endswith(PARQUET) else "feather"


def _exact_floats(pandas_version: str) -> dict[str, Any]:
    """Return options by which read_csv keeps every bit: one bit can decide which leaf of a tree a row is in."""
    release = tuple(int(part) for part in pandas_version.split(".")[:2])
    # From 3.1 the default parser is exact and the option is deprecated.
    return {"float_precision": "round_trip"} if release < (3, 1) else {}
