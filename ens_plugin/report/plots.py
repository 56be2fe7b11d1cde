"""Charts of a report: the error by size, and the quantity from which the size is recommended."""

from __future__ import annotations

import math
import os
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from ens_plugin.core.validation import FloatArray, printable
from ens_plugin.errors import InputError
from ens_plugin.report.result import ErrorCurve, ReportContent, SizeRecommendation
from ens_plugin.report.size_curves import (
    GREEN,
    GREY,
    INK,
    LONGEST_LABEL,
    PALETTE,
    Limits,
    SizeCurve,
    band_opacity,
    criterion_curve,
    curve_of_error,
    group_digits,
    measure_curve,
    size_limits,
    size_title,
    value_limits,
)
from ens_plugin.report.text import member_noun

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation
    from matplotlib.transforms import Transform

DASHES: tuple[Literal["-", "--", "-.", ":"], ...] = ("-", "--", "-.", ":")

# What is drawn for which curve.  The artists themselves know their axes, so that what a user clears is forgotten.
_curve_of: WeakKeyDictionary[Line2D, SizeCurve] = WeakKeyDictionary()
_additions: WeakSet[Artist] = WeakSet()

# matplotlib's settings and the warning filters belong to the process: of two threads that change and restore them
# at the same time, one would leave its changes in place.
_drawing = threading.RLock()


def _renew_lock() -> None:
    global _drawing
    _drawing = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A thread that draws while the process is forked does not exist in the child, and would never release the lock.
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def default_style() -> Iterator[None]:
    """Set matplotlib's default style in place of the user's, for one thread at a time and without warnings."""
    import matplotlib
    from cycler import cycler
    from matplotlib import style

    settings: dict[Any, Any] = {"axes.prop_cycle": cycler(color=PALETTE)}
    with (
        _drawing,
        warnings.catch_warnings(),
        style.context("default"),
        matplotlib.rc_context(settings),
    ):
        # They are about fonts and layouts, which the reader of a report cannot change.
        warnings.simplefilter("ignore")
        yield


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new pyplot figure with one pair of axes."""
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    if ax is not None:
        raise InputError(
            f"ax is of type {type(ax).__name__} and no axes of matplotlib; pass one, such as axes[0] of "
            "figure, axes = plt.subplots(1, 2), or leave ax out for a new figure."
        )
    import matplotlib
    import matplotlib.pyplot as plt

    ax = plt.subplots(layout="constrained")[1]
    # Matplotlib's own colours are not distinct in every common kind of colour vision; a user's own stay.
    if matplotlib.rcParams["axes.prop_cycle"] == matplotlib.rcParamsDefault["axes.prop_cycle"]:
        ax.set_prop_cycle(color=PALETTE)
    return ax


class Inks(NamedTuple):
    """Colours of texts, of the recommended size, and of the background of axes."""

    ink: str
    muted: str
    good: str
    paper: str


def inks_of(ax: Axes) -> Inks:
    """Return the colours that are legible on the background of axes, in a user's dark style as in a light one."""
    from matplotlib.colors import to_hex, to_rgba

    faces = [ax.get_facecolor(), ax.figure.get_facecolor(), "white"]
    red, green, blue, _ = paper = next(face for face in map(to_rgba, faces) if face[3] > 0.0)
    # By its luminance, the background is light.
    if 0.2126 * red + 0.7152 * green + 0.0722 * blue >= 0.4:
        return Inks(INK, GREY, GREEN, to_hex(paper))
    return Inks("#EEEEEE", "#AAAAAA", "#3DDBA8", to_hex(paper))


def label_text(label: object) -> str:
    """Return a label that a user gave as text, as matplotlib does: 0 is a label too, and None is none."""
    return "" if label is None else str(label)


def legend_label(name: str, taken: set[str]) -> str:
    r"""Return a name as a label that matplotlib shows as it is, numbered if it is taken."""
    text = printable(name, LONGEST_LABEL).replace("$", r"\$")
    # matplotlib leaves labels that begin with an underscore out of legends.
    text = f" {text}" if text.startswith("_") else text
    numbered = (f"{text} ({number})" for number in range(2, len(taken) + 3))
    return text if text not in taken else next(label for label in numbered if label not in taken)


def merge_legend(ax: Axes) -> None:
    """Draw one legend of everything on the axes that has a label, in place of an earlier one, with its title."""
    earlier = ax.get_legend()
    title = earlier.get_title().get_text() if earlier is not None else ""
    ax.legend(title=title or None, fontsize="small", framealpha=0.85)


