"""Curves over ensemble sizes, as pictures show them: values, marks, intervals, and the ends of the axes.

They come from a report. Both kinds of pictures are of them, those of pages and those of matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ens_plugin.core.validation import FloatArray, IntArray, counted, plural, previous_odd_size, printable
from ens_plugin.errors import InputError
from ens_plugin.report.result import SHARES, ErrorCurve, ReportContent, SizeRecommendation, measure_of
from ens_plugin.report.text import (
    common_noun,
    interval_in_measure,
    label_words,
    level_text,
    measure_name_of,
    measured_text,
    member_noun,
    quantity_label,
)

# From Okabe and Ito's palette, distinct in every common kind of colour vision; green darkened for thin lines.
BLUE, GREEN, INK, GREY = "#0072B2", "#007A5A", "#222222", "#666666"
# The property cycle of axes that are made here.
PALETTE = (BLUE, "#D55E00", GREEN, "#A6498C", "#2F9FD8", "#B8860B")

Limits = tuple[float, float]
LONGEST_LABEL = 48
FIRST_SHOWN = 5
# Times the distance of the current size from the limit: the part of the chart in which sizes are chosen.
FOCUS = 6.0
LARGEST_DRAWN = 1e300  # both kinds of pictures multiply values


class Mark(NamedTuple):
    """A size that is marked on a curve, with the text beside it; the value is NaN where it is not known."""

    size: int
    value: float
    text: str
    is_recommended: bool


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """What one line of a chart over ensemble sizes shows."""

    quantity: str  # of the values, with its unit
    notes: tuple[str, ...]  # on the values and their band
    kind: tuple[object, ...]  # equal for curves that may share axes: what the values are of, in which unit
    name: str  # in a legend
    sizes: IntArray  # tabulated, ascending
    value_at: Callable[[float], float]  # NaN where the value is not known
    as_text: Callable[[float], str]  # a value with its unit
    n_members: int | None  # marked, as is the recommended size
    recommended_size: int | None
    covered: tuple[int, ...]  # the sizes that the size axis has to cover
    level: float  # a horizontal line: the value of the infinite ensemble; NaN if there is none
    level_name: str
    level_text: str  # the value of the level with its unit
    interval_at: Callable[[float], tuple[float, float]] | None = None  # the ends of the band
    band_text: Callable[[float], str] | None = None  # both ends in words
    is_share: bool = False  # values are labelled in percent
    ceiling: float = math.inf  # the largest value that exists
    focus: tuple[float, float] | None = None  # the values that matter: the axis does not go far beyond them
    is_whole: bool = False  # the line begins at the first tabulated size, however steep it is there
    ties_to: float = 0.0  # even sizes up to this one have the value of the odd size below, and are not drawn
    size_name: str = "recommended"  # beside the mark of that size
    noun: str = "member"
    tolerance: tuple[float, float] | None = None  # the values that are close enough to the level, as a band

    @property
    def title(self) -> str:
        """Return the quantity and the notes in one line."""
        return ", ".join([self.quantity.replace("\n", " "), *self.notes])

    @property
    def marks(self) -> list[tuple[str, int, float]]:
        """Return "current" and `size_name` with their sizes and the values there, as far as they are given."""
        named = (("current", self.n_members), (self.size_name, self.recommended_size))
        return [(name, size, self.value_at(size)) for name, size in named if size is not None]

    @property
    def labelled_marks(self) -> list[Mark]:
        """Return the marks with their texts; one mark where the current size is the recommended one."""
        marks = self.marks
        if self.n_members is not None and self.n_members == self.recommended_size:
            marks = [(f"current = {self.size_name}", *marks[0][1:])]
        values = ["" if math.isnan(value) else f": {self.as_text(value)}" for _, _, value in marks]
        return [
            Mark(size, value, f"{name} {group_digits(size)}{text}", name == self.size_name)
            for (name, size, value), text in zip(marks, values, strict=True)
        ]

    @property
    def level_is_drawable(self) -> bool:
        """Return whether the level is known, and small enough to be drawn."""
        return abs(self.level) <= LARGEST_DRAWN

    def drawn(self, first: float, last: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sizes from `first` to `last` at which the line is drawn, its values, and its band."""
        between = np.geomspace(max(first, float(self.sizes[0])), last, 200)
        inside = self.sizes[(self.sizes >= first) & (self.sizes <= last)]
        dense = np.unique(np.concatenate([between, inside]))
        # Even sizes at which votes tie would turn the line into steps.
        odd = dense[previous_odd_size(dense, self.ties_to) == dense]
        values = np.array([self.value_at(size) for size in odd])
        known = ~np.isnan(values)
        band = [] if self.interval_at is None else [self.interval_at(size) for size in odd[known]]
        return odd[known], values[known], np.asarray(band, dtype=np.float64).reshape(-1, 2).T


