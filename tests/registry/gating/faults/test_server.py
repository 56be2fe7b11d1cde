"""The gate over HTTP, against a real server that dies, stalls, refuses, or serves two gates at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import mlflow
import pytest

from ens_plugin import GateDecision, gate
from ens_plugin.cli import main
from ens_plugin.errors import EnsPluginError, GateError, TrackingError
from tests.registry.registry import Version, register, report_with_error, stub_artifacts, tags_of, verdict_of
from tests.tracking.faulty_proxy import Fault, FaultyProxy, Request, faulty_proxy
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.server, pytest.mark.xdist_group("mlflow_server")]

REPORT = report_with_error(1.0)
LOOSE = {"report": {"error_upper": {"max": 0.9}}}
STRICT = {"report": {"error_upper": {"max": 0.001}}}

Client = mlflow.MlflowClient


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@pytest.fixture
def name() -> str:
    return f"churn-{uuid4().hex[:8]}"


@pytest.fixture
def proxy(server_uri: str) -> Iterator[FaultyProxy]:
    with faulty_proxy(server_uri) as proxy:
        yield proxy


def holder(client: Client, name: str) -> str | None:
    held = client.get_registered_model(name).aliases.get("champion")
    return None if held is None else str(held)


def through(proxy: FaultyProxy, version: Version, rule: Callable[[Request], Fault | None]) -> GateDecision:
    proxy.reset(rule)
    with tracking_to(proxy.uri):
        return gate(version.uri, LOOSE, promote="champion")


def fine(request: Request) -> None:
    return None


def dies_at(number: int) -> Callable[[Request], Fault | None]:
    return lambda request: "drop" if request.number >= number else None


def test_over_http_a_gate_answers_promotes_and_can_be_repeated(served: Client, proxy: FaultyProxy, name: str) -> None:
    version = register(served, name, REPORT)
    for _ in range(2):
        assert through(proxy, version, fine).passed
        assert holder(served, name) == version.version
    assert not gate(version.uri, STRICT).passed
    assert verdict_of(tags_of(served, version)) == "fail"


def moves_alias(request: Request) -> bool:
    return request.writes and request.path.endswith("/registered-models/alias")


def forget_leases(client: Client, name: str) -> None:
    """As if the time of a lease had passed."""
    for key in client.get_registered_model(name).tags:
        client.delete_registered_model_tag(name, key)


def test_the_alias_is_the_last_thing_that_is_written_but_for_the_lease(
    served: Client, proxy: FaultyProxy, name: str
) -> None:
    through(proxy, register(served, name, REPORT), fine)
    written = [request.path.rpartition("/2.0/mlflow/")[2] for request in proxy.requests if request.writes]
    assert written == [
        "registered-models/set-tag", *["model-versions/set-tag"] * 3,
        "registered-models/alias", "registered-models/delete-tag",
    ]  # fmt: skip
    assert served.get_registered_model(name).tags == {}


@pytest.mark.slow
def test_a_server_that_dies_at_any_request_promotes_nothing(served: Client, proxy: FaultyProxy, name: str) -> None:
    version = register(served, name, REPORT)
    for _ in range(2):  # the first one also finds out what kind of server this is
        through(proxy, version, fine)
        served.delete_registered_model_alias(name, "champion")
    (moving,) = (request.number for request in proxy.requests if moves_alias(request))
    for number in range(moving + 1):
        with pytest.raises(TrackingError):
            through(proxy, version, dies_at(number))
        assert holder(served, name) is None, number
        forget_leases(served, name)
    assert through(proxy, version, fine).passed


def test_a_server_that_dies_after_it_said_that_the_alias_moved_is_believed(
    served: Client, proxy: FaultyProxy, name: str
) -> None:
    version = register(served, name, REPORT)
    moved = []

    def rule(request: Request) -> Fault | None:
        moved.extend([request] if moves_alias(request) else [])
        return "drop" if moved and not moves_alias(request) else None

    assert through(proxy, version, rule).promoted == "champion"
    assert holder(served, name) == version.version


def test_an_answer_that_is_lost_after_the_alias_moved_is_read_back(
    served: Client, proxy: FaultyProxy, name: str
) -> None:
    version = register(served, name, REPORT)
    decision = through(proxy, version, lambda request: "lost" if moves_alias(request) else None)
    assert decision.promoted == "champion"
    assert holder(served, name) == version.version


def test_what_is_not_known_is_said_where_nothing_can_be_read_back(
    served: Client, proxy: FaultyProxy, name: str
) -> None:
    version = register(served, name, REPORT)
    moved = []

    def rule(request: Request) -> Fault | None:
        moved.extend([request] if moves_alias(request) else [])
        return ("lost" if moves_alias(request) else "drop") if moved else None

    with pytest.raises(TrackingError, match=r"Whether the alias 'champion' points at version 1 .* is not known"):
        through(proxy, version, rule)


def test_an_alias_that_was_not_moved_is_said_to_be_where_it_was(served: Client, proxy: FaultyProxy, name: str) -> None:
    first, second = (register(served, name, REPORT) for _ in range(2))
    served.set_registered_model_alias(name, "champion", first.version)
    with pytest.raises(TrackingError, match=r"was not moved to version 2\. It points at 1"):
        through(proxy, second, lambda request: "drop" if moves_alias(request) else None)
    assert holder(served, name) == first.version


def test_an_answer_that_is_lost_after_the_verdict_was_written_is_read_back(
    served: Client, proxy: FaultyProxy, name: str
) -> None:
    version = register(served, name, REPORT)
    decision = through(
        proxy, version, lambda request: "lost" if sum("versions/set-tag" in r.path for r in proxy.requests) == 7
        and "versions/set-tag" in request.path else None
    )  # fmt: skip
    assert decision.passed
    assert verdict_of(tags_of(served, version)) == "pass"


REFUSALS: dict[str, tuple[Callable[[Request], bool], Fault]] = {
    "500 for everything": (lambda request: True, 500),
    "500 for artifacts": (lambda request: "artifact" in request.path, 500),
    "403 for the registry": (lambda request: "registered-models" in request.path or "versions" in request.path, 403),
    "403 for writing tags": (lambda request: request.path.endswith("model-versions/set-tag"), 403),
    "403 for the alias": (lambda request: request.writes and request.path.endswith("registered-models/alias"), 403),
    "death before a tag": (lambda request: request.path.endswith("model-versions/set-tag"), "drop"),
    "death before the alias": (lambda request: request.writes and request.path.endswith("alias"), "drop"),
    "no answer to the alias": (lambda request: request.writes and request.path.endswith("alias"), "hang"),
    "a login page": (lambda request: True, "html"),
    "a login page for the report": (lambda request: "artifacts" in request.path, "html"),
}


# Of these, another fault of the same request or the same fault of another request is with the fast tests.
ALIKE = (
    "500 for artifacts", "403 for the registry", "403 for writing tags", "death before a tag",
    "a login page for the report",
)  # fmt: skip


@pytest.mark.parametrize(
    "refusal", [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in REFUSALS]
)
def test_a_server_that_refuses_or_stalls_promotes_nothing(
    refusal: str, served: Client, proxy: FaultyProxy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    concerns, fault = REFUSALS[refusal]
    version = register(served, name, REPORT)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "2" if fault == "hang" else "30")
    with pytest.raises(EnsPluginError):
        through(proxy, version, lambda request: fault if concerns(request) else None)
    assert any(concerns(request) for request in proxy.requests)
    assert holder(served, name) is None
    assert through(proxy, version, fine).passed


def test_no_permission_says_so(served: Client, proxy: FaultyProxy, name: str) -> None:
    version = register(served, name, REPORT)
    with pytest.raises(TrackingError, match=r"Permission denied.*your permissions"):
        through(proxy, version, lambda request: 403 if "set-tag" in request.path else None)
    assert tags_of(served, version) == {}


@pytest.mark.slow
def test_a_run_deleted_meanwhile_is_noticed(served: Client, proxy: FaultyProxy, name: str) -> None:
    version = register(served, name, REPORT)

    def delete_before_the_report_is_read(request: Request) -> None:
        if "artifacts?path" in request.path and served.get_run(version.run_id).info.lifecycle_stage == "active":
            served.delete_run(version.run_id)

    with pytest.raises(GateError, match=r"is deleted\. Restore it"):
        through(proxy, version, delete_before_the_report_is_read)
    assert tags_of(served, version) == {}
    assert holder(served, name) is None
    served.restore_run(version.run_id)
    assert through(proxy, version, fine).passed


@pytest.mark.parametrize(("fault", "number"), [("drop", 4), (500, 0), ("html", 0)])
def test_the_command_exits_with_2(
    fault: Fault,
    number: int,
    served: Client,
    proxy: FaultyProxy,
    name: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    version = register(served, name, REPORT)
    (tmp_path / "policy.toml").write_text("[report]\nerror_upper.max = 0.9\n")
    arguments = ["gate", version.uri, "--policy", str(tmp_path / "policy.toml"), "--promote", "champion",
                 "--tracking-uri", proxy.uri, "--audit-log", str(tmp_path / "gate.jsonl")]  # fmt: skip
    capfd.readouterr()
    proxy.reset(lambda request: fault if request.number >= number else None)
    with tracking_to(None), pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert len((tmp_path / "gate.jsonl").read_text().splitlines()) == 1
    assert holder(served, name) is None


def test_two_gates_at_once_never_promote_what_has_not_passed(served: Client, name: str) -> None:
    good, bad, better = (register(served, name, report_with_error(scale)) for scale in (1.0, 9.0, 0.5))
    policy = {"report": {"error_upper": {"max": 2 * REPORT.error_interval[1]}}}
    done = threading.Event()

    def watch() -> set[tuple[str, str | None]]:
        seen = set()
        while not done.is_set():
            held = holder(served, name)
            if held is not None:
                seen.add((held, verdict_of(served.get_model_version(name, held).tags)))
        return seen

    with ThreadPoolExecutor(4) as pool:
        watching = pool.submit(watch)
        versions = [good, bad, better] * 2
        try:
            answers = list(
                pool.map(lambda version: gate(version.uri, policy, promote="champion", allow_older=True), versions)
            )
        finally:
            done.set()
    seen = watching.result()
    assert [answer.passed for answer in answers] == [version is not bad for version in versions]
    assert {held for held, _ in seen} <= {good.version, better.version}
    assert {verdict for _, verdict in seen} == {"pass"}
    assert holder(served, name) in (good.version, better.version)
