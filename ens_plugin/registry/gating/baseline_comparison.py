"""The difference of a candidate's error and a baseline's, with its interval."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.core.uncertainty.cut_comparison import interval_over_seeds
from ens_plugin.core.uncertainty.paired_losses import Difference, mean_difference, share_difference
from ens_plugin.errors import GateError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.measurement import Measurement

__all__ = ["LEVEL", "Comparison", "compare_intervals", "compare_pairs"]

LEVEL = AnalysisOptions.interval_level
FEWEST_PAIRS = 2


class Comparison(NamedTuple):
    """Candidate minus baseline.

    Attributes
    ----------
    increase : Difference
        Difference of the errors, with its 95 % interval.
    method : str
        Description of how it was estimated.
    """

    increase: Difference
    method: str


def compare_pairs(candidate: Measurement, baseline: Measurement) -> Comparison:
    """Return the difference of two models' errors from their losses row by row.

    On out-of-bag rows, where fewer members predict than the models have, the difference is corrected for the
    missing members of both, so that it is the difference at the models' own sizes.  The interval includes what
    another seed would change in both models, so that the same recipe with another seed is rarely called worse.

    Raises
    ------
    GateError
        If fewer than two rows are out of bag for members of both models, or the models have different tasks.
    """
    _check_same_error(candidate.report, baseline.report)
    both = np.isfinite(candidate.losses) & np.isfinite(baseline.losses)
    n_rows = int(np.count_nonzero(both))
    if n_rows < FEWEST_PAIRS:
        raise GateError(f"Only {n_rows} rows can be scored by both models. Pass more rows.")
    pairs = candidate.losses[both], baseline.losses[both]
    compare = share_difference if candidate.report.task == "classification" else mean_difference
    found = compare(*pairs, LEVEL)
    seeds = math.sqrt(candidate.seed_variance + baseline.seed_variance)
    lower, upper = interval_over_seeds(found.estimate, (found.lower, found.upper), seeds, LEVEL)
    shift = _to_own_size(candidate) - _to_own_size(baseline)
    kind = "held-out" if candidate.report.data == "holdout" else "out-of-bag"
    return Comparison(
        Difference(found.estimate + shift, lower + shift, upper + shift),
        f"paired differences on {n_rows} {kind} rows",
    )


def _to_own_size(measured: Measurement) -> float:
    """Return the error of all members minus the mean loss, which is that of each row's out-of-bag members."""
    if measured.report.data == "holdout":
        return 0.0
    return measured.report.error - float(np.nanmean(measured.losses))


def compare_intervals(candidate: EnsembleReport, baseline: EnsembleReport) -> Comparison:
    """Return the difference of two reports' errors from their data intervals alone, without pairing rows.

    Raises
    ------
    GateError
        If the reports have different metrics, or no 95 % interval.
    """
    _check_same_error(candidate, baseline)
    for report in (candidate, baseline):
        known = all(map(math.isfinite, (report.error, *report.error_interval)))
        if not known or report.error_curve.interval_level != LEVEL:
            raise GateError(
                f"A comparison needs 95 % intervals, and a report of {report.n_members} members has "
                f"{f'{report.error_curve.interval_level:.4g} ones' if known else 'none at that size'}. "
                f"Analyse the model again with interval_level={LEVEL:g} and the default estimator."
            )
    low, high = candidate.error_interval
    baseline_low, baseline_high = baseline.error_interval
    return Comparison(
        Difference(candidate.error - baseline.error, low - baseline_high, high - baseline_low),
        "both 95 % data intervals",
    )


def _check_same_error(candidate: EnsembleReport, baseline: EnsembleReport) -> None:
    found = candidate.error_curve.metric, baseline.error_curve.metric
    if found[0] != found[1]:
        raise GateError(
            f"The candidate's error is a {printable(found[0], 40)} and the baseline's a {printable(found[1], 40)}. "
            "Compare models with the same metric."
        )