def label_in_percent(axis: Axis) -> None:
    """Label the major ticks of an axis of shares in percent, without a percent sign; label no minor ticks."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:.6g}"))
    axis.set_minor_formatter(NullFormatter())


def limit_sizes(ax: Axes, curves: Sequence[SizeCurve], earlier: Limits | None) -> Limits:
    """Set up the logarithmic size axis for the sizes of all curves and earlier limits; return its limits."""
    first, last = size_limits(curves)
    if earlier is not None:
        # A linear axis may begin at or below 0, which a logarithmic one cannot show.
        first, last = min(first, earlier[0]) if earlier[0] > 0 else first, max(last, earlier[1])
    ax.set_xscale("log")
    ax.set_xlim(first, last)
    _label_sizes(ax.xaxis, _labelled_steps(ax))
    ax.set_xlabel(size_title(curves))
    ax.spines[["top", "right"]].set_visible(False)
    return first, last


def _label_sizes(axis: Axis, steps: tuple[float, ...]) -> None:
    """Label a logarithmic axis at these multiples of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10.0, subs=steps, numticks=12))
    axis.set_minor_locator(LogLocator(10.0, subs=tuple(range(2, 10)), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, _: group_digits(value)))
    axis.set_minor_formatter(NullFormatter())


def _labelled_steps(ax: Axes) -> tuple[float, ...]:
    """Return the multiples of powers of ten that are labelled on the size axis, as many as fit its width."""
    first, last = ax.get_xlim()
    # A layout engine reserves about 0.8 inches of the width for the labels on either side.
    inches = (ax.get_window_extent().width / ax.figure.dpi - 0.8) / math.log10(last / first)
    return (1.0, 2.0, 5.0) if inches > 1.8 else (1.0, 3.0) if inches > 1.15 else (1.0,)


def scale_values(ax: Axes, curves: Sequence[SizeCurve], values: FloatArray, earlier: Limits | None) -> None:
    """Set the limits of the other axis so that it covers the values and earlier limits."""
    low, high = value_limits(curves, values)
    bottom, top = (low, high) if earlier is None else sorted(earlier)
    low, high = min(low, bottom), max(high, top)
    if ax.get_yscale() == "log" and low <= 0.0:
        low = float(values[values > 0.0].min(initial=high))
    ax.set_ylim(low, high)


def write(
    ax: Axes, text: str, at: tuple[float, float], coordinates: Any, offset: tuple[int, int], **style: Any
) -> Annotation:
    """Write a small text at a point, also outside the axes, and return it."""
    return ax.annotate(
        text,
        at,
        xycoords=coordinates,
        xytext=offset,
        textcoords="offset points",
        fontsize="small",
        linespacing=1.1,
        annotation_clip=False,
        parse_math=False,
        **style,
    )


def add_curves(ax: Axes, curves: Sequence[SizeCurve]) -> Axes:
    """Draw curves on axes beside those that are there, with the next colours of the axes' property cycle."""
    for curve in curves:
        _refuse_other_quantity(ax, curve)
        is_used = ax.has_data()
        earlier = (ax.get_xlim(), ax.get_ylim()) if is_used else None
        _start_line(ax, curve)
        _draw(ax, earlier)
    return ax


def size_lines(ax: Axes) -> list[Line2D]:
    """Return the lines of the curves over sizes that axes show, in the order in which they were drawn."""
    return [line for line in ax.lines if line in _curve_of]


def _refuse_other_quantity(ax: Axes, curve: SizeCurve) -> None:
    for line in size_lines(ax):
        shown = _curve_of[line]
        if shown.kind != curve.kind:
            raise InputError(
                f"These axes show curves of {shown.title!r}, and this one is of "
                f"{curve.title!r}, which cannot be read off the same axis; draw it on axes of its own, "
                "for example on one of plt.subplots(1, 2)."
            )


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
    # One curve has its sizes and its level written beside the axes. As soon as there are several, all have marks in
    # their own colours and a common legend, which also has whatever else on these axes has a label.
    for artist in [artist for artist in ax.get_children() if artist in _additions]:
        artist.remove()
    lines = size_lines(ax)
    curves = [_curve_of[line] for line in lines]
    shown = limit_sizes(ax, curves, earlier and earlier[0])
    values: list[FloatArray] = []
    for line, curve in zip(lines, curves, strict=True):
        values += _draw_line(ax, line, curve, shown, len(lines))
    scale_values(ax, curves, np.concatenate(values), earlier and earlier[1])
    lines_of_name = "\n".join([curves[0].quantity, *curves[0].notes]).splitlines()
    ax.set_ylabel("\n".join(textwrap.fill(text, 36) for text in lines_of_name), parse_math=False)
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
        style: dict[str, Any] = {"color": line.get_color(), "alpha": band_opacity(n_curves), "linewidth": 0}
        _add(ax.fill_between(sizes, lower, upper, label=name, **style))
    return [lower, upper, values, np.array([curve.level, *(curve.tolerance or ())])]


def _add(*artists: Artist) -> None:
    _additions.update(artists)


def _annotate(ax: Axes, line: Line2D, curve: SizeCurve, last: float) -> None:
    """Write the level and the marked sizes of the only curve beside the axes."""
    inks = inks_of(ax)
    if curve.tolerance is not None:
        _add(ax.axhspan(*curve.tolerance, color=inks.good, alpha=0.10, linewidth=0, zorder=0.6, label="enough"))
    if curve.level_is_drawable:
        _draw_level(ax, curve, inks)
    # Each label has a row of its own above the axes, so that labels never overlap.
    for row, (size, value, text, is_recommended) in enumerate(curve.labelled_marks):
        colour, marker = (inks.good, "D") if is_recommended else (inks.ink, "o")
        _add(ax.axvline(size, color=colour, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.4))
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


