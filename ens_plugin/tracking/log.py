"""A report logged to a run of MLflow: scalars, curves, artifacts, and the record that links it to its model."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.proof import with_rows
from ens_plugin.core.judged_rows import write_judged_rows
from ens_plugin.errors import EnsPluginError, InputError, TrackingError, ends_at_caller
from ens_plugin.findings import codes_of
from ens_plugin.report.answers import headline, markdown_answers
from ens_plugin.report.ensemble_report import LONGEST_REPORT, EnsembleReport
from ens_plugin.report.text import printable, recommended_text
from ens_plugin.tracking.connection import check_server, require_mlflow, tracking_errors
from ens_plugin.tracking.links import (
    ReportLink,
    StoredModel,
    find_stored,
    models_of_run,
    prove_stored,
    write_link,
)
from ens_plugin.tracking.trackers import MLFLOW, ReportParts, check_tracker, kind_of, log_to

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from mlflow import MlflowClient
    from mlflow.entities import Run

DEFAULT_PREFIX = "ens"  # of the names of all metrics, tags and artifacts of a report
REPORT_FILE = "report.json"
PAGE_FILE = "report.html"
ROWS_FILE = "judged_rows.npz"
FIRST_SIZE = 10
N_POINTS = 99  # and the current size
DESCRIPTION_TAG = "mlflow.note.content"
VERDICT_LIMIT = 500  # of characters, in a column of MLflow's table of runs
BLOCK_LIMIT = 4000
DESCRIPTION_LIMIT = 8000  # of MLflow's tag values: longer ones are cut, end marker included
ANY_BLOCK = re.compile(r"<!-- ens_plugin:(?P<prefix>\S+) begin -->.*?<!-- ens_plugin:(?P=prefix) end -->", re.DOTALL)
LOGGER = logging.getLogger("ens_plugin.tracking")


def artifact_path(prefix: str) -> str:
    """Return the directory of a report's artifacts inside a run."""
    return "ensemble" if prefix == DEFAULT_PREFIX else f"ensemble/{prefix}"


def render_artifacts(report: EnsembleReport, directory: Path) -> None:
    """Write the data and the page of a report into an existing directory."""
    write_data(report, directory)
    report.to_html(directory / PAGE_FILE)


def draw_figures(report: EnsembleReport, directory: Path) -> Path:
    """Write the figures of a report into a new directory and return it."""
    from ens_plugin.report.plots import report_figures

    return save_figures(lambda: report_figures(report), directory)


def draw_plot(plot: Callable[[Axes], object], directory: Path, name: str) -> Path:
    """Write a figure of what `plot` draws on axes into a new directory and return that."""

    def draw() -> Mapping[str, Figure]:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 5.0), layout="constrained")
        plot(figure.subplots())
        return {name: figure}

    return save_figures(draw, directory)


def save_figures(draw: Callable[[], Mapping[str, Figure]], directory: Path) -> Path:
    """Write figures, drawn in matplotlib's default style, into a new directory and return it."""
    from ens_plugin.report.plots import default_style

    directory.mkdir()
    with default_style():
        for name, figure in draw().items():
            # Saved at the figure's own size: a tight bounding box has no limit.
            figure.savefig(directory / name, dpi=120)
    return directory


def write_data(report: EnsembleReport, directory: Path) -> None:
    """Write the files of a report that need no rendering into a directory."""
    (directory / REPORT_FILE).write_text(report.to_json(), encoding="utf-8")
    report.error_curve.to_frame().to_csv(directory / "curve.csv", index=False)
    if report.judged_rows is not None and report.judged_rows.losses.nbytes <= LONGEST_REPORT:
        write_judged_rows(report.judged_rows, directory / ROWS_FILE)


def scalar_values(report: EnsembleReport, prefix: str) -> dict[str, float]:
    """Return the scalars of `report` as ``<prefix>.<name>``; infinities are left out."""
    return {f"{prefix}.{name}": value for name, value in report.metrics().items() if math.isfinite(value)}


def curve_values(report: EnsembleReport, prefix: str) -> dict[str, dict[int, float]]:
    """Return the everyday measure by size, and its interval, as ``<prefix>/accuracy``, ``/accuracy_lower`` ..."""
    sizes = charted_sizes(report).tolist()
    values = np.array([_value_and_interval(report, size) for size in sizes])
    names = (report.measure_key, f"{report.measure_key}_lower", f"{report.measure_key}_upper")
    lines = {
        f"{prefix}/{name}": {
            size: float(value) for size, value in zip(sizes, line, strict=True) if math.isfinite(value)
        }
        for name, line in zip(names, values.T, strict=True)
    }
    return {name: line for name, line in lines.items() if line}


