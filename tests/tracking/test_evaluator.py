from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, analyze
from ens_plugin.errors import DataMismatchError, EnsPluginError, InputError, UnsupportedModelError
from ens_plugin.tracking.digest import DIGEST_TAG, data_digest
from ens_plugin.tracking.evaluator import EnsembleEvaluator
from tests.registry.registry import Version, stub_artifacts
from tests.tracking.stores import MLFLOW_WARNINGS, linked_metrics

pytestmark = MLFLOW_WARNINGS

Client = mlflow.MlflowClient

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
FOREST = RandomForestClassifier(40, random_state=0).fit(X[:400], Y[:400])
TRAIN = X[:400].assign(benign=Y[:400])
TEST = X[400:].assign(benign=Y[400:])
REPORT = analyze(FOREST, X[400:], Y[400:], data="holdout")
SCALARS = {f"ens.{name}": value for name, value in REPORT.metrics().items()}
ON = {"enabled": True}

KINDS: dict[str, Callable[[Version], Any]] = {
    "LoggedModel": lambda version: f"models:/{version.model_id}",
    "version": lambda version: version.uri,
    "alias": lambda version: f"models:/{version.name}@champion",
    "run": lambda version: f"runs:/{version.run_id}/forest",
    "pyfunc": lambda version: mlflow.pyfunc.load_model(version.uri),
}


@pytest.fixture(autouse=True)
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch, "evaluator")


def log_forest(client: Client, name: str) -> Version:
    with mlflow.start_run() as run:
        info = mlflow.sklearn.log_model(
            FOREST, name="forest", serialization_format="cloudpickle", pip_requirements=["scikit-learn"],
            registered_model_name=name, signature=mlflow.models.infer_signature(X.head(), Y.head()),
        )  # fmt: skip
    version = Version(name, str(info.registered_model_version), run.info.run_id, info.model_id)
    client.set_registered_model_alias(name, "champion", version.version)
    return version


@pytest.fixture(scope="module")
def registered() -> list[Version]:
    return []


@pytest.fixture
def version(embedded: Client, registered: list[Version]) -> Version:
    if not registered:
        registered.append(log_forest(embedded, "evaluated"))
    return registered[0]


def evaluate(model: Any, rows: Any = TEST, **config: Any) -> Any:
    return mlflow.models.evaluate(
        model, rows, targets="benign", model_type="classifier", evaluators="ensemble", evaluator_config={**ON, **config}
    )


def read_report(client: Client, run_id: str, folder: str = "ensemble") -> EnsembleReport:
    with open(client.download_artifacts(run_id, f"{folder}/report.json"), encoding="utf-8") as file:
        return EnsembleReport.from_json(file.read())


def test_mlflow_knows_it_by_its_names() -> None:
    from mlflow.models.evaluation import list_evaluators

    assert {"ensemble", "ens_plugin"} <= {*list_evaluators()}


@pytest.mark.parametrize(
    ("named", "config", "key"),
    [
        ("ensemble", None, "ens.accuracy"),
        (["ensemble"], None, "ens.accuracy"),
        ("ens_plugin", {"metric": "roc_auc"}, "ens.roc_auc"),
        (["ens_plugin"], {"ens_plugin": {"metric": "roc_auc"}}, "ens.roc_auc"),
    ],
)
def test_it_runs_where_it_is_named(named: Any, config: Any, key: str, version: Version) -> None:
    with mlflow.start_run():
        found = mlflow.models.evaluate(
            version.uri, TEST, targets="benign", model_type="classifier", evaluators=named, evaluator_config=config
        )
    assert key in found.metrics


def test_named_and_switched_off_it_does_not_run(version: Version) -> None:
    with pytest.raises(mlflow.exceptions.MlflowException, match="could not be evaluated"):
        evaluate(version.uri, enabled=False)


