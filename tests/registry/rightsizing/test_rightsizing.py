"""A logged ensemble becomes a smaller one beside it, or nothing happens at all."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.analysis import AnalysisOptions
from ens_plugin.errors import (
    EnsPluginError,
    GateError,
    InputError,
    ModelLoadError,
    TooFewMembersError,
    TrackingError,
    UnsupportedModelError,
)
from ens_plugin.registry import Rightsizing, rightsize
from ens_plugin.registry.rightsizing import ModelSource, rightsize_analysed
from ens_plugin.registry.rightsizing.cut_model import LoggedCut
from ens_plugin.sizing import Check
from ens_plugin.tracking import DIGEST_TAG, load_model
from tests.registry.registry import stub_artifacts
from tests.reports import classification_report
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, linked_metrics

pytestmark = MLFLOW_WARNINGS

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
XR, YR = load_diabetes(return_X_y=True, as_frame=True)
# Small recommendations, from little time.
EASY: dict[str, Any] = {"confidence": 0.97, "tolerance": 0.03, "max_size": 2001}

Client = mlflow.MlflowClient


class Case(NamedTuple):
    """A model as somebody logs it, and what it was trained on."""

    flavor: str
    model: Any
    X: Any = X
    y: Any = Y
    options: Any = MappingProxyType({})
    confidence: float = 0.97


@cache
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(60, random_state=0).fit(X, Y)


def pipeline() -> Any:
    return make_pipeline(StandardScaler(), RandomForestClassifier(60, random_state=0)).fit(X, Y)


def lightgbm_forest() -> Any:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")
    options = {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "random_state": 0, "n_jobs": 1}
    return lightgbm.LGBMClassifier(n_estimators=60, verbose=-1, **options).fit(X, Y)


def xgboost_forest() -> Any:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install 'ens-plugin[xgboost]'")
    options = {"subsample": 0.6, "learning_rate": 1, "random_state": 7, "n_jobs": 1}
    return xgboost.XGBClassifier(n_estimators=1, num_parallel_tree=60, **options).fit(X, Y)


CLOUDPICKLE = {"serialization_format": "cloudpickle"}
CASES: dict[str, Callable[[], Case]] = {
    "forest": lambda: Case("sklearn", forest(), options=CLOUDPICKLE),
    "forest in skops": lambda: Case("sklearn", forest(), options=skops()),
    "pipeline": lambda: Case("sklearn", pipeline(), options=CLOUDPICKLE),
    "regression": lambda: Case("sklearn", RandomForestRegressor(60, random_state=0).fit(XR, YR), XR, YR, CLOUDPICKLE),
    "lightgbm": lambda: Case("lightgbm", lightgbm_forest(), confidence=0.99),
    "lightgbm booster": lambda: Case("lightgbm", lightgbm_forest().booster_, confidence=0.99),
    "xgboost": lambda: Case("xgboost", xgboost_forest(), options={"model_format": "json"}, confidence=0.99),
    "xgboost booster": lambda: Case("xgboost", xgboost_forest().get_booster(), confidence=0.99),
}


def skops() -> dict[str, Any]:
    if not hasattr(mlflow.sklearn, "SERIALIZATION_FORMAT_SKOPS"):
        pytest.skip("this MLflow has no skops format: pip install -U mlflow")
    return {"serialization_format": "skops", "skops_trusted_types": ["sklearn.tree._tree.Tree"]}


SOURCE = ModelSource("models:/churn/7", "churn", "7", None, "model", "0", "sklearn", None)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time nothing: the savings have tests of their own."""
    monkeypatch.setattr("ens_plugin.sizing.savings.ROUNDS", 1)
    monkeypatch.setattr("ens_plugin.sizing.savings._fit_seconds", lambda *_: None)


@pytest.fixture
def name() -> str:
    return f"churn {uuid4().hex[:8]}"


class Counts(NamedTuple):
    """How much there is in a store."""

    runs: int
    models: int
    versions: int


def counts(client: Client) -> Counts:
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    return Counts(
        len(client.search_runs(experiments)),
        len(client.search_logged_models(experiments, max_results=10_000)),  # all in the database that tests share
        len(client.search_model_versions()),
    )


