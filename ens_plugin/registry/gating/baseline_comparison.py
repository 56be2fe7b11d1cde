"""The difference of a candidate's error and a baseline's, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ens_plugin.analysis.checks.judged_metric import JudgedMetric, metric_difference, rows_of_both
from ens_plugin.analysis.checks.judged_rows import judged_by_both, paired_difference
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.core.uncertainty.paired_losses import Difference, separate_difference
from ens_plugin.core.validation import counted, shown
from ens_plugin.errors import GateError
from ens_plugin.registry.gating.decision import Check, apart
from ens_plugin.registry.gating.policy import Requirement
from ens_plugin.report.estimates import OWN_LABEL
from ens_plugin.report.quantities import label_words
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.measurement import Measurement

__all__ = [
    "LEVEL", "Comparison", "compare_intervals", "compare_pairs", "of_label", "positive_label", "remedy",
    "with_compared_values",
]  # fmt: skip

LEVEL = AnalysisOptions.interval_level
OF_ONE_LABEL = ("average_precision", "f1", "jaccard", "precision", "recall")
FEWEST_PAIRS = 2
_ENDS = {"error_increase_lower": "lower", "error_increase_upper": "upper"}


class Comparison(NamedTuple):
    """The difference of a candidate's error and a baseline's, and how it was estimated.

    Attributes
    ----------
    increase : Difference
        Difference of the errors, with its 95 % interval.
    method : str
        Description of the estimate.
    reports : tuple of EnsembleReport
        That of the candidate and that of the baseline.
    """

    increase: Difference
    method: str
    reports: tuple[EnsembleReport, EnsembleReport]


def compare_pairs(candidate: Measurement, baseline: Measurement) -> Comparison:
    """Return the difference of two models' errors from their losses row by row.

    On out-of-bag rows, where fewer members predict than the models have, the difference is corrected for the
    missing members of both, so that it is the difference at the models' own sizes.  Of a metric it is positive where
    the candidate is worse.  The interval includes what
    another seed would change in both models, so that training again with another seed rarely shows an increase.

    Raises
    ------
    GateError
        If fewer than two rows are out of bag for members of both models, or the models have different tasks.
    """
    _check_same_error(candidate.report, baseline.report)
    first, second, reports = candidate.judged, baseline.judged, (candidate.report, baseline.report)
    kind = "held-out" if candidate.report.data == "holdout" else "out-of-bag"
    if isinstance(first, JudgedMetric):
        assert isinstance(second, JudgedMetric)
        n_rows = _enough(rows_of_both(first, second)[0].size)
        name = candidate.report.error_curve.metric
        increase = metric_difference(first, second, LEVEL)
        return Comparison(increase, f"{name} on the same {counted(n_rows, f'{kind} row')}", reports)
    assert not isinstance(second, JudgedMetric)
    n_rows = _enough(int(np.count_nonzero(judged_by_both(first, second))))
    increase = paired_difference(first, second, candidate.report.task, LEVEL)
    return Comparison(increase, f"paired differences on {counted(n_rows, f'{kind} row')}", reports)


def _enough(n_rows: int) -> int:
    """Return the number of rows; raise GateError where it is too small."""
    if n_rows < FEWEST_PAIRS:
        raise GateError(f"Only {counted(n_rows, 'row')} can be scored by both models. Pass more rows.")
    return n_rows


def compare_intervals(candidate: EnsembleReport, baseline: EnsembleReport) -> Comparison:
    """Return the difference of two reports' errors from their data intervals alone, without pairing rows.

    Raises
    ------
    GateError
        If the reports have different metrics or positive labels, or no 95 % interval.
    """
    _check_same_error(candidate, baseline)
    for report in (candidate, baseline):
        known = all(map(math.isfinite, (report.error, *report.error_interval)))
        if not known or report.error_curve.interval_level != LEVEL:
            raise GateError(
                f"A comparison needs 95 % intervals, and a report of {counted(report.n_members, 'member')} has "
                f"{f'{report.error_curve.interval_level:.4g} ones' if known else 'none at that size'}. "
                f"Analyse the model again with interval_level={LEVEL:g} and the default estimator."
            )
    apart = [Difference(report.error, *report.error_interval) for report in (candidate, baseline)]
    if candidate.error_curve.greater_is_better:
        # An increase of the error is a decrease of the score.
        apart.reverse()
    return Comparison(separate_difference(*apart), "both 95 % data intervals", (candidate, baseline))


def with_compared_values(checks: Sequence[Check], comparison: Comparison, baseline: str) -> list[Check]:
    """Return checks of which those on the table "baseline" name the metric of both models and its change.

    What several of them have in common is stated in the first one that a verdict shows, which failed if any did.

    Parameters
    ----------
    checks : sequence of Check
    comparison : Comparison
    baseline : str
        Name of the baseline, such as ``"version 3"``.
    """
    found, told = list(checks), list[Requirement]()
    for place in sorted(range(len(found)), key=lambda place: found[place].passed):
        requirement = found[place].requirement
        if requirement.table == "baseline":
            found[place] = replace(found[place], subject=_compared_values(requirement, comparison, baseline, told))
            told.append(requirement)
    return found


def _compared_values(
    requirement: Requirement, comparison: Comparison, baseline: str, told: Sequence[Requirement]
) -> str:
    """Return the beginning of a sentence, which the value found and its bound end, after the sentences `told`."""
    curve = comparison.reports[0].error_curve
    here, there = apart(*(report.error for report in comparison.reports))
    words = _change_words(
        requirement,
        comparison.increase,
        "decrease" if curve.greater_is_better else "increase",
        has_interval=any(earlier.name in _ENDS for earlier in told),
    )
    key = f"baseline.{requirement.key or requirement.name}"
    if told:
        return f"{key}: the {words}"
    metric = f"{printable(curve.metric, 40)}{of_label(comparison.reports[0])}"
    return f"{key}: {metric} is {here}, and that of {baseline} is {there}. The {words}"


def _change_words(requirement: Requirement, increase: Difference, change: str, *, has_interval: bool) -> str:
    """Return the change between two models, with its interval where the requirement is on an end that is not told."""
    if requirement.name not in _ENDS:
        return f"{change} is"
    level, end = f"{100 * LEVEL:g} %", _ENDS[requirement.name]
    if has_interval:
        return f"{end} end of the {level} interval of the {change} is"
    low, high = apart(increase.lower, increase.upper)
    return (
        f"{change} is {increase.estimate:.4g}, and its {level} interval is from {low} to {high}. The {end} end of that "
        "interval is"
    )


def remedy(requirement: Requirement, comparison: Comparison) -> str:
    """Return what to do where a comparison fails: train again, or measure on more rows if only these are too few."""
    if requirement.name == "error_increase_upper" and comparison.increase.estimate <= requirement.threshold:
        return (
            "The interval is wide for this bound because there are few rows. Compare both versions on more rows, or "
            "train a better model, log its report and gate that version."
        )
    return "Train a model that is no worse, log its report and gate that version."


def _check_same_error(candidate: EnsembleReport, baseline: EnsembleReport) -> None:
    found = candidate.error_curve.metric, baseline.error_curve.metric
    if found[0] != found[1]:
        raise GateError(
            f"The candidate's error is the {printable(found[0], 40)}, the baseline's the {printable(found[1], 40)}. "
            "Compare models with the same metric."
        )
    labels = positive_label(candidate), positive_label(baseline)
    if labels[0] != labels[1]:
        raise GateError(
            f"The candidate's {printable(found[0], 40)} is about the label {shown(labels[0], 40)} and the baseline's "
            f"about {shown(labels[1], 40)}. Compare models by the same label."
        )


def positive_label(report: EnsembleReport) -> str:
    """Return the label that a report's metric is about if it is about one of two."""
    basis = report.error_curve.metric_basis
    return OWN_LABEL if basis is None else basis.label


def of_label(report: EnsembleReport) -> str:
    """Return the label that a report's metric is about, as the words after its name; empty for other metrics.

    Where none was named, scikit-learn's scorers of one of two labels are about the label 1.
    """
    basis, metric = report.error_curve.metric_basis, report.error_curve.metric
    if basis is None or basis.positive_label is not None:
        return label_words(basis)
    is_of_one = metric in OF_ONE_LABEL and len(report.basis.labels) == 2
    return label_words(replace(basis, positive_label=OWN_LABEL)) if is_of_one else ""
