"""The gate over HTTP, against a real server that dies, stalls, refuses, or serves two gates at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ens_plugin import GateDecision, gate
from ens_plugin.errors import EnsPluginError, TrackingError
from tests.registry.gating.gates import REPORT, Client, holder
from tests.registry.registry import Version, register, stub_artifacts, tags_of, verdict_of
from tests.tracking.faulty_proxy import Fault, FaultyProxy, Request, faulty_proxy
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.slow, pytest.mark.server, pytest.mark.xdist_group("mlflow_server")]

LOOSE = {"report": {"error_upper": {"max": 0.9}}}
STRICT = {"report": {"error_upper": {"max": 0.001}}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@pytest.fixture
def proxy(server_uri: str) -> Iterator[FaultyProxy]:
    with faulty_proxy(server_uri) as proxy:
        yield proxy


def through(proxy: FaultyProxy, version: Version, rule: Callable[[Request], Fault | None]) -> GateDecision:
    proxy.reset(rule)
    with tracking_to(proxy.uri):
        return gate(version.uri, LOOSE, promote="champion")


def fine(request: Request) -> None:
    return None


def test_over_http_a_gate_answers_promotes_and_can_be_repeated(served: Client, proxy: FaultyProxy, name: str) -> None:
    version = register(served, name, REPORT)
    for _ in range(2):
        assert through(proxy, version, fine).passed
        assert holder(served, name) == version.version
    assert not gate(version.uri, STRICT).passed
    assert verdict_of(tags_of(served, version)) == "fail"


def moves_alias(request: Request) -> bool:
    return request.writes and request.path.endswith("/registered-models/alias")


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
    "403 for the alias": (lambda request: request.writes and request.path.endswith("registered-models/alias"), 403),
    "death before a tag": (lambda request: request.path.endswith("model-versions/set-tag"), "drop"),
    "death before the alias": (lambda request: request.writes and request.path.endswith("alias"), "drop"),
    "no answer to the alias": (lambda request: request.writes and request.path.endswith("alias"), "hang"),
    "a login page": (lambda request: True, "html"),
    "a login page for the report": (lambda request: "artifacts" in request.path, "html"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
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
