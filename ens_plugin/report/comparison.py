"""Several reports side by side: one chart of their error curves, and one table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ens_plugin.core.comparison import FEWEST_PAIRS, Difference, paired_difference, separate_difference
from ens_plugin.core.judged_rows import judged_by_both
from ens_plugin.core.validation import counted, printable
from ens_plugin.errors import InputError, ends_at_caller
from ens_plugin.report.answers import DOUBTED
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.html import comparison_card
from ens_plugin.report.plots import plot_reports
from ens_plugin.report.result import SHARES, ErrorCurve
from ens_plugin.report.text import (
    aligned,
    comparison_table,
    criterion_words,
    level_text,
    members_text,
    points_text,
    with_code,
    wrapped,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ReportDifference:
    """By how much one report's metric is above that of the first report, at the ensembles' own sizes.

    Attributes
    ----------
    estimate : float
        Difference in the unit of the metric, a share for the 0-1 error.  Above 0 is worse for an error, and better for
        a score of scikit-learn.
    lower, upper : float
        Interval of the difference, at the level of the reports' intervals, over samples of the rows and seeds of both
        ensembles; of the whole ensembles, whose members each row is not out of bag for included.
    n_rows : int or None
        Rows on which both were compared, row by row; None where the interval is from the two reports' intervals alone,
        which is wider than it would have to be.
    reason : str
        Why the rows were not compared one by one; empty where they were.
    """

    estimate: float
    lower: float
    upper: float
    n_rows: int | None
    reason: str = ""

    @property
    def is_clear(self) -> bool:
        """Whether 0 lies outside of the interval."""
        return not self.lower <= 0.0 <= self.upper


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Reports of one metric side by side, from :func:`ens_plugin.compare`.

    Attributes
    ----------
    reports : dict of str to EnsembleReport
        By name, in the order of the chart and of the table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> few = RandomForestClassifier(40, random_state=1).fit(X, y)
    >>> found = ens_plugin.compare({"fifty": ens_plugin.analyze(forest, X, y), "forty": ens_plugin.analyze(few, X, y)})
    >>> list(found.reports), found.to_frame().shape[0]
    (['fifty', 'forty'], 2)
    """

    reports: Mapping[str, EnsembleReport]

    @property
    def metric(self) -> str:
        """Return the name of the metric that all curves are of."""
        return next(iter(self.reports.values())).error_curve.metric

    @cached_property
    def differences(self) -> dict[str, ReportDifference]:
        """Return how each report's metric differs from that of the first, by name, without the first.

        Two reports of this process on the same rows, out of bag or both held out, are compared row by row, where
        the metric is the 0-1 or the mean squared error: ensembles can differ clearly although their intervals overlap.
        """
        (_, first), *others = self.reports.items()
        return {name: report_difference(report, first) for name, report in others}

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each report, by name.

        Returns
        -------
        DataFrame, shape (n_reports, 12 to 16)
            Columns, with the names of :meth:`EnsembleReport.metrics`: ``model``; ``n_members``; ``error``,
            ``error_lower``, ``error_upper`` at the current size; ``asymptotic_error``; ``algorithmic_sd``, where a
            report has one; of several reports, ``difference``, ``difference_lower`` and ``difference_upper`` to the
            first one; ``recommended_size`` with ``recommended_lower`` and ``recommended_upper``, <NA> where above the
            largest size considered or not estimated; ``recommended_error``, the error at that size; ``n_rows``;
            and ``doubts``, the reasons not to rely on the figures of a row.  A scorer of scikit-learn has its own name
            in place of "error".  Errors are in the unit of the metric, a share for the 0-1 error.
        """
        import pandas as pd

        names = pd.Index(list(self.reports), name="name")
        differences = self.differences
        rows = [_row(report, differences.get(name)) for name, report in self.reports.items()]
        frame = pd.DataFrame(rows, index=names)
        sizes = {name: "Int64" for name in ("recommended_size", "recommended_lower", "recommended_upper")}
        columns = ("algorithmic_sd", "difference", "difference_lower", "difference_upper")
        unknown = [name for name in columns if frame[name].isna().all()]
        return frame.drop(columns=unknown).astype(sizes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw all error curves in one chart, each in a colour of its own, with one legend.

        On each curve, a dot marks the current size and a diamond the recommended one; a dash on the right is the error
        of the infinite ensemble.  Bands are the intervals of each curve alone.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on, in the colours of their property cycle; those of a new figure if None.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        InputError
            If the axes show curves of another metric, positive label or level of intervals.
        """
        return plot_reports(self.reports, ax)

    def __repr__(self) -> str:
        names = ", ".join(repr(printable(name, 40)) for name in list(self.reports)[:5])
        more = len(self.reports) - 5
        return f"Comparison({printable(self.metric, 40)}: {names}{f' and {more} more' if more > 0 else ''})"

    def __str__(self) -> str:
        table = comparison_table(self.reports)
        sentences = [line for each in self.sentences for line in wrapped(each)]
        return "\n".join([*aligned([table.heads, *table.rows]), *([""] if sentences else []), *sentences])

    @property
    def sentences(self) -> list[str]:
        """Return in words how each report differs from the first, and which figures are not to be relied on."""
        first = next(iter(self.reports))
        differing = [
            _difference_sentence(name, first, found, self.reports[name])
            for name, found in self.differences.items()
            if not math.isnan(found.estimate)
        ]
        doubted = [
            f"{printable(name, 48)}: {DOUBTED} {with_code(found)}"
            for name, report in self.reports.items()
            if (found := report.doubt) is not None
        ]
        purposes = {criterion_words(report.recommendation) for report in self.reports.values()}
        needed = [f"The sizes needed are those for {purposes.pop()}."] if len(purposes) == 1 else []
        return [*differing, *needed, *doubted]

    def _repr_html_(self) -> str:
        return comparison_card(self.reports, self.sentences, str(self))