def _value_and_interval(report: EnsembleReport, size: int) -> tuple[float, float, float]:
    """Return the measure at a size and the ends of its interval: the report's own numbers where it has them."""
    curve = report.error_curve
    if size == report.n_members:
        return report.measured(report.error, report.error_interval)
    row = int(np.searchsorted(curve.sizes, size))
    if row < curve.sizes.size and curve.sizes[row] == size:
        return report.measured(float(curve.error[row]), (float(curve.lower[row]), float(curve.upper[row])))
    return report.measured(curve.at(size), curve.interval_at(size))


def charted_sizes(report: EnsembleReport) -> NDArray[np.int64]:
    """Return the sizes at which the error curve is logged: about 100, log-spaced, in ascending order."""
    now, curve, sizes = report.n_members, report.error_curve, report.error_curve.sizes
    first = FIRST_SIZE if min(now, int(sizes[-1])) >= 2 * FIRST_SIZE else FIRST_SIZE // 2
    below = sizes[sizes < now] if np.any(sizes < now) else sizes
    odd = below[(below >= first) & (below % 2 == 1)]
    charted = _log_spaced(odd if odd.size else below)
    if not curve.reaches(now):
        return charted
    if odd.size and now % 2 == 0:
        charted = charted + 1
    return np.union1d(charted[charted < now], [now])


