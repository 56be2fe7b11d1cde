"""A logged ensemble becomes a smaller one beside it, or nothing happens at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.registry import Rightsizing, rightsize
from ens_plugin.registry.rightsizing import LoggedCut
from ens_plugin.sizing.truncate import Check
from ens_plugin.tracking.digest import DIGEST_TAG
from ens_plugin.tracking.models import load_model
from tests.registry.rightsizing.cases import (
    CLOUDPICKLE,
    EASY,
    XR,
    YR,
    Case,
    Client,
    Counts,
    X,
    Y,
    counts,
    forest,
    log,
    report_on_forest,
)
from tests.tracking.stores import MLFLOW_WARNINGS, linked_metrics

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("plain")]


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


FEWER: dict[str, Any] = {"tolerance": 0.02}
CASES: dict[str, Callable[[], Case]] = {
    "forest": lambda: Case("sklearn", forest(), options=CLOUDPICKLE),
    "forest in skops": lambda: Case("sklearn", forest(), options=skops()),
    "pipeline": lambda: Case("sklearn", pipeline(), options=CLOUDPICKLE),
    "regression": lambda: Case(
        "sklearn", RandomForestRegressor(60, random_state=0).fit(XR, YR), XR, YR, CLOUDPICKLE, {"criterion": "error"}
    ),
    "lightgbm": lambda: Case("lightgbm", lightgbm_forest(), wanted=FEWER),
    "lightgbm booster": lambda: Case("lightgbm", lightgbm_forest().booster_, wanted=FEWER),
    "xgboost": lambda: Case("xgboost", xgboost_forest(), options={"model_format": "json"}, wanted=FEWER),
    "xgboost booster": lambda: Case("xgboost", xgboost_forest().get_booster(), wanted=FEWER),
}


def skops() -> dict[str, Any]:
    if not hasattr(mlflow.sklearn, "SERIALIZATION_FORMAT_SKOPS"):
        pytest.skip("this MLflow has no skops format: pip install -U mlflow")
    return {"serialization_format": "skops", "skops_trusted_types": ["sklearn.tree._tree.Tree"]}


def requirements(uri: str) -> list[str]:
    return (Path(mlflow.artifacts.download_artifacts(uri)) / "requirements.txt").read_text().splitlines()


def outputs(model: Any, rows: Any) -> Any:
    if type(model).__module__.startswith("xgboost") and type(model).__name__ == "Booster":
        return model.inplace_predict(rows)
    return model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_nullable_and_categorical_labels_give_the_same_size(embedded: Client, name: str) -> None:
    words = pd.Series(pd.Categorical(np.array(["no", "yes"])[Y], categories=["unused", "yes", "no"]), index=Y.index)
    found = [
        rightsize(log(Case("sklearn", forest().fit(X, y), X, y, CLOUDPICKLE), None).model_uri, X, y, **EASY).report
        for y in (Y, words, pd.Series(Y, dtype="boolean"))
    ]
    forest.cache_clear()
    assert found[0].metrics() == found[1].metrics() == found[2].metrics()


@pytest.mark.fast_cases("forest", "lightgbm booster")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", CASES)
def test_a_smaller_version_of_the_same_kind(kind: str, embedded: Client, name: str) -> None:
    case = CASES[kind]()
    source = log(case, name)
    wanted = {**EASY, **case.wanted}
    found = rightsize(f"models:/{name}/1", case.X, case.y, **wanted)
    assert (found.outcome, found.passed) == ("logged", True)
    assert found.logged is not None
    assert (found.logged.name, found.logged.version) == (name, "2")

    assert found.cut_report is not None
    size = found.cut_report.n_members
    assert found.report.recommended_size is not None
    # Few members may find themselves too few.
    assert found.report.recommended_size <= size < found.report.n_members == 60
    assert found.cut_report.is_enough
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


@pytest.mark.slow
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
    assert found.costs is not None
    assert linked["ens.accuracy"] == [1.0 - found.cut_report.error]
    assert linked["ens.n_members"] == [size]
    assert linked["ens.rightsize.n_members_before"] == [60]
    assert linked["ens.rightsize.bytes_before"] == [found.costs.bytes.at(60)]
    assert linked["ens.rightsize.bytes_after"] == [found.costs.bytes.at(size)]
    assert linked["ens.rightsize.latency_after"] == [found.costs.latency.at(size)]
    assert "ens.rightsize.agreement" not in linked
    assert embedded.get_logged_model(source.model_id).metrics in (None, [])


def _artifacts(client: Client) -> str:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    return str(experiment.artifact_location)


@pytest.mark.slow
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
def test_rows_in_lists_and_a_pipeline_with_a_function_of_no_module_are_taken(embedded: Client, name: str) -> None:
    own_step = FunctionTransformer(lambda rows: rows)
    model = make_pipeline(own_step, RandomForestClassifier(60, random_state=0)).fit(X.to_numpy(), Y)
    log(Case("sklearn", model, options=CLOUDPICKLE), name)
    found = rightsize(f"models:/{name}/1", X.to_numpy().tolist(), Y.tolist(), **EASY)
    assert found.outcome == "logged"
    assert found.costs is not None
    assert found.costs.batch_rows == len(Y)


@pytest.mark.usefixtures("quick")
def test_held_out_rows_and_weights_reach_both_analyses(embedded: Client, name: str) -> None:
    half = RandomForestClassifier(60, random_state=0).fit(X[::2], Y[::2])
    log(Case("sklearn", half, options=CLOUDPICKLE), name)
    weight = np.where(np.arange(len(Y[1::2])) < 200, 1.0, 0.0)
    found = rightsize(f"models:/{name}/1", X[1::2], Y[1::2], data="holdout", sample_weight=weight, **EASY)
    assert found.cut_report is not None
    assert (found.report.data, found.cut_report.data) == ("holdout", "holdout")
    assert (found.report.n_rows, found.cut_report.n_rows) == (200, 200)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.usefixtures("autologging")
def test_autologging_makes_no_runs_of_the_members_timed(embedded: Client, name: str) -> None:
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
    before = counts(embedded)
    mlflow.sklearn.autolog(silent=True)
    ens_plugin.autolog(silent=True)
    found = rightsize(f"models:/{name}/1", X, Y, **EASY)
    assert found.costs is not None
    assert counts(embedded) == Counts(before.runs + 1, before.models + 1, before.versions + 1)


def test_the_sentence_hides_control_characters() -> None:
    assert "\x1b" not in Rightsizing("models:/a\x1b[2J/1", "logged", report_on_forest()).sentence


def cut_to(report: EnsembleReport, n_members: int) -> EnsembleReport:
    return replace(report, n_members=n_members)


def test_printed_it_tells_what_became_of_the_model() -> None:
    report = report_on_forest()
    checks = (
        Check("agreement", True, 0.99, 0.99, "Both give the same label."),
        Check("error", False, 0.05, 0.04, "It errs more."),
    )
    size = report.recommended_size
    assert size is not None
    found = Rightsizing(
        "models:/churn/7", "logged", report, cut_to(report, size), checks, None, LoggedCut("abc", "m-1", "churn", "8")
    )
    text = " ".join(str(found).split())
    assert text == (
        f"models:/churn/7: 60 members cut to the {size} recommended. {report.recommendation.reason} "
        "Passed: Both give the same label. FAILED: It errs more. Logged as models:/m-1, by run abc. "
        "Registered as version 8 of churn; no alias was moved."
    )
    assert max(map(len, str(found).splitlines())) <= 80
    assert "Not registered; name a registered model" in str(replace(found, logged=LoggedCut("abc", "m-1")))
    larger = replace(found, cut_report=cut_to(report, size + 2)).sentence
    assert f"60 members cut to {size + 2}, where {size} were recommended: smaller models were not enough" in larger
    left_alone = Rightsizing("models:/a\x1b[2J/1", "not_needed", report)
    assert "no smaller model is enough by its own report" in left_alone.sentence
    assert "Logged as" not in str(left_alone)
    assert "\x1b" not in str(left_alone)
