"""Registered versions with reports, without a model behind them: quick to make."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import mlflow
import pytest
from mlflow.exceptions import MlflowException

from ens_plugin import EnsembleReport
from ens_plugin.core.judged_rows import write_judged_rows
from ens_plugin.tracking import links, log
from tests.reports import classification_report

__all__ = [
    "Version",
    "experiment_id",
    "is_registered",
    "lines",
    "log_files",
    "log_linked",
    "register",
    "report_with_error",
    "stub_artifacts",
    "tags_of",
    "verdict_of",
]


@dataclass(frozen=True)
class Version:
    """What was registered, under which names."""

    name: str
    version: str
    run_id: str
    model_id: str

    @property
    def uri(self) -> str:
        return f"models:/{self.name}/{self.version}"


def stub_artifacts(monkeypatch: pytest.MonkeyPatch, user: str = "log") -> None:
    """Leave out pictures and curves, which take time and have tests of their own, where a module renders them."""

    def write(report: EnsembleReport, directory: Path) -> None:
        (directory / "report.json").write_text(report.to_json(), encoding="utf-8")
        (directory / "report.html").write_text("<p>report</p>")
        if report.judged_rows is not None:
            write_judged_rows(report.judged_rows, directory / "judged_rows.npz")

    monkeypatch.setattr(f"ens_plugin.tracking.{user}.render_artifacts", write)
    monkeypatch.setattr("ens_plugin.tracking.log.curve_values", lambda report, prefix: {})


def report_with_error(scale: float, created: str = "2026-01-02T03:04:05+00:00") -> EnsembleReport:
    """Breast cancer, all errors times `scale`."""
    report = classification_report()
    curve = report.error_curve
    low, high = curve.asymptote_interval
    scaled = replace(
        curve, error=curve.error * scale, lower=curve.lower * scale, upper=curve.upper * scale,
        asymptote=curve.asymptote * scale, asymptote_raw=curve.asymptote_raw * scale,
        asymptote_interval=(low * scale, high * scale),
    )  # fmt: skip
    return replace(report, error_curve=scaled, created=created)


def experiment_id(client: mlflow.MlflowClient) -> str:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    return str(experiment.experiment_id)


def register(
    client: mlflow.MlflowClient,
    name: str,
    report: EnsembleReport | None,
    *,
    metrics: Mapping[str, float] | None = None,
    linked: bool = True,
) -> Version:
    """Register a version of `name` whose run and LoggedModel have `report` and `metrics`."""
    experiment = experiment_id(client)
    run_id = client.create_run(experiment).info.run_id
    model = client.create_logged_model(experiment, name="forest", source_run_id=run_id)
    client.finalize_logged_model(model.model_id, "READY")
    log_files(client, model.model_id)
    client.log_outputs(run_id, [mlflow.entities.LoggedModelOutput(model.model_id, 0)])
    if report is not None:
        log_linked(client, report, run_id, model.model_id if linked else None)
    for key, value in (metrics or {}).items():
        client.log_metric(run_id, key, value)
    if not is_registered(client, name):
        client.create_registered_model(name)
    found = client.create_model_version(name, f"models:/{model.model_id}", run_id, model_id=model.model_id)
    client.update_run(run_id, "FINISHED")
    return Version(name, str(found.version), run_id, model.model_id)


def log_files(client: mlflow.MlflowClient, model_id: str) -> None:
    """Give a LoggedModel a file of its own, which no flavour could load."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "MLmodel").write_text(f"model_id: {model_id}\n")
        client.log_model_artifacts(model_id, folder)


def log_linked(
    client: mlflow.MlflowClient, report: EnsembleReport, run_id: str, model_id: str | None, prefix: str = "ens"
) -> None:
    """Log a report and link it to a LoggedModel, without the proof that it is about this model."""
    with TemporaryDirectory() as folder:
        log.render_artifacts(report, Path(folder))
        content = log.run_content(report, Path(folder), prefix)
        logged = log.send(client, run_id, content)
    if model_id is not None:
        stored = links.find_stored(client, model_id)
        with links.local_files(client, stored.place) as files:
            log.link_report(client, stored, content, logged, links.files_digest(files))


def is_registered(client: mlflow.MlflowClient, name: str) -> bool:
    """Return whether a model of this name is registered; a search returns pages and fails on quotes in names."""
    try:
        client.get_registered_model(name)
    except MlflowException:
        return False
    return True


def tags_of(client: mlflow.MlflowClient, version: Version) -> dict[str, str]:
    return dict(client.get_model_version(version.name, version.version).tags)


def verdict_of(tags: Mapping[str, str]) -> str | None:
    """The verdict in the tags of a version, without what it is of."""
    return tags["ens.gate"].partition(",")[0] if "ens.gate" in tags else None


def lines(text: str) -> list[dict[str, object]]:
    """Audit lines as objects."""
    return [json.loads(line) for line in text.splitlines()]
