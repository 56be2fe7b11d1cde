"""What all figures share: colours, new axes, labels in percent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

__all__ = ["BLUE", "GREEN", "GREY", "INK", "ORANGE", "label_in_percent", "new_axes"]

# From Okabe and Ito's palette, told apart by every common kind of colour vision; green darkened for thin lines.
BLUE, ORANGE, GREEN, INK, GREY = "#0072B2", "#E69F00", "#007A5A", "#222222", "#666666"


def new_axes() -> Axes:
    """Return the only axes of a new pyplot figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def label_in_percent(axis: Axis) -> None:
    """Label the major ticks of an axis of shares in percent, without a sign, and no minor ones."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100.0 * value:.6g}"))
    axis.set_minor_formatter(NullFormatter())
