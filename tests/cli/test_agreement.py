"""`ens-plugin agreement` prints what `agreement` returns, and judges it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joblib
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin.cli import main

X, Y = load_breast_cancer(return_X_y=True, as_frame=True)
FOREST = RandomForestClassifier(50, random_state=0).fit(X[:300], Y[:300])
ARGUMENTS = ("agreement", "forest.joblib", "--data", "today.csv")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    joblib.dump(FOREST, "forest.joblib")
    X[300:].to_csv("today.csv", index=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, " ".join(err.split())

    return run


def expected() -> ens_plugin.Agreement:
    return ens_plugin.agreement(FOREST, X[300:].reset_index(drop=True))


def test_without_a_demand_the_result_is_printed(run: Any) -> None:
    assert run(*ARGUMENTS) == (0, f"{expected()}\n", "")


@pytest.mark.parametrize(("least", "code", "verdict"), [("0.9", 0, "met"), ("0.9999", 1, "not met")])
def test_a_demand_decides_the_exit_code(least: str, code: int, verdict: str, run: Any) -> None:
    found, out, err = run(*ARGUMENTS, "--min", least)
    assert (found, err) == (code, "")
    assert out.endswith(f"% wanted: {verdict}.\n")


def test_json_is_printed_alone_and_saved(run: Any) -> None:
    code, out, err = run(*ARGUMENTS, "--min", "0.9", "--format", "json", "--json", "saved.json", "--html", "page.html")
    assert (code, err) == (0, "")
    assert out == f"{Path('saved.json').read_text()}\n"
    assert json.loads(out) == json.loads(expected().to_json())
    assert Path("page.html").read_text(encoding="utf-8") == expected().to_html()


def test_columns_that_the_model_does_not_know_are_left_out(run: Any) -> None:
    X[300:].assign(label=Y[300:]).to_csv("today.csv", index=False)
    code, out, err = run(*ARGUMENTS)
    assert (code, out) == (0, f"{expected()}\n")
    assert "not trained on the column label" in err


def test_few_rows_decide_nothing(run: Any) -> None:
    X[300:320].to_csv("today.csv", index=False)
    code, out, _ = run(*ARGUMENTS, "--min", "0.5")
    assert code == 2
    assert "not judged, because of the warning" in out


def test_what_has_no_agreement_is_refused_in_a_sentence(run: Any) -> None:
    joblib.dump(RandomForestRegressor(5, random_state=0).fit(X[:300], Y[:300]), "forest.joblib")
    code, out, err = run(*ARGUMENTS)
    assert (code, out) == (2, "")
    assert err.startswith("Error: This RandomForestRegressor predicts values")


def test_training_rows_are_refused(run: Any) -> None:
    X[:300].to_csv("today.csv", index=False)
    code, _, err = run(*ARGUMENTS)
    assert code == 2
    assert "rows the model was trained on" in err


def test_lists_and_values_are_judged_too(run: Any) -> None:
    rows = X[300:].reset_index(drop=True)
    code, out, err = run(*ARGUMENTS, "--top", "150", "--label", "1", "--min", "0.2")
    assert (code, err) == (0, "")
    assert out.startswith(str(ens_plugin.agreement(FOREST, rows, top=150, label=1)))
    code, out, err = run(*ARGUMENTS, "--within", "5 %")
    assert (code, out, err) == (0, f"{ens_plugin.agreement(FOREST, rows, within='5 %')}\n", "")
    assert run(*ARGUMENTS, "--top", "300")[0] == 2
