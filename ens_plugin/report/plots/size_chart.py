"""A chart over ensemble sizes: one curve with labels beside it, or several with colours and a legend of their own."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import InputError
from ens_plugin.report.chart_style import Inks, inks_of, label_in_percent, legend_label, merge_legend
from ens_plugin.report.plots.size_axis import group_digits, limit_sizes, scale_values, write
from ens_plugin.report.plots.size_curve import SizeCurve

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Transform

__all__ = ["add_curves"]

DASHES: tuple[Literal["-", "--", "-.", ":"], ...] = ("-", "--", "-.", ":")
FEW_BANDS = 3
LONGEST_LINE = 36  # of the name of an axis, in characters

# What is drawn for which curve.  The artists themselves know their axes, so that what a user clears is forgotten.
_curve_of: WeakKeyDictionary[Line2D, SizeCurve] = WeakKeyDictionary()
_additions: WeakSet[Artist] = WeakSet()


def add_curves(ax: Axes, curves: Sequence[SizeCurve]) -> Axes:
    """Draw curves on axes beside those that are there, with the next colours of the axes' property cycle.

    One curve has its sizes and its level written beside the axes.  As soon as there are several, all have marks in
    their own colours and a common legend, which also has whatever else on these axes has a label.

    Raises
    ------
    InputError
        If the axes show curves of another quantity.
    """
    for curve in curves:
        _refuse_other_quantity(ax, curve)
        is_used = ax.has_data()
        earlier = (ax.get_xlim(), ax.get_ylim()) if is_used else None
        _start_line(ax, curve)
        _draw(ax, earlier)
    return ax


def _lines(ax: Axes) -> list[Line2D]:
    return [line for line in ax.lines if line in _curve_of]


def _refuse_other_quantity(ax: Axes, curve: SizeCurve) -> None:
    for line in _lines(ax):
        shown = _curve_of[line]
        if shown.kind != curve.kind:
            raise InputError(
                f"These axes show curves of {_one_line(shown.quantity)!r}, and this one is of "
                f"{_one_line(curve.quantity)!r}, which cannot be read off the same axis; draw it on axes of its own, "
                "for example on one of plt.subplots(1, 2)."
            )


def _one_line(text: str) -> str:
    return text.replace("\n", ", ")


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.fill(line, LONGEST_LINE) for line in text.splitlines())


def _start_line(ax: Axes, curve: SizeCurve) -> None:
    taken = set(ax.get_legend_handles_labels()[1])
    styles = {(line.get_color(), line.get_linestyle()) for line in ax.lines}
    (line,) = ax.plot([], [], linewidth=1.8, label=legend_label(curve.name, taken))
    # A cycle of few colours starts again: dashes then distinguish the lines.
    for dashes in DASHES:
        if (line.get_color(), line.get_linestyle()) not in styles:
            break
        line.set_linestyle(dashes)
    _curve_of[line] = curve


def _draw(ax: Axes, earlier: tuple[tuple[float, float], tuple[float, float]] | None) -> None:
    """Draw all curves of the axes anew, within limits that show them and whatever was shown earlier."""
    for artist in [artist for artist in ax.get_children() if artist in _additions]:
        artist.remove()
    lines = _lines(ax)
    curves = [_curve_of[line] for line in lines]
    shown = limit_sizes(ax, curves, earlier and earlier[0])
    values: list[FloatArray] = []
    for line, curve in zip(lines, curves, strict=True):
        values += _draw_line(ax, line, curve, shown, len(lines))
    scale_values(ax, curves, np.concatenate(values), earlier and earlier[1])
    ax.set_ylabel(_wrapped(curves[0].quantity), parse_math=False)
    if curves[0].is_share:
        label_in_percent(ax.yaxis)
    if len(lines) == 1:
        _annotate(ax, lines[0], curves[0], shown[1])
    else:
        _mark(ax, lines)
    if len(lines) > 1 or ax.get_legend() is not None:
        merge_legend(ax)


def _draw_line(ax: Axes, line: Line2D, curve: SizeCurve, shown: tuple[float, float], n_curves: int) -> list[FloatArray]:
    """Set the data of a line and draw its band; return all values that the axis should show."""
    sizes, values, (lower, upper) = curve.drawn(*shown)
    line.set_data(sizes, values)
    if lower.size:
        name = "interval" if n_curves == 1 else "_"
        alpha = 0.18 if n_curves <= FEW_BANDS else 0.08
        _add(ax.fill_between(sizes, lower, upper, color=line.get_color(), alpha=alpha, linewidth=0, label=name))
    return [lower, upper, values, np.array([curve.level])]


def _add(*artists: Artist) -> None:
    _additions.update(artists)


def _annotate(ax: Axes, line: Line2D, curve: SizeCurve, last: float) -> None:
    """Write the level and the marked sizes of the only curve beside the axes."""
    inks = inks_of(ax)
    if curve.level_is_drawable:
        _draw_level(ax, curve, inks)
    if curve.size_interval is not None and not math.isnan(curve.level):
        _draw_size_interval(ax, curve.level, curve.size_interval, last, inks.good)
    marks = curve.marks
    if curve.n_members is not None and curve.n_members == curve.recommended_size:
        marks = [(f"current = {curve.size_name}", *marks[0][1:])]
    # Each label has a row of its own above the axes, so that labels never overlap.
    for row, (name, size, value) in enumerate(marks):
        colour, marker = (inks.good, "D") if name == curve.size_name else (inks.ink, "o")
        _add(ax.axvline(size, color=colour, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.4))
        text = f"{name} {group_digits(size)}"
        if not math.isnan(value):
            text = f"{text}: {curve.as_text(value)}"
        if _is_shown(ax, value):
            # An unclipped mark outside the axes would enlarge the saved figure.
            style = {"color": colour, "markeredgecolor": inks.paper, "clip_on": False, "zorder": 4}
            _add_line(ax, [size], [value], marker=marker, linestyle="", **style)
        at, offset = ("data", "axes fraction"), (0, 4 + 13 * row)
        _add(write(ax, text, (size, 1.0), at, offset, color=colour, ha=_side(ax, size), va="bottom"))


def _is_shown(ax: Axes, value: float) -> bool:
    bottom, top = ax.get_ylim()
    return bottom <= value <= top


def _side(ax: Axes, size: float) -> str:
    first, last = ax.get_xlim()
    across = math.log(size / first) / math.log(last / first)
    return "left" if across < 0.4 else "right" if across > 0.6 else "center"


def _draw_level(ax: Axes, curve: SizeCurve, inks: Inks) -> None:
    _add(ax.axhline(curve.level, color=inks.muted, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1.5))
    height = ax.transAxes.inverted().transform(ax.transData.transform((1.0, curve.level)))[1]
    anchor = "bottom" if height < 0.15 else "top" if height > 0.85 else "center"
    text = "\n".join([*curve.level_name.split(), curve.level_text])
    at = ("axes fraction", "data")
    _add(write(ax, text, (1.0, curve.level), at, (5, 0), color=inks.muted, va=anchor))


def _draw_size_interval(ax: Axes, level: float, interval: tuple[int, int | None], last: float, colour: str) -> None:
    low, high = interval
    ends = [low, last if high is None else high]
    _add_line(ax, ends, [level, level], color=colour, linewidth=4, alpha=0.45, zorder=2)
    if high is None:
        _add_line(ax, [last], [level], marker=">", linestyle="", color=colour, markersize=7, clip_on=False, zorder=4)


def _add_line(ax: Axes, x: Sequence[float], y: Sequence[float], **style: Any) -> None:
    """Add a line or marks to the axes without ``Axes.plot``, which would use up an entry of the property cycle."""
    from matplotlib.lines import Line2D

    _add(ax.add_line(Line2D(x, y, **style)))


def _mark(ax: Axes, lines: list[Line2D]) -> None:
    """Mark sizes and levels of several curves in their colours, and explain the marks in the legend."""
    from matplotlib.colors import to_hex

    inks = inks_of(ax)
    explained: dict[str, str] = {}
    for line in lines:
        curve, colour = _curve_of[line], to_hex(line.get_color())
        for name, size, value in curve.marks:
            marker = "o" if name == "current" else "D"
            explained[f"{name} size"] = marker
            _draw_curve_mark(ax, size, value, colour, marker, inks.paper)
        if curve.level_is_drawable:
            explained[curve.level_name] = "_"
            _draw_level_tick(ax, curve.level, colour)
    for name, marker in explained.items():
        face = "none" if marker == "D" else inks.ink
        _add_line(ax, [], [], marker=marker, linestyle="", color=inks.ink, markerfacecolor=face, label=name)


def _draw_curve_mark(ax: Axes, size: float, value: float, colour: str, marker: str, paper: str) -> None:
    """Mark a size on its curve, or on the size axis where the curve does not reach it."""
    on_curve = _is_shown(ax, value)
    # Both marks stay visible where the current size is the recommended one.
    style: dict[str, Any] = {"markersize": 8.5, "markeredgecolor": colour} if marker == "D" else {"markersize": 5.0}
    _add_mark(
        ax,
        (size, value if on_curve else 0.0),
        ax.transData if on_curve else ax.get_xaxis_transform(),
        marker=marker,
        color=colour,
        markerfacecolor=paper if marker == "D" else colour,
        zorder=4 if marker == "D" else 5,
        **style,
    )


def _draw_level_tick(ax: Axes, level: float, colour: str) -> None:
    from matplotlib.path import Path

    if _is_shown(ax, level):
        # Off the axes, so that it is not taken for the end of the curve. Layouts leave half a marker's size beside it.
        dash = Path([(0.35, 0.0), (1.0, 0.0)])
        style = {"marker": dash, "markersize": 20, "markeredgewidth": 2.5, "color": colour}
        _add_mark(ax, (1.0, level), ax.get_yaxis_transform(), **style)


def _add_mark(ax: Axes, at: tuple[float, float], transform: Transform, **style: Any) -> None:
    from matplotlib.lines import Line2D

    mark = Line2D([at[0]], [at[1]], linestyle="", **style)
    mark.set_transform(transform)
    mark.set_clip_on(False)
    _add(ax.add_artist(mark))
