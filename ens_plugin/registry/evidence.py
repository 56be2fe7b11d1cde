"""What is known of a model version: the report that is linked to it, its origin, and its comparison with a baseline."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ens_plugin.analysis.judged import JudgedMetric, metric_difference, rows_of_both
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.core.comparison import FEWEST_PAIRS, Difference, paired_difference
from ens_plugin.core.judged_rows import judged_by_both, read_judged_rows
from ens_plugin.core.validation import counted, label_text, shown
from ens_plugin.errors import (
    BagError,
    GateError,
    InputError,
    ModelLoadError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from ens_plugin.registry.policy import BASELINE_SCALARS, COSTS, Policy, Requirement, apart
from ens_plugin.report.comparison import report_difference
from ens_plugin.report.ensemble_report import LONGEST_REPORT, EnsembleReport
from ens_plugin.report.result import OWN_LABEL
from ens_plugin.report.text import label_words, printable, with_code
from ens_plugin.tracking.digest import Measurement, Rows, measure
from ens_plugin.tracking.links import ReportLink, StoredModel, is_numbered, stored_models, version_files
from ens_plugin.tracking.log import PAGE_FILE, ROWS_FILE
from ens_plugin.tracking.models import RegisteredVersion, VersionAddress, alias_holder, find_version

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import FileInfo, Metric

REPORT_BYTES = LONGEST_REPORT
LEVEL = AnalysisOptions.interval_level
# Scorers that are about one of two labels.
OF_ONE_LABEL = ("average_precision", "f1", "jaccard", "precision", "recall")
_ENDS = {"error_increase_lower": "lower", "error_increase_upper": "upper"}
DOUBT_LIMIT = 600  # characters
# Errors of a baseline that cannot be scored on rows, and is compared by its logged report then.
NOT_SCORED = (BagError, InputError, ModelLoadError, NotFittedError, TooFewMembersError, UnsupportedModelError)


def read_report(
    client: MlflowClient, version: RegisteredVersion, prefix: str, files: str
) -> tuple[EnsembleReport, str]:
    """Return the newest report that is linked to the files of a version, whose sum is `files`, and its page's URI."""
    link = _newest_link(client, version, prefix, files)
    _check_live(client, link.run_id)
    folder = link.path.rpartition("/")[0]
    listed = {item.path: item for item in client.list_artifacts(link.run_id, folder)}
    report = EnsembleReport.from_json(_file(client, link, link.path, link.sha256, listed).decode("utf-8", "replace"))
    if link.rows_sha256 is not None:
        losses = _file(client, link, f"{folder}/{ROWS_FILE}", link.rows_sha256, listed)
        report = replace(report, judged_rows=read_judged_rows(BytesIO(losses)))
    # A page that could not be drawn was not logged.
    page = f"{folder}/{PAGE_FILE}"
    return report, (f"runs:/{link.run_id}/{page if page in listed else link.path}")


def _newest_link(client: MlflowClient, version: RegisteredVersion, prefix: str, files: str) -> ReportLink:
    """Return the newest link to the files of a version, beside whatever stored model it is found."""
    n_others = 0
    for stored in stored_models(client, version):
        links = [link for link in _links(stored, version) if is_numbered(link.prefix, prefix)]
        own = [link for link in links if link.files == files]
        newest = [link for link in own if link.number == own[-1].number]
        if len(newest) > 1:
            raise GateError(
                f"Which report on {stored.name} is the newest is not known, because several were logged at once. "
                f"{_link_remedy(version)}"
            )
        if newest:
            return newest[0]
        n_others += len(links)
    found = "no report is linked to its model"
    if n_others:
        found = "its files are not those that a report was linked to: they were changed since, or are another model's"
    raise GateError(
        f"There is no verdict on version {version.version} of {printable(version.name, 80)}, because {found}. "
        f"{_link_remedy(version)}"
    )


def _links(stored: StoredModel, version: RegisteredVersion) -> list[ReportLink]:
    try:
        return stored.links()
    except (ValueError, RecursionError) as error:
        raise GateError(
            f"The link of a report to {stored.name} is damaged ({printable(str(error), 80)}). {_link_remedy(version)}"
        ) from error


def _link_remedy(version: RegisteredVersion) -> str:
    """Return the line that links a report to the model behind a version."""
    target = version.model_id or version.uri
    return (
        "To link one, run ens_plugin.log_report(ens_plugin.analyze(model, X, y), "
        f"model_id={printable(repr(target), 120)}) with its training rows, or `ens-plugin analyze "
        f"{printable(version.uri, 120)} --data FILE --target COL --log`, or pass the data to the gate."
    )


