"""The report and the metrics that were logged for a registered version, checked against each other."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.core.validation import counted
from ens_plugin.errors import GateError
from ens_plugin.registry.gating.version_origin import comes_from_run, logged_model, models_of_run
from ens_plugin.report.result import LONGEST_REPORT, EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.logging.curve_points import Point, scalar_points
from ens_plugin.tracking.logging.report_record import (
    ReportRecord,
    is_numbered,
    model_file_digest,
    model_records,
    run_records,
    subject_of,
)
from ens_plugin.tracking.store.model_files import hold_members
from ens_plugin.tracking.store.model_version import RegisteredVersion
from ens_plugin.tracking.store.scratch import scratch_folder

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import FileInfo, LoggedModel, Metric, Run

__all__ = ["LoggedReport", "logged_metrics", "read_report"]

REPORT_BYTES = LONGEST_REPORT
ADVICE = "Analyse the model and log its report with `ens-plugin analyze {uri} --data FILE --target COL --log`"


class LoggedReport(NamedTuple):
    """A logged report, and the URI of its page, or of its JSON where no page was logged."""

    report: EnsembleReport
    uri: str


def read_report(client: MlflowClient, version: RegisteredVersion, prefix: str) -> LoggedReport:
    """Return the newest report on the model behind a version, after a check that it is about this model.

    A report that was logged for a model names it, and the record of the model names the report and its sum.  One that
    was logged for no model counts where its run had no other report and no other model.

    Parameters
    ----------
    client : MlflowClient
    version : RegisteredVersion
    prefix : str
        As for :func:`ens_plugin.log_report`; the further reports that autologging numbers belong to it.

    Returns
    -------
    LoggedReport

    Raises
    ------
    GateError
        If there is no report, it may be of another model, it is not complete, or it and the logged scalars
        contradict each other.
    InputError
        If the file is not a report of this version of ens_plugin.
    MlflowException
        If the server refuses.
    """
    model = logged_model(client, version)
    record = None if model is None else _linked_record(model, version, prefix)
    found = _read_unlinked(client, version, model, prefix) if record is None else _read(client, record, version)
    # Checked last, because the run may have been deleted meanwhile.
    _live_run(client, found.record.run_id)
    return LoggedReport(found.report, found.page)


class _Found(NamedTuple):
    """A report that was read, its record, and the URI of its page, or of its JSON."""

    record: ReportRecord
    report: EnsembleReport
    page: str


def _read(client: MlflowClient, record: ReportRecord, version: RegisteredVersion) -> _Found:
    """Return the report of a record, after a check that it is the one, and that the logged scalars are its own."""
    run = _live_run(client, record.run_id)
    listed = _files_beside(client, record)
    return _checked(client, run, record, listed, _report_bytes(client, record, listed, version), version)


def _checked(
    client: MlflowClient,
    run: Run,
    record: ReportRecord,
    listed: Mapping[str, FileInfo],
    content: bytes,
    version: RegisteredVersion,
) -> _Found:
    report = EnsembleReport.from_json(content.decode("utf-8", "replace"))
    _compare(client, report, run, record.prefix)
    _check_sum(record, content)
    _check_subject(record, report, version)
    # A page that could not be drawn was not logged.
    page = f"{_folder(record)}/report.html"
    return _Found(record, report, f"runs:/{record.run_id}/{page if page in listed else record.path}")


def _linked_record(model: LoggedModel, version: RegisteredVersion, prefix: str) -> ReportRecord | None:
    """Return the record of the newest report that was logged for a model; None where none was."""
    try:
        found = [record for record in model_records(model) if is_numbered(record.prefix, prefix)]
    except ValueError as error:
        raise GateError(_damaged(f"model {model.model_id}", version, model, error)) from error
    if not found:
        return None
    newest = [record for record in found if record.number == found[-1].number]
    if len(newest) > 1:
        raise GateError(
            f"Which report on {model.model_id} is the newest is not known, because several were logged at once. "
            f"{_link_remedy(version, model)}"
        )
    (record,) = newest
    if record.model_id != model.model_id:
        raise GateError(
            f"The record of reports on {model.model_id} names a report on {printable(str(record.model_id), 80)}, so it "
            f"was copied from there. {_link_remedy(version, model)}"
        )
    if record.model_file != model_file_digest(model):
        raise GateError(
            f"The files of {model.model_id} have changed since the report on it was logged, so it may be about another "
            f"model. {_link_remedy(version, model)}"
        )
    return record


def _read_unlinked(client: MlflowClient, version: RegisteredVersion, model: LoggedModel | None, prefix: str) -> _Found:
    """Return the newest report in the run of a version, which logged no other model, if it is about this one.

    Raises
    ------
    GateError
        If there is none, the run logged several models, or the report may be about another model.
    """
    run = _run_of(client, version, model)
    try:
        records = run_records(run)
    except ValueError as error:
        raise GateError(_damaged(f"run {run.info.run_id}", version, model, error)) from error
    own = [record for record in reversed(records) if is_numbered(record.prefix, prefix)]
    if not own:
        raise GateError(_no_record(run, version, model, prefix))
    _check_only_model(client, run, own[0], version, model)
    n_subjects = _count_subjects(run, records)
    if n_subjects > 1:
        return _of_these_members(client, run, own, n_subjects, version, model)
    found = _read(client, own[0], version)
    (holds,) = hold_members(_place(client, version, model), [found.report])
    if holds is False:
        raise GateError(
            f"The report in run {run.info.run_id} was logged for no model, and its members are not in the files of "
            f"version {version.version} of {printable(version.name, 80)}, so it is about another model. "
            f"{_link_remedy(version, model)}"
        )
    if own[0].model_id is not None and not holds:
        raise GateError(
            f"The report in run {run.info.run_id} was logged for {printable(str(own[0].model_id), 80)}, and the record "
            "of that model does not name it, or it is another model than that of this version: logging was "
            f"interrupted, or the report is about another model. {_link_remedy(version, model)}"
        )
    return found


def _run_of(client: MlflowClient, version: RegisteredVersion, model: LoggedModel | None) -> Run:
    run_id = version.run_id or (None if model is None else model.source_run_id)
    if run_id is None:
        found = "it was registered without a run, and no report was logged for its model"
        raise GateError(f"{_nothing_logged(version, found)} {_link_remedy(version, model)}")
    run = _live_run(client, run_id)
    if not comes_from_run(client, version, run, model):
        raise GateError(f"There is no ensemble report for {printable(version.uri, 120)}: {_elsewhere(version)}")
    return run


def _of_these_members(
    client: MlflowClient,
    run: Run,
    records: Sequence[ReportRecord],
    n_subjects: int,
    version: RegisteredVersion,
    model: LoggedModel | None,
) -> _Found:
    """Return the newest of some reports whose members the files of a version hold.

    An ensemble that has grown holds the members of the smaller one too, so the newest must be of the most members.
    """
    read = (_read_if_kept(client, record, version) for record in records)
    reports = [found for found in read if found is not None]
    held = hold_members(_place(client, version, model), [found.report for found in reports])
    own = [found for found, holds in zip(reports, held, strict=True) if holds]
    if not own or own[0].report.n_members < max(found.report.n_members for found in own):
        raise GateError(
            f"Run {run.info.run_id} has had reports on {n_subjects} models, and none of them is linked to version "
            f"{version.version}, so which one is about it is not known. {_link_remedy(version, model)}"
        )
    return own[0]


def _read_if_kept(client: MlflowClient, record: ReportRecord, version: RegisteredVersion) -> _Found | None:
    """Return the report of a record; None where its file is not the one that was logged, as a later one replaced it."""
    listed = _files_beside(client, record)
    if record.path not in listed:
        return None
    content = _report_bytes(client, record, listed, version)
    if not _has_sum(record, content):
        return None
    return _checked(client, _live_run(client, record.run_id), record, listed, content, version)


def _files_beside(client: MlflowClient, record: ReportRecord) -> dict[str, FileInfo]:
    return {item.path: item for item in client.list_artifacts(record.run_id, _folder(record))}


def _folder(record: ReportRecord) -> str:
    return record.path.rpartition("/")[0]


def _place(client: MlflowClient, version: RegisteredVersion, model: LoggedModel | None) -> str:
    if model is None:
        return str(client.get_model_version_download_uri(version.name, version.version))
    return str(model.artifact_location)


def _no_record(run: Run, version: RegisteredVersion, model: LoggedModel | None, prefix: str) -> str:
    logged = sorted(_scalar_keys(prefix) & run.data.metrics.keys())
    if not logged:
        return _nothing_logged(version, f"neither its model nor its run has the metric '{prefix}.n_members'")
    return (
        f"Run {run.info.run_id} has the metric {logged[0]!r}, but no record of a report: it was logged by an earlier "
        f"version of ens-plugin, or logging was interrupted. {_link_remedy(version, model)}"
    )


def _check_only_model(
    client: MlflowClient, run: Run, newest: ReportRecord, version: RegisteredVersion, model: LoggedModel | None
) -> None:
    n_models = len(models_of_run(client, run))
    if n_models > 1:
        linked = "linked to none of them" if newest.model_id is None else "linked to another of them"
        raise GateError(
            f"Run {run.info.run_id} logged {counted(n_models, 'model')} and one report that is {linked}, so the report "
            f"need not be of version {version.version}. {_link_remedy(version, model)}"
        )


def _count_subjects(run: Run, records: Sequence[ReportRecord]) -> int:
    """Return the number of models that a run ever had reports on, under whatever prefixes."""
    known = {record.prefix for record in records}
    scored = {name.removesuffix(".n_members") for name in run.data.metrics if name.endswith(".n_members")}
    return len({record.subject for record in records}) + len(scored - known)


def _link_remedy(version: RegisteredVersion, model: LoggedModel | None) -> str:
    """Return how to link a report to the model behind a version."""
    if model is None:
        return "To link it, log each model in a run of its own, with its report, or pass the data to the gate."
    return (
        f"To link a report to this model, log it with log_report(report, model_id={model.model_id!r}), run "
        f"`ens-plugin analyze {printable(version.uri, 120)} --data FILE --target COL --log`, or pass the data to the "
        "gate."
    )


def _damaged(place: str, version: RegisteredVersion, model: LoggedModel | None, error: Exception) -> str:
    return f"The record of reports of {place} is damaged ({printable(str(error), 80)}). {_link_remedy(version, model)}"


def _has_sum(record: ReportRecord, content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == record.sha256


def _check_sum(record: ReportRecord, content: bytes) -> None:
    if not _has_sum(record, content):
        raise GateError(
            f"{record.path!r} in run {record.run_id} is not the report that was logged there for this model: it was "
            "changed, or another report has replaced it. Log the report again; several reports in one run need a "
            "prefix each."
        )


def _check_subject(record: ReportRecord, report: EnsembleReport, version: RegisteredVersion) -> None:
    if report.model_id != record.model_id or subject_of(report) != record.subject:
        raise GateError(
            f"The report in run {record.run_id} and the record of it differ on the model that it is about "
            f"({printable(str(report.model_id), 80)} and {printable(str(record.model_id), 80)}), so it need not be of "
            f"version {version.version}. Log the report again."
        )


def logged_metrics(client: MlflowClient, version: RegisteredVersion, bounded: Collection[str]) -> dict[str, float]:
    """Return the latest value of each metric of a version: of its LoggedModel, or else of its run.

    MLflow copies the metrics of a run to each model that the run logs later, and links further ones to a model of the
    run that it chooses.  So where a run logged several models, its metrics count only at steps at which it logged none.

    Parameters
    ----------
    client : MlflowClient
    version : RegisteredVersion
    bounded : collection of str
        Names of the metrics that a policy bounds, which are NaN where NaN was logged.

    Raises
    ------
    GateError
        If the run is deleted, the version is not its model, or a bounded metric may be about another model.
    MlflowException
        If the server refuses.
    """
    model = logged_model(client, version)
    values, doubtful = _metrics_of_run(client, version, model)
    if model is not None:
        own, others = _metrics_of_model(client, model)
        values.update({key: _value(client, one) if key in bounded else one.value for key, one in own.items()})
        doubtful |= others
    for name in sorted(doubtful & set(bounded) - values.keys()):
        raise GateError(
            f"The metric {printable(name, 80)!r} of {printable(version.uri, 120)} was logged in a run that logged "
            "several models, among which MLflow spreads metrics, so it need not be about this one. "
            f"{_metric_remedy(name, model)}"
        )
    return values


def _metric_remedy(name: str, model: LoggedModel | None) -> str:
    if model is None:
        return "Log each model in a run of its own, with its metrics."
    return (
        f"Log it in a run of its own: with mlflow.start_run(): mlflow.log_metric({printable(name, 80)!r}, value, "
        f"model_id={model.model_id!r})."
    )


def _metrics_of_run(
    client: MlflowClient, version: RegisteredVersion, model: LoggedModel | None
) -> tuple[dict[str, float], set[str]]:
    """Return the metrics of a version's run if it logged no other model, else the names of those that it has."""
    run_id = version.run_id
    if run_id is None:
        return {}, set()
    run = _live_run(client, run_id)
    if not comes_from_run(client, version, run, model):
        if model is None:
            raise GateError(f"There are no metrics for {printable(version.uri, 120)}: {_elsewhere(version)}")
        return {}, set()
    if len(models_of_run(client, run)) > 1:
        return {}, set(run.data.metrics)
    return dict(run.data.metrics), set()


