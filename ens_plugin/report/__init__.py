"""The report of an analysis as text, JSON, HTML and figures; nothing is estimated in this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
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

_HOME_OF = {
    "EstimateBasis": "ens_plugin.report.result",
    "LabelErrors": "ens_plugin.report.result",
    "MetricBasis": "ens_plugin.report.result",
    "default_style": "ens_plugin.report.plots",
    "error_text": "ens_plugin.report.text",
    "headline": "ens_plugin.report.answers",
    "interval_text": "ens_plugin.report.text",
    "label_notes": "ens_plugin.report.text",
    "label_rows": "ens_plugin.report.text",
    "markdown_summary": "ens_plugin.report.answers",
    "plot_agreement": "ens_plugin.report.plots",
    "plot_bias_variance": "ens_plugin.report.plots",
    "plot_error_curve": "ens_plugin.report.plots",
    "printable": "ens_plugin.report.text",
    "render_page": "ens_plugin.report.html",
    "report_figures": "ens_plugin.report.plots",
    "report_from_dict": "ens_plugin.report.serialization",
    "summarize": "ens_plugin.report.answers",
    "three_answers": "ens_plugin.report.answers",
    "write_page": "ens_plugin.report.html",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
