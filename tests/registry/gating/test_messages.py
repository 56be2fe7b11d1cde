"""What the gate prints about a failed comparison, a scalar that a report lacks, and where the report is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from ens_plugin import EnsembleReport, gate
from ens_plugin.errors import GateError
from ens_plugin.registry.evidence import are_misspelt
from tests.registry.gating.gates import NO_WORSE, REPORT, Client, holder
from tests.registry.registry import Version, register, report_with_error
from tests.reports import label_report, regression_report, score_report
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("swift")]


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
