"""Realistic synthetic reports for the tests of every surface; no model is trained here.

Every function returns a new :class:`ens_plugin.report.result.EnsembleReport`; :func:`all_reports` names
them all.  The numbers follow from a beta mixture of the rows' misclassification probabilities, so
curve, agreement, bias and variance belong together.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import beta

from ens_plugin import BiasVariance, EnsembleReport, ErrorCurve, SizeRecommendation
from ens_plugin.report import MetricBasis
from ens_plugin.report.basis import LabelBasis

__all__ = [
    "HOSTILE_STRINGS",
    "all_reports",
    "capped_report",
    "classification_report",
    "custom_metric_report",
    "hostile_report",
    "hypergeometric_report",
    "label_report",
    "large_classification_report",
    "negative_asymptote_report",
    "path_report",
    "perfect_report",
    "regression_report",
    "rising_report",
    "score_report",
    "small_classification_report",
]

FloatArray = NDArray[np.float64]

HOSTILE_STRINGS = (
    "<script>alert(1)</script>",
    "\"><img src=http://evil.example/x onerror='alert(1)'>",
    "]]></style></svg><a href='javascript:alert(2)'>x</a>",
    "first line\nsecond line\r\n\ttab \x00 \x1b[31mred",
    "$\\frac{1}{2$ & | pipe | `tick` *star* {{ 7*7 }} {% raw %}",
    "ünï çødé 森林 🌲 \u202eright-to-left",
    "long " + "x" * 10_000,
)

VERSIONS = {"ens_plugin": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.0", "scikit-learn": "1.9.1"}


def classification_report() -> EnsembleReport:
    """Breast cancer: 200 trees are already more than needed."""
    return _classification(n_members=200, n_rows=569, weights=(0.92, 0.08), shapes=((0.25, 5.0), (3.0, 3.2)))


def large_classification_report() -> EnsembleReport:
    """Digits: 300 trees are fewer than needed, and the answer lies far to the right."""
    report = _classification(
        n_members=300, n_rows=1797, weights=(0.88, 0.12), shapes=((0.5, 5.0), (20.0, 24.0)), aggregation="mean_proba"
    )
    return replace(report, error_curve=replace(report.error_curve, estimator="margin"))


def small_classification_report() -> EnsembleReport:
    """Forty rows and ten members: wide intervals, a warning, an even size between tabulated ones."""
    report = _classification(n_members=10, n_rows=40, weights=(0.8, 0.2), shapes=((0.8, 6.0), (2.0, 2.0)))
    warnings = (
        "3 of 40 rows had fewer than 2 out-of-bag members and were left out.",
        "Only 37 rows entered the estimates; intervals are wide and the recommended size is rough.",
    )
    return replace(report, model="BaggingClassifier", rows_without_oob=3, n_rows=37, warnings=warnings)


def rising_report() -> EnsembleReport:
    """Members so weak that a larger ensemble errs more: the curve rises."""
    return _classification(n_members=51, n_rows=400, weights=(0.45, 0.55), shapes=((9.0, 14.0), (18.0, 12.0)))


def capped_report() -> EnsembleReport:
    """Many rows near one half: no size up to 20001 is enough."""
    report = _classification(n_members=100, n_rows=2000, weights=(0.3, 0.7), shapes=((0.5, 6.0), (150.0, 151.0)))
    recommendation = replace(
        report.recommendation,
        size=None,
        interval=(15_201, None),
        reason="No size up to 20001 agrees with the infinite ensemble on 99 % of the rows; pass a larger max_size "
        "or a lower confidence.",
    )
    return replace(report, recommendation=recommendation)


def path_report() -> EnsembleReport:
    """The path estimator: one growth order, no asymptote, and a curve that ends at the current size."""
    report = classification_report()
    sizes = np.arange(1, 201, dtype=np.int64)
    wiggle = 0.003 * np.random.default_rng(7).standard_normal(sizes.size) / np.sqrt(sizes / 8.0)
    error = np.array([report.error_curve.at(1.0 + 0.37 * (size - 1.0)) for size in sizes]) + wiggle
    half_width = 1.96 * np.sqrt(error * (1.0 - error) / report.n_rows)
    nan = math.nan
    curve = ErrorCurve(
        sizes, error, error - half_width, error + half_width, nan, (nan, nan), nan, "path", "0-1 error", 0.95
    )
    return replace(report, error_curve=curve)


def hypergeometric_report() -> EnsembleReport:
    """The hypergeometric estimator: no asymptote, and the curve ends before the current size."""
    report = classification_report()
    curve, nan = report.error_curve, math.nan
    kept = curve.sizes <= 55
    short = ErrorCurve(
        curve.sizes[kept],
        curve.error[kept],
        curve.lower[kept],
        curve.upper[kept],
        nan,
        (nan, nan),
        nan,
        "hypergeometric",
        "0-1 error",
        0.95,
    )
    unknown = replace(report.bias_variance, ensemble_error=nan, asymptotic_error=nan, bias=nan, member_variance=nan)
    return replace(report, error_curve=short, bias_variance=unknown, algorithmic_sd=nan)


def perfect_report() -> EnsembleReport:
    """No member ever errs: error 0, one member is enough."""
    sizes = _odd_sizes(20_001)
    zero, upper = np.zeros(sizes.size), np.full(sizes.size, 0.0255)
    curve = ErrorCurve(sizes, zero, zero, upper, 0.0, (0.0, 0.0255), 0.0, "deconvolved", "0-1 error", 0.95, 0.0)
    recommendation = SizeRecommendation(
        1, "agreement", 0.99, None, 1.0, (1, 1), "All members agree on every row.", 20_001, sizes, np.ones(sizes.size)
    )
    bias_variance = BiasVariance(0.0, 0.0, 0.0, 0.0, 0.0, "0-1 error")
    return replace(
        classification_report(),
        n_members=25,
        n_rows=147,
        error_curve=curve,
        recommendation=recommendation,
        bias_variance=bias_variance,
        algorithmic_sd=0.0,
        algorithmic_sd_is_bound=True,
    )


def regression_report() -> EnsembleReport:
    """Diabetes: mean squared error in squared target units."""
    return _regression(n_members=100, limit=3120.0, variance=4080.0, half_width=410.0)


def negative_asymptote_report() -> EnsembleReport:
    """Almost no error at infinity: the unbiased estimate came out negative and is reported as 0."""
    report = _regression(n_members=20, limit=0.0, variance=0.0021, half_width=0.0004)
    curve = replace(report.error_curve, asymptote_raw=-0.00002, asymptote_interval=(0.0, 0.0004))
    recommendation = replace(report.recommendation, size=None, interval=(4001, None), values=np.full(3, 1e6))
    recommendation = replace(recommendation, sizes=np.array([1, 101, 20_001]))
    warnings = ("The estimated error of the infinite ensemble was negative (-2e-05) and is reported as 0.",)
    return replace(report, error_curve=curve, recommendation=recommendation, warnings=warnings)


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
    )
    return replace(report, error_curve=scored, data="holdout", bags="holdout", algorithmic_sd_is_bound=False)


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
    advice = SizeRecommendation(
        size=30,
        criterion="metric",
        confidence=None,
        tolerance=0.005,
        agreement=report.recommendation.agreement,
        interval=(21, 47),
        reason="30 members are enough for a difference of 0.005.",
        max_size=20_001,
        sizes=curve.sizes,
        values=0.15 / curve.sizes,
        of_metric="roc_auc",
        is_absolute=True,
    )
    criteria = (*report.criteria, advice)
    return replace(report, error_curve=scored, recommendation=advice, criteria=criteria, algorithmic_sd=float("nan"))


def hostile_report() -> EnsembleReport:
    """Every string field holds markup, quotes, control characters, mathtext or 10 kB of text."""
    report = classification_report()
    everything = "".join(HOSTILE_STRINGS)
    return replace(
        report,
        model=everything,
        aggregation=everything,
        bags=everything,
        created=everything,
        warnings=HOSTILE_STRINGS,
        versions={text: text for text in HOSTILE_STRINGS},
        error_curve=replace(report.error_curve, metric=everything, estimator=everything),
        recommendation=replace(report.recommendation, reason=everything),
        bias_variance=replace(report.bias_variance, loss=everything),
    )


@cache
def all_reports() -> dict[str, EnsembleReport]:
    """Every synthetic report by name."""
    return {
        "classification": classification_report(),
        "large_classification": large_classification_report(),
        "small_classification": small_classification_report(),
        "rising": rising_report(),
        "capped": capped_report(),
        "path": path_report(),
        "hypergeometric": hypergeometric_report(),
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
        basis=replace(report.basis, labels=labels),
    )


def _classification(
    n_members: int,
    n_rows: int,
    weights: tuple[float, float],
    shapes: tuple[tuple[float, float], tuple[float, float]],
    aggregation: str = "vote",
) -> EnsembleReport:
    parts = [beta(*shape).cdf(np.linspace(0, 1, 2001)) for shape in shapes]
    density = np.diff(np.average(parts, axis=0, weights=weights))
    sizes = _odd_sizes(20_001)
    centres, error_of, agreement_of = _votes()
    error, agreement = error_of @ density, agreement_of @ density
    limit = float(density[centres > 0.5].sum())
    lower, upper = _wilson(error, n_rows)
    low, high = _wilson(np.array([limit]), n_rows)
    curve = ErrorCurve(
        sizes,
        error,
        lower,
        upper,
        limit,
        (float(low[0]), float(high[0])),
        limit,
        "deconvolved",
        "0-1 error",
        0.95,
        0.0012,
    )
    enough = np.flatnonzero(agreement >= 0.99)
    size = int(sizes[enough[0]]) if enough.size else None
    now = float(np.interp(1.0 / n_members, 1.0 / sizes[::-1], agreement[::-1]))
    recommendation = SizeRecommendation(
        size=size,
        criterion="agreement",
        confidence=0.99,
        tolerance=None,
        agreement=now,
        interval=(max(1, (size or 20_001) // 2 | 1), size * 2 | 1 if size and size <= 10_000 else None),
        reason=f"{size} members predict the same label as infinitely many on 99 % of the rows; "
        f"{n_members} members do on {100 * now:.1f} %.",
        max_size=20_001,
        sizes=sizes,
        values=agreement,
    )
    bias_variance = BiasVariance(
        member_error=float(centres @ density),
        member_variance=float(np.minimum(centres, 1.0 - centres) @ density),
        ensemble_error=curve.at(n_members),
        asymptotic_error=limit,
        bias=limit,
        loss="0-1 error",
    )
    return EnsembleReport(
        task="classification",
        model="RandomForestClassifier",
        n_members=n_members,
        n_rows=n_rows,
        rows_without_oob=0,
        mean_oob_members=0.368 * n_members,
        aggregation=aggregation,
        bags="recorded",
        data="oob",
        error_curve=curve,
        recommendation=recommendation,
        bias_variance=bias_variance,
        algorithmic_sd=0.0021,
        algorithmic_sd_is_bound=True,
        created="2026-11-21T06:32:10+00:00",
        versions=dict(VERSIONS),
    )


def _regression(n_members: int, limit: float, variance: float, half_width: float) -> EnsembleReport:
    sizes = _odd_sizes(20_001)
    error = limit + variance / sizes
    lower, upper = np.maximum(error - half_width, 0.0), error + half_width
    interval = (max(limit - half_width, 0.0), limit + half_width)
    curve = ErrorCurve(
        sizes, error, lower, upper, limit, interval, limit, "closed_form", "mean squared error", 0.95, 0.0
    )
    size = math.ceil(variance / (0.01 * limit)) if limit else None
    excess = variance / sizes / limit if limit else np.full(sizes.size, 1e6)
    recommendation = SizeRecommendation(
        size=size,
        criterion="excess_error",
        confidence=None,
        tolerance=0.01,
        agreement=None,
        interval=(size - 21, size + 26) if size else (4001, None),
        reason=f"With {size} members the mean squared error is at most 1 % above that of infinitely many.",
        max_size=20_001,
        sizes=sizes,
        values=excess,
    )
    bias_variance = BiasVariance(limit + variance, variance, limit + variance / n_members, limit, limit, "squared loss")
    return EnsembleReport(
        task="regression",
        model="RandomForestRegressor",
        n_members=n_members,
        n_rows=442,
        rows_without_oob=0,
        mean_oob_members=0.368 * n_members,
        aggregation="mean",
        bags="recorded",
        data="oob",
        error_curve=curve,
        recommendation=recommendation,
        bias_variance=bias_variance,
        algorithmic_sd=half_width / 20,
        algorithmic_sd_is_bound=True,
        created="2026-11-21T06:32:10+00:00",
        versions=dict(VERSIONS),
    )


def _odd_sizes(largest: int) -> NDArray[np.int64]:
    return np.unique(np.round(np.geomspace(1, largest, 140)).astype(np.int64) // 2 * 2 + 1)


@cache
def _votes() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Chances that a member errs, and by size those that the majority errs or agrees with an infinite one: seconds."""
    centres, sizes = (np.arange(2000) + 0.5) / 2000, _odd_sizes(20_001)
    return centres, _majority_tail(centres, sizes), _majority_tail(np.maximum(centres, 1.0 - centres), sizes)


def _majority_tail(probability: FloatArray, sizes: NDArray[np.int64]) -> FloatArray:
    half = (sizes[:, None] + 1) / 2
    return np.asarray(betainc(half, half, probability[None, :]), dtype=np.float64)


def _wilson(error: FloatArray, n_rows: int) -> tuple[FloatArray, FloatArray]:
    z = 1.96
    centre = (error + z**2 / (2 * n_rows)) / (1 + z**2 / n_rows)
    half = z * np.sqrt(error * (1 - error) / n_rows + z**2 / (4 * n_rows**2)) / (1 + z**2 / n_rows)
    return np.maximum(centre - half, 0.0), centre + half
