"""Concurrent gates, killed gates, and versions whose records are wrong, on an embedded store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ens_plugin import EnsembleReport, gate
from ens_plugin.errors import EnsPluginError, GateError, InputError, TrackingError
from ens_plugin.registry import gating as registry_gate
from ens_plugin.registry import lease as registry_lease
from ens_plugin.registry.gating import audit_to_file, gate_request, run_gate
from ens_plugin.registry.lease import LEASE_TAG, lease
from ens_plugin.tracking.log import log_report
from ens_plugin.tracking.models import VersionAddress, find_version, is_unchanged
from tests.registry.gating.gates import NO_WORSE, REPORT, Client, holder
from tests.registry.registry import experiment_id, lines, register, report_with_error, tags_of
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("swift")]

LOOSE = {"report": {"error_upper": {"max": 0.9}}}
STRICT = {"report": {"error_upper": {"max": 0.001}}}


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """What each of some calls returned or raised."""

    def outcome(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except EnsPluginError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


class TestRaces:
    @pytest.mark.fast_cases("alias")
    @pytest.mark.parametrize("named", ["alias", "version"])
    def test_of_gates_with_the_same_baseline_one_promotes(
        self, named: str, embedded: Client, name: str, tmp_path: Path
    ) -> None:
        champion, *rivals = (register(embedded, name, report_with_error(scale)) for scale in (2.0, 1.0, 0.9, 0.8))
        embedded.set_registered_model_alias(name, "champion", champion.version)
        baseline, log = "champion" if named == "alias" else champion.uri, tmp_path / "gate.jsonl"
        found = at_once(
            [lambda rival=rival: gate(rival.uri, NO_WORSE, baseline=baseline, promote="champion", audit_log=log)
             for rival in rivals]
        )  # fmt: skip
        promoted = [answer for answer in found if not isinstance(answer, Exception)]
        refused = [answer for answer in found if isinstance(answer, Exception)]
        records = lines(log.read_text())
        promotions = [line for line in records if line["event"] == "promotion"]
        assert [line["promoted_from"] for line in promotions] == [line["baseline"] for line in promotions]
        assert len(promoted) == len(promotions) == 1
        assert all(isinstance(error, GateError) and "has moved from version 1 to" in str(error) for error in refused)
        assert holder(embedded, name) == promoted[0].version
        assert embedded.get_registered_model(name).tags == {}

    def test_somebody_without_a_lease_is_noticed(
        self, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        champion, rival, version = (register(embedded, name, REPORT) for _ in range(3))
        embedded.set_registered_model_alias(name, "champion", champion.version)

        class Overtaken(Client):
            def set_registered_model_alias(self, *arguments: Any) -> None:
                super().set_registered_model_alias(*arguments)
                super().set_registered_model_alias(name, "champion", rival.version)

        monkeypatch.setattr("mlflow.MlflowClient", Overtaken)
        with pytest.raises(GateError, match=f"right after that it points at version {rival.version}"):
            gate(version.uri, LOOSE, promote="champion")
        assert holder(embedded, name) == rival.version

    def test_a_lease_that_nobody_gives_back_ends(
        self, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry_lease, "LEASE_S", 1.0)
        embedded.create_registered_model(name)
        embedded.set_registered_model_tag(name, f"{LEASE_TAG}.0", "until long ago")
        started = time.monotonic()
        with lease(embedded, name) as held:
            assert time.monotonic() - started > 1.0
            assert list(embedded.get_registered_model(name).tags) == [held.key]
        assert embedded.get_registered_model(name).tags == {}

    def test_a_lease_that_another_gate_renews_is_waited_for_and_not_for_ever(
        self, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(registry_lease, "PATIENCE_S", 0.5)
        version = register(embedded, name, REPORT)
        embedded.set_registered_model_tag(name, f"{LEASE_TAG}.0", "process 1 on elsewhere")
        with pytest.raises(GateError, match=r"has held the lease .*process 1 on elsewhere"):
            gate(version.uri, LOOSE, promote="champion")
        assert tags_of(embedded, version) == {}
        assert list(embedded.get_registered_model(name).tags) == [f"{LEASE_TAG}.0"]

    def test_a_gate_that_lost_its_lease_moves_nothing(
        self, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        version = register(embedded, name, REPORT)
        monkeypatch.setattr(registry_lease, "LEASE_S", 0.0)
        with pytest.raises(GateError, match="took longer than the lease"):
            gate(version.uri, LOOSE, promote="champion")
        assert holder(embedded, name) is None


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    "source", ["file:///elsewhere/forest", "{root}/../other/forest", "{root}-2/forest", "s3://bucket/forest",
               "runs:/0123/forest", "{root}/%2e%2e/other"],
)  # fmt: skip
@pytest.mark.parametrize("policy", [LOOSE, {"metrics": {"auc": {"min": 0.5}}}])
def test_what_a_run_logged_is_not_about_files_elsewhere(source: str, policy: Any, embedded: Client, name: str) -> None:
    run = embedded.create_run(experiment_id(embedded))
    embedded.log_metric(run.info.run_id, "auc", 0.9)
    log_report(REPORT, run_id=run.info.run_id)
    embedded.create_registered_model(name)
    embedded.create_model_version(name, source.format(root=run.info.artifact_uri), run.info.run_id)
    with pytest.raises((GateError, TrackingError)):
        gate(f"models:/{name}/1", policy, promote="champion")
    assert holder(embedded, name) is None


# `tests/attacks/registries/misleading.py` has many more.
FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "an empty curve": lambda r: r["error_curve"].update(sizes=[], error=[], lower=[], upper=[]),
    "size 0": lambda r: r["recommendation"].update(size=0),
    "a curve from size 0": lambda r: r["error_curve"]["sizes"].__setitem__(0, 0),
    "sizes that fall": lambda r: r["error_curve"]["sizes"].reverse(),
    "upper below lower": lambda r: r["error_curve"].update(
        upper=r["error_curve"]["lower"], lower=r["error_curve"]["upper"]
    ),
    "half a character": lambda r: r.update(model="\ud800"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_impossible_report_passes_nowhere(
    forgery: str, embedded: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content: dict[str, Any] = json.loads(REPORT.to_json())
    FORGERIES[forgery](content)
    text = json.dumps(content)
    # Whoever can write a report can write a link that matches it.
    monkeypatch.setattr(EnsembleReport, "to_json", lambda report: text)
    version = register(embedded, name, REPORT)
    with pytest.raises((GateError, InputError)):
        gate(version.uri, LOOSE, promote="champion", audit_log=tmp_path / "gate.jsonl")
    (line,) = lines((tmp_path / "gate.jsonl").read_text())
    assert line["event"] == "error"
    assert holder(embedded, name) is None
    assert tags_of(embedded, version) == {}


@pytest.mark.parametrize("text", ["", "null", "[1]", "{}", '{"run_id": 1}', "[" * 4000])
def test_a_damaged_link_is_an_answer(text: str, embedded: Client, name: str, tmp_path: Path) -> None:
    version = register(embedded, name, None)
    embedded.set_logged_model_tags(version.model_id, {"ens.report": text})
    with pytest.raises(GateError, match="is damaged"):
        gate(version.uri, LOOSE, audit_log=tmp_path / "gate.jsonl")
    assert [line["event"] for line in lines((tmp_path / "gate.jsonl").read_text())] == ["error"]


@pytest.mark.parametrize("error", [IndexError("list index out of range"), ZeroDivisionError(), KeyError("a")])
def test_what_nobody_expects_is_audited_and_no_answer(
    error: Exception, embedded: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = register(embedded, name, REPORT)

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("ens_plugin.registry.gating.gather_evidence", fail)
    with pytest.raises(GateError, match=f"failed on unexpected content .{type(error).__name__}"):
        gate(version.uri, LOOSE, audit_log=tmp_path / "gate.jsonl")
    (line,) = lines((tmp_path / "gate.jsonl").read_text())
    assert (line["event"], line["error"]) == ("error", type(error).__name__)


def test_a_promotion_without_its_audit_line_says_that_it_happened(
    embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = register(embedded, name, REPORT)

    def full(line: str) -> None:
        if '"event": "promotion"' in line:
            raise InputError("the disk is full")

    monkeypatch.setattr("ens_plugin.registry.gating.audit_to_log", full)
    with pytest.raises(InputError, match=r"'champion' now points at version 1 .*the disk is full"):
        gate(version.uri, LOOSE, promote="champion")


class TestAnotherVersion:
    """A registered model that is deleted and made again gives its numbers to other versions."""

    def made_again(self, client: Client, name: str) -> None:
        client.delete_registered_model(name)
        assert register(client, name, report_with_error(9.0)).version == "1"

    @pytest.mark.parametrize("at", ["lease", "move_alias"])
    def test_it_gets_neither_verdict_nor_alias(
        self, at: str, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        version = register(embedded, name, REPORT)
        original = getattr(registry_gate, at)

        def meanwhile(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(registry_gate, at, original)
            self.made_again(embedded, name)
            return original(*arguments, **options)

        monkeypatch.setattr(registry_gate, at, meanwhile)
        with pytest.raises((GateError, TrackingError)):
            gate(version.uri, LOOSE, promote="champion")
        assert holder(embedded, name) is None
        assert "ens.gate" not in tags_of(embedded, version)

    def test_it_is_told_by_its_source_its_run_and_its_time(self, embedded: Client, name: str) -> None:
        version = find_version(embedded, VersionAddress(name, register(embedded, name, REPORT).version, None))
        assert is_unchanged(embedded, version)
        for change in ({"source": "models:/m-0"}, {"run_id": "0"}, {"created": 0}):
            assert not is_unchanged(embedded, replace(version, **change))


@pytest.mark.parametrize("after", [False, True])
def test_a_gate_killed_at_the_move_of_the_alias_leaves_its_intent_in_the_log(
    after: bool, embedded: Client, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, log = register(embedded, name, REPORT), tmp_path / "gate.jsonl"
    audit = audit_to_file(log)
    move = Client.set_registered_model_alias

    def killed(self: Client, *arguments: Any) -> None:
        if after:
            move(self, *arguments)
        # No exception: a process that is killed writes nothing more.
        monkeypatch.setattr("os.write", lambda descriptor, content: len(content))
        raise Killed

    monkeypatch.setattr(Client, "set_registered_model_alias", killed)
    request = gate_request(version.uri, LOOSE, baseline=None, rows=None, promote="champion", prefix="ens")
    with pytest.raises(Killed):
        run_gate(request, audit)
    decision, intent = lines(log.read_text())
    assert (decision["event"], decision["promoted"]) == ("decision", None)
    assert (intent["event"], intent["promoted"], intent["version"]) == ("intent", "champion", version.version)
    assert intent["promoted_from"] is None


def test_an_alias_that_is_there_already_is_not_announced(embedded: Client, name: str, tmp_path: Path) -> None:
    version = register(embedded, name, REPORT)
    for log in (tmp_path / "first.jsonl", tmp_path / "second.jsonl"):
        gate(version.uri, LOOSE, promote="champion", audit_log=log)
    events = [[line["event"] for line in lines(path.read_text())] for path in sorted(tmp_path.glob("*.jsonl"))]
    assert events == [["decision", "intent", "promotion"], ["decision", "promotion"]]
