"""Realistic synthetic reports for the tests of every surface; no model is trained here.

Every function returns a new :class:`ens_plugin.EnsembleReport`; :func:`all_reports` names
them all.  The numbers follow from a beta mixture of the rows' misclassification probabilities, so
curve, agreement, bias and variance belong together.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np

from ens_plugin import BiasVariance, EnsembleReport, ErrorCurve, SizeRecommendation
from ens_plugin.findings import finding
from ens_plugin.report.result import LabelBasis, MetricBasis, with_findings
from tests.plain_reports import odd_sizes, report_on_labels, report_on_values

__all__ = [
    "HOSTILE_STRINGS",
    "all_reports",
    "capped_report",
    "classification_report",
    "custom_metric_report",
    "hostile_report",
    "label_report",
    "large_classification_report",
    "negative_asymptote_report",
    "perfect_report",
    "regression_report",
    "rising_report",
    "score_report",
    "small_classification_report",
]

HOSTILE_STRINGS = (
    "<script>alert(1)</script>",
    "\"><img src=http://evil.example/x onerror='alert(1)'>",
    "]]></style></svg><a href='javascript:alert(2)'>x</a>",
    "first line\nsecond line\r\n\ttab \x00 \x1b[31mred",
    "$\\frac{1}{2$ & | pipe | `tick` *star* {{ 7*7 }} {% raw %}",
    "ünï çødé 森林 🌲 \u202eright-to-left",
    "long " + "x" * 10_000,
)


def classification_report() -> EnsembleReport:
    """Breast cancer: 200 trees are already more than needed."""
    return report_on_labels(n_members=200, n_rows=569, weights=(0.92, 0.08), shapes=((0.25, 5.0), (3.0, 3.2)))


def large_classification_report() -> EnsembleReport:
    """Digits: 300 trees are fewer than the agreement takes that was asked for."""
    report = report_on_labels(
        n_members=300, n_rows=1797, weights=(0.88, 0.12), shapes=((0.5, 5.0), (20.0, 24.0)), aggregation="mean_proba"
    )
    curve = replace(report.error_curve, estimator="margin")
    criteria = tuple(replace(found, is_required=found.criterion == "agreement") for found in report.criteria)
    return replace(report, error_curve=curve, recommendation=criteria[0], criteria=criteria)


def with_doubts(report: EnsembleReport, *doubts: str) -> EnsembleReport:
    """Return the report with these doubts alone, of no check of their own."""
    basis = replace(report.basis, findings=tuple(finding("of-adapter", doubt) for doubt in doubts))
    return replace(report, basis=basis)


def with_notes(report: EnsembleReport, *notes: str) -> EnsembleReport:
    """Return the report with further notes, of no check of their own."""
    return with_findings(report, [finding("note-of-adapter", note) for note in notes])


def small_classification_report() -> EnsembleReport:
    """Forty rows and ten members: wide intervals, a warning, an even size between tabulated ones."""
    report = report_on_labels(n_members=10, n_rows=40, weights=(0.8, 0.2), shapes=((0.8, 6.0), (2.0, 2.0)))
    warnings = (
        "3 of 40 rows had fewer than 2 out-of-bag members and were left out.",
        "Only 37 rows entered the estimates; intervals are wide and the recommended size is rough.",
    )
    return with_notes(replace(report, model="BaggingClassifier", rows_without_oob=3, n_rows=37), *warnings)


def rising_report() -> EnsembleReport:
    """Members so weak that a larger ensemble errs more: the curve rises."""
    return report_on_labels(n_members=51, n_rows=400, weights=(0.45, 0.55), shapes=((9.0, 14.0), (18.0, 12.0)))


def capped_report() -> EnsembleReport:
    """Many rows near one half: no size up to 20001 is enough."""
    report = report_on_labels(n_members=100, n_rows=2000, weights=(0.3, 0.7), shapes=((0.5, 6.0), (150.0, 151.0)))
    labels, error, probability = report.criteria
    above = above_largest(error)
    return replace(report, recommendation=above, criteria=(labels, above, probability))


def above_largest(found: SizeRecommendation) -> SizeRecommendation:
    """Return the recommendation of a size above the largest considered, whose losses the current one exceeds."""
    tolerance = 0.9 * float(found.losses[-1])
    reason = f"{found.loss:.2g} is lost; {tolerance:.2g} is allowed, which takes more than {found.max_size} members."
    return replace(found, size=None, interval=(found.max_size, None), tolerance=tolerance, reason=reason)


def perfect_report() -> EnsembleReport:
    """No member ever errs: error 0, one member is enough."""
    sizes = odd_sizes(20_001)
    zero, upper = np.zeros(sizes.size), np.full(sizes.size, 0.0255)
    curve = ErrorCurve(sizes, zero, zero, upper, 0.0, (0.0, 0.0255), 0.0, "deconvolved", "0-1 error", 0.95, 0.0)
    criteria = tuple(
        replace(found, size=1, loss=0.0, limit=limit, agreement=1.0, interval=(1, 1), losses=zero)
        for found, limit in zip(classification_report().criteria, (1.0, 0.0, 0.0), strict=True)
    )
    bias_variance = BiasVariance(0.0, 0.0, 0.0, 0.0, 0.0, "0-1 error")
    return replace(
        classification_report(),
        n_members=25,
        n_rows=147,
        mean_oob_members=9.2,
        error_curve=curve,
        recommendation=criteria[1],
        criteria=criteria,
        bias_variance=bias_variance,
        algorithmic_sd=0.0,
    )


def regression_report() -> EnsembleReport:
    """Diabetes: mean squared error in squared target units."""
    return report_on_values(n_members=100, limit=3120.0, variance=4080.0, half_width=410.0)


def negative_asymptote_report() -> EnsembleReport:
    """Almost no error at infinity: the unbiased estimate came out negative and is reported as 0."""
    report = report_on_values(n_members=20, limit=0.0, variance=0.0021, half_width=0.0004)
    curve = replace(report.error_curve, asymptote_raw=-0.00002, asymptote_interval=(0.0, 0.0004))
    warnings = ("The estimated error of the infinite ensemble was negative (-2e-05) and is reported as 0.",)
    return with_notes(replace(report, error_curve=curve), *warnings)


def custom_metric_report() -> EnsembleReport:
    """Held-out rows and a metric given as a callable named brier_score."""
    report = classification_report()
    curve = report.error_curve
    error = 0.031 + 0.052 / curve.sizes
    scored = replace(
        curve,
        error=error,
        lower=error - 0.006,
        upper=error + 0.006,
        asymptote=0.031,
        asymptote_interval=(0.025, 0.037),
        asymptote_raw=0.031,
        estimator="subset_average",
        metric="brier_score",
        check=None,
        metric_basis=MetricBasis(greater_is_better=False, lowest=-math.inf, highest=math.inf, n_rows=report.n_rows),
    )
    held_out = replace(report, error_curve=scored, data="holdout", bags="holdout", mean_oob_members=200.0)
    return sized_by_metric(held_out, 0.001)


def score_report() -> EnsembleReport:
    """A forest judged and sized by scikit-learn's scorer of the area under the ROC curve."""
    report = classification_report()
    curve = report.error_curve
    area = 0.957 - 0.15 / curve.sizes
    scored = replace(
        curve,
        error=area,
        lower=area - 0.02,
        upper=np.minimum(area + 0.02, 1.0),
        asymptote=0.957,
        asymptote_interval=(0.937, 0.977),
        asymptote_raw=0.957,
        estimator="subset_average",
        metric="roc_auc",
        check=None,
        metric_basis=MetricBasis(greater_is_better=True, lowest=0.0, highest=1.0, n_rows=report.n_rows),
    )
    return sized_by_metric(replace(report, error_curve=scored, algorithmic_sd=math.nan), 0.005)


