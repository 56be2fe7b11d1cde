from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import joblib
import mlflow
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.cli import main
from ens_plugin.cli.inputs import OPTIONS
from ens_plugin.cli.main import cli
from ens_plugin.report.answers import three_answers
from tests.registry.registry import stub_artifacts
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, linked_metrics, new_store, tracking_to

pytestmark = MLFLOW_WARNINGS

COMMANDS = ("demo", "analyze", "recommend", "gate", "rightsize", "agreement")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture(scope="module")
def store_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests here.

    MLflow keeps a store per URI, so the relative default works in one directory per process only.
    """
    return new_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def run(
    workshop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Run a command in an empty directory with the workshop's files beside it, and nothing configured."""
    for file in workshop.iterdir():
        (tmp_path / file.name).symlink_to(file)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return Outcome(int(end.value.code or 0), *capsys.readouterr())

    with tracking_to(None):
        yield run


CANCER = ("cancer.joblib", "--data", "cancer.csv", "--target", "diagnosis")
LONG = "x" * 300
DIABETES = ("diabetes.joblib", "--data", "diabetes.csv", "--target", "progression")


def cancer_report() -> EnsembleReport:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    return ens_plugin.analyze(joblib.load("cancer.joblib"), X, y)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str, run: Run) -> None:
    outcome = run(command, "--help")
    assert outcome.code == 0
    assert f"Example:\n    ens-plugin {command}" in outcome.out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_into_80_columns_without_cut_sentences(command: str, run: Run) -> None:
    shown = run(*filter(None, [command]), "--help").out.splitlines()
    assert max(map(len, shown)) <= 80
    assert not [line for line in shown[1:] if line.endswith("...")]


@pytest.mark.parametrize("command", ["analyze", "recommend", "gate", "rightsize", "agreement"])
def test_help_says_that_loading_runs_code(command: str, run: Run) -> None:
    assert "runs code stored in it" in " ".join(run(command, "--help").out.split())


def test_defaults_are_those_of_analyze() -> None:
    api = {name: parameter.default for name, parameter in inspect.signature(ens_plugin.analyze).parameters.items()}
    options = {parameter.name: parameter.default for parameter in cli.commands["analyze"].params}
    shared = ("criterion", "tolerance", "max_size", "random_state")
    assert {name: options[name] for name in shared} == {name: api[name] for name in shared}
    assert set(shared) <= set(OPTIONS)


def test_analyze_prints_the_summary_and_nothing_else(run: Run) -> None:
    outcome = run("analyze", *CANCER)
    assert outcome == Outcome(0, cancer_report().summary().rstrip() + "\n", "")


def test_json_is_the_same_report_as_in_python(run: Run) -> None:
    outcome = run("analyze", *CANCER, "--format", "json")
    expected = cancer_report().to_dict()
    printed = EnsembleReport.from_json(outcome.out).to_dict()
    assert {**printed, "created": ""} == {**expected, "created": ""}


def test_version_is_that_of_the_package(run: Run) -> None:
    assert run("--version") == Outcome(0, f"ens-plugin {ens_plugin.__version__}\n", "")


def test_markdown_is_a_table(run: Run) -> None:
    assert "|---" in run("analyze", *CANCER, "--format", "markdown").out.replace(" ", "")


