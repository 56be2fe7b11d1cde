"""Sentences and numbers of a report, its tables, and its summaries as plain text and as Markdown."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.core.validation import counted, plural
from ens_plugin.core.validation import printable as printable
from ens_plugin.findings import Finding
from ens_plugin.report.result import (
    FEWEST_ROWS,
    SHARES,
    SQUARED,
    ZERO_ONE,
    Criterion,
    LabelErrors,
    MetricBasis,
    ReportContent,
    SizeRecommendation,
    measure_of,
    worst_output,
)

if TYPE_CHECKING:
    import pandas as pd

NOT_KNOWN = "not estimated"


class _Respect(NamedTuple):
    """What a recommended size has to be enough for, as templates of words."""

    enough: str
    axis: str
    row: str  # of a table, at most 35 characters


_CRITERIA: dict[Criterion, _Respect] = {
    "agreement": _Respect(
        "at most {percent} % of other labels than infinitely many",
        "Labels as with infinitely many (%)",
        "{level} of labels as at infinity",
    ),
    "overlap": _Respect(
        "at most {percent} % of others than with another seed",
        "Same with another seed (%)",
        "{level} with another seed",
    ),
    "error": _Respect(
        "an error within {allowed} of that of infinitely many", "{metric}", "accuracy within {points} points"
    ),
    "probability": _Respect(
        "a Brier score within {allowed} of that of infinitely many",
        "Brier score of the probabilities",
        "probabilities (Brier score)",
    ),
    "metric": _Respect(
        "the metric within {allowed} of that of infinitely many", "{metric}", "{short} within {allowed}"
    ),
}

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
_TREES = re.compile(r"Forest|Trees?(?!bagg)|XGB|LGBM|Booster", re.IGNORECASE)
_MODELS = re.compile(r"Bagging|Ensemble", re.IGNORECASE)
WIDTH = 80
SHOWN_ROWS = 5
MOST_LABELS = 10  # of a table by label
_MARKDOWN_SYNTAX = re.compile(r"[\\`*_{}\[\]<>#|~$&@!]")
_CODE = re.compile(r"\[[a-z]+(-[a-z]+)+\]")  # of a finding, which is looked up whole
LONGEST_LABEL = 16
MOST_OUTPUTS = 30
# Of tables of three columns, so that those below each other are one to the eye.
THREE_WIDTHS = (35, 15, 24)
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
    return _filled(_CRITERIA[recommendation.criterion].enough, recommendation)


def quantity_label(recommendation: SizeRecommendation) -> str:
    """Return the label of an axis of the quantity of a respect."""
    return _filled(_CRITERIA[recommendation.criterion].axis, recommendation)


def _filled(template: str, found: SizeRecommendation) -> str:
    metric, allowed = found.of_metric or "Error", found.tolerance
    return template.format(
        metric=printable(metric, 30),
        short=printable(metric, 16),
        allowed=_two_digits(allowed),
        percent=_two_digits(100.0 * allowed),
        level=level_text(1.0 - allowed),
        points=f"{100.0 * allowed:.2g}",
    )


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


class Table(NamedTuple):
    """A table of a report, which each surface renders in its own way."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()
    chosen: int | None = None  # the row of the recommended size

    def lines(self) -> list[str]:
        """Return the table for a terminal; columns without room are left out, from the last one on."""
        if not self.rows:
            return []
        first, *others = self.heads
        table = [[first[:1].upper() + first[1:], *others], *self.rows]
        n_columns = next(n for n in range(len(self.heads), 0, -1) if n == 1 or _width(table, n) <= WIDTH - 2)
        least = THREE_WIDTHS if n_columns == 3 and _width(table, 3, THREE_WIDTHS) <= WIDTH - 2 else ()
        body = aligned([row[:n_columns] for row in table], least)
        notes = [line for note in self.notes for line in wrapped(note, indent="  ")]
        return [*filter(None, [self.title]), *(f"  {line}" for line in body), *notes]

    def markdown(self) -> list[str]:
        """Return the lines of the table in Markdown, with everything in it escaped, and an empty line at the end."""
        if not self.rows:
            return []
        cells = [[escaped_markdown(cell, 40) for cell in row] for row in (self.heads, *self.rows)]
        notes = [line for note in self.notes for line in (escaped_markdown(note, 400), "")]
        return [*markdown_table(cells), *notes]