@ends_at_caller
def compare(reports: Mapping[str, EnsembleReport] | Sequence[EnsembleReport]) -> Comparison:
    """Put reports side by side: one chart of their error curves, and one table.

    All reports must be of one metric, about one positive label where it is a metric of one, and of one level of
    intervals: a chart has one axis of values, and a column one unit.  Reports of two metrics are compared in two calls,
    as scikit-learn draws one metric on one ``ax``.  A report without a named positive label is about the label 1, as
    scikit-learn's own scorers are.

    Parameters
    ----------
    reports : mapping of str to EnsembleReport, or sequence of EnsembleReport
        A mapping has the names, for example ``report.outputs``.  In a sequence they have the names of their models,
        with their sizes or numbers where names would be the same.

    Returns
    -------
    Comparison
        Its ``print`` is a table with how each report differs from the first; ``plot(ax=None)`` and ``to_frame()``.  A
        notebook shows all.

    Raises
    ------
    InputError
        If there are no reports, something else than a report is among them, metrics, positive labels or levels of
        intervals differ, or a name is not a text, or empty.

    Notes
    -----
    Reports on the same rows have errors that rise and fall together from one sample of rows to the next, so two
    ensembles can differ clearly although their intervals overlap.  ``differences`` compares them row by row.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> extra = ExtraTreesClassifier(50, bootstrap=True, random_state=0).fit(X, y)
    >>> found = ens_plugin.compare({name: ens_plugin.analyze(model, X, y)
    ...                             for name, model in {"forest": forest, "extra trees": extra}.items()})
    >>> found.to_frame()["n_members"].to_dict()
    {'forest': 50, 'extra trees': 50}
    """
    named = _named(reports)
    _refuse_other_units(named)
    return Comparison(named)


def _named(reports: Any) -> dict[str, EnsembleReport]:
    if isinstance(reports, EnsembleReport) or not _is_list(reports):
        raise InputError(
            f"reports is of type {type(reports).__name__}; pass a list of reports, or a dictionary of reports "
            "by their names."
        )
    found = list(reports.values() if isinstance(reports, Mapping) else reports)
    _check_reports(found)
    names = _checked_names(reports) if isinstance(reports, Mapping) else _own_names(found)
    return dict(zip(names, found, strict=True))


def _is_list(given: Any) -> bool:
    """Return whether the argument has entries; an array without dimensions is an Iterable, but has none."""
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes)) and getattr(given, "shape", True) != ()


def _check_reports(found: list[Any]) -> None:
    if not found:
        raise InputError("There are no reports to compare; pass one or more reports of ens_plugin.analyze.")
    for place, report in enumerate(found):
        if not isinstance(report, EnsembleReport):
            raise InputError(
                f"Entry {place} of reports is of type {type(report).__name__} and not a report; pass what "
                "ens_plugin.analyze returns for a model and its rows."
            )


def _checked_names(names: Iterable[Any]) -> list[str]:
    given = list(names)
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"The name {name!r} is not a text with letters; name every report by a text.")
    return given


def _own_names(found: list[EnsembleReport]) -> list[str]:
    """Return the names of the models, with their sizes where models have one name, else with numbers."""
    models = Counter(report.model for report in found)
    names = [
        report.model if models[report.model] == 1 else f"{report.model}, {members_text(report.n_members)}"
        for report in found
    ]
    unique: list[str] = []
    for name in names:
        number, own = 1, name
        while own in unique:
            number, own = number + 1, f"{name} ({number + 1})"
        unique.append(own)
    return unique


