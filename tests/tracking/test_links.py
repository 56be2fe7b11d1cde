"""Links of reports to stored models: who may make one, and what the sum of the files is of."""

from __future__ import annotations

import logging
from pathlib import Path
from uuid import uuid4

import mlflow
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import analyze, autolog, gate
from ens_plugin.errors import GateError, InputError, ModelLoadError, TrackingError
from ens_plugin.tracking.links import files_digest, find_stored
from ens_plugin.tracking.log import log_report
from ens_plugin.tracking.uploads import wait_until_sent
from tests.registry.registry import stub_artifacts
from tests.tracking.autologged_fits import messages
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS

X, Y = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(20, random_state=0).fit(X, Y)
REPORT = analyze(FOREST, X, Y)
POLICY = {"report": {"error_upper": {"max": 0.5}}}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)


@pytest.fixture
def name() -> str:
    return f"m-{uuid4().hex[:8]}"


def stored(name: str, forest: RandomForestClassifier = FOREST) -> str:
    logged = mlflow.sklearn.log_model(
        forest, name="forest", registered_model_name=name, serialization_format="cloudpickle", pip_requirements=[]
    )  # fmt: skip
    return str(logged.model_id)


def n_runs(client: mlflow.MlflowClient) -> int:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    return len(client.search_runs([experiment.experiment_id]))


def test_nothing_is_logged_of_another_model(embedded: mlflow.MlflowClient, name: str) -> None:
    model_id, before = stored(name, RandomForestClassifier(20, random_state=1).fit(X, Y)), n_runs(embedded)
    with pytest.raises(InputError, match="is not the model that this report is about: it predicts something else"):
        log_report(REPORT, model_id=model_id)
    assert n_runs(embedded) == before
    assert find_stored(embedded, model_id).links() == []


@pytest.mark.parametrize("target", ["forest", "models:/a/b/c", "runs:/1/model", 7])
def test_what_is_no_stored_model_is_refused(target: object, embedded: mlflow.MlflowClient) -> None:
    with pytest.raises(InputError, match="is no model that a report can be linked to"):
        log_report(REPORT, model_id=target)  # type: ignore[arg-type]


def test_without_an_id_the_models_of_the_run_are_tried(embedded: mlflow.MlflowClient, name: str) -> None:
    with mlflow.start_run():
        stored(name, RandomForestClassifier(20, random_state=1).fit(X, Y))
        stored(name)
        log_report(REPORT)
    assert gate(f"models:/{name}/2", POLICY).passed
    with pytest.raises(GateError, match="its files are not those that a report was linked to"):
        gate(f"models:/{name}/1", POLICY)


def test_where_mlflow_forbids_pickles_no_model_is_loaded(
    embedded: mlflow.MlflowClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_id = stored(name)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with pytest.raises(ModelLoadError):
        log_report(REPORT, model_id=model_id)
    assert find_stored(embedded, model_id).links() == []


@pytest.mark.usefixtures("autologging")
def test_autologging_tells_which_model_it_did_not_link(
    embedded: mlflow.MlflowClient, name: str, log: pytest.LogCaptureFixture
) -> None:
    autolog(max_overhead=1e3)
    with mlflow.start_run():
        forest = RandomForestClassifier(20, random_state=0).fit(X, Y)
        forest.estimators_ = forest.estimators_[:10]
        model_id = stored(name, forest)
    assert wait_until_sent(60.0)
    (told,) = messages(log, logging.WARNING)
    assert f"was not linked to the model {model_id}, which the gate gives no verdict on" in told
    assert "it has 10 members and not 20" in told


def test_the_sum_is_of_all_files_and_their_places(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="has no files"):
        files_digest(tmp_path)
    (tmp_path / "a").write_bytes(b"model")
    sums = [files_digest(tmp_path)]
    (tmp_path / "registered_model_meta").write_text("model_name: churn")
    assert files_digest(tmp_path) == sums[0]
    (tmp_path / "b").write_bytes(b"")
    sums.append(files_digest(tmp_path))
    (tmp_path / "b").rename(tmp_path / "c")
    sums.append(files_digest(tmp_path))
    (tmp_path / "a").write_bytes(b"Model")
    sums.append(files_digest(tmp_path))
    assert len(set(sums)) == 4
    assert all(each.startswith("sha256:") for each in sums)


def test_a_report_of_arrays_is_linked_to_no_model(embedded: mlflow.MlflowClient, name: str) -> None:
    outputs = [tree.predict(X).astype(int) for tree in FOREST.estimators_]
    custom = ens_plugin.CustomEnsemble(outputs, ens_plugin.in_bag(FOREST, X, Y), aggregation="vote", classes=[0, 1, 2])
    with pytest.raises(InputError, match="because the report is of arrays of outputs"):
        log_report(analyze(custom, None, Y), model_id=stored(name))