def _metrics_of_model(client: MlflowClient, model: LoggedModel) -> tuple[dict[str, Metric], set[str]]:
    """Return the latest of a model's metrics that are about no other model, and the names of the others."""
    steps: dict[str, frozenset[int]] = {}
    own: dict[str, Metric] = {}
    others: set[str] = set()
    for metric in sorted(model.metrics or [], key=lambda metric: (metric.step, metric.timestamp)):
        run_id = str(metric.run_id)
        if run_id not in steps:
            steps[run_id] = _steps_of_others(client, run_id, model.model_id)
        if metric.step in steps[run_id]:
            others.add(metric.key)
        else:
            own[metric.key] = metric
    return own, others


def _steps_of_others(client: MlflowClient, run_id: str, model_id: str) -> frozenset[int]:
    """Return the steps at which a run logged models, if it logged others than one."""
    models = models_of_run(client, client.get_run(run_id))
    return frozenset(models.values()) if models.keys() - {model_id} else frozenset()


def _value(client: MlflowClient, metric: Metric) -> float:
    """Return the value of a metric of a LoggedModel; NaN where NaN was logged, which MLflow's databases keep as 0.

    The history does not tell models of one run apart, so 0 is NaN too where both were logged at one time and step.
    """
    if metric.value != 0.0:
        return float(metric.value)
    history = client.get_metric_history(str(metric.run_id), metric.key)
    logged = [found.value for found in history if (found.step, found.timestamp) == (metric.step, metric.timestamp)]
    return math.nan if any(map(math.isnan, logged)) else 0.0


