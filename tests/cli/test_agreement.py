"""`ens-plugin agreement` prints what `agreement` returns, and judges it."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from tests.cli.conftest import Outcome, Run

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
FOREST = RandomForestClassifier(50, random_state=0).fit(X[:300], Y[:300])
ARGUMENTS = ("agreement", "forest.joblib", "--data", "today.csv")


@pytest.fixture(autouse=True)
def files(run: Run) -> None:
    joblib.dump(FOREST, "forest.joblib")
    X[300:].to_csv("today.csv", index=False)


def expected() -> ens_plugin.Agreement:
    return ens_plugin.agreement(FOREST, X[300:].reset_index(drop=True))


def test_without_a_demand_the_result_is_printed(run: Run) -> None:
    assert run(*ARGUMENTS) == Outcome(0, f"{expected()}\n", "")


@pytest.mark.parametrize(("least", "code", "verdict"), [("0.9", 0, "met"), ("0.9999", 1, "not met")])
def test_a_demand_decides_the_exit_code(least: str, code: int, verdict: str, run: Run) -> None:
    found, out, err = run(*ARGUMENTS, "--min", least)
    assert (found, err) == (code, "")
    assert out.endswith(f"% wanted: {verdict}.\n")


def test_json_is_printed_alone_and_saved(run: Run) -> None:
    code, out, err = run(*ARGUMENTS, "--min", "0.9", "--format", "json", "--json", "saved.json", "--html", "page.html")
    assert (code, err) == (0, "")
    assert out == f"{Path('saved.json').read_text()}\n"
    assert json.loads(out) == json.loads(expected().to_json())
    assert Path("page.html").read_text(encoding="utf-8") == expected().to_html()


def test_columns_that_the_model_does_not_know_are_left_out(run: Run) -> None:
    X[300:].assign(label=Y[300:]).to_csv("today.csv", index=False)
    outcome = run(*ARGUMENTS)
    assert (outcome.code, outcome.out) == (0, f"{expected()}\n")
    assert "not trained on the column label" in outcome.said


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        (X[300:320], ("--min", "0.5"), "not judged, because of the warning"),
        (X[:300], (), "rows the model was trained on"),
    ],
    ids=["few rows", "training rows"],
)
def test_few_rows_and_training_rows_decide_nothing(
    rows: pd.DataFrame, arguments: tuple[str, ...], message: str, run: Run
) -> None:
    rows.to_csv("today.csv", index=False)
    outcome = run(*ARGUMENTS, *arguments)
    assert outcome.code == 2
    assert message in outcome.out + outcome.said


def test_what_has_no_agreement_is_refused_in_a_sentence(run: Run) -> None:
    joblib.dump(RandomForestRegressor(5, random_state=0).fit(X[:300], Y[:300]), "forest.joblib")
    outcome = run(*ARGUMENTS)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.said.startswith("Error: This RandomForestRegressor predicts values")


def test_lists_and_values_are_judged_too(run: Run) -> None:
    rows = X[300:].reset_index(drop=True)
    outcome = run(*ARGUMENTS, "--top", "150", "--label", "1", "--min", "0.2")
    assert (outcome.code, outcome.said) == (0, "")
    assert outcome.out.startswith(str(ens_plugin.agreement(FOREST, rows, top=150, label=1)))
    outcome = run(*ARGUMENTS, "--within", "5 %")
    assert (outcome.code, outcome.out) == (0, f"{ens_plugin.agreement(FOREST, rows, within='5 %')}\n")
    assert run(*ARGUMENTS, "--top", "300").code == 2
