"""Sentences and numbers of a report, its tables, and its summaries as plain text and as Markdown."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.core.validation import counted
from ens_plugin.core.validation import printable as printable
from ens_plugin.findings import Finding
from ens_plugin.report.result import (
    FEWEST_ROWS,
    SQUARED,
    ZERO_ONE,
    LabelErrors,
    MetricBasis,
    ReportContent,
    SizeRecommendation,
    worst_output,
)

if TYPE_CHECKING:
    import pandas as pd

NOT_KNOWN = "not estimated"

SHARES = (ZERO_ONE, "0-1 loss")  # the latter of a bias and a variance

_QUANTITIES = {"error": "an error", "probability": "a Brier score", "metric": "the metric"}

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
    "path": "one order of growth, own out-of-bag members only (path), that of a smaller ensemble",
    "closed_form": "closed form for the squared loss, unbiased at every size",
    "margin": "model of the members' margins over the strongest rival label (margin)",
    "subset_average": "average over random subsets of the members (subset_average)",
}
_MARGINS = "distribution of the rows' mean margins, fitted to the members' raw scores (deconvolved)"


def error_text(value: float, metric: str) -> str:
    """Return an error as text with its unit: percent for the 0-1 error, else four significant digits."""
    if math.isnan(value):
        return NOT_KNOWN
    return f"{_number(value, metric)} %" if metric in SHARES else _number(value, metric)


def interval_text(interval: tuple[float, float], metric: str) -> str:
    """Return an interval of an error as text, with its unit once."""
    low, high = interval
    return NOT_KNOWN if math.isnan(low) or math.isnan(high) else f"{_number(low, metric)} to {error_text(high, metric)}"


def spread_text(value: float, metric: str) -> str:
    """Return a difference of errors as text: percentage points for the 0-1 error, else two significant digits."""
    if math.isnan(value):
        return NOT_KNOWN
    return f"{_number(value, metric)} percentage points" if metric in SHARES else _two_digits(value)


def bytes_text(count: float) -> str:
    """Return a number of bytes as text, in units of a thousand, a million or a billion of them."""
    if count >= 1e9:
        return f"{count / 1e9:.3g} GB"
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"


def seconds_text(seconds: float) -> str:
    """Return a time as text with its unit."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"


def size_text(size: int | None, max_size: int) -> str:
    """Return a number of members as text; for None, "more than" the largest size considered."""
    return f"more than {max_size}" if size is None else str(size)


def members_text(count: int) -> str:
    """Return a number of members followed by "member" or "members"."""
    return counted(count, "member")


def size_interval_text(interval: tuple[int, int | None], max_size: int) -> str:
    """Return an interval of the recommended size as text."""
    low, high = interval
    if high is None and low >= max_size:
        return size_text(None, max_size)
    return f"{low} only" if low == high else f"{low} to {size_text(high, max_size)}"


def recommended_text(recommendation: SizeRecommendation) -> str:
    """Return the recommended size as text."""
    return size_text(recommendation.size, recommendation.max_size)


def recommended_interval_text(recommendation: SizeRecommendation) -> str:
    """Return the interval of the size that is needed as text."""
    return size_interval_text(recommendation.interval, recommendation.max_size)


def level_text(level: float) -> str:
    """Return the level of an interval as text, in percent."""
    return f"{100.0 * level:.4g} %"


def criterion_words(recommendation: SizeRecommendation) -> str:
    """Return what the recommended size is enough for, in words."""
    allowed = recommendation.tolerance
    if recommendation.criterion == "agreement":
        return f"at most {_two_digits(100.0 * allowed)} % of other labels than infinitely many"
    return f"{_QUANTITIES[recommendation.criterion]} within {_two_digits(allowed)} of that of infinitely many"


def quantity_label(recommendation: SizeRecommendation) -> str:
    """Return the label of an axis of the quantity of a respect."""
    if recommendation.criterion == "agreement":
        return "Labels as with infinitely many (%)"
    if recommendation.criterion == "probability":
        return "Brier score of the probabilities"
    return printable(recommendation.of_metric or "Error", 30)


def _finite_words(basis: MetricBasis | None) -> str:
    """Return from which size on a log loss is finite, with which chance; empty where every size is, or none."""
    zeros = None if basis is None else basis.zeros
    if zeros is None or (zeros.finite_from or 1) == 1:
        return ""
    start = f"from {members_text(zeros.finite_from or 1)} on, where the curve begins"
    return f"{start}, with a chance of {100.0 * zeros.chance:.0f} % or more"


