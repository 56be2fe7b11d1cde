"""Figures of a report, each drawn on given axes: error curve, agreement, bias and variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.estimates.tied_sizes import previous_odd_size
from ens_plugin.errors import InputError
from ens_plugin.report.chart_style import BLUE, GREEN, GREY, INK, ORANGE, default_style, label_in_percent, new_axes
from ens_plugin.report.estimates import BiasVariance, ErrorCurve, SizeRecommendation
from ens_plugin.report.quantities import SHARES, distance_label, error_text, level_text, wanted_text
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_agreement", "plot_bias_variance", "plot_error_curve", "report_figures", "report_plots"]

FIRST_SHOWN = 5
LARGEST_DRAWN = 1e300  # matplotlib multiplies values, and refuses limits that are not finite
SMALLEST_LOGGED = 1e-12  # relative excess error; rounding errors would fill most of a logarithmic axis


def plot_error_curve(
    curve: ErrorCurve,
    *,
    n_members: int | None = None,
    recommended_size: int | None = None,
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
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.  Labels above and right of the axes need
        room in the figure (``layout="constrained"`` leaves it).

    Returns
    -------
    matplotlib Axes
        The size axis is logarithmic; the 0-1 error is drawn as a share and labelled in percent.

    Raises
    ------
    InputError
        If `n_members` or `recommended_size` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from ens_plugin import ErrorCurve
    >>> sizes = np.array([1, 11, 101, 1001])
    >>> error = 0.04 + 0.1 / sizes
    >>> curve = ErrorCurve(sizes, error, error - 0.01, error + 0.01, 0.04, (0.03, 0.05), 0.04,
    ...                    "deconvolved", "0-1 error", 0.95)
    >>> ax = plot_error_curve(curve, n_members=100, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'Ensemble size (members)'
    """
    ax = new_axes() if ax is None else ax
    shown = _limit_sizes(ax, curve.sizes, n_members, recommended_size)
    dense = _dense_sizes(curve.sizes, shown)
    # Even sizes at which votes tie would turn the line into steps.
    drawn = [size for size in dense[previous_odd_size(dense, curve.ties_to) == dense] if curve.reaches(size)]
    error = np.array([curve.at(size) for size in drawn])
    lower, upper = np.array([curve.interval_at(size) for size in drawn]).T
    ax.fill_between(drawn, lower, upper, color=BLUE, alpha=0.18, linewidth=0, label="interval")
    ax.plot(drawn, error, color=BLUE, linewidth=1.8, label=curve.key)
    _limit_values(ax, np.concatenate([lower, upper, error, [curve.asymptote]]))
    if abs(curve.asymptote) <= LARGEST_DRAWN:
        _draw_level(ax, curve.asymptote, f"infinite\nensemble\n{error_text(curve.asymptote, curve.metric)}")

    def value_at(size: int) -> float | None:
        return curve.at(size) if curve.reaches(size) else None

    _mark_sizes(ax, n_members, recommended_size, value_at, curve.metric)
    name = f"{printable(curve.metric, 30)}, greater is better" if curve.greater_is_better else _axis_name(curve.metric)
    ax.set_ylabel(f"{name}\nshaded: {level_text(curve.interval_level)} interval", parse_math=False)
    if curve.metric in SHARES:
        label_in_percent(ax.yaxis)
    return ax


