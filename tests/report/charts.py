"""Reports to draw, and what is drawn: texts, curves, and texts that cover each other."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from tests import reports

REPORTS = reports.all_reports()
WIDE, NARROW = (7.5, 2.75), (3.5, 2.9)


def new_axes(inches: tuple[float, float] = (6.4, 4.0)) -> Axes:
    return Figure(figsize=inches, layout="constrained").subplots()


def draw(ax: Axes) -> Figure:
    figure = ax.get_figure()
    figure.draw_without_rendering()
    return figure


def visible_texts(ax: Axes) -> list[Text]:
    # Ticks outside the limits keep their Text, which matplotlib never draws.
    ticks = [
        tick.label1
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim()))
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        if min(limits) <= tick.get_loc() <= max(limits)
    ]
    legend = ax.get_legend()
    texts = [*ax.texts, ax.xaxis.label, ax.yaxis.label, *ticks, *(legend.get_texts() if legend else [])]
    return [text for text in texts if text.get_visible() and text.get_text()]


def misplaced(ax: Axes) -> list[str]:
    """Texts that cover another text or leave the figure."""
    frame = draw(ax).bbox.padded(1)
    boxes = [(text.get_text(), text.get_window_extent()) for text in visible_texts(ax)]
    covering = [f"{one!r} covers {other!r}" for (one, a), (other, b) in combinations(boxes, 2) if a.overlaps(b)]
    leaving = [
        f"{name!r} leaves the figure"
        for name, box in boxes
        if not (frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1))
    ]
    return covering + leaving


def heights(line: Line2D) -> list[float]:
    return [float(value) for value in np.asarray(line.get_ydata())]


def labels_above(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text().startswith(("current", "recommended"))]


def drawn_curves(ax: Axes) -> list[Line2D]:
    return [line for line in ax.lines if np.asarray(line.get_xdata()).size > 20]