def label_words(basis: MetricBasis | None) -> str:
    """Return the named positive label of a metric as the words after its name; empty where none was named."""
    named = None if basis is None else basis.positive_label
    return "" if named is None else f" of label {printable(named, 40)!r}"


def group_words(n_groups: int | None, n_rows: int) -> str:
    """Return what the groups of rows mean for the figures; empty where no groups were given."""
    if n_groups is None:
        return ""
    if n_groups == n_rows:
        return "every row is a group of its own, so that groups change no figure"
    return f"{n_groups}, whose rows are taken to depend on each other"


def _estimator_words(report: ReportContent) -> str:
    """Return the method by which the error curve was estimated, in words."""
    if report.aggregation == "mean_score" and report.error_curve.estimator == "deconvolved":
        return _MARGINS
    return _ESTIMATORS.get(report.error_curve.estimator, printable(report.error_curve.estimator, 60))


def axis_name(metric: str) -> str:
    """Return the name of an error as the label of an axis, with its unit."""
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


_SAMPLES = re.compile(r"^AnswerEnsemble$")
_TREES = re.compile(r"Forest|Trees?(?!bagg)|XGB|LGBM|Booster", re.IGNORECASE)
_MODELS = re.compile(r"Bagging|Ensemble", re.IGNORECASE)
WIDTH = 80
SHOWN_ROWS = 5
_MARKDOWN_SYNTAX = re.compile(r"[\\`*_{}\[\]<>#|~$&@!]")
LONGEST_LABEL = 16
MOST_OUTPUTS = 30
OUTPUT_WIDTH = 28
LONGEST_NOTE = 400


class CriterionRow(NamedTuple):
    """The size in one respect, as text.

    Attributes
    ----------
    name, size, interval : str
    there : str
        The everyday measure at that size; empty where the curve does not reach it.
    is_chosen : bool
        Whether the recommended size is this one.
    """

    name: str
    size: str
    interval: str
    there: str
    is_chosen: bool


class LabelRow(NamedTuple):
    """The share of the rows of one label that are predicted right, as text.

    Attributes
    ----------
    label, rows, right, interval : str
    recommended : str
        That share at the recommended size; a dash where the label has too few rows for it, empty without such a size.
    predicted : tuple of str
        Rows by predicted label, in the order of the labels.
    """

    label: str
    rows: str
    right: str
    interval: str
    recommended: str
    predicted: tuple[str, ...]


def criteria_rows(report: ReportContent) -> list[CriterionRow]:
    """Return a row of text for the size in every respect."""
    curve, chosen = report.error_curve, report.recommendation.criterion
    return [
        CriterionRow(
            name=_purpose(found, report),
            size=recommended_text(found),
            interval=recommended_interval_text(found),
            there=measure_text(report, curve.at(found.size)) if found.size and curve.reaches(found.size) else "",
            is_chosen=found.criterion == chosen,
        )
        for found in report.criteria or (report.recommendation,)
    ]


def criteria_markdown(report: ReportContent) -> list[str]:
    """Return the sizes in every respect as a table of Markdown; no lines where there is one."""
    rows = criteria_rows(report)
    if len(rows) < 2:
        return []
    cells = [[escaped_markdown(row.name, 40), row.size, row.interval, row.there] for row in rows]
    there = escaped_markdown(measure_name(report), 24)
    return markdown_table([["enough for", f"{member_noun(report)}s", "interval", f"{there} there"], *cells])


def label_rows(report: ReportContent, most: int) -> list[LabelRow]:
    """Return the rows of all labels in their order; of more than `most` labels, of those with the largest errors."""
    found = _listed_labels(report, most)
    names = short_names([errors.label for errors in found], LONGEST_LABEL)
    return [_label_row(name, errors, report.recommended_size) for name, errors in zip(names, found, strict=True)]


def short_names(names: Sequence[str], limit: int) -> list[str]:
    """Return names of at most `limit` characters: their beginnings, or both ends where beginnings would be the same."""
    whole = [printable(name) for name in names]
    begun = [printable(name, limit) for name in whole]
    if len(set(begun)) == len(set(whole)):
        return begun
    end = (limit - 1) // 2
    return [name if len(name) <= limit else f"{name[: limit - 1 - end]}…{name[-end:]}" for name in whole]


