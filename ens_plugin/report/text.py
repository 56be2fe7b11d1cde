"""Sentences about a report, and its summaries as plain text and as Markdown."""

from __future__ import annotations

import math
from typing import NamedTuple

from ens_plugin.core.validation import counted, printable
from ens_plugin.report.content import ReportContent
from ens_plugin.report.estimates import SizeRecommendation
from ens_plugin.report.quantities import (
    NOT_KNOWN,
    NOT_TOLD,
    SHARES,
    aggregation_words,
    bag_words,
    criterion_words,
    error_text,
    estimator_words,
    finite_words,
    group_words,
    independence_words,
    interval_text,
    label_words,
    level_text,
    members_text,
    size_interval_text,
    spread_text,
    wanted_text,
)
from ens_plugin.report.tables import (
    WIDTH,
    confusion_lines,
    criteria_lines,
    criteria_markdown,
    escaped_markdown,
    label_lines,
    label_markdown,
    output_lines,
    output_markdown,
    output_sentence,
    wrapped,
)

__all__ = [
    "WIDTH",
    "all_cautions",
    "error_lines",
    "escaped_markdown",
    "gain_sentence",
    "headline",
    "markdown_summary",
    "markdown_verdict",
    "printable",
    "root_sentence",
    "root_texts",
    "size_label",
    "summarize",
    "variance_sentence",
    "verdict",
    "wrapped",
]

MOST_LABELS = 10  # of a table by label
DOUBTED = "do not rely on these figures."


class RootTexts(NamedTuple):
    """The root of a mean squared error, its interval, and the root with infinitely many members."""

    error: str
    interval: str
    limit: str


def all_cautions(report: ReportContent) -> tuple[str, ...]:
    """Return the warnings of a report, preceded by all its doubts but the first, which the headline states."""
    return (*report.basis.doubts[1:], *report.warnings)


def gain_sentence(report: ReportContent) -> str:
    """Return a sentence comparing the current error with the infinite ensemble's; empty if that is not estimated."""
    curve, now = report.error_curve, report.n_members
    if math.isnan(curve.asymptote) or not curve.reaches(now):
        return ""
    metric = printable(curve.metric, 40)
    here, limit = error_text(curve.at(now), curve.metric), error_text(curve.asymptote, curve.metric)
    if here == limit:
        return f"Adding members would leave the {metric} at {here}."
    change = "lower" if curve.asymptote < curve.at(now) else "raise"
    return f"Adding members without end would {change} the {metric} from {here} to {limit}."


def root_sentence(report: ReportContent) -> str:
    """Return a sentence with the root of a mean squared error, in the target's unit; empty for other errors."""
    root = root_texts(report)
    if not root.error:
        return ""
    level = level_text(report.error_curve.interval_level)
    interval = f" ({level} interval {root.interval})" if root.interval else ""
    limit = f", and {root.limit} with infinitely many" if root.limit else ""
    return (
        f"Root mean squared error (RMSE), in the target's unit: {root.error}{interval} with "
        f"{members_text(report.n_members)}{limit}."
    )


def root_texts(report: ReportContent) -> RootTexts:
    """Return the root of a mean squared error, its interval and its limit as texts; empty ones where not known."""
    found, metric = report.metrics(), report.error_curve.metric
    error, limit = (error_text(found[name], metric) if name in found else "" for name in ("rmse", "asymptotic_rmse"))
    interval = interval_text((found["rmse_lower"], found["rmse_upper"]), metric) if "rmse_upper" in found else ""
    return RootTexts(error, interval, limit)


def size_label(report: ReportContent) -> str:
    """Return the label of the recommended size in a summary, which is "A guess ..." where the size is unreliable."""
    is_reliable = report.has_enough_rows and not report.basis.doubts
    return "Recommended size" if is_reliable else "A guess at the size, not to be acted on"


