"""Cutting of a trained ensemble to the first size that the report on the cut ensemble confirms."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.analysis.row_blocks import Progress
from ens_plugin.errors import TooFewMembersError
from ens_plugin.report.quantities import members_text
from ens_plugin.report.result import EnsembleReport
from ens_plugin.sizing.checks import Check, cut_checks, is_met
from ens_plugin.sizing.truncate import truncate

__all__ = ["sufficient_cut"]


def sufficient_cut(
    model: Any,
    report: EnsembleReport,
    size: int,
    X: Any,
    y: ArrayLike,
    options: AnalysisOptions,
    progress: Progress | None = None,
) -> tuple[Any, EnsembleReport, tuple[Check, ...]]:
    """Cut an ensemble to the first size that meets the criterion by its own report, or misses its error; else keep all.

    A recommended size is an estimate: of ensembles cut to it, half would fail a gate that requires the same
    agreement.

    Parameters
    ----------
    model : fitted ensemble
    report : EnsembleReport
        Report on `model`.
    size : int
        First size to cut to.
    X, y : array-like
        Rows that the report was computed on.
    options : AnalysisOptions
        Options that the report was computed with.
    progress : callable, optional

    Returns
    -------
    cut : fitted ensemble
    cut_report : EnsembleReport
    checks : tuple of Check
        Empty where all members are kept.

    Raises
    ------
    TooFewMembersError
        If a cut ensemble has too few members for a report on these rows.
    """
    while size < report.n_members:
        cut = truncate(model, size)
        cut_report = _report_on_cut(cut, size, X, y, options, progress)
        checks = cut_checks(model, cut, X, report, cut_report, options.sample_weight)
        found = cut_report.recommendation
        has_wrong_error = any(check.name == "error" and not check.passed for check in checks)
        if has_wrong_error or is_met(found, size):
            return cut, cut_report, checks
        # A report on few members can recommend far too many, so the size is raised in steps, each with a better report.
        step = 2 * max(size // 10, 1)
        size = size + step if found.size is None else min(max(found.size, size + 2), size + step)
    return model, report, ()


def _report_on_cut(
    cut: Any, size: int, X: Any, y: ArrayLike, options: AnalysisOptions, progress: Progress | None
) -> EnsembleReport:
    try:
        return run_analysis(cut, X, y, options, progress=progress)
    except TooFewMembersError as error:
        found = error.finding or error.template.rstrip(".")
        raise TooFewMembersError(
            f"The recommended {members_text(size)} cannot be checked on these rows ({found}). Pass held-out rows with "
            "{data='holdout'}, or get a larger size by a higher confidence or a lower tolerance."
        ) from error