def _live_run(client: MlflowClient, run_id: str) -> Run:
    run = client.get_run(run_id)
    if run.info.lifecycle_stage == "deleted":
        raise GateError(
            f"The run {run_id}, which the report was logged to, is deleted. Restore it with `mlflow runs restore`, "
            "or log the report again."
        )
    return run


def _report_bytes(
    client: MlflowClient, record: ReportRecord, listed: Mapping[str, FileInfo], version: RegisteredVersion
) -> bytes:
    run_id, path = record.run_id, record.path
    if path not in listed or listed[path].is_dir:
        raise GateError(_nothing_logged(version, f"run {run_id} has no artifact {path!r}"))
    _check_size(listed[path].file_size or 0, path, run_id)
    with scratch_folder() as directory:
        file = Path(client.download_artifacts(run_id, path, str(directory))).resolve()
        if not file.is_relative_to(directory.resolve()):
            raise GateError(f"{path!r} in run {run_id} leads out of its folder. Log the report again.")
        # The listed size can be wrong.
        _check_size(file.stat().st_size, path, run_id)
        return file.read_bytes()


def _check_size(size: int, path: str, run_id: str) -> None:
    if size > REPORT_BYTES:
        raise GateError(
            f"{path!r} in run {run_id} has {size} bytes, more than any report (at most {REPORT_BYTES}). Log it again."
        )