def plot_agreement(recommendation: SizeRecommendation, *, n_members: int | None = None, ax: Axes | None = None) -> Axes:
    """Draw the agreement or the relative excess error, from which the size is recommended, against the ensemble size.

    Classification: the agreement with the infinite ensemble, and the wanted agreement.
    Regression: the error in excess of the infinite ensemble's, relative to it, and the tolerance.
    A bar on the wanted level shows the interval of the recommended size; it ends in an arrow where
    the interval exceeds the largest size considered.

    Parameters
    ----------
    recommendation : SizeRecommendation
    n_members : int, optional
        Current size, to be marked.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure with one if None.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If `n_members` is below 1.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from ens_plugin import SizeRecommendation
    >>> sizes = np.array([1, 11, 101, 1001])
    >>> advice = SizeRecommendation(101, "agreement", 0.99, None, 0.985, (51, 201), "", 20001, sizes,
    ...                             np.array([0.9, 0.96, 0.99, 0.999]))
    >>> ax = plot_agreement(advice, n_members=50, ax=Figure().subplots())
    >>> ax.get_xscale()
    'log'
    """
    ax = new_axes() if ax is None else ax
    low, high = recommendation.interval
    beyond = recommendation.size or recommendation.max_size
    shown = _limit_sizes(ax, recommendation.sizes, n_members, max(beyond, high or beyond))
    drawn = [size for size in _dense_sizes(recommendation.sizes, shown) if size <= recommendation.sizes[-1]]
    values = np.array([_tabulated(recommendation, size) for size in drawn])
    ax.plot(drawn, values, color=BLUE, linewidth=1.8)
    wanted = recommendation.confidence or recommendation.tolerance
    if recommendation.criterion == "agreement":
        ax.set_ylabel("Agreement with the\ninfinite ensemble (%)")
        _limit_values(ax, np.append(values, wanted or math.nan), ceiling=1.0)
    else:
        ax.set_ylabel(distance_label(recommendation), parse_math=False)
        _scale_excess(ax, np.append(values, wanted or math.nan))
    if not recommendation.is_absolute:
        label_in_percent(ax.yaxis)
    if wanted is not None:
        _draw_level(ax, wanted, f"wanted\n{wanted_text(recommendation)}")
        _draw_size_interval(ax, wanted, low, high, shown[1])

    def value_at(size: int) -> float | None:
        inside = recommendation.sizes[0] <= size <= recommendation.sizes[-1]
        value = _tabulated(recommendation, size) if inside else math.nan
        return value if math.isfinite(value) else None

    metric = (recommendation.of_metric if recommendation.is_absolute else None) or "0-1 error"
    _mark_sizes(ax, n_members, recommendation.size, value_at, metric)
    return ax


def plot_bias_variance(report: EnsembleReport, ax: Axes | None = None) -> Axes:
    r"""Draw the error split into the part that no size removes and the part that averaging members removes.

    Three bars: one member, the ensemble at its current size, the infinite ensemble.

    Parameters
    ----------
    report : EnsembleReport
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure with one if None.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> from matplotlib.figure import Figure
    >>> plot_bias_variance(report, ax=Figure().subplots()).get_xlabel()
    '0-1 loss (%)\nover seeds, given this training set'
    """
    ax = new_axes() if ax is None else ax
    parts = report.bias_variance
    bars = [
        ("one member", parts.member_error),
        (f"{_grouped(report.n_members)} members\n(current size)", parts.ensemble_error),
        ("infinitely\nmany", parts.asymptotic_error),
    ]
    for row, (_, error) in enumerate(bars):
        _draw_error_bar(ax, row, error, parts)
    largest = max(_drawn_length(error) for _, error in bars)
    ax.set_yticks(range(len(bars)), [label for label, _ in bars])
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.set_xlim(0.0, 1.22 * largest or 1.0)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel(f"{_axis_name(parts.loss)}\nover seeds, given this training set", parse_math=False)
    if parts.loss in SHARES:
        label_in_percent(ax.xaxis)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize="small", borderaxespad=0.2)
    return ax


