"""Figures of the papers of 2007, 2013 and 2017 for the user's data (matplotlib).

Every function draws on the given axes and returns them, as those of :mod:`ens_plugin.report.plots`.  On axes that show
such a figure already, lines have the next colours of the axes' property cycle and other dashes, and one legend has all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray, as_numbers, as_probability, as_sizes, as_values, as_weight
from ens_plugin.core.votes import majority_error
from ens_plugin.errors import InputError
from ens_plugin.papers.ensemble_size_2013 import limiting_disagreement, limiting_row_size_tail, row_size, row_size_tail
from ens_plugin.papers.error_curves_2007 import expected_plugin_error
from ens_plugin.report.plots import axes_or_new, inks_of, label_in_percent, legend_label, merge_legend

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = [
    "plot_disagreement",
    "plot_estimated_curves",
    "plot_expected_plugin_error",
    "plot_row_size_tail",
    "plot_row_sizes",
]

LineStyle = Literal["-"] | tuple[int, tuple[int, ...]]
SOLID: Literal["-"] = "-"
DASHES = ((0, (5, 2)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 3)), (0, (2, 2)), (0, (5, 1, 1, 1, 1, 1)))
BINS_PER_DECADE = 4
QUANTITIES = {"zero_one": "0-1 error (%)", "log": "Log loss", "squared": "Squared loss"}
OVERLAID = 0.55  # opacity of a histogram in front of another

# What the values of a line or a bar are of.  The artists know their axes, so that what a user clears is forgotten.
_quantity_of: WeakKeyDictionary[Artist, str] = WeakKeyDictionary()
# A line returns the name of its style, but not its dashes.
_styles_of: WeakKeyDictionary[Artist, LineStyle] = WeakKeyDictionary()


def plot_expected_plugin_error(n_votes: Sequence[int], size: float = 1001, *, ax: Axes | None = None) -> Axes:
    r"""Draw the expected plug-in estimate of a row's error against a member's chance to be wrong (2007 Fig. 1, left).

    Parameters
    ----------
    n_votes : sequence of int
        Numbers of votes M, one dashed line each (2007 eq. 10).  The solid line is
        :math:`M \to \infty`; the vertical distance to it is the bias.
    size : float, default=1001
        Ensemble size B, infinity allowed.
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If there are more than six numbers of votes, or a number or `size` is below 1.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = plot_expected_plugin_error([1, 18, 135], ax=Figure().subplots())
    >>> len(ax.get_lines())
    4
    """
    _check_count(len(n_votes), "n_votes")
    quantity = f"Expected estimate of the error\nat B = {'∞' if np.isinf(size) else f'{size:g}'}"
    ax = _axes_for(quantity, ax)
    p = np.linspace(0.0, 1.0, 401)
    for place, votes in enumerate(n_votes):
        _add_line(ax, quantity, p, expected_plugin_error(p, votes, [size])[0], f"M = {votes}", DASHES[place])
    _add_reference(ax, quantity, p, majority_error(p, [size])[0], "M → ∞", SOLID)
    ax.set_xlabel("Probability that one member is wrong")
    ax.set_ylabel(quantity)
    return _finished(ax)


def plot_estimated_curves(
    curves: pd.DataFrame, test_error: ArrayLike | None = None, *, loss: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw estimated error curves, beside the error on test rows if there is one (2007 Fig. 1, right, and Fig. 2).

    Parameters
    ----------
    curves : DataFrame
        Ensemble sizes in the column size, and an estimate in each other column, a dashed line: as from
        :func:`ens_plugin.papers.error_curves_2007.curves`, whose column plug_in_bias is not drawn, or from
        :func:`ens_plugin.papers.score_tables_2017.score_errors`.  An infinite size is left out.
    test_error : array-like of float, shape (n_sizes,), optional
        Error on test rows at the same sizes; the solid line.
    loss : {"zero_one", "log", "squared"}, optional
        What the values are of; the 0-1 loss is drawn in percent.  None is the loss that ``score_errors`` was called
        with, or the 0-1 loss.
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If there is no column size, or more than six estimates, a column holds no numbers, a size is below 1, or an
        error is below 0, or above 1 for the 0-1 loss.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import error_curves_2007
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    >>> ax = plot_estimated_curves(error_curves_2007.curves(forest, X, y), ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['plug_in', 'unbiased', 'deconvolved']
    """
    loss = _noted(curves, "loss", "zero_one") if loss is None else loss
    if loss not in QUANTITIES:
        raise InputError(f"loss must be one of {', '.join(QUANTITIES)}, got {loss!r}.")
    if "size" not in curves:
        raise InputError("curves must have the ensemble sizes in a column named size.")
    sizes = as_sizes(curves["size"])
    drawn, quantity = np.isfinite(sizes), QUANTITIES[loss]
    estimates = [str(name) for name in curves if name not in ("size", "plug_in_bias")]
    _check_count(len(estimates), "curves")
    lines = {name: _as_losses(curves[name], name, sizes.size, loss)[drawn] for name in estimates}
    error = None if test_error is None else _as_losses(test_error, "test_error", sizes.size, loss)[drawn]
    ax = _axes_for(quantity, ax)
    if error is not None:
        _add_reference(ax, quantity, sizes[drawn], error, "test rows", SOLID)
    for place, (name, curve) in enumerate(lines.items()):
        _add_line(ax, quantity, sizes[drawn], curve, name, DASHES[place])
    ax.set_xscale("log")
    ax.set_xlabel("Ensemble size (members)")
    ax.set_ylabel(quantity)
    if loss == "zero_one":
        label_in_percent(ax.yaxis)
    return _finished(ax)


