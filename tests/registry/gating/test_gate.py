from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest

import ens_plugin
from ens_plugin import Costs, EnsembleReport, gate
from ens_plugin.core.judged_rows import JudgedRows
from ens_plugin.errors import GateError, InputError
from ens_plugin.report.result import LinearCost
from tests.registry.gating.gates import LOOSE, NO_WORSE, REPORT, STRICT, UPPER, Client, holder
from tests.registry.registry import Version, experiment_id, lines, log_linked, register, report_with_error, tags_of
from tests.reports import capped_report, score_report, with_doubts
from tests.tracking.stores import MLFLOW_WARNINGS

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


@pytest.mark.slow
def test_running_twice_changes_nothing_but_the_time(embedded: Client, name: str) -> None:
    version = register(embedded, name, REPORT)
    runs = len(embedded.search_runs([experiment_id(embedded)]))
    gate(version.uri, LOOSE, promote="champion")
    before = tags_of(embedded, version)
    again = gate(f"models:/{name}@champion", LOOSE, baseline=f"models:/{name}@champion", promote="champion")
    assert again.version == version.version
    after = tags_of(embedded, version)
    assert after == before
    assert record_of(embedded, version) == again.to_dict() | {"promoted": None, "promoted_from": None}
    assert holder(embedded, name) == version.version
    assert len(embedded.search_runs([experiment_id(embedded)])) == runs


def test_a_version_can_lose_its_pass(embedded: Client, shared: Callable[[float], Version]) -> None:
    version = shared(1.0)
    gate(version.uri, LOOSE)
    gate(version.uri, STRICT)
    assert tags_of(embedded, version)["ens.gate"].startswith("fail, version 1 of ")


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

    def test_a_version_of_another_model_can_be_the_baseline(self, shared: Callable[[float], Version]) -> None:
        other, version = shared(1.0), shared(8.0)
        assert (other.version, version.version) == ("1", "1")
        assert not gate(version.uri, NO_WORSE, baseline=other.uri).passed

    def test_an_alias_is_one_of_the_same_model(self, embedded: Client, name: str) -> None:
        champion, version = (register(embedded, name, report_with_error(scale)) for scale in (0.5, 2.0))
        embedded.set_registered_model_alias(name, "champion", champion.version)
        by_alias, by_uri = (gate(version.uri, NO_WORSE, baseline=named) for named in ("champion", champion.uri))
        assert by_alias.baseline == by_uri.baseline
        assert by_alias.checks == by_uri.checks
        assert not by_alias.passed

    def test_nothing_is_worse_than_itself(self, shared: Callable[[float], Version]) -> None:
        version = shared(1.0)
        decision = gate(version.uri, {"baseline": {"error_increase_upper": {"max": 0.0}}}, baseline=version.uri)
        assert decision.passed
        assert [check.value for check in decision.checks] == [0.0]

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

    @pytest.mark.slow
    def test_a_baseline_that_moves_meanwhile_stops_the_promotion(
        self, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two candidates, each better than the champion: the second must be compared with the first."""
        champion, rival, version = (register(embedded, name, report_with_error(scale)) for scale in (2, 0.5, 1))
        embedded.set_registered_model_alias(name, "champion", champion.version)

        def promote_the_rival_too(client: Client, *_: object) -> None:
            client.set_registered_model_alias(name, "champion", rival.version)

        monkeypatch.setattr("ens_plugin.registry.gating.write_verdict", promote_the_rival_too)
        with pytest.raises(GateError, match=f"from version {champion.version} to {rival.version}"):
            gate(version.uri, NO_WORSE, baseline=f"models:/{name}@champion", promote="champion")
        assert holder(embedded, name) == rival.version


def own_alias_missing(client: Client, name: str) -> Version:
    register(client, name, REPORT)
    return Version(name, "1@champion", "", "")


def test_an_alias_goes_back_to_an_older_version_only_if_told_to(embedded: Client, name: str) -> None:
    """As where a delivery comes late."""
    first, second = (register(embedded, name, REPORT) for _ in range(2))
    gate(second.uri, LOOSE, promote="champion")
    with pytest.raises(GateError, match="was not moved, because version 2, which has it, is newer"):
        gate(first.uri, LOOSE, promote="champion")
    assert holder(embedded, name) == second.version
    assert gate(first.uri, LOOSE, promote="champion", allow_older=True).promoted_from == second.version
    assert holder(embedded, name) == first.version


def test_a_copy_has_no_verdict_of_its_own(embedded: Client, name: str) -> None:
    """MLflow copies the tags of a version, and its name is in the tag."""
    version = register(embedded, name, REPORT)
    gate(version.uri, LOOSE)
    copied = embedded.copy_model_version(version.uri, f"{name}-copy")
    tag = embedded.get_model_version(copied.name, copied.version).tags["ens.gate"]
    assert f"version 1 of {name}, sha256:" in tag
    decision = gate(f"models:/{copied.name}/{copied.version}", LOOSE)
    assert decision.tag != tag
    assert embedded.get_model_version(copied.name, copied.version).tags["ens.gate"] == decision.tag


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


@pytest.mark.slow
def test_of_two_scores_the_greater_is_no_worse(embedded: Client, name: str) -> None:
    """A decrease of the score is the increase of the error that the policy bounds."""
    report = score_report()
    curve = report.error_curve
    lower = {key: getattr(curve, key) - 0.3 for key in ("error", "lower", "upper")}
    limit = {"asymptote": 0.657, "asymptote_raw": 0.657, "asymptote_interval": (0.637, 0.677)}
    worse = replace(report, error_curve=replace(curve, **lower, **limit))
    champion = register(embedded, name, report)
    embedded.set_registered_model_alias(name, "champion", champion.version)
    assert not gate(register(embedded, name, worse).uri, NO_WORSE, baseline="champion").passed
    embedded.set_registered_model_alias(name, "champion", register(embedded, name, worse).version)
    decision = gate(champion.uri, NO_WORSE, baseline="champion")
    assert decision.passed
    assert decision.checks[0].value < -0.2


def test_a_logged_report_of_another_metric_has_no_verdict(embedded: Client, name: str) -> None:
    policy = {"report": {"metric": "average_precision", "size_ratio": {"max": 100.0}}}
    with pytest.raises(GateError, match=r"policy is about 'average_precision'.*'roc_auc'.*or pass rows"):
        gate(register(embedded, name, score_report()).uri, policy)
