"""The command line with models of LightGBM and XGBoost, from their own files and from MLflow."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

import ens_plugin
from tests.cli.conftest import Run

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")
xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")


X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
XR, YR = load_diabetes(return_X_y=True, as_frame=True)
RF: dict[str, Any] = {"boosting_type": "rf", "n_estimators": 40, "subsample": 0.6, "subsample_freq": 1,
                      "colsample_bytree": 0.5, "random_state": 0, "n_jobs": 1, "verbose": -1}  # fmt: skip
PARALLEL: dict[str, Any] = {"n_estimators": 1, "num_parallel_tree": 40, "subsample": 0.6, "colsample_bynode": 0.5,
                            "learning_rate": 1, "random_state": 0, "n_jobs": 1}  # fmt: skip
FOREST = lightgbm.LGBMClassifier(**RF).fit(X, Y)
TREES = xgboost.XGBClassifier(**PARALLEL).fit(X, Y)
CANCER = ("--data", "cancer.csv", "--target", "diagnosis")


@pytest.fixture(autouse=True)
def table(run: Run) -> None:
    """Its columns stand in another order than at training."""
    X.assign(diagnosis=Y)[[*X.columns[::-1], "diagnosis"]].to_csv("cancer.csv", index=False)


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


@pytest.mark.fast_cases("model0-forest.txt", "model1-trees.json")
@pytest.mark.parametrize(("model", "name"), [(FOREST, "forest.txt"), (TREES, "trees.json"), (TREES, "trees.ubj")])
def test_analyze_reads_the_libraries_own_files(model: Any, name: str, run: Run) -> None:
    getattr(model, "booster_", model).save_model(name)
    code, out, err = run("analyze", name, *CANCER)
    assert (code, err) == (0, "")
    expected = ens_plugin.analyze(model, X, Y).summary().rstrip() + "\n"
    # Lines break elsewhere where the name of the class is shorter.
    assert out.split() == expected.replace(type(model).__name__, "Booster").split()
    assert widest(out) <= 80
    whole = run("analyze", name, *CANCER, "--details")[1]
    assert whole.startswith(out)
    details = whole.removeprefix(out)
    assert "distribution of the rows' mean margins, fitted to the trees' raw scores" in " ".join(details.split())
    assert widest(details) <= 80


def test_recommend_answers_for_a_regression_of_each_library(run: Run) -> None:
    XR.assign(progression=YR).to_csv("diabetes.csv", index=False)
    question = ("--data", "diabetes.csv", "--target", "progression", "--format", "json")
    lightgbm.LGBMRegressor(**RF).fit(XR, YR).booster_.save_model("forest.txt")
    xgboost.XGBRegressor(**PARALLEL).fit(XR, YR).save_model("trees.json")
    for name in ("forest.txt", "trees.json"):
        code, out, err = run("recommend", name, *question)
        assert (code, err) == (0, "")
        assert '"criterion": "error"' in out


def test_a_booster_knows_labels_as_codes_only(run: Run) -> None:
    names = np.where(Y == 1, "benign", "malignant")
    X.assign(diagnosis=names).to_csv("cancer.csv", index=False)
    lightgbm.LGBMClassifier(**RF).fit(X, names).booster_.save_model("forest.txt")
    code, out, err = run("recommend", "forest.txt", *CANCER)
    assert (code, out) == (2, "")
    message = " ".join(err.split())
    assert "does not have: ['benign', 'malignant']; its labels are [0, 1]" in message
    assert "the labels of y are texts and the ensemble's are numbers" in message


def test_the_root_of_a_squared_error_stands_beside_it(run: Run) -> None:
    XR.assign(progression=YR).to_csv("diabetes.csv", index=False)
    lightgbm.LGBMRegressor(**RF).fit(XR, YR).booster_.save_model("forest.txt")
    question = ("forest.txt", "--data", "diabetes.csv", "--target", "progression")
    _, out, _ = run("recommend", *question, "--format", "json")
    found = json.loads(out)
    assert found["rmse"] == pytest.approx(found["error"] ** 0.5)
    for verb, *style in (("analyze", "--details"), ("recommend",), ("analyze", "--format", "markdown")):
        _, out, _ = run(verb, *question, *style)
        assert f"Off by {found['rmse']:#.3g} as a rule" in " ".join(out.split())
