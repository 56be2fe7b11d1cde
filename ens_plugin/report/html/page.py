"""Rendering of a report as one self-contained HTML page, without scripts, links or anything to download.

The page is read in MLflow's small sandboxed frame, on phones, and by people to whom out-of-bag rows
are new: verdict and figure are at the top, explanations of the numbers below.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ens_plugin.core.validation import with_article
from ens_plugin.errors import InputError
from ens_plugin.files import write_whole
from ens_plugin.report.content import ReportContent
from ens_plugin.report.html.svg import draw_svg
from ens_plugin.report.html.templates import render
from ens_plugin.report.html.values import report_values
from ens_plugin.report.plots import report_plots

__all__ = ["render_page", "write_page"]

_WIDE, _NARROW = (7.5, 2.75), (3.5, 2.9)


def render_page(report: ReportContent) -> str:
    """Return a report as the text of a self-contained HTML page.

    Parameters
    ----------
    report : ReportContent

    Returns
    -------
    str
        HTML text; equal reports have equal texts.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> render_page(report).startswith("<!DOCTYPE html>")
    True
    """
    return render("report.html.j2", **report_values(report), **_pictures(report))


def write_page(report: ReportContent, path: str | Path) -> Path:
    """Write a report as one HTML file, completely or not at all.

    Parameters
    ----------
    report : ReportContent
    path : str or Path
        File to write; an existing one is replaced.

    Returns
    -------
    Path
        `path`.

    Raises
    ------
    InputError
        If `path` is no path, its directory does not exist, it is a directory, or the file cannot be written.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_page(report, f"{directory}/report.html").name
    'report.html'
    """
    try:
        target = Path(path)
    except TypeError as error:
        raise InputError(
            f"path is {with_article(type(path).__name__)}; pass the name of a file, such as 'report.html'."
        ) from error
    if not os.path.isdir(target.parent):
        raise InputError(f"path={str(target)!r}: the directory {str(target.parent)!r} does not exist; create it first.")
    if os.path.isdir(target):
        raise InputError(f"path={str(target)!r} is a directory; add a file name such as report.html.")
    try:
        write_whole(target, render_page(report).encode())
    except (OSError, ValueError) as error:
        raise InputError(f"path={str(target)!r} cannot be written ({error}); choose another path.") from error
    return target


def _pictures(report: ReportContent) -> dict[str, Any]:
    plots = report_plots(report)
    return {
        "wide_curve": draw_svg(plots["error_curve"], _WIDE, "curve-wide"),
        "narrow_curve": draw_svg(plots["error_curve"], _NARROW, "curve-narrow"),
        "agreement_picture": draw_svg(plots["agreement"], _NARROW, "agreement"),
        "parts_picture": draw_svg(plots["bias_variance"], _NARROW, "parts"),
    }
