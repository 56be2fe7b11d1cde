"""The report and the metrics that were logged for a registered version, checked against each other."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.core.validation import counted
from ens_plugin.errors import GateError
from ens_plugin.registry.gating.version_origin import comes_from_run, model_paths
from ens_plugin.report.result import LONGEST_REPORT, EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.logging.artifacts import artifact_path
from ens_plugin.tracking.logging.curve_points import scalar_points
from ens_plugin.tracking.store.model_version import RegisteredVersion
from ens_plugin.tracking.store.scratch import scratch_folder

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import FileInfo, Metric, Run

__all__ = ["LoggedReport", "logged_metrics", "read_report"]

REPORT_BYTES = LONGEST_REPORT
REPORT_FILE = "report.json"
ADVICE = "Analyse the model and log its report with `ens-plugin analyze {uri} --data FILE --target COL --log`"


class LoggedReport(NamedTuple):
    """A logged report, and the URI of its page, or of its JSON where no page was logged."""

    report: EnsembleReport
    uri: str


class _Scalars(NamedTuple):
    run_id: str
    values: Mapping[str, float]


def read_report(client: MlflowClient, version: RegisteredVersion, prefix: str) -> LoggedReport:
    """Return the newest report logged for a version, checked against the scalars logged with it.

    Parameters
    ----------
    client : MlflowClient
    version : RegisteredVersion
    prefix : str
        As for :func:`ens_plugin.log_report`.

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
    scalars = _linked_scalars(client, version, prefix) or _run_scalars(client, version, prefix)
    folder = artifact_path(prefix)
    listed = {item.path: item for item in client.list_artifacts(scalars.run_id, folder)}
    report = EnsembleReport.from_json(_report_text(client, scalars.run_id, folder, listed, version))
    _compare(report, scalars, prefix)
    # Checked last, because the run may have been deleted meanwhile.
    _live_run(client, scalars.run_id)
    # autolog leaves the page out where its share of the training time would not be enough for it.
    shown = "report.html" if f"{folder}/report.html" in listed else REPORT_FILE
    return LoggedReport(report, f"runs:/{scalars.run_id}/{folder}/{shown}")


def logged_metrics(client: MlflowClient, version: RegisteredVersion, bounded: Collection[str]) -> dict[str, float]:
    """Return the latest value of each metric of a version: of its LoggedModel, or else of its run.

    Parameters
    ----------
    client : MlflowClient
    version : RegisteredVersion
    bounded : collection of str
        Names of the metrics that a policy bounds, which are NaN where NaN was logged.

    Raises
    ------
    GateError
        If the run is deleted, or the version is not its model.
    MlflowException
        If the server refuses.
    """
    values: dict[str, float] = {}
    if version.run_id is not None:
        run = _live_run(client, version.run_id)
        if comes_from_run(client, version, run):
            values.update(run.data.metrics)
        elif version.model_id is None:
            raise GateError(f"There are no metrics for {printable(version.uri, 120)}: {_elsewhere(version)}")
    if version.model_id is not None:
        metrics = client.get_logged_model(version.model_id).metrics or []
        latest = {one.key: one for one in sorted(metrics, key=lambda metric: (metric.step, metric.timestamp))}
        values.update({key: _value(client, one) if key in bounded else one.value for key, one in latest.items()})
    return values


def _value(client: MlflowClient, metric: Metric) -> float:
    """Return the value of a metric of a LoggedModel; NaN where NaN was logged, which MLflow's databases keep as 0.

    The history does not tell models of one run apart, so 0 is NaN too where both were logged at one time and step.
    """
    if metric.value != 0.0:
        return float(metric.value)
    history = client.get_metric_history(str(metric.run_id), metric.key)
    logged = [found.value for found in history if (found.step, found.timestamp) == (metric.step, metric.timestamp)]
    return math.nan if any(map(math.isnan, logged)) else 0.0