def _widths(table: Sequence[Sequence[str]], least: Sequence[int] = ()) -> list[int]:
    longest = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [max(pair) for pair in zip_longest(longest, least, fillvalue=0)]


def _width(table: Sequence[Sequence[str]], n_columns: int, least: Sequence[int] = ()) -> int:
    return sum(_widths([row[:n_columns] for row in table], least)) + 2 * (n_columns - 1)


def aligned(table: Sequence[Sequence[str]], least: Sequence[int] = ()) -> list[str]:
    """Return the lines of a table, its first column flush left and the others flush right."""
    widths = _widths(table, least)
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in table]


def markdown_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown, the first row its head, and an empty line."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return [head, "|" + "---|" * len(rows[0]), *others, ""]


def criteria_table(report: ReportContent) -> Table:
    """Return the size in every respect, and what the everyday measure is there."""
    curve, criteria = report.error_curve, report.criteria or (report.recommendation,)
    rows = [
        (
            "RMSE"
            if report.task == "regression" and found.criterion == "error"
            else _filled(_CRITERIA[found.criterion].row, found),
            recommended_text(found),
            recommended_interval_text(found),
            measure_text(report, curve.at(found.size)) if found.size and curve.reaches(found.size) else "",
        )
        for found in criteria
    ]
    heads = ("enough for", plural(member_noun(report)), _interval_head(report), f"{measure_name(report)} there")
    chosen = [found.criterion for found in criteria].index(report.recommendation.criterion)
    return Table(heads, rows, chosen=chosen)


def _interval_head(report: ReportContent) -> str:
    return f"{level_text(report.error_curve.interval_level)} interval"


def label_table(report: ReportContent, most: int) -> Table:
    """Return the rows of all labels that are predicted right; of more than `most`, of those with the largest errors."""
    found, size = _listed_labels(report, most), report.recommended_size
    names = short_names([errors.label for errors in found], LONGEST_LABEL)
    heads = ["label", "rows", "right", _interval_head(report), *([f"right with {size}"] if size else [])]
    rows = [_label_row(name, errors)[: len(heads)] for name, errors in zip(names, found, strict=True)]
    notes = [note for note in (_hidden_labels(report, most), _few_rows_note(report, most)) if note]
    return Table(heads, rows, "Right by label:", notes)


def _label_row(name: str, errors: LabelErrors) -> list[str]:
    low, high = errors.interval
    there = error_text(1.0 - errors.recommended_error, ZERO_ONE)
    return [
        name,
        str(errors.n_rows),
        error_text(1.0 - errors.error, ZERO_ONE),
        interval_text((1.0 - high, 1.0 - low), ZERO_ONE),
        "-" if there == NOT_KNOWN else there,
    ]


