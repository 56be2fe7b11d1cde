"""The numbers and texts of a report by their names in the templates."""

from __future__ import annotations

import math
from typing import Any

from ens_plugin.report import quantities, tables
from ens_plugin.report import text as summary
from ens_plugin.report.content import ReportContent

__all__ = ["report_values"]

_LONGEST_TEXT = 1000
_MOST_LABELS = 20


def report_values(report: ReportContent) -> dict[str, Any]:
    """Return the numbers and texts of a report, formatted, by their names in the templates."""
    curve, parts, advice = report.error_curve, report.bias_variance, report.recommendation
    reached = curve.reaches(report.n_members)
    seed_sd, seed_unit = quantities.spread_and_unit(report.algorithmic_sd, curve.metric)
    limit_known = not math.isnan(curve.asymptote)
    root = summary.root_texts(report)
    headline = summary.headline(report)
    return {
        "model": _shown(report.model, 80),
        "verdict": headline,
        "headline": headline[:1].upper() + headline[1:],
        "doubt": _shown(report.basis.doubts[0]) if report.basis.doubts else "",
        "gain": summary.gain_sentence(report),
        "root": summary.root_sentence(report),
        "root_error": root.error,
        "root_interval": root.interval,
        "root_limit": root.limit,
        "warnings": [_shown(text) for text in summary.all_cautions(report)],
        "metric": _shown(curve.metric, 40),
        "metric_title": "Mean squared error" if report.is_squared else _shown(curve.metric, 40),
        "is_share": curve.metric == "0-1 error",
        "greater_is_better": curve.greater_is_better,
        "is_squared": report.is_squared,
        "level": quantities.level_text(curve.interval_level),
        "members": quantities.members_text(report.n_members),
        "error": quantities.error_text(report.error, curve.metric),
        "error_interval": quantities.interval_text(report.error_interval, curve.metric) if reached else "",
        "limit": quantities.error_text(curve.asymptote, curve.metric),
        "limit_interval": quantities.interval_text(curve.asymptote_interval, curve.metric) if limit_known else "",
        "size_label": summary.size_label(report),
        "size": quantities.recommended_text(advice),
        "size_interval": quantities.recommended_interval_text(advice),
        "criterion": quantities.criterion_words(advice),
        "reason": _shown(advice.reason),
        "agreement": None if advice.agreement is None else quantities.error_text(advice.agreement, "0-1 error"),
        "is_agreement": advice.criterion == "agreement",
        "excess_loss": "mean Brier score" if advice.criterion == "probability" else "error",
        "of_metric": None if advice.of_metric is None else _shown(advice.of_metric, 40),
        "is_absolute": bool(advice.is_absolute),
        "criteria": tables.criteria_rows(report),
        "labels": tables.label_rows(report, _MOST_LABELS),
        "label_notes": tables.label_notes(report, _MOST_LABELS),
        "has_size": report.recommended_size is not None,
        "has_matrix": 0 < len(report.label_errors) <= _MOST_LABELS,
        "predictors": tables.predictors(report),
        "outputs": tables.output_rows(report),
        "output_sentence": tables.output_sentence(report),
        "seed_sd": seed_sd,
        "seed_unit": f"{seed_unit}, " if seed_unit else "",
        "seed_sd_is_bound": report.algorithmic_sd_is_bound and not math.isnan(report.algorithmic_sd),
        "seed_rows": "fresh" if report.data == "oob" and not report.algorithmic_sd_is_bound else "these",
        "loss": _shown(parts.loss, 40),
        "loss_title": "Mean squared error" if report.is_squared else _shown(parts.loss, 40),
        "member_error": quantities.error_text(parts.member_error, parts.loss),
        "variance": summary.variance_sentence(report),
        "bias": quantities.error_text(parts.bias, parts.loss),
        "is_oob": report.data == "oob",
        "is_path": curve.estimator == "path",
        "last_size": None if limit_known else int(curve.sizes[-1]),
        "facts": _facts(report),
    }


def _facts(report: ReportContent) -> list[tuple[str, str]]:
    curve = report.error_curve
    check = "" if curve.check is None else quantities.spread_text(curve.check, curve.metric)
    versions = ", ".join(f"{_shown(name, 60)} {_shown(version, 60)}" for name, version in report.versions.items())
    facts = [
        ("Model", f"{_shown(report.model, 80)}, {quantities.members_text(report.n_members)}, {report.task}"),
        (
            "Rows used",
            f"{report.n_rows} ({'out-of-bag' if report.data == 'oob' else 'held-out'})"
            f"{quantities.independence_words(report.basis.n_groups)}",
        ),
        (
            "Rows left out",
            f"{report.rows_without_oob} (too few members out of bag)" if report.rows_without_oob else "",
        ),
        ("Groups", quantities.group_words(report.basis.n_groups, report.n_rows)),
        ("Rows of the metric", "" if curve.metric_basis is None else str(curve.metric_basis.n_rows)),
        ("Finite log loss", quantities.finite_words(curve.metric_basis)),
        ("Members per row", f"{report.mean_oob_members:.1f} on average"),
        ("In-bag rows", quantities.bag_words(report)),
        ("Prediction", quantities.aggregation_words(report)),
        ("Error curve", quantities.estimator_words(report)),
        (
            "Check of the curve",
            f"differs by at most {check} from the average over subsets of the members" if check else "",
        ),
        ("Computed", _shown(report.created, 40)),
        ("Versions", versions),
    ]
    return [(name, text) for name, text in facts if text]


def _shown(text: str, limit: int = _LONGEST_TEXT) -> str:
    return summary.printable(text, limit)
