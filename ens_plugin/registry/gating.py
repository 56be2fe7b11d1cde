"""A gate: judge a model version by a policy, write the verdict and the audit log, and move the alias."""

from __future__ import annotations

import getpass
import hashlib
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from ens_plugin.core.validation import counted
from ens_plugin.errors import EnsPluginError, GateError, InputError, TrackingError, ends_at_caller
from ens_plugin.registry.evidence import (
    DOUBT_LIMIT,
    BaselineEvidence,
    GateEvidence,
    GateRequest,
    check_promoted_alias,
    compare_with_baseline,
    compared_values,
    gather_evidence,
    of_label,
    remedy,
    scalar_tables,
)
from ens_plugin.registry.lease import Lease, check_lease, lease
from ens_plugin.registry.policy import (
    COSTS,
    NEW_VERSION,
    Check,
    GateDecision,
    Policy,
    Requirement,
    check_share_bounds,
    read_policy,
    report_remedies,
    scorer_of,
)
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import (
    check_server,
    no_progress_bars,
    require_mlflow,
    tracking_errors,
    without_credentials,
)
from ens_plugin.tracking.digest import Rows
from ens_plugin.tracking.links import version_files
from ens_plugin.tracking.log import DEFAULT_PREFIX, check_prefix
from ens_plugin.tracking.models import (
    RegisteredVersion,
    VersionAddress,
    alias_holder,
    baseline_address,
    check_alias,
    find_version,
    is_unchanged,
    parse_address,
)
from ens_plugin.tracking.uploads import EXIT_S, wait_until_sent

if TYPE_CHECKING:
    from mlflow import MlflowClient

Audit = Callable[[str], None]
VERDICT_TAG = "ens.gate"
MESSAGE_LIMIT = 1000
# A server that fails a call mostly recovers within a second.
READ_BACKS = 3
READ_BACK_PAUSE_S = 0.5
LOGGER = logging.getLogger("ens_plugin.gate")


def audit_line(event: str, store: str, content: Mapping[str, Any]) -> str:
    """Return an audit line: JSON with the event, its time, user and registry, and `content`."""
    record = {
        "event": event, "at": utc_now(), "by": _user(), "registry": store, "ens_plugin": version("ens-plugin"),
        **content,
    }  # fmt: skip
    return json.dumps(record, allow_nan=False)


def audit_to_file(path: str | Path) -> Audit:
    """Return a function that appends audit lines to a file, each in one write, flushed to the disk."""
    target = Path(path)

    def append(line: str) -> None:
        try:
            descriptor = os.open(target, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o644)
            try:
                _write(descriptor, line.encode("ascii") + b"\n" if line else b"")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise InputError(
                f"The audit log {str(target)!r} cannot be written: {error.strerror or error}. Choose another file."
            ) from error

    append("")
    return append


def _write(descriptor: int, content: bytes) -> None:
    # One call, so that lines of gates that run at the same time do not mix.
    written = os.write(descriptor, content)
    if written < len(content):
        raise OSError("the disk is full")
    os.fsync(descriptor)


def audit_to_log(line: str) -> None:
    """Log an audit line to the logger ``ens_plugin.gate``, at level INFO."""
    LOGGER.info("%s", line)


def utc_now() -> str:
    """Return the present time as ISO 8601, in UTC, to the millisecond."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A container's user need not have a name.
        return None


def write_verdict(client: MlflowClient, decision: GateDecision, run_id: str | None) -> None:
    """Write a decision as tags of its version, and whole as an artifact of the run that logged the model."""
    name, version = decision.name, decision.version
    before = client.get_model_version(name, version).tags.get(VERDICT_TAG)
    if before not in (None, decision.tag):
        client.delete_model_version_tag(name, version, VERDICT_TAG)
    details = {
        # Databases of older servers take 5000.
        f"{VERDICT_TAG}.reasons": printable("; ".join(decision.reasons), 4000),
        f"{VERDICT_TAG}.record": _logged_record(client, decision, run_id) or _record(decision),
    }
    for key, value in details.items():
        client.set_model_version_tag(name, version, key, value)
    _write_last(client, decision, before)


def _logged_record(client: MlflowClient, decision: GateDecision, run_id: str | None) -> str | None:
    """Log a decision as a file of a run and return its address; None without a run, or where it takes no files."""
    from mlflow.exceptions import MlflowException

    if run_id is None:
        return None
    path = f"gate/{_file_name(decision.name)}-{decision.version}.json"
    try:
        client.log_text(run_id, decision.to_json(), path)
    except (MlflowException, OSError) as error:
        LOGGER.warning("The record of the gate could not be logged to run %s, and is a tag: %s", run_id, error)
        return None
    return f"runs:/{run_id}/{path}"


def _file_name(name: str) -> str:
    """Return a model's name as part of a file's name on every system; a changed one ends with a digest of the name."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:80]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _record(decision: GateDecision) -> str:
    """Return policy, time, report, evidence and baseline of a decision as JSON, which fits a tag."""
    parts = {name: getattr(decision, name) for name in ("policy_digest", "time", "report", "evidence")}
    parts["baseline"] = decision.comparison
    return json.dumps({name: None if part is None else printable(part, DOUBT_LIMIT) for name, part in parts.items()})


