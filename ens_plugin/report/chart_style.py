"""Elements common to all figures: colours, style, new axes, labels in percent."""

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
def default_style(font_size: float = 10.0) -> Iterator[None]:
    """Set matplotlib's default style in place of the user's, for one thread at a time and without warnings.

    Parameters
    ----------
    font_size : float, default=10.0
        In points.  The text of SVG figures is saved as text, not as paths.
    """
    import matplotlib
    from matplotlib import style

    with (
        _drawing,
        warnings.catch_warnings(),
        style.context("default"),
        matplotlib.rc_context({"svg.fonttype": "none", "font.size": font_size}),
    ):
        # They are about fonts and layouts, which the reader of a report cannot change.
        warnings.simplefilter("ignore")
        yield


def new_axes() -> Axes:
    """Make a pyplot figure with one pair of axes and return the axes."""
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def label_in_percent(axis: Axis) -> None:
    """Label the major ticks of an axis of shares in percent, without a percent sign; label no minor ticks."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:.6g}"))
    axis.set_minor_formatter(NullFormatter())