def log(case: Case, name: str | None, **options: Any) -> Any:
    """Log a model as its owner would, and register it."""
    with mlflow.start_run(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(mlflow, case.flavor).log_model(
            case.model,
            **{
                "name": "forest",
                "registered_model_name": name,
                "pip_requirements": ["scikit-learn>=1.4", "pandas"],
                "signature": mlflow.models.infer_signature(case.X, np.zeros(1)),
                "metadata": {"team": "trees"},
                **case.options,
                **options,
            },
        )


def requirements(uri: str) -> list[str]:
    return (Path(mlflow.artifacts.download_artifacts(uri)) / "requirements.txt").read_text().splitlines()


def outputs(model: Any, rows: Any) -> Any:
    if type(model).__module__.startswith("xgboost") and type(model).__name__ == "Booster":
        return model.inplace_predict(rows)
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)


@pytest.mark.usefixtures("quick")
def test_nullable_and_categorical_labels_give_the_same_size(embedded: Client, name: str) -> None:
    words = pd.Series(pd.Categorical(np.array(["no", "yes"])[Y], categories=["unused", "yes", "no"]), index=Y.index)
    found = [
        rightsize(log(Case("sklearn", forest().fit(X, y), X, y, CLOUDPICKLE), None).model_uri, X, y, **EASY).report
        for y in (Y, words, pd.Series(Y, dtype="boolean"))
    ]
    forest.cache_clear()
    assert found[0].metrics() == found[1].metrics() == found[2].metrics()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", CASES)
def test_a_smaller_version_of_the_same_kind(kind: str, embedded: Client, name: str) -> None:
    case = CASES[kind]()
    source = log(case, name)
    wanted = {**EASY, "confidence": case.confidence}
    found = rightsize(f"models:/{name}/1", case.X, case.y, **wanted)
    assert (found.outcome, found.passed) == ("logged", True)
    assert found.logged is not None
    assert (found.logged.name, found.logged.version) == (name, "2")

    assert found.cut_report is not None
    size = found.cut_report.n_members
    recommended, wanted_of_cut = found.report.recommended_size, found.cut_report.recommended_size
    assert recommended is not None
    assert wanted_of_cut is not None
    assert max(recommended, wanted_of_cut) <= size < found.report.n_members == 60
    uri = f"models:/{name}/2"
    smaller = load_model(uri)
    assert type(smaller) is type(load_model(source.model_uri))
    assert np.array_equal(outputs(smaller, case.X), outputs(ens_plugin.truncate(case.model, size), case.X))
    assert ens_plugin.analyze(smaller, case.X, case.y, **wanted).n_members == size

    before, after = mlflow.models.Model.load(source.model_uri), mlflow.models.Model.load(uri)
    assert set(after.flavors) == set(before.flavors)
    for kept in ("serialization_format", "model_format", "model_class"):
        assert after.flavors[case.flavor].get(kept) == before.flavors[case.flavor].get(kept)
    assert after.signature == before.signature
    assert after.metadata == {"team": "trees"}
    assert requirements(uri) == requirements(source.model_uri)


