"""LightGBM's and XGBoost's models from files and from MLflow, and their reports in a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import joblib
import mlflow
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.errors import ModelLoadError
from ens_plugin.tracking.models import load_model
from tests.registry.registry import stub_artifacts
from tests.tracking.stores import MLFLOW_WARNINGS, linked_metrics

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")
xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

pytestmark = MLFLOW_WARNINGS

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
LIGHTGBM = lightgbm.LGBMClassifier(
    boosting_type="rf", n_estimators=30, subsample=0.6, subsample_freq=1, random_state=0, n_jobs=1, verbose=-1
).fit(X, Y)
PARALLEL: dict[str, Any] = {"num_parallel_tree": 30, "subsample": 0.6, "learning_rate": 1, "n_jobs": 1}
XGBOOST = xgboost.XGBClassifier(n_estimators=1, random_state=7, **PARALLEL).fit(X, Y)

FILES: dict[str, Callable[[Path], Any]] = {
    "lightgbm.joblib": lambda path: joblib.dump(LIGHTGBM, path),
    "lightgbm booster.joblib": lambda path: joblib.dump(LIGHTGBM.booster_, path),
    "lightgbm.txt": lambda path: LIGHTGBM.booster_.save_model(path),
    "xgboost.joblib": lambda path: joblib.dump(XGBOOST, path),
    "xgboost.json": lambda path: XGBOOST.save_model(path),
    "xgboost.ubj": lambda path: XGBOOST.save_model(path),
    "xgboost booster.json": lambda path: XGBOOST.get_booster().save_model(path),
}
FLAVOURS: dict[str, Callable[[], Any]] = {
    "lightgbm classifier": lambda: logged(mlflow.lightgbm, LIGHTGBM),
    "lightgbm booster": lambda: logged(mlflow.lightgbm, LIGHTGBM.booster_),
    "lightgbm in sklearn": lambda: logged(mlflow.sklearn, LIGHTGBM, serialization_format="cloudpickle"),
    "xgboost classifier": lambda: logged(mlflow.xgboost, XGBOOST),
    "xgboost booster": lambda: logged(mlflow.xgboost, XGBOOST.get_booster()),
    "xgboost as json": lambda: logged(mlflow.xgboost, XGBOOST, model_format="json"),
    "xgboost in sklearn": lambda: logged(mlflow.sklearn, XGBOOST, serialization_format="cloudpickle"),
}
# A fresh interpreter reads the pickle of a booster first, in seconds: the file of each scikit-learn interface shows it.
SECONDS = {"lightgbm booster.joblib", "lightgbm in sklearn", "xgboost in sklearn"}


def each(names: Iterable[str]) -> pytest.MarkDecorator:
    marked = [pytest.param(name, marks=[pytest.mark.slow] if name in SECONDS else []) for name in names]
    return pytest.mark.parametrize("name", marked)


def logged(flavour: Any, model: Any, **options: Any) -> Any:
    return flavour.log_model(model, name="model", pip_requirements=[], **options)


def bags_of_the_trained_model(name: str) -> Any:
    return ens_plugin.in_bag(LIGHTGBM if name.startswith("lightgbm") else XGBOOST, X, Y)


@pytest.mark.fast_cases("xgboost.json", "lightgbm.txt", "xgboost.ubj", "xgboost booster.json")
@each(FILES)
def test_a_model_file_keeps_or_gives_back_its_bags(name: str, tmp_path: Path) -> None:
    FILES[name](tmp_path / name)
    nameless = (tmp_path / name).rename(tmp_path / "model")
    np.testing.assert_array_equal(ens_plugin.in_bag(load_model(nameless), X, Y), bags_of_the_trained_model(name))


@pytest.mark.parametrize("name", ["lightgbm.txt", "xgboost.json", "xgboost.ubj"])
def test_the_libraries_own_files_run_no_code(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FILES[name](tmp_path / name)
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    assert type(load_model(tmp_path / name)).__name__ == "Booster"


@pytest.mark.fast_cases("0.5-lightgbm.txt", "0.1-xgboost.ubj", "0.3-xgboost.json")
@pytest.mark.parametrize("name", ["lightgbm.txt", "xgboost.json", "xgboost.ubj"])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.7])
def test_a_file_cut_short_is_refused(name: str, share: float, tmp_path: Path) -> None:
    """Both libraries end the whole process over some of these."""
    FILES[name](tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: int(len(content) * share)])
    words = r"begins like a model file of .* Check that it is complete|is damaged: the process .* ended with status"
    with pytest.raises(ModelLoadError, match=words):
        load_model(tmp_path / name)


@pytest.mark.parametrize(("name", "library"), [("lightgbm.txt", "lightgbm"), ("xgboost.json", "xgboost")])
def test_a_library_that_is_not_installed_is_named(
    name: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FILES[name](tmp_path / name)
    monkeypatch.setitem(__import__("sys").modules, library, None)
    with pytest.raises(ModelLoadError, match=rf"not installed: pip install 'ens-plugin\[{library}\]'"):
        load_model(tmp_path / name)


@pytest.mark.fast_cases("lightgbm booster", "xgboost as json")
@pytest.mark.usefixtures("embedded")
@each(FLAVOURS)
def test_a_logged_model_has_the_bags_it_was_trained_on(name: str) -> None:
    info = FLAVOURS[name]()
    expected = bags_of_the_trained_model(name)
    np.testing.assert_array_equal(ens_plugin.in_bag(load_model(info.model_uri), X, Y), expected)
    pyfunc = mlflow.pyfunc.load_model(info.model_uri)
    report = ens_plugin.analyze(pyfunc, X, Y)
    assert (report.bags, report.aggregation, report.n_members) == ("proved", "mean_score", 30)


@pytest.mark.fast_cases("lightgbm")
@pytest.mark.parametrize("model", [LIGHTGBM, XGBOOST], ids=["lightgbm", "xgboost"])
def test_the_report_of_a_booster_is_logged(
    model: Any, embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_artifacts(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with mlflow.start_run():
            info = logged(mlflow.lightgbm if model is LIGHTGBM else mlflow.xgboost, model)
    report = ens_plugin.analyze(model, X, Y)
    run_id = ens_plugin.log_report(report, run_id=info.run_id, model_id=info.model_id)
    run = embedded.get_run(run_id)
    assert run.data.metrics["ens.n_members"] == 30
    assert run.data.metrics["ens.accuracy"] == 1.0 - report.error_curve.at(30)
    assert "More trees?" in run.data.tags["mlflow.note.content"]
    assert linked_metrics(embedded, info.model_id)["ens.asymptotic_accuracy"] == [1.0 - report.error_curve.asymptote]
    path = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="ensemble/report.json")
    assert EnsembleReport.from_json(Path(path).read_text(encoding="utf-8")).to_dict() == report.to_dict()
