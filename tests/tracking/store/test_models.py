from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import joblib
import mlflow
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ens_plugin.errors import ModelLoadError, TrackingError
from ens_plugin.tracking.models import is_uri, load_model, logged_model_id
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS

ROWS, LABELS = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(10, random_state=0).fit(ROWS, LABELS)

WRITERS: dict[str, Callable[[Path], object]] = {
    "forest.joblib": lambda path: joblib.dump(FOREST, path),
    "forest.joblib.gz": lambda path: joblib.dump(FOREST, path, compress=3),
    "forest.pkl": lambda path: path.write_bytes(pickle.dumps(FOREST)),
    "cloud.pkl": lambda path: path.write_bytes(cloudpickle.dumps(FOREST)),
    "forest.skops": lambda path: dump_skops(FOREST, path),
    "no_suffix": lambda path: joblib.dump(FOREST, path),
}


def dump_skops(model: object, path: Path) -> None:
    # Only newer MLflow brings skops with it.
    pytest.importorskip("skops.io").dump(model, path)


def same_forest(model: Any) -> bool:
    return bool(np.array_equal(model.predict_proba(ROWS), FOREST.predict_proba(ROWS)))


@pytest.fixture
def logged(embedded: mlflow.MlflowClient) -> Any:
    with mlflow.start_run() as run:
        info = mlflow.sklearn.log_model(
            FOREST, name="forest", serialization_format="cloudpickle", pip_requirements=["scikit-learn"]
        )
    return run.info.run_id, info.model_id


@pytest.mark.parametrize("name", WRITERS)
def test_a_model_file_is_known_by_its_content(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name)
    assert same_forest(load_model(tmp_path / name))
    assert same_forest(load_model(str(tmp_path / name)))


def test_wrappers_come_back_whole(tmp_path: Path) -> None:
    joblib.dump(make_pipeline(StandardScaler(), FOREST), tmp_path / "pipeline")
    assert type(load_model(tmp_path / "pipeline")).__name__ == "Pipeline"


def test_an_mlflow_directory_and_both_kinds_of_uri(logged: tuple[str, str], tmp_path: Path) -> None:
    run_id, model_id = logged
    mlflow.sklearn.save_model(FOREST, tmp_path / "saved", serialization_format="cloudpickle", pip_requirements=[])
    for source in (str(tmp_path / "saved"), f"runs:/{run_id}/forest", f"models:/{model_id}"):
        assert same_forest(load_model(source))
    assert logged_model_id(f"runs:/{run_id}/forest") == model_id
    assert logged_model_id(f"models:/{model_id}") == model_id
    assert logged_model_id(str(tmp_path / "saved")) is None


@pytest.mark.usefixtures("embedded")
def test_a_registered_model_by_version_and_alias() -> None:
    info = mlflow.sklearn.log_model(
        FOREST, name="f", serialization_format="cloudpickle", pip_requirements=[], registered_model_name="iris"
    )
    mlflow.MlflowClient().set_registered_model_alias("iris", "champion", info.registered_model_version)
    for uri in (f"models:/iris/{info.registered_model_version}", "models:/iris@champion"):
        assert same_forest(load_model(uri))
        assert logged_model_id(uri) == info.model_id
    mlflow.end_run()


@pytest.mark.parametrize("name", ["forest.joblib", "forest.pkl", "cloud.pkl"])
@pytest.mark.parametrize("value", ["false", "0", "False", "no"])
def test_mlflows_switch_keeps_pickles_from_running(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    WRITERS[name](tmp_path / name)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", value)
    with pytest.raises(ModelLoadError, match="MLFLOW_ALLOW_PICKLE_DESERIALIZATION is not true"):
        load_model(tmp_path / name)


def test_the_switch_forbids_mlflow_models_and_allows_skops_files(
    logged: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with pytest.raises(ModelLoadError, match="MLFLOW_ALLOW_PICKLE_DESERIALIZATION"):
        load_model(f"models:/{logged[1]}")
    dump_skops(FOREST, tmp_path / "forest.skops")
    assert same_forest(load_model(tmp_path / "forest.skops"))


class Planted:
    """Unpickling this would create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_forbidden_code_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(Planted(tmp_path / "ran")))
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with pytest.raises(ModelLoadError):
        load_model(tmp_path / "model.pkl")
    assert not (tmp_path / "ran").exists()
    monkeypatch.delenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION")
    with pytest.raises(ModelLoadError, match="NoneType"):
        load_model(tmp_path / "model.pkl")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"\x80\x04 broken", b"PK\x03\x04 broken zip", b"\x00" * 100])
def test_a_file_that_is_no_model_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.joblib").write_bytes(content)
    with pytest.raises(ModelLoadError, match="could not be read as a model"):
        load_model(tmp_path / "model.joblib")


@pytest.mark.parametrize("thing", [{"a": 1}, [1, 2], np.zeros(3), "text"])
def test_a_pickle_of_something_else_is_refused(thing: object, tmp_path: Path) -> None:
    joblib.dump(thing, tmp_path / "thing")
    with pytest.raises(ModelLoadError, match=f"holds a .*{type(thing).__name__}, which is not a model"):
        load_model(tmp_path / "thing")


def test_an_archive_with_a_damaged_directory_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.skops", "w") as archive:
        archive.writestr("schema.json", "{}")
    content = bytearray((tmp_path / "model.skops").read_bytes())
    content[content.index(b"PK\x01\x02")] = 0  # the central directory's first byte
    (tmp_path / "model.skops").write_bytes(content)
    with pytest.raises(ModelLoadError, match="is a damaged archive"):
        load_model(tmp_path / "model.skops")


def test_skops_types_nobody_vouched_for_are_named(tmp_path: Path) -> None:
    dump_skops(make_pipeline(Unvouched(), FOREST), tmp_path / "model.skops")
    with pytest.raises(ModelLoadError, match=r"does not trust: .*Unvouched"):
        load_model(tmp_path / "model.skops")


class Unvouched(StandardScaler):  # type: ignore[misc]
    pass


def test_paths_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="There is no file"):
        load_model(tmp_path / "missing.joblib")
    with pytest.raises(ModelLoadError, match="without an MLmodel file"):
        load_model(tmp_path)


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("uri", ["models:/nobody/1", "models:/nobody@champion", "runs:/" + "0" * 32 + "/model"])
def test_uris_without_a_model(uri: str) -> None:
    with pytest.raises(ModelLoadError, match="could not load a model from"):
        load_model(uri)
    with pytest.raises(ModelLoadError, match="could not load a model from"):
        logged_model_id(uri)


@pytest.mark.usefixtures("embedded")
def test_a_python_function_has_no_members() -> None:
    class Function(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined]
        def predict(self, model_input: list[float]) -> list[float]:
            return model_input

    with mlflow.start_run():
        info = mlflow.pyfunc.log_model(name="function", python_model=Function(), pip_requirements=[])
    with pytest.raises(ModelLoadError, match=r"does not hold an ensemble|without a native model|not a model"):
        load_model(info.model_uri)


@pytest.mark.usefixtures("embedded")
def test_a_dead_server_is_noticed_before_loading() -> None:
    mlflow.set_tracking_uri(DOWN)
    with pytest.raises(TrackingError, match="cannot be reached"):
        load_model("models:/iris/1")


@pytest.mark.parametrize("path", ["forest.joblib", "a/b.pkl", "C:/models/forest.pkl", "C:\\forest.pkl", "./models:x"])
def test_paths_are_not_uris(path: str) -> None:
    assert not is_uri(path)