@pytest.mark.usefixtures("quick")
def test_what_belongs_together_is_linked(embedded: Client, name: str) -> None:
    elsewhere = embedded.create_experiment(f"elsewhere {name}", artifact_location=_artifacts(embedded))
    mlflow.set_experiment(experiment_id=elsewhere)
    source = log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
    mlflow.set_experiment("tests")
    embedded.set_registered_model_alias(name, "champion", "1")
    embedded.set_logged_model_tags(source.model_id, {DIGEST_TAG: "v1:0a"})
    found = rightsize(f"models:/{name}@champion", X, Y, **EASY)
    logged = found.logged
    assert logged is not None
    assert found.source == f"models:/{name}/1"
    assert str(embedded.get_model_version_by_alias(name, "champion").version) == "1"

    assert found.cut_report is not None
    size = found.cut_report.n_members
    version = embedded.get_model_version(name, "2")
    change = {"ens.parent": f"models:/{name}/1", "ens.rightsize": f"60 to {size} members"}
    assert version.tags == {**change, "ens.parent_version": "1"}
    assert version.source == logged.uri
    model = embedded.get_logged_model(logged.model_id)
    assert model.tags.items() >= {**change, DIGEST_TAG: "v1:0a"}.items()
    assert (model.name, model.experiment_id, model.source_run_id) == ("forest", elsewhere, logged.run_id)
    run = embedded.get_run(logged.run_id)
    assert (run.info.status, run.info.experiment_id) == ("FINISHED", elsewhere)
    assert run.data.tags.items() >= change.items()
    assert [item.model_id for item in run.inputs.model_inputs] == [source.model_id]
    assert [item.model_id for item in run.outputs.model_outputs] == [logged.model_id]

    linked = linked_metrics(embedded, logged.model_id)
    assert found.cut_report is not None
    assert found.savings is not None
    assert linked["ens.error"] == [found.cut_report.error]
    assert linked["ens.n_members"] == [size]
    assert linked["ens.rightsize.n_members_before"] == [60]
    assert linked["ens.rightsize.bytes_before"] == [found.savings.bytes_now]
    assert linked["ens.rightsize.bytes_after"] == [found.savings.bytes_cut]
    assert linked["ens.rightsize.predict_seconds_after"] == [found.savings.predict_seconds_cut]
    assert linked["ens.rightsize.agreement"] == [found.checks[0].value]
    assert embedded.get_logged_model(source.model_id).metrics in (None, [])


def _artifacts(client: Client) -> str:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    return str(experiment.artifact_location)


@pytest.mark.usefixtures("quick")
def test_a_model_without_a_version_is_registered_on_demand_only(embedded: Client, name: str) -> None:
    source = log(Case("sklearn", forest(), options=CLOUDPICKLE), None)
    versions = counts(embedded).versions
    by_id = rightsize(f"models:/{source.model_id}", X, Y, **EASY)
    assert by_id.logged is not None
    assert (by_id.logged.name, by_id.logged.version) == (None, None)
    assert counts(embedded).versions == versions
    by_run = rightsize(f"runs:/{source.run_id}/forest", X, Y, register=name, **EASY)
    assert by_run.logged is not None
    assert (by_run.logged.name, by_run.logged.version) == (name, "1")
    tags = embedded.get_model_version(name, "1").tags
    assert tags["ens.parent"] == f"runs:/{source.run_id}/forest"
    assert "ens.parent_version" not in tags


@pytest.mark.usefixtures("quick")
def test_held_out_rows_and_weights_reach_both_analyses(embedded: Client, name: str) -> None:
    half = RandomForestClassifier(60, random_state=0).fit(X[::2], Y[::2])
    log(Case("sklearn", half, options=CLOUDPICKLE), name)
    weight = np.where(np.arange(len(Y[1::2])) < 200, 1.0, 0.0)
    found = rightsize(f"models:/{name}/1", X[1::2], Y[1::2], data="holdout", sample_weight=weight, **EASY)
    assert found.cut_report is not None
    assert (found.report.data, found.cut_report.data) == ("holdout", "holdout")
    assert (found.report.n_rows, found.cut_report.n_rows) == (200, 200)


@pytest.mark.usefixtures("quick")
def test_code_and_the_predicted_function_come_along(embedded: Client, name: str, tmp_path: Path) -> None:
    (tmp_path / "own_code").mkdir()
    (tmp_path / "own_code" / "steps.py").write_text("LIMIT = 3\n")
    log(
        Case("sklearn", forest(), options=CLOUDPICKLE), name,
        code_paths=[str(tmp_path / "own_code")], pyfunc_predict_fn="predict_proba",
    )  # fmt: skip
    rightsize(f"models:/{name}/1", X, Y, **EASY)
    folder = Path(mlflow.artifacts.download_artifacts(f"models:/{name}/2"))
    assert (folder / "code" / "own_code" / "steps.py").read_text() == "LIMIT = 3\n"
    assert mlflow.pyfunc.load_model(f"models:/{name}/2").predict(X[:3]).shape == (3, 2)


