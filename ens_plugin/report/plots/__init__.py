"""Figures of a report, each drawn on given axes; nothing is estimated here."""

from __future__ import annotations

from ens_plugin.report.plots.agreement import plot_agreement
from ens_plugin.report.plots.bias_variance import plot_bias_variance
from ens_plugin.report.plots.error_curve import plot_error_curve, plot_reports
from ens_plugin.report.plots.figures import report_figures, report_plots

__all__ = [
    "plot_agreement",
    "plot_bias_variance",
    "plot_error_curve",
    "plot_reports",
    "report_figures",
    "report_plots",
]
