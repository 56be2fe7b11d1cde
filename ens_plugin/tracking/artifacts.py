"""The files that go with a report, rendered into one directory."""

from __future__ import annotations

from pathlib import Path

from ens_plugin.report import EnsembleReport

__all__ = ["artifact_path", "render_artifacts", "write_data"]


def artifact_path(prefix: str) -> str:
    """Directory of a report's artifacts inside a run.

    Examples
    --------
    >>> artifact_path("ens"), artifact_path("challenger")
    ('ensemble', 'ensemble/challenger')
    """
    return "ensemble" if prefix == "ens" else f"ensemble/{prefix}"


def render_artifacts(report: EnsembleReport, directory: Path) -> None:
    """Write report.json, report.html, curve.csv and the figures into an existing `directory`.

    Parameters
    ----------
    report : EnsembleReport
    directory : Path
    """
    from ens_plugin.page import write_page
    from ens_plugin.plots import report_figures

    write_data(report, directory)
    write_page(report, directory / "report.html")
    for name, figure in report_figures(report).items():
        figure.savefig(directory / name, dpi=120, bbox_inches="tight")


def write_data(report: EnsembleReport, directory: Path) -> None:
    """Write report.json and curve.csv only, which takes no time.

    Parameters
    ----------
    report : EnsembleReport
    directory : Path
    """
    (directory / "report.json").write_text(report.to_json(), encoding="utf-8")
    report.error_curve.to_frame().to_csv(directory / "curve.csv", index=False)