def _listed_labels(report: ReportContent, most: int) -> Sequence[LabelErrors]:
    found = report.label_errors
    if len(found) <= most:
        return found
    known = [errors for errors in found if errors.n_rows]
    return sorted(known, key=lambda errors: -errors.error)[:most]


def _label_row(name: str, errors: LabelErrors, size: int | None) -> LabelRow:
    low, high = errors.interval
    return LabelRow(
        label=name,
        rows=str(errors.n_rows),
        right=error_text(1.0 - errors.error, ZERO_ONE),
        interval=interval_text((1.0 - high, 1.0 - low), ZERO_ONE),
        recommended="" if size is None else _or_dash(error_text(1.0 - errors.recommended_error, ZERO_ONE)),
        predicted=tuple(map(str, errors.predicted)),
    )


def _or_dash(text: str) -> str:
    return "-" if text == NOT_KNOWN else text


def label_notes(report: ReportContent, most: int) -> list[str]:
    """Return sentences on the labels that :func:`label_rows` leaves out, and on those of few rows; empty if none."""
    return [note for note in (_hidden_labels(report, most), _few_rows_note(report, most)) if note]


def _hidden_labels(report: ReportContent, most: int) -> str:
    more = len(report.label_errors) - most
    if more <= 0:
        return ""
    labels = counted(more, "more label has a smaller error", "more labels have smaller errors")
    return f"{labels} or no rows (all: report.label_errors)."


def _few_rows_note(report: ReportContent, most: int) -> str:
    """Return what the errors of labels are that have too few rows for an error at another size."""
    few = [found for found in _listed_labels(report, most) if found.n_rows and math.isnan(found.asymptote)]
    if not few:
        return ""
    names = ", ".join(printable(found.label, LONGEST_LABEL) for found in few[:SHOWN_ROWS])
    more = f" and {len(few) - SHOWN_ROWS} more" if len(few) > SHOWN_ROWS else ""
    noun = member_noun(report)
    members = (
        f"the {report.mean_oob_members:.3g} out-of-bag {noun}s of a row, not all {report.n_members}, are wrong together"
        if report.data == "oob"
        else f"all {number_text(report, report.n_members)} are wrong together"
    )
    rows = f"fewer than {FEWEST_ROWS} independent rows of equal weight"
    note = f"Rough for {names}{more}, with {rows}: the error is about the share of rows on which {members}."
    if report.recommended_size is None:
        return note
    return f"{note} That is too few for the error at another size, which is shown as a dash."


def predictors(report: ReportContent) -> str:
    """Return which members predict the rows of the confusion matrix, in words."""
    noun = member_noun(report)
    return f"their out-of-bag {noun}s" if report.data == "oob" else f"all {noun}s"


def label_lines(report: ReportContent, most: int) -> list[str]:
    """Return the accuracy by label as lines of text; none where the report has none."""
    rows = label_rows(report, most)
    if not rows:
        return []
    level = level_text(report.error_curve.interval_level)
    size = report.recommended_size
    here = number_text(report, report.n_members)
    head = LabelRow("", "rows", here, f"{level} interval", f"with {size}" if size else "", ())
    notes = [line for note in label_notes(report, most) for line in wrapped(note, indent="  ")]
    return ["Right by label:", *map(_line, [head, *rows]), *notes]


def _line(row: LabelRow) -> str:
    cells = f"{row.rows:>8}{row.right:>16}{row.interval:>22}{row.recommended:>14}"
    return f"  {row.label:<{LONGEST_LABEL}}{cells}".rstrip()


def label_markdown(report: ReportContent, most: int) -> list[str]:
    """Return the accuracy by label as a table of Markdown; no lines where the report has none."""
    rows = label_rows(report, most)
    if not rows:
        return []
    cells = [[escaped_markdown(row.label, 40), row.rows, row.right, row.interval, row.recommended] for row in rows]
    size = report.recommended_size
    names = ["label", "rows", "right", "interval", *([f"right with {size}"] if size else [])]
    table = markdown_table([names, *(row[: len(names)] for row in cells)])
    notes = (_hidden_labels(report, most), escaped_markdown(_few_rows_note(report, most), LONGEST_NOTE))
    return [*table, *(line for note in notes if note for line in (note, ""))]


