"""Check of a policy's bounds on shares: with 6 in place of 0.06 every model would pass."""

from __future__ import annotations

from collections.abc import Mapping

from ens_plugin.errors import InputError
from ens_plugin.registry.gating.policy import BASELINE_SCALARS, Policy, Requirement
from ens_plugin.report.result import EnsembleReport

__all__ = ["check_share_bounds"]

SHARE = (0.0, 1.0)
DIFFERENCE = (-1.0, 1.0)
OF_THE_ERROR = {
    ("report", "error"): SHARE,
    ("report", "error_lower"): SHARE,
    ("report", "error_upper"): SHARE,
    ("report", "asymptotic_error"): SHARE,
    ("report", "excess_error"): DIFFERENCE,
    ("report", "algorithmic_sd"): SHARE,
    **{("baseline", name): DIFFERENCE for name in BASELINE_SCALARS},
}
OF_THE_LABELS = {("report", name): SHARE for name in ("agreement", "member_error", "member_variance", "bias")}

Ranges = Mapping[tuple[str, str], tuple[float, float]]


def check_share_bounds(policy: Policy, report: EnsembleReport | None) -> None:
    """Raise for bounds that a share, or a difference of two shares, cannot reach.

    Parameters
    ----------
    policy : Policy
    report : EnsembleReport or None
        Report on the candidate.  Its scalars are shares for classification, except where the error is a user's
        own metric; squared errors, without such limits, for regression.

    Raises
    ------
    InputError
        If a bound lies outside.

    Examples
    --------
    >>> from ens_plugin.registry.gating.policy import read_policy
    >>> check_share_bounds(read_policy({"report": {"error": {"max": 6}}}), None)
    """
    ranges = {} if report is None else _ranges(report)
    for requirement in policy.requirements:
        limits = ranges.get((requirement.table, requirement.name))
        if limits is not None and not limits[0] <= requirement.threshold <= limits[1]:
            raise InputError(_outside(requirement, *limits))


def _ranges(report: EnsembleReport) -> Ranges:
    of_the_error = OF_THE_ERROR if report.error_curve.metric == "0-1 error" else {}
    return {**of_the_error, **(OF_THE_LABELS if report.task == "classification" else {})}


def _outside(requirement: Requirement, low: float, high: float) -> str:
    number = requirement.threshold
    percent = number if abs(number) <= 100 else 6.0
    return (
        f"The policy has '{requirement.table}.{requirement.name}.{requirement.bound} = {number:g}', but for this model "
        f"that is a share, from {low:g} to {high:g}. Write {percent / 100:g} for {percent:g} %."
    )
