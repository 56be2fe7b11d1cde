"""Curves over ensemble sizes, as pictures show them: values, marks, intervals, and the ends of the axes.

They come from a report. Both kinds of pictures are of them, those of pages and those of matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ens_plugin.core.validation import FloatArray, IntArray, counted, previous_odd_size, printable
from ens_plugin.errors import InputError
from ens_plugin.report.result import ZERO_ONE, ErrorCurve, ReportContent, SizeRecommendation
from ens_plugin.report.text import (
    SHARES,
    axis_name,
    common_noun,
    distance_label,
    error_text,
    interval_text,
    label_words,
    level_text,
    member_noun,
    wanted_text,
)

__all__ = [
    "BLUE",
    "FIRST_SHOWN",
    "GREEN",
    "GREY",
    "INK",
    "LARGEST_DRAWN",
    "LONGEST_LABEL",
    "ORANGE",
    "PALETTE",
    "Limits",
    "Mark",
    "SizeCurve",
    "SizeTip",
    "advice_curve",
    "criterion_curve",
    "curve_of_error",
    "group_digits",
    "report_curve",
    "shown_sizes",
    "size_tips",
    "value_limits",
    "whole_curve",
]

# From Okabe and Ito's palette, distinct in every common kind of colour vision; green darkened for thin lines.
BLUE, ORANGE, GREEN, INK, GREY = "#0072B2", "#E69F00", "#007A5A", "#222222", "#666666"
# The property cycle of axes that are made here.
PALETTE = (BLUE, "#D55E00", GREEN, "#A6498C", "#2F9FD8", "#B8860B")


LONGEST_LABEL = 48
FIRST_SHOWN = 5
LARGEST_DRAWN = 1e300  # both kinds of pictures multiply values
N_DRAWN = 200


class Mark(NamedTuple):
    """A size that is marked on a curve, with the text beside it; the value is NaN where it is not known."""

    size: int
    value: float
    text: str
    is_recommended: bool


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """What one line of a chart over ensemble sizes shows.

    Attributes
    ----------
    quantity : str
        Of the values, with its unit.
    notes : tuple of str
        On the values and their band.
    kind : tuple
        Equal for curves that may share axes: what the values are of, in which unit and direction.
    name : str
        Of the line, in a legend.
    sizes : ndarray of int64, shape (n_sizes,)
        Tabulated sizes, ascending.
    value_at : callable
        ``value_at(size)`` is the value at one size; NaN where it is not known.
    as_text : callable
        ``as_text(value)`` is a value with its unit.
    n_members, recommended_size : int or None
        Sizes to mark.
    size_name : str, default="recommended"
        Of the latter beside its mark.
    noun : str, default="member"
        What one member is called.
    covered : tuple of int
        Sizes that the size axis has to cover.
    level : float
        Value that is drawn as a horizontal line: that of the infinite ensemble, or the wanted one; NaN if there is
        none.
    level_name, level_text : str
        The latter has the value with its unit.
    interval_at : callable, optional
        ``interval_at(size)`` are the lower and the upper end of the band.
    band_text : callable, optional
        ``band_text(size)`` are both in words.
    size_interval : tuple of (int, int or None), optional
        Interval of the recommended size.
    is_share : bool, default=False
        Whether values are labelled in percent.
    is_log : bool, default=False
        Whether the axis of the values is logarithmic.
    ceiling : float, default=inf
        Largest value that exists.
    focus : tuple of two floats, optional
        The values that matter: the axis covers the first, and does not go beyond the second.
    is_whole : bool, default=False
        Whether the line begins at the first tabulated size, however steep it is there.
    tolerance : tuple of two floats, optional
        The values between which a size is close enough to the infinite ensemble, as a horizontal band.
    ties_to : float, default=0
        Even sizes up to this one have the value of the odd size below, and are not drawn.
    """

    quantity: str
    notes: tuple[str, ...]
    kind: tuple[object, ...]
    name: str
    sizes: IntArray
    value_at: Callable[[float], float]
    as_text: Callable[[float], str]
    n_members: int | None
    recommended_size: int | None
    covered: tuple[int, ...]
    level: float
    level_name: str
    level_text: str
    interval_at: Callable[[float], tuple[float, float]] | None = None
    band_text: Callable[[float], str] | None = None
    size_interval: tuple[int, int | None] | None = None
    is_share: bool = False
    is_log: bool = False
    ceiling: float = math.inf
    focus: tuple[float, float] | None = None
    is_whole: bool = False
    ties_to: float = 0.0
    size_name: str = "recommended"
    noun: str = "member"
    tolerance: tuple[float, float] | None = None

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
        return [
            Mark(size, value, self._mark_text(name, size, value), name == self.size_name) for name, size, value in marks
        ]

    def _mark_text(self, name: str, size: int, value: float) -> str:
        text = f"{name} {group_digits(size)}"
        return text if math.isnan(value) else f"{text}: {self.as_text(value)}"

    @property
    def level_is_drawable(self) -> bool:
        """Return whether the level is known, and small enough to be drawn."""
        return abs(self.level) <= LARGEST_DRAWN

    def drawn(self, first: float, last: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sizes from `first` to `last` at which the line is drawn, its values, and its band."""
        between = np.geomspace(max(first, float(self.sizes[0])), last, N_DRAWN)
        inside = self.sizes[(self.sizes >= first) & (self.sizes <= last)]
        dense = np.unique(np.concatenate([between, inside]))
        # Even sizes at which votes tie would turn the line into steps.
        odd = dense[previous_odd_size(dense, self.ties_to) == dense]
        values = np.array([self.value_at(size) for size in odd])
        known = ~np.isnan(values)
        band = [] if self.interval_at is None else [self.interval_at(size) for size in odd[known]]
        return odd[known], values[known], np.asarray(band, dtype=np.float64).reshape(-1, 2).T