@pytest.mark.usefixtures("quick")
def test_the_active_run_and_the_next_one_stay_untouched(
    embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
    other = embedded.create_run("0").info.run_id
    monkeypatch.setenv("MLFLOW_RUN_ID", other)
    found = rightsize(f"models:/{name}/1", X, Y, **EASY)
    assert embedded.get_run(other).info.status == "RUNNING"
    monkeypatch.delenv("MLFLOW_RUN_ID")
    with mlflow.start_run() as run:
        again = rightsize(f"models:/{name}/1", X, Y, **EASY)
    for logged in (found.logged, again.logged):
        assert logged is not None
        assert logged.run_id not in (other, run.info.run_id)
    for untouched in (other, run.info.run_id):
        content = embedded.get_run(untouched)
        assert content.data.metrics == {}
        assert content.outputs is None or content.outputs.model_outputs == []


@pytest.mark.usefixtures("autologging")
def test_autologging_makes_no_runs_of_the_members_timed(embedded: Client, name: str) -> None:
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
    before = counts(embedded)
    mlflow.sklearn.autolog(silent=True)
    ens_plugin.autolog(silent=True)
    found = rightsize(f"models:/{name}/1", X, Y, **EASY)
    assert found.savings is not None
    assert found.savings.fit_seconds_per_member is not None
    assert counts(embedded) == Counts(before.runs + 1, before.models + 1, before.versions + 1)


@pytest.fixture
def unchanged(embedded: Client, name: str) -> Iterator[str]:
    """URI of a version; after the test the store has nothing new."""
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
    before = counts(embedded)
    yield f"models:/{name}/1"
    assert counts(embedded) == before


def test_a_model_of_the_right_size_is_left_alone(unchanged: str) -> None:
    found = rightsize(unchanged, X, Y, confidence=0.999)
    assert found.report.recommended_size is not None
    assert found.report.recommended_size >= 60
    assert (found.outcome, found.passed, found.logged) == ("not_needed", True, None)


def test_exactly_the_recommended_size_is_left_alone() -> None:
    report = classification_report()
    size = report.recommended_size
    assert size is not None
    found = rightsize_analysed(SOURCE, None, X, Y, AnalysisOptions(), replace(report, n_members=size), None)
    assert found.outcome == "not_needed"


def test_a_size_that_is_not_known_is_no_answer() -> None:
    report = classification_report()
    unknown = replace(report.recommendation, size=None, values=np.full(report.recommendation.values.shape, np.nan))
    with pytest.raises(InputError, match="recommended size is not available"):
        rightsize_analysed(SOURCE, None, X, Y, AnalysisOptions(), replace(report, recommendation=unknown), None)


def test_a_size_from_a_few_rows_is_no_answer() -> None:
    report = replace(classification_report(), n_rows=29)
    with pytest.raises(InputError, match=r"29 rows are too few .* Pass 30 rows or more"):
        rightsize_analysed(SOURCE, None, X, Y, AnalysisOptions(), report, None)


def test_no_size_large_enough_is_a_no(unchanged: str) -> None:
    found = rightsize(unchanged, X, Y, confidence=0.9999, max_size=101)
    assert (found.outcome, found.passed, found.logged) == ("no_size", False, None)
    assert "not even 101 are enough" in found.sentence


def test_a_cut_that_breaks_the_promise_is_refused(embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    half = RandomForestClassifier(60, random_state=0).fit(X[::2], Y[::2])
    misled = RandomForestClassifier(25, random_state=0).fit(X[::2], np.roll(Y[::2], 100))
    log(Case("sklearn", half, options=CLOUDPICKLE), name)
    before = counts(embedded)
    monkeypatch.setattr("ens_plugin.sizing.sufficient_cut.truncate", lambda model, size: misled)
    found = rightsize(f"models:/{name}/1", X[1::2], Y[1::2], data="holdout", **EASY)
    assert (found.outcome, found.passed, found.logged) == ("refused", False, None)
    assert {check.name: check.passed for check in found.checks} == {"agreement": False, "error": False}
    assert counts(embedded) == before


@pytest.mark.parametrize("wrong", [0, 1])
def test_one_failed_check_is_enough(wrong: int, unchanged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ens_plugin.sizing import checks

    whole = checks.cut_checks

    def one_fails(*arguments: Any) -> Any:
        found = list(whole(*arguments))
        found[wrong] = checks.Check(found[wrong].name, False, None, None, "No.")
        return tuple(found)

    monkeypatch.setattr("ens_plugin.sizing.sufficient_cut.cut_checks", one_fails)
    assert rightsize(unchanged, X, Y, **EASY).outcome == "refused"


def test_what_was_found_about_too_few_members_stands_without_its_remedies(unchanged: str) -> None:
    with pytest.raises(TooFewMembersError) as caught:
        rightsize(unchanged, X, Y, confidence=0.95)
    assert re.fullmatch(
        r"The recommended 3 members cannot be checked on these rows \(\d+ of 569 rows have fewer than 2 out-of-bag "
        r"members \(mean 1\.\d\d\)\)\. Pass held-out rows with data='holdout', or get a larger size by a higher "
        r"confidence or a lower tolerance\.",
        str(caught.value),
    )


def test_members_too_few_to_be_checked_are_not_logged(unchanged: str) -> None:
    with pytest.raises(TooFewMembersError, match=r"1 member cannot be checked on these rows.*higher confidence"):
        rightsize(unchanged, X, Y, confidence=0.8)


def test_a_forbidden_model_is_not_loaded(unchanged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with pytest.raises(ModelLoadError, match="MLFLOW_ALLOW_PICKLE_DESERIALIZATION"):
        rightsize(unchanged, X, Y)


@pytest.mark.parametrize("register", [True, 7, "", " ", "a/b", "a:b"])
def test_names_that_no_registered_model_has(register: Any, unchanged: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a registered model"):
        rightsize(unchanged, X, Y, register=register)


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize("uri", ["forest.joblib", "file:/tmp/forest", "s3://bucket/forest", "/tmp/forest\x1b[2J"])
def test_files_are_for_truncate(uri: str) -> None:
    with pytest.raises(InputError, match=r"ens_plugin\.truncate") as refusal:
        rightsize(uri, X, Y)
    assert "\x1b" not in str(refusal.value)


@pytest.mark.parametrize("source", [RandomForestClassifier(), Path("forest.joblib"), None])
def test_models_in_memory_are_for_truncate(source: Any) -> None:
    with pytest.raises(InputError, match=r"Pass a URI .* ens_plugin\.truncate cuts a model in memory"):
        rightsize(source, X, Y)


@pytest.mark.usefixtures("embedded")
@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("models:/nobody/1", TrackingError),
        ("models:/nobody@champion", TrackingError),
        ("models:/nobody/latest", InputError),
        ("models:/m-0000", ModelLoadError),
        ("runs:/00000000000000000000000000000000/model", ModelLoadError),
    ],
)
def test_models_that_are_not_there(uri: str, error: type[EnsPluginError]) -> None:
    with pytest.raises(error):
        rightsize(uri, X, Y)


def test_an_alias_without_a_version(unchanged: str) -> None:
    with pytest.raises(GateError, match="has the alias 'nobody'"):
        rightsize(unchanged.replace("/1", "@nobody"), X, Y)


@pytest.mark.usefixtures("embedded")
def test_other_flavours_are_named() -> None:
    class Function(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined]
        def predict(self, model_input: list[float]) -> list[float]:
            return model_input

    with mlflow.start_run():
        info = mlflow.pyfunc.log_model(name="function", python_model=Function(), pip_requirements=[])
    with pytest.raises(UnsupportedModelError, match="was logged as python_function"):
        rightsize(info.model_uri, X, Y)


class Aftermath(NamedTuple):
    """What a failure left behind."""

    run: str
    model: str | None
    versions: int


def aftermath(client: Client, name: str) -> Aftermath:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], max_results=1)
    assert run.info.run_name == "rightsize"
    made = run.outputs.model_outputs if run.outputs else []
    status = str(client.get_logged_model(made[0].model_id).status) if made else None
    versions = client.search_model_versions(f"name='{name}'")
    return Aftermath(run.info.status, status, len(versions))


Break = Callable[[pytest.MonkeyPatch], None]


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mlflow.MlflowClient, "log_model_artifacts", fail)