def confusion_lines(report: ReportContent, most: int) -> list[str]:
    """Return the confusion matrix as lines of text; none with more than `most` labels or where it is too wide."""
    rows = label_rows(report, most)
    if not rows or len(report.label_errors) > most:
        return []
    width = 2 + max(len(text) for row in rows for text in (row.label, *row.predicted))
    if 2 + LONGEST_LABEL + width * len(rows) > WIDTH:
        return []
    lines = [("", [row.label for row in rows]), *((row.label, list(row.predicted)) for row in rows)]
    return [
        f"Rows by label (down) and by the label of {predictors(report)} (across):",
        *(f"  {label:<{LONGEST_LABEL}}{''.join(f'{text:>{width}}' for text in cells)}" for label, cells in lines),
    ]


class OutputRow(NamedTuple):
    """One output, as text.

    Attributes
    ----------
    name : str
    value, limit : str
        The everyday measure at the current size, and of the infinite ensemble.
    size, interval : str
        Recommended size of this output alone, and its interval.
    """

    name: str
    value: str
    limit: str
    size: str
    interval: str


def output_sentence(report: ReportContent) -> str:
    """Return a sentence that the figures are those of the worst output; empty for a model of one output."""
    if not report.outputs:
        return ""
    name = printable(worst_output(report.outputs), OUTPUT_WIDTH)
    return f"Figures are of the worst of {len(report.outputs)} outputs, {name!r}, where no other is named."


def output_rows(report: ReportContent) -> list[OutputRow]:
    """Return a row of text for each output, at most 30; none for a model of one output."""
    shown = list(report.outputs.items())[:MOST_OUTPUTS]
    names = short_names([name for name, _ in shown], OUTPUT_WIDTH)
    return [
        OutputRow(
            name=name,
            value=measure_text(found, found.error),
            limit=measure_text(found, found.error_curve.asymptote),
            size=recommended_text(found.recommendation),
            interval=recommended_interval_text(found.recommendation),
        )
        for name, (_, found) in zip(names, shown, strict=True)
    ]


def output_lines(report: ReportContent, most: int = MOST_OUTPUTS) -> list[str]:
    """Return the table of the first outputs for a terminal; no lines for a model of one output."""
    if not report.outputs:
        return []
    head = f"  {'':<{OUTPUT_WIDTH}}{measure_name(report)[:11]:>12}{'at infinity':>14}{'members':>22}"
    lines = [
        f"  {row.name:<{OUTPUT_WIDTH}}{row.value:>12}{row.limit:>14}{row.size:>22}"
        for row in output_rows(report)[:most]
    ]
    return ["", "By output:", head, *lines, *_others(report, most)]


def output_markdown(report: ReportContent) -> list[str]:
    """Return the table in Markdown; no lines for a model of one output."""
    if not report.outputs:
        return []
    rows = [row._replace(name=escaped_markdown(row.name, OUTPUT_WIDTH)) for row in output_rows(report)]
    head = ("output", escaped_markdown(measure_name(report), 24), "at infinity", "members", "interval")
    return [*markdown_table([head, *rows]), *_others(report, MOST_OUTPUTS)]


def _others(report: ReportContent, most: int) -> list[str]:
    n_more = len(report.outputs) - most
    return [f"  {n_more} more are in the attribute outputs."] if n_more > 0 else []


def wrapped(text: str, indent: str = "", later: str = "") -> list[str]:
    """Return a text as lines of at most 80 characters that keep each number with its percent sign.

    Lines begin with `indent`, all but the first with `later` after it.
    """
    held = text.replace(" %", "\xa0%")
    lines = textwrap.wrap(held, WIDTH, initial_indent=indent, subsequent_indent=indent + later)
    return [line.replace("\xa0", " ") for line in lines]


def escaped_markdown(text: str, limit: int) -> str:
    """Return a text of unknown origin, shortened to `limit` characters, as a line of Markdown without active markup."""
    # Entities are never markup, neither in CommonMark nor in the older dialect of MLflow's page.
    return _MARKDOWN_SYNTAX.sub(lambda sign: f"&#{ord(sign.group())};", printable(text, limit))


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, the first row its head, and an empty line."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return [head, "|" + "---|" * len(rows[0]), *others, ""]


def first_rows(kind: str, table: pd.DataFrame) -> str:
    """Return the first rows of a table as text of at most 80 columns, below their number."""
    shown = "" if len(table) <= SHOWN_ROWS else f", of which these are the first {SHOWN_ROWS}"
    return f"{kind} of {counted(len(table), 'row')}{shown}:\n{table.head(SHOWN_ROWS).to_string(line_width=80)}"


