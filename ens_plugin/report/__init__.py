"""The report of an analysis as text, JSON, HTML and figures; nothing is estimated in this folder."""

from __future__ import annotations

from ens_plugin.report.answers import headline, markdown_summary, summarize, three_answers
from ens_plugin.report.html import render_page, write_page
from ens_plugin.report.plots import (
    default_style,
    plot_agreement,
    plot_bias_variance,
    plot_error_curve,
    report_figures,
)
from ens_plugin.report.result import EstimateBasis, LabelErrors, MetricBasis
from ens_plugin.report.serialization import report_from_dict
from ens_plugin.report.text import error_text, interval_text, label_notes, label_rows, printable

__all__ = [
    "EstimateBasis",
    "LabelErrors",
    "MetricBasis",
    "default_style",
    "error_text",
    "headline",
    "interval_text",
    "label_notes",
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
    "three_answers",
    "write_page",
]
