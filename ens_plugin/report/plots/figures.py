"""All figures of a report together: for files, and as functions that draw on given axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ens_plugin.report.chart_style import default_style
from ens_plugin.report.content import ReportContent
from ens_plugin.report.plots.agreement import plot_agreement
from ens_plugin.report.plots.bias_variance import plot_bias_variance
from ens_plugin.report.plots.error_curve import plot_reports

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["report_figures", "report_plots"]


def report_figures(report: ReportContent) -> dict[str, Figure]:
    """Return the figures that are logged with a report, drawn in matplotlib's default style.

    Parameters
    ----------
    report : ReportContent

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


def report_plots(report: ReportContent) -> dict[str, Callable[..., Axes]]:
    """Return, by name of the figure, functions that draw each figure of a report on the axes passed as ``ax``."""
    return {
        "error_curve": partial(plot_reports, {report.model: report}),
        "agreement": partial(
            plot_agreement, report.recommendation, n_members=report.n_members, size_name=report.size_name
        ),
        "bias_variance": partial(plot_bias_variance, report),
    }
