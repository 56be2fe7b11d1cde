"""How far a candidate's error is above a baseline's, and how well that is known."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ens_plugin.core.uncertainty.cut_comparison import interval_over_seeds
from ens_plugin.core.uncertainty.paired_losses import Difference, mean_difference, share_difference
from ens_plugin.errors import GateError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.measurement import Measurement

__all__ = ["LEVEL", "Comparison", "compare_intervals", "compare_pairs"]

LEVEL = 0.95
FEWEST_PAIRS = 2


class Comparison(NamedTuple):
    """Candidate minus baseline.

    Attributes
    ----------
    increase : Difference
        Of the error, with its 95 % interval.
    method : str
        How it was found, in words.
    """

    increase: Difference
    method: str


def compare_pairs(candidate: Measurement, baseline: Measurement) -> Comparison:
    """Compare the losses of both models row by row.

    On out-of-bag rows, where fewer members predict than the models have, the difference is moved by what the
    missing members change in both, so that it is one of the models at their own sizes.  The interval is one of the
    recipes: it contains what another seed would change in both, so that the same recipe is rarely called worse.

    Raises
    ------
    GateError
        If fewer than two rows have members of both models that never saw them, or the models have
        different tasks.
    """
    _check_same_error(candidate.report, baseline.report)
    both = np.isfinite(candidate.losses) & np.isfinite(baseline.losses)
    n_rows = int(np.count_nonzero(both))
    if n_rows < FEWEST_PAIRS:
        raise GateError(f"Only {n_rows} rows can be scored by both models; pass more rows.")
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
    """What all members would change in the mean loss of those that speak about a row."""
    if measured.report.data == "holdout":
        return 0.0
    return measured.report.error - float(np.nanmean(measured.losses))


def compare_intervals(candidate: EnsembleReport, baseline: EnsembleReport) -> Comparison:
    """Compare two reports by their data intervals, as if nothing were known of how the rows go together.

    Raises
    ------
    GateError
        If the reports are of different errors, or have no 95 % interval.
    """
    _check_same_error(candidate, baseline)
    for report in (candidate, baseline):
        known = all(map(math.isfinite, (report.error, *report.error_interval)))
        if not known or report.error_curve.interval_level != LEVEL:
            raise GateError(
                f"A comparison takes 95 % intervals, and a report of {report.n_members} members has "
                f"{f'{report.error_curve.interval_level:.4g} ones' if known else 'none at that size'}; "
                "analyse the model again with interval_level=0.95 and the default estimator."
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
            f"The candidate's error is a {printable(found[0], 40)} and the baseline's a {printable(found[1], 40)}; "
            "compare models that are judged alike."
        )
