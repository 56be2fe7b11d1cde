"""The universal score tables on disk: built once per user, checked when read, rebuilt if damaged."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from dataclasses import fields
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from ens_plugin.errors import EnsPluginWarning
from ens_plugin.files import write_whole
from ens_plugin.papers.score_tables_2017.score_tables import GRIDS, TABLE_VERSION, ScoreTables, build_score_tables
from ens_plugin.user_warnings import warn_user

__all__ = ["load_score_tables", "score_table_path"]

# What NumPy, zipfile and zlib raise for damaged archives; RuntimeError for one that seems to be encrypted.
UNREADABLE = (OSError, KeyError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
NAMES = tuple(field.name for field in fields(ScoreTables))


def score_table_path(directory: Path | None = None) -> Path:
    """Return the path of the file with the score tables of this version.

    Parameters
    ----------
    directory : Path, optional
        Directory of the file; the user's cache directory for ens_plugin if None.
    """
    return (directory or user_cache_path("ens_plugin", appauthor=False)) / f"score_tables-{TABLE_VERSION}.npz"


def load_score_tables(directory: Path | None = None) -> ScoreTables:
    """Return the tables of expected losses of 2017, from memory, from the disk, or built now (some seconds).

    Parameters
    ----------
    directory : Path, optional
        Directory of the tables; the user's cache directory for ens_plugin if None.

    Returns
    -------
    ScoreTables

    Warns
    -----
    EnsPluginWarning
        If the tables cannot be written; they are then built again by the next process.

    Examples
    --------
    >>> tables = load_score_tables()
    >>> tables.few.shape
    (22, 11, 19)
    """
    return _load(score_table_path(directory))


@lru_cache(maxsize=1)
def _load(path: Path) -> ScoreTables:
    tables = _read(path)
    if tables is None:
        tables = build_score_tables()
        _write(path, tables)
    return tables


def _checksum(tables: ScoreTables) -> str:
    digest = hashlib.sha256(f"score tables {TABLE_VERSION}".encode())
    for values in (*GRIDS, *(getattr(tables, name) for name in NAMES)):
        array = np.ascontiguousarray(values, dtype="<f8")
        digest.update(f"{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> ScoreTables | None:
    """Return the tables from the disk; None if they are absent, unreadable, or differ from their checksum."""
    try:
        # numpy would not close a file that it opened itself if the archive is broken.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            tables = ScoreTables(**{name: stored[name] for name in NAMES})
            kept = str(stored["checksum"])
    except UNREADABLE:
        return None
    return tables if kept == _checksum(tables) else None


def _write(path: Path, tables: ScoreTables) -> None:
    content = BytesIO()
    arrays = {name: getattr(tables, name) for name in NAMES}
    try:
        np.savez_compressed(content, checksum=np.array(_checksum(tables)), **arrays)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue())
    except OSError as error:
        warn_user(
            f"The score tables could not be written to {path.parent} ({error}); they will be built again next time.",
            EnsPluginWarning,
        )
