"""Elements common to all figures: colours, style, new axes, legends, labels in percent."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ens_plugin.core.validation import printable, with_article
from ens_plugin.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = [
    "BLUE", "GREEN", "GREY", "INK", "ORANGE", "PALETTE", "Inks", "axes_or_new", "default_style", "inks_of",
    "label_in_percent", "label_text", "legend_label", "merge_legend",
]  # fmt: skip

# From Okabe and Ito's palette, distinct in every common kind of colour vision; green darkened for thin lines.
BLUE, ORANGE, GREEN, INK, GREY = "#0072B2", "#E69F00", "#007A5A", "#222222", "#666666"
# The property cycle of axes that are made here.
PALETTE = (BLUE, "#D55E00", GREEN, "#A6498C", "#2F9FD8", "#B8860B")

LONGEST_LABEL = 48
DARKEST_PAPER = 0.4  # luminance from which on a background is light

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
    from cycler import cycler
    from matplotlib import style

    settings: dict[Any, Any] = {
        "svg.fonttype": "none",
        "font.size": font_size,
        "axes.prop_cycle": cycler(color=PALETTE),
    }
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
    """Return the given axes, or those of a new pyplot figure with one pair of axes.

    The property cycle of new ones is that of the user's style; matplotlib's own is replaced by colours that are
    distinct in every common kind of colour vision.

    Raises
    ------
    InputError
        If `ax` is something else, such as an array of several axes.
    """
    from matplotlib.axes import Axes

    if isinstance(ax, Axes):
        return ax
    if ax is not None:
        raise InputError(
            f"ax is {with_article(type(ax).__name__)} and no axes of matplotlib; pass one, such as axes[0] of "
            "figure, axes = plt.subplots(1, 2), or leave ax out for a new figure."
        )
    import matplotlib
    import matplotlib.pyplot as plt

    ax = plt.subplots(layout="constrained")[1]
    if matplotlib.rcParams["axes.prop_cycle"] == matplotlib.rcParamsDefault["axes.prop_cycle"]:
        ax.set_prop_cycle(color=PALETTE)
    return ax


class Inks(NamedTuple):
    """Colours of texts and marks beside a curve, chosen by the background of the axes.

    Attributes
    ----------
    ink, muted : str
        Of texts and marks.
    good : str
        Of the recommended size.
    paper : str
        The background.
    """

    ink: str
    muted: str
    good: str
    paper: str


def inks_of(ax: Axes) -> Inks:
    """Return the colours that are legible on the background of axes, in a user's dark style as in a light one."""
    from matplotlib.colors import to_hex, to_rgba

    faces = [ax.get_facecolor(), ax.figure.get_facecolor(), "white"]
    red, green, blue, _ = paper = next(face for face in map(to_rgba, faces) if face[3] > 0.0)
    if 0.2126 * red + 0.7152 * green + 0.0722 * blue >= DARKEST_PAPER:
        return Inks(INK, GREY, GREEN, to_hex(paper))
    return Inks("#EEEEEE", "#AAAAAA", "#3DDBA8", to_hex(paper))


def label_text(label: object) -> str:
    """Return a label that a user gave as text, as matplotlib does: 0 is a label too, and None is none.

    Examples
    --------
    >>> label_text(0), label_text(None)
    ('0', '')
    """
    return "" if label is None else str(label)


def legend_label(name: str, taken: set[str]) -> str:
    r"""Return a name as a label that matplotlib shows as it is, numbered if it is taken.

    Examples
    --------
    >>> legend_label("_forest $x$", set()), legend_label("forest", {"forest"})
    (' _forest \\$x\\$', 'forest (2)')
    """
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
