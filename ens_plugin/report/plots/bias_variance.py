"""The figure of bias and variance: the error as bars, split into what stays and what averaging removes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

from ens_plugin.core.validation import counted, printable
from ens_plugin.errors import InputError
from ens_plugin.report.chart_style import BLUE, GREY, LONGEST_LABEL, ORANGE, axes_or_new, label_in_percent
from ens_plugin.report.content import ReportContent
from ens_plugin.report.estimates import BiasVariance
from ens_plugin.report.plots.size_axis import group_digits, write
from ens_plugin.report.plots.size_curve import LARGEST_DRAWN
from ens_plugin.report.quantities import SHARES, axis_name, error_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

__all__ = ["plot_bias_variance"]

STAYS, GOES = "stays at every size (bias and noise)", "goes away with more members"


@dataclass(frozen=True)
class _Bars:
    name: str
    n_members: int
    parts: BiasVariance

    @property
    def errors(self) -> list[tuple[str, float]]:
        """The three bars, with their labels."""
        return [
            ("one member", self.parts.member_error),
            (f"{counted(group_digits(self.n_members), 'member')}\n(current size)", self.parts.ensemble_error),
            ("infinitely\nmany", self.parts.asymptotic_error),
        ]


# Of the first bar of each ensemble, and all that is drawn.
_bars_of: WeakKeyDictionary[Artist, _Bars] = WeakKeyDictionary()
_artists: WeakSet[Artist] = WeakSet()


def plot_bias_variance(report: ReportContent, ax: Axes | None = None, *, label: str | None = None) -> Axes:
    r"""Draw the error split into the part that no size removes and the part that averaging members removes.

    Three bars: one member, the ensemble at its current size, the infinite ensemble.

    Parameters
    ----------
    report : ReportContent
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure with one if None.  The bars stand below those that the axes already show.
    label : str, optional
        Name of the ensemble, written above its bars where there are others; the model's name if None.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If the axes show bars of another loss.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.report.plots import plot_bias_variance
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> from matplotlib.figure import Figure
    >>> plot_bias_variance(report, ax=Figure().subplots()).get_xlabel()
    '0-1 error (%)\nover seeds, given this training set'
    """
    ax = axes_or_new(ax)
    shown = [_bars_of[artist] for artist in ax.patches if artist in _bars_of]
    added = _Bars(printable(label or report.model, LONGEST_LABEL), report.n_members, report.bias_variance)
    _refuse_other_loss(shown, added)
    _erase(ax)
    _draw(ax, [*shown, added])
    return ax


def _erase(ax: Axes) -> None:
    # Removed by itself, a bar would stay in its container, and the container in the legend.
    for container in [container for container in ax.containers if container[0] in _artists]:
        container.remove()
    for text in [text for text in ax.texts if text in _artists]:
        text.remove()


def _refuse_other_loss(shown: list[_Bars], added: _Bars) -> None:
    for other in shown:
        if other.parts.loss != added.parts.loss:
            raise InputError(
                f"These axes show bars of the {printable(other.parts.loss, 40)}, and these are of the "
                f"{printable(added.parts.loss, 40)}, which cannot be read off the same axis; draw them on other axes."
            )


def _draw(ax: Axes, ensembles: list[_Bars]) -> None:
    rows: dict[float, str] = {}
    first, legend = 0.0, False
    for bars in ensembles:
        if len(ensembles) > 1:
            at, name = (0.0, first - 0.42), ("axes fraction", "data")
            _artists.add(write(ax, bars.name, at, name, (3, 0), va="bottom", color=_ink(ax)))
        for place, (label, error) in enumerate(bars.errors):
            rows[first + place] = label
            bar = _draw_error_bar(ax, first + place, error, bars, with_legend=place == 0 and not legend)
            if place == 0:
                _bars_of[bar] = bars
        legend = legend or not math.isnan(bars.parts.bias)
        first += len(bars.errors) + 0.6
    largest = max(_drawn_length(error) for bars in ensembles for _, error in bars.errors)
    loss = ensembles[0].parts.loss
    ax.set_yticks(list(rows), list(rows.values()))
    ax.set_ylim(max(rows) + 0.6, -0.6 if len(ensembles) == 1 else -1.0)
    ax.set_xlim(0.0, 1.22 * largest or 1.0)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(f"{axis_name(loss)}\nover seeds, given this training set", parse_math=False)
    if loss in SHARES:
        label_in_percent(ax.xaxis)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", borderaxespad=0.2)


def _draw_error_bar(ax: Axes, row: float, error: float, bars: _Bars, *, with_legend: bool) -> Rectangle:
    """Draw one bar in one or two parts, with its error beside it; return its first part."""
    length, parts = _drawn_length(error), bars.parts
    if math.isnan(parts.bias):
        drawn = [ax.barh(row, length, height=0.55, color=GREY)]
    else:
        stays = min(length, parts.bias)
        names = (STAYS, GOES) if with_legend else ("_", "_")
        drawn = [ax.barh(row, stays, height=0.55, color=BLUE, label=names[0])]
        if length > stays:
            drawn.append(ax.barh(row, length - stays, left=stays, height=0.55, color=ORANGE, label=names[1]))
    for container in drawn:
        _artists.update(container.patches)
    text = error_text(error, parts.loss)
    _artists.add(write(ax, text, (length, row), "data", (5, 0), va="center", color=_ink(ax)))
    return drawn[0].patches[0]


def _ink(ax: Axes) -> str:
    return str(ax.xaxis.label.get_color())


def _drawn_length(error: float) -> float:
    return error if abs(error) <= LARGEST_DRAWN else 0.0
