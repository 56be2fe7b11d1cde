"""What is known of a model version: the report that is linked to it, its origin, and its comparison with a baseline."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from ens_plugin.analysis.judged import JudgedMetric, metric_difference, rows_of_both
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.core.comparison import FEWEST_PAIRS, Difference, paired_difference, separate_difference
from ens_plugin.core.judged_rows import judged_by_both
from ens_plugin.core.validation import counted, label_text, shown
from ens_plugin.errors import (
    BagError,
    GateError,
    InputError,
    ModelLoadError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from ens_plugin.registry.policy import BASELINE_SCALARS, REPORT_SCALARS, Check, Policy, Requirement, apart
from ens_plugin.report.result import LONGEST_REPORT, OWN_LABEL, EnsembleReport
from ens_plugin.report.text import first_doubt, label_words, printable, with_code
from ens_plugin.tracking.connection import scratch_folder
from ens_plugin.tracking.digest import Measurement, Rows, measure
from ens_plugin.tracking.log import (
    PAGE_FILE,
    Point,
    ReportRecord,
    is_numbered,
    model_file_digest,
    model_records,
    run_records,
    scalar_points,
    subject_of,
)
from ens_plugin.tracking.models import RegisteredVersion, VersionAddress, alias_holder, find_version, hold_members

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import FileInfo, LoggedModel, Metric, Run

__all__ = [
    "DOUBT_LIMIT",
    "LEVEL",
    "BaselineEvidence",
    "GateEvidence",
    "GateRequest",
    "are_misspelt",
    "check_promoted_alias",
    "compare_intervals",
    "compare_pairs",
    "compare_with_baseline",
    "gather_evidence",
    "of_label",
    "remedy",
    "scalar_tables",
    "with_compared_values",
]

MODEL_HISTORY_TAG = "mlflow.log-model.history"
MODEL_PLACE = re.compile(r"/models/(?P<id>m-[0-9a-f]{32})/artifacts/?$")
RUN_PLACE = re.compile(r"runs:/(?P<run>[^/]+)/(?P<path>.+)")
MANY = 100


def logged_model(client: MlflowClient, version: RegisteredVersion) -> LoggedModel | None:
    """Return the LoggedModel whose files a version has, also where it is a copy or was registered by its place."""
    if version.model_id is not None:
        return _existing(client, version.model_id, version)
    # The source of a copied version is the original version.
    for place in (client.get_model_version_download_uri(version.name, version.version), version.source or ""):
        found = MODEL_PLACE.search(place)
        if found is not None:
            model = _existing(client, found["id"], version)
            if _below(place, str(model.artifact_location)) == "":
                return model
        named = RUN_PLACE.fullmatch(place)
        if named is not None and named["run"] == version.run_id:
            models = [_found(client, model_id) for model_id in _outputs(client.get_run(named["run"]))]
            wanted = [model for model in models if model is not None and model.name == named["path"].rstrip("/")]
            if len(wanted) == 1:
                return wanted[0]
    return None


def _existing(client: MlflowClient, model_id: str, version: RegisteredVersion) -> LoggedModel:
    model = _found(client, model_id)
    if model is None:
        raise GateError(
            f"The logged model {printable(model_id, 80)}, which version {version.version} of "
            f"{printable(version.name, 80)} was registered from, is deleted or in another store. Log the model and its "
            "report again, and register that one."
        )
    return model


def _found(client: MlflowClient, model_id: str) -> LoggedModel | None:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_logged_model(model_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def models_of_run(client: MlflowClient, run: Run) -> dict[str, int]:
    """Return the step of each model that a run ever logged, deleted ones too, by the id or the folder of the model."""
    made = client.search_logged_models(
        [run.info.experiment_id], filter_string=f"source_run_id = '{run.info.run_id}'", max_results=MANY
    )
    return {
        **dict.fromkeys(model_paths(run), 0),
        **{str(model.model_id): 0 for model in made},
        **_outputs(run),
    }  # fmt: skip


def comes_from_run(client: MlflowClient, version: RegisteredVersion, run: Run, model: LoggedModel | None) -> bool:
    """Return whether the files of a version are a model of `run`, or lie in its artifact folder if it logged none.

    Whoever registers a version names a run and a source, and MLflow does not compare them.
    """
    outputs = _outputs(run)
    if model is not None:
        return model.model_id in outputs or model.source_run_id == run.info.run_id
    models = [found for model_id in outputs if (found := _found(client, model_id)) is not None]
    own = {str(found.name) for found in models} | set(model_paths(run))
    places = [version.source or "", client.get_model_version_download_uri(version.name, version.version)]
    roots = (str(run.info.artifact_uri), f"runs:/{run.info.run_id}")
    inside = {path for place in places for root in roots if (path := _below(place, root)) is not None}
    return any(path in own if own or outputs else True for path in inside)


def model_paths(run: Run) -> tuple[str, ...]:
    """Return the folders of a run's models without a LoggedModel, such as those of MLflow's Spark flavour."""
    text = run.data.tags.get(MODEL_HISTORY_TAG)
    if text is None:
        return ()
    try:
        return tuple({_path(model): None for model in _list(json.loads(text))})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise GateError(
            f"The tag {MODEL_HISTORY_TAG!r} of run {run.info.run_id} does not have MLflow's format "
            f"({printable(text, 80)}), so it is not known which models the run logged. Log the model again, in a run "
            "of its own."
        ) from error


def _list(content: object) -> list[dict[str, object]]:
    if not isinstance(content, list):
        raise TypeError("not a list")
    return content


def _path(model: dict[str, object]) -> str:
    path = model["artifact_path"]
    if not isinstance(path, str):
        raise TypeError("not a path")
    return path


def _outputs(run: Run) -> dict[str, int]:
    outputs = [] if run.outputs is None else run.outputs.model_outputs
    return {str(output.model_id): int(output.step) for output in outputs}


def _below(uri: str, root: str) -> str | None:
    """Return the path of `uri` relative to `root`, empty where they are the same; None if it is not below `root`."""
    (scheme, host, path), (root_scheme, root_host, root_path) = _parts(uri), _parts(root)
    if not path or not root_path or ".." in PurePosixPath(path).parts or (scheme, host) != (root_scheme, root_host):
        return None
    found, wanted = PurePosixPath(path), PurePosixPath(root_path)
    return _relative(found, wanted) if found.is_relative_to(wanted) else None


def _relative(path: PurePosixPath, root: PurePosixPath) -> str:
    return "" if path == root else str(path.relative_to(root))


def _parts(uri: str) -> tuple[str, str, str]:
    split = urlsplit(uri)
    # A Windows drive is no scheme.
    if len(split.scheme) < 2:
        return "file", "", uri.replace("\\", "/")
    if split.query or split.fragment:
        return "", "", ""
    return split.scheme, split.netloc, unquote(split.path)


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
    page = f"{_folder(record)}/{PAGE_FILE}"
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
    """Return the newest report in the run of a version, which logged no other model, if it is about this one."""
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


LEVEL = AnalysisOptions.interval_level
OF_ONE_LABEL = ("average_precision", "f1", "jaccard", "precision", "recall")
_ENDS = {"error_increase_lower": "lower", "error_increase_upper": "upper"}


class Comparison(NamedTuple):
    """The difference of a candidate's error and a baseline's, with its 95 % interval, and how it was estimated.

    The reports are that of the candidate and that of the baseline.
    """

    increase: Difference
    method: str
    reports: tuple[EnsembleReport, EnsembleReport]


def compare_pairs(candidate: Measurement, baseline: Measurement) -> Comparison:
    """Return the difference of two models' errors from their losses row by row.

    On out-of-bag rows, where fewer members predict than the models have, the difference is corrected for the
    missing members of both, so that it is the difference at the models' own sizes.  Of a metric it is positive where
    the candidate is worse.  The interval includes what another seed would change in both models, so that training again
    with another seed rarely shows an increase.
    """
    _check_same_error(candidate.report, baseline.report)
    first, second, reports = candidate.judged, baseline.judged, (candidate.report, baseline.report)
    kind = "held-out" if candidate.report.data == "holdout" else "out-of-bag"
    if isinstance(first, JudgedMetric):
        assert isinstance(second, JudgedMetric)
        n_rows = _enough(rows_of_both(first, second)[0].size)
        name = candidate.report.error_curve.metric
        increase = metric_difference(first, second, LEVEL)
        return Comparison(increase, f"{name} on the same {counted(n_rows, f'{kind} row')}", reports)
    assert not isinstance(second, JudgedMetric)
    n_rows = _enough(int(np.count_nonzero(judged_by_both(first, second))))
    increase = paired_difference(first, second, candidate.report.task, LEVEL)
    return Comparison(increase, f"paired differences on {counted(n_rows, f'{kind} row')}", reports)


def _enough(n_rows: int) -> int:
    """Return the number of rows; raise GateError where it is too small."""
    if n_rows < FEWEST_PAIRS:
        raise GateError(f"Only {counted(n_rows, 'row')} can be scored by both models. Pass more rows.")
    return n_rows


def compare_intervals(candidate: EnsembleReport, baseline: EnsembleReport) -> Comparison:
    """Return the difference of two reports' errors from their data intervals alone, without pairing rows."""
    _check_same_error(candidate, baseline)
    for report in (candidate, baseline):
        known = all(map(math.isfinite, (report.error, *report.error_interval)))
        if not known or report.error_curve.interval_level != LEVEL:
            raise GateError(
                f"A comparison needs 95 % intervals, and a report of {counted(report.n_members, 'member')} has "
                f"{f'{report.error_curve.interval_level:.4g} ones' if known else 'none at that size'}. "
                f"Analyse the model again with interval_level={LEVEL:g} and the default estimator."
            )
    apart = [Difference(report.error, *report.error_interval) for report in (candidate, baseline)]
    if candidate.error_curve.greater_is_better:
        # An increase of the error is a decrease of the score.
        apart.reverse()
    return Comparison(separate_difference(*apart), "both 95 % data intervals", (candidate, baseline))


