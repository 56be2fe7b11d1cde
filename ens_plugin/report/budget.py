"""What quality a megabyte or a millisecond buys: the sizes that fit a budget, with their errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from ens_plugin.core.validation import MAX_SIZE, counted, plural, shown
from ens_plugin.errors import InputError
from ens_plugin.report.answers import DOUBTED
from ens_plugin.report.result import Costs, ReportContent, brief
from ens_plugin.report.text import (
    aligned,
    bytes_text,
    escaped_markdown,
    markdown_table,
    measure_name,
    measure_text,
    member_noun,
    members_text,
    printable,
    seconds_text,
    with_code,
    wrapped,
)

if TYPE_CHECKING:
    import pandas as pd


def check_costs(costs: object, report: ReportContent) -> Costs:
    """Return the costs, or raise InputError unless they are those of an ensemble of the report's size."""
    if costs is None:
        raise InputError(
            "This report has no measured costs. Pass them: report.budget(ens_plugin.measure_costs(model, X)), with the "
            "analysed model and rows such as it predicts."
        )
    if not isinstance(costs, Costs):
        raise InputError(
            f"costs is of type {type(costs).__name__} and no result of ens_plugin.measure_costs(model, X); pass one."
        )
    if costs.n_members != report.n_members:
        raise InputError(
            f"These costs are of an ensemble of {members_text(costs.n_members)}, and the report is on "
            f"{report.n_members}. Pass those of the analysed model."
        )
    return costs


def check_limits(max_bytes: float | None, max_latency: float | None) -> None:
    """Raise InputError for limits that are neither None nor positive finite numbers."""
    for name, limit, unit in (("max_bytes", max_bytes, "bytes"), ("max_latency", max_latency, "seconds")):
        if limit is None:
            continue
        if not isinstance(limit, Real) or isinstance(limit, bool) or not 0.0 < limit < math.inf:
            raise InputError(f"{name} must be a positive finite number of {unit}, got {shown(limit, 40)}.")