def plot_row_sizes(
    probability: ArrayLike | pd.DataFrame,
    *,
    weight: ArrayLike | None = None,
    confidence: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a histogram over rows of how many votes give the infinite ensemble's label (2013 Fig. 2, left).

    Parameters
    ----------
    probability : array-like of float, shape (n_rows,), or DataFrame
        Probability of one vote: of each row, or of the points of a fitted distribution; or what
        :func:`ens_plugin.papers.ensemble_size_2013.row_sizes` returns.
    weight : array-like, shape (n_rows,), optional
    confidence : float, optional
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.  None is the one that
        ``row_sizes`` was called with, or 0.99.
    label : str, optional
        Name in the legend, which is drawn as soon as the axes show two histograms.
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib Axes
        Rows that no size up to a billion settles are left out; the axis label states how many.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], `confidence` outside (0.5, 1), or shapes differ.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> ax = plot_row_sizes([0.0, 0.2, 0.45, 0.5], ax=Figure().subplots())
    >>> float(sum(bar.get_height() for bar in ax.patches))
    0.75
    """
    confidence = _noted(probability, "confidence", 0.99) if confidence is None else confidence
    p = as_probability(_votes_of(probability), "probability")
    w = as_weight(weight, p.size)
    own = row_size(p, confidence)
    quantity = f"Votes that settle a row\nwith {100 * confidence:g} % confidence"
    ax = _axes_for(quantity, ax)
    earlier = {str(_quantity_of[bar]) for bar in ax.patches if bar in _quantity_of}
    settled = np.isfinite(own)
    largest = float(own[settled].max(initial=10.0))
    steps = int(np.ceil(np.log10(largest) * BINS_PER_DECADE + 1e-9))
    edges = (10.0 ** (np.arange(steps + 1) / BINS_PER_DECADE)).tolist()
    left_out = float(w[~settled].sum() / w.sum())
    note = f" ({100 * left_out:.3g} % never are)" if left_out else ""
    name = legend_label(f"{label or 'rows'}{note}", set(ax.get_legend_handles_labels()[1]))
    alpha, n_before = OVERLAID if earlier else None, len(ax.patches)
    share = w[settled] / w.sum()
    ax.hist(own[settled], edges, weights=share, edgecolor=inks_of(ax).paper, alpha=alpha, label=name)
    _quantity_of.update(dict.fromkeys(ax.patches[n_before:], quantity))
    ax.set_xscale("log")
    ax.set_xlabel(quantity if earlier else f"{quantity}{note}", parse_math=False)
    ax.set_ylabel("Rows (%)")
    label_in_percent(ax.yaxis)
    if earlier:
        return _finished(ax)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def plot_row_size_tail(
    probability: ArrayLike | pd.DataFrame,
    density: float,
    *,
    weight: ArrayLike | None = None,
    confidence: float | None = None,
    label: str = "measured",
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of rows that need more votes than each size, and its law for large sizes (2013 Fig. 2, right).

    Parameters
    ----------
    probability, weight, confidence
        As for :func:`plot_row_sizes`.
    density : float
        f(1/2), as from :func:`ens_plugin.papers.ensemble_size_2013.borderline_density`.
    label : str, default="measured"
        Name of the measured shares in the legend.
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib Axes
        Both axes logarithmic; the law (2013 eq. 13) is a straight line of slope -1/2.

    Raises
    ------
    InputError
        As :func:`plot_row_sizes`, and if `density` is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> ax = plot_row_size_tail(np.linspace(0, 1, 1000), 1.0, ax=Figure().subplots())
    >>> ax.get_yscale()
    'log'
    """
    confidence = _noted(probability, "confidence", 0.99) if confidence is None else confidence
    sizes = np.asarray(2.0 * np.unique(np.round(np.geomspace(0.5, 5e4, 120))) + 1.0, dtype=np.float64)
    tail = row_size_tail(_votes_of(probability), sizes, confidence, weight)
    law = limiting_row_size_tail(density, sizes, confidence)
    quantity = f"Rows not settled with\n{100 * confidence:g} % confidence (%)"
    ax = _axes_for(quantity, ax)
    _draw_law(ax, quantity, sizes, tail, law, label)
    ax.set_xlabel("Ensemble size (members)")
    ax.set_ylabel(quantity, parse_math=False)
    return _finished(ax)


