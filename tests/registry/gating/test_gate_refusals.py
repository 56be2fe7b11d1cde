"""What the gate cannot judge: it raises, and neither a verdict is written nor an alias moved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import mlflow
import pytest

from ens_plugin import EnsembleReport, gate
from ens_plugin.errors import EnsPluginError, GateError, InputError, TrackingError
from tests.registry.gating.gates import LOOSE, NO_WORSE, REPORT, STRICT, Client, holder
from tests.registry.registry import Version, is_registered, lines, register, report_with_error, tags_of, verdict_of
from tests.reports import HOSTILE_STRINGS, regression_report, with_notes
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("swift")]


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


def other_files(client: Client, name: str) -> Version:
    version = register(client, name, REPORT)
    other = register(client, name, None)
    tags = client.get_logged_model(version.model_id).tags
    client.set_logged_model_tags(other.model_id, {"ens.report": tags["ens.report"]})
    return other


def changed_files(client: Client, name: str) -> Version:
    version = register(client, name, REPORT)
    with TemporaryDirectory() as folder:
        (Path(folder) / "MLmodel").write_text("another model")
        client.log_model_artifacts(version.model_id, folder)
    return version


def no_json(client: Client, name: str) -> Version:
    version = register(client, name, REPORT)
    client.log_text(version.run_id, "<html>", "ensemble/report.json")
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
    (no_json, LOOSE, None, "is not what was linked to this model"),
    (unlinked, LOOSE, None, "no report is linked to its model"),
    (other_files, LOOSE, None, "its files are not those that a report was linked to"),
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


def other_error(report: EnsembleReport) -> EnsembleReport:
    return replace(report, error_curve=replace(report.error_curve, metric="mean squared error"))


def other_level(report: EnsembleReport) -> EnsembleReport:
    return replace(report, error_curve=replace(report.error_curve, interval_level=0.9))


@pytest.mark.parametrize(
    ("change", "message"),
    [(other_error, "the 0-1 error, the baseline's the mean squared error"), (other_level, "has 0.9 ones")],
)
def test_reports_that_cannot_be_compared(
    change: Callable[[EnsembleReport], EnsembleReport],
    message: str,
    embedded: Client,
    name: str,
    shared: Callable[[float], Version],
) -> None:
    champion = register(embedded, name, change(REPORT))
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


def test_a_dead_server_is_an_error_with_an_audit_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ens_plugin.gate")
    with tracking_to(DOWN), pytest.raises(TrackingError, match="cannot be reached"):
        gate("models:/churn/7", LOOSE, promote="champion")
    (line,) = lines("\n".join(record.message for record in caplog.records if record.name == "ens_plugin.gate"))
    assert (line["event"], line["error"]) == ("error", "TrackingError")


class Interrupted(Client):
    """A client whose server dies before the writing call of one number."""

    calls = 0
    dies_at = 0

    def _write(self, *arguments: Any) -> None:
        type(self).calls += 1
        if self.calls == self.dies_at:
            raise mlflow.exceptions.MlflowException("the server is gone")

    def set_model_version_tag(self, *arguments: Any) -> None:
        self._write()
        super().set_model_version_tag(*arguments)

    def set_registered_model_alias(self, *arguments: Any) -> None:
        self._write()
        super().set_registered_model_alias(*arguments)


@pytest.mark.fast_cases("policy0-4-None", "policy1-3-fail")
@pytest.mark.parametrize("before", [None, "pass", "fail"])
@pytest.mark.parametrize(("policy", "writes"), [(LOOSE, 4), (STRICT, 3)])
def test_a_server_that_dies_between_writes_leaves_no_pass_that_was_not_earned(
    before: str | None, policy: Any, writes: int, embedded: Client, monkeypatch: pytest.MonkeyPatch,
    shared: Callable[[float], Version], name: str,
) -> None:  # fmt: skip
    version = shared(1.0)
    for number in (1, writes - 1, writes):
        for key in tags_of(embedded, version):
            embedded.delete_model_version_tag(version.name, version.version, key)
        if before is not None:
            embedded.set_model_version_tag(version.name, version.version, "ens.gate", before)
        with monkeypatch.context() as patch:
            patch.setattr("mlflow.MlflowClient", type("Dying", (Interrupted,), {"dies_at": number}))
            with pytest.raises(TrackingError, match="the server is gone"):
                gate(version.uri, policy, promote=name)
        tags = tags_of(embedded, version)
        assert holder(embedded, version.name, name) is None
        if verdict_of(tags) == "pass":
            assert number == 4 if before != "pass" else policy is LOOSE or number == 1
            assert "FAILED" not in tags.get("ens.gate.reasons", "")
    assert gate(version.uri, LOOSE, promote=name).passed  # nothing is stuck


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