MOST_LABELS = 10  # of a table by label


def member_noun(report: ReportContent) -> str:
    """Return what one member of the analysed ensemble is called, as :func:`noun_of` does."""
    return noun_of(report.model)


def noun_of(model: str) -> str:
    """Return what one member is called: "tree" of a forest, "sample" of answers, "model" of bags, else "member"."""
    if _SAMPLES.search(model):
        return "sample"
    if _TREES.search(model):
        return "tree"
    return "model" if _MODELS.search(model) else "member"


def common_noun(nouns: Iterable[str]) -> str:
    """Return what a member of several ensembles is called: the noun of all, or "member" where they differ."""
    different = set(nouns)
    return different.pop() if len(different) == 1 else "member"


def number_text(report: ReportContent, number: int) -> str:
    """Return a number of members in words, as "300 trees"."""
    return counted(number, member_noun(report))


def in_nouns(sentence: str, report: ReportContent) -> str:
    """Return a sentence about members with what one of this ensemble is called, such as "trees", in their place."""
    noun = member_noun(report)
    return re.sub(r"\b([Mm])ember", lambda found: noun.title() if found[1] == "M" else noun, sentence)


def reason_sentence(report: ReportContent) -> str:
    """Return the explanation of the recommended size."""
    return in_nouns(printable(report.recommendation.reason), report)


def with_code(found: Finding, limit: int | None = None) -> str:
    """Return the sentence of a finding, shortened to `limit`, with its code, by which it can be looked up."""
    return f"{printable(found.sentence, limit)} [{printable(found.code, 40)}]"


def variance_sentence(report: ReportContent) -> str:
    """Return what the variance of one member is, in a sentence or two."""
    parts = report.bias_variance
    variance = error_text(parts.member_variance, parts.loss)
    if parts.loss not in SHARES:
        return f"The variance of one {member_noun(report)} around the infinite ensemble is {variance}."
    return (
        f"One {member_noun(report)} predicts another label than the infinite ensemble for {variance} of the rows (its "
        "variance). Some of these labels are right, so averaging removes less than that."
    )


def detail(report: ReportContent) -> str:
    """Return what a summary leaves out: findings in full, the size in every respect, labels, and how all is known."""
    sentences = [
        *(f"{'Doubt' if each.kind == 'doubt' else 'Note'}: {with_code(each)}" for each in report.findings),
        reason_sentence(report),
        output_sentence(report),
        *spread_sentences(report),
    ]
    return "\n".join(
        [
            *(line for sentence in sentences if sentence for line in wrapped(sentence)),
            *size_lines(report),
            *output_lines(report),
            *_label_lines(report),
            "",
            *(line for sentence in origin_sentences(report) for line in wrapped(sentence)),
        ]
    )


def error_lines(report: ReportContent) -> list[tuple[str, str, str]]:
    """Return label, value and interval at the sizes of the summary: one, the current, the recommended, and infinity.

    The values are those of the everyday measure: the accuracy, the root of the mean squared error, or the metric.
    """
    curve, now, recommended = report.error_curve, report.n_members, report.recommendation.size
    sizes: list[tuple[str, float]] = []
    if curve.sizes[0] == 1 and now > 1:
        sizes.append((f"one {member_noun(report)}", 1))
    if curve.reaches(now):
        sizes.append((f"{number_text(report, now)} (this model)", now))
    elif now < curve.sizes[0]:
        first = int(curve.sizes[0])
        sizes.append((f"{number_text(report, first)} (here the curve begins)", first))
    if report.is_actionable and recommended not in (None, 1, now) and curve.reaches(recommended):
        sizes.append((f"{number_text(report, recommended)} (recommended)", recommended))
        sizes.sort(key=lambda line: line[1])
    lines = [(label, *_measured(report, curve.at(size), curve.interval_at(size))) for label, size in sizes]
    limit = f"infinitely many {member_noun(report)}s"
    return [*lines, (limit, *_measured(report, curve.asymptote, curve.asymptote_interval))]


def measure_name(report: ReportContent) -> str:
    """Return the name of the everyday measure of a report's error: accuracy, RMSE, or the metric itself."""
    return measure_name_of(report.error_curve.metric)


def measure_name_of(metric: str) -> str:
    """Return the name of the everyday measure of an error or a metric."""
    if metric in SHARES:
        return "accuracy"
    return "RMSE" if metric == SQUARED else printable(metric, 40)


