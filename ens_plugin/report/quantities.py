"""Formatting of the numbers of a report, with their units, and of the codes of its fields, as text."""

from __future__ import annotations

import math

from ens_plugin.core.validation import counted, printable
from ens_plugin.report.content import ReportContent
from ens_plugin.report.estimates import MetricBasis, SizeRecommendation

__all__ = [
    "NOT_KNOWN",
    "NOT_TOLD",
    "SHARES",
    "aggregation_words",
    "axis_name",
    "bag_words",
    "criterion_words",
    "distance_label",
    "error_text",
    "estimator_words",
    "finite_words",
    "group_words",
    "independence_words",
    "interval_text",
    "label_words",
    "level_text",
    "members_text",
    "recommended_interval_text",
    "recommended_text",
    "size_interval_text",
    "size_text",
    "spread_and_unit",
    "spread_text",
    "wanted_text",
]

NOT_KNOWN = "not estimated"
NOT_TOLD = "cannot be told"

SHARES = ("0-1 error", "0-1 loss")  # the latter in reports of earlier versions

_AGGREGATIONS = {
    "vote": "majority vote of the members",
    "mean_proba": "mean of the members' probabilities",
    "quantile": "quantile of the members' predictions",
    "mean_score": "mean of the members' raw scores",
    "mean": "mean of the members' predictions",
}
_BAGS = {
    "recorded": "recorded by the library that trained the model",
    "proved": "recomputed from the seed and checked against the trained members",
    "given": "given by the user",
    "holdout": "none of these, which are stated to be held out",
}
_ESTIMATORS = {
    "deconvolved": "distribution of the rows' chances of error, fitted to the members' outputs (deconvolved)",
    "hypergeometric": "average over all subsets of the members (hypergeometric)",
    "binomial": "shares of wrong votes taken as probabilities (binomial), too high with few members",
    "path": "one order of growth, own out-of-bag members only (path), that of a smaller ensemble",
    "closed_form": "closed form for the squared loss, unbiased at every size",
    "margin": "model of the members' margins over the strongest rival label (margin)",
    "subset_average": "average over random subsets of the members (subset_average)",
}
_MARGINS = "distribution of the rows' mean margins, fitted to the members' raw scores (deconvolved)"


def error_text(value: float, metric: str) -> str:
    """Return an error as text with its unit: percent for the 0-1 error, else four significant digits.

    Examples
    --------
    >>> error_text(0.0408, "0-1 error"), error_text(3160.8, "mean squared error")
    ('4.08 %', '3161')
    """
    if math.isnan(value):
        return NOT_KNOWN
    return f"{_number(value, metric)} %" if metric in SHARES else _number(value, metric)


def interval_text(interval: tuple[float, float], metric: str) -> str:
    """Return an interval of an error as text, with its unit once.

    Examples
    --------
    >>> interval_text((0.0275, 0.0604), "0-1 error")
    '2.75 to 6.04 %'
    >>> interval_text((-1e-9, 0.7122), "0-1 error")
    '0.00 to 71.22 %'
    """
    low, high = interval
    return NOT_KNOWN if math.isnan(low) or math.isnan(high) else f"{_number(low, metric)} to {error_text(high, metric)}"


def spread_text(value: float, metric: str) -> str:
    """Return a difference of errors as text: percentage points for the 0-1 error, else two significant digits.

    Examples
    --------
    >>> spread_text(0.0021, "0-1 error"), spread_text(0.00111, "roc_auc")
    ('0.21 percentage points', '0.0011')
    """
    number, unit = spread_and_unit(value, metric)
    return f"{number} {unit}" if unit else number


def spread_and_unit(value: float, metric: str) -> tuple[str, str]:
    """Return a difference of errors as text, and its unit, which is empty unless the error is a share.

    Examples
    --------
    >>> spread_and_unit(0.0021, "0-1 error"), spread_and_unit(3160.8, "mean squared error")
    (('0.21', 'percentage points'), ('3200', ''))
    """
    if math.isnan(value):
        return NOT_KNOWN, ""
    return (_number(value, metric), "percentage points") if metric in SHARES else (_two_digits(value), "")


def size_text(size: int | None, max_size: int) -> str:
    """Return a number of members as text; for None, "more than" the largest size considered.

    Examples
    --------
    >>> size_text(59, 20001), size_text(None, 20001)
    ('59', 'more than 20001')
    """
    return f"more than {max_size}" if size is None else str(size)


def members_text(count: int) -> str:
    """Return a number of members followed by "member" or "members".

    Examples
    --------
    >>> members_text(1), members_text(59)
    ('1 member', '59 members')
    """
    return counted(count, "member")


def size_interval_text(interval: tuple[int, int | None], max_size: int) -> str:
    """Return an interval of the recommended size as text.

    Examples
    --------
    >>> size_interval_text((29, 119), 20001), size_interval_text((8001, None), 20001)
    ('29 to 119', '8001 to more than 20001')

    Sizes are whole numbers, by agreement odd ones, so the ends of an interval can be equal:

    >>> size_interval_text((5, 5), 20001)
    '5 only'
    """
    low, high = interval
    if high is None and low >= max_size:
        return size_text(None, max_size)
    return f"{low} only" if low == high else f"{low} to {size_text(high, max_size)}"


def recommended_text(recommendation: SizeRecommendation) -> str:
    """Return the recommended size as text, or "cannot be told", or "not estimated"."""
    if not recommendation.is_known:
        return NOT_TOLD if recommendation.has_interval else NOT_KNOWN
    return size_text(recommendation.size, recommendation.max_size)


