"""The versions that were registered while no gate server listened."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest

from ens_plugin.cli import main
from ens_plugin.registry.server import missed_versions
from tests.extras import INSTALL
from tests.registry.registry import lines, register, report_with_error, stub_artifacts
from tests.tracking.stores import MLFLOW_WARNINGS, new_store, tracking_to

pytestmark = MLFLOW_WARNINGS


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[mlflow.MlflowClient]:
    """A registry of the test's own, because all of its versions count."""
    with tracking_to(new_store(tmp_path)):
        mlflow.create_experiment("tests")
        yield mlflow.MlflowClient()


def register_plain(client: mlflow.MlflowClient, name: str, count: int = 1) -> None:
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    for _ in range(count):
        client.create_model_version(name, "/nowhere")


def missed(client: mlflow.MlflowClient, on_alias: str | None = None) -> list[str]:
    return [str(version) for version in missed_versions(client, on_alias)]


def test_before_the_first_verdict_nothing_was_missed(registry: mlflow.MlflowClient) -> None:
    register_plain(registry, "churn", 2)
    assert missed(registry) == []


def test_versions_after_the_newest_verdict_were_missed_and_older_ones_are_left_alone(
    registry: mlflow.MlflowClient,
) -> None:
    register_plain(registry, "old")
    register_plain(registry, "churn", 3)
    registry.set_model_version_tag("churn", "2", "ens.gate", "fail")
    register_plain(registry, "new", 2)
    register_plain(registry, "churn")
    assert missed(registry) == ["models:/churn/3", "models:/new/1", "models:/new/2", "models:/churn/4"]


def test_the_version_with_the_alias_to_judge_at_was_missed_too(registry: mlflow.MlflowClient) -> None:
    register_plain(registry, "churn", 3)
    registry.set_model_version_tag("churn", "3", "ens.gate", "pass")
    registry.set_registered_model_alias("churn", "challenger", "1")
    registry.set_registered_model_alias("churn", "champion", "3")
    assert missed(registry) == []
    assert missed(registry, "challenger") == ["models:/churn/1"]
    assert missed(registry, "champion") == []


def test_all_pages_of_a_registry_are_read(registry: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.registry.server.PAGE", 2)
    register_plain(registry, "churn", 6)
    registry.set_model_version_tag("churn", "1", "ens.gate", "fail")
    assert missed(registry) == [f"models:/churn/{number}" for number in range(2, 7)]


def test_a_server_judges_them_at_its_start_and_prints_each_verdict(
    registry: mlflow.MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in ("uvicorn", "starlette"):
        pytest.importorskip(library, reason=f"needs {library}: {INSTALL[library]}")
    stub_artifacts(monkeypatch)
    first, good, bad, unknown = (
        register(registry, "churn", report)
        for report in (report_with_error(1.0), report_with_error(1.0), report_with_error(9.0), None)
    )
    registry.set_model_version_tag("churn", first.version, "ens.gate", "pass")
    (tmp_path / "policy.toml").write_text("[report]\nerror_upper.max = 0.1\n")
    monkeypatch.setenv("ENS_PLUGIN_WEBHOOK_SECRET", "a-secret-of-the-webhook")
    monkeypatch.setattr("uvicorn.run", run_lifespan)
    with pytest.raises(SystemExit) as end:
        main(["gate-server", "--policy", str(tmp_path / "policy.toml"), "--promote", "champion",
          "--audit-log", str(tmp_path / "gate.jsonl"), "--tracking-uri", mlflow.get_tracking_uri()])  # fmt: skip
    assert end.value.code == 0
    printed = capsys.readouterr()
    verdicts = [line.partition(" the policy")[0] for line in printed.out.splitlines() if " the policy" in line]
    assert verdicts == [
        f"PASS: version {good.version} of churn meets",
        f"FAIL: version {bad.version} of churn does not meet",
    ]
    assert "3 versions were registered while no gate server listened" in printed.err
    assert f"No verdict on models:/churn/{unknown.version}" in printed.err
    assert str(registry.get_model_version_by_alias("churn", "champion").version) == good.version
    judged = [line["version"] for line in lines((tmp_path / "gate.jsonl").read_text()) if line["event"] == "decision"]
    assert judged == [good.version, bad.version]


def run_lifespan(app: Any, **options: object) -> None:
    """Start and stop an application as uvicorn does, without listening."""

    async def run() -> None:
        async with app.router.lifespan_context(app):
            pass

    asyncio.run(run())


def test_versions_of_one_millisecond_are_in_the_order_of_their_numbers() -> None:
    class Client:
        def search_model_versions(self, **_: object) -> object:
            class Page(list):  # type: ignore[type-arg]
                token = None

            return Page(
                SimpleNamespace(name="churn", version=number, creation_timestamp=5, tags=tags, aliases=[])
                for number, tags in ((10, {}), (9, {}), (2, {"ens.gate": "pass"}))
            )

    assert [version.version for version in missed_versions(Client(), None)] == ["9", "10"]  # type: ignore[arg-type]
