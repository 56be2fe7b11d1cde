"""The axes of a chart over ensemble sizes: their limits, scales and labels, and texts beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ens_plugin.core.validation import FloatArray
from ens_plugin.report.plots.size_curve import LARGEST_DRAWN, SizeCurve, shown_sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

__all__ = ["group_digits", "limit_sizes", "scale_values", "write"]

SMALLEST_LOGGED = 1e-12  # relative excess error; rounding errors would fill most of a logarithmic axis

Limits = tuple[float, float]


def limit_sizes(ax: Axes, curves: Sequence[SizeCurve], earlier: Limits | None) -> Limits:
    """Set up the logarithmic size axis for the sizes of all curves and earlier limits; return its limits."""
    ends = [shown_sizes(curve) for curve in curves]
    if earlier is not None:
        # A linear axis may begin at or below 0, which a logarithmic one cannot show.
        ends.append((earlier[0] if earlier[0] > 0 else math.inf, earlier[1]))
    first, last = min(first for first, _ in ends), max(last for _, last in ends)
    ax.set_xscale("log")
    ax.set_xlim(first, last)
    _label_sizes(ax)
    ax.spines[["top", "right"]].set_visible(False)
    return first, last


def _label_sizes(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.xaxis.set_major_locator(LogLocator(10.0, subs=_labelled_steps(ax), numticks=12))
    ax.xaxis.set_minor_locator(LogLocator(10.0, subs=tuple(range(2, 10)), numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: group_digits(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("Ensemble size (members)")


def _labelled_steps(ax: Axes) -> tuple[float, ...]:
    """Return the multiples of powers of ten that are labelled on the size axis, as many as fit its width."""
    first, last = ax.get_xlim()
    # A layout engine reserves about 0.8 inches of the width for the labels on either side.
    inches = (ax.get_window_extent().width / ax.figure.dpi - 0.8) / math.log10(last / first)
    return (1.0, 2.0, 5.0) if inches > 1.8 else (1.0, 3.0) if inches > 1.15 else (1.0,)


def scale_values(ax: Axes, curves: Sequence[SizeCurve], values: FloatArray, earlier: Limits | None) -> None:
    """Set scale and limits of the other axis so that it covers the values and earlier limits."""
    if curves[0].is_log:
        ax.set_yscale("log")
    is_log = ax.get_yscale() == "log"
    low, high = _log_limits(values) if is_log else _linear_limits(values, curves[0].ceiling)
    if earlier is not None:
        bottom, top = sorted(earlier)
        low, high = min(low, bottom) if bottom > 0.0 or not is_log else low, max(high, top)
    ax.set_ylim(low, high)


def _linear_limits(values: FloatArray, ceiling: float) -> Limits:
    drawable = values[np.abs(values) <= LARGEST_DRAWN]
    low, high = (float(drawable.min()), float(drawable.max())) if drawable.size else (0.0, 0.0)
    room = 0.06 * (high - low or abs(high) or 0.01)
    return max(low - room, 0.0) if low >= 0.0 else low - room, min(high + room, ceiling)


def _log_limits(values: FloatArray) -> Limits:
    drawable = values[(values >= SMALLEST_LOGGED) & (values <= LARGEST_DRAWN)]
    low, high = (float(drawable.min()), float(drawable.max())) if drawable.size else (0.01, 0.01)
    return low / 1.5, high * 1.5


def group_digits(number: float) -> str:
    """Return a number as text with narrow spaces between groups of three digits."""
    return f"{number:,.6g}".replace(",", "\u202f")


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