def _write_last(client: MlflowClient, decision: GateDecision, before: str | None) -> None:
    """Write the verdict's own tag; where the call fails, read back whether it was written."""
    import mlflow

    store = mlflow.get_registry_uri()
    try:
        with tracking_errors(store):
            client.set_model_version_tag(decision.name, decision.version, VERDICT_TAG, decision.tag)
    except TrackingError:
        if before == decision.tag:
            # An equal verdict that is read back may be another gate's.
            raise
        with tracking_errors(store):
            if client.get_model_version(decision.name, decision.version).tags.get(VERDICT_TAG) != decision.tag:
                raise


def check_version_stayed(client: MlflowClient, version: RegisteredVersion) -> None:
    """Raise GateError if a version is no longer the one that was judged."""
    if not is_unchanged(client, version):
        raise GateError(
            f"Version {version.version} of {printable(version.name, 80)} is not the one that was judged: the "
            "registered model was deleted and made again meanwhile. No alias was moved. Run the gate again."
        )


def move_alias(
    client: MlflowClient, decision: GateDecision, alias: str, expected: Mapping[str, str | None], held: Lease,
    prepare: Callable[[str | None], None],
) -> str | None:  # fmt: skip
    """Point an alias at a version that has passed, after `prepare`, and return the version it pointed at before."""
    verdict = client.get_model_version(decision.name, decision.version).tags.get(VERDICT_TAG)
    model = client.get_registered_model(decision.name)
    check_lease(held, decision.name, model.tags)
    for name, before in expected.items():
        check_alias_stayed(decision, name, before, _text(model.aliases.get(name)))
    _check_verdict_stayed(decision, verdict)
    before = _text(model.aliases.get(alias))
    if before != decision.version:
        prepare(before)
        _set_alias(client, decision, alias, before)
    return before


def _text(version: object) -> str | None:
    return None if version is None else str(version)


def _refuse_older(decision: GateDecision, alias: str, before: str | None) -> None:
    """Raise GateError where an alias is at a newer version, as where the gate on an older one comes late."""
    if before is not None and int(before) > int(decision.version):
        raise GateError(
            f"Version {decision.version} of {printable(decision.name, 80)} passed, and the alias {alias!r} was not "
            f"moved, because version {before}, which has it, is newer. To go back to the older version, pass "
            "allow_older=True, or --allow-older on the command line."
        )


def _check_verdict_stayed(decision: GateDecision, verdict: str | None) -> None:
    if verdict != decision.tag:
        raise GateError(
            f"Version {decision.version} of {printable(decision.name, 80)} passed, but its tag {VERDICT_TAG!r} has "
            f"changed to {printable(repr(verdict), 40)} meanwhile, so another gate is at work. Run the gate again."
        )


def check_alias_stayed(decision: GateDecision, alias: str, before: str | None, now: str | None) -> None:
    """Raise GateError if an alias has moved, so that of two gates with the same baseline only one promotes."""
    if now != before:
        raise GateError(
            f"The alias {alias!r} has moved from version {before or 'none'} to {now or 'none'} since version "
            f"{decision.version} was judged, so another gate is at work. Nothing was promoted. Run the gate again."
        )