def _check_live(client: MlflowClient, run_id: str) -> None:
    if client.get_run(run_id).info.lifecycle_stage == "deleted":
        raise GateError(
            f"The run {run_id}, which the report was logged to, is deleted. Restore it with `mlflow runs restore`, "
            "or log the report again."
        )


def _file(client: MlflowClient, link: ReportLink, path: str, sha256: str, listed: Mapping[str, FileInfo]) -> bytes:
    """Return a file of a linked report, after a check that it is the one that was logged."""
    run_id = link.run_id
    if path not in listed or listed[path].is_dir:
        raise GateError(f"Run {run_id} has no artifact {path!r}, a part of the report. Log the report again.")
    _check_size(listed[path].file_size or 0, path, run_id)
    with TemporaryDirectory(prefix="ens_plugin-") as directory:
        file = Path(client.download_artifacts(run_id, path, directory)).resolve()
        if not file.is_relative_to(Path(directory).resolve()):
            raise GateError(f"{path!r} in run {run_id} leads out of its folder. Log the report again.")
        # The listed size can be wrong.
        _check_size(file.stat().st_size, path, run_id)
        content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        raise GateError(
            f"{path!r} in run {run_id} is not what was linked to this model: it was changed, or another report has "
            "replaced it. Log the report again; several reports in one run need a prefix each."
        )
    return content


def _check_size(size: int, path: str, run_id: str) -> None:
    if size > REPORT_BYTES:
        raise GateError(
            f"{path!r} in run {run_id} has {size} bytes, more than any report (at most {REPORT_BYTES}). Log it again."
        )


def logged_metrics(client: MlflowClient, version: RegisteredVersion, bounded: Collection[str]) -> dict[str, float]:
    """Return the latest value of each metric of the LoggedModel behind a version, and of the run that logged it."""
    stored = next((found for found in stored_models(client, version) if found.model_id is not None), None)
    if stored is None or stored.model_id is None:
        raise GateError(
            f"There are no metrics for {printable(version.uri, 120)}: it has no LoggedModel that they could be of. Log "
            "the model with MLflow 3 and register that one."
        )
    model = client.get_logged_model(stored.model_id)
    metrics = sorted(model.metrics or [], key=lambda metric: (metric.step, metric.timestamp))
    run_ids = dict.fromkeys([str(model.source_run_id or ""), *(str(metric.run_id) for metric in metrics)])
    shared = {run_id for run_id in run_ids if run_id and _models_of_run(client, run_id) - {stored.model_id}}
    values: dict[str, float] = {}
    if model.source_run_id and model.source_run_id not in shared:
        values.update(client.get_run(model.source_run_id).data.metrics)
    own = {metric.key: metric for metric in metrics if metric.run_id not in shared}
    values.update({key: _value(client, one) if key in bounded else one.value for key, one in own.items()})
    doubtful = {name for run_id in shared for name in client.get_run(run_id).data.metrics} - values.keys()
    for name in sorted(doubtful & set(bounded)):
        raise GateError(
            f"The metric {printable(name, 80)!r} of {printable(version.uri, 120)} was logged in a run that logged "
            "several models, among which MLflow spreads metrics, so it need not be about this one. Log it in a run of "
            f"its own: with mlflow.start_run(): mlflow.log_metric({printable(name, 80)!r}, value, "
            f"model_id={stored.model_id!r})."
        )
    return values


def _models_of_run(client: MlflowClient, run_id: str) -> set[str]:
    """Return the ids of all models that a run logged, those among them that are deleted too."""
    run = client.get_run(run_id)
    made = client.search_logged_models(
        [run.info.experiment_id], filter_string=f"source_run_id = '{run_id}'", max_results=100
    )
    outputs = [] if run.outputs is None else run.outputs.model_outputs
    return {str(model.model_id) for model in made} | {str(output.model_id) for output in outputs}


def _value(client: MlflowClient, metric: Metric) -> float:
    """Return the value of a metric of a LoggedModel; NaN where NaN was logged, which MLflow's databases keep as 0."""
    if metric.value != 0.0:
        return float(metric.value)
    history = client.get_metric_history(str(metric.run_id), metric.key)
    logged = [found.value for found in history if (found.step, found.timestamp) == (metric.step, metric.timestamp)]
    return math.nan if any(map(math.isnan, logged)) else 0.0


class Comparison(NamedTuple):
    """The difference of a candidate's error and a baseline's, with its 95 % interval, and how it was estimated."""

    increase: Difference
    method: str
    reports: tuple[EnsembleReport, EnsembleReport]  # of the candidate, of the baseline
    is_paired: bool = True