def band_opacity(n_curves: int) -> float:
    """Return the opacity of the bands of so many curves, which lie on each other."""
    return 0.18 if n_curves <= 3 else 0.08


def size_title(curves: Sequence[SizeCurve]) -> str:
    """Return the title of the size axis of curves."""
    return f"Ensemble size ({plural(common_noun(curve.noun for curve in curves))})"


def size_limits(curves: Sequence[SizeCurve]) -> Limits:
    """Return the ends of a size axis for all curves."""
    ends = [_shown_sizes(curve) for curve in curves]
    return min(first for first, _ in ends), max(last for _, last in ends)


def _shown_sizes(curve: SizeCurve) -> Limits:
    """Return the first and the last size of an axis that covers the sizes to mark."""
    marked = list(curve.covered)
    if any(size < 1 for size in marked):
        raise InputError(f"Sizes to mark are {marked}, and an ensemble has at least 1 member; pass sizes from 1 on.")
    # The errors of one to four members are so large that they would flatten the rest of the curve.
    is_long = min([*marked, int(curve.sizes[-1])]) >= 2 * FIRST_SHOWN
    clipped = is_long and not curve.is_whole and curve.sizes[0] < FIRST_SHOWN
    first = float(FIRST_SHOWN if clipped else min([*marked, int(curve.sizes[0])]))
    last = 2.0 * max(marked) if marked else float(curve.sizes[-1])
    return first, max(last, 20.0 * first)


def value_limits(curves: Sequence[SizeCurve], values: FloatArray) -> Limits:
    """Return the ends of an axis of values that covers those that matter, and leaves those beyond out."""
    drawable = values[np.abs(values) <= LARGEST_DRAWN]
    low, high = (float(drawable.min()), float(drawable.max())) if drawable.size else (0.0, 0.0)
    room = 0.06 * (high - low or abs(high) or 0.01)
    limits = max(low - room, 0.0) if low >= 0.0 else low - room, min(high + room, curves[0].ceiling)
    found = [curve.focus for curve in curves if curve.focus is not None]
    if len(found) < len(curves):
        return limits
    low, high = min(low for low, _ in found), max(high for _, high in found)
    room = 0.06 * (high - low)
    return max(limits[0], low - room), min(limits[1], high + room)


def group_digits(number: float) -> str:
    """Return a number as text with narrow spaces between groups of three digits."""
    return f"{number:,.6g}".replace(",", "\u202f")


def report_curve(name: str, report: ReportContent) -> SizeCurve:
    """Return the curve of the quantity that decided on the size, with the sizes that lose no more than is allowed."""
    found = report.recommendation
    if found.criterion in ("probability", "agreement"):
        return criterion_curve(found, report.n_members, name, report.size_name, member_noun(report))
    curve, drawn = report.error_curve, measure_curve(name, report)
    allowed = -found.tolerance if curve.greater_is_better else found.tolerance
    ends = [measure_of(curve.metric, error) for error in (curve.asymptote, curve.asymptote + allowed)]
    return drawn if math.isnan(ends[0]) else replace(drawn, tolerance=(min(ends), max(ends)))


def measure_curve(name: str, report: ReportContent) -> SizeCurve:
    """Return the curve of the accuracy, the RMSE or the metric of a report, with its current and recommended size."""
    curve = report.error_curve
    drawn = curve_of_error(curve, name, report.n_members, report.recommended_size, report.size_name)
    return replace(drawn, focus=_focus(report), noun=member_noun(report))


def _focus(report: ReportContent) -> tuple[float, float] | None:
    """Return the values among which sizes are chosen: around the limit, the current size and its interval."""
    curve = report.error_curve
    if not curve.reaches(report.n_members) or math.isnan(curve.asymptote):
        return None
    limit, here = measure_of(curve.metric, curve.asymptote), measure_of(curve.metric, report.error)
    ends = sorted(measure_of(curve.metric, end) for end in report.error_interval)
    reach = max(FOCUS * abs(here - limit), ends[1] - ends[0])
    return (limit - reach, max(limit, ends[1])) if here <= limit else (min(limit, ends[0]), limit + reach)


def whole_curve(report: ReportContent) -> SizeCurve:
    """Return the curve of a report's measure from its first size on, with all of its values."""
    return replace(measure_curve(report.model, report), focus=None, is_whole=True)