def _refuse_other_units(reports: Mapping[str, EnsembleReport]) -> None:
    curves = {name: report.error_curve for name, report in reports.items()}
    for what, words, remedy in (
        (
            "of different metrics",
            _metric_words,
            "Analyse all with the same metric=, or compare the reports of each metric by themselves.",
        ),
        (
            "about different positive labels",
            _label_words,
            "Analyse all with scorers of the same pos_label, or compare the reports of each label by themselves.",
        ),
        (
            "of different levels of intervals",
            lambda curve: level_text(curve.interval_level),
            "Analyse all with the same interval_level=.",
        ),
    ):
        found = {name: words(curve) for name, curve in curves.items()}
        if len(set(found.values())) > 1:
            shown = "; ".join(f"{printable(name, 40)!r}: {text}" for name, text in list(found.items())[:8])
            raise InputError(f"The reports are {what} ({shown}), which one chart cannot show. {remedy}")


def _label_words(curve: ErrorCurve) -> str:
    basis = curve.metric_basis
    return "none" if basis is None else repr(printable(basis.label, 40))


def _metric_words(curve: ErrorCurve) -> str:
    return f"{printable(curve.metric, 60)}{', greater is better' if curve.greater_is_better else ''}"


def report_difference(report: EnsembleReport, first: EnsembleReport) -> ReportDifference:
    """Return the difference of two errors: row by row where both keep losses of the same rows, else by intervals."""
    own, other = report.judged_rows, first.judged_rows
    reason = _reason_without_pairs(report, first)
    if own is not None and other is not None and not reason:
        both = judged_by_both(own, other)
        found = paired_difference(own, other, report.task, report.error_curve.interval_level)
        return ReportDifference(*found, n_rows=int(np.count_nonzero(both)))
    apart = [Difference(each.error, *each.error_interval) for each in (report, first)]
    return ReportDifference(*separate_difference(*apart), n_rows=None, reason=reason)


def _reason_without_pairs(report: EnsembleReport, first: EnsembleReport) -> str:
    """Return why the rows of two reports are not compared one by one; empty where they are."""
    own, other = report.judged_rows, first.judged_rows
    if report.error_curve.metric_basis is not None:
        return f"{printable(report.error_curve.metric, 40)} is no mean over rows"
    if own is None or other is None:
        return "one was analysed with weights, groups or several outputs, or read from JSON"
    if own.digest != other.digest:
        return "they are about different rows"
    if np.count_nonzero(judged_by_both(own, other)) < FEWEST_PAIRS:
        return "no two rows can be judged by members of both"
    return ""


def _difference_sentence(name: str, first: str, found: ReportDifference, report: EnsembleReport) -> str:
    """Return in words which of two ensembles is better and by how much, or that they cannot be told apart."""
    metric = report.error_curve.metric
    unit = "" if metric in SHARES else f" in {printable(metric, 40)}"
    basis = (
        f"compared on the same {counted(found.n_rows, 'row')}"
        if found.n_rows is not None
        else f"by their intervals alone, since {found.reason}"
    )
    own, other = printable(name, 48), printable(first, 48)
    worse, better = max(found.upper, 0.0), max(-found.lower, 0.0)
    if report.error_curve.greater_is_better:
        worse, better = better, worse
    if not found.is_clear:
        return (
            f"{own} and {other} cannot be told apart: {own} may be {points_text(worse, metric)} worse or "
            f"{points_text(better, metric)} better{unit} ({basis})."
        )
    is_better = (found.estimate > 0.0) == report.error_curve.greater_is_better
    ends = sorted((abs(found.lower), abs(found.upper)))
    amount, low, high = (points_text(abs(value), metric) for value in (found.estimate, *ends))
    low = low.removesuffix(" points")
    level = level_text(report.error_curve.interval_level)
    return (
        f"{own} is {'better' if is_better else 'worse'} than {other} by {amount}{unit} ({level} interval {low} to "
        f"{high}; {basis})."
    )


def _row(report: EnsembleReport, difference: ReportDifference | None) -> dict[str, Any]:
    curve, advice, key = report.error_curve, report.recommendation, report.error_curve.key
    lower, upper = report.error_interval
    size, (low, high) = advice.size, advice.interval
    return {
        "model": report.model,
        "n_members": report.n_members,
        key: report.error,
        f"{key}_lower": lower,
        f"{key}_upper": upper,
        f"asymptotic_{key}": curve.asymptote,
        "algorithmic_sd": report.algorithmic_sd,
        "difference": math.nan if difference is None else difference.estimate,
        "difference_lower": math.nan if difference is None else difference.lower,
        "difference_upper": math.nan if difference is None else difference.upper,
        "recommended_size": size,
        "recommended_lower": low,
        "recommended_upper": high,
        f"recommended_{key}": curve.at(size) if size is not None and curve.reaches(size) else float("nan"),
        "n_rows": report.n_rows,
        "doubts": " ".join(report.basis.doubts),
    }
