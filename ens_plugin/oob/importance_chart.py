"""The chart of permutation importances, of one ensemble or of several side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ens_plugin.core.validation import FloatArray
from ens_plugin.report.chart_style import axes_or_new, inks_of, legend_label, merge_legend

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

__all__ = ["draw_importances"]

DRAWN_COLUMNS = 20
THICKNESS = 0.8
LINES = "\nlines: two standard errors to each side"


@dataclass(frozen=True, eq=False)
class _Importances:
    name: str
    colour: Any
    mean: dict[str, float]
    half_width: dict[str, float]


# Of the first bar of each ensemble.  The artists know their axes, so that what a user clears is forgotten.
_importances_of: WeakKeyDictionary[Artist, _Importances] = WeakKeyDictionary()


def draw_importances(
    names: tuple[str, ...], mean: FloatArray, half_width: FloatArray, label: str | None, ax: Axes | None
) -> Axes:
    """Draw importances as bars, beside those that the axes already show.

    Parameters
    ----------
    names : tuple of str
        Columns.
    mean, half_width : ndarray of float64, shape (n_columns,)
    label : str or None
        Name in the legend, which is drawn as soon as there are several ensembles.
    ax : matplotlib Axes or None

    Returns
    -------
    matplotlib Axes
    """
    ax = axes_or_new(ax)
    shown = [_importances_of[bar] for bar in ax.patches if bar in _importances_of]
    # Without data, a bar takes the next colour of the axes' property cycle.
    (bar,) = ax.barh([0.0], [0.0])
    colour = bar.get_facecolor()
    bar.remove()
    name = legend_label(label or "importance", {one.name for one in shown})
    columns = [dict(zip(names, values.tolist(), strict=True)) for values in (mean, half_width)]
    _erase(ax)
    _draw(ax, [*shown, _Importances(name, colour, *columns)])
    return ax


def _erase(ax: Axes) -> None:
    ours = [container for container in ax.containers if len(container) and container[0] in _importances_of]
    for container in ours:
        errorbar = getattr(container, "errorbar", None)
        if errorbar is not None:
            errorbar.remove()
        container.remove()
    for container in [container for container in ax.containers if not len(container)]:
        container.remove()


def _draw(ax: Axes, ensembles: list[_Importances]) -> None:
    columns = _largest(ensembles)
    height = THICKNESS / len(ensembles)
    for place, one in enumerate(ensembles):
        # The first ensemble is on top, as in the legend.
        middle = np.arange(len(columns)) + (len(ensembles) - 1 - 2 * place) * height / 2.0
        bars = ax.barh(
            middle,
            [one.mean.get(name, 0.0) for name in columns],
            height=height,
            xerr=[one.half_width.get(name, 0.0) for name in columns],
            color=one.colour,
            ecolor=inks_of(ax).ink,
            label=one.name if len(ensembles) > 1 else "_importances",
        )
        _importances_of[bars[0]] = one
    ax.set_yticks(range(len(columns)), columns, parse_math=False)
    has_lines = any(width > 0 for one in ensembles for width in one.half_width.values())
    ax.set_xlabel("Rise of the out-of-bag error" + LINES * has_lines)
    if len(ensembles) > 1:
        merge_legend(ax)


def _largest(ensembles: list[_Importances]) -> list[str]:
    """Return the columns of the largest importances in any ensemble, the largest last; equal ones in order."""
    largest: dict[str, float] = {}
    for one in ensembles:
        for name, value in one.mean.items():
            largest[name] = max(value, largest.get(name, value))
    return sorted(largest, key=lambda name: largest[name])[-DRAWN_COLUMNS:]
