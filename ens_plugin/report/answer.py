"""The verdict of a report in the reader's own units: is the model large enough, and what would a size change."""

from __future__ import annotations

import math
import re

from ens_plugin.core.validation import counted, printable
from ens_plugin.findings import Finding
from ens_plugin.report.result import ReportContent, SizeRecommendation

__all__ = ["DOUBTED", "first_doubt", "headline", "member_noun", "number_text", "price_sentence", "verdict"]

DOUBTED = "do not rely on these figures."
# An agreement that is wanted of labels, and how often the rarest label has to occur before it depends on that label.
SETTLED, RARE = 0.99, 10.0
# Times the size that is enough, from which on a model is far larger than it has to be.
FAR_MORE = 3.0
_TREES = re.compile(r"Forest|Trees?(?!bagg)|XGB|LGBM|Booster", re.IGNORECASE)
_MODELS = re.compile(r"Bagging|Ensemble", re.IGNORECASE)


def member_noun(report: ReportContent) -> str:
    """Return what one member is called: "tree" of a forest, "model" of other bags, else "member"."""
    if _TREES.search(report.model):
        return "tree"
    return "model" if _MODELS.search(report.model) else "member"


def number_text(report: ReportContent, number: int) -> str:
    """Return a number of members in words, as "300 trees"."""
    return counted(number, member_noun(report))


def first_doubt(report: ReportContent) -> Finding | None:
    """Return the doubt that the headline states; None where there is none."""
    return next((found for found in report.findings if found.kind == "doubt"), None)


def verdict(report: ReportContent) -> str:
    """Return in one sentence or a few whether the ensemble is large enough, for what, and what a size would change."""
    doubt = first_doubt(report)
    if doubt is not None:
        return f"{DOUBTED} {printable(doubt.sentence)} [{printable(doubt.code, 40)}]"
    if not report.has_enough_rows:
        return f"{report.too_few_rows_text} to decide whether {_are(report)} enough."
    return f"{_size_verdict(report)} {price_sentence(report)}".strip()


def headline(report: ReportContent) -> str:
    """Return the verdict without the reason of a doubt, which may be several sentences."""
    return verdict(report) if first_doubt(report) is None else DOUBTED


def price_sentence(report: ReportContent) -> str:
    """Return what the recommended size does to the accuracy, error or metric; empty where the curve is not known."""
    price = _price(report)
    if price is None:
        return ""
    name, here, there = price
    size = report.recommendation.size
    words = "with infinitely many" if size in (None, report.n_members) else f"with {size}"
    here_words = f"{name} on new rows: {here} with {report.n_members}"
    return f"{here_words} and {words}." if here == there else f"{here_words}, {there} {words}."


def _price(report: ReportContent) -> tuple[str, str, str] | None:
    """Return the everyday measure, and its values at the current and at the recommended size, or the infinite one."""
    curve, now, size = report.error_curve, report.n_members, report.recommendation.size
    if not curve.reaches(now) or (size is not None and not curve.reaches(size)):
        return None
    there = curve.asymptote if size is None or size == now else curve.at(size)
    return None if math.isnan(there) else _measured(report, curve.at(now), there)


def _measured(report: ReportContent, here: float, there: float) -> tuple[str, str, str]:
    """Return the everyday measure of a curve, and two of its values with as many digits as tell them apart."""
    metric = report.error_curve.metric
    if metric == "0-1 error":
        digits = 2 if 0.0 < min(here, there) < 0.005 else 1
        first, second = (f"{100.0 * (1.0 - max(each, 0.0)):.{digits}f} %" for each in (here, there))
        return "Accuracy", first, second
    if report.is_squared:
        first, second = (_three_digits(math.sqrt(max(each, 0.0))) for each in (here, there))
        return "RMSE", first, second
    return printable(metric, 40), _three_digits(here), _three_digits(there)


def _three_digits(value: float) -> str:
    return f"{value:#.3g}".removesuffix(".") if value else "0"


def _size_verdict(report: ReportContent) -> str:
    """Return whether the size is enough, as certain as its interval allows."""
    found, now = report.recommendation, report.n_members
    if _are_labels_settled(report) and not _is_reached(found, now):
        return f"{_are(report)} enough for predict. {_further(report)}"
    if not found.is_known:
        return _by_interval(report)
    if found.size is None and found.max_size < now:
        return (
            f"it is not known whether {_are(report)} enough{_demand(found)}: more than {found.max_size} are needed, "
            "the largest size considered."
        )
    if found.size is None:
        return f"{_are(report)} too few: no size up to {found.max_size} is enough{_demand(found)}."
    return _too_few(report, found.size) if now < found.size else _enough(report, found.size)