def recommended_interval_text(recommendation: SizeRecommendation) -> str:
    """Return the interval of the recommended size as text, or "not estimated"."""
    if not recommendation.has_interval:
        return NOT_KNOWN
    return size_interval_text(recommendation.interval, recommendation.max_size)


def level_text(level: float) -> str:
    """Return the level of an interval as text, in percent.

    Examples
    --------
    >>> level_text(0.95)
    '95 %'
    """
    return f"{100.0 * level:.4g} %"


def wanted_text(recommendation: SizeRecommendation) -> str:
    """Return the wanted agreement or tolerance: a share in percent, or a difference in the unit of the metric."""
    wanted = recommendation.tolerance if recommendation.confidence is None else recommendation.confidence
    if wanted is None:
        return NOT_KNOWN
    return f"{wanted:.4g}" if recommendation.is_absolute else level_text(wanted)


def criterion_words(recommendation: SizeRecommendation) -> str:
    """Return the criterion of the recommended size, in words."""
    if recommendation.confidence is not None:
        return f"{level_text(recommendation.confidence)} agreement with the infinite ensemble"
    if recommendation.of_metric is not None:
        name, distance = printable(recommendation.of_metric, 40), wanted_text(recommendation)
        return f"{name} within {distance} of that of the infinite ensemble"
    if recommendation.tolerance is not None:
        loss = "a mean Brier score" if recommendation.criterion == "probability" else "an error"
        return f"{loss} at most {level_text(recommendation.tolerance)} above that of the infinite ensemble"
    return printable(recommendation.criterion, 60)


def distance_label(recommendation: SizeRecommendation) -> str:
    """Return the label of the axis for the values of a criterion other than the agreement, in two lines."""
    if recommendation.of_metric is not None:
        unit = "" if recommendation.is_absolute else " (%)"
        return f"Distance of {printable(recommendation.of_metric, 24)}\nfrom the limit{unit}"
    loss = "Brier score" if recommendation.criterion == "probability" else "Error"
    return f"{loss} above the\ninfinite ensemble's (%)"


def finite_words(basis: MetricBasis | None) -> str:
    """Return from which size on a log loss is finite, with which chance; empty where every size is, or none.

    Examples
    --------
    >>> from ens_plugin.report import MetricBasis
    >>> finite_words(MetricBasis(True, 0.0, 1.0, 569))
    ''
    """
    zeros = None if basis is None else basis.zeros
    if zeros is None or (zeros.finite_from or 1) == 1:
        return ""
    return f"from {members_text(zeros.finite_from or 1)} on, with a chance of {100.0 * zeros.chance:.0f} % or more"


def label_words(basis: MetricBasis | None) -> str:
    """Return the named positive label of a metric as the words after its name; empty where none was named.

    Examples
    --------
    >>> from ens_plugin.report import MetricBasis
    >>> label_words(MetricBasis(True, 0.0, 1.0, 569, positive_label="spam"))
    " of label 'spam'"
    """
    named = None if basis is None else basis.positive_label
    return "" if named is None else f" of label {printable(named, 40)!r}"


def group_words(n_groups: int | None, n_rows: int) -> str:
    """Return what the groups of rows mean for the figures; empty where no groups were given.

    Examples
    --------
    >>> group_words(12, 400)
    '12, whose rows are taken to depend on each other'
    >>> group_words(400, 400), group_words(None, 400)
    ('every row is a group of its own, so that groups change no figure', '')
    """
    if n_groups is None:
        return ""
    if n_groups == n_rows:
        return "every row is a group of its own, so that groups change no figure"
    return f"{n_groups}, whose rows are taken to depend on each other"


def independence_words(n_groups: int | None) -> str:
    """Return, after the number of rows, that these are taken as independent; empty where groups were given.

    Examples
    --------
    >>> independence_words(None), independence_words(12)
    (', taken as independent', '')
    """
    return ", taken as independent" if n_groups is None else ""


def aggregation_words(report: ReportContent) -> str:
    """Return the rule that combines the members, in words; the name of the rule if it is unknown."""
    return _AGGREGATIONS.get(report.aggregation, printable(report.aggregation, 60))


def bag_words(report: ReportContent) -> str:
    """Return where the in-bag rows of the members are taken from, in words."""
    return _BAGS.get(report.bags, printable(report.bags, 60))


def estimator_words(report: ReportContent) -> str:
    """Return the method by which the error curve was estimated, in words."""
    if report.aggregation == "mean_score" and report.error_curve.estimator == "deconvolved":
        return _MARGINS
    return _ESTIMATORS.get(report.error_curve.estimator, printable(report.error_curve.estimator, 60))


def axis_name(metric: str) -> str:
    """Return the name of an error as the label of an axis, with its unit.

    Examples
    --------
    >>> axis_name("0-1 error"), axis_name("mean squared error")
    ('0-1 error (%)', 'Mean squared error')
    """
    name = printable(metric, 24)
    return name[:1].upper() + name[1:] + (" (%)" if metric in SHARES else "")


def _two_digits(value: float) -> str:
    """Return a spread, which is hardly known to more than a factor of two, with two significant digits."""
    if not value:
        return "0"
    rounded = float(f"{value:.2g}")
    return f"{rounded:.4g}" if abs(rounded) >= 100.0 else f"{value:#.2g}".removesuffix(".")


def _number(value: float, metric: str) -> str:
    if metric not in SHARES:
        # With the zeros at the end, so that both ends of an interval have as many digits.
        return f"{value:#.4g}".removesuffix(".") if value else "0"
    percent = 100.0 * value
    if percent >= 1000.0:
        return f"{percent:.4g}"
    # Rounded first and 0 added, because a share of -1e-9 would be -0.00 otherwise.
    return "<0.01" if 0.0 < percent < 0.005 else f"{round(percent, 2) + 0.0:.2f}"