def plot_error_curve(
    curve: ErrorCurve,
    *,
    n_members: int | None = None,
    recommended_size: int | None = None,
    label: object = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the error against the ensemble size, with its interval and the error of the infinite ensemble.

    Parameters
    ----------
    curve : ErrorCurve
    n_members : int, optional
        Current size, to be marked.
    recommended_size : int, optional
        Recommended size, to be marked.
    label : object, optional
        Name of the curve in a legend, as text; that of its metric if None or empty.
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.  Labels above and right of the axes need
        room in the figure (``layout="constrained"`` leaves it).  The colour is the next of the axes' property
        cycle.  Where the axes already show a curve of this kind, labels give way to marks in the colours of the
        curves, and to one legend.

    Returns
    -------
    matplotlib Axes
        The size axis is logarithmic; the 0-1 error is drawn as a share and labelled in percent.

    Raises
    ------
    InputError
        If `n_members` or `recommended_size` is below 1, or the axes show curves of another metric, positive label or
        level of intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from ens_plugin import ErrorCurve
    >>> from ens_plugin.report.plots import plot_error_curve
    >>> sizes = np.array([1, 11, 101, 1001])
    >>> error = 0.04 + 0.1 / sizes
    >>> curve = ErrorCurve(sizes, error, error - 0.01, error + 0.01, 0.04, (0.03, 0.05), 0.04,
    ...                    "deconvolved", "0-1 error", 0.95)
    >>> ax = plot_error_curve(curve, n_members=100, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'Ensemble size (members)'
    """
    drawn = curve_of_error(curve, label_text(label) or curve.key, n_members, recommended_size, "recommended")
    return add_curves(axes_or_new(ax), [drawn])


def plot_reports(reports: Mapping[str, ReportContent], ax: Axes | None = None) -> Axes:
    """Draw the error curves of reports by name, each with its current and its recommended size; return the axes.

    Raises
    ------
    InputError
        If the curves, or those that the axes show, are of several metrics, positive labels or levels of intervals.

    Examples
    --------
    >>> import ens_plugin
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.report.plots import plot_reports
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> ax = plot_reports({"forest": report}, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'Ensemble size (trees)'
    """
    return add_curves(axes_or_new(ax), [measure_curve(name, report) for name, report in reports.items()])


def plot_agreement(
    recommendation: SizeRecommendation,
    *,
    n_members: int | None = None,
    label: str | None = None,
    size_name: str = "recommended",
    noun: str = "member",
    ax: Axes | None = None,
) -> Axes:
    """Draw the quantity from which the size is recommended against the ensemble size, and what is enough of it.

    That is the agreement of labels with the infinite ensemble, the Brier score of the probabilities, the error or a
    metric.  A band shows the values that lose no more than is allowed.

    Parameters
    ----------
    recommendation : SizeRecommendation
    n_members : int, optional
        Current size, to be marked.
    label : str, optional
        Name of the curve in a legend; that of the criterion if None.
    size_name : str, default="recommended"
        Name of the size beside its mark.
    noun : str, default="member"
        What one member is called, as in "Ensemble size (members)".
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure with one if None.  On axes that already show such a curve, the band is left out
        and the sizes are marked on the curves, in the next colours of the axes' property cycle.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If `n_members` is below 1, or the axes show curves of another criterion.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from ens_plugin import SizeRecommendation
    >>> from ens_plugin.report.plots import plot_agreement
    >>> sizes = np.array([1, 11, 101, 1001])
    >>> advice = SizeRecommendation(101, "agreement", 0.01, 0.02, 1.0, 0.98, (51, 201), "", 20001, True, sizes,
    ...                             np.array([0.1, 0.04, 0.01, 0.001]))
    >>> ax = plot_agreement(advice, n_members=50, ax=Figure().subplots())
    >>> ax.get_xscale()
    'log'
    """
    name = label or recommendation.criterion.replace("_", " ")
    return add_curves(axes_or_new(ax), [criterion_curve(recommendation, n_members, name, size_name, noun)])


def report_figures(report: ReportContent) -> dict[str, Figure]:
    """Return the figures of a report by name of their file, drawn in matplotlib's default style."""
    from matplotlib.figure import Figure

    advice, name = report.recommendation, report.size_name
    plots: dict[str, Callable[..., Axes]] = {
        "error_curve.png": partial(plot_reports, {report.model: report}),
        "agreement.png": partial(
            plot_agreement, advice, n_members=report.n_members, size_name=name, noun=member_noun(report)
        ),
    }
    figures = {}
    # Under a user's dark style the fixed colours above would not be legible.
    with default_style():
        for name, plot in plots.items():
            figures[name] = Figure(figsize=(6.4, 4.0), dpi=150, layout="constrained")
            plot(ax=figures[name].subplots())
    return figures
