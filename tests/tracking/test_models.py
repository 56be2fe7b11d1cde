"""Models from files and URIs; a damaged file is refused in words: it neither ends the process nor keeps it for ever."""

from __future__ import annotations

import json
import os
import pickle
import re
import threading
import time
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
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ens_plugin.errors import ModelLoadError, TrackingError
from ens_plugin.tracking import models as model_damage
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


def test_an_mlflow_directory_with_a_deadly_pickle_is_refused(tmp_path: Path) -> None:
    mlflow.sklearn.save_model(FOREST, tmp_path / "saved", serialization_format="cloudpickle", pip_requirements=[])
    (file,) = (tmp_path / "saved").glob("*.pkl")
    file.write_bytes(pickle.dumps(Deadly(os.abort)))
    with pytest.raises(ModelLoadError, match=r"pkl' is damaged: the process .* ended with status -6"):
        load_model(tmp_path / "saved")


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


X, Y = load_iris(return_X_y=True)
LIGHTGBM = "LightGBM is not installed: pip install 'ens-plugin[lightgbm]'"
XGBOOST = "xgboost is not installed: pip install 'ens-plugin[xgboost]'"


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(5, random_state=0).fit(X, Y)


# The first node of a tree, changed; `right` stands for the right child that it has.
BREAKS: dict[str, dict[str, Any]] = {
    "circle": {"children_left": 0, "children_right": 0},
    "far child": {"children_right": 10**7},
    "two parents": {"children_left": "right"},
    "far feature": {"feature": 10**6},
    "half a leaf": {"children_left": -1},
    "no number": {"threshold": np.nan},
}


@pytest.mark.fast_cases("pipeline-circle", "alone-far child", "bagging-half a leaf", "alone-no number")
@pytest.mark.parametrize("damage", BREAKS)
@pytest.mark.parametrize("wrap", ["alone", "pipeline", "bagging"])
def test_a_tree_that_cannot_be_followed(damage: str, wrap: str, tmp_path: Path) -> None:
    if wrap == "bagging":
        model: Any = BaggingClassifier(forest(), 2, random_state=0).fit(X, Y)
        broken = model.estimators_[1].estimators_[4].tree_
    else:
        model = forest() if wrap == "alone" else make_pipeline(StandardScaler(), forest()).fit(X, Y)
        broken = (model if wrap == "alone" else model[-1]).estimators_[4].tree_
    joblib.dump(model, tmp_path / "model.joblib")
    load_model(tmp_path / "model.joblib")
    for name, value in BREAKS[damage].items():
        getattr(broken, name)[0] = broken.children_right[0] if value == "right" else value
    joblib.dump(model, tmp_path / "model.joblib")
    with pytest.raises(ModelLoadError, match="is damaged: a tree"):
        load_model(tmp_path / "model.joblib")


def test_a_forest_of_other_columns_than_its_trees(tmp_path: Path) -> None:
    model = forest()
    model.n_features_in_ = 3
    joblib.dump(model, tmp_path / "model.joblib")
    with pytest.raises(ModelLoadError, match="a tree of 4 features is a member of an ensemble of 3"):
        load_model(tmp_path / "model.joblib")


class Deadly:
    """What a damaged pickle does to the process that reads it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def spin(_: str) -> None:
    while True:
        pass


@pytest.mark.fast_cases("forest")
@pytest.mark.parametrize("note", ["forest", "lightgbm"])
def test_a_pickle_that_ends_its_reader(note: str, tmp_path: Path) -> None:
    """With the name of a booster's library in it, a fresh interpreter reads it; without, a fork."""
    joblib.dump([note, Deadly(os.abort)], tmp_path / "model.joblib")
    with pytest.raises(ModelLoadError, match="ended with status -6"):
        load_model(tmp_path / "model.joblib")