def verdict(report: ReportContent) -> str:
    """Return one sentence on whether the ensemble is large enough, as certain as the interval allows."""
    recommendation = report.recommendation
    now, size, (low, high) = report.n_members, recommendation.size, recommendation.interval
    members = counted(now, "member is", "members are")
    if report.basis.doubts:
        return f"{DOUBTED} {printable(report.basis.doubts[0])}"
    if not report.has_enough_rows:
        return f"{report.too_few_rows_text} to decide whether {members} enough."
    if not recommendation.is_known and recommendation.has_interval:
        return _by_interval(recommendation, now)
    if not recommendation.is_known:
        return f"it is not known whether {members} enough."
    if size is None and recommendation.max_size < now:
        return (
            f"it is not known whether {members} enough{_demand(recommendation)}: more than "
            f"{recommendation.max_size} are needed, the largest size considered."
        )
    if size is None:
        return f"{members} too few{_demand(recommendation)}, and even {recommendation.max_size} would be."
    needed = f": about {size} {'is' if size == 1 else 'are'} needed.{_price(report, size)}"
    if now < low:
        return f"{members} too few{_demand(recommendation)}{needed}"
    if now < size:
        return f"{members} perhaps too few{_demand(recommendation)}{needed}"
    of_labels = "" if recommendation.confidence is None else _demand(recommendation)
    if now == size:
        return f"{members} just enough{of_labels}."
    if high is None or now < high:
        return f"{members} probably enough{of_labels}{needed}"
    return f"{members} enough{of_labels}.{_price(report, size)}"


def _by_interval(recommendation: SizeRecommendation, now: int) -> str:
    """Return whether the members are enough where only the interval of the size is known, in a sentence or two."""
    (low, high), demand = recommendation.interval, _demand(recommendation)
    members = counted(now, "member is", "members are")
    if now < low:
        return f"{members} too few{demand}: at least {low} are needed."
    if high is not None and now >= high:
        return f"{members} enough{demand}: at most {high} are needed."
    interval = size_interval_text(recommendation.interval, recommendation.max_size)
    return (
        f"it cannot be told from these rows whether {members} enough{demand}: {interval} may be needed. Pass more "
        "rows, or train more members."
    )


def headline(report: ReportContent) -> str:
    """Return the verdict without the reason of a doubt, which may be several sentences."""
    return DOUBTED if report.basis.doubts else verdict(report)


def markdown_verdict(report: ReportContent) -> str:
    """Return the name of the model and the verdict as a line of Markdown, with the headline in bold."""
    doubts = report.basis.doubts[:1]
    bold = f"**{escaped_markdown(report.model, 60)}: {escaped_markdown(headline(report), 600)}**"
    return " ".join([bold, *(escaped_markdown(doubt, 600) for doubt in doubts)])


def variance_sentence(report: ReportContent) -> str:
    """Return what the variance of one member is, in a sentence or two."""
    parts = report.bias_variance
    variance = error_text(parts.member_variance, parts.loss)
    if parts.loss not in SHARES:
        return f"The variance of one member around the infinite ensemble is {variance}."
    return (
        f"One member predicts another label than the infinite ensemble for {variance} of the rows (its variance). "
        "Some of these labels are right, so averaging removes less than that."
    )


def _price(report: ReportContent, size: int) -> str:
    """Return what another size would do to the error, in a sentence; empty where the curve does not reach it."""
    curve = report.error_curve
    if not (curve.reaches(size) and curve.reaches(report.n_members)):
        return ""
    metric, there = printable(curve.metric, 40), error_text(curve.at(size), curve.metric)
    now = error_text(report.error, curve.metric)
    if there == now:
        besides = _brier_price(report.recommendation, report.n_members)
        return f" With {size}, the {metric} would still be {now}{besides}."
    return f" With {size}, the {metric} would be {there} instead of {now}."


def _brier_price(recommendation: SizeRecommendation, now: int) -> str:
    """Return what the recommended size does to the Brier score, as the end of a sentence; empty for other criteria."""
    if recommendation.criterion != "probability" or recommendation.size is None or not len(recommendation.sizes):
        return ""
    # The excess is proportional to 1 / size, so it is known at sizes that are not tabulated, too.
    of_one = float(recommendation.values[-1] * recommendation.sizes[-1])
    there, here = (f"{100.0 * of_one / size:.2f} %" for size in (recommendation.size, now))
    return f", and the Brier score {there} instead of {here} above its limit"