def with_compared_values(checks: Sequence[Check], comparison: Comparison, baseline: str) -> list[Check]:
    """Return checks of which those on the table "baseline" name the metric of both models and its change.

    What several of them have in common is stated in the first one that a verdict shows, which failed if any did.
    """
    found, told = list(checks), list[Requirement]()
    for place in sorted(range(len(found)), key=lambda place: found[place].passed):
        requirement = found[place].requirement
        if requirement.table == "baseline":
            found[place] = replace(found[place], subject=_compared_values(requirement, comparison, baseline, told))
            told.append(requirement)
    return found


def _compared_values(
    requirement: Requirement, comparison: Comparison, baseline: str, told: Sequence[Requirement]
) -> str:
    """Return the beginning of a sentence, which the value found and its bound end, after the sentences `told`."""
    curve = comparison.reports[0].error_curve
    here, there = apart(*(report.error for report in comparison.reports))
    words = _change_words(
        requirement,
        comparison.increase,
        "decrease" if curve.greater_is_better else "increase",
        has_interval=any(earlier.name in _ENDS for earlier in told),
    )
    key = f"baseline.{requirement.key or requirement.name}"
    if told:
        return f"{key}: the {words}"
    metric = f"{printable(curve.metric, 40)}{of_label(comparison.reports[0])}"
    return f"{key}: {metric} is {here}, and that of {baseline} is {there}. The {words}"


