"""The evidence of a gate: the candidate's report, its metrics, and the comparison with a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ens_plugin.core.uncertainty.paired_losses import Difference
from ens_plugin.core.validation import label_text, shown
from ens_plugin.errors import (
    BagError,
    GateError,
    InputError,
    ModelLoadError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from ens_plugin.registry.gating.baseline_comparison import (
    LEVEL,
    Comparison,
    compare_intervals,
    compare_pairs,
    positive_label,
)
from ens_plugin.registry.gating.logged_report import logged_metrics, read_report
from ens_plugin.registry.gating.policy import BASELINE_SCALARS, Policy
from ens_plugin.report.estimates import OWN_LABEL
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.measurement import Measurement, Rows, measure
from ens_plugin.tracking.store.model_version import RegisteredVersion, VersionAddress, alias_holder, find_version

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = [
    "BaselineEvidence",
    "GateEvidence",
    "GateRequest",
    "are_misspelt",
    "check_promoted_alias",
    "compare_with_baseline",
    "gather_evidence",
    "refuse_doubts",
    "scalar_tables",
]

DOUBT_LIMIT = 600
ALIASES_LIMIT = 200
INTERVAL_ENDS = ("error_lower", "error_upper")
NOT_SCORED = (BagError, InputError, ModelLoadError, NotFittedError, TooFewMembersError, UnsupportedModelError)


@dataclass(frozen=True)
class GateRequest:
    """The checked arguments of :func:`ens_plugin.gate`."""

    candidate: VersionAddress
    policy: Policy
    baseline: VersionAddress | None
    rows: Rows | None
    promote: str | None
    prefix: str


class GateEvidence(NamedTuple):
    """The report on a candidate, logged or measured by the gate, and its description.

    Attributes
    ----------
    report : EnsembleReport or None
        None where the policy has no requirement on it.
    report_uri : str or None
        URI of the logged report.
    measurement : Measurement or None
        Where rows were passed to the gate.
    words : str
        Description of the report's rows and origin.
    """

    report: EnsembleReport | None
    report_uri: str | None
    measurement: Measurement | None
    words: str


class BaselineEvidence(NamedTuple):
    """The comparison of a candidate with a baseline, if there is one, and its description.

    Attributes
    ----------
    comparison : Comparison or None
        None where the policy requires none, or there is no baseline yet.
    version : str or None
        Version of the baseline.
    words : str or None
        Description of the comparison, or of the reason for none.
    name : str
        Of the version, and of its model where that is another than the candidate's; empty without a comparison.
    warning : str
        Sentence about a comparison that the policy requires and that was not made; else empty.
    """

    comparison: Comparison | None
    version: str | None
    words: str | None
    name: str = ""
    warning: str = ""


def gather_evidence(client: MlflowClient, version: RegisteredVersion, request: GateRequest) -> GateEvidence:
    """Return the report on a version: the logged one, or one measured on the rows of the request.

    Raises
    ------
    EnsPluginError
        If there is no usable report.
    MlflowException
        If the server refuses.
    """
    if not request.policy.needs_report():
        return GateEvidence(None, None, None, "logged metrics; the policy has no requirement on an ensemble report")
    if request.rows is None:
        logged = read_report(client, version, request.prefix)
        refuse_doubts(logged.report, version)
        _check_metric(logged.report, version, request.policy)
        _check_level(logged.report, version, request.policy)
        return GateEvidence(
            logged.report, logged.uri, None, f"{_rows_in_words(logged.report)}, as logged at {logged.uri}"
        )
    measured = measure(client, version, request.rows, request.policy.measured_metric)
    refuse_doubts(measured.report, version)
    words = f"{_rows_in_words(measured.report)}, measured by the gate (digest {measured.digest})"
    return GateEvidence(measured.report, None, measured, words)


def refuse_doubts(report: EnsembleReport, version: RegisteredVersion) -> None:
    """Raise GateError for a report with doubts, which warn not to rely on its figures.

    Raises
    ------
    GateError
        If the report has doubts; the message quotes the first.
    """
    if not report.basis.doubts:
        return
    raise GateError(
        f"The gate does not act on the report of version {version.version} of {printable(version.name, 80)}, which "
        "warns not to rely on its figures: "
        f"{printable(report.basis.doubts[0], DOUBT_LIMIT)}"
    )


def _check_level(report: EnsembleReport, version: RegisteredVersion, policy: Policy) -> None:
    """Raise GateError where a policy bounds ends of 95 % intervals and a report has intervals of another level."""
    level = report.error_curve.interval_level
    bounded = [item.name for item in policy.requirements if item.table == "report" and item.name in INTERVAL_ENDS]
    if bounded and level != LEVEL:
        raise GateError(
            f"The policy bounds {bounded[0]!r}, an end of a {100 * LEVEL:g} % interval, and the report of version "
            f"{version.version} of {printable(version.name, 80)} has {100 * level:.4g} % intervals. Analyse the model "
            f"again with interval_level={LEVEL:g}."
        )


def _check_metric(report: EnsembleReport, version: RegisteredVersion, policy: Policy) -> None:
    """Raise GateError where a policy names a metric, and a logged report is of another, or about another label."""
    if policy.metric is None:
        return
    found, label = report.error_curve.metric, policy.positive_label or OWN_LABEL
    if found != policy.metric:
        raise GateError(
            f"The policy is about {policy.metric!r}, and the logged report of version {version.version} of "
            f"{printable(version.name, 80)} about {printable(found, 40)!r}. Log one made with "
            f"metric={policy.metric!r}, or pass rows, on which the gate computes it."
        )
    if positive_label(report) != label_text(label):
        raise GateError(
            f"The policy is about {policy.metric!r} with {shown(label)} as the positive label, and the logged report "
            f"of version {version.version} of {printable(version.name, 80)} with {shown(positive_label(report), 40)}. "
            "Log one with the label of the policy, write the label of the report as positive_label under [report], or "
            "pass rows, on which the gate computes the metric."
        )


def _rows_in_words(report: EnsembleReport) -> str:
    left_out = f" ({report.rows_without_oob} more left out)" if report.rows_without_oob else ""
    return f"{report.n_rows} {'out-of-bag' if report.data == 'oob' else 'held-out'} rows{left_out}"


def compare_with_baseline(
    client: MlflowClient, version: RegisteredVersion, evidence: GateEvidence, request: GateRequest
) -> BaselineEvidence:
    """Return the comparison of the candidate with the baseline, as far as the policy requires one.

    Raises
    ------
    GateError
        If the policy requires a comparison and there is nothing to compare with, or the alias of the baseline, which
        no version has, is nearly one that a version has.
    MlflowException
        If the server refuses.
    """
    address, policy = request.baseline, request.policy
    if not policy.compares():
        return BaselineEvidence(
            None, None, None if address is None else "not compared, since the policy does not require it"
        )
    if address is None:
        raise GateError(
            "The policy compares with a baseline, and none was named. Name an alias of the same model, with "
            "--baseline champion or baseline='champion' for example, or the URI of a version, such as "
            f"'models:/{printable(version.name, 80)}/1'."
        )
    if address.version is None and alias_holder(client, address) is None:
        if policy.baseline_required:
            raise GateError(
                f"The policy compares with the version of {printable(address.name, 80)} that has the alias "
                f"{address.alias!r}, and none has it. Set the alias, or add 'required = false' under [baseline] of the "
                "policy, so that a version is judged without a comparison as long as there is none."
            )
        return _without_baseline(address, version, _aliases(client, address))
    baseline = find_version(client, address)
    comparison = _compared(client, version, baseline, evidence, request)
    number, model = f"version {baseline.version}", f" of {printable(baseline.name, 80)}"
    name = number if baseline.name == version.name else number + model
    return BaselineEvidence(comparison, baseline.version, f"{number}{model}, by {comparison.method}", name)


def _aliases(client: MlflowClient, address: VersionAddress) -> list[str]:
    return sorted(str(alias) for alias in client.get_registered_model(address.name).aliases)


def are_misspelt(first: str, second: str) -> bool:
    """Return whether one alias is the other with its letters in another order, or with one left out before the end.

    Aliases that are alike on purpose differ at their ends, in their digits, or in other letters: "champion-eu" and
    "champion-us", "v12" and "v21".
    """
    if [letter for letter in first if letter.isdigit()] != [letter for letter in second if letter.isdigit()]:
        return False
    if sorted(first) == sorted(second):
        return True
    short, long = sorted((first, second), key=len)
    without_one = {long[:place] + long[place + 1 :] for place in range(len(long) - 1)}
    return short in without_one and not long.startswith(short)


def check_promoted_alias(client: MlflowClient, address: VersionAddress) -> None:
    """Check that the alias to promote to, if no version has it yet, is not nearly one that a version has.

    Raises
    ------
    GateError
        If it is.
    MlflowException
        If the server refuses.
    """
    aliases = _aliases(client, address)
    if address.alias not in aliases:
        _refuse_misspelt(address, aliases, "alias to promote to")


def _refuse_misspelt(address: VersionAddress, aliases: list[str], role: str) -> None:
    wanted, model = address.alias or "", printable(address.name, 80)
    near = [alias for alias in aliases if are_misspelt(wanted, alias)]
    if near:
        raise GateError(
            f"No version of {model} has the alias {wanted!r}, and one has {printable(near[0], 80)!r}, so the name of "
            f"the {role} may be misspelt. Correct it, or set the alias that you named."
        )


def _without_baseline(address: VersionAddress, version: RegisteredVersion, aliases: list[str]) -> BaselineEvidence:
    """Return the evidence where no version has the alias of the baseline yet; refuse an alias that looks misspelt."""
    wanted, model = address.alias or "", printable(address.name, 80)
    _refuse_misspelt(address, aliases, "baseline")
    others = f"It has the aliases {', '.join(map(repr, aliases))}." if aliases else "It has no alias at all."
    return BaselineEvidence(
        None,
        None,
        f"not compared, since no version has the alias {wanted!r} yet",
        warning=f"Version {version.version} was not compared with a baseline, because no version of {model} has the "
        f"alias {wanted!r} yet. {printable(others, ALIASES_LIMIT)}",
    )


def _compared(
    client: MlflowClient, version: RegisteredVersion, baseline: RegisteredVersion, evidence: GateEvidence,
    request: GateRequest,
) -> Comparison:  # fmt: skip
    assert evidence.report is not None
    if (baseline.name, baseline.version) == (version.name, version.version):
        reports = (evidence.report, evidence.report)
        return Comparison(Difference(0.0, 0.0, 0.0), "identity: it is the candidate itself", reports)
    if evidence.measurement is None:
        return compare_intervals(evidence.report, _relied_on(client, baseline, request))
    assert request.rows is not None
    try:
        measured = measure(client, baseline, request.rows, request.policy.measured_metric)
        refuse_doubts(measured.report, baseline)
        return compare_pairs(evidence.measurement, measured)
    except NOT_SCORED as error:
        reason = printable(str(error), 200)
        found = compare_intervals(evidence.report, _relied_on(client, baseline, request))
        return found._replace(method=f"{found.method}, because it cannot be scored on the rows given: {reason}")


def _relied_on(client: MlflowClient, version: RegisteredVersion, request: GateRequest) -> EnsembleReport:
    report = read_report(client, version, request.prefix).report
    refuse_doubts(report, version)
    return report


def scalar_tables(
    client: MlflowClient, version: RegisteredVersion, evidence: GateEvidence, baseline: BaselineEvidence, policy: Policy
) -> dict[str, Mapping[str, float]]:
    """Return the values of the scalars that a policy can bound, by table of the policy and by name."""
    tables: dict[str, Mapping[str, float]] = {}
    if evidence.report is not None:
        tables["report"] = _report_scalars(evidence.report)
    if baseline.comparison is not None:
        tables["baseline"] = dict(zip(BASELINE_SCALARS, baseline.comparison.increase, strict=True))
    if bounded := {requirement.name for requirement in policy.requirements if requirement.table == "metrics"}:
        tables["metrics"] = logged_metrics(client, version, bounded)
    return tables


def _report_scalars(report: EnsembleReport) -> dict[str, float]:
    scalars = {name: value for name, value in report.metrics().items() if math.isfinite(value)}
    if report.size_ratio is not None:
        # An upper bound where the recommended size was capped, because that size is then a lower bound.
        scalars["size_ratio"] = report.size_ratio
    return scalars