def shown_sizes(curve: SizeCurve) -> tuple[float, float]:
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


SMALLEST_LOGGED = 1e-12  # relative excess error; rounding errors would fill most of a logarithmic axis
Limits = tuple[float, float]


def value_limits(curves: Sequence[SizeCurve], values: FloatArray, is_log: bool) -> Limits:
    """Return the ends of an axis of values that covers them, as far as they matter."""
    return _log_limits(values) if is_log else _focused(_linear_limits(values, curves[0].ceiling), curves)


def _linear_limits(values: FloatArray, ceiling: float) -> Limits:
    drawable = values[np.abs(values) <= LARGEST_DRAWN]
    low, high = (float(drawable.min()), float(drawable.max())) if drawable.size else (0.0, 0.0)
    room = 0.06 * (high - low or abs(high) or 0.01)
    return max(low - room, 0.0) if low >= 0.0 else low - room, min(high + room, ceiling)


def _focused(limits: Limits, curves: Sequence[SizeCurve]) -> Limits:
    """Return limits of an axis that cover the values that matter, and leave those beyond out."""
    found = [curve.focus for curve in curves if curve.focus is not None]
    if len(found) < len(curves):
        return limits
    return min(limits[0], *(low for low, _ in found)), min(limits[1], max(high for _, high in found))


def _log_limits(values: FloatArray) -> Limits:
    drawable = values[(values >= SMALLEST_LOGGED) & (values <= LARGEST_DRAWN)]
    low, high = (float(drawable.min()), float(drawable.max())) if drawable.size else (0.01, 0.01)
    return low / 1.5, high * 1.5


def group_digits(number: float) -> str:
    """Return a number as text with narrow spaces between groups of three digits."""
    return f"{number:,.6g}".replace(",", "\u202f")


# Times the limit, and times the current error: the part of the chart in which sizes are chosen.
FOCUS = (0.8, 3.0)


def report_curve(name: str, report: ReportContent) -> SizeCurve:
    """Return the error curve of a report, with its current and its recommended size."""
    curve = report.error_curve
    drawn = curve_of_error(curve, name, report.n_members, report.recommended_size, report.size_name)
    focus = None
    if curve.asymptote > 0.0 and report.error > 0.0 and not curve.greater_is_better:
        focus = (FOCUS[0] * curve.asymptote, max(FOCUS[1] * report.error, report.error_interval[1]))
    return replace(drawn, focus=focus, noun=member_noun(report))


