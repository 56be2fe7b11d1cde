"""What to do about a requirement on a report that failed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ens_plugin.registry.gating.policy import Requirement

__all__ = ["NEW_VERSION", "report_remedies", "report_remedy"]

NEW_VERSION = "Log the report of the new model, register it and gate that version."
_MORE = "Train more members, with ens_plugin.grow for example."
_FEWER = "Cut the model to fewer members, with ens_plugin.rightsize for example."
_NEITHER = (
    "Some of these bounds need more members, others fewer, so that no size of this model meets all of them. Train a "
    "better model, or change one of the bounds."
)
_BETTER = "Train a better model"
_BETTER_SCORE = "Train a better model: with infinitely many members, this one only reaches asymptotic_{}."
_ROWS = "The interval is wide for this bound because there are few rows. Analyse more rows, or train a better model."
_BY_SIZE = {
    ("agreement", "min"): _MORE,
    ("excess_error", "max"): _MORE,
    ("algorithmic_sd", "max"): _MORE,
    ("n_members", "min"): _MORE,
    ("size_ratio", "max"): _FEWER,
    ("n_members", "max"): _FEWER,
}
_FALL_WITH_SIZE = ("error", "error_upper", "error_lower")
_OTHER = {"max": "min", "min": "max"}
_ENDS, _SHORTFALL, _LIMIT = ("_lower", "_upper"), "_shortfall", "asymptotic_"
_OF_THE_MEMBERS = ("member_error", "member_variance", "bias", "recommended_size", "size_capped", "agreement")


def report_remedies(failed: Sequence[Requirement], scalars: Mapping[str, float]) -> list[str]:
    """Return what to do where scalars of the report fail their bounds: each remedy once, and none against another.

    Examples
    --------
    >>> failed = [Requirement("report", "agreement", "min", 0.99), Requirement("report", "size_ratio", "max", 2.0)]
    >>> report_remedies(failed, {"agreement": 0.98, "size_ratio": 3.0})[0][:40]
    'Some of these bounds need more members, '
    """
    remedies = [report_remedy(requirement, scalars) for requirement in failed]
    found = list(dict.fromkeys(remedy for remedy in remedies if remedy is not None))
    if _MORE in found and _FEWER in found:
        return [*(remedy for remedy in found if remedy not in (_MORE, _FEWER)), _NEITHER]
    return found


def report_remedy(requirement: Requirement, scalars: Mapping[str, float]) -> str | None:
    """Return what to do where a scalar of the report fails its bound; None where no single answer is right.

    Parameters
    ----------
    requirement : Requirement
        On the table "report".
    scalars : mapping of str to float
        The scalars of the report.

    Examples
    --------
    >>> report_remedy(Requirement("report", "agreement", "min", 0.99), {"agreement": 0.98})
    'Train more members, with ens_plugin.grow for example.'
    >>> report_remedy(Requirement("report", "error_upper", "max", 0.08), {"error": 0.07, "error_upper": 0.09})[:20]
    'The interval is wide'
    >>> report_remedy(Requirement("report", "r2", "min", 0.9), {"r2": 0.7, "asymptotic_r2": 0.72})
    'Train a better model: with infinitely many members, this one only reaches asymptotic_r2.'
    >>> report_remedy(Requirement("report", "r2_shortfall", "max", 0.01), {"r2": 0.7, "r2_shortfall": 0.02})
    'Train more members, with ens_plugin.grow for example.'
    >>> report_remedy(Requirement("report", "error", "max", 0.05), {"error": 0.07, "excess_error": 0.004})
    'Train a better model: infinitely many members would lower the error by no more than 0.004.'
    """
    name, bound = requirement.name, requirement.bound
    if (name, bound) in _BY_SIZE:
        return _BY_SIZE[name, bound]
    if name.endswith(_SHORTFALL):
        return _MORE if bound == "max" else None
    if name in _OF_THE_MEMBERS or (name, _OTHER[bound]) in _BY_SIZE:
        return None
    score = name.removeprefix(_LIMIT).removesuffix("_upper").removesuffix("_lower")
    value = scalars.get(score)
    if value is not None and name.endswith(_ENDS) and _holds(value, requirement):
        return _ROWS
    excess = scalars.get("excess_error")
    if excess is None:
        return _BETTER_SCORE.format(score) if f"{_LIMIT}{score}" in scalars else f"{_BETTER}."
    if bound == "max" and name in _FALL_WITH_SIZE and scalars.get(name, math.inf) - excess <= requirement.threshold:
        return _MORE
    return f"{_BETTER}: infinitely many members would lower the error by no more than {max(excess, 0.0):.2g}."


def _holds(value: float, requirement: Requirement) -> bool:
    return value <= requirement.threshold if requirement.bound == "max" else value >= requirement.threshold