def curve_of_error(
    curve: ErrorCurve, name: str, n_members: int | None, recommended_size: int | None, size_name: str
) -> SizeCurve:
    """Return an error curve in the everyday measure, with sizes to mark on it."""
    basis, metric = curve.metric_basis, curve.metric
    quantity, direction = measure_name_of(metric), []
    if metric in SHARES:
        quantity = f"{quantity.title()} (%)"
    if curve.greater_is_better:
        quantity, direction = f"{printable(metric, 30)}{label_words(basis)}", ["greater is better"]
    limit = math.nan if math.isnan(curve.asymptote) else measure_of(metric, curve.asymptote)
    return SizeCurve(
        quantity=quantity,
        notes=(*direction, f"shaded: {level_text(curve.interval_level)} interval"),
        kind=("error curve", metric, curve.greater_is_better, basis and basis.label, curve.interval_level),
        name=name,
        sizes=curve.sizes,
        value_at=lambda size: measure_of(metric, curve.at(size)) if curve.reaches(size) else math.nan,
        as_text=lambda value: measured_text(metric, value),
        n_members=n_members,
        recommended_size=recommended_size,
        covered=tuple(size for size in (n_members, recommended_size) if size is not None),
        level=limit,
        level_name="infinite ensemble",
        level_text=measured_text(metric, limit),
        interval_at=lambda size: _ordered(*(measure_of(metric, end) for end in curve.interval_at(size))),
        band_text=lambda size: interval_in_measure(metric, curve.interval_at(size)),
        is_share=metric in SHARES,
        ties_to=curve.ties_to,
        size_name=size_name,
    )


def criterion_curve(
    found: SizeRecommendation, n_members: int | None, name: str, size_name: str, noun: str
) -> SizeCurve:
    """Return the quantity of one respect by size, with what is enough: an agreement, a Brier score, a metric."""
    is_agreement = found.criterion in ("agreement", "overlap")
    sign = -1.0 if is_agreement else 1.0
    reach, focus = max(found.size or found.max_size, n_members or 1), FOCUS * max(abs(found.loss), found.tolerance)
    return SizeCurve(
        quantity=quantity_label(found),
        notes=(),
        kind=("recommended size", found.criterion, found.of_metric),
        name=name,
        sizes=found.sizes,
        value_at=lambda size: _value_at(found, sign, size),
        as_text=lambda value: f"{100.0 * value:.2f} %" if is_agreement else f"{value:.4g}",
        n_members=n_members,
        recommended_size=found.size,
        covered=tuple(size for size in (n_members, found.size, reach) if size is not None),
        level=found.limit,
        level_name="infinite ensemble",
        level_text="100 %" if is_agreement else f"{found.limit:.4g}",
        is_share=is_agreement,
        ceiling=1.0 if is_agreement else math.inf,
        focus=_ordered(found.limit, found.limit + sign * focus) if math.isfinite(focus) else None,
        size_name=size_name,
        noun=noun,
        tolerance=_ordered(found.limit, found.limit + sign * found.tolerance),
    )


def _value_at(found: SizeRecommendation, sign: float, size: float) -> float:
    if not found.sizes[0] <= size <= found.sizes[-1]:
        return math.nan
    value = found.limit + sign * found.loss_at(size)
    return value if math.isfinite(value) else math.nan


def _ordered(one: float, other: float) -> tuple[float, float]:
    return min(one, other), max(one, other)


class SizeTip(NamedTuple):
    """What the curves of a chart show at one size, in words."""

    size: int
    text: str


def size_tips(curves: Sequence[SizeCurve], shown: Limits) -> list[SizeTip]:
    """Return what curves show at sizes across the width of their size axis."""
    wanted = np.geomspace(max(shown[0], 1.0), shown[1], 48)
    # An even size at which votes tie is not on the line.
    ties_to = max(curve.ties_to for curve in curves)
    sizes = np.unique(previous_odd_size(np.rint(wanted), ties_to).astype(np.int64))
    marked = {size for curve in curves for _, size, _ in curve.marks}
    return [tip for size in sorted({*sizes.tolist(), *marked}) if (tip := _size_tip(curves, size)) is not None]


def _size_tip(curves: Sequence[SizeCurve], size: int) -> SizeTip | None:
    lines = [
        f"{curve.name}: {text}" if len(curves) > 1 else text for curve in curves if (text := _tip_text(curve, size))
    ]
    title = counted(group_digits(size), common_noun(curve.noun for curve in curves))
    return SizeTip(size, "\n".join([title, *lines])) if lines else None


def _tip_text(curve: SizeCurve, size: int) -> str:
    """Return the value of a curve at a size, with its interval; empty where it is not known."""
    value = curve.value_at(size)
    if math.isnan(value):
        return ""
    return curve.as_text(value) if curve.band_text is None else f"{curve.as_text(value)} ({curve.band_text(size)})"