def _log_spaced(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    if sizes.size <= N_POINTS:
        return sizes
    targets = np.geomspace(sizes[0], sizes[-1], N_POINTS)
    right = np.clip(np.searchsorted(sizes, targets), 0, sizes.size - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(targets - sizes[left] < sizes[right] - targets, left, right)
    spaced: NDArray[np.int64] = sizes[np.unique(nearest)]
    return spaced


def log_to_run(client: MlflowClient, run: Run, parts: ReportParts, timestamp: int, block: str) -> None:
    """Log the parts of a report to a run, which may have ended; the summary as a named block of its description."""
    if parts.directory is not None:
        # In one call, as some stores send files in parallel.
        client.log_artifacts(run.info.run_id, str(parts.directory), artifact_path(parts.prefix))
    points = {**parts.curve, **_at_scalar_step(parts.scalars)}
    known = {
        (key, metric.step)
        for key in set(points) & set(run.data.metrics)
        for metric in client.get_metric_history(run.info.run_id, key)
        if metric.timestamp == timestamp
    }
    # Older database stores refuse a point twice, the file store doubles it.
    missing = {
        key: {step: value for step, value in values.items() if (key, step) not in known}
        for key, values in points.items()
    }
    # The scalars last and apart: a run that has them has all the rest.
    for part in (parts.curve, parts.scalars):
        _log_metrics(client, run, {key: missing[key] for key in part}, timestamp)
    current = run.data.tags.get(DESCRIPTION_TAG, "")
    merged = merge_description(current, parts.summary, block)
    if merged != current:
        client.set_tag(run.info.run_id, DESCRIPTION_TAG, merged)


def _at_scalar_step(scalars: Mapping[str, float]) -> dict[str, dict[int, float]]:
    # MLflow copies the metrics of a run's step 0 to each model that the run logs later, whatever they are about.
    return {name: {-1: value} for name, value in scalars.items()}


def _log_metrics(
    client: MlflowClient,
    run: Run,
    points: Mapping[str, Mapping[int, float]],
    timestamp: int,
    model_id: str | None = None,
) -> None:
    from mlflow.entities import Metric

    metrics = [
        Metric(key, value, timestamp, step, model_id=model_id)
        for key, values in points.items()
        for step, value in values.items()
    ]
    client.log_batch(run.info.run_id, metrics=metrics)


def merge_description(current: str, summary: str, prefix: str) -> str:
    """Return a run's description with `summary` added; text that a person wrote stays unchanged."""
    block = _block(summary, prefix)
    own = next((found for found in ANY_BLOCK.finditer(current) if found["prefix"] == prefix), None)
    if own is not None:
        merged = current[: own.start()] + block + current[own.end() :]
    elif not ANY_BLOCK.sub("", current).strip():
        merged = f"{current.rstrip()}\n\n{block}".lstrip()
    else:
        return current
    return merged if len(merged) <= DESCRIPTION_LIMIT else current


def _block(summary: str, prefix: str) -> str:
    # A marker inside the summary would end the block early when it is next replaced.
    text = summary.replace("<!--", "<! --").strip()
    if len(text) > BLOCK_LIMIT:
        text = text[: BLOCK_LIMIT - 4] + " ..."
    return f"<!-- ens_plugin:{prefix} begin -->\n{text}\n<!-- ens_plugin:{prefix} end -->"


def report_parts(
    report: EnsembleReport,
    directory: Path | None,
    prefix: str,
    *,
    figures: Path | None = None,
    data_digest: str | None = None,
) -> ReportParts:
    """Return the parts of a report that are logged; its files and figures, if any, are in their directories already."""
    return ReportParts(
        prefix=prefix,
        scalars=scalar_values(report, prefix),
        curve=curve_values(report, prefix),
        directory=directory,
        figures=figures,
        facts=_facts(report) | ({} if data_digest is None else {"data_digest": data_digest}),
        summary=markdown_answers(report),
    )


def _facts(report: EnsembleReport) -> dict[str, str | int]:
    texts = {
        "model": report.model,
        "task": report.task,
        "aggregation": report.aggregation,
        "data": report.data,
        "bags": report.bags,
        "metric": report.error_curve.metric,
        "estimator": report.error_curve.estimator,
        "criterion": report.recommendation.criterion,
        "created": report.created,
        "ens_plugin": report.versions.get("ens-plugin", ""),
    }
    shown = {name: printable(text, 100) for name, text in texts.items()}
    return {**shown, "n_members": report.n_members, "n_rows": report.n_rows}


@ends_at_caller
def log_report(
    report: EnsembleReport,
    *,
    run_id: str | None = None,
    model_id: str | None = None,
    rows: Any = None,
    prefix: str = DEFAULT_PREFIX,
    tracker: object = MLFLOW,
) -> str:
    """Log a report to an experiment tracker: scalars, the error curve, figures, files and a short description.

    To MLflow, logging the same report again changes nothing: all points carry the time of the analysis, the
    artifacts are overwritten and the description has one block per prefix.

    Parameters
    ----------
    report : EnsembleReport
        From :func:`ens_plugin.analyze`.
    run_id : str, optional
        MLflow run to log to; one that has ended keeps its status.  By default the active run, or else a
        new one, which is then ended: FINISHED, or FAILED if logging fails.
    model_id : str, optional
        The stored model that the report is about: the id of its LoggedModel, ``"m-..."``, as
        ``mlflow.sklearn.log_model(...).model_id`` returns it, or the URI of a registered version.  It is loaded, which
        runs code stored with it, and has to predict what the analysed model predicts, member by member.  Then the gate
        judges it by this report, and its page in MLflow has the scalars.  By default the models are tried that the run
        has logged already, the ten newest at most.
    rows : array-like of shape (n_rows, n_features), optional
        The X of the analysis.  Only a report that was read from JSON needs it for `model_id`.
    prefix : str, default="ens"
        Start of the names of metrics and artifacts.  Several reports in one run need one prefix each.
    tracker : str or object, default="mlflow"
        ``"mlflow"``, ``"wandb"``, ``"tensorboard"`` or ``"dvclive"``; a ``wandb.Run``, a ``SummaryWriter`` of
        tensorboardX or PyTorch, or a ``dvclive.Live``, which stays open; or any object with the methods of
        :class:`ens_plugin.tracking.Tracker`.  The name ``"wandb"`` stands for the active run, or else a new one,
        which is then finished; ``"tensorboard"`` for a new directory in ``runs/``; ``"dvclive"`` for the directory
        ``dvclive-<prefix>``.

    Returns
    -------
    str
        The run's id; of TensorBoard and DVCLive the directory, of your own tracker the name of its class.

    Raises
    ------
    TrackingError
        If the tracking server cannot be reached or refuses a call, or a tracker's library fails.  An MLflow server
        that is down is noticed within seconds, before anything is sent.  One that fails midway is retried by MLflow
        for minutes.  ``MLFLOW_HTTP_REQUEST_MAX_RETRIES`` shortens that; where it is set, the first quick
        check is left out.
    InputError
        If `report` is not an EnsembleReport, `prefix` has characters other than letters, digits, ``_``, ``-`` and
        ``.``, ``report.created`` is not an ISO 8601 time, the stored model does not predict what the analysed one does,
        `tracker` is no tracker, its library is not installed, or a
        run of Weights & Biases or a writer of TensorBoard has a report of this prefix already.

    Notes
    -----
    In MLflow, scalars are called ``ens.error``, ``ens.recommended_size`` and so on
    (:meth:`EnsembleReport.metrics`); curves ``ens/error``, ``ens/error_lower`` and
    ``ens/error_upper``, whose step is the ensemble size and whose last value is the scalar; artifacts are in
    ``ensemble/``, or ``ensemble/<prefix>/`` for another prefix.
    The run's description is written only if it is empty
    or from an earlier report, and only as far as MLflow's limit of 8000 characters allows.
    Without configuration, MLflow decides where runs go: ``sqlite:///mlflow.db`` in its current
    versions.  ``docs/how-to/trackers.md`` has the names in other trackers.

    Examples
    --------
    >>> import ens_plugin, mlflow
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(40, random_state=0)
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     report = ens_plugin.analyze(forest.fit(X, y), X, y)
    ...     ens_plugin.log_report(report)
    >>> ens_plugin.log_report(report, tracker="wandb")  # doctest: +SKIP
    """
    if not isinstance(report, EnsembleReport):
        raise InputError(
            f"{printable(repr(report), 120)} is not a report. Pass the report that ens_plugin.analyze returns: "
            "log_report(analyze(model, X, y))."
        )
    check_prefix(prefix)
    check_tracker(tracker)
    if kind_of(tracker) != MLFLOW and (run_id is not None or model_id is not None):
        raise InputError(
            "run_id and model_id are of MLflow. For another tracker, pass the run itself, as in "
            "log_report(report, tracker=wandb.run), or leave them out."
        )
    if rows is not None:
        report = replace(report, proof=with_rows(report.proof, rows))
    with TemporaryDirectory(prefix="ens_plugin-") as folder, TemporaryDirectory(prefix="ens_plugin-") as drawn:
        directory = Path(folder)
        render_artifacts(report, directory)
        if kind_of(tracker) == MLFLOW:
            return _log_to_mlflow(report, directory, run_id, model_id, prefix)
        figures = draw_figures(report, Path(drawn) / "figures")
        return log_to(tracker, report_parts(report, directory, prefix, figures=figures))


def _log_to_mlflow(
    report: EnsembleReport, directory: Path, run_id: str | None, model_id: str | None, prefix: str
) -> str:
    content = run_content(report, directory, prefix)
    with reached_store() as client:
        # First, because nothing is logged of another model.
        stored = None if model_id is None else find_stored(client, model_id)
        files = None if stored is None else prove_stored(client, stored, report)
        with target_run(run_id) as target:
            logged = send(client, target, content)
            if stored is not None and files is not None:
                link_report(client, stored, content, logged, files)
            elif report.proof is not None and report.proof.rows is not None:
                _link_models_of_run(client, content, logged)
            return target


@contextmanager
def reached_store() -> Iterator[MlflowClient]:
    """Yield a client of MLflow's store, after a check that it responds; errors in the block are TrackingErrors."""
    require_mlflow()
    import mlflow

    uri = mlflow.get_tracking_uri()
    check_server(uri)
    with tracking_errors(uri):
        yield mlflow.MlflowClient()


def _link_models_of_run(client: MlflowClient, content: RunContent, logged: LoggedReport) -> None:
    """Link a report to those models of its run that are proved to be its own."""
    for stored in models_of_run(client, logged.run_id):
        with _optional_step(f"not linked to {stored.name}"):
            try:
                files = prove_stored(client, stored, content.report)
            except EnsPluginError as error:
                LOGGER.info("The report is not linked to %s: %s", stored.name, error)
                continue
            link_report(client, stored, content, logged, files)


class LoggedReport(NamedTuple):
    """Where the JSON of a report was logged, its sum, and that of the losses of the rows beside it, if it has any."""

    run_id: str
    path: str
    sha256: str
    rows_sha256: str | None


class RunContent(NamedTuple):
    """What is logged to a run of MLflow, complete before the first call to the server."""

    parts: ReportParts
    report: EnsembleReport
    created: int | None


def run_content(report: EnsembleReport, directory: Path | None, prefix: str) -> RunContent:
    """Return what is logged to a run of MLflow; the report's artifacts, if any, are in `directory` already."""
    return RunContent(report_parts(report, directory, prefix), report, _created_ms(report))


def send(client: MlflowClient, run_id: str, content: RunContent) -> LoggedReport:
    """Log the content of a report to a run, which may have ended."""
    run = client.get_run(run_id)
    if run.info.lifecycle_stage == "deleted":
        raise TrackingError(
            f"The run {run_id} is deleted. Restore it with `mlflow runs restore`, or log to another one."
        )
    timestamp = int(run.info.start_time) if content.created is None else content.created
    prefix, directory = content.parts.prefix, content.parts.directory
    log_to_run(client, run, content.parts, timestamp, prefix)
    _tag_verdict(client, run, content.report, prefix)
    # Without files, the sum is of what the file would hold.
    text = content.report.to_json().encode() if directory is None else (directory / REPORT_FILE).read_bytes()
    rows = None if directory is None or not (directory / ROWS_FILE).is_file() else (directory / ROWS_FILE).read_bytes()
    return LoggedReport(
        run_id,
        f"{artifact_path(prefix)}/{REPORT_FILE}",
        hashlib.sha256(text).hexdigest(),
        None if rows is None else hashlib.sha256(rows).hexdigest(),
    )


def _tag_verdict(client: MlflowClient, run: Run, report: EnsembleReport, prefix: str) -> None:
    """Write a report's verdict, its size and the codes of its findings into tags of its run, to read and search by."""
    tags = {
        f"{prefix}.verdict": printable(headline(report), VERDICT_LIMIT),
        f"{prefix}.size": recommended_text(report.recommendation),
        f"{prefix}.findings": ", ".join(codes_of(report.findings)),
    }
    for key, text in tags.items():
        if text != run.data.tags.get(key, ""):
            client.set_tag(run.info.run_id, key, text)


@contextmanager
def _optional_step(without: str) -> Iterator[None]:
    """Log why a block ended early where a server refused a call, and go on: the report itself is logged."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except (MlflowException, OSError) as error:
        LOGGER.info("The report is logged, and %s: %s", without, error)


def link_report(
    client: MlflowClient, stored: StoredModel, content: RunContent, logged: LoggedReport, files: str
) -> None:
    """Link a logged report to the stored model that is proved to be its own; `files` is the sum of that one."""
    prefix = content.parts.prefix
    log_model_scalars(client, stored, content, logged.run_id)
    write_link(client, stored, ReportLink(prefix, *logged, files))


def log_model_scalars(client: MlflowClient, stored: StoredModel, content: RunContent, run_id: str) -> None:
    """Log the scalars of a report again, linked to the LoggedModel that it is about, as far as there is one."""
    if stored.model_id is not None:
        run = client.get_run(run_id)
        timestamp = int(run.info.start_time) if content.created is None else content.created
        _log_metrics(client, run, _at_scalar_step(content.parts.scalars), timestamp, stored.model_id)


@contextmanager
def target_run(run_id: str | None) -> Iterator[str]:
    """Yield the id of the run to log to: the one that is named, the active one, or a new one, which is then ended."""
    import mlflow

    active = mlflow.active_run()
    # start_run would resume the run that this variable names, and end it.
    target = run_id or (os.environ.get("MLFLOW_RUN_ID") if active is None else str(active.info.run_id))
    if target:
        yield target
        return
    with mlflow.start_run() as run:
        yield str(run.info.run_id)


def _created_ms(report: EnsembleReport) -> int | None:
    """Return the time of a report in ms since 1970; None where it has none, for which the run's start is used."""
    if not report.created:
        return None
    try:
        created = datetime.fromisoformat(report.created.replace("Z", "+00:00"))
    except ValueError as error:
        raise InputError(
            f"report.created is {report.created[:60]!r}, which is not an ISO 8601 time. "
            "analyze() sets it; do not edit it."
        ) from error
    if created.tzinfo is None:
        created = created.replace(tzinfo=timezone.utc)
    return round(created.timestamp() * 1000)


def check_prefix(prefix: str) -> None:
    """Raise InputError unless names of metrics and artifacts can start with `prefix`."""
    if not isinstance(prefix, str) or not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", prefix):
        raise InputError(
            f"prefix={prefix!r} cannot start the names of metrics and artifacts. "
            "Use letters, digits, '_', '-' and inner dots, 'forest_a' for example."
        )
