"""What `ens-plugin rightsize` prints and how it exits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mlflow
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.cli import main
from ens_plugin.registry import Rightsizing
from ens_plugin.registry.rightsizing import LoggedCut
from ens_plugin.report.result import Costs, LinearCost
from ens_plugin.sizing.truncate import Check
from tests.registry.registry import stub_artifacts
from tests.reports import HOSTILE_STRINGS, classification_report
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, new_store, tracking_to

pytestmark = MLFLOW_WARNINGS

ROOT = Path(__file__).parents[2]
WANTED = ("--criterion", "agreement", "--tolerance", "0.03")
MODEL_ID, RUN_ID = f"m-{'0123456789abcdef' * 2}", "0123456789abcdef" * 2
COSTS = Costs(200, LinearCost(0.0, 40_000.0), LinearCost(0.0, 2e-4), LinearCost(0.0, 1e-7), 1000)
CHECKS = (
    Check("agreement", True, 0.98, 0.99, "51 members and all 200 give the same label on 98.00 % of these rows."),
    Check("error", False, 0.05, 0.04, "51 members: 0-1 error 5.00 %."),
)


def outcome(source: str = "models:/churn/7", name: str | None = "churn", version: str | None = "8") -> Rightsizing:
    report = classification_report()
    logged = LoggedCut(RUN_ID, MODEL_ID, name, version)
    cut_report = replace(report, n_members=119)
    return Rightsizing(source, "logged", report, cut_report, CHECKS, COSTS, logged)


def test_text_tells_what_changed_and_where_it_is() -> None:
    text = outcome().summary()
    size = classification_report().recommended_size
    assert text.startswith(f"models:/churn/7: 200 members cut to the {size} recommended.\n")
    assert re.search("current +200 +8 MB +40 ms", text)
    assert "Passed: 51 members and all 200" in text
    assert "FAILED: 51 members: 0-1 error 5.00 %." in text
    assert f"Logged as models:/{MODEL_ID}" in text
    assert "Registered as version 8 of churn; no alias was moved." in text


def test_a_model_that_was_not_registered_says_how() -> None:
    text = outcome(name=None, version=None).summary()
    assert "Not registered; name a registered model by `register`" in text


@pytest.mark.parametrize("outcome_of", ["not_needed", "no_size", "refused"])
def test_nothing_logged_says_so(outcome_of: Any) -> None:
    report = classification_report()
    found = Rightsizing("models:/churn/7", outcome_of, report)
    for shown in (found.summary(), found.to_markdown()):
        assert "nothing logged" in " ".join(shown.split()).lower()
        assert "Logged as" not in shown
    assert json.loads(found.to_json())["model"] is None


@pytest.mark.parametrize("hostile", [*HOSTILE_STRINGS, "models:/" + "name " * 60 + "/7"])
def test_names_are_shown_and_do_nothing(hostile: str) -> None:
    found = outcome(hostile, hostile)
    text, markdown = found.summary(), found.to_markdown()
    assert max(map(len, text.splitlines())) <= 80
    for shown in (text, markdown):
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", shown)
    for markup in ("<script", "<img", "</svg", "](", "`tick`", "*star*"):
        assert markup not in markdown
    assert len(markdown.splitlines()) == len(outcome().to_markdown().splitlines())
    assert json.loads(found.to_json())["source"] == hostile


def test_json_has_the_documented_fields_and_no_others() -> None:
    content = json.loads(outcome().to_json())
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    section = text[text.index("## `ens-plugin rightsize --format json`") :]
    documented = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)))
    assert set(documented) == {*content, *content["model"]}
    assert set(content["checks"][0]) == {"name", "passed", "value", "limit", "sentence"}


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(
    embedded_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    stub_artifacts(monkeypatch)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X.assign(diagnosis=y).to_parquet("train.parquet")

    def run(model: str, *arguments: str, uri: str = embedded_store) -> Outcome:
        rows = ("--data", "train.parquet", "--target", "diagnosis")
        with tracking_to(None), pytest.raises(SystemExit) as end:
            main(["rightsize", model, *rows, "--tracking-uri", uri, *arguments])
        return Outcome(int(end.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def embedded_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store with one version of a forest."""
    directory = tmp_path_factory.mktemp("store")
    uri = new_store(directory)
    mlflow.MlflowClient(tracking_uri=uri).create_experiment("tests", artifact_location=(directory / "a").as_uri())
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    with tracking_to(uri):
        mlflow.set_experiment("tests")
        mlflow.sklearn.log_model(
            RandomForestClassifier(60, random_state=0).fit(X, y), name="forest", serialization_format="cloudpickle",
            pip_requirements=[], registered_model_name="cancer",
        )  # fmt: skip
    return uri


@pytest.mark.slow
def test_a_cut_is_a_yes_and_so_is_nothing_to_cut(run: Run, embedded_store: str) -> None:
    first = run("models:/cancer/1", *WANTED, "--format", "json")
    assert (first.code, first.err) == (0, "")
    content = json.loads(first.out)
    made = content["model"]
    assert (content["outcome"], made["name"]) == ("logged", "cancer")
    client = mlflow.MlflowClient(embedded_store)
    assert client.get_model_version("cancer", made["version"]).tags["ens.parent"] == "models:/cancer/1"
    second = run(f"models:/cancer/{made['version']}", *WANTED, "--register", "other")
    assert (second.code, second.err) == (0, "")
    assert "Nothing to cut" in second.out
    assert [model.name for model in client.search_registered_models()] == ["cancer"]


def test_no_size_large_enough_is_a_no(run: Run) -> None:
    found = run("models:/cancer/1", "--tolerance", "0.0001", "--max-size", "101")
    assert (found.code, found.err) == (1, "")
    assert "not even 101 are sure to be enough" in found.out


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("forest.joblib", (), "ens_plugin.truncate"),
        ("models:/nobody/1", (), "refused the call"),
        ("models:/cancer/1", ("--register", "a/b"), "cannot be the name of a registered model"),
        ("models:/cancer/1", ("--criterion", "agreement", "--tolerance", "0.3"), "pass held-out rows with --holdout"),
    ],
)
def test_what_cannot_be_told_is_no_answer(model: str, arguments: tuple[str, ...], message: str, run: Run) -> None:
    found = run(model, *arguments)
    assert (found.code, found.out) == (2, "")
    # Lines break where the path of the store lets them.
    assert message.lower() in " ".join(found.err.lower().split())
    assert "Traceback" not in found.err


def test_a_dead_server_is_no_answer(run: Run) -> None:
    found = run("models:/cancer/1", uri=DOWN)
    assert (found.code, found.out) == (2, "")
    assert "cannot be reached" in found.err


def test_a_failed_check_is_a_no(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.sizing.truncate.cut_checks", lambda *_: (replace(CHECKS[1], passed=False),))
    found = run("models:/cancer/1", *WANTED)
    assert found.code == 1
    assert "FAILED: 51 members" in found.out
    assert "nothing logged" in " ".join(found.out.split()).lower()
