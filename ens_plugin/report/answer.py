"""The verdict of a report in the reader's own units, and the summaries that begin with it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ens_plugin.core.validation import counted, printable
from ens_plugin.report.result import RARE, ReportContent, SizeRecommendation, rarest_label
from ens_plugin.report.text import (
    MOST_LABELS,
    SHARES,
    criteria_markdown,
    error_lines,
    escaped_markdown,
    first_doubt,
    further_findings,
    gain_sentence,
    label_markdown,
    level_text,
    measure_name,
    measure_of,
    member_noun,
    number_text,
    origin_sentences,
    output_lines,
    output_markdown,
    output_sentence,
    reason_sentence,
    root_sentence,
    size_interval_text,
    size_lines,
    size_sentence,
    size_text,
    spread_sentences,
    table_row,
    wanted_text,
    with_code,
    wrapped,
)

__all__ = ["DOUBTED", "headline", "markdown_summary", "markdown_verdict", "price_sentence", "summarize", "verdict"]

DOUBTED = "do not rely on these figures."
# With this agreement, hardly any label depends on the seed.
SETTLED = 0.99
# Times the size that is enough, from which on a model is far larger than it has to be.
FAR_MORE = 3.0
OUTPUTS_ON_SCREEN = 4
SCREEN = 24  # lines of a terminal


def verdict(report: ReportContent) -> str:
    """Return in one sentence or a few whether the ensemble is large enough, for what, and what a size would change."""
    doubt = first_doubt(report)
    if doubt is not None:
        return f"{DOUBTED} {with_code(doubt)}"
    if not report.has_enough_rows:
        return f"{report.too_few_rows_text} to decide whether {_are(report)} enough."
    sentences = _size_verdict(report), _other_purposes(report), price_sentence(report)
    return " ".join(filter(None, sentences))


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
    name, values = measure_name(report), [measure_of(report, error) for error in (here, there)]
    if report.error_curve.metric in SHARES:
        digits = 2 if 0.0 < min(here, there) < 0.005 else 1
        texts = [f"{100.0 * value:.{digits}f} %" for value in values]
        return name.capitalize(), *_told_apart(texts, values, 10.0**-digits / 100.0)
    largest = max(map(abs, values))
    unit = 10.0 ** (math.floor(math.log10(largest)) - 2) if 0.0 < largest < math.inf else 0.0
    return name, *_told_apart(list(map(_three_digits, values)), values, unit)


def _told_apart(texts: Sequence[str], values: Sequence[float], unit: float) -> tuple[str, str]:
    """Return both texts, or one of them twice where the values differ by less than half of the last digit.

    Values next to a limit of rounding would differ by a whole digit.
    """
    first, second = texts
    return (first, second) if abs(values[0] - values[1]) >= unit / 2.0 else (first, first)


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
            f"it is not known whether {_are(report)} enough{_demand(report)}: more than {found.max_size} are needed, "
            "the largest size considered."
        )
    if found.size is None:
        return f"{_are(report)} too few: no size up to {found.max_size} is enough{_demand(report)}."
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
    rarest = rarest_label(report.basis.labels)
    share = 1.0 if rarest is None else rarest.share
    return found.agreement >= 1.0 - (1.0 - SETTLED) * min(1.0, RARE * share)


# What criteria of a classifier ask for beyond its labels.
_FURTHER = {"probability": "Probabilities (predict_proba)", "excess_error": "An error"}


def _further(report: ReportContent) -> str:
    """Return how many members probabilities, or the error, need beyond what the labels need."""
    found = report.recommendation
    what, within = _FURTHER[found.criterion], f"at most {wanted_text(found)} above the limit"
    if not found.has_interval:
        return f"{what} {within}: not known."
    if not found.is_known:
        interval = size_interval_text(found.interval, found.max_size)
        return f"{what} {within} may need {interval}, which these rows cannot tell closer."
    about = "" if found.size is None else "about "
    return f"{what} {within} need{'s' * (what == 'An error')} {about}{size_text(found.size, found.max_size)}."


def _by_interval(report: ReportContent) -> str:
    """Return whether the members are enough where only the interval of the size is known, in a sentence or two."""
    found, now = report.recommendation, report.n_members
    if not found.has_interval:
        return f"it is not known whether {_are(report)} enough."
    (low, high), demand = found.interval, _demand(report)
    if now < low:
        return f"{_are(report)} too few{demand}: at least {low} are needed."
    if high is not None and now >= high:
        return f"{_are(report)} enough{demand}: at most {high} are needed."
    return (
        f"it cannot be told from these rows whether {_are(report)} enough{demand}: "
        f"{size_interval_text(found.interval, found.max_size)} may be needed. "
        f"Train more {member_noun(report)}s, or on more rows."
    )


def _too_few(report: ReportContent, size: int) -> str:
    found, low, price = report.recommendation, report.recommendation.interval[0], _price(report)
    labels_change = found.agreement is not None and found.criterion in _FURTHER and found.agreement < SETTLED
    if price is not None and price[1] == price[2] and not labels_change and report.n_members >= low:
        return f"{_are(report)} about enough{_demand(report)}: {size} would be."
    perhaps = "" if report.n_members < low else "perhaps "
    needed = f"{_are(report)} {perhaps}too few{_demand(report)}: about {size} are needed."
    if not labels_change or found.agreement is None:
        return needed
    return f"{needed} {100.0 * (1.0 - found.agreement):.2g} % of the predicted labels would change with more."


def _enough(report: ReportContent, size: int) -> str:
    """Return, for example, "800 trees are enough for probabilities, and so are 673."."""
    found, now = report.recommendation, report.n_members
    high, demand = found.interval[1], _demand(report)
    if now == size:
        return f"{_are(report)} just enough{demand}."
    if high is None or now < high:
        return f"{_are(report)} probably enough{demand}: about {size} {_verb(size)} needed."
    if now > FAR_MORE * size:
        return f"{_are(report)} far more than needed{demand}: {size} {_verb(size)} enough."
    return f"{_are(report)} enough{demand}, and so {_verb(size)} {size}."


_PURPOSES = {"agreement": "labels", "probability": "probabilities", "excess_error": "error"}


def _other_purposes(report: ReportContent) -> str:
    """Return which purposes take more members than the metric, where fewer than the present ones are enough for it."""
    found = report.recommendation
    if found.of_metric is None or found.size is None or found.size >= report.n_members:
        return ""
    larger = [
        f"{_PURPOSES[each.criterion]} {each.size}"
        for each in report.criteria
        if each.criterion in _PURPOSES and each.is_known and each.size is not None and each.size > found.size
    ]
    return f"Other purposes take more: {', '.join(larger)}." if larger else ""


def _are(report: ReportContent) -> str:
    """Return the current number of members with its verb, as "300 trees are"."""
    return f"{number_text(report, report.n_members)} {_verb(report.n_members)}"


def _verb(number: int) -> str:
    return "is" if number == 1 else "are"


def _demand(report: ReportContent) -> str:
    """Return what was asked of the size as a phrase: what the members are enough, or too few, for."""
    found = report.recommendation
    if found.confidence is not None:
        return f" for {wanted_text(found)} of the labels"
    if found.of_metric is not None:
        return f" for {printable(found.of_metric, 40)} within {wanted_text(found)} of its limit"
    if found.criterion == "probability":
        return " for probabilities"
    error = "a mean squared error" if report.is_squared else "an error"
    return f" for {error} at most {wanted_text(found)} above its limit"


def markdown_verdict(report: ReportContent) -> str:
    """Return the name of the model and the verdict as a line of Markdown, with the headline in bold."""
    doubt = first_doubt(report)
    bold = f"**{escaped_markdown(report.model, 60)}: {escaped_markdown(headline(report), 600)}**"
    return bold if doubt is None else f"{bold} {escaped_markdown(with_code(doubt, 600), 650)}"


def summarize(report: ReportContent) -> str:
    """Return the verdict, the errors and sizes of a report for one screen of a terminal, 24 lines at most."""
    level = level_text(report.error_curve.interval_level)
    head = [*wrapped(f"{printable(report.model, 60)}: {verdict(report)}"), *wrapped(output_sentence(report))]
    title = table_row("On new rows", printable(measure_name(report), 15), f"{level} interval")
    errors = ["", title, *(table_row(*line) for line in error_lines(report))]
    # Sizes by figures that are not to be relied on are none, and each output has its own.
    sizes = [] if first_doubt(report) is not None or report.outputs else size_lines(report)
    parts = [
        *(["errors by label"] if report.label_errors else []),
        *(["warnings in full"] if report.findings else []),
        "how this is known",
    ]
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    data = wrapped(f"{origin_sentences(report)[0]} report.details() has {listed}.")
    tables = [*errors, *sizes, *output_lines(report, OUTPUTS_ON_SCREEN)]
    warnings = _short_warnings(report, SCREEN - len(head) - len(tables) - len(data) - 1)
    return "\n".join([*head, *warnings, *tables, "", *data])


def _short_warnings(report: ReportContent, most: int) -> list[str]:
    """Return the first sentence of each warning with its code, in at most so many lines; the rest as a number."""
    found = further_findings(report)
    lines: list[str] = []
    for place, each in enumerate(found):
        first = each.with_sentence(_first_sentence(each.sentence))
        text = wrapped(f"Warning: {with_code(first, 220)}", later="  ")
        if len(lines) + len(text) > most - (place < len(found) - 1):
            return [*lines, f"{counted(len(found) - place, 'warning')}{' more' if place else ''}: report.details()"]
        lines += text
    return lines


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?:]) (?=[A-Z])", text, maxsplit=1)[0]


def markdown_summary(report: ReportContent) -> str:
    """Return a summary of a report in Markdown, for the description of an MLflow run or a pull request."""
    level = level_text(report.error_curve.interval_level)
    rows = [" | ".join(["", *line, ""]).strip() for line in error_lines(report)]
    sentences = [
        gain_sentence(report),
        root_sentence(report),
        output_sentence(report),
        *(f"Warning: {with_code(each, 350)}" for each in further_findings(report)),
        size_sentence(report),
        reason_sentence(report),
        *spread_sentences(report),
        *origin_sentences(report),
    ]
    return "\n".join(
        [
            markdown_verdict(report),
            "",
            f"| on new rows | {escaped_markdown(measure_name(report), 40)} | {level} interval |",
            "|---|---|---|",
            *rows,
            "",
            *criteria_markdown(report),
            *label_markdown(report, MOST_LABELS),
            *output_markdown(report),
            *(f"- {escaped_markdown(sentence, 400)}" for sentence in sentences if sentence),
        ]
    )