def compare_pairs(candidate: Measurement, baseline: Measurement) -> Comparison:
    """Return the difference of two models' errors from their losses row by row."""
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
    if n_rows < FEWEST_PAIRS:
        raise GateError(f"Only {counted(n_rows, 'row')} can be scored by both models. Pass more rows.")
    return n_rows


def compare_reports(candidate: EnsembleReport, baseline: EnsembleReport) -> Comparison:
    """Return the difference of two reports' errors: row by row if both are of the same rows, else by intervals."""
    _check_same_error(candidate, baseline)
    for report in (candidate, baseline):
        known = all(map(math.isfinite, (report.error, *report.error_interval)))
        if not known or report.error_curve.interval_level != LEVEL:
            raise GateError(
                f"A comparison needs 95 % intervals, and a report of {counted(report.n_members, 'member')} has "
                f"{f'{report.error_curve.interval_level:.4g} ones' if known else 'none at that size'}. "
                f"Analyse the model again with interval_level={LEVEL:g} and the default estimator."
            )
    found = report_difference(candidate, baseline)
    increase = Difference(found.estimate, found.lower, found.upper)
    if candidate.error_curve.greater_is_better:
        # An increase of the error is a decrease of the score.
        increase = Difference(-found.estimate, -found.upper, -found.lower)
    rows = counted(found.n_rows or 0, "row")
    method = (
        f"both 95 % data intervals, since {found.reason}" if found.n_rows is None else f"the same {rows}, one by one"
    )
    return Comparison(increase, method, (candidate, baseline), is_paired=found.n_rows is not None)


def refuse_wide(comparison: Comparison, baseline: str) -> None:
    """Raise GateError where "not shown to be worse" would hold although the error may have doubled."""
    report = comparison.reports[1]
    basis = report.error_curve.metric_basis
    best = basis.highest if basis is not None and report.error_curve.greater_is_better else 0.0
    base = abs(report.error - best)
    if comparison.is_paired or comparison.increase.lower > 0.0 or comparison.increase.upper < base:
        return
    raise GateError(
        f"Whether the version is worse than {baseline} cannot be told: it was compared by {comparison.method}, and "
        f"within these its {printable(report.error_curve.metric, 40)} may be twice as far from perfect. Pass rows to "
        "the gate, on which both are compared one by one, or log both reports anew on the same rows, without weights "
        "and groups."
    )


