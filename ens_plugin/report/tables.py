"""The tables of a report as rows of text: sizes by criterion, errors by label and by output, confusion."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.core.validation import counted, printable
from ens_plugin.report.content import FEWEST_ROWS, ReportContent
from ens_plugin.report.estimates import LabelErrors, SizeRecommendation
from ens_plugin.report.quantities import (
    NOT_KNOWN,
    error_text,
    interval_text,
    level_text,
    members_text,
    recommended_interval_text,
    recommended_text,
    wanted_text,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CriterionRow",
    "LabelRow",
    "OutputRow",
    "confusion_lines",
    "criteria_lines",
    "criteria_markdown",
    "criteria_rows",
    "escaped_markdown",
    "first_rows",
    "label_lines",
    "label_markdown",
    "label_notes",
    "label_rows",
    "output_lines",
    "output_markdown",
    "output_rows",
    "output_sentence",
    "predictors",
    "short_names",
    "wrapped",
]

WIDTH = 80
SHOWN_ROWS = 5
_MARKDOWN_SYNTAX = re.compile(r"[\\`*_{}\[\]<>#|~$&@!]")
METRIC = "0-1 error"
LONGEST_LABEL = 16
MOST_OUTPUTS = 30
OUTPUT_WIDTH = 28
MOST_NAMED = 5
LONGEST_NOTE = 400


class CriterionRow(NamedTuple):
    """The size by one criterion, as text.

    Attributes
    ----------
    name, size, interval : str
    error : str
        At that size; empty where the curve does not reach it.
    is_chosen : bool
        Whether the recommended size is this one.
    """

    name: str
    size: str
    interval: str
    error: str
    is_chosen: bool


class LabelRow(NamedTuple):
    """The error of one label, as text.

    Attributes
    ----------
    label, rows, error, interval : str
    recommended : str
        Error at the recommended size; a dash where the label has too few rows for it, and empty without such a size.
    predicted : tuple of str
        Rows by predicted label, in the order of the labels.
    """

    label: str
    rows: str
    error: str
    interval: str
    recommended: str
    predicted: tuple[str, ...]


def criteria_rows(
    report: ReportContent, recommendations: Sequence[SizeRecommendation] | None = None
) -> list[CriterionRow]:
    """Return a row of text for every criterion of the size, or for the given recommendations."""
    curve, chosen = report.error_curve, report.recommendation.criterion
    return [
        CriterionRow(
            name=_criterion_name(found),
            size=recommended_text(found),
            interval=recommended_interval_text(found),
            error=error_text(curve.at(found.size), curve.metric) if found.size and curve.reaches(found.size) else "",
            is_chosen=found.criterion == chosen,
        )
        for found in (report.criteria if recommendations is None else recommendations)
    ]


def _criterion_name(found: SizeRecommendation) -> str:
    if found.confidence is not None:
        return f"{level_text(found.confidence)} agreement of labels"
    if found.of_metric is not None:
        return f"{printable(found.of_metric, 22)} within {wanted_text(found)}"
    what = "Brier score" if found.criterion == "probability" else "error"
    return f"{what} within {level_text(found.tolerance or math.nan)} of the limit"


def criteria_lines(report: ReportContent) -> list[str]:
    """Return a small table of the sizes by every criterion; no lines where there is one criterion."""
    rows = criteria_rows(report)
    if len(rows) < 2:
        return []
    size = max(12, *(2 + len(row.size) for row in rows))
    interval = max(24, *(2 + len(row.interval) for row in rows))
    name = min(38, WIDTH - 2 - size - interval)
    return [
        "Members by criterion:",
        *(f"  {row.name:<{name}}{row.size:>{size}}{row.interval:>{interval}}" for row in rows),
    ]


def criteria_markdown(report: ReportContent) -> list[str]:
    """Return the sizes by every criterion as a table of Markdown; no lines where there is one criterion."""
    rows = criteria_rows(report)
    if len(rows) < 2:
        return []
    cells = [[escaped_markdown(row.name, 40), row.size, row.interval, row.error] for row in rows]
    lines = [f"| {' | '.join(each)} |" for each in cells]
    there = "error" if report.error_curve.metric_basis is None else escaped_markdown(report.error_curve.metric, 24)
    return [f"| criterion | members | interval | {there} there |", "|---|---|---|---|", *lines, ""]


def label_rows(report: ReportContent, most: int) -> list[LabelRow]:
    """Return the rows of all labels in their order; of more than `most` labels, of those with the largest errors."""
    found = _listed_labels(report, most)
    names = short_names([errors.label for errors in found], LONGEST_LABEL)
    return [_label_row(name, errors, report.recommended_size) for name, errors in zip(names, found, strict=True)]


def short_names(names: Sequence[str], limit: int) -> list[str]:
    """Return names of at most `limit` characters: their beginnings, or both ends where beginnings would be the same.

    Examples
    --------
    >>> short_names(["iris versicolor", "rose"], 8), short_names(["model of May", "model of June"], 9)
    (['iris ve…', 'rose'], ['mode… May', 'mode…June'])
    """
    whole = [printable(name) for name in names]
    begun = [printable(name, limit) for name in whole]
    if len(set(begun)) == len(set(whole)):
        return begun
    end = (limit - 1) // 2
    return [name if len(name) <= limit else f"{name[: limit - 1 - end]}…{name[-end:]}" for name in whole]


def _listed_labels(report: ReportContent, most: int) -> Sequence[LabelErrors]:
    found = report.label_errors
    if len(found) <= most:
        return found
    known = [errors for errors in found if errors.n_rows]
    return sorted(known, key=lambda errors: -errors.error)[:most]


def _label_row(name: str, errors: LabelErrors, size: int | None) -> LabelRow:
    return LabelRow(
        label=name,
        rows=str(errors.n_rows),
        error=error_text(errors.error, METRIC),
        interval=interval_text(errors.interval, METRIC),
        recommended="" if size is None else _or_dash(error_text(errors.recommended_error, METRIC)),
        predicted=tuple(map(str, errors.predicted)),
    )


def _or_dash(text: str) -> str:
    return "-" if text == NOT_KNOWN else text


def label_notes(report: ReportContent, most: int) -> list[str]:
    """Return sentences on the labels that :func:`label_rows` leaves out, and on those of few rows; empty if none."""
    return [note for note in (_hidden_labels(report, most), _few_rows_note(report, most)) if note]


def _hidden_labels(report: ReportContent, most: int) -> str:
    more = len(report.label_errors) - most
    if more <= 0:
        return ""
    labels = counted(more, "more label has a smaller error", "more labels have smaller errors")
    return f"{labels} or no rows (all: report.label_errors)."


def _few_rows_note(report: ReportContent, most: int) -> str:
    """Return what the errors of labels are that have too few rows for an error at another size."""
    few = [found for found in _listed_labels(report, most) if found.n_rows and math.isnan(found.asymptote)]
    if not few:
        return ""
    names = ", ".join(printable(found.label, LONGEST_LABEL) for found in few[:MOST_NAMED])
    more = f" and {len(few) - MOST_NAMED} more" if len(few) > MOST_NAMED else ""
    members = (
        f"the {report.mean_oob_members:.3g} out-of-bag members of a row, not all {report.n_members}, are wrong together"
        if report.data == "oob"
        else f"all {report.n_members} members are wrong together"
    )
    rows = f"fewer than {FEWEST_ROWS} independent rows of equal weight"
    note = f"Rough for {names}{more}, with {rows}: the error is about the share of rows on which {members}."
    if report.recommended_size is None:
        return note
    return f"{note} That is too few for the error at another size, which is shown as a dash."


def predictors(report: ReportContent) -> str:
    """Return which members predict the rows of the confusion matrix, in words."""
    return "their out-of-bag members" if report.data == "oob" else "all members"


def label_lines(report: ReportContent, most: int) -> list[str]:
    """Return the errors by label as lines of text; none where the report has none."""
    rows = label_rows(report, most)
    if not rows:
        return []
    level = level_text(report.error_curve.interval_level)
    size = report.recommended_size
    head = LabelRow("", "rows", members_text(report.n_members), f"{level} interval", f"with {size}" if size else "", ())
    notes = [line for note in label_notes(report, most) for line in wrapped(note, indent="  ")]
    return ["Error by label:", *map(_line, [head, *rows]), *notes]


def _line(row: LabelRow) -> str:
    cells = f"{row.rows:>8}{row.error:>16}{row.interval:>22}{row.recommended:>14}"
    return f"  {row.label:<{LONGEST_LABEL}}{cells}".rstrip()


def label_markdown(report: ReportContent, most: int) -> list[str]:
    """Return the errors by label as a table of Markdown; no lines where the report has none."""
    rows = label_rows(report, most)
    if not rows:
        return []
    cells = [[escaped_markdown(row.label, 40), row.rows, row.error, row.interval, row.recommended] for row in rows]
    size = report.recommended_size
    names = ["label", "rows", "error", "interval", *([f"error with {size}"] if size else [])]
    table = (names, ["---"] * len(names), *(row[: len(names)] for row in cells))
    lines = [f"| {' | '.join(each)} |" for each in table]
    notes = (_hidden_labels(report, most), escaped_markdown(_few_rows_note(report, most), LONGEST_NOTE))
    return [*lines, "", *(line for note in notes if note for line in (note, ""))]


def confusion_lines(report: ReportContent, most: int) -> list[str]:
    """Return the confusion matrix as lines of text; none with more than `most` labels or where it is too wide."""
    rows = label_rows(report, most)
    if not rows or len(report.label_errors) > most:
        return []
    width = 2 + max(len(text) for row in rows for text in (row.label, *row.predicted))
    if 2 + LONGEST_LABEL + width * len(rows) > WIDTH:
        return []
    lines = [("", [row.label for row in rows]), *((row.label, list(row.predicted)) for row in rows)]
    return [
        f"Rows by label (down) and by the label of {predictors(report)} (across):",
        *(f"  {label:<{LONGEST_LABEL}}{''.join(f'{text:>{width}}' for text in cells)}" for label, cells in lines),
    ]


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
    """Return a sentence that the figures are means over outputs; empty for a model of one output."""
    n_outputs = len(report.outputs)
    return f"Figures are of the mean over {n_outputs} outputs, where no output is named." if n_outputs else ""


def output_rows(report: ReportContent) -> list[OutputRow]:
    """Return a row of text for each output, at most 30; none for a model of one output."""
    shown = list(report.outputs.items())[:MOST_OUTPUTS]
    names = short_names([name for name, _ in shown], OUTPUT_WIDTH)
    return [
        OutputRow(
            name=name,
            error=error_text(found.error, found.error_curve.metric),
            limit=error_text(found.error_curve.asymptote, found.error_curve.metric),
            size=recommended_text(found.recommendation),
            interval=recommended_interval_text(found.recommendation),
        )
        for name, (_, found) in zip(names, shown, strict=True)
    ]


def output_lines(report: ReportContent) -> list[str]:
    """Return the table for a terminal, at most 80 columns wide; no lines for a model of one output."""
    if not report.outputs:
        return []
    head = f"  {'':<{OUTPUT_WIDTH}}{'error':>12}{'at infinity':>14}{'members':>22}"
    lines = [f"  {row.name:<{OUTPUT_WIDTH}}{row.error:>12}{row.limit:>14}{row.size:>22}" for row in output_rows(report)]
    return ["", "By output:", head, *lines, *_others(report), ""]


def output_markdown(report: ReportContent) -> list[str]:
    """Return the table in Markdown; no lines for a model of one output."""
    if not report.outputs:
        return []
    rows = [row._replace(name=escaped_markdown(row.name, OUTPUT_WIDTH)) for row in output_rows(report)]
    head = ["| output | error | at infinity | members | interval |", "|---|---|---|---|---|"]
    return [*head, *(f"| {' | '.join(row)} |" for row in rows), "", *_others(report)]


def _others(report: ReportContent) -> list[str]:
    n_more = len(report.outputs) - MOST_OUTPUTS
    return [f"  {n_more} more are in the attribute outputs."] if n_more > 0 else []


def wrapped(text: str, indent: str = "", later: str = "") -> list[str]:
    """Return a text as lines of at most 80 characters that keep each number with its percent sign.

    Lines begin with `indent`, all but the first with `later` after it.

    Examples
    --------
    >>> wrapped("The error is 3 %.", later="  ")
    ['The error is 3 %.']
    """
    held = text.replace(" %", "\xa0%")
    lines = textwrap.wrap(held, WIDTH, initial_indent=indent, subsequent_indent=indent + later)
    return [line.replace("\xa0", " ") for line in lines]


def escaped_markdown(text: str, limit: int) -> str:
    """Return a text of unknown origin, shortened to `limit` characters, as a line of Markdown without active markup."""
    # Entities are never markup, neither in CommonMark nor in the older dialect of MLflow's page.
    return _MARKDOWN_SYNTAX.sub(lambda sign: f"&#{ord(sign.group())};", printable(text, limit))


def first_rows(kind: str, table: pd.DataFrame) -> str:
    """Return the first rows of a table as text of at most 80 columns, below their number.

    Examples
    --------
    >>> import pandas as pd
    >>> print(first_rows("Numbers", pd.DataFrame({"n": range(9)})))
    Numbers of 9 rows, of which these are the first 5:
       n
    0  0
    1  1
    2  2
    3  3
    4  4
    """
    shown = "" if len(table) <= SHOWN_ROWS else f", of which these are the first {SHOWN_ROWS}"
    return f"{kind} of {counted(len(table), 'row')}{shown}:\n{table.head(SHOWN_ROWS).to_string(line_width=80)}"
