"""Cards of a report and of a comparison for the cells of a notebook: fragments of HTML, without scripts or links."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ens_plugin.core.validation import printable
from ens_plugin.report import quantities, tables
from ens_plugin.report import text as summary
from ens_plugin.report.chart_style import GREEN, GREY, INK, PALETTE
from ens_plugin.report.content import ReportContent
from ens_plugin.report.html.svg import draw_svg
from ens_plugin.report.html.templates import render
from ens_plugin.report.html.values import report_values
from ens_plugin.report.plots import plot_bias_variance, plot_reports

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison_card", "report_card"]

WIDE, LOW = (7.2, 2.9), (5.2, 2.6)
COMPARED = (7.2, 3.6)

# Colours of the figures, as variables of the style sheet that a dark theme sets to others.
_VARIABLES = {
    **{colour: f"--ens-line-{place}" for place, colour in enumerate(PALETTE, start=1)},
    GREEN: "--ens-good",
    INK: "--ens-text",
    "#000000": "--ens-text",
    GREY: "--ens-muted",
    "#ffffff": "--ens-paper",
}
_THEMED = {colour.lower(): f"var({name})" for colour, name in _VARIABLES.items()}

# Of the outputs of this process: a page must not have two elements of one id.
_shown = itertools.count(1)


def report_card(report: ReportContent) -> str:
    """Return a report as a card: verdict, curve and sizes, and the rest folded.

    Parameters
    ----------
    report : ReportContent

    Returns
    -------
    str
        A fragment of HTML.  Its colours follow the theme of JupyterLab, VS Code or a page, or else that of the
        system; without its style sheet, as on GitHub, it is the summary as text.  Ids differ between any two cards.
    """
    return render(
        "card.html.j2",
        **report_values(report),
        plain=summary.summarize(report),
        is_doubtful=bool(report.basis.doubts) or not report.is_actionable,
        errors=summary.error_lines(report),
        sizes=_sizes(report),
        curve_picture=_picture(partial(plot_reports, {report.model: report}), WIDE),
        parts_picture=_picture(partial(plot_bias_variance, report), LOW),
    )


def comparison_card(reports: Mapping[str, ReportContent]) -> str:
    """Return reports side by side as a card: their curves in one chart, and a table.

    Parameters
    ----------
    reports : mapping of str to ReportContent
        Of one metric.

    Returns
    -------
    str
        A fragment of HTML, as that of :func:`report_card`.
    """
    rows = [_compared(name, report) for name, report in reports.items()]
    first = next(iter(reports.values())).error_curve
    metric = printable(first.metric, 40)
    return render(
        "comparison.html.j2",
        rows=rows,
        metric=metric,
        level=quantities.level_text(first.interval_level),
        plain="\n".join("  ".join([row["name"], row["members"], row["error"], row["size"]]) for row in rows),
        doubts=[
            (printable(name, 48), [printable(text, 1000) for text in report.basis.doubts])
            for name, report in reports.items()
            if report.basis.doubts
        ],
        curve_picture=_picture(partial(plot_reports, reports), COMPARED),
    )


def _picture(draw: Callable[..., Axes], inches: tuple[float, float]) -> Any:
    number = next(_shown)
    picture = draw_svg(draw, inches, f"ens-{number}", _THEMED)
    # Outputs of two sessions stay side by side in a notebook; the same curve then has the same clip in both.
    digest = sha256(picture.encode()).hexdigest()[:10]
    return type(picture)(picture.replace(f"ens-{number}-", f"ens-{digest}-{number}-"))


def _sizes(report: ReportContent) -> list[tables.CriterionRow]:
    """Return the table of sizes by criterion; the recommended size alone in reports that have no such table."""
    rows = tables.criteria_rows(report)
    return rows or tables.criteria_rows(report, (report.recommendation,))


def _compared(name: str, report: ReportContent) -> dict[str, str]:
    curve, advice = report.error_curve, report.recommendation
    size = advice.size
    there = curve.at(size) if size is not None and curve.reaches(size) else float("nan")
    return {
        "name": printable(name, 48),
        "members": str(report.n_members),
        "error": quantities.error_text(report.error, curve.metric),
        "interval": quantities.interval_text(report.error_interval, curve.metric),
        "limit": quantities.error_text(curve.asymptote, curve.metric),
        "size": quantities.recommended_text(advice),
        "size_interval": quantities.recommended_interval_text(advice),
        "error_there": quantities.error_text(there, curve.metric),
        "rows": str(report.n_rows),
        "is_doubtful": "yes" if report.basis.doubts or not report.is_actionable else "",
    }
