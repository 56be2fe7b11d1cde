"""Curves over ensemble sizes as pictures of a page: SVG from a template, without scripts, fonts or references.

Each picture is drawn wide and narrow, with letters of at least 11 CSS pixels from the width on at which the page
shows it. The widths of texts are estimated from above, because no font is known here.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ens_plugin.core.validation import FloatArray, printable
from ens_plugin.report.rendering import render
from ens_plugin.report.size_curves import (
    GREEN,
    GREY,
    INK,
    LONGEST_LABEL,
    PALETTE,
    Limits,
    SizeCurve,
    SizeTip,
    band_opacity,
    group_digits,
    size_limits,
    size_tips,
    size_title,
    value_limits,
)

if TYPE_CHECKING:
    from markupsafe import Markup

# A dark theme sets the variables to other colours.
TEXT, MUTED, GOOD, PAPER = (
    f"var(--ens-{name}, {colour})"
    for name, colour in (("text", INK), ("muted", GREY), ("good", GREEN), ("paper", "#ffffff"))
)
LINES = tuple(f"var(--ens-line-{place}, {colour})" for place, colour in enumerate(PALETTE, start=1))
DASHES = ("none", "7 4", "7 3 2 3", "2 3")  # of lines whose colours are used a second time
EM = 0.63  # mean width of a letter in its size, of wide fonts
FOOT = 2.7  # lines of text below the plane
Subdivision = tuple[tuple[int, ...], int]  # the multiples of a power of ten that are labelled, of every how many powers
SUBDIVISIONS: tuple[Subdivision, ...] = (((1, 2, 5), 1), ((1, 3), 1), *(((1,), every) for every in (1, 2, 3, 5, 20)))
FARTHEST = 1e5  # pixels, of values that are not finite


class Frame(NamedTuple):
    """The size of a picture and of its letters, in pixels."""

    width: float
    height: float
    font: float

    @property
    def line(self) -> float:
        """The distance of two lines of text."""
        return 1.3 * self.font

    def width_of(self, text: str) -> float:
        """Return the width of a text, estimated from above."""
        return EM * self.font * len(text)

    def letters(self, width: float) -> int:
        """Return the number of letters that fit a width."""
        return int(width / (EM * self.font))

    def inside(self, x: float, text: str) -> float:
        """Return the middle of a text at `x`, or as near as it is within the picture."""
        half = self.width_of(text) / 2.0
        return min(max(x, half), max(self.width - half, half))


WIDE, NARROW = Frame(560.0, 232.0, 13.6), Frame(340.0, 300.0, 12.0)


class Label(NamedTuple):
    """A text of a picture."""

    x: float
    y: float
    text: str
    colour: str = TEXT
    anchor: str = "start"


class Shape(NamedTuple):
    """A line or an area of a picture."""

    outline: str
    style: str


class Strip(NamedTuple):
    """A part of the picture over which a pointer reads a text."""

    x: float
    y: float
    width: float
    height: float
    text: str


class Plane(NamedTuple):
    """The area of the curves: its edges in pixels, and the sizes and values at them."""

    left: float
    right: float
    top: float
    bottom: float
    sizes: Limits
    values: Limits

    def x(self, size: Any) -> Any:
        """Return the places of sizes; those beyond the edges are moved to them."""
        first, last = self.sizes
        share = np.log(np.clip(size, first, last) / first) / math.log(last / first)
        return self.left + share * (self.right - self.left)

    def y(self, value: Any) -> Any:
        """Return the places of values, also beyond the edges."""
        low, high = self.values
        with np.errstate(over="ignore"):
            share = (np.asarray(value) - low) / (high - low)
        return np.clip(self.bottom - share * (self.bottom - self.top), -FARTHEST, FARTHEST)

    def holds(self, value: float) -> bool:
        """Return whether a value is between the edges."""
        return self.values[0] <= value <= self.values[1]


def pictures(curves: Sequence[SizeCurve]) -> Markup:
    """Return a picture of curves twice: a wide one, and one for narrow screens, of which a style sheet shows one."""
    wide, narrow = draw_curves(curves, (WIDE, NARROW))
    return _rendered("pictures.html.j2", wide=wide, narrow=narrow)


def draw_curves(curves: Sequence[SizeCurve], frames: Sequence[Frame]) -> list[Markup]:
    """Return a picture of curves, which have to be of one kind, as an SVG element for each frame."""
    sizes = size_limits(curves)
    lines = [curve.drawn(*sizes) for curve in curves]
    levels = [[curve.level, *(curve.tolerance or ())] for curve in curves]
    values = np.concatenate([*(np.ravel(part) for line in lines for part in line[1:]), *levels])
    tips, limits = size_tips(curves, sizes), value_limits(curves, values)
    drawings = [_Drawing(frame, curves, sizes, limits) for frame in frames]
    for drawing in drawings:
        drawing.draw_axes()
        for place, line in enumerate(lines):
            drawing.draw_line(place, *line)
        drawing.draw_marks()
    return [
        _rendered(
            "curve.svg.j2",
            frame=drawing.frame,
            height=drawing.height,
            name=f"{drawing.title}; by {drawing.size_title.lower()}",
            shapes=drawing.shapes,
            labels=drawing.labels,
            strips=_strips(tips, drawing.plane),
        )
        for drawing in drawings
    ]


def _rendered(template: str, **values: Any) -> Markup:
    from markupsafe import Markup

    # Safe: templates escape what they are given.
    return Markup(render(template, **values))


class _Drawing:
    """A picture while it is drawn: the plane of its curves, and what is on it and around it."""

    def __init__(self, frame: Frame, curves: Sequence[SizeCurve], sizes: Limits, values: Limits) -> None:
        self.frame, self.curves = frame, curves
        self.shapes: list[Shape] = []
        self.labels: list[Label] = []
        self.title = curves[0].title
        self.size_title = size_title(curves)
        self.value_ticks = _value_ticks(values, curves[0].is_share)
        left = 10.0 + max((frame.width_of(text) for _, text in self.value_ticks), default=0.0)
        level = _level_lines(curves[0]) if len(curves) == 1 else []
        right = frame.width - max([16.0, *(frame.width_of(text) + 8.0 for text in level)])
        self.plane = Plane(left, right, 0.0, 0.0, sizes, values)
        top = self._write_head()
        # Below many lines of a legend, the plane is still high enough to be read.
        bottom = max(frame.height - FOOT * frame.line, top + 130.0)
        self.height = bottom + FOOT * frame.line
        self.plane = self.plane._replace(top=top, bottom=bottom)

    def _write_head(self) -> float:
        """Write the title and the legend, and return where the plane begins below them and the labels of marks."""
        frame, y = self.frame, 0.0
        for text in textwrap.wrap(self.title, frame.letters(frame.width)):
            y += frame.line
            self.labels.append(Label(0.0, y, text))
        if len(self.curves) > 1:
            return self._write_legend(y + frame.line) + 10.0
        return y + frame.line * (1 + max((row for row, _ in self._rows_of_marks()), default=-1)) + 14.0

    def _write_legend(self, y: float) -> float:
        x, frame = 0.0, self.frame
        for symbol, colour, text in _legend(self.curves, frame.letters(frame.width - 40.0)):
            width = 26.0 + frame.width_of(text)
            if x > 0.0 and x + width > frame.width:
                x, y = 0.0, y + frame.line
            self._draw_symbol(symbol, x + 10.0, y - 0.35 * frame.font, colour)
            self.labels.append(Label(x + 26.0, y, text))
            x += width + 14.0
        return y

    def _draw_symbol(self, symbol: str, x: float, y: float, colour: str) -> None:
        if symbol in ("current", "recommended"):
            self._mark(x, y, colour, is_recommended=symbol == "recommended", is_hollow=True)
        else:
            self._stroke(f"M{x - 10:.1f} {y:.1f}H{x + 10:.1f}", colour, 2.2, symbol)

    def _stroke(self, outline: str, colour: str, width: float, dashes: str = "none", opacity: float = 1.0) -> None:
        style = f"fill: none; stroke: {colour}; stroke-width: {width:g}; stroke-linejoin: round"
        style += "" if dashes == "none" else f"; stroke-dasharray: {dashes}"
        self.shapes.append(Shape(outline, style + ("" if opacity == 1.0 else f"; stroke-opacity: {opacity:g}")))

    def _fill(self, outline: str, colour: str, opacity: float = 1.0) -> None:
        self.shapes.append(Shape(outline, f"fill: {colour}; fill-opacity: {opacity:g}"))

    def draw_axes(self) -> None:
        """Draw both axes with their ticks, and faint lines across the plane."""
        plane, frame = self.plane, self.frame
        for value, text in self.value_ticks:
            y = float(plane.y(value))
            self._stroke(f"M{plane.left:.1f} {y:.1f}H{plane.right:.1f}", TEXT, 1.0, opacity=0.12)
            self.labels.append(Label(plane.left - 6.0, y + 0.35 * frame.font, text, anchor="end"))
        labelled = _size_ticks(plane, frame)
        for size in _log_ticks(plane.sizes, lambda ticks: len(ticks) < 200, ((tuple(range(1, 10)), 1),)):
            length = 6.0 if size in labelled else 3.0
            self._stroke(f"M{plane.x(size):.1f} {plane.bottom:.1f}v{length}", TEXT, 1.0)
        for size in labelled:
            x = frame.inside(float(plane.x(size)), group_digits(size))
            self.labels.append(Label(x, plane.bottom + frame.font + 6.0, group_digits(size), anchor="middle"))
        self._stroke(f"M{plane.left:.1f} {plane.top:.1f}V{plane.bottom:.1f}H{plane.right:.1f}", TEXT, 1.0)
        x = frame.inside((plane.left + plane.right) / 2.0, self.size_title)
        self.labels.append(Label(x, self.height - 0.35 * frame.font, self.size_title, anchor="middle"))

    def draw_line(self, place: int, sizes: FloatArray, values: FloatArray, band: FloatArray) -> None:
        """Draw a curve with its band, as far as they are within the plane."""
        plane, colour = self.plane, LINES[place % len(LINES)]
        if band.size:
            known = ~np.isnan(band).any(axis=0)
            lower, upper = (np.clip(plane.y(end[known]), plane.top, plane.bottom) for end in band)
            x = plane.x(sizes[known])
            outline = _polyline(np.concatenate([x, x[::-1]]), np.concatenate([upper, lower[::-1]]))
            self._fill(outline, colour, band_opacity(len(self.curves)))
        dashes = DASHES[place // len(LINES) % len(DASHES)]
        self._stroke(_cut(plane.x(sizes), plane.y(values), plane.top, plane.bottom), colour, 2.2, dashes)

    def draw_marks(self) -> None:
        """Mark the sizes and the level: with texts where there is one curve, in their colours where there are more."""
        if len(self.curves) == 1:
            self._annotate()
        else:
            self._mark_each()

    def _annotate(self) -> None:
        curve, plane = self.curves[0], self.plane
        if curve.tolerance is not None:
            self._draw_tolerance(curve)
        if curve.level_is_drawable:
            self._draw_level(curve)
        marks = sorted(curve.labelled_marks, key=lambda mark: mark.size)
        for mark, (row, x) in zip(marks, self._rows_of_marks(), strict=True):
            at, colour = float(plane.x(mark.size)), GOOD if mark.is_recommended else TEXT
            self._stroke(f"M{at:.1f} {plane.top - 4.0:.1f}V{plane.bottom:.1f}", colour, 1.2, "1.5 2.5")
            if plane.holds(mark.value):
                self._mark(at, float(plane.y(mark.value)), colour, is_recommended=mark.is_recommended)
            y = plane.top - 10.0 - row * self.frame.line
            self.labels.append(Label(x, y, mark.text, colour, "middle"))

    def _rows_of_marks(self) -> list[tuple[int, float]]:
        """Return for each mark, by size, in which row above the plane its text is, and its middle."""
        marks = sorted(self.curves[0].labelled_marks, key=lambda mark: mark.size)
        end, row, found = -math.inf, 0, []
        for place, mark in enumerate(marks):
            half = self.frame.width_of(mark.text) / 2.0
            # Of two texts, the first ends at its mark, and the second begins there.
            shift = 0.0 if len(marks) == 1 else half - 4.0 if place else 4.0 - half
            x = self.frame.inside(float(self.plane.x(mark.size)) + shift, mark.text)
            row += x - half < end + 8.0
            end = x + half
            found.append((row, x))
        return found

    def _draw_tolerance(self, curve: SizeCurve) -> None:
        plane, font = self.plane, self.frame.font
        low, high = (float(np.clip(plane.y(end), plane.top, plane.bottom)) for end in sorted(curve.tolerance or ()))
        self._fill(f"M{plane.left:.1f} {low:.1f}H{plane.right:.1f}V{high:.1f}H{plane.left:.1f}Z", GOOD, 0.14)
        # At the upper edge of the band where it is high enough, else below it or above it.
        beside = low + 1.1 * font if low + 1.3 * font < plane.bottom else high - 0.4 * font
        y = high + 1.1 * font if low - high > 1.4 * font else beside
        width = self.frame.width_of("enough") + 6.0
        ends = {plane.left + 6.0: plane.left + width, plane.right - width: plane.right}
        x = max(ends, key=lambda start: self._distance(curve, (start, ends[start]), y - 0.35 * font))
        self.labels.append(Label(x, y, "enough", GOOD))

    def _distance(self, curve: SizeCurve, ends: Limits, y: float) -> float:
        """Return how far a curve is from a place that begins and ends at two places of the width."""
        plane = self.plane
        shares = (np.linspace(*ends, 9) - plane.left) / (plane.right - plane.left)
        first, last = plane.sizes
        values = np.array([curve.value_at(first * (last / first) ** share) for share in shares])
        distances = np.abs(plane.y(values) - y)[~np.isnan(values)]
        return float(distances.min(initial=FARTHEST))

    def _draw_level(self, curve: SizeCurve) -> None:
        plane, frame = self.plane, self.frame
        y = float(plane.y(curve.level))
        if plane.holds(curve.level):
            self._stroke(f"M{plane.left:.1f} {y:.1f}H{plane.right:.1f}", MUTED, 1.2, "5 3.5")
        lines = _level_lines(curve)
        height = (len(lines) - 1) * frame.line
        start = min(max(y - height / 2.0 + 0.35 * frame.font, plane.top + 0.7 * frame.font), plane.bottom - height)
        for row, text in enumerate(lines):
            self.labels.append(Label(plane.right + 7.0, start + row * frame.line, text, MUTED))

    def _mark_each(self) -> None:
        plane = self.plane
        for place, curve in enumerate(self.curves):
            colour = LINES[place % len(LINES)]
            # The recommended size first: its mark is larger.
            for name, size, value in sorted(curve.marks, key=lambda mark: mark[0] == "current"):
                y = float(plane.y(value)) if plane.holds(value) else plane.bottom
                self._mark(float(plane.x(size)), y, colour, is_recommended=name != "current", is_hollow=True)
            if curve.level_is_drawable and plane.holds(curve.level):
                self._stroke(f"M{plane.right + 4.0:.1f} {plane.y(curve.level):.1f}h11", colour, 3.0)

    def _mark(self, x: float, y: float, colour: str, *, is_recommended: bool, is_hollow: bool = False) -> None:
        """Draw a diamond for a recommended size, a circle for a current one."""
        outline = f"M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5Z"
        if not is_recommended:
            radius = 3.5 if is_hollow else 4.5
            half = f"a{radius} {radius} 0 0 1"
            outline = f"M{x - radius:.1f} {y:.1f}{half} {2 * radius} 0{half} {-2 * radius} 0Z"
        fill, edge = (PAPER, colour) if is_recommended and is_hollow else (colour, PAPER)
        self.shapes.append(Shape(outline, f"fill: {fill}; stroke: {edge}; stroke-width: 1.6"))


def _level_lines(curve: SizeCurve) -> list[str]:
    return [*curve.level_name.split(), curve.level_text] if curve.level_is_drawable else []


def _legend(curves: Sequence[SizeCurve], letters: int) -> Iterable[tuple[str, str, str]]:
    """Return symbol, colour and text of what several curves and their marks mean."""
    for place, curve in enumerate(curves):
        dashes = DASHES[place // len(LINES) % len(DASHES)]
        yield dashes, LINES[place % len(LINES)], printable(curve.name, min(letters, LONGEST_LABEL))
    for name in dict.fromkeys(name for curve in curves for name, _, _ in curve.marks):
        yield "current" if name == "current" else "recommended", TEXT, f"{name} size"
    for name in dict.fromkeys(curve.level_name for curve in curves if curve.level_is_drawable):
        yield "none", TEXT, f"{name}, beside the chart"


def _value_ticks(limits: Limits, is_share: bool) -> list[tuple[float, str]]:
    """Return the values that are labelled on their axis, with the labels."""
    low, high = (100.0 * end for end in limits) if is_share else limits
    least = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(least))
    step = next((factor * unit for factor in (1.0, 2.0, 2.5, 5.0) if factor * unit >= least), 10.0 * unit)
    values = step * np.arange(math.ceil(low / step), math.floor(high / step) + 1) + 0.0
    is_long = not 1e-4 <= float(np.abs(values).max(initial=1.0)) < 1e7
    decimals = max(0, next((n for n in range(12) if abs(step * 10**n - round(step * 10**n)) < 1e-6), 0))
    labels = [f"{value:.4g}" if is_long else f"{value:,.{decimals}f}".replace(",", "\u202f") for value in values]
    return [(value / 100.0 if is_share else value, label) for value, label in zip(values, labels, strict=True)]


def _log_ticks(
    limits: Limits, fit: Callable[[list[float]], bool], subdivisions: tuple[Subdivision, ...] = SUBDIVISIONS
) -> list[float]:
    """Return the labelled places of a logarithmic axis, of the finest subdivision whose labels fit."""
    powers = range(math.floor(math.log10(limits[0])), math.ceil(math.log10(limits[1])) + 1)
    for factors, every in subdivisions:
        ticks = [factor * 10.0**power for power in powers if power % every == 0 for factor in factors]
        shown = [tick for tick in ticks if limits[0] <= tick <= limits[1]]
        if fit(shown):
            return shown
    return []


def _size_ticks(plane: Plane, frame: Frame) -> list[float]:
    """Return the sizes that are labelled on their axis: as many as have room beside each other."""

    def fit(ticks: list[float]) -> bool:
        places = [(float(plane.x(size)), frame.width_of(group_digits(size)) / 2.0) for size in ticks]
        return all(x - half > end + rest + 8.0 for (end, rest), (x, half) in itertools.pairwise(places))

    return _log_ticks(plane.sizes, fit)


def _polyline(x: FloatArray, y: FloatArray) -> str:
    points = " ".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))
    return f"M{points}Z" if points else ""


def _cut(x: FloatArray, y: FloatArray, top: float, bottom: float) -> str:
    """Return the outline of a line between two heights, which it may leave and enter again."""
    for height in (top, bottom):
        crossed = np.flatnonzero((y[:-1] - height) * (y[1:] - height) < 0.0)
        share = (height - y[crossed]) / (y[crossed + 1] - y[crossed])
        x = np.insert(x, crossed + 1, x[crossed] + share * (x[crossed + 1] - x[crossed]))
        y = np.insert(y, crossed + 1, height)
    is_shown = (y >= top) & (y <= bottom)
    begins = is_shown & ~np.concatenate([[False], is_shown[:-1]])
    points = zip(x[is_shown], y[is_shown], begins[is_shown], strict=True)
    return "".join(f"{'M' if begin else 'L'}{a:.1f} {b:.1f}" for a, b, begin in points)


def _strips(tips: Sequence[SizeTip], plane: Plane) -> list[Strip]:
    """Return the strips of a picture over which a pointer reads the values at their sizes."""
    places = [float(plane.x(tip.size)) for tip in tips]
    edges = [plane.left, *(sum(pair) / 2.0 for pair in itertools.pairwise(places)), plane.right]
    return [
        Strip(start, plane.top, end - start, plane.bottom - plane.top, tip.text)
        for tip, (start, end) in zip(tips, itertools.pairwise(edges), strict=False)
    ]