def compared_values(requirement: Requirement, comparison: Comparison, baseline: str) -> str:
    """Return the beginning of a sentence on a comparison, which the value found and its bound end."""
    increase, curve = comparison.increase, comparison.reports[0].error_curve
    here, there = apart(*(report.error for report in comparison.reports))
    metric = f"{printable(curve.metric, 40)}{of_label(comparison.reports[0])}"
    change = "decrease" if curve.greater_is_better else "increase"
    words = f"baseline.{requirement.key or requirement.name}: {metric} is {here}, and that of {baseline} is {there}."
    if requirement.name not in _ENDS:
        return f"{words} The {change} is"
    low, high = apart(increase.lower, increase.upper)
    return (
        f"{words} The {change} is {increase.estimate:.4g}, and its {100 * LEVEL:g} % interval is from {low} to {high}. "
        f"The {_ENDS[requirement.name]} end of that interval is"
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
    """Return the label that a report's metric is about, as the words after its name; empty for other metrics."""
    basis, metric = report.error_curve.metric_basis, report.error_curve.metric
    if basis is None or basis.positive_label is not None:
        return label_words(basis)
    is_of_one = metric in OF_ONE_LABEL and len(report.basis.labels) == 2
    return label_words(replace(basis, positive_label=OWN_LABEL)) if is_of_one else ""


@dataclass(frozen=True)
class GateRequest:
    """The checked arguments of :func:`ens_plugin.gate`."""

    candidate: VersionAddress
    policy: Policy
    baseline: VersionAddress | None
    rows: Rows | None
    promote: str | None
    prefix: str
    allow_older: bool = False


class GateEvidence(NamedTuple):
    """The report on a candidate, logged or measured by the gate, and its description."""

    report: EnsembleReport | None
    report_uri: str | None
    measurement: Measurement | None
    words: str


class BaselineEvidence(NamedTuple):
    """The comparison of a candidate with a baseline, if there is one, and its description."""

    comparison: Comparison | None
    version: str | None
    words: str | None
    name: str = ""
    warning: str = ""


def gather_evidence(client: MlflowClient, version: RegisteredVersion, request: GateRequest, files: str) -> GateEvidence:
    """Return the report on a version, the sum of whose files is `files`: the linked one, or one measured on rows."""
    if not request.policy.needs_report():
        return GateEvidence(None, None, None, "logged metrics; the policy has no requirement on an ensemble report")
    if request.rows is None:
        report, uri = read_report(client, version, request.prefix, files)
        refuse_doubts(report, version)
        _check_metric(report, version, request.policy)
        _check_level(report, version, request.policy)
        return GateEvidence(report, uri, None, f"{_rows_in_words(report)}, as logged at {uri}")
    policy = request.policy
    measured = measure(
        client, version, request.rows, policy.measured_metric, costs=not {*COSTS}.isdisjoint(policy.bounded("report"))
    )
    refuse_doubts(measured.report, version)
    words = f"{_rows_in_words(measured.report)}, measured by the gate (digest {measured.digest})"
    return GateEvidence(measured.report, None, measured, words)


def refuse_doubts(report: EnsembleReport, version: RegisteredVersion) -> None:
    """Raise GateError for a report with doubts, which warn not to rely on its figures."""
    doubt = report.doubt
    if doubt is None:
        return
    raise GateError(
        f"The gate does not act on the report of version {version.version} of {printable(version.name, 80)}, which "
        "warns not to rely on its figures: "
        f"{with_code(doubt, DOUBT_LIMIT)}"
    )


def _check_level(report: EnsembleReport, version: RegisteredVersion, policy: Policy) -> None:
    """Raise GateError where a policy bounds ends of 95 % intervals and a report has intervals of another level."""
    level = report.error_curve.interval_level
    bounded = [name for name in policy.bounded("report") if name in ("error_lower", "error_upper")]
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
    """Return the comparison of the candidate with the baseline, as far as the policy requires one."""
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
    if Requirement("baseline", "error_increase_lower", "max", 0.0) in policy.requirements:  # as no_worse requires
        refuse_wide(comparison, name)
    return BaselineEvidence(comparison, baseline.version, f"{number}{model}, by {comparison.method}", name)


def _aliases(client: MlflowClient, address: VersionAddress) -> list[str]:
    return sorted(str(alias) for alias in client.get_registered_model(address.name).aliases)


def are_misspelt(first: str, second: str) -> bool:
    """Return whether one alias is the other with its letters in another order, or with one left out before the end."""
    if [letter for letter in first if letter.isdigit()] != [letter for letter in second if letter.isdigit()]:
        return False
    if sorted(first) == sorted(second):
        return True
    short, long = sorted((first, second), key=len)
    without_one = {long[:place] + long[place + 1 :] for place in range(len(long) - 1)}
    return short in without_one and not long.startswith(short)


def check_promoted_alias(client: MlflowClient, address: VersionAddress) -> None:
    """Check that the alias to promote to, if no version has it yet, is not nearly one that a version has."""
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
        f"alias {wanted!r} yet. {printable(others, 200)}",
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
        return compare_reports(evidence.report, _relied_on(client, baseline, request))
    assert request.rows is not None
    try:
        measured = measure(client, baseline, request.rows, request.policy.measured_metric)
        refuse_doubts(measured.report, baseline)
        return compare_pairs(evidence.measurement, measured)
    except NOT_SCORED as error:
        reason = printable(str(error), 200)
        found = compare_reports(evidence.report, _relied_on(client, baseline, request))
        return found._replace(method=f"{found.method}, because it cannot be scored on the rows given: {reason}")


def _relied_on(client: MlflowClient, version: RegisteredVersion, request: GateRequest) -> EnsembleReport:
    report, _ = read_report(client, version, request.prefix, version_files(client, version))
    refuse_doubts(report, version)
    return report


def scalar_tables(
    client: MlflowClient, version: RegisteredVersion, evidence: GateEvidence, baseline: BaselineEvidence, policy: Policy
) -> dict[str, Mapping[str, float]]:
    """Return the values of the scalars that a policy can bound, by table of the policy and by name."""
    tables: dict[str, Mapping[str, float]] = {}
    if evidence.report is not None:
        known = {name: value for name, value in evidence.report.scalars().items() if math.isfinite(value)}
        # The ratio is an upper bound where the recommended size was capped, because that size is then a lower bound.
        tables["report"] = {**known, "size_ratio": evidence.report.size_ratio}
    if baseline.comparison is not None:
        tables["baseline"] = dict(zip(BASELINE_SCALARS, baseline.comparison.increase, strict=True))
    if bounded := set(policy.bounded("metrics")):
        tables["metrics"] = logged_metrics(client, version, bounded)
    return tables