def _change_words(requirement: Requirement, increase: Difference, change: str, *, has_interval: bool) -> str:
    """Return the change between two models, with its interval where the requirement is on an end that is not told."""
    if requirement.name not in _ENDS:
        return f"{change} is"
    level, end = f"{100 * LEVEL:g} %", _ENDS[requirement.name]
    if has_interval:
        return f"{end} end of the {level} interval of the {change} is"
    low, high = apart(increase.lower, increase.upper)
    return (
        f"{change} is {increase.estimate:.4g}, and its {level} interval is from {low} to {high}. The {end} end of that "
        "interval is"
    )


def remedy(requirement: Requirement, comparison: Comparison) -> str:
    """Return what to do where a comparison fails: train again, or measure on more rows if only these are too few."""
    if requirement.name == "error_increase_upper" and comparison.increase.estimate <= requirement.threshold:
        return (
            "The interval is wide for this bound because there are few rows. Compare both versions on more rows, or "
            "train a better model, log its report and gate that version."
        )
    return "Train a model that is no worse, log its report and gate that version."


def _check_same_error(candidate: EnsembleReport, baseline: EnsembleReport) -> None:
    found = candidate.error_curve.metric, baseline.error_curve.metric
    if found[0] != found[1]:
        raise GateError(
            f"The candidate's error is the {printable(found[0], 40)}, the baseline's the {printable(found[1], 40)}. "
            "Compare models with the same metric."
        )
    labels = positive_label(candidate), positive_label(baseline)
    if labels[0] != labels[1]:
        raise GateError(
            f"The candidate's {printable(found[0], 40)} is about the label {shown(labels[0], 40)} and the baseline's "
            f"about {shown(labels[1], 40)}. Compare models by the same label."
        )


