"""The report of an analysis as text, JSON, HTML and figures; nothing is estimated in this folder."""

from __future__ import annotations

from ens_plugin.report.chart_style import default_style
from ens_plugin.report.estimates import EstimateBasis, LabelErrors, MetricBasis
from ens_plugin.report.html.page import render_page, write_page
from ens_plugin.report.plots import plot_agreement, plot_bias_variance, plot_error_curve, report_figures
from ens_plugin.report.quantities import error_text, interval_text
from ens_plugin.report.serialization import report_from_dict
from ens_plugin.report.tables import label_rows
from ens_plugin.report.text import gain_sentence, markdown_summary, printable, summarize, verdict

__all__ = [
    "EstimateBasis",
    "LabelErrors",
    "MetricBasis",
    "default_style",
    "error_text",
    "gain_sentence",
    "interval_text",
    "label_rows",
    "markdown_summary",
    "plot_agreement",
    "plot_bias_variance",
    "plot_error_curve",
    "printable",
    "render_page",
    "report_figures",
    "report_from_dict",
    "summarize",
    "verdict",
    "write_page",
]