def plot_disagreement(
    sizes: ArrayLike,
    disagreement: ArrayLike,
    density: float,
    *,
    label: str = "measured",
    ax: Axes | None = None,
) -> Axes:
    """Draw the disagreement with the infinite ensemble by size, and its law for large sizes (2013 Fig. 4).

    Parameters
    ----------
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes.
    disagreement : array-like of float, shape (n_sizes,)
        Share of rows on which an ensemble of each size differs from a very large one.
    density : float
        f(1/2), as from :func:`ens_plugin.papers.ensemble_size_2013.borderline_density`.
    label : str, default="measured"
        Name of the measured shares in the legend.
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.

    Returns
    -------
    matplotlib Axes
        Both axes logarithmic; the law (2013 eq. 18) is a straight line of slope -1/2.

    Raises
    ------
    InputError
        If shapes differ, a size is below 1 or infinite, a share is outside [0, 1], or `density` is
        negative or not finite.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from ens_plugin.core.error_curve import (agreement)
    >>> sizes = [1, 11, 101, 1001]
    >>> found = 1 - agreement([0.05, 0.2, 0.4, 0.6], None, sizes)
    >>> ax = plot_disagreement(sizes, found, 0.8, ax=Figure().subplots())
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['measured', 'law for large ensembles']
    """
    at = _as_finite_sizes(sizes)
    measured = _as_shares(disagreement, "disagreement", at.size)
    law = limiting_disagreement(density, at)
    quantity = "Disagreement with the\ninfinite ensemble (%)"
    ax = _axes_for(quantity, ax)
    _draw_law(ax, quantity, at, measured, law, label)
    ax.set_xlabel("Ensemble size (members)")
    ax.set_ylabel(quantity)
    return _finished(ax)


