"""The three answers of a report: more members or not, how good the ensemble is, and whether to trust that.

Every surface has them in the same words: the summary for a terminal, the card, the page, the description of a run in
MLflow, the Markdown of a pull request and the command line.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ens_plugin.core.validation import counted, plural, printable
from ens_plugin.findings import CHECKS, Finding
from ens_plugin.report.result import SHARES, ReportContent
from ens_plugin.report.text import (
    MOST_LABELS,
    criteria_table,
    escaped_markdown,
    gain_texts,
    label_table,
    measure_interval_text,
    measure_name,
    measure_text,
    member_noun,
    number_text,
    origin_sentences,
    output_sentence,
    output_table,
    reason_sentence,
    size_table,
    with_code,
    wrapped,
)

DOUBTED = "Do not use these figures."


class Answer(NamedTuple):
    """One question of a reader and the answer of a report."""

    question: str
    text: str


def three_answers(report: ReportContent) -> list[Answer]:
    """Return the answers on size, quality and trust; one answer where a doubt makes the others worthless."""
    doubt = report.doubt
    if doubt is not None:
        return [Answer("Trust it?", f"{DOUBTED} {_doubt_text(doubt)}")]
    more = Answer(f"More {plural(member_noun(report))}?", _more(report))
    return [more, Answer("How good?", _quality(report)), Answer("Trust it?", _trust(report))]


def _doubt_text(found: Finding) -> str:
    """Return what a doubt is about and what to do, shortly; its whole sentence is in the details."""
    if found.code == "of-adapter":
        return with_code(found, 400)
    check = CHECKS[found.code]
    return f"{check.finds} {check.remedy} [{found.code}]"


def headline(report: ReportContent) -> str:
    """Return the first answer with its question; of a report with a doubt, not to use it."""
    first = three_answers(report)[0]
    return DOUBTED if report.doubt is not None else f"{first.question} {first.text}"


def _more(report: ReportContent) -> str:
    if not report.has_enough_rows:
        return f"That cannot be told: {report.too_few_rows_text}."
    found, now = report.recommendation, report.n_members
    if math.isnan(found.loss):
        return f"That cannot be told. {reason_sentence(report)}"
    # Votes tie at an even size, and a smaller odd one can be enough where it is not.
    if not report.is_enough and (found.size is None or found.size > now):
        return _yes(report)
    if report.can_be_cut and found.size is not None:
        return _fewer(report, found.size)
    return f"No. With more, {_change(report)}."


def _change(report: ReportContent) -> str:
    """Return what infinitely many members would change, after "With more,"."""
    curve, now = report.error_curve, report.n_members
    here, there = gain_texts(report, now, math.inf)
    name = measure_name(report)
    if curve.metric not in SHARES:
        verb = "it would be off by" if report.is_squared else f"{name} would be"
        return f"{verb} {there} instead of {here}" if here != there else f"{verb} {here} as now"
    agreement = report.recommendation.agreement
    # A change of fewer labels would be shown as 0.0 %.
    is_changed = agreement is not None and 1.0 - agreement >= 0.0005
    labels = _changed_labels(agreement) if is_changed else "no label would change"
    if here == there or curve.asymptote > curve.at(now):
        return f"{labels} and no accuracy is gained"
    return f"{labels} and {there} would be right instead of {here}"


def _yes(report: ReportContent) -> str:
    found, now, size = report.recommendation, report.n_members, report.recommendation.size
    # A size far above the current one is shown with a size between, which can be afforded.
    if size is None or size > 5.0 * now:
        return _far_more(report)
    here, there = gain_texts(report, now, size)
    is_accurate = all(each.is_enough for each in report.criteria if each.criterion == "error" and each.is_required)
    if found.criterion == "probability" and is_accurate:
        better = f"{100.0 * (found.loss - found.loss_at(size)) / (found.limit + found.loss):.1f} %"
        stays = f"{here} are right as now" if here == there else f"{there} are right instead of {here}"
        return f"Yes, {size} in total: the probabilities get better (Brier score {better} lower), and {stays}."
    if found.criterion == "agreement":
        allowed = f"{100.0 * found.tolerance:.2g} % may"
        return f"Yes, {size} in total: {_changed_labels(found.agreement)} with more, and {allowed}."
    is_changed = found.agreement is not None and report.error_curve.metric in SHARES
    also = f"; {_changed_labels(found.agreement)}" if is_changed else ""
    return f"Yes, {size} in total: {_gives(report, there)} instead of {here}{also}."


def _gives(report: ReportContent, value: str) -> str:
    """Return a value of the everyday measure as what an ensemble has."""
    if report.error_curve.metric in SHARES:
        return f"{value} right"
    return f"off by {value}" if report.is_squared else f"{measure_name(report)} {value}"


def _changed_labels(agreement: float | None) -> str:
    return f"{100.0 * (1.0 - (agreement or 0.0)):.1f} % of the labels would change"


def _far_more(report: ReportContent) -> str:
    """Return what several sizes give where the recommended one is far above the current one."""
    found, now = report.recommendation, report.n_members
    last = max(found.max_size, now) if found.size is None else found.size
    # In the middle on the scale of logarithms.
    sizes = [
        size for size in dict.fromkeys((now, round(math.sqrt(now * last)), last)) if report.error_curve.reaches(size)
    ]
    needed = f"more than {last}" if found.size is None else f"{last} in total"
    values = [measure_text(report, report.error_curve.at(size)) for size in sizes]
    given = ", ".join(f"{_give(size)} {value}" for size, value in zip(sizes, values, strict=True))
    limit = measure_text(report, report.error_curve.asymptote)
    is_share, rises = report.error_curve.metric in SHARES, report.error_curve.asymptote <= report.error
    end = f"none gives over {limit}" if is_share and rises else f"infinitely many give {limit}"
    return f"Yes, {needed}: {given}; {end}."


def _give(size: int) -> str:
    return "1 gives" if size == 1 else f"{size} give"


def _fewer(report: ReportContent, size: int) -> str:
    here, there = gain_texts(report, report.n_members, size)
    kept = there if report.error_curve.metric in SHARES else _gives(report, there)
    start = f"{size} {'is' if size == 1 else 'are'}" if report.is_squared else _give(size)
    given = f"{start} {kept} as well" if here == there else f"{start} {kept} instead of {here}"
    saved = 100.0 * (1.0 - size / report.n_members)
    saves = f"{'saves' if size == 1 else 'save'} {saved:.0f} % of size and time"
    return f"No, fewer: {given} and {saves}: truncate(model, {size})."


def _quality(report: ReportContent) -> str:
    """Return how good the ensemble is on new rows, beside what a model without features gives."""
    curve = report.error_curve
    if not curve.reaches(report.n_members):
        return f"That is known from {int(curve.sizes[0])} {plural(member_noun(report))} on."
    value, interval = measure_text(report, report.error), measure_interval_text(report, report.error_interval)
    base = report.basis.baseline_error
    verb = " is no worse" if base <= report.error else ""
    if curve.metric in SHARES:
        found = f"{value} right on new rows ({interval})."
        return found if math.isnan(base) else f"{found} Always the commonest label{verb}: {measure_text(report, base)}."
    if report.is_squared:
        found = f"Off by {value} as a rule (RMSE, {interval})"
        if math.isnan(base) or base <= 0.0:
            return f"{found}."
        return f"{found}; always the mean{verb}: {measure_text(report, base)}; R2 {1.0 - report.error / base:.2f}."
    return f"{measure_name(report)} {value} on new rows ({interval})."


def _trust(report: ReportContent) -> str:
    """Return under which conditions the figures hold, what they rest on, and that nothing speaks against them."""
    if not report.has_enough_rows:
        return f"No: {report.too_few_rows_text}; the interval shows how little they tell."
    rows, noun = counted(report.n_rows, "row"), member_noun(report)
    groups = report.basis.n_groups
    of_groups = "" if groups is None or groups == report.n_rows else f" of {counted(groups, 'group')}"
    if report.data == "oob":
        judged = f"about {counted(round(report.mean_oob_members), noun)} each that never saw it"
    else:
        judged = f"all {number_text(report, report.n_members)} each"
    return f"Yes, if {' and '.join(_conditions(report))}: {rows}{of_groups}, {judged}; nothing suspicious found."


def _conditions(report: ReportContent) -> list[str]:
    is_grouped = report.basis.n_groups not in (None, report.n_rows)
    first = f"each {'group' if is_grouped else 'row'} is another case"
    found = [CHECKS[each.code].condition for each in report.findings]
    if report.data == "holdout":
        found = [f"no {member_noun(report)} was trained on these rows", *found]
    return list(dict.fromkeys([first, *filter(None, found)]))


def answer_lines(report: ReportContent) -> list[str]:
    """Return the answers as lines of text, each beside its question."""
    found = three_answers(report)
    width = max(12, *(len(each.question) + 1 for each in found))
    indent = " " * width
    lines: list[str] = []
    for each in found:
        first, *later = wrapped(each.text, indent)
        lines += [each.question.ljust(width) + first[width:], *later]
    return lines


def markdown_answers(report: ReportContent) -> str:
    """Return the answers in Markdown, one line each, the questions in bold."""
    lines = [f"**{escaped_markdown(report.model, 60)}, {number_text(report, report.n_members)}**"]
    lines += [f"**{each.question}** {escaped_markdown(each.text, 600)}" for each in three_answers(report)]
    # Two spaces at the end of a line break it.
    return "  \n".join(lines)


def summarize(report: ReportContent) -> str:
    """Return the answers and one table of at most four sizes, for one screen of a terminal."""
    title = f"{printable(report.model, 60)}, {number_text(report, report.n_members)}"
    head = [title, *answer_lines(report), *wrapped(output_sentence(report))]
    if report.doubt is not None:
        return "\n".join(head)
    outputs = output_table(report, 4).lines()
    return "\n".join([*head, "", *size_table(report).lines(), *([""] if outputs else []), *outputs])


def markdown_summary(report: ReportContent) -> str:
    """Return the answers, the errors and sizes in Markdown, for the description of a run or a pull request."""
    if report.doubt is not None:
        return markdown_answers(report)
    criteria = criteria_table(report)
    sentences = [output_sentence(report), *origin_sentences(report)]
    return "\n".join(
        [
            markdown_answers(report),
            "",
            *size_table(report).markdown(),
            *(criteria.markdown() if len(criteria.rows) > 1 else []),
            *label_table(report, MOST_LABELS).markdown(),
            *output_table(report).markdown(),
            *(f"- {escaped_markdown(sentence, 400)}" for sentence in sentences if sentence),
        ]
    )
