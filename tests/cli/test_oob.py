"""`ens-plugin oob` writes what `oob_predictions` returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.cli import read_table
from ens_plugin.oob import predictions
from tests.cli.conftest import Run

IRIS, KIND = load_iris(return_X_y=True, as_frame=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[KIND]
TABLE = IRIS.assign(kind=NAMES)
FOREST = RandomForestClassifier(30, max_samples=0.3, random_state=0).fit(IRIS, NAMES)
ARGUMENTS = ("oob", "forest.joblib", "--data", "rows.csv", "--target", "kind")


@pytest.fixture(autouse=True)
def files(run: Run) -> None:
    joblib.dump(FOREST, "forest.joblib")
    TABLE.to_csv("rows.csv", index=False)


@pytest.mark.parametrize("path", ["preds.csv", "preds.parquet", "preds.pq"])
def test_file_holds_the_frame_to_the_bit(path: str, run: Run) -> None:
    code, out, err = run(*ARGUMENTS, "--out", path)
    expected = ens_plugin.oob_predictions(FOREST, IRIS, NAMES).to_frame()
    assert (code, err) == (0, "")
    members = expected["n_members"]
    assert out == (
        f"Wrote 150 rows to {path}: {members.min()} to {members.max()} out-of-bag members each, "
        f"{members.mean():.3g} on average.\n"
    )
    pd.testing.assert_frame_equal(read_table(path), expected, check_exact=True, check_dtype=False)


@pytest.mark.parametrize("path", ["preds.csv", "preds.parquet"])
def test_rows_without_members_have_empty_cells(path: str, run: Run) -> None:
    small = RandomForestClassifier(2, random_state=0).fit(IRIS, KIND)
    joblib.dump(small, "forest.joblib")
    IRIS.assign(kind=KIND).to_csv("rows.csv", index=False)
    code, out, _ = run(*ARGUMENTS, "--out", path)
    written = read_table(path)
    missing = written["n_members"] == 0
    assert code == 0
    assert f"{missing.sum()} have none, and no prediction." in out
    assert written.loc[missing, ["label", "value_0", "value_1", "value_2"]].isna().all(axis=None)
    assert written.loc[~missing, "label"].isin([0, 1, 2]).all()


def test_values_and_a_column_of_weights_and_of_groups(run: Run) -> None:
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    groups = np.arange(len(y)) // 2
    model = RandomForestRegressor(30, max_samples=0.3, random_state=0).fit(X, y)
    joblib.dump(model, "forest.joblib")
    X.assign(kind=y, weight=1.0, patient=groups).to_csv("rows.csv", index=False)
    code, _, _ = run(*ARGUMENTS, "--sample-weight", "weight", "--groups", "patient", "--out", "preds.parquet")
    assert code == 0
    expected = ens_plugin.oob_predictions(model, X, y, groups=groups).to_frame()
    pd.testing.assert_frame_equal(read_table("preds.parquet"), expected, check_exact=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*ARGUMENTS, "--out", "preds.xlsx"), "neither .csv nor .parquet"),
        ((*ARGUMENTS, "--out", "rows.csv"), "names the file with the rows"),
        ((*ARGUMENTS, "--out", "gone/preds.csv"), "there is no directory 'gone'"),
        (ARGUMENTS, "Missing option '--out'"),
        ((*ARGUMENTS, "--out", "preds.csv", "--holdout"), "No such option"),
        ((*ARGUMENTS[:-1], "kinds", "--out", "preds.csv"), "Did you mean 'kind'?"),
        (("oob", "gone.joblib", *ARGUMENTS[2:], "--out", "preds.csv"), "There is no file 'gone.joblib'"),
        ((*ARGUMENTS[:3], "shuffled.csv", *ARGUMENTS[4:], "--out", "preds.csv"), "not the rows the model was trained"),
    ],
)
def test_without_a_result_nothing_is_written(arguments: tuple[str, ...], message: str, run: Run) -> None:
    TABLE.iloc[::-1].to_csv("shuffled.csv", index=False)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_an_old_file_stays_if_the_predictions_fail(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("defect")

    Path("preds.csv").write_text("old")
    monkeypatch.setattr(predictions, "oob_predictions", broken)
    assert run(*ARGUMENTS, "--out", "preds.csv")[0] == 2
    assert Path("preds.csv").read_text() == "old"


@pytest.mark.fast_cases("rows.csv-Int64", "rows.parquet-category")
@pytest.mark.parametrize("kind", ["boolean", "Int64", "string", "category"])
@pytest.mark.parametrize("path", ["rows.csv", "rows.parquet"])
def test_target_of_every_kind_of_column_gives_the_same_figures(path: str, kind: str, run: Run) -> None:
    labels: Any = pd.Series(KIND == 2)
    if kind in ("string", "category"):
        labels = pd.Series(np.where(labels, "virginica", "other"))
    labels = labels.astype(kind)
    forest = RandomForestClassifier(30, max_samples=0.3, random_state=0)
    expected = ens_plugin.analyze(forest.fit(IRIS, KIND == 2), IRIS, KIND == 2).metrics()
    joblib.dump(forest.fit(IRIS, labels), "forest.joblib")
    table = IRIS.assign(kind=labels)
    table.to_csv(path, index=False) if path.endswith("csv") else table.to_parquet(path)
    code, out, _ = run("analyze", "forest.joblib", "--data", path, "--target", "kind", "--format", "json")
    assert (code, EnsembleReport.from_json(out).metrics()) == (0, expected)


def test_missing_label_of_a_file_is_named_by_its_row(run: Run) -> None:
    TABLE.assign(kind=TABLE["kind"].mask(np.arange(150) == 7)).to_csv("rows.csv", index=False)
    code, _, err = run("analyze", *ARGUMENTS[1:])
    assert code == 2
    assert "y holds 1 missing value (None, NaN, pandas.NA or infinite), in row 7;" in " ".join(err.split())
