"""The files of a stored model, searched for the members that a report is about, without loading the model."""

from __future__ import annotations

import mmap
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ens_plugin.tracking.store.mlflow_chatter import no_progress_bars
from ens_plugin.tracking.store.scratch import scratch_folder

if TYPE_CHECKING:
    from ens_plugin.report.result import EnsembleReport

__all__ = ["MODEL_FILE", "hold_members", "is_of_scikit_learn"]

MODEL_FILE = "MLmodel"
SCIKIT_LEARN = "\n  sklearn:\n"


def hold_members(place: str, reports: Sequence[EnsembleReport]) -> list[bool | None]:
    """Return whether the files of a stored model hold the members that each of some reports is about.

    Parameters
    ----------
    place : str
        URI of the folder of the files.
    reports : sequence of EnsembleReport

    Returns
    -------
    list of (bool or None)
        None where a report does not show what its members look like in a file, or there are no files.

    Raises
    ------
    MlflowException
        If the files cannot be read.
    """
    from mlflow.artifacts import download_artifacts, list_artifacts

    wanted = [{bytes.fromhex(part) for part in report.fingerprint} for report in reports]
    with no_progress_bars(), scratch_folder() as folder:
        if not any(wanted) or not list_artifacts(place):
            return [None] * len(wanted)
        root = Path(download_artifacts(place, dst_path=str(folder)))
        files = [path for path in root.rglob("*") if path.is_file() and path.stat().st_size]
        found = {part for file in files for part in _parts_in(file, set().union(*wanted))}
    return [parts <= found if parts else None for parts in wanted]


def is_of_scikit_learn(place: str) -> bool:
    """Return whether MLflow stored a model in its flavour of scikit-learn, which keeps members byte by byte."""
    from mlflow.artifacts import load_text

    with no_progress_bars():
        return SCIKIT_LEARN in load_text(f"{place.rstrip('/')}/{MODEL_FILE}")


def _parts_in(file: Path, parts: Collection[bytes]) -> list[bytes]:
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return [part for part in parts if content.find(part) >= 0]