def test_options_reach_the_analysis(run: Run, tmp_path: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    unlike = X * np.random.default_rng(0).normal(1.0, 0.2, X.shape)
    unlike.assign(diagnosis=y).to_parquet(tmp_path / "unlike.parquet")
    outcome = run(
        "analyze", "cancer.joblib", "--data", "unlike.parquet", "--target", "diagnosis", "--format", "json",
        "--criterion", "agreement", "--tolerance", "0.02", "--max-size", "5001", "--n-jobs", "2", "--holdout",
    )  # fmt: skip
    report = EnsembleReport.from_json(outcome.out)
    assert (report.recommendation.criterion, report.recommendation.tolerance) == ("agreement", 0.02)
    assert report.recommendation.max_size == 5001
    assert report.data == "holdout"


def test_a_regression_without_feature_names(run: Run) -> None:
    report = EnsembleReport.from_json(run("analyze", *DIABETES, "--format", "json", "--tolerance", "0.02").out)
    assert report.task == "regression"
    assert report.recommendation.tolerance == 0.02 * report.recommendation.limit


@pytest.mark.slow
def test_a_weight_column_is_no_feature(run: Run, tmp_path: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X.assign(diagnosis=y, weight=np.linspace(1, 2, len(y))).to_parquet(tmp_path / "weighted.parquet")
    arguments = ("cancer.joblib", "--data", "weighted.parquet", "--target", "diagnosis")
    assert run("analyze", *arguments, "--sample-weight", "weight").code == 0
    unweighted = run("analyze", *arguments)
    assert unweighted.code == 0
    assert "not trained on the column weight, which is left out" in " ".join(unweighted.err.split())


def test_a_group_column_is_no_feature(run: Run, tmp_path: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    groups = np.arange(len(y)) // 2
    X.assign(diagnosis=y, patient=groups).to_parquet(tmp_path / "grouped.parquet")
    arguments = ("cancer.joblib", "--data", "grouped.parquet", "--target", "diagnosis", "--groups")
    report = EnsembleReport.from_json(run("analyze", *arguments, "patient", "--format", "json").out)
    assert report.basis.n_groups == 285
    assert report.error == ens_plugin.analyze(joblib.load("cancer.joblib"), X, y, groups=groups).error
    refused = run("analyze", *arguments, "patients")
    assert refused.code == 2
    assert "There is no group column 'patients' in the data. Did you mean 'patient'?" in " ".join(refused.err.split())


def test_files_are_written_beside_the_result(run: Run, tmp_path: Path) -> None:
    outcome = run("analyze", *CANCER, "--json", "r.json", "--html", "r.html", "--format", "json")
    assert (tmp_path / "r.json").read_text(encoding="utf-8") == outcome.out.rstrip("\n")
    assert "<svg" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not (tmp_path / "mlflow.db").exists()


def test_recommend_answers_yes_and_no_by_its_exit_code(run: Run) -> None:
    yes = run("recommend", *CANCER)
    assert yes.code == 0
    assert " ".join(yes.out.split()) == " ".join(
        f"{each.question} {each.text}" for each in three_answers(cancer_report())
    )
    assert yes.out.startswith(f"More trees? Yes, {cancer_report().recommended_size} in total: ")
    no = run("recommend", *CANCER, "--tolerance", "0.0001", "--max-size", "101")
    assert no.code == 1
    assert no.out.startswith("More trees? Yes, more than 101: ")


def test_the_agreement_can_be_that_on_rows_without_labels(run: Run) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    forest = RandomForestClassifier(60, random_state=0).fit(X[:300], y[:300])
    joblib.dump(forest, "first.joblib")
    X[:300].assign(diagnosis=y[:300]).to_csv("first.csv", index=False)
    # Columns that are no features may be missing, or there.
    X[300:].assign(diagnosis="?").to_csv("today.csv", index=False)
    first = ("first.joblib", "--data", "first.csv", "--target", "diagnosis")
    outcome = run("analyze", *first, "--unlabelled", "today.csv", "--format", "json")
    report = EnsembleReport.from_json(outcome.out)
    expected = ens_plugin.analyze(forest, X[:300], y[:300], unlabelled=X[300:])
    assert report.basis.n_unlabelled == 269
    assert report.recommendation.agreement == expected.recommendation.agreement
    refused = run("recommend", *first, "--unlabelled", "first.csv")
    assert refused.code == 2
    assert "Of the rows passed as unlabelled: These rows, or many of them" in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("limits", "code", "found"),
    [
        (("--max-megabytes", "1000", "--max-latency-ms", "1e6"), 0, "1 GB and 1e+03 s allow all 60 trees, and up to "),
        (("--max-megabytes", "0.1"), 1, "100 kB allow 2"),
        (("--max-megabytes", "0.0001"), 1, "0.1 kB allow not even one tree, which takes "),
    ],
)
def test_recommend_judges_bytes_and_latency_by_its_exit_code(
    limits: tuple[str, ...], code: int, found: str, run: Run
) -> None:
    outcome = run("recommend", *CANCER, *limits)
    assert outcome.code == code
    assert found in outcome.out


@pytest.mark.parametrize("option", ["--max-megabytes", "--max-latency-ms"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "0", "much"])
def test_limits_are_finite_numbers_above_0(option: str, value: str, run: Run) -> None:
    outcome = run("recommend", *CANCER, option, value)
    assert outcome.code == 2
    assert option in outcome.err


def test_few_rows_are_not_enough_for_a_size(run: Run, tmp_path: Path) -> None:
    lines = (tmp_path / "cancer.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "few.csv").write_text("".join([lines[0], *lines[15:25]]), encoding="utf-8")
    few = ("cancer.joblib", "--data", "few.csv", *CANCER[3:], "--holdout")
    outcome = run("recommend", *few, "--max-size-ratio", "100")
    assert outcome.code == 2
    assert outcome.out.startswith("More trees? That cannot be told: 10 rows are too few.\n")


@pytest.mark.slow
def test_recommend_for_machines_and_for_pull_requests(run: Run) -> None:
    content = json.loads(run("recommend", *CANCER, "--format", "json").out)
    assert content["size"] == cancer_report().recommended_size
    assert content["n_members"] == 60
    assert "values" not in content
    assert "**" in run("recommend", *CANCER, "--format", "markdown").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gone.joblib", *CANCER[1:]), "There is no file 'gone.joblib'"),
        (("dict.joblib", *CANCER[1:]), "not a model"),
        (("cancer.csv", *CANCER[1:]), "could not be read as a model"),
        (("cancer.joblib", "--data", "gone.csv", "--target", "y"), "There is no data file 'gone.csv'"),
        (("cancer.joblib", "--data", "cancer.joblib", "--target", "y"), "no format that can be read"),
        (("cancer.joblib", "--data", "cancer.csv", "--target", "diagnos"), "Did you mean 'diagnosis'?"),
        (("cancer.joblib", "--data", "diabetes.csv", "--target", "age"), "missing: mean radius"),
        ((*CANCER, "--tolerance", "-0.3"), "tolerance"),
        ((*CANCER, "--tolerance", "much"), "Invalid value for '--tolerance'"),
        ((*CANCER, "--html", "no/such/place.html"), "there is no directory 'no/such'"),
        ((*CANCER, "--html", f"{LONG}.html"), "File name too long"),
        ((*CANCER, "--json", f"{LONG}.json"), "File name too long"),
        ((*CANCER, "--html", f"{LONG}/page.html"), "there is no directory"),
        (("cancer.joblib", "--data", f"{LONG}.csv", "--target", "y"), "There is no data file"),
        ((f"{LONG}.joblib", *CANCER[1:]), "File name too long"),
        ((*CANCER, "--run-id", "abc"), "Add --log"),
        ((*CANCER, "--log", "--run-id", "abc", "--experiment", "e"), "Leave out --experiment"),
        (("cancer.joblib",), "Missing option '--data'"),
    ],
)
def test_what_keeps_the_answer_away_is_one_message_and_exit_code_2(
    arguments: tuple[str, ...], message: str, run: Run, tmp_path: Path
) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    outcome = run("analyze", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert message in " ".join(outcome.err.split())
    assert all(len(line) <= 80 or " " not in line for line in outcome.err.splitlines())
    assert "Traceback" not in outcome.err
    assert {path.name for path in tmp_path.iterdir()} == before


def test_forbidden_pickles_are_not_loaded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    outcome = run("recommend", *CANCER)
    assert (outcome.code, outcome.out) == (2, "")
    assert "MLFLOW_ALLOW_PICKLE_DESERIALIZATION" in outcome.err


def test_rows_in_another_order_are_refused(run: Run) -> None:
    outcome = run("analyze", "cancer.joblib", "--data", "cancer.parquet", "--target", "diagnosis", "--holdout")
    assert outcome.code == 2
    assert "Leave out --holdout, with all training rows in training order" in " ".join(outcome.err.split())
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    forest = RandomForestClassifier(60, random_state=0, oob_score=True).fit(X, y)
    joblib.dump(forest, "scored.joblib")
    outcome = run("analyze", "scored.joblib", "--data", "cancer.parquet", "--target", "diagnosis")
    assert outcome.code == 2
    assert "training" in outcome.err


@pytest.mark.slow
def test_log_makes_a_run_or_continues_one(run: Run, store_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)
    log = ("analyze", *CANCER, "--log", "--tracking-uri", store_uri)
    outcome = run(*log, "--experiment", "mine")
    assert outcome.code == 0
    assert outcome.out == cancer_report().summary().rstrip() + "\n"
    (line,) = outcome.err.splitlines()
    run_id = line.split()[3]
    client = mlflow.MlflowClient(store_uri)
    logged = client.get_run(run_id)
    assert client.get_experiment(logged.info.experiment_id).name == "mine"
    assert logged.data.metrics["ens.recommended_size"] == cancer_report().recommended_size
    assert run(*log, "--run-id", run_id).err == outcome.err
    assert len(client.search_runs([logged.info.experiment_id])) == 1


def test_a_logged_model_is_analysed_and_gets_its_scalars(run: Run, store_uri: str) -> None:
    with tracking_to(store_uri):
        mlflow.set_experiment("models")
        info = mlflow.sklearn.log_model(
            joblib.load("cancer.joblib"), name="f", serialization_format="cloudpickle", pip_requirements=[]
        )
    arguments = (*CANCER[1:], "--log", "--tracking-uri", store_uri)
    assert run("analyze", info.model_uri, *arguments).code == 0
    linked = linked_metrics(mlflow.MlflowClient(store_uri), info.model_id)
    assert {"ens.accuracy", "ens.recommended_size"} <= set(linked)
    assert "ens/accuracy" not in linked
    refused = run("analyze", "models:/nobody/1", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert "could not load a model from models:/nobody/1" in refused.err


@pytest.mark.slow
def test_report_on_a_model_that_is_known_by_its_run_goes_there(
    run: Run, store_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub_artifacts(monkeypatch)
    client = mlflow.MlflowClient(store_uri)
    run_id = client.create_run("0").info.run_id
    mlflow.sklearn.save_model(
        joblib.load("cancer.joblib"), "saved", serialization_format="cloudpickle", pip_requirements=[]
    )
    client.log_artifacts(run_id, "saved", "model")
    client.create_registered_model("old")
    client.create_model_version("old", f"{client.get_run(run_id).info.artifact_uri}/model", run_id)
    Path("policy.toml").write_text("[report]\nerror.max = 0.5\n")
    store = ("--tracking-uri", store_uri)
    for source in (f"runs:/{run_id}/model", "models:/old/1"):
        logged = run("analyze", source, *CANCER[1:], "--log", *store)
        assert logged.code == 0
        assert f"Logged to run {run_id} at" in logged.err
    assert run("gate", "models:/old/1", "--policy", "policy.toml", *store).out.startswith("PASS")
    assert run_id not in run("analyze", source, *CANCER[1:], "--log", "--experiment", "other", *store).err


@pytest.mark.slow
def test_a_dead_server_costs_the_logging_but_not_the_report(run: Run, tmp_path: Path) -> None:
    outcome = run("analyze", *CANCER, "--json", "saved.json", "--log", "--tracking-uri", DOWN)
    assert outcome.code == 2
    assert outcome.out == cancer_report().summary().rstrip() + "\n"
    assert "cannot be reached" in outcome.err
    assert "Traceback" not in outcome.err
    EnsembleReport.from_json((tmp_path / "saved.json").read_text(encoding="utf-8"))


def test_a_defect_of_ours_is_no_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("defect")

    monkeypatch.setattr("ens_plugin.analysis.analyze.run_analysis", broken)
    outcome = run("recommend", *CANCER)
    assert outcome.code == 2
    assert "Please report it" in outcome.err


def test_an_interruption_is_no_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ens_plugin.analysis.analyze.run_analysis", interrupted)
    assert run("recommend", *CANCER).code == 130


def test_demo_trains_nothing_if_the_server_is_down(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.cli.demo.demonstrations", pytest.fail)
    outcome = run("demo", "--tracking-uri", DOWN)
    assert (outcome.code, outcome.out) == (2, "")
    assert "cannot be reached" in outcome.err


def test_metric_by_name(run: Run) -> None:
    outcome = run("recommend", *CANCER, "--metric", "roc_auc", "--tolerance", "0.01")
    assert outcome.code == 0
    assert outcome.out.startswith("More trees? No, fewer: 9 give roc_auc 0.987 instead of 0.993 ")
    assert "How good?   roc_auc 0.993 on new rows" in outcome.out
    outcome = run("analyze", *CANCER, "--metric", "roc_auk")
    assert outcome.code == 2
    assert "near are 'roc_auc'" in " ".join(outcome.err.split())
    assert run("analyze", *DIABETES, "--metric", "roc_auc").code == 2


def test_positive_label_of_a_metric(run: Run) -> None:
    named = [
        run("analyze", *CANCER, "--metric", "recall", "--positive-label", label, "--format", "json") for label in "01"
    ]
    values = [json.loads(outcome.out)["error_curve"]["asymptote"] for outcome in named]
    assert [outcome.code for outcome in named] == [0, 0]
    assert values[0] != values[1]
    outcome = run("recommend", *CANCER, "--metric", "recall", "--positive-label", "2")
    assert outcome.code == 2
    assert "not one of the two labels of this ensemble, [0, 1]" in " ".join(outcome.err.split())
    outcome = run("recommend", *CANCER, "--positive-label", "1")
    assert (outcome.code, "Add --metric." in outcome.err) == (2, True)