def _demand(recommendation: SizeRecommendation) -> str:
    """Return the unmet criterion as a phrase, because the error itself may hardly change with more members, or rise."""
    if recommendation.confidence is not None:
        return f" for {level_text(recommendation.confidence)} agreement of labels"
    if recommendation.of_metric is not None:
        return f" for {printable(recommendation.of_metric, 40)} within {wanted_text(recommendation)} of the limit"
    if recommendation.tolerance is not None:
        what = "probabilities" if recommendation.criterion == "probability" else "an error"
        return f" for {what} within {level_text(recommendation.tolerance)} of the limit"
    return ""


def summarize(report: ReportContent) -> str:
    """Return a plain-text summary of a report for a terminal.

    Parameters
    ----------
    report : ReportContent

    Returns
    -------
    str
        Lines of at most 80 columns, without a newline at the end.
    """
    level = level_text(report.error_curve.interval_level)
    return "\n".join(
        [
            *wrapped(f"{printable(report.model, 60)}: {verdict(report)}"),
            *wrapped(gain_sentence(report)),
            *wrapped(output_sentence(report)),
            *(line for text in all_cautions(report) for line in wrapped(f"Warning: {printable(text)}", later="  ")),
            "",
            *wrapped(f"Expected {printable(report.error_curve.metric, 40)} on fresh rows, with {level} interval:"),
            *(_row(*line) for line in error_lines(report)),
            *wrapped(root_sentence(report)),
            "",
            *wrapped(_size_sentence(report)),
            *wrapped(printable(report.recommendation.reason), indent="  "),
            *criteria_lines(report),
            *output_lines(report),
            *(line for sentence in _sentences(report) for line in wrapped(sentence)),
            *_label_lines(report),
            "",
            *(line for sentence in _origin(report) for line in wrapped(sentence)),
        ]
    )


def markdown_summary(report: ReportContent) -> str:
    """Return a summary of a report in Markdown, for the description of an MLflow run or a pull request.

    Parameters
    ----------
    report : ReportContent

    Returns
    -------
    str
        Markdown with one small table; no text of the report can act as markup.
    """
    level = level_text(report.error_curve.interval_level)
    rows = [" | ".join(["", *line, ""]).strip() for line in error_lines(report)]
    sentences = [
        gain_sentence(report),
        root_sentence(report),
        output_sentence(report),
        *(f"Warning: {text}" for text in all_cautions(report)),
        _size_sentence(report),
        report.recommendation.reason,
        *_sentences(report),
        *_origin(report),
    ]
    return "\n".join(
        [
            markdown_verdict(report),
            "",
            f"| | {escaped_markdown(report.error_curve.metric, 40)} | {level} interval |",
            "|---|---|---|",
            *rows,
            "",
            *criteria_markdown(report),
            *label_markdown(report, MOST_LABELS),
            *output_markdown(report),
            *(f"- {escaped_markdown(sentence, 400)}" for sentence in sentences if sentence),
        ]
    )


def error_lines(report: ReportContent) -> list[tuple[str, str, str]]:
    """Return label, error and interval at the sizes of the summary: one, the current, the recommended, and infinity."""
    curve, now, recommended = report.error_curve, report.n_members, report.recommendation.size
    sizes: list[tuple[str, float]] = []
    if curve.sizes[0] == 1 and now > 1:
        sizes.append(("one member", 1))
    if curve.reaches(now):
        sizes.append((f"{members_text(now)} (this ensemble)", now))
    elif now < curve.sizes[0]:
        first = int(curve.sizes[0])
        sizes.append((f"{members_text(first)} (here the curve begins)", first))
    else:
        last = int(curve.sizes[-1])
        sizes.append((f"{members_text(last)} (of {now}: the curve ends)", last))
    if recommended not in (None, 1, now) and curve.reaches(recommended):
        kind = "recommended" if report.is_actionable else "a guess"
        sizes.append((f"{members_text(recommended)} ({kind})", recommended))
        sizes.sort(key=lambda line: line[1])
    lines = [
        (label, error_text(curve.at(size), curve.metric), interval_text(curve.interval_at(size), curve.metric))
        for label, size in sizes
    ]
    limit = error_text(curve.asymptote, curve.metric)
    known = "" if limit == NOT_KNOWN else interval_text(curve.asymptote_interval, curve.metric)
    return [*lines, ("infinitely many members", limit, known)]