def _compare(client: MlflowClient, report: EnsembleReport, run: Run, prefix: str) -> None:
    for point in scalar_points(report, prefix):
        logged = run.data.metrics.get(point.key)
        if logged is None:
            raise GateError(
                f"Run {run.info.run_id} lacks the metric {point.key!r} of its report, so logging was interrupted. "
                "Log the report again."
            )
        if not math.isclose(logged, point.value, rel_tol=1e-9) and not _was_logged(client, run, point):
            raise GateError(
                f"Run {run.info.run_id} contradicts itself: the metric {point.key!r} is {logged!r}, and the report has "
                f"{point.value!r}. One of them was changed or belongs to another report. Log the report again."
            )


def _was_logged(client: MlflowClient, run: Run, point: Point) -> bool:
    """Return whether a metric ever had a value: by the clocks of clients, an earlier report can look newer."""
    history = client.get_metric_history(run.info.run_id, point.key)
    return any(math.isclose(found.value, point.value, rel_tol=1e-9) for found in history)


def _scalar_keys(prefix: str) -> frozenset[str]:
    from ens_plugin.registry.gating.policy import REPORT_SCALARS

    return frozenset(f"{prefix}.{name}" for name in REPORT_SCALARS)


def _elsewhere(version: RegisteredVersion) -> str:
    return (
        f"it names run {version.run_id}, but was registered from {printable(version.source or 'nowhere', 120)}, which "
        "is not a model of that run, so what the run logged may be about another model. Register the model from "
        "the run that logged it, or pass the data to the gate."
    )


def _nothing_logged(version: RegisteredVersion, found: str) -> str:
    return (
        f"There is no ensemble report for version {version.version} of {printable(version.name, 80)}: {found}. "
        f"{ADVICE.format(uri=printable(version.uri, 120))}, or pass the data to the gate."
    )
