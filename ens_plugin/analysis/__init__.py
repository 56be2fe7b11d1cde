"""Analyses of a trained ensemble, from model, X and y to a report; formulas are in core, report classes in report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.analysis.analyze import UNCHECKED_ROWS, UNPROVED_TARGET, analyze_rows, run_analysis
    from ens_plugin.analysis.arguments import resolve_options, row_weights
    from ens_plugin.analysis.evidence import Evidence, sample_limit, sampling_seed, tally_rows
    from ens_plugin.analysis.options import AnalysisOptions, ScorerOfLabel

__all__ = [
    "UNCHECKED_ROWS",
    "UNPROVED_TARGET",
    "AnalysisOptions",
    "Evidence",
    "ScorerOfLabel",
    "analyze_rows",
    "resolve_options",
    "row_weights",
    "run_analysis",
    "sample_limit",
    "sampling_seed",
    "tally_rows",
]

_HOME_OF = {
    "AnalysisOptions": "ens_plugin.analysis.options",
    "ScorerOfLabel": "ens_plugin.analysis.options",
    "Evidence": "ens_plugin.analysis.evidence",
    "UNCHECKED_ROWS": "ens_plugin.analysis.analyze",
    "UNPROVED_TARGET": "ens_plugin.analysis.analyze",
    "analyze_rows": "ens_plugin.analysis.analyze",
    "resolve_options": "ens_plugin.analysis.arguments",
    "row_weights": "ens_plugin.analysis.arguments",
    "run_analysis": "ens_plugin.analysis.analyze",
    "sample_limit": "ens_plugin.analysis.evidence",
    "sampling_seed": "ens_plugin.analysis.evidence",
    "tally_rows": "ens_plugin.analysis.evidence",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
