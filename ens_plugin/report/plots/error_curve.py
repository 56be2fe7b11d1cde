"""The figure of error curves: error against the ensemble size, of one ensemble or of several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ens_plugin.core.validation import printable
from ens_plugin.report.chart_style import axes_or_new, label_text
from ens_plugin.report.content import ReportContent
from ens_plugin.report.estimates import ErrorCurve
from ens_plugin.report.plots.size_chart import add_curves
from ens_plugin.report.plots.size_curve import SizeCurve
from ens_plugin.report.quantities import SHARES, axis_name, error_text, label_words, level_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_error_curve", "plot_reports"]


def plot_error_curve(
    curve: ErrorCurve,
    *,
    n_members: int | None = None,
    recommended_size: int | None = None,
    label: object = None,
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
    label : object, optional
        Name of the curve in a legend, as text; that of its metric if None or empty.
    ax : matplotlib Axes, optional
        Axes to draw on; those of a new figure if None.  Labels above and right of the axes need
        room in the figure (``layout="constrained"`` leaves it).  The colour is the next of the axes' property
        cycle.  Where the axes already show a curve of this kind, labels give way to marks in the colours of the
        curves, and to one legend.

    Returns
    -------
    matplotlib Axes
        The size axis is logarithmic; the 0-1 error is drawn as a share and labelled in percent.

    Raises
    ------
    InputError
        If `n_members` or `recommended_size` is below 1, or the axes show curves of another metric, positive label or
        level of intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from ens_plugin import ErrorCurve
    >>> from ens_plugin.report.plots import plot_error_curve
    >>> sizes = np.array([1, 11, 101, 1001])
    >>> error = 0.04 + 0.1 / sizes
    >>> curve = ErrorCurve(sizes, error, error - 0.01, error + 0.01, 0.04, (0.03, 0.05), 0.04,
    ...                    "deconvolved", "0-1 error", 0.95)
    >>> ax = plot_error_curve(curve, n_members=100, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'Ensemble size (members)'
    """
    drawn = _size_curve(curve, label_text(label) or curve.key, n_members, recommended_size, "recommended")
    return add_curves(axes_or_new(ax), [drawn])


def plot_reports(reports: Mapping[str, ReportContent], ax: Axes | None = None) -> Axes:
    """Draw the error curves of reports by name, each with its current and its recommended size; return the axes.

    Raises
    ------
    InputError
        If the curves, or those that the axes show, are of several metrics, positive labels or levels of intervals.

    Examples
    --------
    >>> import ens_plugin
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.report.plots import plot_reports
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> ax = plot_reports({"forest": report}, ax=Figure().subplots())
    >>> ax.get_xlabel()
    'Ensemble size (members)'
    """
    curves = [
        _size_curve(report.error_curve, name, report.n_members, report.recommended_size, report.size_name)
        for name, report in reports.items()
    ]
    return add_curves(axes_or_new(ax), curves)


def _size_curve(
    curve: ErrorCurve, name: str, n_members: int | None, recommended_size: int | None, size_name: str
) -> SizeCurve:
    basis = curve.metric_basis
    metric = axis_name(curve.metric)
    if curve.greater_is_better:
        metric = f"{printable(curve.metric, 30)}{label_words(basis)}\ngreater is better"
    return SizeCurve(
        quantity=f"{metric}\nshaded: {level_text(curve.interval_level)} interval",
        kind=("error curve", curve.metric, curve.greater_is_better, basis and basis.label, curve.interval_level),
        name=name,
        sizes=curve.sizes,
        value_at=lambda size: curve.at(size) if curve.reaches(size) else math.nan,
        as_text=lambda value: error_text(value, curve.metric),
        n_members=n_members,
        recommended_size=recommended_size,
        covered=tuple(size for size in (n_members, recommended_size) if size is not None),
        level=curve.asymptote,
        level_name="infinite ensemble",
        level_text=error_text(curve.asymptote, curve.metric),
        interval_at=curve.interval_at,
        is_share=curve.metric in SHARES,
        ties_to=curve.ties_to,
        size_name=size_name,
    )