@pytest.mark.slow
def test_beside_a_thread_a_fresh_interpreter_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork has the locks that the thread held, and nobody to release them."""
    joblib.dump(forest(), tmp_path / "model.joblib")
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    monkeypatch.setattr(model_damage, "_fork", pytest.fail)
    try:
        assert load_model(tmp_path / "model.joblib").n_estimators == 5
    finally:
        ended.set()
        thread.join()


@pytest.mark.fast_cases("True")
@pytest.mark.parametrize("only_waits", [False, True])
def test_a_pickle_that_is_never_read_to_its_end(
    only_waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_damage, "PATIENCE_S" if only_waits else "CPU_S", 1)
    endless = Deadly(time.sleep, 60) if only_waits else Deadly(eval, "[0 for _ in iter(int, 1)]")
    joblib.dump(endless, tmp_path / "model.joblib")
    with pytest.raises(ModelLoadError, match=r"did not end in 1 s|ended with status -(24|9)"):
        load_model(tmp_path / "model.joblib")


@pytest.mark.parametrize("compress", [("zlib", 3), ("gzip", 3), ("bz2", 3), ("lzma", 3), ("xz", 3)])
def test_the_library_of_a_compressed_pickle_is_known(compress: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.joblib"
    for content, expected in ((["x" * 10**6, "lightgbm"], True), (["x" * 10**6], False)):
        joblib.dump(content, path, compress=compress)
        assert model_damage._may_hold_a_booster(path, path.read_bytes()[:64]) == expected


def lightgbm_text() -> str:
    lightgbm = pytest.importorskip("lightgbm", reason=LIGHTGBM)
    options = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "n_jobs": 1, "verbose": -1}
    model = lightgbm.LGBMClassifier(n_estimators=2, min_child_samples=2, random_state=0, **options).fit(X, Y)
    return str(model.booster_.model_to_string())


@pytest.mark.fast_cases("left_child-99 -1 -1 -1", "num_leaves-123456789012")
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("num_leaves", "123456789012"),
        ("num_leaves", "-1"),
        ("left_child", "99 -1 -1 -1"),
        ("right_child", "0 0 0 0"),
        ("split_feature", "9999 0 0 0 0 0 0 0"),
        ("leaf_value", "nan"),
        ("decision_type", "1 1 1 1 1 1 1 1"),
        ("threshold", "x"),
        ("num_class", "0"),
        ("num_tree_per_iteration", "0"),
        ("objective", "multiclass num_class:4"),
    ],
)
def test_a_text_of_lightgbm_that_leads_astray(line: str, value: str, tmp_path: Path) -> None:
    before, rest = lightgbm_text().split(f"\n{line}=", 1)
    # Without the sizes, nothing but the line is wrong.
    text = re.sub("tree_sizes=.*\n", "", f"{before}\n{line}={value}\n{rest.partition(chr(10))[2]}")
    (tmp_path / "model.txt").write_text(text)
    with pytest.raises(ModelLoadError, match=r"begins like a model file of LightGBM|is damaged"):
        load_model(tmp_path / "model.txt")


def test_a_leaf_of_lightgbm_under_the_number_of_a_split(tmp_path: Path) -> None:
    """Leaves come after splits where trees are read, but LightGBM would look for a split of that number."""
    text = re.sub("tree_sizes=.*\n", "", lightgbm_text())
    children = re.search("right_child=(.*)", text)
    assert children is not None
    numbers = [int(child) for child in children.group(1).split()]
    changed = [len(numbers) + ~child if child < 0 else child for child in numbers]
    (tmp_path / "model.txt").write_text(text.replace(children.group(1), " ".join(map(str, changed)), 1))
    with pytest.raises(ModelLoadError, match="tree 0 leads to a split that it does not have"):
        load_model(tmp_path / "model.txt")


def edit_tree(name: str, change: Callable[[list[Any]], None]) -> Callable[[dict[str, Any]], None]:
    return lambda model: change(model["trees"][1][name])


@pytest.mark.fast_cases("<lambda>0", "<lambda>1", "<lambda>7")
@pytest.mark.parametrize(
    "change",
    [
        edit_tree("left_children", lambda values: values.__setitem__(0, 0)),
        edit_tree("left_children", lambda values: values.__setitem__(0, 10**6)),
        edit_tree("right_children", lambda values: values.pop()),
        edit_tree("split_indices", lambda values: values.__setitem__(0, 10**6)),
        edit_tree("base_weights", lambda values: values.append(0.5)),
        edit_tree("split_conditions", lambda values: values.__setitem__(0, "x")),
        lambda model: model.update(iteration_indptr=[0, 99]),
        lambda model: model["tree_info"].__setitem__(0, 17),
    ],
)
def test_a_document_of_xgboost_that_leads_astray(change: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost", reason=XGBOOST)
    model = xgboost.XGBClassifier(n_estimators=1, num_parallel_tree=3, subsample=0.6, n_jobs=1).fit(X, Y)
    document = json.loads(model.get_booster().save_raw("json"))
    change(document["learner"]["gradient_booster"]["model"])
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ModelLoadError, match=r"begins like a model file of XGBoost|is damaged"):
        load_model(tmp_path / "model.json")
