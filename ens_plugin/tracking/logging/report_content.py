"""The parts of a report that are logged, whatever the tracker."""

from __future__ import annotations

from pathlib import Path

from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import markdown_summary, printable
from ens_plugin.tracking.logging.curve_points import curve_points, scalar_points
from ens_plugin.tracking.trackers.parts import ReportParts

__all__ = ["report_parts"]


def report_parts(
    report: EnsembleReport, directory: Path | None, prefix: str, data_digest: str | None = None
) -> ReportParts:
    """Return the parts of a report that are logged; its figures and files, if any, are in `directory` already.

    Parameters
    ----------
    report : EnsembleReport
    directory : Path or None
    prefix : str
    data_digest : str, optional
        Digest of the training data, which is added to the facts.

    Returns
    -------
    ReportParts
    """
    curve: dict[str, dict[int, float]] = {}
    for point in curve_points(report, prefix):
        curve.setdefault(point.key, {})[point.step] = point.value
    return ReportParts(
        prefix=prefix,
        scalars={point.key: point.value for point in scalar_points(report, prefix)},
        curve=curve,
        directory=directory,
        facts=_facts(report) | ({} if data_digest is None else {"data_digest": data_digest}),
        summary=markdown_summary(report),
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