def _draw_law(
    ax: Axes, quantity: str, sizes: FloatArray, measured: FloatArray, law: FloatArray, label: str
) -> None:  # fmt: skip
    """Draw measured shares and their law on logarithmic axes, without shares of 0, which have no logarithm."""
    from matplotlib.ticker import LogLocator

    _add_line(ax, quantity, sizes, np.where(measured > 0, measured, np.nan), label, SOLID)
    drawn = np.where((law > 0) & (law <= 1), law, np.nan)
    _add_reference(ax, quantity, sizes, drawn, "law for large ensembles", DASHES[0])
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(10.0, subs=(1.0, 2.0, 5.0)))
    label_in_percent(ax.yaxis)


def _axes_for(quantity: str, ax: Axes | None) -> Axes:
    """Return the given axes, or new ones.

    Raises
    ------
    InputError
        If the axes show a figure of another quantity.
    """
    ax = axes_or_new(ax)
    for artist in (*ax.lines, *ax.patches):
        shown = _quantity_of.get(artist, quantity)
        if shown != quantity:
            raise InputError(
                f"These axes show {_one_line(shown)!r}, and this figure is of {_one_line(quantity)!r}, which cannot be "
                "read off the same axis; draw it on axes of its own."
            )
    return ax


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _add_line(ax: Axes, quantity: str, x: FloatArray, y: FloatArray, name: str, style: LineStyle) -> None:
    """Draw a line in the next colour of the property cycle, in other dashes than a line of the same colour."""
    _quantity_of[_draw_line(ax, x, y, name, style, None)] = quantity


def _add_reference(ax: Axes, quantity: str, x: FloatArray, y: FloatArray, name: str, style: LineStyle) -> None:
    """Draw the line that others are compared with, in the colour of text."""
    _quantity_of[_draw_line(ax, x, y, name, style, inks_of(ax).ink)] = quantity


def _draw_line(ax: Axes, x: FloatArray, y: FloatArray, name: str, style: LineStyle, colour: str | None) -> Line2D:
    label = legend_label(name, set(ax.get_legend_handles_labels()[1]))
    used = [(line.get_color(), _styles_of.get(line)) for line in ax.lines]
    (line,) = ax.plot(x, y, linewidth=1.7, label=label, color=colour)
    free = [own for own in (style, *DASHES, SOLID) if (line.get_color(), own) not in used]
    line.set_linestyle(free[0] if free else style)
    _styles_of[line] = free[0] if free else style
    return line


def _finished(ax: Axes) -> Axes:
    ax.spines[["top", "right"]].set_visible(False)
    merge_legend(ax)
    return ax


def _votes_of(probability: ArrayLike | pd.DataFrame) -> ArrayLike:
    """Return the probabilities of one vote, which row_sizes has in a column."""
    return np.asarray(getattr(probability, "probability", probability))


def _noted(table: Any, name: str, default: Any) -> Any:
    """Return what the function that made a table noted there, or the default."""
    return getattr(table, "attrs", {}).get(name, default)


def _check_count(count: int, name: str) -> None:
    if count > len(DASHES):
        raise InputError(
            f"{name} has {count} lines, and more than {len(DASHES)} cannot be distinguished. Draw several figures."
        )


def _as_finite_sizes(sizes: ArrayLike) -> FloatArray:
    at = as_sizes(sizes)
    if np.isinf(at).any():
        raise InputError("sizes holds infinity, which the axis cannot show; draw the limit with ax.axhline.")
    return at


def _as_losses(values: ArrayLike, name: str, length: int, loss: str) -> FloatArray:
    """Return losses, NaN where there is none."""
    array = as_numbers(values, name)
    if array.shape != (length,):
        raise InputError(f"{name} must have length {length}, got shape {array.shape}.")
    known = array[~np.isnan(array)]
    if known.min(initial=0.0) < 0.0 or (loss == "zero_one" and known.max(initial=0.0) > 1.0):
        raise InputError(f"{name} must hold losses, from 0 to 1 for the 0-1 loss.")
    return array


def _as_shares(values: ArrayLike, name: str, length: int) -> FloatArray:
    return as_probability(as_values(values, name, length), name)
