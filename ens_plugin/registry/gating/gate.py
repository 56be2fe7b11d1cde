"""The gate of a model registry: whether a version may be promoted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from ens_plugin.core.validation import counted
from ens_plugin.errors import EnsPluginError, GateError, InputError
from ens_plugin.registry.gating.audit import Audit, audit_line, audit_to_file, audit_to_log, utc_now
from ens_plugin.registry.gating.baseline_comparison import of_label, remedy, with_compared_values
from ens_plugin.registry.gating.decision import Check, GateDecision
from ens_plugin.registry.gating.evidence import (
    BaselineEvidence,
    GateEvidence,
    GateRequest,
    check_promoted_alias,
    compare_with_baseline,
    gather_evidence,
    scalar_tables,
)
from ens_plugin.registry.gating.lease import Lease, lease
from ens_plugin.registry.gating.policy import Policy, Requirement, check_share_bounds, read_policy, scorer_of
from ens_plugin.registry.gating.remedies import NEW_VERSION, report_remedies
from ens_plugin.registry.gating.verdict import check_alias_stayed, check_version_stayed, move_alias, write_verdict
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.logging.artifacts import DEFAULT_PREFIX
from ens_plugin.tracking.logging.report_log import check_prefix
from ens_plugin.tracking.measurement import Rows
from ens_plugin.tracking.store.connection import check_server, tracking_errors, without_credentials
from ens_plugin.tracking.store.mlflow_chatter import no_check_messages, no_progress_bars
from ens_plugin.tracking.store.model_version import (
    RegisteredVersion,
    VersionAddress,
    alias_holder,
    baseline_address,
    check_alias,
    find_version,
    parse_address,
)
from ens_plugin.tracking.store.waiting import patience

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["audited_errors", "gate", "gate_request", "run_gate"]

MESSAGE_LIMIT = 1000


def gate(
    model_uri: str,
    policy: str | Path | Mapping[str, Any],
    *,
    baseline: str | None = None,
    X: Any = None,
    y: ArrayLike | None = None,
    data: Literal["oob", "holdout"] = "oob",
    promote: str | None = None,
    prefix: str = DEFAULT_PREFIX,
    audit_log: str | Path | None = None,
) -> GateDecision:
    """Judge a version of a registered model by a policy, and promote it if it passes and `promote` is given.

    The verdict and its reasons become tags of the version; an alias moves only on a pass, as the last
    step.  Where no decision is possible, an error is raised and nothing is promoted.

    Parameters
    ----------
    model_uri : str
        ``"models:/<name>/<version>"`` or ``"models:/<name>@<alias>"``.
    policy : str, Path or mapping
        A TOML file, or its content as nested dictionaries; see ``docs/reference/gate-policy.md``.
    baseline : str, optional
        Version to compare with: ``"champion"``, an alias of the same model, or a URI of a version of any model.
    X : array-like of shape (n_rows, n_features), optional
        Rows to measure both models on.  By default the logged reports are read, and no model is loaded.
        Loading a model runs code stored with it.
    y : array-like of shape (n_rows,), optional
        True labels or values of these rows.
    data : {"oob", "holdout"}, default="oob"
        What `X` and `y` are, as for :func:`ens_plugin.analyze`: the training rows in training order, or
        rows that neither model was trained on.
    promote : str, optional
        Alias to move to the version if it passes.
    prefix : str, default="ens"
        Prefix that the report was logged with.
    audit_log : str or Path, optional
        File to append a line of JSON to for each decision, promotion and error.  By default the lines go
        to the logger ``ens_plugin.gate``, at level INFO.

    Returns
    -------
    GateDecision
        Its attribute `passed` is True where every requirement holds.

    Raises
    ------
    InputError
        If an argument or the policy is wrong, a bound on a share lies outside 0 to 1, or the audit log
        cannot be written.
    GateError
        If the report or a metric is missing, incomplete or contradicts itself, there is no baseline,
        the baseline moved meanwhile, or an alias that no version has is nearly one that a version has.
    DataMismatchError
        If the rows are not what `data` states.
    TrackingError
        If the server cannot be reached or refuses a call.
    ModelLoadError
        If a model is needed and cannot be loaded, or MLflow's switch
        ``MLFLOW_ALLOW_PICKLE_DESERIALIZATION`` forbids it.

    Examples
    --------
    >>> import ens_plugin
    >>> policy = {"report": {"error_upper": {"max": 0.08}, "agreement": {"min": 0.99}}}
    >>> ens_plugin.gate("models:/churn/7", policy, promote="champion").passed  # doctest: +SKIP
    True
    """
    if (X is None) != (y is None):
        raise InputError("X and y belong together. Pass both to measure on them, or neither to read logged reports.")
    rows = None if y is None else Rows(lambda _: (X, y), data)
    audit = audit_to_log if audit_log is None else audit_to_file(audit_log)
    request = gate_request(model_uri, policy, baseline=baseline, rows=rows, promote=promote, prefix=prefix)
    return run_gate(request, audit)


def gate_request(
    model_uri: str, policy: str | Path | Mapping[str, Any], *, baseline: str | None, rows: Rows | None,
    promote: str | None, prefix: str,
) -> GateRequest:  # fmt: skip
    """Return the arguments of :func:`gate`, checked before any request to a server.

    Raises
    ------
    InputError
        If one of them is wrong.
    """
    check_prefix(prefix)
    if promote is not None:
        check_alias(promote, "promote")
    if rows is not None and rows.data not in ("oob", "holdout"):
        raise InputError(f"data={printable(repr(rows.data), 80)} is neither 'oob' nor 'holdout'. Pass one of them.")
    read = read_policy(policy)
    if rows is not None and not read.needs_report():
        raise InputError(
            "Rows were given, but the policy has no requirement that could be measured on them. Leave them out, or "
            "add a requirement under '[report]' or '[baseline]'."
        )
    candidate = parse_address(model_uri)
    return GateRequest(
        candidate=candidate,
        policy=read,
        baseline=None if baseline is None else baseline_address(baseline, candidate.name),
        rows=rows,
        promote=promote,
        prefix=prefix,
    )


def run_gate(request: GateRequest, audit: Audit) -> GateDecision:
    """Judge a version, write the verdict and move the alias, with an audit line for each of them and for errors.

    Raises
    ------
    EnsPluginError
        As :func:`gate`.
    """
    import mlflow

    with no_progress_bars(), audited_errors(request, audit), patience():
        store = mlflow.get_registry_uri()
        for uri in {mlflow.get_tracking_uri(), store}:
            check_server(uri)
        with tracking_errors(store):
            client = mlflow.MlflowClient()
            expected = _aliases_at_stake(client, request)
            version = find_version(client, request.candidate)
            decision = _decide(client, request, version)
            audit(_line("decision", request, decision.to_dict()))
            with lease(client, decision.name) as held:
                check_version_stayed(client, version)
                write_verdict(client, decision)
                if request.promote is None or not decision.passed:
                    return decision
                promoted = _promote(client, request, (version, decision), expected, held, audit)
    _audit_promotion(request, promoted, audit)
    return promoted


def _audit_promotion(request: GateRequest, promoted: GateDecision, audit: Audit) -> None:
    try:
        audit(_line("promotion", request, promoted.to_dict()))
    except InputError as error:
        raise InputError(
            f"The alias {promoted.promoted!r} now points at version {promoted.version} of "
            f"{printable(promoted.name, 80)} (before: {promoted.promoted_from or 'none'}). Only the line in the audit "
            f"log is missing. {error}"
        ) from error


@contextmanager
def audited_errors(request: GateRequest, audit: Audit) -> Iterator[None]:
    """Write an audit line for every exception that the block raises, and raise it."""
    try:
        yield
    except EnsPluginError as error:
        audit(_error_line(request, error))
        raise
    except Exception as error:
        # Logged and registered content can have any form, and none may lead to a verdict by mistake.
        audit(_error_line(request, error))
        raise GateError(
            f"The gate failed on unexpected content ({type(error).__name__}: "
            f"{printable(str(error), MESSAGE_LIMIT)}), so there is no verdict. Log the report again and register the "
            "model again. If that does not help, report this as a defect of ens-plugin."
        ) from error
    except BaseException as error:
        audit(_error_line(request, error))
        raise


def _error_line(request: GateRequest, error: BaseException) -> str:
    message = printable(str(error), MESSAGE_LIMIT)
    return _line("error", request, {"error": type(error).__name__, "message": message})


def _line(event: str, request: GateRequest, content: Mapping[str, Any]) -> str:
    import mlflow

    arguments = {
        "model": str(request.candidate),
        "baseline": None if request.baseline is None else str(request.baseline),
        "promote": request.promote,
        "policy_digest": request.policy.digest,
    }
    return audit_line(event, without_credentials(mlflow.get_registry_uri()), {"asked": arguments, **content})


def _decide(client: MlflowClient, request: GateRequest, version: RegisteredVersion) -> GateDecision:
    if request.promote is not None:
        check_promoted_alias(client, VersionAddress(version.name, None, request.promote))
    evidence = gather_evidence(client, version, request)
    check_share_bounds(request.policy, evidence.report)
    baseline = compare_with_baseline(client, version, evidence, request)
    tables = scalar_tables(client, version, evidence, baseline, request.policy)
    checks: list[Check] = []
    for requirement in request.policy.requirements:
        if requirement.table == "baseline" and baseline.comparison is None:
            continue
        value = tables[requirement.table].get(requirement.name, math.nan)
        if math.isnan(value):
            raise GateError(_missing(requirement, tables[requirement.table], version, evidence, request.policy))
        subject = _subject(requirement, evidence.report)
        checks.append(Check(requirement, value, _holds(requirement, value), subject))
    if baseline.comparison is not None:
        checks = with_compared_values(checks, baseline.comparison, baseline.name)
    decision = _decision(version, request.policy, tuple(checks), evidence, baseline)
    return decision if decision.passed else replace(decision, notes=_notes(client, request, decision, baseline, tables))


def _subject(requirement: Requirement, report: EnsembleReport | None) -> str:
    """Return what the value of a check of the report is of, where the name of its scalar does not state all of it."""
    if requirement.table == "report" and report is not None and scorer_of(requirement.name) is not None:
        return f"report.{requirement.name}{of_label(report)} is"
    return ""


def _notes(
    client: MlflowClient,
    request: GateRequest,
    decision: GateDecision,
    baseline: BaselineEvidence,
    tables: Mapping[str, Mapping[str, float]],
) -> tuple[str, ...]:
    """Return what to do about failed requirements, and at which version the alias stays that was not moved."""
    failed = [check.requirement for check in decision.checks if not check.passed]
    of_report = [requirement for requirement in failed if requirement.table == "report"]
    notes = report_remedies(of_report, tables.get("report", {}))
    if notes:
        notes.append(NEW_VERSION)
    notes += [
        remedy(requirement, baseline.comparison)
        for requirement in failed
        if baseline.comparison is not None and (requirement.table, requirement.bound) == ("baseline", "max")
    ]
    if request.promote is not None:
        holder = alias_holder(client, VersionAddress(decision.name, None, request.promote))
        stays = "still has no version" if holder is None else f"stays at version {holder}"
        notes.append(f"Alias {request.promote!r} {stays}.")
    return tuple(dict.fromkeys(notes))


def _decision(
    version: RegisteredVersion, policy: Policy, checks: tuple[Check, ...], evidence: GateEvidence,
    baseline: BaselineEvidence,
) -> GateDecision:  # fmt: skip
    return GateDecision(
        name=version.name,
        version=version.version,
        verdict="pass" if all(check.passed for check in checks) else "fail",
        checks=checks,
        policy_digest=policy.digest,
        time=utc_now(),
        report=evidence.report_uri,
        evidence=evidence.words,
        data_digest=None if evidence.measurement is None else evidence.measurement.digest,
        baseline=baseline.version,
        comparison=baseline.words,
        warnings=(baseline.warning,) if baseline.warning else (),
    )


def _holds(requirement: Requirement, value: float) -> bool:
    from mlflow.models import EvaluationResult, MetricThreshold
    from mlflow.models.evaluation.validation import ModelValidationFailedException, validate_evaluation_results

    greater_is_better = requirement.bound == "min"
    threshold = MetricThreshold(requirement.threshold, greater_is_better=greater_is_better)  # type: ignore[no-untyped-call]
    found = EvaluationResult(metrics={requirement.name: value}, artifacts={})  # type: ignore[no-untyped-call]
    try:
        with no_check_messages():
            validate_evaluation_results({requirement.name: threshold}, found)
    except ModelValidationFailedException:
        return False
    return True


def _missing(
    requirement: Requirement, scalars: Mapping[str, float], version: RegisteredVersion, evidence: GateEvidence,
    policy: Policy,
) -> str:  # fmt: skip
    wanted = printable(f"{requirement.table}.{requirement.name}", 120)
    found = (
        f"The policy requires {wanted!r}, which is not available for version {version.version} of "
        f"{printable(version.name, 80)}"
    )
    if requirement.table == "report":
        return f"{found}{_not_in_report(requirement.name, scalars, evidence, policy)}"
    if requirement.table == "metrics" and requirement.name in scalars:
        return f"{found}: NaN was logged. Log a number, or take it out of the policy."
    close = get_close_matches(requirement.name[:80], list(scalars), n=1)
    hint = f"; did you mean {printable(close[0], 80)!r}?" if close and close[0] != requirement.name else "."
    return f"{found}{hint} Log it, or take it out of the policy."


def _not_in_report(name: str, scalars: Mapping[str, float], evidence: GateEvidence, policy: Policy) -> str:
    """Return the end of the message about a scalar that a report lacks: the report's metric, and what to do."""
    assert evidence.report is not None
    curve, scorer = evidence.report.error_curve, scorer_of(name)
    if scorer == curve.metric and curve.sizes[0] > evidence.report.n_members:
        return (
            f": of its {counted(evidence.report.n_members, 'member')} the {printable(curve.metric, 40)} is infinite on "
            f"some rows, and from {curve.sizes[0]} on it is finite. Train as many, or members whose leaves are not "
            "pure (min_samples_leaf)."
        )
    found = f": its report is of {printable(curve.metric, 40)}."
    if scorer not in (None, curve.metric, policy.metric):
        return (
            f'{found} Write metric = "{scorer}" under [report] of the policy, and log a report made with '
            f"metric='{scorer}' or pass rows, on which the gate computes it."
        )
    can_log = curve.key != "error" and policy.metric is None and evidence.report_uri is not None
    log = "log a report made without metric=, " if can_log else ""
    return (
        f"{found} Bound what that report has ({printable(', '.join(scalars), 400)}), {log}or take {name!r} out of the "
        "policy."
    )