def _listed_labels(report: ReportContent, most: int) -> Sequence[LabelErrors]:
    found = report.label_errors
    if len(found) <= most:
        return found
    known = [errors for errors in found if errors.n_rows]
    return sorted(known, key=lambda errors: -errors.error)[:most]


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
    nouns = plural(member_noun(report))
    members = (
        f"the {report.mean_oob_members:.3g} out-of-bag {nouns} of a row, not all {report.n_members}, are wrong together"
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
    nouns = plural(member_noun(report))
    return f"their out-of-bag {nouns}" if report.data == "oob" else f"all {nouns}"


def short_names(names: Sequence[str], limit: int) -> list[str]:
    """Return names of at most `limit` characters: their beginnings, or both ends where beginnings would be the same."""
    whole = [printable(name) for name in names]
    begun = [printable(name, limit) for name in whole]
    if len(set(begun)) == len(set(whole)):
        return begun
    end = (limit - 1) // 2
    return [name if len(name) <= limit else f"{name[: limit - 1 - end]}…{name[-end:]}" for name in whole]


def confusion_rows(report: ReportContent, most: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return the rows of the confusion matrix by the name of their label; none with more than `most` labels."""
    found = report.label_errors
    if len(found) > most:
        return []
    names = short_names([errors.label for errors in found], LONGEST_LABEL)
    return [(name, errors.predicted) for name, errors in zip(names, found, strict=True)]


def confusion_lines(report: ReportContent, most: int) -> list[str]:
    """Return the confusion matrix as lines of text; none with more than `most` labels or where it is too wide."""
    rows = confusion_rows(report, most)
    table = [["", *(name for name, _ in rows)], *([name, *map(str, counts)] for name, counts in rows)]
    if not rows or _width(table, len(table[0])) > WIDTH - 2:
        return []
    head = f"Rows by label (down) and by the label of {predictors(report)} (across):"
    return [head, *(f"  {line}" for line in aligned(table))]


def output_sentence(report: ReportContent) -> str:
    """Return a sentence that the figures are those of the worst output; empty for a model of one output."""
    if not report.outputs:
        return ""
    name = printable(worst_output(report.outputs), 28)
    return f"Figures are of the worst of {len(report.outputs)} outputs, {name!r}, where no other is named."


def output_table(report: ReportContent, most: int = MOST_OUTPUTS) -> Table:
    """Return a row for each of the first outputs, with the size that it alone needs; none for a model of one output."""
    shown = list(report.outputs.items())[:most]
    names = short_names([name for name, _ in shown], 28)
    rows = [
        (
            name,
            measure_text(found, found.error),
            measure_text(found, found.error_curve.asymptote),
            recommended_text(found.recommendation),
            recommended_interval_text(found.recommendation),
        )
        for name, (_, found) in zip(names, shown, strict=True)
    ]
    n_more = len(report.outputs) - most
    heads = ("output", measure_name(report), "at infinity", plural(member_noun(report)), _interval_head(report))
    return Table(heads, rows, "By output:", [f"{n_more} more are in the attribute outputs."] if n_more > 0 else ())


def wrapped(text: str, indent: str = "", later: str = "") -> list[str]:
    """Return a text as lines of at most 80 characters, after `indent`, and all but the first after `later` too."""
    held = _CODE.sub(lambda found: found[0].replace("-", "\u2011"), text.replace(" %", "\xa0%"))
    lines = textwrap.wrap(held, WIDTH, initial_indent=indent, subsequent_indent=indent + later)
    return [line.replace("\xa0", " ").replace("\u2011", "-") for line in lines]


def escaped_markdown(text: str, limit: int) -> str:
    """Return a text of unknown origin, shortened to `limit` characters, as a line of Markdown without active markup."""
    # Entities are never markup, neither in CommonMark nor in the older dialect of MLflow's page.
    return _MARKDOWN_SYNTAX.sub(lambda sign: f"&#{ord(sign.group())};", printable(text, limit))


def first_rows(kind: str, table: pd.DataFrame) -> str:
    """Return the first rows of a table as text of at most 80 columns, below their number."""
    shown = "" if len(table) <= SHOWN_ROWS else f", of which these are the first {SHOWN_ROWS}"
    return f"{kind} of {counted(len(table), 'row')}{shown}:\n{table.head(SHOWN_ROWS).to_string(line_width=80)}"


def member_noun(report: ReportContent) -> str:
    """Return what one member of the analysed ensemble is called, as :func:`noun_of` does."""
    return noun_of(report.model, report.findings)


def noun_of(model: str, findings: Iterable[Finding]) -> str:
    """Return what one member is called: a group that is found, "tree" of a forest, "model" of bags, else "member"."""
    for each in findings:
        if each.code == "grouped-trees":
            return f"group of {each.numbers['n_trees']:.0f} trees"
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

    def named(found: re.Match[str]) -> str:
        own = plural(noun) if found[2] else noun
        return own.capitalize() if found[1] == "M" else own

    return re.sub(r"\b([Mm])ember(s?)\b", named, sentence)


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
    tables = (
        criteria_table(report).lines(),
        output_table(report).lines(),
        label_table(report, MOST_LABELS).lines(),
        confusion_lines(report, MOST_LABELS),
    )
    sentences = [
        *(f"{'Doubt' if each.kind == 'doubt' else 'Note'}: {with_code(each)}" for each in report.findings),
        reason_sentence(report),
        output_sentence(report),
        *spread_sentences(report),
    ]
    return "\n".join(
        [
            *(line for sentence in sentences if sentence for line in wrapped(sentence)),
            *(line for table in tables if table for line in ("", *table)),
            "",
            *(line for sentence in origin_sentences(report) for line in wrapped(sentence)),
        ]
    )


def size_table(report: ReportContent) -> Table:
    """Return the everyday measure at the sizes of the summary: one, the current, the recommended, and infinity."""
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
    rows = [(label, *_measured(report, curve.at(size), curve.interval_at(size))) for label, size in sizes]
    nouns = plural(member_noun(report))
    limit = f"infinitely many {nouns}", *_measured(report, curve.asymptote, curve.asymptote_interval)
    return Table(("on new rows", measure_name(report), _interval_head(report)), [*rows, limit])


def measure_name(report: ReportContent) -> str:
    """Return the name of the everyday measure of a report's error: accuracy, RMSE, or the metric itself."""
    return measure_name_of(report.error_curve.metric)


def measure_name_of(metric: str) -> str:
    """Return the name of the everyday measure of an error or a metric."""
    if metric in SHARES:
        return "accuracy"
    return "RMSE" if metric == SQUARED else printable(metric, 40)


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
    """Return the everyday measure at two sizes; one text twice where the values differ by less than half a digit."""
    # Values next to a limit of rounding would differ by a whole digit.
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


def comparison_table(reports: Mapping[str, ReportContent]) -> Table:
    """Return several reports side by side: size, everyday measure, the size that is enough, and rows."""
    first, noun = next(iter(reports.values())), common_noun(map(member_noun, reports.values()))
    names = short_names(list(reports), 18)
    rows = []
    for name, report in zip(names, reports.values(), strict=True):
        here, interval = _measured(report, report.error, report.error_interval)
        limit, _ = _measured(report, report.error_curve.asymptote, report.error_curve.asymptote_interval)
        size = recommended_text(report.recommendation) + ("" if report.is_actionable else "?")
        rows.append((name, str(report.n_members), here, interval, limit, size, str(report.n_rows)))
    heads = ("", plural(noun), measure_name(first), _interval_head(first), "limit", "needed", "rows")
    return Table(heads, rows)


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
    curve, basis, is_oob, nouns = report.error_curve, report.basis, report.data == "oob", plural(member_noun(report))
    metric, own = printable(curve.metric, 40), curve.metric_basis
    judges = f"{report.mean_oob_members:.1f} on average, none of them trained on it"
    check = "" if curve.check is None else spread_text(curve.check, curve.metric)
    found = {
        "Rows used": f"{report.n_rows} ({'out-of-bag' if is_oob else 'held-out'})"
        + (", taken as independent" if basis.n_groups is None else ""),
        "Rows left out": f"{report.rows_without_oob} (too few {nouns} out of bag)" if report.rows_without_oob else "",
        "Rows without labels": "" if basis.n_unlabelled is None else f"{basis.n_unlabelled}, for agreement",
        "Groups": group_words(basis.n_groups, report.n_rows),
        "Rows of the metric": "" if own is None else f"{own.n_rows}, for {metric}{label_words(own)}",
        "Finite log loss": _finite_words(own),
        f"{nouns.capitalize()} per row": judges if is_oob else f"all {report.n_members}",
        "In-bag rows": in_nouns(_BAGS.get(report.bags, printable(report.bags, 60)), report),
        "Prediction": in_nouns(_AGGREGATIONS.get(report.aggregation, printable(report.aggregation, 60)), report),
        "Error curve": in_nouns(_estimator_words(report), report),
        "Check of the curve": check and f"differs by at most {check} from the average over subsets of the {nouns}",
    }
    return [(name, text) for name, text in found.items() if text]


def origin_sentences(report: ReportContent) -> list[str]:
    """Return the facts on how the figures are known as sentences."""
    return [f"{name}: {text}." for name, text in facts(report)]
