from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd
import pytest
from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError, TrackingError
from ens_plugin.findings import codes_of
from ens_plugin.report.answers import headline
from ens_plugin.tracking.log import curve_values, log_report, scalar_values
from tests.reports import all_reports, capped_report, classification_report, regression_report, with_doubts
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, linked_metrics, tracking_to

pytestmark = MLFLOW_WARNINGS

REPORT = replace(classification_report(), created="2026-01-02T03:04:05+00:00")
CREATED_MS = int(datetime.fromisoformat(REPORT.created).timestamp() * 1000)
FILES = ["curve.csv", "report.html", "report.json"]


FOREST = RandomForestClassifier(10, random_state=0).fit(*load_iris(return_X_y=True))
OF_FOREST = replace(REPORT, proof=ens_plugin.analyze(FOREST, *load_iris(return_X_y=True)).proof)


def logged_forest() -> str:
    """The id of a stored model that `OF_FOREST` is about."""
    logged = mlflow.sklearn.log_model(
        FOREST, name="forest", serialization_format="cloudpickle", pip_requirements=[]
    )  # fmt: skip
    return str(logged.model_id)


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the artifacts, whose rendering takes seconds and has tests of its own."""

    def write(report: EnsembleReport, directory: Path) -> None:
        for name in FILES:
            (directory / name).write_text(name)

    monkeypatch.setattr("ens_plugin.tracking.log.render_artifacts", write)


def runs(client: mlflow.MlflowClient) -> list[Run]:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def history(client: mlflow.MlflowClient, run_id: str) -> dict[str, list[tuple[int, float, int]]]:
    keys = client.get_run(run_id).data.metrics
    return {
        key: sorted((point.step, point.value, point.timestamp) for point in client.get_metric_history(run_id, key))
        for key in keys
    }


def files(client: mlflow.MlflowClient, run_id: str, path: str = "ensemble") -> list[str]:
    return sorted(Path(item.path).name for item in client.list_artifacts(run_id, path) if not item.is_dir)


@pytest.mark.usefixtures("swift", "experiment")
def test_a_new_run_has_scalars_curve_artifacts_and_description(embedded: mlflow.MlflowClient) -> None:
    run_id = log_report(REPORT)
    run = embedded.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert mlflow.active_run() is None
    logged = history(embedded, run_id)
    scalars = {name: {-1: value} for name, value in scalar_values(REPORT, "ens").items()}
    assert logged == {
        name: [(step, value, CREATED_MS) for step, value in values.items()]
        for name, values in {**scalars, **curve_values(REPORT, "ens")}.items()
    }
    assert files(embedded, run_id) == FILES
    assert "ens_plugin:ens begin" in run.data.tags["mlflow.note.content"]


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_scalars_can_be_filtered_without_backticks(embedded: mlflow.MlflowClient) -> None:
    run_id = log_report(REPORT)
    experiment = embedded.get_run(run_id).info.experiment_id
    assert embedded.search_runs([experiment], f"metrics.ens.accuracy < {REPORT.accuracy + 1e-9}")
    assert not embedded.search_runs([experiment], "metrics.ens.accuracy > 2e9")


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_the_active_run_is_used_and_stays_open(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run() as run:
        assert log_report(REPORT) == run.info.run_id
        assert mlflow.active_run() is not None
        assert embedded.get_run(run.info.run_id).info.status == "RUNNING"


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_a_named_run_is_used_rather_than_the_active_one_and_stays_ended(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run() as ended:
        pass
    before = embedded.get_run(ended.info.run_id).info
    with mlflow.start_run() as active:
        assert log_report(REPORT, run_id=ended.info.run_id) == ended.info.run_id
    after = embedded.get_run(ended.info.run_id).info
    assert (after.status, after.end_time) == (before.status, before.end_time)
    assert embedded.get_run(active.info.run_id).data.metrics == {}


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_the_run_that_the_environment_names_is_used_and_stays_open(
    embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mlflow.start_run() as run:
        pass
    embedded.update_run(run.info.run_id, status="RUNNING")
    monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
    assert log_report(REPORT) == run.info.run_id
    assert embedded.get_run(run.info.run_id).info.status == "RUNNING"


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_logging_again_changes_nothing(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run() as run:
        model_id = logged_forest()
        states = []
        for _ in range(2):
            log_report(OF_FOREST, model_id=model_id)
            state = embedded.get_run(run.info.run_id).data
            linked = linked_metrics(embedded, model_id)
            states.append((history(embedded, run.info.run_id), state.tags, files(embedded, run.info.run_id), linked))
    assert states[0] == states[1]


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_a_report_without_a_time_is_logged_at_the_runs_start(embedded: mlflow.MlflowClient) -> None:
    run_id = log_report(replace(REPORT, created=""))
    first = history(embedded, run_id)
    assert {timestamp for points in first.values() for _, _, timestamp in points} == {
        embedded.get_run(run_id).info.start_time
    }
    log_report(replace(REPORT, created=""), run_id=run_id)
    assert history(embedded, run_id) == first


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_only_scalars_are_linked_to_the_model(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run():
        model_id = logged_forest()
        log_report(OF_FOREST, model_id=model_id)
    expected = {name: [value] for name, value in scalar_values(REPORT, "ens").items()}
    assert linked_metrics(embedded, model_id) == expected


def test_artifacts_come_back_complete(embedded: mlflow.MlflowClient, tmp_path: Path) -> None:
    with mlflow.start_run(experiment_id=embedded.create_experiment("artifacts")):
        run_id = log_report(REPORT)
    folder = Path(embedded.download_artifacts(run_id, "ensemble", str(tmp_path)))
    assert len(pd.read_csv(folder / "curve.csv")) == len(REPORT.error_curve.sizes)
    assert json.loads((folder / "report.json").read_text())["n_members"] == REPORT.n_members
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("swift", "experiment")
def test_two_reports_in_one_run_need_two_prefixes(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run(experiment_id=embedded.create_experiment("two prefixes")) as run:
        log_report(REPORT)
        log_report(regression_report(), prefix="second")
    data = embedded.get_run(run.info.run_id).data
    assert data.metrics["ens.accuracy"] == REPORT.accuracy
    assert data.metrics["second.rmse"] == regression_report().rmse
    assert files(embedded, run.info.run_id) == FILES
    assert files(embedded, run.info.run_id, "ensemble/second") == FILES
    assert data.tags["mlflow.note.content"].count("begin -->") == 2


@pytest.mark.usefixtures("swift")
def test_a_persons_description_is_kept(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run(description="My note") as run:
        log_report(REPORT)
    assert embedded.get_run(run.info.run_id).data.tags["mlflow.note.content"] == "My note"


@pytest.mark.fast_cases("classification", "regression", "hostile", "score")
@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("name", all_reports())
def test_every_kind_of_report_can_be_logged(name: str, embedded: mlflow.MlflowClient) -> None:
    report = replace(all_reports()[name], created="")
    metrics = embedded.get_run(log_report(report)).data.metrics
    assert report.metrics().items() <= {key.removeprefix("ens."): value for key, value in metrics.items()}.items()


@pytest.mark.slow
def test_nothing_is_sent_when_rendering_fails(embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(report: object, directory: object) -> object:
        raise RuntimeError("no picture")

    monkeypatch.setattr("ens_plugin.tracking.log.render_artifacts", broken)
    before = len(runs(embedded))
    with pytest.raises(RuntimeError, match="no picture"):
        log_report(REPORT)
    with mlflow.start_run() as run, pytest.raises(RuntimeError):
        log_report(REPORT)
    assert len(runs(embedded)) == before + 1
    assert embedded.get_run(run.info.run_id).data.metrics == {}
    assert embedded.list_artifacts(run.info.run_id) == []


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("method", ["log_batch", "log_artifacts", "set_tag"])
def test_a_run_of_ours_fails_when_logging_fails(
    method: str, embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, method, _refusing)
        with pytest.raises(TrackingError, match="refused the call: disk is full"):
            log_report(REPORT)
    assert mlflow.active_run() is None
    assert runs(embedded)[0].info.status == "FAILED"


def _refusing(*_: object, **__: object) -> None:
    raise MlflowException("disk is full")


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize(
    "wrong", [{"run_id": "0" * 32}, {"model_id": "m-" + "0" * 32}], ids=["unknown run", "unknown model"]
)
def test_unknown_targets_are_refused_before_anything_is_created(
    wrong: dict[str, str], embedded: mlflow.MlflowClient
) -> None:
    before = len(runs(embedded))
    with pytest.raises(TrackingError, match="not found"):
        log_report(REPORT, **wrong)
    assert len(runs(embedded)) == before


@pytest.mark.usefixtures("swift")
def test_a_deleted_run_is_refused_with_nothing_sent(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run() as run:
        pass
    embedded.delete_run(run.info.run_id)
    with pytest.raises(TrackingError, match="is deleted"):
        log_report(REPORT, run_id=run.info.run_id)
    assert embedded.get_run(run.info.run_id).data.metrics == {}
    assert embedded.list_artifacts(run.info.run_id) == []


@pytest.mark.parametrize("report", ["x", None, RandomForestClassifier(), REPORT.to_json()])
def test_what_is_no_report_is_refused(report: Any) -> None:
    with pytest.raises(InputError, match=r"Pass the report that ens_plugin\.analyze returns"):
        log_report(report)


@pytest.mark.usefixtures("embedded", "swift")
@pytest.mark.parametrize("prefix", [1, None, "", "a/b", "../up", ".", "a b", "a:b", "a\n", "-->"])
def test_a_prefix_that_cannot_be_a_name_is_refused(prefix: Any) -> None:
    with pytest.raises(InputError, match="prefix="):
        log_report(REPORT, prefix=prefix)


@pytest.mark.usefixtures("embedded", "swift")
def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="ISO 8601"):
        log_report(replace(REPORT, created="yesterday"))


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("created", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T04:04:05+01:00"])
def test_times_are_utc(created: str, embedded: mlflow.MlflowClient) -> None:
    run_id = log_report(replace(REPORT, created=created))
    assert embedded.get_metric_history(run_id, "ens.accuracy")[0].timestamp == CREATED_MS


@pytest.mark.usefixtures("embedded", "swift")
def test_a_dead_server_is_a_tracking_error() -> None:
    mlflow.set_tracking_uri(DOWN)
    with pytest.raises(TrackingError, match="cannot be reached"):
        log_report(REPORT)


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_without_configuration_mlflow_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with tracking_to(None):
        if not mlflow.get_tracking_uri().startswith("sqlite"):
            pytest.skip("this MLflow's default is the file store")
        mlflow.set_experiment("Default")  # MLflow remembers the experiment of another store
        log_report(REPORT)
    assert (tmp_path / "mlflow.db").is_file()


def test_the_tags_of_a_run_have_verdict_size_and_codes(embedded: mlflow.MlflowClient, swift: None) -> None:
    doubted = with_doubts(REPORT, "The votes of few rows decide.")
    for report, size in ((REPORT, str(REPORT.recommended_size)), (capped_report(), "more than 20001")):
        tags = embedded.get_run(log_report(replace(report, created=REPORT.created))).data.tags
        assert tags["ens.verdict"] == headline(report)
        assert tags["ens.size"] == size
    tags = embedded.get_run(log_report(doubted)).data.tags
    assert tags["ens.verdict"] == "Do not use these figures."
    assert tags["ens.findings"] == ", ".join(codes_of(doubted.findings))
