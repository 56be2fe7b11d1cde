from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.cli import inputs as table_files
from ens_plugin.cli.registry import RowFile, rows_from_file
from tests.cli.conftest import Run
from tests.registry.registry import (
    Version,
    lines,
    log_linked,
    register,
    report_with_error,
    stub_artifacts,
    tags_of,
    verdict_of,
)
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, new_store, tracking_to

pytestmark = MLFLOW_WARNINGS

REPORT = report_with_error(1.0)
LOOSE = "[report]\nerror_upper.max = 0.9\n"
STRICT = "[report]\nerror_upper.max = 0.001\n"


@pytest.mark.parametrize("is_exact", [True, False])
def test_rows_of_a_csv_file_are_read_as_pandas_does_by_default_too(
    is_exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, frame = tmp_path / "rows.csv", pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20) % 2})
    frame.to_csv(path, index=False)
    # Stands for the options of a pandas whose default is not exact.
    options = {} if is_exact else {"converters": {"x": lambda text: float(text) + 0.25}}
    monkeypatch.setattr(table_files, "_exact_floats", lambda _: options)
    model = RandomForestClassifier(2, random_state=0).fit(frame[["x"]], frame["y"])
    rows = rows_from_file(str(path), RowFile("y", holdout=False, drop=(), features=()))
    assert rows is not None
    assert rows.source(model)[0]["x"].tolist() == (frame["x"] + 0.25 * (not is_exact)).tolist()
    assert (rows.other_source is None) == is_exact
    if rows.other_source is not None:
        assert rows.other_source(model)[0]["x"].tolist() == frame["x"].tolist()


@pytest.fixture(scope="module")
def store_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("store")
    uri = new_store(directory)
    client = mlflow.MlflowClient(tracking_uri=uri)
    client.create_experiment("tests", artifact_location=(directory / "artifacts").as_uri())
    return uri


