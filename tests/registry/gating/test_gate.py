"""What the gate decides, writes, moves and prints, and where it raises with nothing written and no alias moved."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import mlflow
import numpy as np
import pytest

import ens_plugin
from ens_plugin import Costs, EnsembleReport, gate
from ens_plugin.core.judged_rows import JudgedRows
from ens_plugin.errors import EnsPluginError, GateError, InputError, TrackingError
from ens_plugin.registry.evidence import are_misspelt
from ens_plugin.report.result import LinearCost
from tests.registry.gating.gates import LOOSE, NO_WORSE, REPORT, STRICT, UPPER, Client, holder
from tests.registry.registry import (
    Version,
    experiment_id,
    is_registered,
    lines,
    log_linked,
    register,
    report_with_error,
    tags_of,
)
from tests.reports import (
    HOSTILE_STRINGS,
    capped_report,
    label_report,
    regression_report,
    score_report,
    with_doubts,
    with_notes,
)
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("swift")]


def test_a_pass_is_written_with_all_that_led_to_it(embedded: Client, name: str) -> None:
    version = register(embedded, name, REPORT)
    decision = gate(version.uri, LOOSE)
    assert decision.passed
    assert [(check.requirement.name, check.value, check.passed) for check in decision.checks] == [
        ("error_upper", UPPER, True),
        ("agreement", REPORT.recommendation.agreement, True),
    ]
    assert tags_of(embedded, version) == {
        "ens.gate": f"pass, version {version.version} of {name}, {decision.model_digest}",
        "ens.gate.reasons": "; ".join(decision.reasons),
        "ens.gate.record": f"runs:/{version.run_id}/gate/{name}-{version.version}.json",
    }
    assert record_of(embedded, version) == decision.to_dict()
    assert decision.report == f"runs:/{version.run_id}/ensemble/report.html"
    assert holder(embedded, name) is None
    assert decision.promoted is None


def record_of(client: Client, version: Version) -> Any:
    return json.loads(mlflow.artifacts.load_text(tags_of(client, version)["ens.gate.record"]))


def test_where_the_run_takes_no_files_the_record_is_a_tag(
    embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise mlflow.exceptions.MlflowException("read only")

    version = register(embedded, name, REPORT)
    monkeypatch.setattr(Client, "log_text", refuse)
    with caplog.at_level(logging.WARNING, "ens_plugin.gate"):
        decision = gate(version.uri, LOOSE)
    assert "could not be logged" in caplog.text
    assert json.loads(tags_of(embedded, version)["ens.gate.record"]) == {
        "policy_digest": decision.policy_digest,
        "time": decision.time,
        "report": decision.report,
        "evidence": decision.evidence,
        "baseline": None,
    }


def test_mlflow_says_nothing_of_single_checks_and_downloads(
    embedded: Client, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", raising=False)
    version = register(embedded, name, REPORT)
    logger = logging.getLogger("mlflow.models.evaluation.validation")
    monkeypatch.setattr(logger, "handlers", [caplog.handler])
    capfd.readouterr()
    assert gate(version.uri, LOOSE).passed
    assert not gate(version.uri, STRICT).passed
    assert [record for record in caplog.records if record.name == logger.name] == []
    assert "artifacts" not in capfd.readouterr().err
    logger.info("as before")
    assert caplog.messages[-1] == "as before"


def test_a_fail_names_what_failed_and_promotes_nothing(embedded: Client, name: str) -> None:
    version = register(embedded, name, REPORT)
    decision = gate(version.uri, STRICT, promote="champion")
    assert not decision.passed
    assert tags_of(embedded, version)["ens.gate"].startswith("fail, version 1 of ")
    assert tags_of(embedded, version)["ens.gate.reasons"].startswith("FAILED: report.error_upper is ")
    assert holder(embedded, name) is None


def test_an_alias_moves_when_asked_and_only_on_a_pass(embedded: Client, name: str) -> None:
    first, second = (register(embedded, name, REPORT) for _ in range(2))
    assert gate(first.uri, LOOSE, promote="champion").promoted_from is None
    assert holder(embedded, name) == first.version
    gate(second.uri, STRICT, promote="champion")
    assert holder(embedded, name) == first.version
    decision = gate(second.uri, LOOSE, promote="champion")
    assert (decision.promoted, decision.promoted_from) == ("champion", first.version)
    assert holder(embedded, name) == second.version


def test_any_logged_metric_can_be_asked_for(embedded: Client, name: str) -> None:
    version = register(embedded, name, None, metrics={"val.auc": 0.91})
    embedded.log_metric(version.run_id, "val.auc", 0.93, step=1)
    decision = gate(version.uri, {"metrics": {"val.auc": {"min": 0.92}}})
    assert decision.passed
    assert decision.report is None
    assert not gate(version.uri, {"metrics": {"val.auc": {"min": 0.94}}}).passed


def test_a_linked_zero_is_zero_although_mlflow_keeps_nan_as_zero(embedded: Client, name: str) -> None:
    version = register(embedded, name, None)
    embedded.log_metric(version.run_id, "loss", float("nan"), step=1, model_id=version.model_id)
    embedded.log_metric(version.run_id, "loss", 0.0, step=2, model_id=version.model_id)
    (check,) = gate(version.uri, {"metrics": {"loss": {"max": 0.5}}}).checks
    assert (check.value, check.passed) == (0.0, True)


def test_metrics_linked_to_the_model_come_before_those_of_its_run(embedded: Client, name: str) -> None:
    version = register(embedded, name, None, metrics={"auc": 0.5})
    embedded.log_metric(version.run_id, "auc", 0.9, step=2, model_id=version.model_id)
    embedded.log_metric(version.run_id, "auc", 0.4, step=1, model_id=version.model_id)
    embedded.log_metric(version.run_id, "auc", 0.6, step=3)
    assert gate(version.uri, {"metrics": {"auc": {"min": 0.9}}}).passed


def test_the_size_is_compared_with_the_recommended_one(shared: Callable[[float], Version]) -> None:
    assert REPORT.recommended_size is not None
    ratio = REPORT.n_members / REPORT.recommended_size
    version = shared(1.0)
    assert gate(version.uri, {"report": {"size_ratio": {"max": ratio}}}).passed
    assert not gate(version.uri, {"report": {"size_ratio": {"max": ratio * 0.999}}}).passed


def test_bytes_and_latency_are_those_that_the_report_keeps(embedded: Client, name: str) -> None:
    line = LinearCost(0.0, 1.0)
    costs = Costs(REPORT.n_members, LinearCost(0.0, 1e5), LinearCost(1e-3, 4e-5), line, 1000)
    version = register(embedded, name, REPORT.with_costs(costs))
    decision = gate(version.uri, {"report": {"megabytes": {"max": 50}, "latency_ms": {"max": 2}}})
    assert [(check.value, check.passed) for check in decision.checks] == [
        (pytest.approx(1e-6 * costs.bytes.at(REPORT.n_members)), True),
        (pytest.approx(1e3 * costs.latency.at(REPORT.n_members)), False),
    ]
    assert "Cut the model to fewer members" in decision.notes[0]


def test_bytes_that_nobody_measured_have_no_verdict(shared: Callable[[float], Version]) -> None:
    with pytest.raises(
        GateError, match=r"Log report\.with_costs\(ens_plugin\.measure_costs\(model, X\)\), or pass rows"
    ):
        gate(shared(1.0).uri, {"report": {"megabytes": {"max": 50}}})


def test_above_all_sizes_looked_at_the_ratio_is_an_upper_bound(embedded: Client, name: str) -> None:
    report = capped_report()
    version = register(embedded, name, report)
    (check,) = gate(version.uri, {"report": {"size_ratio": {"max": 1}}}).checks
    assert check.value == report.n_members / report.recommendation.max_size


def test_a_version_without_a_logged_model_is_judged_by_the_link_at_the_version(embedded: Client, name: str) -> None:
    run_id = embedded.create_run(experiment_id(embedded)).info.run_id
    embedded.log_text(run_id, "a model", "forest/MLmodel")
    embedded.create_registered_model(name)
    embedded.create_model_version(name, f"{embedded.get_run(run_id).info.artifact_uri}/forest", run_id)
    log_linked(embedded, REPORT, run_id, f"models:/{name}/1")
    assert gate(f"models:/{name}/1", LOOSE).passed


def test_a_report_with_a_prefix_of_its_own(embedded: Client, name: str) -> None:
    version = register(embedded, name, REPORT)
    log_linked(embedded, report_with_error(3.0), version.run_id, version.model_id, prefix="ens.shifted")
    assert gate(version.uri, LOOSE).passed
    decision = gate(version.uri, LOOSE, prefix="ens.shifted")
    assert not decision.passed
    assert decision.report == f"runs:/{version.run_id}/ensemble/ens.shifted/report.html"


@pytest.mark.parametrize("created", ["2026-01-01T00:00:00+00:00", "2099-01-01T00:00:00+00:00"])
def test_the_report_that_was_logged_last_counts_whatever_the_clock_of_its_machine(
    created: str, embedded: Client, name: str
) -> None:
    version = register(embedded, name, report_with_error(0.5, "2026-01-02T00:00:00+00:00"))
    runs = [embedded.create_run(experiment_id(embedded)).info.run_id for _ in range(2)]
    log_linked(embedded, report_with_error(0.5, created), runs[0], version.model_id)
    log_linked(embedded, report_with_error(3.0, "2026-01-02T00:00:00+00:00"), runs[1], version.model_id)
    decision = gate(version.uri, LOOSE)
    assert decision.report == f"runs:/{runs[1]}/ensemble/report.html"
    assert not decision.passed


class TestBaseline:
    @pytest.mark.fast_cases("0.3-threshold0-True", "8.0-threshold1-False", "1.2-threshold2-False")
    @pytest.mark.parametrize(
        ("scale", "threshold", "passed"),
        [(0.3, {"no_worse": True}, True), (8.0, {"no_worse": True}, False),
         (1.2, {"error_increase": {"max": 0.0}}, False), (0.8, {"error_increase": {"max": 0.0}}, True),
         (0.8, {"error_increase_upper": {"max": 0.0}}, False), (0.01, {"error_increase_upper": {"max": 0.0}}, True)],
    )  # fmt: skip
    def test_by_both_intervals(
        self, scale: float, threshold: Mapping[str, Any], passed: bool, shared: Callable[[float], Version]
    ) -> None:
        champion, version, report = shared(1.0), shared(scale), report_with_error(scale)
        decision = gate(version.uri, {"baseline": threshold}, baseline=champion.uri)
        (low, high), (base_low, base_high) = report.error_interval, REPORT.error_interval
        by_name = {
            "error_increase": report.error - REPORT.error,
            "error_increase_lower": low - base_high,
            "error_increase_upper": high - base_low,
        }
        (check,) = decision.checks
        assert check.value == pytest.approx(by_name[check.requirement.name], rel=1e-12)
        assert decision.passed is passed
        assert decision.baseline == champion.version
        assert decision.comparison is not None
        assert decision.comparison.startswith(f"version 1 of {champion.name}, by both 95 % data intervals, since ")

    def test_where_the_error_may_have_doubled_intervals_cannot_tell(self, shared: Callable[[float], Version]) -> None:
        champion, version = shared(1.0), shared(1.6)
        with pytest.raises(GateError, match="cannot be told: it was compared by both 95 % data intervals"):
            gate(version.uri, NO_WORSE, baseline=champion.uri)

    def test_reports_on_the_same_rows_are_compared_row_by_row(self, embedded: Client, name: str) -> None:
        """.072 against .034 on 569 rows, which two intervals do not tell apart."""
        losses = np.zeros(569)
        losses[:19] = 1.0
        worse = np.roll(losses, 0)
        worse[19:41] = 1.0
        reports = [
            replace(report_with_error(scale), judged_rows=JudgedRows(found.astype(np.float16), 1e-6, 0.0, 1.0, "oob 1"))
            for scale, found in ((1.0, losses), (2.1, worse))
        ]
        champion, version = (register(embedded, name, report) for report in reports)
        decision = gate(version.uri, NO_WORSE, baseline=champion.uri)
        assert not decision.passed
        assert decision.comparison is not None
        assert decision.comparison.endswith("by the same 569 rows, one by one")
        assert gate(champion.uri, NO_WORSE, baseline=version.uri).passed

    def test_an_alias_is_one_of_the_same_model(self, embedded: Client, name: str) -> None:
        champion, version = (register(embedded, name, report_with_error(scale)) for scale in (0.5, 2.0))
        embedded.set_registered_model_alias(name, "champion", champion.version)
        by_alias, by_uri = (gate(version.uri, NO_WORSE, baseline=named) for named in ("champion", champion.uri))
        assert by_alias.baseline == by_uri.baseline
        assert by_alias.checks == by_uri.checks
        assert not by_alias.passed

    def test_the_first_version_needs_none_where_the_policy_says_so(self, embedded: Client, name: str) -> None:
        version = register(embedded, name, REPORT)
        policy = {**LOOSE, "baseline": {"no_worse": True, "required": False}}
        decision = gate(version.uri, policy, baseline=f"models:/{name}@champion", promote="champion")
        assert decision.passed
        assert decision.baseline is None
        assert decision.comparison == "not compared, since no version has the alias 'champion' yet"
        assert len(decision.checks) == 2
        assert holder(embedded, name) == version.version

    def test_a_baseline_the_policy_does_not_ask_for_is_said_to_be_unused(
        self, shared: Callable[[float], Version]
    ) -> None:
        decision = gate(shared(1.0).uri, LOOSE, baseline="models:/nobody@champion")
        assert decision.comparison == "not compared, since the policy does not require it"


def test_a_verdict_that_another_gate_overturned_promotes_nothing(
    embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = register(embedded, name, REPORT)
    from ens_plugin.registry import gating as registry_gate

    write = registry_gate.write_verdict

    def write_and_be_overturned(client: Client, decision: ens_plugin.GateDecision, run_id: str | None) -> None:
        write(client, decision, run_id)
        client.set_model_version_tag(name, version.version, "ens.gate", "fail")

    monkeypatch.setattr(registry_gate, "write_verdict", write_and_be_overturned)
    with pytest.raises(GateError, match="has changed to 'fail' meanwhile"):
        gate(version.uri, LOOSE, promote="champion")
    assert holder(embedded, name) is None


@pytest.mark.slow
def test_audit_lines_tell_the_whole_story(embedded: Client, name: str, tmp_path: Path) -> None:
    version, log = register(embedded, name, REPORT), tmp_path / "gate.jsonl"
    gate(version.uri, STRICT, promote="champion", audit_log=log)
    passed = gate(version.uri, LOOSE, promote="champion", audit_log=log)
    records = lines(log.read_text())
    assert [(line["event"], line["verdict"]) for line in records] == [
        ("decision", "fail"), ("decision", "pass"), ("intent", "pass"), ("promotion", "pass"),
    ]  # fmt: skip
    assert records[0]["asked"] == {
        "model": version.uri, "baseline": None, "promote": "champion",
        "policy_digest": gate(version.uri, STRICT).policy_digest,
    }  # fmt: skip
    assert {key: records[3][key] for key in passed.to_dict()} == json.loads(passed.to_json())


def test_no_decision_without_its_audit_line(embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version = register(embedded, name, REPORT)

    def refuse(line: str) -> None:
        raise InputError("the disk is full")

    monkeypatch.setattr("ens_plugin.registry.gating.audit_to_log", refuse)
    with pytest.raises(InputError, match="disk is full"):
        gate(version.uri, LOOSE, promote="champion")
    assert tags_of(embedded, version) == {}
    assert holder(embedded, name) is None


def test_no_model_is_loaded_for_a_logged_report(embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    champion, version = (register(embedded, name, REPORT) for _ in range(2))
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    monkeypatch.setattr("ens_plugin.tracking.digest.load_model", None)
    assert gate(version.uri, {**LOOSE, **NO_WORSE}, baseline=champion.uri).passed


def doubted(report: EnsembleReport) -> EnsembleReport:
    return with_doubts(report, "36 % of the weight lies on rows in every bag.")


def test_a_doubtful_report_promotes_nothing(embedded: Client, name: str) -> None:
    version = register(embedded, name, doubted(REPORT))
    with pytest.raises(GateError, match="not to rely on its figures: 36 % of the weight"):
        gate(version.uri, LOOSE, promote="champion")
    assert holder(embedded, name) is None
    assert "ens.gate" not in tags_of(embedded, version)


def test_a_doubtful_baseline_is_no_bar(embedded: Client, name: str) -> None:
    baseline = register(embedded, name, doubted(REPORT))
    embedded.set_registered_model_alias(name, "champion", baseline.version)
    candidate = register(embedded, name, REPORT)
    with pytest.raises(GateError, match=f"version {baseline.version} .* not to rely"):
        gate(candidate.uri, NO_WORSE, baseline="champion", promote="champion")
    assert holder(embedded, name) == baseline.version


def test_a_report_on_a_score_is_judged_by_it(embedded: Client, name: str) -> None:
    """Its scalars have the name of the score, and none is called error."""
    version = register(embedded, name, score_report())
    assert gate(version.uri, {"report": {"roc_auc": {"min": 0.9}, "size_ratio": {"max": 100.0}}}).passed
    assert not gate(version.uri, {"report": {"roc_auc_lower": {"min": 0.95}}}).passed
    with pytest.raises(GateError, match="error"):
        gate(version.uri, {"report": {"error": {"max": 0.1}}})


def test_a_logged_report_of_another_metric_has_no_verdict(embedded: Client, name: str) -> None:
    policy = {"report": {"metric": "average_precision", "size_ratio": {"max": 100.0}}}
    with pytest.raises(GateError, match=r"policy is about 'average_precision'.*'roc_auc'.*or pass rows"):
        gate(register(embedded, name, score_report()).uri, policy)


def no_report(client: Client, name: str) -> Version:
    return register(client, name, None, metrics={"auc": 0.9})


def deleted_run(client: Client, name: str) -> Version:
    version = register(client, name, REPORT)
    client.delete_run(version.run_id)
    return version


def another_report(client: Client, name: str) -> Version:
    version = register(client, name, report_with_error(3.0))
    client.log_text(version.run_id, REPORT.to_json(), "ensemble/report.json")
    return version


def changed_files(client: Client, name: str) -> Version:
    version = register(client, name, REPORT)
    with TemporaryDirectory() as folder:
        (Path(folder) / "MLmodel").write_text("another model")
        client.log_model_artifacts(version.model_id, folder)
    return version


def unlinked(client: Client, name: str) -> Version:
    return register(client, name, REPORT, linked=False)


def no_run(client: Client, name: str) -> Version:
    client.create_registered_model(name)
    client.create_model_version(name, "file:///models/forest")
    return Version(name, "1", "", "")


def not_a_number(client: Client, name: str) -> Version:
    return register(client, name, None, metrics={"auc": float("nan")})


def linked_not_a_number(client: Client, name: str) -> Version:
    version = register(client, name, None)
    client.log_metric(version.run_id, "loss", float("nan"), model_id=version.model_id)
    return version


AUC = {"metrics": {"auc": {"min": 0.5}}}
LOSS = {"metrics": {"loss": {"max": 0.5}}}
PERCENT = {"report": {"error": {"max": 6}}}
CANNOT_TELL: list[tuple[Callable[[Client, str], Version], Mapping[str, Any], str | None, str]] = [
    (no_report, LOOSE, None, r"no report is linked to its model. To link one, run ens_plugin\.log_report\("),
    (no_run, LOOSE, None, "No such artifact: 'forest'"),
    (deleted_run, LOOSE, None, "is deleted. Restore it"),
    (another_report, LOOSE, None, "is not what was linked to this model"),

    (unlinked, LOOSE, None, "no report is linked to its model"),

    (changed_files, LOOSE, None, "its files are not those that a report was linked to"),
    (not_a_number, AUC, None, "'metrics.auc', which is not available for version 1 .*: NaN was logged. Log a number"),
    (linked_not_a_number, LOSS, None, "'metrics.loss', which is not available for version 1 .*: NaN was logged"),
    (no_report, {"metrics": {"acu": {"min": 0.5}}}, None, r"'metrics.acu', .* did you mean 'auc'\?"),
    (lambda client, name: register(client, name, regression_report()), LOOSE, None, "'report.agreement', which is not"),
    (lambda client, name: register(client, name, REPORT), PERCENT, None, r"Write 0\.06 for 6 %"),
    (lambda client, name: register(client, name, REPORT), NO_WORSE, None, "and none was named"),
    (lambda client, name: register(client, name, REPORT), NO_WORSE, "models:/{name}@champion", "'required = false'"),
    (lambda client, name: register(client, name, REPORT), NO_WORSE, "models:/{name}/9", "version=9.* not found"),
    (lambda client, name: register(client, name, REPORT), NO_WORSE, "models:/nobody/1", "name=nobody.* not found"),
    (lambda client, name: Version(name, "1", "", ""), LOOSE, None, r"not found.*\. Check the name"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "policy", "baseline", "message"), CANNOT_TELL)
def test_what_cannot_be_told_raises_and_writes_nothing(
    make: Callable[[Client, str], Version], policy: Mapping[str, Any], baseline: str | None, message: str,
    embedded: Client, name: str, tmp_path: Path,
) -> None:  # fmt: skip
    version = make(embedded, name)
    with pytest.raises((GateError, TrackingError, InputError), match=message):
        gate(
            version.uri,
            policy,
            baseline=None if baseline is None else baseline.format(name=name),
            promote="champion",
            audit_log=tmp_path / "gate.jsonl",
        )
    (line,) = lines((tmp_path / "gate.jsonl").read_text())
    assert line["event"] == "error"
    if is_registered(embedded, name):
        assert tags_of(embedded, version) == {}
        assert holder(embedded, name) is None


def test_a_version_that_is_not_ready_is_not_judged(
    shared: Callable[[float], Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    version = shared(1.0)
    monkeypatch.setattr("ens_plugin.tracking.models.READY", "FAILED_REGISTRATION")
    with pytest.raises(GateError, match="is not ready"):
        gate(version.uri, LOOSE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": "mean squared error"}, "the 0-1 error, the baseline's the mean squared error"),
        ({"interval_level": 0.9}, "has 0.9 ones"),
    ],
)
def test_reports_that_cannot_be_compared(
    change: dict[str, Any], message: str, embedded: Client, name: str, shared: Callable[[float], Version]
) -> None:
    champion = register(embedded, name, replace(REPORT, error_curve=replace(REPORT.error_curve, **change)))
    with pytest.raises(GateError, match=message):
        gate(shared(1.0).uri, NO_WORSE, baseline=champion.uri)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_uri": "runs:/abc/model"}, "is not the URI of a registered version"),
        ({"model_uri": "models:/m-0123456789abcdef"}, "is not the URI of a registered version"),
        ({"model_uri": "models:/churn/latest"}, "is not the URI of a registered version"),
        ({"model_uri": "models:/churn/0"}, "is not the URI of a registered version"),
        ({"baseline": "churn/3"}, "'churn/3' is not the URI of a registered version"),
        ({"baseline": "v7"}, "'v7' is not the URI of a registered version"),
        ({"promote": "v7"}, "cannot be an alias"),
        ({"promote": "Latest"}, "promote='Latest' cannot be an alias"),
        ({"promote": "two words"}, "cannot be an alias"),
        ({"promote": ""}, "cannot be an alias"),
        ({"promote": True}, "promote=True cannot be an alias"),
        ({"model_uri": 7}, "7 is not the URI of a registered version"),
        ({"baseline": True}, "True is not the URI of a registered version"),
        ({"prefix": None}, "cannot start the names"),
        ({"policy": 0.05}, "0.05 is not a policy. Pass the path of a TOML file"),
        ({"prefix": "../x"}, "cannot start the names"),
        ({"policy": "gone.toml"}, "no policy file"),
        ({"X": [[1]]}, "X and y belong together"),
        ({"y": [1]}, "X and y belong together"),
        ({"X": [[1]], "y": [1], "data": "test"}, "neither 'oob' nor 'holdout'"),
        ({"X": [[1]], "y": [1], "policy": {"metrics": {"a": {"max": 1}}}}, "no requirement that could be measured"),
        ({"audit_log": "no/such/place.jsonl"}, "cannot be written"),
    ],
)
def test_wrong_arguments_are_refused_before_any_server_is_asked(changes: dict[str, Any], message: str) -> None:
    arguments = {"model_uri": "models:/churn/7", "policy": LOOSE, **changes}
    with tracking_to(DOWN), pytest.raises(InputError, match=message):
        gate(**arguments)


@pytest.mark.fast_cases("<script>alert(1)</script>", "text6")
@pytest.mark.parametrize("text", HOSTILE_STRINGS)
def test_hostile_names_and_tags_act_nowhere(text: str, embedded: Client, tmp_path: Path) -> None:
    name = text.replace("/", "").replace(":", "")[:200] + uuid4().hex[:8]
    report = replace(REPORT, error_curve=replace(REPORT.error_curve, metric=text), model=text)
    report = with_notes(report, text)
    version = register(embedded, name, report)
    embedded.set_model_version_tag(name, version.version, "note", text)
    policy = {**LOOSE, **NO_WORSE, "metrics": {"auc": {"max": 1.0}}}
    embedded.log_metric(version.run_id, "auc", 1.0)
    decision = gate(version.uri, policy, baseline=version.uri, promote="champion", audit_log=tmp_path / "gate.jsonl")
    assert all(value.isprintable() and len(value) <= 4000 for key, value in tags_of(embedded, version).items()
               if key.startswith("ens.gate"))  # fmt: skip
    assert holder(embedded, name) == version.version
    assert len((tmp_path / "gate.jsonl").read_text().splitlines()) == 3
    assert decision.summary().replace("\n", "").isprintable()


def test_long_reasons_are_cut_to_what_every_server_takes(embedded: Client, name: str) -> None:
    metrics = {f"{'m' * 200}{number}": 1.0 for number in range(40)}
    version = register(embedded, name, None, metrics=metrics)
    gate(version.uri, {"metrics": {key: {"max": 1.0} for key in metrics}})
    assert len(tags_of(embedded, version)["ens.gate.reasons"]) == 4000


def test_credentials_stay_out_of_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ens_plugin.gate")
    with tracking_to(DOWN.replace("//", "//me:secret@")), pytest.raises(EnsPluginError) as refused:
        gate("models:/churn/7", LOOSE)
    assert "secret" not in caplog.text + str(refused.value)


def test_reports_stay_in_their_folder(
    shared: Callable[[float], Version], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = shared(1.0)
    outside = tmp_path / "report.json"
    outside.write_text(REPORT.to_json())
    monkeypatch.setattr(Client, "download_artifacts", lambda *arguments: str(outside))
    with pytest.raises(GateError, match="leads out of its folder"):
        gate(version.uri, LOOSE)


def test_a_report_of_gigabytes_is_not_read(shared: Callable[[float], Version], monkeypatch: pytest.MonkeyPatch) -> None:
    version = shared(1.0)
    monkeypatch.setattr("ens_plugin.registry.evidence.REPORT_BYTES", 1000)
    with pytest.raises(GateError, match="bytes, more than any report"):
        gate(version.uri, LOOSE)


def score_of(value: float) -> EnsembleReport:
    """A report with a narrow interval around one value of roc_auc."""
    report = score_report()
    curve = report.error_curve
    values = {"error": curve.error * 0 + value, "lower": curve.error * 0 + value - 0.005,
              "upper": curve.error * 0 + value + 0.005}  # fmt: skip
    limit = {"asymptote": value, "asymptote_raw": value, "asymptote_interval": (value - 0.005, value + 0.005)}
    return replace(report, error_curve=replace(curve, **values, **limit))


def test_a_score_that_fell_is_told_by_its_own_values_the_keys_of_the_policy_and_the_alias(
    embedded: Client, name: str
) -> None:
    champion, version = (register(embedded, name, score_of(value)) for value in (0.95, 0.85))
    embedded.set_registered_model_alias(name, "champion", champion.version)
    policy = {"report": {"roc_auc": {"min": 0.5}}, **NO_WORSE}
    decision = gate(version.uri, policy, baseline="champion", promote="champion")
    failed = decision.reasons[0]
    assert failed.startswith("FAILED: baseline.no_worse: roc_auc is 0.85, and that of version 1 is 0.95. ")
    assert failed.endswith(
        "The decrease is 0.1, and its 95 % interval is from 0.09 to 0.11. The lower end of that interval is 0.09, "
        "at most 0 allowed"
    )
    assert "error" not in failed
    assert holder(embedded, name) == "1"
    assert decision.summary().splitlines()[-2:] == list(decision.notes)
    assert decision.notes[0].startswith("Train a model")
    assert decision.notes[1] == "Alias 'champion' stays at version 1."
    content = json.loads(decision.to_json())
    assert "notes" not in content
    assert content["checks"][1] == {
        "table": "baseline", "name": "error_increase_lower", "bound": "max", "threshold": 0.0,
        "value": decision.checks[1].value, "passed": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (label_report("spam"), "report.f1 of label 'spam' is "),
        (label_report(None), "report.f1 of label '1' is "),
        (score_report(), "report.roc_auc is "),
    ],
)
def test_a_bound_of_a_metric_without_a_label_states_which_label_the_report_is_about(
    embedded: Client, name: str, report: EnsembleReport, words: str
) -> None:
    version = register(embedded, name, report)
    policy = {"report": {report.error_curve.metric: {"min": 0.5}}}
    assert words in gate(version.uri, policy).reasons[0]
    embedded.set_registered_model_alias(name, "champion", version.version)
    compared = gate(register(embedded, name, report).uri, {**policy, **NO_WORSE}, baseline="champion")
    assert any(f"baseline.no_worse: {words.removeprefix('report.')}" in reason for reason in compared.reasons)


def test_a_report_about_another_label_than_the_policy_names_has_no_verdict(embedded: Client, name: str) -> None:
    version = register(embedded, name, label_report("spam"))
    policy = {"report": {"metric": "f1", "f1": {"min": 0.5}}}
    with pytest.raises(GateError, match=r"with 'ham' as the positive label, .* with 'spam'"):
        gate(version.uri, {"report": {**policy["report"], "positive_label": "ham"}})
    with pytest.raises(GateError, match=r"with '1' as the positive label, .* with 'spam'"):
        gate(version.uri, policy)


def test_an_error_that_rose_is_an_increase_and_another_model_is_named(shared: Callable[[float], Version]) -> None:
    champion, version = shared(1.0), shared(8.0)
    decision = gate(version.uri, {"baseline": {"error_increase": {"max": 0.01}}}, baseline=champion.uri)
    (failed,) = decision.reasons
    assert "baseline.error_increase: 0-1 error is " in failed
    assert re.search(rf", and that of version 1 of {re.escape(champion.name)} is [\d.]+\. The increase is ", failed)


def test_an_interval_that_is_too_wide_is_no_reason_to_train_only(shared: Callable[[float], Version]) -> None:
    champion, version = shared(1.0), shared(0.8)
    bound = {"baseline": {"error_increase_upper": {"max": 0.0}}}
    decision = gate(version.uri, bound, baseline=champion.uri, promote="champion")
    assert not decision.passed
    assert "more rows" in decision.notes[0]
    assert decision.notes[1] == "Alias 'champion' still has no version."
    assert "more rows" not in gate(shared(8.0).uri, bound, baseline=champion.uri).notes[0]


def test_a_pass_has_no_notes(shared: Callable[[float], Version]) -> None:
    assert gate(shared(0.8).uri, NO_WORSE, baseline=shared(1.0).uri).notes == ()


@pytest.mark.parametrize(
    ("report", "policy", "found", "remedy"),
    [
        (score_report(), {"error": {"max": 0.1}}, "its report is of roc_auc", "without metric="),
        (REPORT, {"roc_auc": {"min": 0.9}}, "its report is of 0-1 error", 'metric = "roc_auc" under [report]'),
        (regression_report(), {"agreement": {"min": 0.9}}, "its report is of mean squared error", "rmse_upper"),
    ],
)
def test_a_scalar_that_a_report_lacks_is_told_with_the_metric_of_the_report(
    report: EnsembleReport, policy: dict[str, dict[str, float]], found: str, remedy: str, embedded: Client, name: str
) -> None:
    version = register(embedded, name, report)
    with pytest.raises(GateError) as refused:
        gate(version.uri, {"report": policy})
    assert found in str(refused.value)
    assert remedy in str(refused.value)


def test_the_evidence_names_the_page_only_where_it_was_logged(
    embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ens_plugin.tracking.log.render_artifacts",
        lambda report, folder: (folder / "report.json").write_text(report.to_json(), encoding="utf-8"),
    )
    version = register(embedded, name, report_with_error(1.0))
    decision = gate(version.uri, {"report": {"error": {"max": 0.99}}})
    assert decision.report == f"runs:/{version.run_id}/ensemble/report.json"
    assert decision.evidence.endswith("ensemble/report.json")


UNCOMPARED = {"baseline": {"no_worse": True, "required": False}}


def test_a_misspelt_alias_of_the_baseline_has_no_verdict_although_none_is_required(embedded: Client, name: str) -> None:
    champion, version = (register(embedded, name, report_with_error(scale)) for scale in (0.5, 8.0))
    embedded.set_registered_model_alias(name, "champion", champion.version)
    with pytest.raises(GateError, match=r"has the alias 'champoin', and one has 'champion', .* misspelt"):
        gate(version.uri, UNCOMPARED, baseline="champoin", promote="champion")
    assert holder(embedded, name) == champion.version


def test_a_misspelt_alias_to_promote_to_has_no_verdict(embedded: Client, name: str) -> None:
    champion, version = (register(embedded, name, report_with_error(1.0)) for _ in range(2))
    embedded.set_registered_model_alias(name, "champion", champion.version)
    policy = {"report": {"error": {"max": 0.99}}}
    with pytest.raises(GateError, match=r"has the alias 'champoin', and one has 'champion', .* to promote to may be"):
        gate(version.uri, policy, promote="champoin")
    assert list(embedded.get_registered_model(name).aliases) == ["champion"]
    assert gate(version.uri, policy, promote="champion-eu").promoted == "champion-eu"


def test_a_baseline_that_is_not_there_yet_is_a_warning_below_the_verdict(embedded: Client, name: str) -> None:
    version = register(embedded, name, REPORT)
    embedded.set_registered_model_alias(name, "staging", version.version)
    decision = gate(version.uri, UNCOMPARED, baseline="champion")
    first, second = decision.summary().splitlines()[:2]
    assert first.startswith("PASS")
    assert second.startswith("Warning: Version 1 was not compared with a baseline, because no version of")
    assert "It has the aliases 'staging'." in " ".join(decision.summary().split())
    assert "Warning: Version 1 was not compared" in decision.to_markdown().splitlines()[2]
    assert "warnings" not in json.loads(decision.to_json())


@pytest.mark.parametrize(
    ("first", "second", "is_misspelt"),
    [
        ("champoin", "champion", True),
        ("champon", "champion", True),
        ("chammpion", "champion", True),
        ("champion-us", "champion-eu", False),
        ("champion", "champion2", False),
        ("champion", "champions", False),
        ("v12", "v21", False),
        ("model-a", "model-b", False),
        ("staging", "champion", False),
    ],
)
def test_aliases_that_are_alike_on_purpose_are_not_misspelt(first: str, second: str, is_misspelt: bool) -> None:
    assert are_misspelt(first, second) == are_misspelt(second, first) == is_misspelt
