"""Records of logged reports: tags by which a run lists its reports, and a LoggedModel names the newest one on it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.store.mlflow_chatter import no_progress_bars
from ens_plugin.tracking.store.model_files import MODEL_FILE

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run

__all__ = ["ReportRecord", "is_numbered", "link_model", "model_file_digest", "model_records", "record_in_run",
           "run_records", "subject_of"]  # fmt: skip

# A run keeps the record of every report that it ever had, also where a later one has replaced the file.
_RUN_TAG = re.compile(r"(?P<prefix>.+)\.report\.[0-9a-f]{16}")
_MODEL_TAG = re.compile(r"(?P<prefix>.+)\.report")


@dataclass(frozen=True)
class ReportRecord:
    """Where a logged report is, and what it is about.

    Attributes
    ----------
    prefix : str
        As of :func:`ens_plugin.log_report`.
    run_id : str
    path : str
        Path of its JSON among the artifacts of the run.
    sha256 : str
        Sum of that file.
    subject : str
        Digest of what was analysed; see :func:`subject_of`.
    number : int
        One more than that of the record before, in the same run or of the same model.  The clocks of the machines
        that log reports differ, so the order of reports is not that of their times.
    model_id : str or None
        LoggedModel that the report names.
    model_file : str or None
        In the record of a LoggedModel, the sum of its file ``MLmodel``, which every logging of a model renews.
    """

    prefix: str
    run_id: str
    path: str
    sha256: str
    subject: str
    number: int = 0
    model_id: str | None = None
    model_file: str | None = None


def subject_of(report: EnsembleReport) -> str:
    """Return the digest of what a report is about: of its members where they are known, else of the report itself."""
    about = "".join(report.fingerprint) or replace(report, model_id=None).to_json()
    return hashlib.sha256(about.encode()).hexdigest()


def is_numbered(name: str, prefix: str) -> bool:
    """Return whether a prefix is `prefix` itself, or one that autologging makes of it for a run's further reports.

    Examples
    --------
    >>> is_numbered("ens_2", "ens"), is_numbered("ens.shifted", "ens")
    (True, False)
    """
    return re.fullmatch(rf"{re.escape(prefix)}(_[0-9]+)?", name) is not None


def run_records(run: Run) -> list[ReportRecord]:
    """Return the records of all reports that a run ever had, under any prefix, in the order in which they came.

    Raises
    ------
    ValueError
        If a tag has not the form of a record.
    """
    return sorted(_records(run.data.tags, _RUN_TAG), key=lambda record: record.number)


def model_records(model: LoggedModel) -> list[ReportRecord]:
    """Return the records of the newest reports on a LoggedModel by prefix, in the order in which they came.

    Raises
    ------
    ValueError
        If a tag has not the form of a record.
    """
    return sorted(_records(model.tags, _MODEL_TAG), key=lambda record: record.number)


def record_in_run(client: MlflowClient, run: Run, record: ReportRecord) -> None:
    """Add a record to those of a run; written before the report, so that one that is cut short is known too."""
    key = f"{record.prefix}.report.{record.sha256[:16]}"
    if key not in run.data.tags:
        numbered = replace(record, number=_next_number(_records(run.data.tags, _RUN_TAG)))
        client.set_tag(run.info.run_id, key, _text(numbered))


def link_model(client: MlflowClient, record: ReportRecord) -> None:
    """Make a report the newest one on the LoggedModel that it names; written last, when the report is complete."""
    assert record.model_id is not None
    model = client.get_logged_model(record.model_id)
    found = model_records(model)
    linked = replace(record, model_file=model_file_digest(model), number=_next_number(found))
    if not any(replace(linked, number=other.number) == other for other in found[-1:]):
        client.set_logged_model_tags(record.model_id, {f"{record.prefix}.report": _text(linked)})


def model_file_digest(model: LoggedModel) -> str | None:
    """Return the sum of the file ``MLmodel`` of a LoggedModel; None as long as it has none."""
    from mlflow.artifacts import list_artifacts, load_text

    place = str(model.artifact_location).rstrip("/")
    with no_progress_bars():
        if all(item.path.rpartition("/")[2] != MODEL_FILE for item in list_artifacts(place)):
            return None
        return hashlib.sha256(load_text(f"{place}/{MODEL_FILE}").encode()).hexdigest()


def _next_number(found: Iterator[ReportRecord] | list[ReportRecord]) -> int:
    return 1 + max((record.number for record in found), default=0)


def _text(record: ReportRecord) -> str:
    return json.dumps({name: value for name, value in asdict(record).items() if name != "prefix"})


def _records(tags: Mapping[str, str], form: re.Pattern[str]) -> Iterator[ReportRecord]:
    for key, text in tags.items():
        match = form.fullmatch(key)
        if match is not None:
            yield _record(match["prefix"], text)


def _record(prefix: str, text: str) -> ReportRecord:
    content: Any = json.loads(text)
    try:
        record = ReportRecord(prefix=prefix, **content)
    except TypeError as error:
        raise ValueError(str(error)) from error
    texts = (record.run_id, record.path, record.sha256, record.subject)
    if type(record.number) is not int or not all(isinstance(part, str) for part in texts):
        raise ValueError("a part is missing or of a wrong type")
    return record