def whole_curve(report: ReportContent) -> SizeCurve:
    """Return the error curve of a report from its first size on, with all of its values."""
    return replace(report_curve(report.model, report), focus=None, is_whole=True)


def curve_of_error(
    curve: ErrorCurve, name: str, n_members: int | None, recommended_size: int | None, size_name: str
) -> SizeCurve:
    """Return an error curve with sizes to mark on it."""
    basis = curve.metric_basis
    quantity, direction = axis_name(curve.metric), []
    if curve.greater_is_better:
        quantity, direction = f"{printable(curve.metric, 30)}{label_words(basis)}", ["greater is better"]
    return SizeCurve(
        quantity=quantity,
        notes=(*direction, f"shaded: {level_text(curve.interval_level)} interval"),
        kind=("error curve", curve.metric, curve.greater_is_better, basis and basis.label, curve.interval_level),
        name=name,
        sizes=curve.sizes,
        value_at=lambda size: curve.at(size) if curve.reaches(size) else math.nan,
        as_text=lambda value: error_text(value, curve.metric),
        n_members=n_members,
        recommended_size=recommended_size,
        covered=tuple(size for size in (n_members, recommended_size) if size is not None),
        level=curve.asymptote,
        level_name="infinite ensemble",
        level_text=error_text(curve.asymptote, curve.metric),
        interval_at=curve.interval_at,
        band_text=lambda size: interval_text(curve.interval_at(size), curve.metric),
        is_share=curve.metric in SHARES,
        ties_to=curve.ties_to,
        size_name=size_name,
    )


def advice_curve(report: ReportContent) -> SizeCurve:
    """Return the curve that the size of a report is recommended from."""
    advice = report.recommendation
    return criterion_curve(
        advice, report.n_members, advice.criterion.replace("_", " "), report.size_name, member_noun(report)
    )


def criterion_curve(
    found: SizeRecommendation, n_members: int | None, name: str, size_name: str, noun: str
) -> SizeCurve:
    """Return the agreement, or the distance from the infinite ensemble, that a size is recommended from."""
    is_agreement = found.criterion == "agreement"
    wanted = found.confidence or found.tolerance
    metric = (found.of_metric if found.is_absolute else None) or ZERO_ONE
    beyond = found.size or found.max_size
    reach = max(beyond, found.interval[1] or beyond)

    def value_at(size: float) -> float:
        if not found.sizes[0] <= size <= found.sizes[-1]:
            return math.nan
        value = float(np.interp(1.0 / size, 1.0 / found.sizes[::-1], found.values[::-1]))
        return value if math.isfinite(value) else math.nan

    return SizeCurve(
        quantity="Agreement with the\ninfinite ensemble (%)" if is_agreement else distance_label(found),
        notes=(),
        kind=("recommended size", found.criterion, found.of_metric, found.is_absolute),
        name=name,
        sizes=found.sizes,
        value_at=value_at,
        as_text=lambda value: error_text(value, metric),
        n_members=n_members,
        recommended_size=found.size,
        covered=(reach,) if n_members is None else (n_members, reach),
        level=math.nan if wanted is None else wanted,
        level_name="wanted",
        level_text=wanted_text(found),
        size_interval=found.interval,
        is_share=not found.is_absolute,
        is_log=not is_agreement,
        ceiling=1.0 if is_agreement else math.inf,
        size_name=size_name,
        noun=noun,
    )


N_TIPS = 48


class SizeTip(NamedTuple):
    """What the curves of a chart show at one size, in words."""

    size: int
    text: str


def size_tips(curves: Sequence[SizeCurve], shown: Limits) -> list[SizeTip]:
    """Return what curves show at sizes across the width of their size axis."""
    wanted = np.geomspace(max(shown[0], 1.0), shown[1], N_TIPS)
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