def _is_reached(found: SizeRecommendation, now: int) -> bool:
    if found.size is None:
        return found.has_interval and found.interval[1] is not None and now >= found.interval[1]
    return now >= found.size


def _are_labels_settled(report: ReportContent) -> bool:
    """Return whether more members would change hardly any label, and no more than that was asked for.

    A label that is rarer than a tenth of the rows is settled only if as small a part of its own rows changes.
    """
    found = report.recommendation
    if report.task != "classification" or found.agreement is None or found.criterion not in _FURTHER:
        return False
    n_rows = [label.n_rows for label in report.basis.labels if label.n_rows]
    rarest = min(n_rows) / sum(n_rows) if n_rows else 1.0
    return found.agreement >= 1.0 - (1.0 - SETTLED) * min(1.0, RARE * rarest)


# What criteria of a classifier ask for beyond its labels.
_FURTHER = {"probability": "Probabilities (predict_proba)", "excess_error": "An error"}


def _further(report: ReportContent) -> str:
    """Return how many members probabilities, or the error, need beyond what the labels need."""
    found = report.recommendation
    what, within = _FURTHER[found.criterion], f"within {100.0 * (found.tolerance or 0.0):.3g} % of the limit"
    if not found.has_interval:
        return f"{what} {within}: not known."
    if not found.is_known:
        low, high = found.interval
        most = f"more than {found.max_size}" if high is None else str(high)
        return f"{what} {within} may need {low} to {most}, which these rows cannot tell closer."
    size = f"more than {found.max_size}" if found.size is None else f"about {found.size}"
    return f"{what} {within} need{'s' * (what == 'An error')} {size}."


def _by_interval(report: ReportContent) -> str:
    """Return whether the members are enough where only the interval of the size is known, in a sentence or two."""
    found, now = report.recommendation, report.n_members
    if not found.has_interval:
        return f"it is not known whether {_are(report)} enough."
    (low, high), demand = found.interval, _demand(found)
    if now < low:
        return f"{_are(report)} too few{demand}: at least {low} are needed."
    if high is not None and now >= high:
        return f"{_are(report)} enough{demand}: at most {high} are needed."
    most = f"more than {found.max_size}" if high is None else str(high)
    return (
        f"it cannot be told from these rows whether {_are(report)} enough{demand}: {low} to {most} may be needed. "
        f"Train more {member_noun(report)}s, or on more rows."
    )


def _too_few(report: ReportContent, size: int) -> str:
    found, low, price = report.recommendation, report.recommendation.interval[0], _price(report)
    labels_change = found.agreement is not None and found.criterion in _FURTHER and found.agreement < SETTLED
    if price is not None and price[1] == price[2] and not labels_change and report.n_members >= low:
        return f"{_are(report)} about enough{_demand(found)}: {size} would be."
    perhaps = "" if report.n_members < low else "perhaps "
    needed = f"{_are(report)} {perhaps}too few{_demand(found)}: about {size} are needed."
    if not labels_change or found.agreement is None:
        return needed
    return f"{needed} {100.0 * (1.0 - found.agreement):.2g} % of the labels would change with more."


def _enough(report: ReportContent, size: int) -> str:
    """Return, for example, "800 trees are enough, and so are 673."."""
    found, now = report.recommendation, report.n_members
    high, demand = found.interval[1], _demand(found)
    if now == size:
        return f"{_are(report)} just enough{demand}."
    if high is None or now < high:
        return f"{_are(report)} probably enough{demand}: about {size} {_verb(size)} needed."
    if now > FAR_MORE * size:
        return f"{_are(report)} far more than needed{demand}: {size} {_verb(size)} enough."
    return f"{_are(report)} enough{demand}, and so {_verb(size)} {size}."


def _are(report: ReportContent) -> str:
    """Return the current number of members with its verb, as "300 trees are"."""
    return f"{number_text(report, report.n_members)} {_verb(report.n_members)}"


def _verb(number: int) -> str:
    return "is" if number == 1 else "are"


def _demand(found: SizeRecommendation) -> str:
    """Return what was asked of the size as a phrase; empty for the usual demands on a regressor."""
    if found.confidence is not None:
        return f" for {100.0 * found.confidence:.4g} % of the labels"
    if found.of_metric is not None:
        unit = "" if found.is_absolute else " %"
        distance = found.tolerance if found.is_absolute else 100.0 * (found.tolerance or 0.0)
        return f" for {printable(found.of_metric, 40)} within {distance:.3g}{unit} of its limit"
    return ""
