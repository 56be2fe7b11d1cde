"""What all figures share: colours, style, new axes, labels in percent."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "default_style", "label_in_percent", "new_axes"]

# From Okabe and Ito's palette, distinct in every common kind of colour vision; green darkened for thin lines.
BLUE, ORANGE, GREEN, INK, GREY = "#0072B2", "#E69F00", "#007A5A", "#222222", "#666666"

# matplotlib's settings and the warning filters are the whole process's: two threads that change and put them back
# in turn would leave the changes of one of them behind.
_drawing = threading.RLock()


def _renew_lock() -> None:
    global _drawing
    _drawing = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A thread that draws while the process is forked does not exist in the child, and would never let go.
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def default_style(font_size: float = 10.0) -> Iterator[None]:
    """Draw in matplotlib's default style, whatever the user's is, in one thread at a time and without warnings.

    Parameters
    ----------
    font_size : float, default=10.0
        In points.  The text of SVG pictures stays text.
    """
    import matplotlib
    from matplotlib import style

    with (
        _drawing,
        warnings.catch_warnings(),
        style.context("default"),
        matplotlib.rc_context({"svg.fonttype": "none", "font.size": font_size}),
    ):
        # About fonts and layouts, of which the reader of a report can change nothing.
        warnings.simplefilter("ignore")
        yield


def new_axes() -> Axes:
    """Return the only axes of a new pyplot figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def label_in_percent(axis: Axis) -> None:
    """Label the major ticks of an axis of shares in percent, without a sign, and no minor ones."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:.6g}"))
    axis.set_minor_formatter(NullFormatter())
