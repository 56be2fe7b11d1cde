"""A picture of the newest runs of an experiment: their error curves with intervals, on the same axes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ens_plugin.errors import InputError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.logging.artifacts import artifact_path
from ens_plugin.tracking.store.mlflow_chatter import no_progress_bars

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["log_comparison"]

OTHERS = 4  # whose bands a reader can distinguish
SEARCHED = 8
INCHES = (9.0, 5.0)
LOGGER = logging.getLogger("ens_plugin.tracking")


def log_comparison(client: MlflowClient, run_id: str, report: EnsembleReport, prefix: str) -> None:
    """Log the error curves of a run and of up to four earlier ones of its experiment, as ``comparison.png``.

    MLflow draws each metric in a chart of its own, whose axis fits the lines, so that noise looks like a difference
    and the ends of the intervals are elsewhere.  The picture has the bands on the axes of the curves.  Runs are
    compared where their metric, its positive label, their level of intervals, the kind and the number of their rows
    are the same; without another such run there is no picture.  Where the server refuses a call, a warning is logged:
    the report is there already.
    """
    from mlflow.exceptions import MlflowException

    try:
        _log_comparison(client, run_id, report, prefix)
    except (MlflowException, OSError) as error:
        LOGGER.warning("The report was logged to run %s, but no comparison with other runs: %s", run_id, error)


def _log_comparison(client: MlflowClient, run_id: str, report: EnsembleReport, prefix: str) -> None:
    run = client.get_run(run_id)
    reports = {_name(run): report}
    for other, found in _alike(client, run, report, prefix):
        name = _name(other)
        reports[f"{name} ({other.info.run_id[:6]})" if name in reports else name] = found
        if len(reports) > OTHERS:
            break
    if len(reports) < 2:
        return
    with TemporaryDirectory(prefix="ens_plugin-") as directory:
        picture = Path(directory) / "comparison.png"
        _draw(reports, picture)
        with no_progress_bars():
            client.log_artifact(run_id, str(picture), artifact_path(prefix))


def _name(run: Run) -> str:
    return str(run.info.run_name or run.info.run_id)


def _alike(client: MlflowClient, run: Run, report: EnsembleReport, prefix: str) -> Iterator[tuple[Run, EnsembleReport]]:
    """Yield other runs of the experiment with their reports, newest first, as far as these can be compared."""
    found = client.search_runs(
        [run.info.experiment_id],
        f"metrics.`{prefix}.n_members` > 0",
        order_by=["attributes.start_time DESC"],
        max_results=SEARCHED,
    )
    for other in found:
        if other.info.run_id == run.info.run_id:
            continue
        own = _logged_report(other, prefix)
        if own is not None and _kind(own) == _kind(report):
            yield other, own


def _kind(report: EnsembleReport) -> tuple[object, ...]:
    curve, basis = report.error_curve, report.error_curve.metric_basis
    n_rows = report.n_rows + report.rows_without_oob
    return curve.metric, basis and basis.label, curve.interval_level, report.data, n_rows


def _logged_report(run: Run, prefix: str) -> EnsembleReport | None:
    from mlflow.artifacts import load_text
    from mlflow.exceptions import MlflowException

    try:
        with no_progress_bars():
            text = load_text(f"runs:/{run.info.run_id}/{artifact_path(prefix)}/report.json")
        return EnsembleReport.from_json(text)
    except (MlflowException, OSError, InputError) as error:
        LOGGER.info("The report of run %s is left out of the comparison: %s", run.info.run_id, error)
        return None


def _draw(reports: dict[str, EnsembleReport], path: Path) -> None:
    from matplotlib.figure import Figure

    from ens_plugin.report.chart_style import PALETTE, default_style
    from ens_plugin.report.comparison import compare

    with default_style():
        figure = Figure(figsize=INCHES, layout="constrained")
        ax = figure.subplots()
        ax.set_prop_cycle(color=PALETTE)
        compare(reports).plot(ax)
        figure.savefig(path, dpi=120)