def _set_alias(client: MlflowClient, decision: GateDecision, alias: str, before: str | None) -> None:
    """Move an alias and read it back, also where the call failed: the registry may have moved it all the same."""
    import mlflow

    failure: TrackingError | None = None
    try:
        with tracking_errors(mlflow.get_registry_uri()):
            client.set_registered_model_alias(decision.name, alias, decision.version)
    except TrackingError as error:
        failure = error
    try:
        now = _read_back(client, decision, alias)
    except TrackingError as error:
        if failure is None:
            moved = "The registry accepted the move of the alias %r, but where it points now could not be read: %s"
            LOGGER.warning(moved, alias, error)
            return
        raise TrackingError(
            f"Whether the alias {alias!r} points at version {decision.version} of {printable(decision.name, 80)} or "
            f"still at {before or 'none'} is not known, because the call that moves it failed and so did reading it "
            f"back. Check where it points in the registry. {failure}"
        ) from failure
    if now == decision.version:
        return
    if failure is not None:
        raise TrackingError(
            f"The alias {alias!r} of {printable(decision.name, 80)} was not moved to version {decision.version}. It "
            f"points at {now or 'no version'}. {failure}"
        ) from failure
    raise GateError(
        f"The alias {alias!r} was moved to version {decision.version}, but right after that it points at version "
        f"{now or 'none'}. Somebody moved it without the lease that gates hold. Nothing was undone. "
        "Decide which version should have the alias, and run the gate again."
    )


def _read_back(client: MlflowClient, decision: GateDecision, alias: str) -> str | None:
    import mlflow

    for attempt in range(1, READ_BACKS + 1):
        try:
            with tracking_errors(mlflow.get_registry_uri()):
                return alias_holder(client, VersionAddress(decision.name, None, alias))
        except TrackingError:
            if attempt == READ_BACKS:
                raise
            time.sleep(READ_BACK_PAUSE_S)
    raise AssertionError


@ends_at_caller
def gate(
    model_uri: str,
    policy: str | Path | Mapping[str, Any],
    *,
    baseline: str | None = None,
    X: Any = None,
    y: ArrayLike | None = None,
    data: Literal["oob", "holdout"] = "oob",
    promote: str | None = None,
    allow_older: bool = False,
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
    allow_older : bool, default=False
        Whether the alias may be moved from a newer version to this one.
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
        the baseline moved meanwhile, the alias to move is at a newer version, an alias that no version has is
        nearly one that a version has, or no report is linked to the files of the version.
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
    return run_gate(replace(request, allow_older=allow_older), audit)


def gate_request(
    model_uri: str, policy: str | Path | Mapping[str, Any], *, baseline: str | None, rows: Rows | None,
    promote: str | None, prefix: str,
) -> GateRequest:  # fmt: skip
    """Return the arguments of :func:`gate`, checked before any request to a server."""
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
    """Judge a version, write the verdict and move the alias, with an audit line for each of them and for errors."""
    require_mlflow()
    import mlflow

    # Reports that this program logged are linked before it judges by them.
    wait_until_sent(EXIT_S, mlflow.get_tracking_uri())
    with no_progress_bars(), audited_errors(request, audit):
        store = mlflow.get_registry_uri()
        for uri in {mlflow.get_tracking_uri(), store}:
            check_server(uri)
        with tracking_errors(store):
            client = mlflow.MlflowClient()
            expected = _aliases_at_stake(client, request)
            version = find_version(client, request.candidate)
            decision = _decide(client, request, version)
            audit(_line("decision", request, decision.to_dict()))

            def announce(intended: GateDecision) -> None:
                check_version_stayed(client, version)
                audit(_line("intent", request, intended.to_dict()))

            with lease(client, decision.name) as held:
                check_version_stayed(client, version)
                write_verdict(client, decision, version.run_id)
                if request.promote is None or not decision.passed:
                    return decision
                promoted = _promote(client, request, decision, expected, held, announce)
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
    files = version_files(client, version)
    evidence = gather_evidence(client, version, request, files)
    check_share_bounds(request.policy, evidence.report)
    baseline = compare_with_baseline(client, version, evidence, request)
    tables = scalar_tables(client, version, evidence, baseline, request.policy)
    checks: list[Check] = []
    for requirement in request.policy.requirements:
        if requirement.table == "baseline" and baseline.comparison is None:
            continue
        value = tables[requirement.table].get(requirement.name, math.nan)
        if math.isnan(value):
            raise GateError(_missing(requirement, tables[requirement.table], version, evidence))
        subject = _subject(requirement, evidence.report, baseline)
        checks.append(Check(requirement, value, requirement.holds(value), subject))
    decision = _decision(version, files, request.policy, tuple(checks), evidence, baseline)
    if decision.passed:
        return decision
    return replace(decision, notes=_notes(client, request, decision, baseline, tables))


def _subject(requirement: Requirement, report: EnsembleReport | None, baseline: BaselineEvidence) -> str:
    """Return what the value of a check is of, where the name of its scalar does not state all of it."""
    if requirement.table == "baseline" and baseline.comparison is not None:
        return compared_values(requirement, baseline.comparison, baseline.name)
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
    version: RegisteredVersion, files: str, policy: Policy, checks: tuple[Check, ...], evidence: GateEvidence,
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
        model_digest=files,
        data_digest=None if evidence.measurement is None else evidence.measurement.digest,
        baseline=baseline.version,
        comparison=baseline.words,
        warnings=(baseline.warning,) if baseline.warning else (),
    )