def positive_label(report: EnsembleReport) -> str:
    """Return the label that a report's metric is about if it is about one of two."""
    basis = report.error_curve.metric_basis
    return OWN_LABEL if basis is None else basis.label


def of_label(report: EnsembleReport) -> str:
    """Return the label that a report's metric is about, as the words after its name; empty for other metrics.

    Where none was named, scikit-learn's scorers of one of two labels are about the label 1.
    """
    basis, metric = report.error_curve.metric_basis, report.error_curve.metric
    if basis is None or basis.positive_label is not None:
        return label_words(basis)
    is_of_one = metric in OF_ONE_LABEL and len(report.basis.labels) == 2
    return label_words(replace(basis, positive_label=OWN_LABEL)) if is_of_one else ""


DOUBT_LIMIT = 600
ALIASES_LIMIT = 200
INTERVAL_ENDS = ("error_lower", "error_upper")
NOT_SCORED = (BagError, InputError, ModelLoadError, NotFittedError, TooFewMembersError, UnsupportedModelError)


@dataclass(frozen=True)
class GateRequest:
    """The checked arguments of :func:`ens_plugin.gate`."""

    candidate: VersionAddress
    policy: Policy
    baseline: VersionAddress | None
    rows: Rows | None
    promote: str | None
    prefix: str


class GateEvidence(NamedTuple):
    """The report on a candidate, logged or measured by the gate, and its description.

    The report is None where the policy has no requirement on it; a measurement is there where rows were passed to the
    gate.  `words` describe the report's rows and origin.
    """

    report: EnsembleReport | None
    report_uri: str | None
    measurement: Measurement | None
    words: str


class BaselineEvidence(NamedTuple):
    """The comparison of a candidate with a baseline, if there is one, and its description.

    Attributes
    ----------
    comparison : Comparison or None
        None where the policy requires none, or there is no baseline yet.
    words : str or None
        Description of the comparison, or of the reason for none.
    name : str
        Of the version, and of its model where that is another than the candidate's; empty without a comparison.
    warning : str
        Sentence about a comparison that the policy requires and that was not made; else empty.
    """

    comparison: Comparison | None
    version: str | None
    words: str | None
    name: str = ""
    warning: str = ""


def gather_evidence(client: MlflowClient, version: RegisteredVersion, request: GateRequest) -> GateEvidence:
    """Return the report on a version: the logged one, or one measured on the rows of the request."""
    if not request.policy.needs_report():
        return GateEvidence(None, None, None, "logged metrics; the policy has no requirement on an ensemble report")
    if request.rows is None:
        logged = read_report(client, version, request.prefix)
        refuse_doubts(logged.report, version)
        _check_metric(logged.report, version, request.policy)
        _check_level(logged.report, version, request.policy)
        return GateEvidence(
            logged.report, logged.uri, None, f"{_rows_in_words(logged.report)}, as logged at {logged.uri}"
        )
    policy = request.policy
    measured = measure(client, version, request.rows, policy.measured_metric, costs=policy.bounds_costs())
    refuse_doubts(measured.report, version)
    words = f"{_rows_in_words(measured.report)}, measured by the gate (digest {measured.digest})"
    return GateEvidence(measured.report, None, measured, words)