def _linked_scalars(client: MlflowClient, version: RegisteredVersion, prefix: str) -> _Scalars | None:
    """Return the scalars that log_report linked to the LoggedModel, from the run that logged them last."""
    if version.model_id is None:
        return None
    keys = _keys(prefix)
    metrics = [metric for metric in client.get_logged_model(version.model_id).metrics or [] if metric.key in keys]
    if not metrics:
        return None
    run_id = max(metrics, key=lambda metric: (metric.timestamp, metric.run_id)).run_id
    # The names of the scores in it are not known yet.
    linked = client.get_logged_model(version.model_id).metrics or []
    own = sorted((metric for metric in linked if metric.run_id == run_id), key=lambda metric: metric.timestamp)
    return _Scalars(str(run_id), {metric.key: metric.value for metric in own})


def _run_scalars(client: MlflowClient, version: RegisteredVersion, prefix: str) -> _Scalars:
    """Return the scalars of the version's run; raise GateError if they may be of another model of the run."""
    if version.run_id is None:
        raise GateError(_nothing_logged(version, "it was registered without a run"))
    run = _live_run(client, version.run_id)
    if not comes_from_run(client, version, run):
        raise GateError(f"There is no ensemble report for {printable(version.uri, 120)}: {_elsewhere(version)}")
    values = {key: value for key, value in run.data.metrics.items() if key.startswith(f"{prefix}.")}
    if not values.keys() & _keys(prefix):
        raise GateError(_nothing_logged(version, f"neither its model nor its run has the metric '{prefix}.n_members'"))
    n_models = _count_models(run)
    if n_models > 1:
        remedy = (
            "log each model in a run of its own"
            if version.model_id is None
            else f"log it again with log_report(report, run_id=..., model_id={version.model_id!r})"
        )
        raise GateError(
            f"Run {version.run_id} logged {counted(n_models, 'model')} and one report that is linked to none of them, "
            f"so the report need not be of version {version.version}. To link it, {remedy}."
        )
    return _Scalars(version.run_id, values)


def _count_models(run: Run) -> int:
    """Return the number of models that a run logged; those of MLflow's Spark flavour are in a tag of the run."""
    logged = [] if run.outputs is None else run.outputs.model_outputs
    return len(logged) + len(model_paths(run))


def _keys(prefix: str) -> frozenset[str]:
    from ens_plugin.registry.gating.policy import REPORT_SCALARS

    return frozenset(f"{prefix}.{name}" for name in REPORT_SCALARS)


def _live_run(client: MlflowClient, run_id: str) -> Run:
    run = client.get_run(run_id)
    if run.info.lifecycle_stage == "deleted":
        raise GateError(
            f"The run {run_id}, which the report was logged to, is deleted. Restore it with `mlflow runs restore`, "
            "or log the report again."
        )
    return run


def _report_text(
    client: MlflowClient, run_id: str, folder: str, listed: Mapping[str, FileInfo], version: RegisteredVersion
) -> str:
    path = f"{folder}/{REPORT_FILE}"
    if path not in listed or listed[path].is_dir:
        raise GateError(_nothing_logged(version, f"run {run_id} has no artifact {path!r}"))
    _check_size(listed[path].file_size or 0, path, run_id)
    with scratch_folder() as directory:
        file = Path(client.download_artifacts(run_id, path, str(directory))).resolve()
        if not file.is_relative_to(directory.resolve()):
            raise GateError(f"{path!r} in run {run_id} leads out of its folder. Log the report again.")
        # The listed size can be wrong.
        _check_size(file.stat().st_size, path, run_id)
        return file.read_text(encoding="utf-8", errors="replace")


def _check_size(size: int, path: str, run_id: str) -> None:
    if size > REPORT_BYTES:
        raise GateError(
            f"{path!r} in run {run_id} has {size} bytes, more than any report (at most {REPORT_BYTES}). Log it again."
        )


def _compare(report: EnsembleReport, scalars: _Scalars, prefix: str) -> None:
    for point in scalar_points(report, prefix):
        logged = scalars.values.get(point.key)
        if logged is None:
            raise GateError(
                f"Run {scalars.run_id} lacks the metric {point.key!r} of its report, so logging was interrupted. "
                "Log the report again."
            )
        if not math.isclose(logged, point.value, rel_tol=1e-9):
            raise GateError(
                f"Run {scalars.run_id} contradicts itself: the metric {point.key!r} is {logged!r}, and the report has "
                f"{point.value!r}. One of them was changed or belongs to another report. Log the report again."
            )


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