def test_a_configuration_for_all_evaluators_logs_one_report(
    embedded: Client, version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    ours = {name: registry._registry[name] for name in ("ensemble", "ens_plugin")}
    monkeypatch.setattr(registry, "_registry", ours)
    with mlflow.start_run() as run:
        mlflow.models.evaluate(version.uri, TEST, targets="benign", model_type="classifier", evaluator_config=ON)
    assert len(embedded.get_metric_history(run.info.run_id, "ens.accuracy")) == 1


@pytest.mark.fast_cases("LoggedModel", "pyfunc")
@pytest.mark.parametrize("kind", KINDS)
def test_scalars_are_logged_and_linked_once_whatever_names_the_model(
    kind: str, embedded: Client, version: Version
) -> None:
    before = linked_metrics(embedded, version.model_id)
    with mlflow.start_run() as run:
        result = evaluate(KINDS[kind](version))
    assert result.metrics == pytest.approx(SCALARS, rel=1e-12)
    logged = embedded.get_run(run.info.run_id).data.metrics
    assert {key: logged[key] for key in SCALARS} == pytest.approx(SCALARS, rel=1e-12)
    assert all(len(embedded.get_metric_history(run.info.run_id, key)) == 1 for key in SCALARS)
    linked = linked_metrics(embedded, version.model_id)
    assert {key: len(linked[key]) - len(before.get(key, [])) for key in SCALARS} == dict.fromkeys(SCALARS, 1)
    assert read_report(embedded, run.info.run_id).data == "holdout"


def test_the_report_comes_back_as_an_artifact(embedded: Client, version: Version) -> None:
    with mlflow.start_run() as run:
        result = evaluate(version.uri)
    artifact = result.artifacts["ensemble/report.json"]
    assert artifact.content == read_report(embedded, run.info.run_id).to_dict()
    assert artifact.uri == f"{run.info.artifact_uri}/ensemble/report.json"
    assert mlflow.artifacts.load_dict(artifact.uri) == artifact.content


@pytest.mark.parametrize("config", [None, {}, {"enabled": False}, {"log_model_explainability": False}])
def test_it_stays_out_of_evaluations_that_do_not_ask_for_it(config: Any) -> None:
    assert not EnsembleEvaluator.can_evaluate(model_type="classifier", evaluator_config=config)
    assert EnsembleEvaluator.can_evaluate(model_type="classifier", evaluator_config={**(config or {}), **ON})


def test_mlflow_datasets_and_other_orders_of_columns(version: Version) -> None:
    data = mlflow.data.from_pandas(TEST[TEST.columns[::-1]], targets="benign")
    with mlflow.start_run():
        result = mlflow.models.evaluate(
            version.uri, data, model_type="classifier", evaluators=["ensemble"], evaluator_config={"ensemble": ON}
        )
    assert result.metrics == pytest.approx(SCALARS, rel=1e-12)


def test_options_reach_the_analysis_and_the_log(embedded: Client, version: Version) -> None:
    with mlflow.start_run() as run:
        evaluate(version.uri, criterion="agreement", tolerance=0.03, max_size=5001, prefix="march")
    report = read_report(embedded, run.info.run_id, "ensemble/march")
    assert (report.recommendation.tolerance, report.recommendation.max_size) == (0.03, 5001)
    assert "march.accuracy" in embedded.get_run(run.info.run_id).data.metrics


class TestDigest:
    @pytest.fixture(autouse=True)
    def own_version(self, embedded: Client, version: Version) -> Any:
        yield
        if DIGEST_TAG in embedded.get_logged_model(version.model_id).tags:
            embedded.delete_logged_model_tag(version.model_id, DIGEST_TAG)
        if DIGEST_TAG in embedded.get_run(version.run_id).data.tags:
            embedded.delete_tag(version.run_id, DIGEST_TAG)

    @pytest.mark.fast_cases("model")
    @pytest.mark.parametrize("place", ["model", "run"])
    def test_training_rows_are_judged_out_of_bag_where_the_digest_agrees(
        self, place: str, embedded: Client, version: Version
    ) -> None:
        digest = data_digest(X[:400], Y[:400])
        if place == "model":
            embedded.set_logged_model_tags(version.model_id, {DIGEST_TAG: digest})
        else:
            embedded.set_tag(version.run_id, DIGEST_TAG, digest)
        with mlflow.start_run() as run:
            result = evaluate(version.uri, TRAIN, data="oob")
        assert result.metrics["ens.accuracy"] == pytest.approx(1.0 - analyze(FOREST, X[:400], Y[:400]).error)
        assert read_report(embedded, run.info.run_id).data == "oob"
        with pytest.raises(DataMismatchError, match="These are the rows"):
            evaluate(version.uri, TRAIN)

    def test_other_rows_and_another_order_are_refused(self, embedded: Client, version: Version) -> None:
        embedded.set_logged_model_tags(version.model_id, {DIGEST_TAG: data_digest(X[:400], Y[:400])})
        for rows in (TRAIN[::-1], TRAIN[:399], TEST):
            with pytest.raises(DataMismatchError, match="recorded at training"):
                evaluate(version.uri, rows, data="oob")

    def test_without_a_recorded_digest_nobody_can_confirm_it(self, version: Version) -> None:
        with pytest.raises(DataMismatchError, match="no digest was recorded at training"):
            evaluate(version.uri, TRAIN, data="oob")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"dtaa": "oob"}, "'dtaa', .*did you mean 'data'"),
        ({"data": "training"}, "use 'holdout' or 'oob'"),
        ({"prefix": "a/b"}, "cannot start the names"),
        ({"tolerance": -0.2}, "tolerance"),
    ],
)
def test_wrong_options_are_named(config: dict[str, Any], message: str, version: Version) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(version.uri, **config)