def refuse_doubts(report: EnsembleReport, version: RegisteredVersion) -> None:
    """Raise GateError for a report with doubts, which warn not to rely on its figures."""
    doubt = first_doubt(report)
    if doubt is None:
        return
    raise GateError(
        f"The gate does not act on the report of version {version.version} of {printable(version.name, 80)}, which "
        "warns not to rely on its figures: "
        f"{with_code(doubt, DOUBT_LIMIT)}"
    )


def _check_level(report: EnsembleReport, version: RegisteredVersion, policy: Policy) -> None:
    """Raise GateError where a policy bounds ends of 95 % intervals and a report has intervals of another level."""
    level = report.error_curve.interval_level
    bounded = [item.name for item in policy.requirements if item.table == "report" and item.name in INTERVAL_ENDS]
    if bounded and level != LEVEL:
        raise GateError(
            f"The policy bounds {bounded[0]!r}, an end of a {100 * LEVEL:g} % interval, and the report of version "
            f"{version.version} of {printable(version.name, 80)} has {100 * level:.4g} % intervals. Analyse the model "
            f"again with interval_level={LEVEL:g}."
        )


def _check_metric(report: EnsembleReport, version: RegisteredVersion, policy: Policy) -> None:
    """Raise GateError where a policy names a metric, and a logged report is of another, or about another label."""
    if policy.metric is None:
        return
    found, label = report.error_curve.metric, policy.positive_label or OWN_LABEL
    if found != policy.metric:
        raise GateError(
            f"The policy is about {policy.metric!r}, and the logged report of version {version.version} of "
            f"{printable(version.name, 80)} about {printable(found, 40)!r}. Log one made with "
            f"metric={policy.metric!r}, or pass rows, on which the gate computes it."
        )
    if positive_label(report) != label_text(label):
        raise GateError(
            f"The policy is about {policy.metric!r} with {shown(label)} as the positive label, and the logged report "
            f"of version {version.version} of {printable(version.name, 80)} with {shown(positive_label(report), 40)}. "
            "Log one with the label of the policy, write the label of the report as positive_label under [report], or "
            "pass rows, on which the gate computes the metric."
        )


def _rows_in_words(report: EnsembleReport) -> str:
    left_out = f" ({report.rows_without_oob} more left out)" if report.rows_without_oob else ""
    return f"{report.n_rows} {'out-of-bag' if report.data == 'oob' else 'held-out'} rows{left_out}"


def compare_with_baseline(
    client: MlflowClient, version: RegisteredVersion, evidence: GateEvidence, request: GateRequest
) -> BaselineEvidence:
    """Return the comparison of the candidate with the baseline, as far as the policy requires one."""
    address, policy = request.baseline, request.policy
    if not policy.compares():
        return BaselineEvidence(
            None, None, None if address is None else "not compared, since the policy does not require it"
        )
    if address is None:
        raise GateError(
            "The policy compares with a baseline, and none was named. Name an alias of the same model, with "
            "--baseline champion or baseline='champion' for example, or the URI of a version, such as "
            f"'models:/{printable(version.name, 80)}/1'."
        )
    if address.version is None and alias_holder(client, address) is None:
        if policy.baseline_required:
            raise GateError(
                f"The policy compares with the version of {printable(address.name, 80)} that has the alias "
                f"{address.alias!r}, and none has it. Set the alias, or add 'required = false' under [baseline] of the "
                "policy, so that a version is judged without a comparison as long as there is none."
            )
        return _without_baseline(address, version, _aliases(client, address))
    baseline = find_version(client, address)
    comparison = _compared(client, version, baseline, evidence, request)
    number, model = f"version {baseline.version}", f" of {printable(baseline.name, 80)}"
    name = number if baseline.name == version.name else number + model
    return BaselineEvidence(comparison, baseline.version, f"{number}{model}, by {comparison.method}", name)


def _aliases(client: MlflowClient, address: VersionAddress) -> list[str]:
    return sorted(str(alias) for alias in client.get_registered_model(address.name).aliases)


