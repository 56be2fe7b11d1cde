"""The files of a report, written into one directory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ens_plugin.report.result import EnsembleReport

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DEFAULT_PREFIX", "REPORT_FILE", "artifact_path", "draw_files", "render_artifacts", "write_data"]

DEFAULT_PREFIX = "ens"  # of the names of all metrics, tags and artifacts of a report
REPORT_FILE = "report.json"


def artifact_path(prefix: str) -> str:
    """Return the directory of a report's artifacts inside a run.

    Examples
    --------
    >>> artifact_path("ens"), artifact_path("challenger")
    ('ensemble', 'ensemble/challenger')
    """
    return "ensemble" if prefix == DEFAULT_PREFIX else f"ensemble/{prefix}"


def render_artifacts(report: EnsembleReport, directory: Path) -> None:
    """Write the data, the page and the figures of a report into an existing directory.

    Parameters
    ----------
    report : EnsembleReport
    directory : Path
    """
    write_data(report, directory)
    draw_files(report, directory)


def draw_files(report: EnsembleReport, directory: Path) -> None:
    """Write report.html and the figures into an existing directory.

    Parameters
    ----------
    report : EnsembleReport
    directory : Path
    """
    from ens_plugin.report.chart_style import default_style
    from ens_plugin.report.html import write_page
    from ens_plugin.report.plots import report_figures

    write_page(report, directory / "report.html")
    for name, figure in report_figures(report).items():
        # Saved at the figure's own size: a tight bounding box has no limit.
        with default_style():
            figure.savefig(directory / name, dpi=120)


def label_frame(report: EnsembleReport) -> pd.DataFrame:
    """Return the errors by label and the confusion matrix as one table, with a row for each label.

    Parameters
    ----------
    report : EnsembleReport

    Returns
    -------
    DataFrame
        Columns label, rows, error, lower, upper, recommended_error, asymptotic_error, and one for each predicted label.
    """
    import pandas as pd

    errors = [
        (found.label, found.n_rows, found.error, *found.interval, found.recommended_error, found.asymptote)
        for found in report.label_errors
    ]
    names = ["label", "rows", "error", "lower", "upper", "recommended_error", "asymptotic_error"]
    matrix = report.confusion_matrix().add_prefix("predicted: ").reset_index(drop=True)
    return pd.concat([pd.DataFrame(errors, columns=names), matrix], axis=1)


def write_data(report: EnsembleReport, directory: Path) -> None:
    """Write report.json, curve.csv and, for a classifier, labels.csv, which need no rendering, into a directory.

    Parameters
    ----------
    report : EnsembleReport
    directory : Path
    """
    (directory / REPORT_FILE).write_text(report.to_json(), encoding="utf-8")
    report.error_curve.to_frame().to_csv(directory / "curve.csv", index=False)
    if report.label_errors:
        label_frame(report).to_csv(directory / "labels.csv", index=False)
