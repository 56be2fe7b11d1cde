"""The self-contained HTML page of a report, and the cards of reports and comparisons.

The page is read in MLflow's small sandboxed frame, on phones, and by people to whom out-of-bag rows
are new: verdict and figure are at the top, explanations of the numbers below.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ens_plugin.core.validation import printable, with_article
from ens_plugin.errors import InputError
from ens_plugin.files import write_whole
from ens_plugin.report import answer, text
from ens_plugin.report.rendering import render
from ens_plugin.report.result import ZERO_ONE, ReportContent
from ens_plugin.report.size_curves import advice_curve, report_curve, whole_curve
from ens_plugin.report.svg import NARROW, curve_svg, pictures

if TYPE_CHECKING:
    from ens_plugin.report.comparison import Comparison

__all__ = [
    "comparison_card",
    "render_page",
    "report_card",
    "report_values",
    "write_document",
    "write_page",
]


_LONGEST_TEXT = 1000
_MOST_LABELS = 20


def report_values(report: ReportContent) -> dict[str, Any]:
    """Return the numbers and texts of a report, formatted, by their names in the templates."""
    curve, parts, advice = report.error_curve, report.bias_variance, report.recommendation
    reached = curve.reaches(report.n_members)
    seed_sd, seed_unit = text.spread_and_unit(report.algorithmic_sd, curve.metric)
    limit_known = not math.isnan(curve.asymptote)
    root = text.root_texts(report)
    headline, doubt = answer.headline(report), text.first_doubt(report)
    has_matrix = 0 < len(report.label_errors) <= _MOST_LABELS
    return {
        "model": _shown(report.model, 80),
        "verdict": headline,
        "headline": headline[:1].upper() + headline[1:],
        "doubt": "" if doubt is None else text.with_code(doubt, _LONGEST_TEXT),
        "gain": text.gain_sentence(report),
        "root": text.root_sentence(report),
        "root_error": root.error,
        "root_interval": root.interval,
        "root_limit": root.limit,
        "warnings": [text.with_code(each, _LONGEST_TEXT) for each in text.further_findings(report)],
        "metric": _shown(curve.metric, 40),
        "metric_title": "Mean squared error" if report.is_squared else _shown(curve.metric, 40),
        "is_share": curve.metric == ZERO_ONE,
        "greater_is_better": curve.greater_is_better,
        "is_squared": report.is_squared,
        "level": text.level_text(curve.interval_level),
        "members": text.number_text(report, report.n_members),
        "noun": text.member_noun(report),
        "error": text.error_text(report.error, curve.metric),
        "error_interval": text.interval_text(report.error_interval, curve.metric) if reached else "",
        "limit": text.error_text(curve.asymptote, curve.metric),
        "limit_interval": text.interval_text(curve.asymptote_interval, curve.metric) if limit_known else "",
        "size_label": text.size_label(report),
        "size": text.recommended_text(advice),
        "size_interval": text.recommended_interval_text(advice),
        "criterion": text.criterion_words(advice),
        "reason": _shown(text.reason_sentence(report)),
        "agreement": None if advice.agreement is None else text.error_text(advice.agreement, ZERO_ONE),
        "is_agreement": advice.criterion == "agreement",
        "excess_loss": "mean Brier score" if advice.criterion == "probability" else "error",
        "of_metric": None if advice.of_metric is None else _shown(advice.of_metric, 40),
        "is_absolute": bool(advice.is_absolute),
        "criteria": text.criteria_rows(report),
        "labels": text.label_rows(report, _MOST_LABELS),
        "label_notes": text.label_notes(report, _MOST_LABELS),
        "has_size": report.recommended_size is not None,
        "heat": _heat(report) if has_matrix else [],
        "has_matrix": has_matrix,
        "predictors": text.predictors(report),
        "outputs": text.output_rows(report),
        "output_sentence": text.output_sentence(report),
        "seed_sd": seed_sd,
        "seed_unit": f"{seed_unit}, " if seed_unit else "",
        "seed_sd_is_bound": report.algorithmic_sd_is_bound and not math.isnan(report.algorithmic_sd),
        "seed_rows": "fresh" if report.data == "oob" and not report.algorithmic_sd_is_bound else "these",
        "loss": _shown(parts.loss, 40),
        "loss_title": "Mean squared error" if report.is_squared else _shown(parts.loss, 40),
        "member_error": text.error_text(parts.member_error, parts.loss),
        "variance": text.variance_sentence(report),
        "bias": text.error_text(parts.bias, parts.loss),
        "is_oob": report.data == "oob",
        "is_path": curve.estimator == "path",
        "last_size": None if limit_known else int(curve.sizes[-1]),
        "facts": _facts(report),
    }


_SHADES = 9


def _heat(report: ReportContent) -> list[list[int]]:
    """Return the shade of each cell of the confusion matrix, from 0 to 9, by the share of the rows of its label.

    The root of the share shows what is confused, which is rare beside what is right.
    """
    return [
        [round(_SHADES * math.sqrt(count / max(errors.n_rows, 1))) for count in errors.predicted]
        for errors in report.label_errors
    ]


def _facts(report: ReportContent) -> list[tuple[str, str]]:
    curve, noun = report.error_curve, text.member_noun(report)
    check = "" if curve.check is None else text.spread_text(curve.check, curve.metric)
    versions = ", ".join(f"{_shown(name, 60)} {_shown(version, 60)}" for name, version in report.versions.items())
    facts = [
        ("Model", f"{_shown(report.model, 80)}, {text.number_text(report, report.n_members)}, {report.task}"),
        (
            "Rows used",
            f"{report.n_rows} ({'out-of-bag' if report.data == 'oob' else 'held-out'})"
            f"{text.independence_words(report.basis.n_groups)}",
        ),
        (
            "Rows left out",
            f"{report.rows_without_oob} (too few {noun}s out of bag)" if report.rows_without_oob else "",
        ),
        (
            "Rows without labels",
            "" if report.basis.n_unlabelled is None else f"{report.basis.n_unlabelled}, for agreement",
        ),
        ("Groups", text.group_words(report.basis.n_groups, report.n_rows)),
        ("Rows of the metric", "" if curve.metric_basis is None else str(curve.metric_basis.n_rows)),
        ("Finite log loss", text.finite_words(curve.metric_basis)),
        (f"{noun.title()}s per row", f"{report.mean_oob_members:.1f} on average"),
        ("In-bag rows", text.in_nouns(text.bag_words(report), report)),
        ("Prediction", text.in_nouns(text.aggregation_words(report), report)),
        ("Error curve", text.in_nouns(text.estimator_words(report), report)),
        (
            "Check of the curve",
            f"differs by at most {check} from the average over subsets of the {noun}s" if check else "",
        ),
        ("Computed", _shown(report.created, 40)),
        ("Versions", versions),
    ]
    return [(name, value) for name, value in facts if value]


def _shown(line: str, limit: int = _LONGEST_TEXT) -> str:
    return printable(line, limit)


def report_card(report: ReportContent) -> str:
    """Return a report as a card: verdict, curve and sizes, and the rest folded."""
    return render(
        "card.html.j2",
        **report_values(report),
        plain=answer.summarize(report),
        is_doubtful=bool(report.basis.doubts) or not report.is_actionable,
        errors=text.error_lines(report),
        measure=text.measure_name(report),
        sizes=_sizes(report),
        curve_pictures=pictures([report_curve(report.model, report)]),
    )


def comparison_card(comparison: Comparison) -> str:
    """Return reports side by side as a card: how they differ, their curves in one chart, and a table."""
    return render(
        "comparison.html.j2",
        heads=text.comparison_heads(comparison.reports),
        rows=text.comparison_rows(comparison.reports),
        sentences=[printable(sentence, _LONGEST_TEXT) for sentence in comparison.sentences],
        plain=str(comparison),
        curve_pictures=pictures([report_curve(name, report) for name, report in comparison.reports.items()]),
    )


def _sizes(report: ReportContent) -> list[text.CriterionRow]:
    """Return the table of sizes by criterion; the recommended size alone in reports that have no such table."""
    rows = text.criteria_rows(report)
    return rows or text.criteria_rows(report, (report.recommendation,))


def render_page(report: ReportContent) -> str:
    """Return a report as the text of a self-contained HTML page."""
    return render(
        "report.html.j2",
        **report_values(report),
        curve_pictures=pictures([report_curve(report.model, report)]),
        whole_pictures=pictures([whole_curve(report)]),
        size_picture=curve_svg([advice_curve(report)], NARROW),
    )


def write_page(report: ReportContent, path: str | Path) -> Path:
    """Write a report as one HTML file, completely or not at all."""
    return write_document(partial(render_page, report), path)


def write_document(rendered: Callable[[], str], path: str | Path) -> Path:
    """Write the text of a page as one HTML file, completely or not at all."""
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
        write_whole(target, rendered().encode())
    except (OSError, ValueError) as error:
        raise InputError(f"path={str(target)!r} cannot be written ({error}); choose another path.") from error
    return target