def report_figures(report: EnsembleReport) -> dict[str, Figure]:
    """Return the figures that are logged with a report, drawn in matplotlib's default style.

    Parameters
    ----------
    report : EnsembleReport

    Returns
    -------
    dict of str to matplotlib Figure
        ``"error_curve.png"``, ``"agreement.png"`` and ``"bias_variance.png"``, for ``savefig``.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> sorted(report_figures(report))
    ['agreement.png', 'bias_variance.png', 'error_curve.png']
    """
    from matplotlib.figure import Figure

    figures = {}
    # Under a user's dark style the fixed colours above would not be legible.
    with default_style():
        for name, plot in report_plots(report).items():
            figure = Figure(figsize=(6.4, 3.0 if name == "bias_variance" else 4.0), dpi=150, layout="constrained")
            plot(ax=figure.subplots())
            figures[f"{name}.png"] = figure
    return figures


def report_plots(report: EnsembleReport) -> dict[str, Callable[..., Axes]]:
    """Return, by name of the figure, functions that draw each figure of a report on the axes passed as ``ax``."""
    now, wanted = report.n_members, report.recommended_size
    return {
        "error_curve": partial(plot_error_curve, report.error_curve, n_members=now, recommended_size=wanted),
        "agreement": partial(plot_agreement, report.recommendation, n_members=now),
        "bias_variance": partial(plot_bias_variance, report),
    }


def _limit_sizes(
    ax: Axes, sizes: NDArray[np.int64], n_members: int | None, recommended_size: int | None
) -> tuple[float, float]:
    """Set up the logarithmic size axis so that it covers the marked sizes, and return its limits."""
    marked = [size for size in (n_members, recommended_size) if size is not None]
    if any(size < 1 for size in marked):
        raise InputError(f"Sizes to mark are {marked}, and an ensemble has at least 1 member; pass sizes from 1 on.")
    # The errors of one to four members are so large that they would flatten the rest of the curve.
    clipped = sizes[0] < FIRST_SHOWN and min([*marked, int(sizes[-1])]) >= 2 * FIRST_SHOWN
    first = float(FIRST_SHOWN if clipped else min([*marked, int(sizes[0])]))
    last = 2.0 * max(marked) if marked else float(sizes[-1])
    last = max(last, 20.0 * first)
    if ax.has_data():
        first, last = min(first, ax.get_xlim()[0]), max(last, ax.get_xlim()[1])
    ax.set_xscale("log")
    ax.set_xlim(first, last)
    _label_sizes(ax)
    ax.spines[["top", "right"]].set_visible(False)
    return first, last


