"""The self-contained HTML page of a report, and the cards of reports and comparisons.

The page is read in MLflow's small sandboxed frame, on phones, and by people to whom out-of-bag rows
are new: verdict and figure are at the top, explanations of the numbers below.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ens_plugin.core.validation import plural, printable
from ens_plugin.report import answers, text
from ens_plugin.report.rendering import render
from ens_plugin.report.result import ZERO_ONE, ReportContent
from ens_plugin.report.size_curves import measure_curve, report_curve, whole_curve
from ens_plugin.report.svg import pictures

_LONGEST_TEXT = 1000
_MOST_LABELS = 20


def report_values(report: ReportContent) -> dict[str, Any]:
    """Return the numbers and texts of a report, formatted, by their names in the templates."""
    parts, is_share = report.bias_variance, report.error_curve.metric == ZERO_ONE
    is_doubted = report.doubt is not None
    return {
        "model": _shown(report.model, 80),
        "members": text.number_text(report, report.n_members),
        "noun": text.member_noun(report),
        "nouns": plural(text.member_noun(report)),
        "headline": answers.headline(report),
        "answers": [each._replace(text=_shown(each.text)) for each in answers.three_answers(report)],
        "is_doubted": is_doubted,
        "output_sentence": text.output_sentence(report),
        "measure": text.measure_name(report),
        "errors": text.size_table(report),
        "reason": _shown(text.reason_sentence(report)),
        "criteria": text.criteria_table(report),
        "findings": [text.with_code(each, _LONGEST_TEXT) for each in report.findings],
        "labels": text.label_table(report, _MOST_LABELS),
        "matrix": _matrix(report),
        "predictors": text.predictors(report),
        "outputs": text.output_table(report),
        "loss": _shown(parts.loss, 40),
        "variance": text.variance_sentence(report),
        "bias": text.error_text(parts.bias, parts.loss),
        "is_share": is_share,
        "is_oob": report.data == "oob",
        "facts": _facts(report),
        "curve_pictures": "" if is_doubted else pictures([report_curve(report.model, report)]),
    }


def _matrix(report: ReportContent) -> list[tuple[str, list[tuple[int, int]]]]:
    """Return the confusion matrix: for each label, its counts with their shades from 0 to 9."""
    # The root of the share shows what is confused, which is rare beside what is right.
    return [
        (name, [(count, round(9 * math.sqrt(count / max(sum(counts), 1)))) for count in counts])
        for name, counts in text.confusion_rows(report, _MOST_LABELS)
    ]


def _facts(report: ReportContent) -> list[tuple[str, str]]:
    versions = ", ".join(f"{_shown(name, 60)} {_shown(version, 60)}" for name, version in report.versions.items())
    model = f"{_shown(report.model, 80)}, {text.number_text(report, report.n_members)}, {report.task}"
    ends = [("Computed", _shown(report.created, 40)), ("Versions", versions)]
    return [("Model", model), *text.facts(report), *((name, value) for name, value in ends if value)]


def _shown(line: str, limit: int = _LONGEST_TEXT) -> str:
    return printable(line, limit)


def report_card(report: ReportContent) -> str:
    """Return a report as a card: the answers, the curve and the table of sizes, and the rest folded."""
    return render("card.html.j2", **report_values(report), plain=answers.summarize(report))


def comparison_card(reports: Mapping[str, ReportContent], sentences: Sequence[str], plain: str) -> str:
    """Return reports side by side as a card: how they differ, their curves in one chart, and a table."""
    return render(
        "comparison.html.j2",
        table=text.comparison_table(reports),
        sentences=[printable(sentence, _LONGEST_TEXT) for sentence in sentences],
        plain=plain,
        curve_pictures=pictures([measure_curve(name, report) for name, report in reports.items()]),
    )


def render_page(report: ReportContent) -> str:
    """Return a report as the text of a self-contained HTML page."""
    whole = "" if report.doubt is not None else pictures([whole_curve(report)])
    return render("report.html.j2", **report_values(report), whole_pictures=whole)