def _missing(
    requirement: Requirement, scalars: Mapping[str, float], version: RegisteredVersion, evidence: GateEvidence
) -> str:
    wanted = printable(f"{requirement.table}.{requirement.name}", 120)
    found = (
        f"The policy requires {wanted!r}, which is not available for version {version.version} of "
        f"{printable(version.name, 80)}"
    )
    if requirement.table == "report":
        return f"{found}{_not_in_report(requirement.name, scalars, evidence)}"
    if requirement.table == "metrics" and requirement.name in scalars:
        return f"{found}: NaN was logged. Log a number, or take it out of the policy."
    close = get_close_matches(requirement.name[:80], list(scalars), n=1)
    hint = f"; did you mean {printable(close[0], 80)!r}?" if close and close[0] != requirement.name else "."
    return f"{found}{hint} Log it, or take it out of the policy."


def _not_in_report(name: str, scalars: Mapping[str, float], evidence: GateEvidence) -> str:
    """Return the end of the message about a scalar that a report lacks: the report's metric, and what to do."""
    assert evidence.report is not None
    if name in COSTS:
        return (
            ": its report has no measured costs. Log report.with_costs(ens_plugin.measure_costs(model, X)), or pass "
            "rows, on which the gate measures them."
        )
    curve, scorer = evidence.report.error_curve, scorer_of(name)
    if scorer == curve.metric and curve.sizes[0] > evidence.report.n_members:
        return (
            f": of its {counted(evidence.report.n_members, 'member')} the {printable(curve.metric, 40)} is infinite on "
            f"some rows, and from {curve.sizes[0]} on it is finite. Train as many, or members whose leaves are not "
            "pure (min_samples_leaf)."
        )
    has = f": its report is of {printable(curve.metric, 40)}, and has {printable(', '.join(scalars), 400)}."
    other = f'with metric = "{scorer}" under [report] of the policy' if scorer else "made without metric="
    return f"{has} Bound one of these, log a report {other}, or take {name!r} out of the policy."


def _aliases_at_stake(client: MlflowClient, request: GateRequest) -> dict[str, str | None]:
    """Return the alias to move and its present version: a comparison is valid only while it points at that one."""
    if request.promote is None or request.baseline is None or not request.policy.compares():
        return {}
    address = VersionAddress(request.candidate.name, None, request.promote)
    return {request.promote: alias_holder(client, address)}


def _promote(
    client: MlflowClient, request: GateRequest, decision: GateDecision, expected: Mapping[str, str | None],
    held: Lease, announce: Callable[[GateDecision], None],
) -> GateDecision:  # fmt: skip
    """Move the alias, announced before, and return the decision with where the alias was."""
    alias = request.promote
    assert alias is not None

    def prepare(before: str | None) -> None:
        if not request.allow_older:
            _refuse_older(decision, alias, before)
        announce(replace(decision, promoted=alias, promoted_from=before))

    aliases = {**expected, **_baseline(client, request, decision)}
    before = move_alias(client, decision, alias, aliases, held, prepare)
    return replace(decision, promoted=alias, promoted_from=before)


def _baseline(client: MlflowClient, request: GateRequest, decision: GateDecision) -> dict[str, str | None]:
    """Return the alias of the baseline and the version that it pointed at when the candidate was judged."""
    address = request.baseline
    if address is None or address.alias is None or not request.policy.compares():
        return {}
    if address.name == decision.name:
        return {address.alias: decision.baseline}
    check_alias_stayed(decision, address.alias, decision.baseline, alias_holder(client, address))
    return {}
