"""Texts of a csv file that look like missing values or numbers are read as the model's training had them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, TargetEncoder

from ens_plugin.cli import read_table, rows_for_model
from ens_plugin.errors import InputError
from tests.extras import lightgbm, xgboost

RNG = np.random.default_rng(0)
TEXTS = ["region", "code", "flag"]
X = pd.DataFrame(
    {
        "region": RNG.choice(["NA", "EU", "null"], 200).astype(object),
        "code": RNG.choice(["1", "2", "3"], 200).astype(object),
        "flag": RNG.choice(["True", "False"], 200).astype(object),
        "x": np.where(np.arange(200) % 9, RNG.normal(size=200), np.nan),
    }
)
Y = ((X["region"] == "NA") ^ (X["code"] == "2") ^ (RNG.random(200) < 0.1)).astype(int)
FOREST = RandomForestClassifier(20, random_state=0)
ONE_HOT = OneHotEncoder(handle_unknown="ignore")


def columns_encoded(encoder: Any, columns: Any = TEXTS) -> Any:
    return make_pipeline(make_column_transformer((encoder, columns), remainder="passthrough"), FOREST)


MODELS: dict[str, Any] = {
    "one-hot, by name": columns_encoded(ONE_HOT),
    "one-hot, by position": columns_encoded(ONE_HOT, [0, 1, 2]),
    "ordinal, by a slice": columns_encoded(OrdinalEncoder(), slice(0, 3)),
    "ordinal, by a function": columns_encoded(OrdinalEncoder(), lambda frame: [True, True, True, False]),
    "means of the target": columns_encoded(TargetEncoder()),
    "after an imputer": columns_encoded(make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder())),
    "of all columns": make_pipeline(ONE_HOT, FOREST),
    "in a search": GridSearchCV(columns_encoded(ONE_HOT), {"randomforestclassifier__max_depth": [5]}, cv=2),
}


def read_again(frame: pd.DataFrame, model: Any, folder: Path) -> pd.DataFrame:
    path = folder / "rows.csv"
    frame.assign(y=Y).to_csv(path, index=False)
    return rows_for_model(read_table(path), model, target="y", path=str(path)).X


@pytest.mark.parametrize("name", MODELS)
def test_texts_that_an_encoder_was_trained_on_are_read_as_texts(name: str, tmp_path: Path) -> None:
    rows = read_again(X, MODELS[name].fit(X, Y), tmp_path)
    for column in TEXTS:
        assert rows[column].tolist() == X[column].tolist()


def test_categories_of_boosters_are_those_texts(tmp_path: Path) -> None:
    table = X.astype(dict.fromkeys(TEXTS, "category"))
    grown = {"subsample": 0.6, "subsample_freq": 1, "min_child_samples": 2, "verbose": -1}
    for forest in (
        lightgbm.LGBMClassifier(boosting_type="rf", n_estimators=10, random_state=0, **grown).fit(table, Y),
        xgboost.XGBRFClassifier(n_estimators=10, enable_categorical=True, random_state=0).fit(table, Y),
    ):
        rows = read_again(X, forest, tmp_path)
        assert [rows[column].tolist() for column in TEXTS] == [X[column].tolist() for column in TEXTS]
        np.testing.assert_array_equal(forest.predict_proba(rows), forest.predict_proba(table))


def test_what_was_missing_number_or_truth_value_in_training_is_so_again(tmp_path: Path) -> None:
    """The same file: whether "NA" is a text is a property of the training, not of the file."""
    missing = X["region"].isin(["NA", "null"])
    as_read = X.assign(region=X["region"].mask(missing), code=X["code"].astype(int), flag=X["flag"] == "True")
    pipeline = columns_encoded(ONE_HOT).fit(as_read, Y)
    rows = read_again(X, pipeline, tmp_path)
    pd.testing.assert_frame_equal(rows.astype(object), as_read.astype(object))
    np.testing.assert_array_equal(pipeline.predict_proba(rows), pipeline.predict_proba(as_read))


def test_empty_cells_are_missing_beside_texts(tmp_path: Path) -> None:
    some = X.assign(region=X["region"].mask(np.arange(200) % 7 == 0))
    rows = read_again(some, columns_encoded(ONE_HOT).fit(some, Y), tmp_path)
    assert rows["region"].isna().tolist() == some["region"].isna().tolist()
    assert rows["region"].dropna().tolist() == some["region"].dropna().tolist()


def test_a_text_of_which_the_model_shows_nothing_is_refused_and_no_other_is(tmp_path: Path) -> None:
    own = make_pipeline(FunctionTransformer(lambda frame: (frame == "EU").astype(float)), FOREST).fit(X, Y)
    with pytest.raises(InputError, match=r"'region' .* has the text 'NA', .* Leave the cells of missing .* parquet"):
        read_again(X, own, tmp_path)
    plain = X.assign(region=X["region"].replace({"NA": "US", "null": None}))
    assert read_again(plain, own, tmp_path)["region"].isna().sum() == (X["region"] == "null").sum()
    dropping = make_pipeline(make_column_transformer(("drop", ["region"]), ("passthrough", ["x", "code"])), FOREST)
    assert read_again(X, dropping.fit(X, Y), tmp_path).shape == X.shape