def are_misspelt(first: str, second: str) -> bool:
    """Return whether one alias is the other with its letters in another order, or with one left out before the end.

    Aliases that are alike on purpose differ at their ends, in their digits, or in other letters: "champion-eu" and
    "champion-us", "v12" and "v21".
    """
    if [letter for letter in first if letter.isdigit()] != [letter for letter in second if letter.isdigit()]:
        return False
    if sorted(first) == sorted(second):
        return True
    short, long = sorted((first, second), key=len)
    without_one = {long[:place] + long[place + 1 :] for place in range(len(long) - 1)}
    return short in without_one and not long.startswith(short)


def check_promoted_alias(client: MlflowClient, address: VersionAddress) -> None:
    """Check that the alias to promote to, if no version has it yet, is not nearly one that a version has."""
    aliases = _aliases(client, address)
    if address.alias not in aliases:
        _refuse_misspelt(address, aliases, "alias to promote to")


def _refuse_misspelt(address: VersionAddress, aliases: list[str], role: str) -> None:
    wanted, model = address.alias or "", printable(address.name, 80)
    near = [alias for alias in aliases if are_misspelt(wanted, alias)]
    if near:
        raise GateError(
            f"No version of {model} has the alias {wanted!r}, and one has {printable(near[0], 80)!r}, so the name of "
            f"the {role} may be misspelt. Correct it, or set the alias that you named."
        )


def _without_baseline(address: VersionAddress, version: RegisteredVersion, aliases: list[str]) -> BaselineEvidence:
    """Return the evidence where no version has the alias of the baseline yet; refuse an alias that looks misspelt."""
    wanted, model = address.alias or "", printable(address.name, 80)
    _refuse_misspelt(address, aliases, "baseline")
    others = f"It has the aliases {', '.join(map(repr, aliases))}." if aliases else "It has no alias at all."
    return BaselineEvidence(
        None,
        None,
        f"not compared, since no version has the alias {wanted!r} yet",
        warning=f"Version {version.version} was not compared with a baseline, because no version of {model} has the "
        f"alias {wanted!r} yet. {printable(others, ALIASES_LIMIT)}",
    )


def _compared(
    client: MlflowClient, version: RegisteredVersion, baseline: RegisteredVersion, evidence: GateEvidence,
    request: GateRequest,
) -> Comparison:  # fmt: skip
    assert evidence.report is not None
    if (baseline.name, baseline.version) == (version.name, version.version):
        reports = (evidence.report, evidence.report)
        return Comparison(Difference(0.0, 0.0, 0.0), "identity: it is the candidate itself", reports)
    if evidence.measurement is None:
        return compare_intervals(evidence.report, _relied_on(client, baseline, request))
    assert request.rows is not None
    try:
        measured = measure(client, baseline, request.rows, request.policy.measured_metric)
        refuse_doubts(measured.report, baseline)
        return compare_pairs(evidence.measurement, measured)
    except NOT_SCORED as error:
        reason = printable(str(error), 200)
        found = compare_intervals(evidence.report, _relied_on(client, baseline, request))
        return found._replace(method=f"{found.method}, because it cannot be scored on the rows given: {reason}")


def _relied_on(client: MlflowClient, version: RegisteredVersion, request: GateRequest) -> EnsembleReport:
    report = read_report(client, version, request.prefix).report
    refuse_doubts(report, version)
    return report


def scalar_tables(
    client: MlflowClient, version: RegisteredVersion, evidence: GateEvidence, baseline: BaselineEvidence, policy: Policy
) -> dict[str, Mapping[str, float]]:
    """Return the values of the scalars that a policy can bound, by table of the policy and by name."""
    tables: dict[str, Mapping[str, float]] = {}
    if evidence.report is not None:
        tables["report"] = _report_scalars(evidence.report)
    if baseline.comparison is not None:
        tables["baseline"] = dict(zip(BASELINE_SCALARS, baseline.comparison.increase, strict=True))
    if bounded := {requirement.name for requirement in policy.requirements if requirement.table == "metrics"}:
        tables["metrics"] = logged_metrics(client, version, bounded)
    return tables


def _report_scalars(report: EnsembleReport) -> dict[str, float]:
    scalars = {name: value for name, value in report.metrics().items() if math.isfinite(value)}
    if report.size_ratio is not None:
        # An upper bound where the recommended size was capped, because that size is then a lower bound.
        scalars["size_ratio"] = report.size_ratio
    return scalars