@dataclass(frozen=True, eq=False, repr=False)
class Budget:
    """The error of an ensemble by its bytes and times, and the most members that fit limits on them.

    Attributes
    ----------
    report : EnsembleReport
    costs : Costs
    max_bytes, max_latency : float or None
        Limits on the bytes of the pickled model, and on the seconds of a request of one row; None for no limit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> budget = report.budget(ens_plugin.measure_costs(forest, X), max_bytes=20_000)
    >>> budget.size == budget.costs.bytes.largest_size(20_000)
    True
    >>> budget.to_frame().columns.tolist()
    ['size', 'bytes', 'latency', 'row_seconds', 'error', 'lower', 'upper']
    """

    report: ReportContent
    costs: Costs
    max_bytes: float | None = None
    max_latency: float | None = None

    def __repr__(self) -> str:
        return brief(self, "size", "max_bytes", "max_latency", "costs")

    def __str__(self) -> str:
        """Return the verdict and a table, in 12 lines of at most 80 columns; more where the figures are doubted."""
        doubt = self.report.doubt
        warning = f"{DOUBTED} {with_code(doubt, 150)}" if doubt else ""
        return "\n".join([*wrapped(warning, later="  "), *self.lines()])

    @property
    def has_limits(self) -> bool:
        """Whether bytes or latency are limited."""
        return self.max_bytes is not None or self.max_latency is not None

    @property
    def size(self) -> int | None:
        """The most members within the limits, 0 where one has too much; None without limits."""
        return self.costs.largest_size(self.max_bytes, self.max_latency) if self.has_limits else None

    @property
    def limits_text(self) -> str:
        """The limits in words, as "50 MB and 2 ms"."""
        texts = [] if self.max_bytes is None else [bytes_text(self.max_bytes)]
        return " and ".join(texts if self.max_latency is None else [*texts, seconds_text(self.max_latency)])

    @property
    def verdict(self) -> str:
        """How many members fit, and what that does to the quality, in a sentence or a few."""
        if not self.has_limits:
            return self._price_of_a_member()
        if not self.size:
            return (
                f"{self.limits_text} allow not even one {member_noun(self.report)}, which takes {self._taken(1)} "
                "for a request of one row. Allow more, or train smaller ones."
            )
        return " ".join(filter(None, (self._fit(self.size), self._quality(self.size), self._conflict(self.size))))

    def _price_of_a_member(self) -> str:
        noun, now, costs = member_noun(self.report), self.report.n_members, self.costs
        each = f"{bytes_text(costs.bytes.per_member)} and {seconds_text(costs.latency.per_member)}"
        takes = f"{counted(now, noun)} {'takes' if now == 1 else 'take'} {self._taken(now)} for a request of one row"
        return f"{takes}; one {noun} adds {each}. {self._quality(now)}"

    def _taken(self, size: int) -> str:
        return f"{bytes_text(self.costs.bytes.at(size))} and {seconds_text(self.costs.latency.at(size))}"

    def _fit(self, size: int) -> str:
        noun, now = member_noun(self.report), self.report.n_members
        if size < now:
            return f"{self.limits_text} allow {size} of the {now} {plural(noun)}."
        more = "" if size == now else f", and up to {size}" if size < MAX_SIZE else ", and any number"
        return f"{self.limits_text} allow all {counted(now, noun)}{more}."

    def _quality(self, size: int) -> str:
        """Return the error of a size within the limits, beside those of the recommended and the infinite size."""
        kept, recommended = min(size, self.report.n_members), self.report.recommended_size
        shown = [f"{self._measured(kept)} with {kept}"]
        if recommended is not None and recommended != kept:
            shown.append(f"{self._measured(recommended)} with the {self.report.size_name} {recommended}")
        shown.append(f"{self._measured(math.inf)} with infinitely many")
        name = measure_name(self.report)
        return f"{name[:1].upper()}{name[1:]} on new rows: {', '.join(shown)}."

    def _conflict(self, size: int) -> str:
        recommended = self.report.recommended_size
        if recommended is None or recommended <= size:
            return ""
        return f"The {self.report.size_name} {recommended} would take {self._taken(recommended)}."

    def _measured(self, size: float) -> str:
        curve = self.report.error_curve
        error = curve.at(size) if curve.reaches(size) else math.nan
        return measure_text(self.report, error)

    def lines(self) -> list[str]:
        """Return the verdict and the table as lines of at most 80 columns."""
        head, notes = wrapped(self.verdict), wrapped(self.note)
        table = self.rows(12 - len(head) - len(notes) - 2)
        return [*head, "", *aligned(table), "", *notes]

    def markdown(self) -> list[str]:
        """Return the verdict and the table as lines of Markdown."""
        cells = [[escaped_markdown(cell, 40) for cell in row] for row in self.rows(7)]
        return [escaped_markdown(self.verdict, 600), "", *markdown_table(cells), escaped_markdown(self.note, 400)]

    @property
    def note(self) -> str:
        """What the figures of the table are of."""
        latency, batch = self.costs.latency.spread, self.costs.row_seconds.spread
        return (
            f"Size: pickled. Latency: predict for one row, median, quartiles within {100 * latency:.0f} %; in a batch: "
            f"per row of {self.costs.batch_rows}, within {100 * batch:.0f} %."
        )

    def rows(self, most: int) -> list[tuple[str, ...]]:
        """Return the table as tuples of text, at most `most`: a header, sizes ascending, the infinite ensemble."""
        noun, measure = plural(member_noun(self.report)), printable(measure_name(self.report), 12)
        table: list[tuple[str, ...]] = [("", noun, "size", "latency", "in a batch", measure)]
        table += [self._row(size, name) for size, name in self._shown_sizes(most - 2)]
        return [*table, ("infinite", *["-"] * 4, self._measured(math.inf))]

    def _shown_sizes(self, most: int) -> list[tuple[int, str]]:
        """Return sizes with their names: those that matter, and multiples of the current one up to `most` in all."""
        now, found = self.report.n_members, self.report.recommended_size
        named: dict[int, list[str]] = {}
        for name, size in (("fits", self.size), (self.report.size_name, found), ("current", now)):
            if size and size < MAX_SIZE:
                named.setdefault(size, []).append(name)
        for times in (0.5, 2.0, 0.25, 4.0):
            if len(named) < most and round(times * now):
                named.setdefault(round(times * now), [])
        # Three names would be wider than the screen, and the current size is in the verdict.
        return [(size, ", ".join(names[:2])) for size, names in sorted(named.items())]

    def _row(self, size: int, name: str) -> tuple[str, ...]:
        costs = self.costs
        return (
            name,
            str(size),
            bytes_text(costs.bytes.at(size)),
            seconds_text(costs.latency.at(size)),
            seconds_text(costs.row_seconds.at(size)),
            self._measured(size),
        )

    def to_frame(self) -> pd.DataFrame:
        """Return bytes, seconds and error by size.

        Returns
        -------
        DataFrame
            Columns ``size``, ``bytes``, ``latency``, ``row_seconds``, and ``error``, ``lower`` and ``upper`` of the
            report's curve.
        """
        frame = self.report.error_curve.to_frame()
        for place, name in enumerate(("bytes", "latency", "row_seconds"), start=1):
            frame.insert(place, name, getattr(self.costs, name).at(frame["size"].to_numpy(dtype=float)))
        return frame