def sized_by_metric(report: EnsembleReport, tolerance: float) -> EnsembleReport:
    """Return a report on a metric with the size that is enough for it, as one that was analysed with metric=."""
    curve = report.error_curve
    losses = np.abs(curve.error - curve.asymptote)
    now = float(np.interp(1.0 / report.n_members, 1.0 / curve.sizes[::-1], losses[::-1]))
    size = int(curve.sizes[np.flatnonzero(losses > tolerance)[-1] + 1])
    advice = SizeRecommendation(
        size=size,
        criterion="metric",
        tolerance=tolerance,
        loss=now,
        limit=curve.asymptote,
        agreement=report.recommendation.agreement,
        interval=(2 * size // 3, 3 * size // 2),
        reason=f"With {report.n_members} members, the {curve.metric} is {now:.2g} from that of infinitely many; "
        f"{tolerance:.2g} is allowed, which takes {size} members.",
        max_size=20_001,
        is_required=True,
        sizes=curve.sizes,
        losses=losses,
        of_metric=curve.metric,
    )
    others = (replace(found, is_required=False) for found in report.criteria)
    return replace(report, recommendation=advice, criteria=(*others, advice))


def hostile_report() -> EnsembleReport:
    """Every string field holds markup, quotes, control characters, mathtext or 10 kB of text."""
    report = classification_report()
    everything = "".join(HOSTILE_STRINGS)
    hostile = replace(
        report,
        model=everything,
        aggregation=everything,
        bags=everything,
        created=everything,
        versions={text: text for text in HOSTILE_STRINGS},
        error_curve=replace(report.error_curve, metric=everything, estimator=everything),
        recommendation=replace(report.recommendation, reason=everything),
        bias_variance=replace(report.bias_variance, loss=everything),
    )
    return with_notes(hostile, *HOSTILE_STRINGS)


@cache
def all_reports() -> dict[str, EnsembleReport]:
    """Every synthetic report by name."""
    return {
        "classification": classification_report(),
        "large_classification": large_classification_report(),
        "small_classification": small_classification_report(),
        "rising": rising_report(),
        "capped": capped_report(),
        "perfect": perfect_report(),
        "regression": regression_report(),
        "negative_asymptote": negative_asymptote_report(),
        "custom_metric": custom_metric_report(),
        "score": score_report(),
        "hostile": hostile_report(),
    }


def label_report(label: str | None, metric: str = "f1") -> EnsembleReport:
    """A report on a metric of one of two labels, which is named unless it is None."""
    report = score_report()
    curve, advice = report.error_curve, report.recommendation
    assert curve.metric_basis is not None
    about = replace(curve, metric=metric, metric_basis=replace(curve.metric_basis, positive_label=label))
    labels = tuple(LabelBasis(own, report.n_rows // 2, report.n_rows // 2, 70.0) for own in ("0", "1"))
    return replace(
        report,
        error_curve=about,
        recommendation=replace(advice, of_metric=metric),
        criteria=(*report.criteria[:-1], replace(advice, of_metric=metric)),
        basis=replace(report.basis, labels=labels),
    )