@pytest.mark.parametrize(
    ("kind", "message", "arguments"),
    [
        (InputError, "model=None has none", {"model": None, "predictions": "predicted"}),
        (UnsupportedModelError, "gives no access to the model inside it", {"model": lambda rows: np.zeros(len(rows))}),
        (InputError, "no targets", {"targets": None, "model_type": "ensemble"}),
    ],
)
def test_what_has_no_members_or_no_targets_is_refused(
    kind: type[EnsPluginError], message: str, arguments: dict[str, Any], version: Version
) -> None:
    options = {"model": version.uri, "targets": "benign", "model_type": "classifier", **arguments}
    data = TEST.assign(predicted=TEST["benign"]) if options["model"] is None else TEST
    with pytest.raises(kind, match=message):
        mlflow.models.evaluate(data=data, evaluators="ensemble", evaluator_config=ON, **options)


def test_a_failed_evaluation_leaves_a_failed_run(embedded: Client, version: Version) -> None:
    with pytest.raises(InputError), mlflow.start_run() as run:
        evaluate(version.uri, data="training")
    assert embedded.get_run(run.info.run_id).info.status == "FAILED"
    assert embedded.get_run(run.info.run_id).data.metrics == {}


@pytest.mark.usefixtures("embedded")
def test_the_lines_of_the_documentation(version: Version) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "mlflow.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    (block,) = (each for each in blocks if "mlflow.models.evaluate" in each)
    # The default evaluator of MLflow imports libraries for longer than all else takes.
    names = {"mlflow": mlflow, "test": TEST.rename(columns={"benign": "churned"})}
    exec(block.replace("models:/churn@champion", version.uri).replace('"default", ', ""), names)
    assert {"ens.roc_auc", "ens.recommended_size"} <= names["result"].metrics.keys()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of all that MLflow's own evaluator imports
def test_beside_mlflows_own_evaluator(embedded: Client, version: Version) -> None:
    config = {"ensemble": ON, "default": {"log_model_explainability": False}}
    with mlflow.start_run() as run:
        result = mlflow.models.evaluate(
            version.uri, TEST, targets="benign", model_type="classifier", evaluator_config=config
        )
    assert {"accuracy_score", "ens.accuracy"} <= {*result.metrics}
    assert {"accuracy_score", "ens.accuracy"} <= {*embedded.get_run(run.info.run_id).data.metrics}


@pytest.mark.fast_cases("category")
@pytest.mark.parametrize("kind", ["boolean", "category"])
def test_nullable_and_categorical_targets_give_the_same_figures(kind: str, embedded: Client) -> None:
    words = np.array(["no", "yes"])
    labels = Y.astype("boolean") if kind == "boolean" else pd.Series(pd.Categorical(words[Y], ["unused", *words]))
    labels.index = Y.index
    with mlflow.start_run():
        forest = RandomForestClassifier(40, random_state=0).fit(X[:400], labels[:400])
        # Without requirements, MLflow loads the model in another process to find them: five seconds.
        logged = mlflow.sklearn.log_model(
            forest, name="forest", serialization_format="cloudpickle", pip_requirements=["scikit-learn"]
        )
        found = evaluate(mlflow.pyfunc.load_model(logged.model_uri), X[400:].assign(benign=labels[400:]))
    assert found.metrics == pytest.approx(SCALARS, rel=1e-12)