@pytest.fixture
def client(store_uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[mlflow.MlflowClient]:
    stub_artifacts(monkeypatch)
    with tracking_to(store_uri):
        yield mlflow.MlflowClient()


@pytest.fixture
def churn(client: mlflow.MlflowClient, request: pytest.FixtureRequest) -> Version:
    return register(client, f"churn-{request.node.name}"[:60].replace("/", ""), REPORT)


@pytest.fixture
def run(run: Run) -> Run:
    Path("loose.toml").write_text(LOOSE)
    Path("strict.toml").write_text(STRICT)
    return partial(run, "gate")


def test_audit_lines_go_to_stderr_where_asked(run: Run, churn: Version, client: mlflow.MlflowClient) -> None:
    outcome = run(churn.uri, "--policy", "loose.toml", "--promote", "champion", "--audit-log", "-")
    assert outcome.code == 0
    assert outcome.out.startswith(f"PASS: version 1 of {churn.name} meets the policy sha256:")
    assert outcome.out.endswith("Alias 'champion' points at version 1.\n")
    assert [line["event"] for line in lines(outcome.err)] == ["decision", "intent", "promotion"]
    assert verdict_of(tags_of(client, churn)) == "pass"
    assert str(client.get_model_version_by_alias(churn.name, "champion").version) == "1"


def test_the_five_lines_of_the_documentation(run: Run, churn: Version) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "gate.md"
    block = page.read_text(encoding="utf-8").split("```sh\necho")[1].split("```")[0]
    *policy, command = f"echo{block}".strip().splitlines()
    assert len(policy) == 4
    Path("policy.toml").write_text("\n".join(policy).removeprefix("echo '").removesuffix("' > policy.toml"))
    program, verb, *arguments = command.replace("models:/churn/7", churn.uri).split()
    assert (program, verb) == ("ens-plugin", "gate")
    assert run(*arguments).code == 0
    text = Path("policy.toml").read_text()
    assert "size_ratio.max = 5" in text
    Path("policy.toml").write_text(text.replace("size_ratio.max = 5", "size_ratio.max = 1.5"))
    assert run(*arguments).code == 1  # too large: 200 members where 119 are recommended


def test_a_fail_is_exit_code_1(run: Run, churn: Version, client: mlflow.MlflowClient) -> None:
    outcome = run(churn.uri, "--policy", "strict.toml", "--promote", "champion", "--audit-log", "gate.jsonl")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("FAIL: version 1 ")
    assert lines(Path("gate.jsonl").read_text())[0]["verdict"] == "fail"
    assert client.get_registered_model(churn.name).aliases == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("models:/nobody/1", "--policy", "loose.toml"), "not found"),
        (("models:/nobody/1", "--policy", "gone.toml"), "no policy file 'gone.toml'"),
        (("models:/nobody/1",), "Missing option '--policy'"),
        (("nobody", "--policy", "loose.toml"), "is not the URI of a registered version"),
        (("models:/nobody/1", "--policy", "loose.toml", "--holdout"), "Add --data"),
        (("models:/nobody/1", "--policy", "loose.toml", "--target", "y"), "Add --data"),
        (("models:/nobody/1", "--policy", "loose.toml", "--drop", "id"), "Add --data"),
        (("models:/nobody/1", "--policy", "loose.toml", "--data", "x.csv"), "needs --target"),
        (("models:/nobody/1", "--policy", "loose.toml", "--data", "x.csv", "--target", "y"), "no data file 'x.csv'"),
        (("models:/nobody/1", "--policy", "loose.toml", "--audit-log", "no/such.jsonl"), "cannot be written"),
    ],
)
def test_what_cannot_be_told_is_exit_code_2(
    arguments: tuple[str, ...], message: str, run: Run, client: mlflow.MlflowClient
) -> None:
    outcome = run(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_a_dead_server_is_exit_code_2_within_seconds_with_an_audit_line(run: Run) -> None:
    with tracking_to(None):
        outcome = run("models:/churn/7", "--policy", "loose.toml", "--tracking-uri", DOWN, "--audit-log", "-")
    assert (outcome.code, outcome.out) == (2, "")
    audit, *message = outcome.err.splitlines()
    assert json.loads(audit)["event"] == "error"
    assert " ".join(message).startswith("Error: The MLflow tracking server at http://127.0.0.1:9 cannot be reached")


@pytest.mark.fast_cases("markdown")
@pytest.mark.parametrize("style", ["json", "markdown"])
def test_formats(style: str, run: Run, churn: Version) -> None:
    outcome = run(churn.uri, "--policy", "strict.toml", "--format", style)
    assert outcome.code == 1
    if style == "json":
        assert json.loads(outcome.out)["verdict"] == "fail"
    else:
        assert outcome.out.startswith("**FAIL: version 1 of churn")


def test_options_reach_the_gate(run: Run, client: mlflow.MlflowClient, churn: Version) -> None:
    log_linked(client, report_with_error(2.0), churn.run_id, churn.model_id, prefix="shifted")
    Path("policy.toml").write_text("[report]\nerror.max = 0.9\n[baseline]\nno_worse = true\n")
    champion = register(client, churn.name, report_with_error(0.5))
    client.set_registered_model_alias(churn.name, "champion", champion.version)
    log_linked(client, report_with_error(0.5), champion.run_id, champion.model_id, prefix="shifted")
    outcome = run(churn.uri, "--policy", "policy.toml", "--baseline", "champion", "--prefix",
                  "shifted", "--format", "json")  # fmt: skip
    checks = json.loads(outcome.out)["checks"]
    assert checks[0]["value"] == report_with_error(2.0).error
    assert checks[1]["name"] == "error_increase_lower"


@pytest.mark.slow
def test_data_from_a_file_are_split_as_each_model_wants_them(run: Run, client: mlflow.MlflowClient) -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    registered: list[Any] = []
    for forest in (RandomForestClassifier(30, random_state=0), RandomForestClassifier(30, random_state=1)):
        features = X if not registered else X[X.columns[::-1]]
        with mlflow.start_run(experiment_id=client.get_experiment_by_name("tests").experiment_id):  # type: ignore[union-attr]
            registered.append(
                mlflow.sklearn.log_model(
                    forest.fit(features[:400], y[:400]), name="forest", serialization_format="cloudpickle",
                    pip_requirements=[], registered_model_name="cancer",
                )
            )  # fmt: skip
    X[400:].assign(diagnosis=y[400:]).to_csv("test.csv", index=False)
    Path("policy.toml").write_text("[report]\nerror.max = 0.2\n[baseline]\nno_worse = true\n")
    arguments = ("models:/cancer/2", "--policy", "policy.toml", "--baseline", "models:/cancer/1", "--data", "test.csv",
                 "--target", "diagnosis", "--format", "json")  # fmt: skip
    outcome = run(*arguments, "--holdout")
    assert outcome.code == 0
    assert json.loads(outcome.out)["comparison"] == "version 1 of cancer, by paired differences on 169 held-out rows"
    assert run(*arguments).code == 2  # these are not the training rows


def test_the_patience_with_servers_ends_with_the_command(
    run: Run, churn: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7")
    before, seen = dict(os.environ), {}

    def look(*arguments: Any) -> Any:
        seen.update(os.environ)
        raise ens_plugin.errors.GateError("enough seen")

    monkeypatch.setattr("ens_plugin.cli.registry.run_gate", look)
    assert run(churn.uri, "--policy", "loose.toml").code == 2
    assert (seen["MLFLOW_HTTP_REQUEST_MAX_RETRIES"], seen["MLFLOW_HTTP_REQUEST_TIMEOUT"]) == ("2", "7")
    assert dict(os.environ) == before