def _aliases_at_stake(client: MlflowClient, request: GateRequest) -> dict[str, str | None]:
    """Return the alias to move and its present version: a comparison is valid only while it points at that one."""
    if request.promote is None or request.baseline is None or not request.policy.compares():
        return {}
    address = VersionAddress(request.candidate.name, None, request.promote)
    return {request.promote: alias_holder(client, address)}


def _promote(
    client: MlflowClient,
    request: GateRequest,
    judged: tuple[RegisteredVersion, GateDecision],
    expected: Mapping[str, str | None],
    held: Lease,
    audit: Audit,
) -> GateDecision:
    alias, (version, decision) = request.promote, judged
    assert alias is not None

    def promoted(before: str | None) -> GateDecision:
        return replace(decision, promoted=alias, promoted_from=before)

    def announce(before: str | None) -> None:
        check_version_stayed(client, version)
        audit(_line("intent", request, promoted(before).to_dict()))

    aliases = {**expected, **_baseline(client, request, decision)}
    return promoted(move_alias(client, decision, alias, aliases, held, announce))


def _baseline(client: MlflowClient, request: GateRequest, decision: GateDecision) -> dict[str, str | None]:
    """Return the alias of the baseline and the version that it pointed at when the candidate was judged."""
    address = request.baseline
    if address is None or address.alias is None or not request.policy.compares():
        return {}
    if address.name == decision.name:
        return {address.alias: decision.baseline}
    check_alias_stayed(decision, address.alias, decision.baseline, alias_holder(client, address))
    return {}