def _label_sizes(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.xaxis.set_major_locator(LogLocator(10.0, subs=_labelled_steps(ax), numticks=12))
    ax.xaxis.set_minor_locator(LogLocator(10.0, subs=tuple(range(2, 10)), numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _grouped(value)))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("Ensemble size (members)")


def _labelled_steps(ax: Axes) -> tuple[float, ...]:
    """Return the multiples of powers of ten that are labelled on the size axis, as many as fit its width."""
    first, last = ax.get_xlim()
    # A layout engine reserves about 0.8 inches of the width for the labels on either side.
    inches = (ax.get_window_extent().width / ax.figure.dpi - 0.8) / math.log10(last / first)
    return (1.0, 2.0, 5.0) if inches > 1.8 else (1.0, 3.0) if inches > 1.15 else (1.0,)


def _limit_values(ax: Axes, values: NDArray[np.float64], ceiling: float = math.inf) -> None:
    drawable = values[np.abs(values) <= LARGEST_DRAWN]
    low, high = (float(drawable.min()), float(drawable.max())) if drawable.size else (0.0, 0.0)
    room = 0.06 * (high - low or abs(high) or 0.01)
    ax.set_ylim(max(low - room, 0.0) if low >= 0.0 else low - room, min(high + room, ceiling))


def _dense_sizes(sizes: NDArray[np.int64], shown: tuple[float, float]) -> NDArray[np.float64]:
    """Return the tabulated sizes within the limits of the axis, and sizes between them for a smooth line."""
    between = np.geomspace(max(shown[0], float(sizes[0])), shown[1], 200)
    return np.asarray(np.unique(np.concatenate([between, sizes[(sizes >= shown[0]) & (sizes <= shown[1])]])))


def _tabulated(recommendation: SizeRecommendation, size: float) -> float:
    return float(np.interp(1.0 / size, 1.0 / recommendation.sizes[::-1], recommendation.values[::-1]))


def _scale_excess(ax: Axes, values: NDArray[np.float64]) -> None:
    drawable = values[(values >= SMALLEST_LOGGED) & (values <= LARGEST_DRAWN)]
    low, high = (float(drawable.min()), float(drawable.max())) if drawable.size else (0.01, 0.01)
    ax.set_yscale("log")
    ax.set_ylim(low / 1.5, high * 1.5)


def _draw_level(ax: Axes, value: float, text: str) -> None:
    ax.axhline(value, color=GREY, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1.5)
    height = ax.transAxes.inverted().transform(ax.transData.transform((1.0, value)))[1]
    anchor = "bottom" if height < 0.15 else "top" if height > 0.85 else "center"
    _write(ax, text, (1.0, value), ("axes fraction", "data"), (5, 0), color=GREY, va=anchor)


def _mark_sizes(
    ax: Axes, n_members: int | None, recommended_size: int | None, value_at: Callable[[int], float | None], metric: str
) -> None:
    marks = [("current", n_members, INK, "o"), ("recommended", recommended_size, GREEN, "D")]
    if n_members is not None and n_members == recommended_size:
        marks = [("current = recommended", n_members, INK, "o")]
    # Each label has a row of its own above the axes, so that labels never overlap.
    row, (first, last), (bottom, top) = 0, ax.get_xlim(), ax.get_ylim()
    for name, size, colour, marker in marks:
        if size is None:
            continue
        ax.axvline(size, color=colour, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1.4)
        text, value = f"{name} {_grouped(size)}", value_at(size)
        if value is not None:
            text = f"{text}: {error_text(value, metric)}"
        if value is not None and bottom <= value <= top:
            # An unclipped mark outside the axes would enlarge the saved figure.
            ax.plot([size], [value], marker, color=colour, markeredgecolor="white", clip_on=False, zorder=4)
        across = math.log(size / first) / math.log(last / first)
        side = "left" if across < 0.4 else "right" if across > 0.6 else "center"
        offset = (0, 4 + 13 * row)
        _write(ax, text, (size, 1.0), ("data", "axes fraction"), offset, color=colour, ha=side, va="bottom")
        row += 1


def _write(
    ax: Axes, text: str, at: tuple[float, float], coordinates: Any, offset: tuple[int, int], **style: Any
) -> None:
    ax.annotate(
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


def _draw_size_interval(ax: Axes, level: float, low: int, high: int | None, last: float) -> None:
    ax.plot([low, last if high is None else high], [level, level], color=GREEN, linewidth=4, alpha=0.45, zorder=2)
    if high is None:
        ax.plot([last], [level], ">", color=GREEN, markersize=7, clip_on=False, zorder=4)


def _draw_error_bar(ax: Axes, row: int, error: float, parts: BiasVariance) -> None:
    length = _drawn_length(error)
    if math.isnan(parts.bias):
        ax.barh(row, length, height=0.55, color=GREY)
    else:
        stays = min(length, parts.bias)
        names = ("stays at every size (bias and noise)", "goes away with more members") if row == 0 else ("_", "_")
        ax.barh(row, stays, height=0.55, color=BLUE, label=names[0])
        if length > stays:
            ax.barh(row, length - stays, left=stays, height=0.55, color=ORANGE, label=names[1])
    _write(ax, error_text(error, parts.loss), (length, row), "data", (5, 0), va="center")


def _drawn_length(error: float) -> float:
    return error if abs(error) <= LARGEST_DRAWN else 0.0


def _grouped(number: float) -> str:
    return f"{number:,.6g}".replace(",", "\u202f")


def _axis_name(metric: str) -> str:
    name = printable(metric, 24)
    return name[:1].upper() + name[1:] + (" (%)" if metric in SHARES else "")