def _size_sentence(report: ReportContent) -> str:
    recommendation = report.recommendation
    if not recommendation.has_interval:
        return "Recommended size: not known."
    level = level_text(report.error_curve.interval_level)
    interval = size_interval_text(recommendation.interval, recommendation.max_size)
    return (
        f"{size_label(report)}: {_size_words(recommendation)} ({level} interval {interval}), for "
        f"{criterion_words(recommendation)}."
    )


def _size_words(recommendation: SizeRecommendation) -> str:
    if not recommendation.is_known:
        return f"{NOT_TOLD} from these rows"
    if recommendation.size is None:
        return f"more than {members_text(recommendation.max_size)}"
    return members_text(recommendation.size)


def _label_lines(report: ReportContent) -> list[str]:
    """Return errors by label and the confusion matrix, each after an empty line; none where the report has none."""
    tables = (label_lines(report, MOST_LABELS), confusion_lines(report, MOST_LABELS))
    return [line for table in tables if table for line in ("", *table)]


def _sentences(report: ReportContent) -> list[str]:
    members, agreement = members_text(report.n_members), report.recommendation.agreement
    sentences = []
    if agreement is not None:
        sentences.append(
            f"Agreement of {members} with the infinite ensemble: "
            f"the same label on {100 * agreement:.2f} % of rows on average."
        )
    if not math.isnan(report.algorithmic_sd):
        on_fresh = report.data == "oob" and not report.algorithmic_sd_is_bound
        spread = spread_text(report.algorithmic_sd, report.error_curve.metric)
        bound = "at most " if report.algorithmic_sd_is_bound else "about " if on_fresh else ""
        if spread.startswith("<"):
            bound, spread = "less than ", spread[1:]
        of_what = "error" if report.error_curve.metric_basis is None else printable(report.error_curve.metric, 40)
        sentences.append(
            f"Over random seeds, given this training set, the {of_what} of {members} has a standard deviation of "
            f"{bound}{spread} on {'fresh' if on_fresh else 'these'} rows."
        )
    if not math.isnan(report.bias_variance.bias):
        parts, metric = report.bias_variance, report.error_curve.metric
        is_other = report.error_curve.metric_basis is not None and parts.loss not in (metric, f"-{metric}")
        loss = printable(parts.loss, 24)
        of_loss = f"of the {loss}, not of {printable(metric, 40)}" if is_other else loss
        sentences.append(
            f"Bias {error_text(parts.bias, parts.loss)} and variance of one member "
            f"{error_text(parts.member_variance, parts.loss)} ({of_loss}) are over seeds, given this "
            "training set, not over training sets (for those: ens_plugin.training_variance)."
        )
    return sentences


def _origin(report: ReportContent) -> list[str]:
    kind = "out-of-bag row" if report.data == "oob" else "held-out row"
    basis, metric = report.error_curve.metric_basis, printable(report.error_curve.metric, 40)
    own = [] if basis is None else [f"The {metric}{label_words(basis)} was computed on {counted(basis.n_rows, 'row')}."]
    if finite := finite_words(basis):
        own.append(f"That of as many rows is finite {finite}; the curve begins there.")
    groups = group_words(report.basis.n_groups, report.n_rows)
    left_out = f" ({report.rows_without_oob} more left out)" if report.rows_without_oob else ""
    return [
        f"Data: {counted(report.n_rows, kind)}{independence_words(report.basis.n_groups)}{left_out}, "
        f"{report.mean_oob_members:.1f} members per row on average.",
        *own,
        *([f"Groups: {groups}."] if groups else []),
        f"In-bag rows: {bag_words(report)}.",
        f"Prediction: {aggregation_words(report)}.",
        f"Curve: {estimator_words(report)}.",
    ]


def _row(label: str, error: str, interval: str) -> str:
    return f"  {label:<36}{error:>14}  {interval:>24}".rstrip()
