"""The outputs of a model of several outputs as a small table of text, and the sentence above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ens_plugin.core.validation import printable
from ens_plugin.report.content import ReportContent
from ens_plugin.report.quantities import error_text, recommended_interval_text, recommended_text

__all__ = ["OutputRow", "output_lines", "output_markdown", "output_rows", "output_sentence"]

MOST_ROWS = 30
NAME_WIDTH = 28


class OutputRow(NamedTuple):
    """One output, as text.

    Attributes
    ----------
    name : str
    error, limit : str
        Error at the current size, and of the infinite ensemble.
    size, interval : str
        Recommended size of this output alone, and its interval.
    """

    name: str
    error: str
    limit: str
    size: str
    interval: str


def output_sentence(report: ReportContent) -> str:
    """Return that the figures are of the mean over outputs; empty for a model of one output."""
    n_outputs = len(report.outputs)
    return f"Figures are of the mean over {n_outputs} outputs, where no output is named." if n_outputs else ""


def output_rows(report: ReportContent) -> list[OutputRow]:
    """Return a row of text for each output, at most 30; none for a model of one output."""
    return [
        OutputRow(
            name=printable(name, NAME_WIDTH),
            error=error_text(found.error, found.error_curve.metric),
            limit=error_text(found.error_curve.asymptote, found.error_curve.metric),
            size=recommended_text(found.recommendation),
            interval=recommended_interval_text(found.recommendation),
        )
        for name, found in list(report.outputs.items())[:MOST_ROWS]
    ]


def output_lines(report: ReportContent) -> list[str]:
    """Return the table for a terminal, at most 80 columns wide; no lines for a model of one output."""
    if not report.outputs:
        return []
    head = f"  {'By output':<{NAME_WIDTH}}{'error':>12}{'at infinity':>14}{'members':>22}"
    lines = [f"  {row.name:<{NAME_WIDTH}}{row.error:>12}{row.limit:>14}{row.size:>22}" for row in output_rows(report)]
    return [head, *lines, *_others(report)]


def output_markdown(report: ReportContent, escaped: Callable[[str, int], str]) -> list[str]:
    """Return the table in Markdown; no lines for a model of one output.

    Parameters
    ----------
    report : ReportContent
    escaped : callable
        ``escaped(text, limit)`` returns a text of unknown origin without active markup.
    """
    if not report.outputs:
        return []
    rows = [row._replace(name=escaped(row.name, NAME_WIDTH)) for row in output_rows(report)]
    head = ["| output | error | at infinity | members | interval |", "|---|---|---|---|---|"]
    return [*head, *(f"| {' | '.join(row)} |" for row in rows), "", *_others(report)]


def _others(report: ReportContent) -> list[str]:
    n_more = len(report.outputs) - MOST_ROWS
    return [f"  {n_more} more are in the attribute outputs."] if n_more > 0 else []