def lost_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mlflow.MlflowClient, "log_artifacts", fail)


def unloadable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: str) -> Any:
        raise ModelLoadError(f"{source} is broken")

    monkeypatch.setattr("ens_plugin.registry.rightsizing.cut_model.load_model", fail)


def changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.registry.rightsizing.cut_model.load_model", lambda source: forest())


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("fault", "error", "model"),
    [
        (full_disk, TrackingError, "FAILED"),
        (lost_report, TrackingError, "READY"),
        (unloadable, ModelLoadError, "FAILED"),
        (changed, ModelLoadError, "FAILED"),
    ],
)
def test_no_version_of_a_model_that_did_not_arrive_whole(
    fault: Break, error: type[EnsPluginError], model: str, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
    fault(monkeypatch)
    with pytest.raises(error):
        rightsize(f"models:/{name}/1", X, Y, **EASY)
    assert aftermath(embedded, name) == Aftermath("FAILED", model, 1)


def impure(n_jobs: int) -> Case:
    forest = RandomForestClassifier(60, min_samples_leaf=3, n_jobs=n_jobs, random_state=0).fit(X, Y)
    return Case("sklearn", forest, options=CLOUDPICKLE)


def impure_regression(n_jobs: int) -> Case:
    forest = RandomForestRegressor(60, min_samples_leaf=3, n_jobs=n_jobs, random_state=0).fit(XR, YR)
    return Case("sklearn", forest, XR, YR, CLOUDPICKLE)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("case", [impure, impure_regression])
def test_threads_that_add_in_another_order_leave_no_failed_run(
    case: Callable[[int], Case], embedded: Client, name: str
) -> None:
    shown = case(2)
    log(shown, name)
    found = rightsize(f"models:/{name}/1", shown.X, shown.y, **EASY)
    assert found.logged is not None
    assert aftermath(embedded, name) == Aftermath("FINISHED", "READY", 2)


@pytest.mark.usefixtures("quick")
def test_a_registry_that_refuses_leaves_the_model_to_be_registered(
    embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)

    def forbidden(*_: object, **__: object) -> None:
        raise mlflow.exceptions.MlflowException("Permission denied")

    monkeypatch.setattr(mlflow, "register_model", forbidden)
    with pytest.raises(TrackingError, match=r"Permission denied.* is logged and checked, as models:/m-"):
        rightsize(f"models:/{name}/1", X, Y, **EASY)
    assert aftermath(embedded, name) == Aftermath("FINISHED", "READY", 1)


@pytest.mark.usefixtures("embedded")
def test_a_dead_server_is_noticed_at_once() -> None:
    mlflow.set_tracking_uri(DOWN)
    with pytest.raises(TrackingError, match="cannot be reached"):
        rightsize("models:/churn/1", X, Y)


def test_the_sentence_hides_control_characters() -> None:
    assert "\x1b" not in Rightsizing("models:/a\x1b[2J/1", "logged", classification_report()).sentence


def cut_to(report: EnsembleReport, n_members: int) -> EnsembleReport:
    return replace(report, n_members=n_members)


def test_printed_it_tells_what_became_of_the_model() -> None:
    report = classification_report()
    checks = (
        Check("agreement", True, 0.99, 0.99, "Both give the same label."),
        Check("error", False, 0.05, 0.04, "It errs more."),
    )
    found = Rightsizing(
        "models:/churn/7", "logged", report, cut_to(report, 59), checks, None, LoggedCut("abc", "m-1", "churn", "8")
    )
    text = " ".join(str(found).split())
    size = report.recommended_size
    assert text == (
        f"models:/churn/7: 200 members cut to the {size} recommended. {report.recommendation.reason} "
        "Passed: Both give the same label. FAILED: It errs more. Logged as models:/m-1, by run abc. "
        "Registered as version 8 of churn; no alias was moved."
    )
    assert max(map(len, str(found).splitlines())) <= 80
    assert "Not registered; use register='NAME'" in str(replace(found, logged=LoggedCut("abc", "m-1")))
    assert "200 members cut to 61, where 59 were recommended" in replace(found, cut_report=cut_to(report, 61)).sentence
    left_alone = Rightsizing("models:/a\x1b[2J/1", "not_needed", report)
    assert "the reports on smaller models recommend more" in left_alone.sentence
    assert "Logged as" not in str(left_alone)
    assert "\x1b" not in str(left_alone)
