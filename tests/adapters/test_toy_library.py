"""An outside library has the whole of ens_plugin by one class that it registers."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
import mlflow
import numpy as np
import pandas as pd
import pytest

import ens_plugin
from ens_plugin import autolog
from ens_plugin.adapters import EnsembleAdapter, Flavor
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.cli import main, rows_for_model
from ens_plugin.errors import ModelLoadError, UnsupportedModelError
from ens_plugin.registry import rightsizing as model_source
from ens_plugin.testing import check_case
from ens_plugin.tracking.models import load_model
from tests.adapters.harness import Case
from tests.adapters.toy_library import ToyAdapter, ToyForest
from tests.extras import needs_pyspark
from tests.registry.registry import stub_artifacts
from tests.spark.conftest import session  # noqa: F401  (a fixture)
from tests.tracking.stores import MLFLOW_WARNINGS, new_store, tracking_to

pytestmark = MLFLOW_WARNINGS

X = np.random.default_rng(0).random((300, 3))
Y = X[:, 0] + np.random.default_rng(1).normal(0, 0.1, 300)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=Y)
CASE = Case(
    "toy", lambda: ToyForest().fit(X, Y), X, Y, lambda model: [bag for bag, _ in model.members_], proves_rows=False
)


@pytest.fixture(autouse=True)
def registered(registered_adapters: list[type[EnsembleAdapter]]) -> None:
    ens_plugin.register_adapter(ToyAdapter)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[mlflow.MlflowClient]:
    folder = tmp_path_factory.mktemp("store")
    with tracking_to(new_store(folder)):
        mlflow.create_experiment("toys", artifact_location=(folder / "artifacts").as_uri())
        mlflow.set_experiment("toys")
        yield mlflow.MlflowClient()


def test_it_keeps_the_contract() -> None:
    assert len(check_case(CASE)) == 15


def test_bags_that_are_compared_with_nothing_are_warned_of() -> None:
    report = ens_plugin.analyze(ToyForest().fit(X, Y), X, Y)
    assert any(
        "Nothing in this model shows whether these rows are its training rows" in text for text in report.warnings
    )


def test_analyze_and_truncate() -> None:
    report = ens_plugin.analyze(CASE.model, X, Y)
    assert (report.n_members, report.bags, report.model) == (60, "recorded", "ToyForest")
    small = ens_plugin.truncate(CASE.model, 20)
    np.testing.assert_array_equal(small.predict(X), ToyForest(20).fit(X, Y).predict(X))


@pytest.mark.fast_cases("False")
@pytest.mark.parametrize("is_known_before", [True, False])
def test_autolog(
    is_known_before: bool, store: mlflow.MlflowClient, registered_adapters: list[type[EnsembleAdapter]]
) -> None:
    original = ToyForest.fit
    if not is_known_before:
        registered_adapters.clear()
    autolog(log_artifacts=False, max_overhead=1e3)
    try:
        ens_plugin.register_adapter(ToyAdapter)
        with mlflow.start_run() as run:
            model = ToyForest().fit(X, Y)
    finally:
        autolog(disable=True)
    assert ToyForest.fit is original
    assert store.get_run(run.info.run_id).data.metrics["ens.rmse"] == ens_plugin.analyze(model, X, Y).rmse


def test_autolog_of_a_program_that_defines_its_own_library(store: mlflow.MlflowClient) -> None:
    autolog(log_artifacts=False, max_overhead=1e3)
    try:
        ens_plugin.register_adapter(type("OfTheProgram", (ToyAdapter,), {"library": "__main__"}))
        with mlflow.start_run() as run:
            exec("forest.fit(X, Y)", {"__name__": "__main__", "forest": ToyForest(), "X": X, "Y": Y})
    finally:
        autolog(disable=True)
    assert "ens.rmse" in store.get_run(run.info.run_id).data.metrics


def test_grow() -> None:
    growth = ens_plugin.grow(ToyForest(), X, Y, tolerance=0.02, probe_size=20)
    assert growth.n_members > 20
    assert growth.trained_members == 20 + growth.n_members
    np.testing.assert_array_equal(growth.model.predict(X), ToyForest(growth.n_members).fit(X, Y).predict(X))


class Untagged:
    """A class of a library that does not derive its estimators from those of scikit-learn."""

    def __init__(self, n_trees: int = 60, random_state: int = 0) -> None:
        self.n_trees, self.random_state = n_trees, random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"n_trees": self.n_trees, "random_state": self.random_state}

    def set_params(self, **params: Any) -> Untagged:
        vars(self).update(params)
        return self

    def fit(self, X: Any, y: Any) -> Untagged:
        vars(self).update(vars(ToyForest(**self.get_params()).fit(X, y)))
        return self


class Closed:
    """An estimator without parameters that could be set."""


class OfUntagged(ToyAdapter):
    @classmethod
    def accepts(cls, model: object) -> bool:
        return isinstance(model, (Untagged, Closed))


def test_grow_what_has_no_tags_of_scikit_learn() -> None:
    ens_plugin.register_adapter(OfUntagged)
    growth = ens_plugin.grow(Untagged(), X, Y, tolerance=0.02, probe_size=20)
    assert growth.n_members == ens_plugin.grow(ToyForest(), X, Y, tolerance=0.02, probe_size=20).n_members


@pytest.mark.parametrize("learner", [ens_plugin.RightSizedRegressor, ens_plugin.RightSizedClassifier])
def test_a_size_chosen_in_training_needs_a_task(learner: Any) -> None:
    ens_plugin.register_adapter(OfUntagged)
    with pytest.raises(UnsupportedModelError, match=r"Untagged, whose class does not state .* use ens_plugin\.grow"):
        learner(Untagged()).fit(X, Y)


def test_grow_refuses_what_has_no_parameters() -> None:
    ens_plugin.register_adapter(OfUntagged)
    with pytest.raises(UnsupportedModelError, match="Closed has no get_params and no set_params"):
        ens_plugin.grow(Closed(), X, Y)


def test_a_flavour_of_a_built_in_library_keeps_its_options() -> None:
    class LikeSklearn(ToyAdapter):
        flavor = Flavor("sklearn", "mlflow.sklearn", "sk_model")

    ens_plugin.register_adapter(LikeSklearn)
    found = model_source._flavor(mlflow.models.Model(flavors={"sklearn": {}, "python_function": {}}), "models:/toy/1")
    assert found is SklearnForestAdapter.flavor


def test_rightsize(store: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)
    with mlflow.start_run(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logged = mlflow.sklearn.log_model(
            ToyForest(200).fit(X, Y), name="toy", serialization_format="cloudpickle", pip_requirements=["numpy"]
        )
    found = ens_plugin.rightsize(logged.model_uri, X, Y, tolerance=0.05)
    assert (found.outcome, found.passed) == ("logged", True)
    assert found.logged is not None
    assert found.cut_report is not None
    smaller = mlflow.sklearn.load_model(found.logged.uri)
    assert len(smaller.members_) == smaller.n_trees == found.cut_report.n_members < 200


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    joblib.dump(CASE.model, tmp_path / "toy.joblib")
    FRAME.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["recommend", str(tmp_path / "toy.joblib"), "--data", str(tmp_path / "rows.csv"), "--target", "y"])
    assert end.value.code == 0
    size = ens_plugin.analyze(CASE.model, X, Y).recommended_size
    assert capsys.readouterr().out.startswith(f"More trees? Yes, {size} in total: ")


class WithOwnFiles(ToyAdapter):
    title, requirement = "Toy", "toy"

    @classmethod
    def reads(cls, start: bytes) -> bool:
        return start.startswith(b"toy")

    @classmethod
    def read(cls, content: bytes) -> Any:
        return pickle.loads(content[3:])

    @classmethod
    def find_file_damage(cls, content: bytes) -> str | None:
        return None if content.endswith(b".") else "it is cut short"

    @classmethod
    def feature_names(cls, model: Any) -> list[str]:
        return ["a", "b", "c"]


def test_files_and_names_of_its_own(tmp_path: Path) -> None:
    ens_plugin.register_adapter(WithOwnFiles)
    path = tmp_path / "model.toy"
    path.write_bytes(b"toy" + pickle.dumps(CASE.model))
    model = load_model(path)
    np.testing.assert_array_equal(model.predict(X), CASE.model.predict(X))
    rows = rows_for_model(FRAME[["y", "c", "b", "a"]], model, target="y")
    assert list(rows.X.columns) == ["a", "b", "c"]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelLoadError, match=r"begins like a model file of Toy, .* \(it is cut short\)"):
        load_model(path)
    path.write_bytes(b"toy.")
    with pytest.raises(ModelLoadError, match=r"begins like a model file of Toy, .* \(UnpicklingError"):
        load_model(path)


@needs_pyspark
def test_spark(session: Any) -> None:  # noqa: F811  (the fixture)
    from ens_plugin import spark

    rows = FRAME.assign(row=range(len(FRAME)))
    report = spark.analyze(
        CASE.model, session.createDataFrame(rows), label_col="y", feature_cols=["a", "b", "c"], row_id_col="row"
    )
    assert report.error == pytest.approx(ens_plugin.analyze(CASE.model, X, Y, data="holdout").error, rel=1e-9)