def measure_of(metric: str, error: float) -> float:
    """Return the everyday measure of an error: 1 less a share, the root of a squared error, or a metric as it is."""
    if metric in SHARES:
        return 1.0 - max(error, 0.0)
    return math.sqrt(max(error, 0.0)) if metric == SQUARED else error


def measured_text(metric: str, value: float) -> str:
    """Return a value of the everyday measure as text: a share in percent, others with three significant digits."""
    if math.isnan(value):
        return NOT_KNOWN
    return f"{_percent(value)} %" if metric in SHARES else _three_digits(value)


def measure_text(report: ReportContent, error: float) -> str:
    """Return an error in the everyday measure of a report as text."""
    metric = report.error_curve.metric
    return NOT_KNOWN if math.isnan(error) else measured_text(metric, measure_of(metric, error))


def measure_interval_text(report: ReportContent, interval: tuple[float, float]) -> str:
    """Return an interval of an error in the everyday measure, without a unit."""
    return interval_in_measure(report.error_curve.metric, interval)


def interval_in_measure(metric: str, interval: tuple[float, float]) -> str:
    """Return the ends of an interval of an error in the everyday measure, the lower one first, without a unit."""
    if any(map(math.isnan, interval)):
        return NOT_KNOWN
    low, high = sorted(measure_of(metric, end) for end in interval)
    return (
        f"{_percent(low)} to {_percent(high)}" if metric in SHARES else f"{_three_digits(low)} to {_three_digits(high)}"
    )


def _measured(report: ReportContent, error: float, interval: tuple[float, float]) -> tuple[str, str]:
    """Return an error and its interval as text, in the everyday measure; no interval where no error is known."""
    if math.isnan(error):
        return NOT_KNOWN, ""
    return measure_text(report, error), measure_interval_text(report, interval)


def gain_texts(report: ReportContent, here: float, there: float) -> tuple[str, str]:
    """Return the everyday measure at two sizes; one text twice where the values differ by less than half a digit.

    Values next to a limit of rounding would differ by a whole digit.
    """
    curve = report.error_curve
    errors = [curve.asymptote if math.isinf(size) else curve.at(size) for size in (here, there)]
    first, second = (measure_text(report, error) for error in errors)
    if any(map(math.isnan, errors)):
        return first, second
    values = [measure_of(curve.metric, error) for error in errors]
    if curve.metric in SHARES:
        unit = 10.0 ** -(2 + _percent_digits(values[0]))
    else:
        largest = max(map(abs, values))
        unit = 10.0 ** (math.floor(math.log10(largest)) - 2) if 0.0 < largest < math.inf else 0.0
    return (first, second) if abs(values[0] - values[1]) >= unit / 2.0 else (first, first)


def _percent(share: float) -> str:
    # Rounded first and 0 added, because a share of -1e-9 would be -0.0 otherwise.
    digits = _percent_digits(share)
    return f"{round(100.0 * share, digits) + 0.0:.{digits}f}"


def _percent_digits(share: float) -> int:
    """Return how many digits a share in percent has after the point: one more close to 0 and 100 %."""
    return 2 if 0.0 < min(share, 1.0 - share) < 0.005 else 1


def _three_digits(value: float) -> str:
    return f"{value:#.3g}".removesuffix(".") if value else "0"


def points_text(value: float, metric: str) -> str:
    """Return a difference as text: in percentage points of a share, else four significant digits."""
    return f"{_number(value, metric)} points" if metric in SHARES else _number(value, metric)


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, its first column flush left and the others flush right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in table]


def comparison_heads(reports: Mapping[str, ReportContent]) -> list[str]:
    """Return the heads of the columns of :func:`comparison_rows`."""
    first, noun = next(iter(reports.values())), common_noun(map(member_noun, reports.values()))
    interval = f"{level_text(first.error_curve.interval_level)} interval"
    return ["", f"{noun}s", measure_name(first), interval, "limit", "needed", "rows"]


def comparison_rows(reports: Mapping[str, ReportContent]) -> list[list[str]]:
    """Return a line for each of several reports: name, size, everyday measure, the size that is enough, and rows."""
    names = short_names(list(reports), 18)
    return [_comparison_row(name, report) for name, report in zip(names, reports.values(), strict=True)]


