"""A damaged model file is refused in words: it neither ends the process nor keeps it for ever."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ens_plugin.errors import ModelLoadError
from ens_plugin.tracking import models as model_damage
from ens_plugin.tracking.models import load_model

X, Y = load_iris(return_X_y=True)
LIGHTGBM = "LightGBM is not installed: pip install 'ens-plugin[lightgbm]'"
XGBOOST = "xgboost is not installed: pip install 'ens-plugin[xgboost]'"


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(5, random_state=0).fit(X, Y)


def circle(tree: Any) -> None:
    tree.children_left[0] = tree.children_right[0] = 0


def far_child(tree: Any) -> None:
    tree.children_right[0] = 10**7


def two_parents(tree: Any) -> None:
    tree.children_left[0] = tree.children_right[0]


def far_feature(tree: Any) -> None:
    tree.feature[0] = 10**6


def half_a_leaf(tree: Any) -> None:
    tree.children_left[0] = -1


def no_number(tree: Any) -> None:
    tree.threshold[0] = np.nan


@pytest.mark.fast_cases(
    "pipeline-circle",
    "alone-far_child",
    "bagging-half_a_leaf",
    "bagging-two_parents",
    "alone-no_number",
    "bagging-far_feature",
)
@pytest.mark.parametrize("break_tree", [circle, far_child, two_parents, far_feature, half_a_leaf, no_number])
@pytest.mark.parametrize("wrap", ["alone", "pipeline", "bagging"])
def test_a_tree_that_cannot_be_followed(break_tree: Callable[[Any], None], wrap: str, tmp_path: Path) -> None:
    if wrap == "bagging":
        model: Any = BaggingClassifier(forest(), 2, random_state=0).fit(X, Y)
        broken = model.estimators_[1].estimators_[4]
    else:
        model = forest() if wrap == "alone" else make_pipeline(StandardScaler(), forest()).fit(X, Y)
        broken = (model if wrap == "alone" else model[-1]).estimators_[4]
    joblib.dump(model, tmp_path / "model.joblib")
    load_model(tmp_path / "model.joblib")
    break_tree(broken.tree_)
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


def far_round(model: dict[str, Any]) -> None:
    model["iteration_indptr"] = [0, 99]


def far_label(model: dict[str, Any]) -> None:
    model["tree_info"][0] = 17


@pytest.mark.fast_cases("<lambda>0", "<lambda>1", "far_label")
@pytest.mark.parametrize(
    "change",
    [
        edit_tree("left_children", lambda values: values.__setitem__(0, 0)),
        edit_tree("left_children", lambda values: values.__setitem__(0, 10**6)),
        edit_tree("right_children", lambda values: values.pop()),
        edit_tree("split_indices", lambda values: values.__setitem__(0, 10**6)),
        edit_tree("base_weights", lambda values: values.append(0.5)),
        edit_tree("split_conditions", lambda values: values.__setitem__(0, "x")),
        far_round,
        far_label,
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