def _comparison_row(name: str, report: ReportContent) -> list[str]:
    curve = report.error_curve
    here, interval = _measured(report, report.error, report.error_interval)
    limit, _ = _measured(report, curve.asymptote, curve.asymptote_interval)
    size = recommended_text(report.recommendation)
    guess = "" if report.is_actionable else "?"
    return [name, str(report.n_members), here, interval, limit, f"{size}{guess}", str(report.n_rows)]


def size_lines(report: ReportContent) -> list[str]:
    """Return a small table of how many members each respect takes."""
    level = level_text(report.error_curve.interval_level)
    return [
        "",
        table_row("Enough for", f"{member_noun(report)}s", f"{level} interval"),
        *(table_row(row.name, row.size, row.interval) for row in criteria_rows(report)),
    ]


def _purpose(found: SizeRecommendation, report: ReportContent) -> str:
    """Return the name of a respect, at most 37 characters long."""
    if found.criterion == "agreement":
        return f"{level_text(1.0 - found.tolerance)} of labels as at infinity"
    if found.of_metric is not None:
        return f"{printable(found.of_metric, 16)} within {_two_digits(found.tolerance)}"
    if found.criterion == "probability":
        return "probabilities (Brier score)"
    return "RMSE" if report.task == "regression" else f"accuracy within {100.0 * found.tolerance:.2g} points"


def _label_lines(report: ReportContent) -> list[str]:
    """Return errors by label and the confusion matrix, each after an empty line; none where the report has none."""
    tables = (label_lines(report, MOST_LABELS), confusion_lines(report, MOST_LABELS))
    return [line for table in tables if table for line in ("", *table)]


def spread_sentences(report: ReportContent) -> list[str]:
    """Return sentences on agreement, the spread over seeds, bias and variance."""
    members, agreement = number_text(report, report.n_members), report.recommendation.agreement
    sentences = []
    if agreement is not None:
        sentences.append(
            f"Agreement of {members} with the infinite ensemble: "
            f"the same label on {100 * agreement:.2f} % of rows on average."
        )
    if not math.isnan(report.algorithmic_sd):
        on_fresh = report.data == "oob"
        spread = spread_text(report.algorithmic_sd, report.error_curve.metric)
        bound = "about " if on_fresh else ""
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
            f"Bias {error_text(parts.bias, parts.loss)} and variance of one {member_noun(report)} "
            f"{error_text(parts.member_variance, parts.loss)} ({of_loss}) are over seeds, given this "
            "training set, not over training sets (for those: ens_plugin.training_variance)."
        )
    return sentences


def facts(report: ReportContent) -> list[tuple[str, str]]:
    """Return how the figures are known, as names with texts: the rows, the bags, the prediction and the curve."""
    curve, basis, is_oob, noun = report.error_curve, report.basis, report.data == "oob", member_noun(report)
    metric, own = printable(curve.metric, 40), curve.metric_basis
    judges = f"{report.mean_oob_members:.1f} on average, none of them trained on it"
    check = "" if curve.check is None else spread_text(curve.check, curve.metric)
    found = {
        "Rows used": f"{report.n_rows} ({'out-of-bag' if is_oob else 'held-out'})"
        + (", taken as independent" if basis.n_groups is None else ""),
        "Rows left out": f"{report.rows_without_oob} (too few {noun}s out of bag)" if report.rows_without_oob else "",
        "Rows without labels": "" if basis.n_unlabelled is None else f"{basis.n_unlabelled}, for agreement",
        "Groups": group_words(basis.n_groups, report.n_rows),
        "Rows of the metric": "" if own is None else f"{own.n_rows}, for {metric}{label_words(own)}",
        "Finite log loss": _finite_words(own),
        f"{noun.title()}s per row": judges if is_oob else f"all {report.n_members}",
        "In-bag rows": in_nouns(_BAGS.get(report.bags, printable(report.bags, 60)), report),
        "Prediction": in_nouns(_AGGREGATIONS.get(report.aggregation, printable(report.aggregation, 60)), report),
        "Error curve": in_nouns(_estimator_words(report), report),
        "Check of the curve": check and f"differs by at most {check} from the average over subsets of the {noun}s",
    }
    return [(name, text) for name, text in found.items() if text]


def origin_sentences(report: ReportContent) -> list[str]:
    """Return the facts on how the figures are known as sentences."""
    return [f"{name}: {text}." for name, text in facts(report)]


def table_row(label: str, error: str, interval: str) -> str:
    """Return a line of a table with three columns, at most 80 columns wide."""
    return f"  {label:<37}{error:>15}  {interval:>24}".rstrip()
