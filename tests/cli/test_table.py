"""Tables from files, with the columns, labels and texts that the model was trained on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, TargetEncoder

from ens_plugin.cli import read_table, rows_for_model
from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError
from tests.extras import lightgbm, xgboost

FRAME = pd.DataFrame({"b": [1.5, 2.5], "a": [3, 4], "w": [1.0, 2.0], "y": ["no", "yes"]})


def model(**attributes: Any) -> SimpleNamespace:
    return SimpleNamespace(**attributes)


def named(*names: str) -> SimpleNamespace:
    return model(feature_names_in_=np.array(names, dtype=object), n_features_in_=len(names))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV", "t.tsv", "t.tsv.gz", "t.parquet", "t.pq", "t.feather"])
def test_every_format_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if "sv" in name.lower():
        FRAME.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    elif "feather" in name:
        FRAME.to_feather(path)
    else:
        FRAME.to_parquet(path)
    pd.testing.assert_frame_equal(read_table(path), FRAME)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_csv_numbers_keep_every_bit(tmp_path_factory: pytest.TempPathFactory, value: float) -> None:
    path = tmp_path_factory.getbasetemp() / "bits.csv"
    pd.DataFrame({"a": [value]}).to_csv(path, index=False)
    assert float(read_table(path)["a"].iloc[0]) == value


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "cannot be read: No columns"),
        ("t.csv", b"a,b\n", "has no rows"),
        ("t.csv", b'a,b\n1,2\n1,2,3,4\n"', "cannot be read"),
        ("t.csv", b"\xff\xfe\x00\x01", "cannot be read.*UTF-8"),
        ("t.parquet", b"not parquet at all", "cannot be read.*really parquet"),
        ("t.feather", b"not feather at all", "cannot be read.*really feather"),
        ("t.tsv", b"a\tb\n", "has no rows"),
        ("t.xlsx", b"PK", "Convert the file to csv, tsv, parquet or feather"),
        ("t.csv.gz", b"not gzip", "cannot be read"),
    ],
)
def test_unreadable_files_say_why(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / name)


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.parquet").mkdir()
    for name, words in (("train.parquet", r"train\.parquet' is a folder"), ("gone.csv", r"no data file .*gone\.csv")):
        with pytest.raises(InputError, match=words):
            read_table(tmp_path / name)


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz", "zip"])
@pytest.mark.parametrize("damage", ["cut off", "changed", "not compressed"])
def test_a_damaged_compressed_file_says_so(ending: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.csv.{ending}"
    pd.DataFrame({"a": np.random.default_rng(0).normal(size=2000)}).to_csv(path, index=False)
    content = bytearray(path.read_bytes())
    if damage == "changed":
        content[200:220] = bytes(20)
    shown = {"cut off": content[: len(content) // 2], "changed": content, "not compressed": b"a\n1.5\n"}[damage]
    path.write_bytes(shown)
    with pytest.raises(InputError, match=r"cannot be read.*Check that it is complete"):
        read_table(path)


def test_features_follow_the_models_order_and_the_frame_stays_as_it_was() -> None:
    before = FRAME.copy()
    rows = rows_for_model(FRAME, named("a", "b"), target="y", sample_weight="w")
    assert list(rows.X.columns) == ["a", "b"]
    assert rows.y.tolist() == ["no", "yes"]
    assert rows.sample_weight is not None
    assert rows.sample_weight.tolist() == [1.0, 2.0]
    pd.testing.assert_frame_equal(FRAME, before)


def test_groups_are_no_feature() -> None:
    rows = rows_for_model(FRAME, named("a", "b"), target="y", groups="w")
    assert list(rows.X.columns) == ["a", "b"]
    assert rows.groups is not None
    assert rows.groups.tolist() == [1.0, 2.0]


def test_a_model_without_names_gets_a_plain_array() -> None:
    rows = rows_for_model(FRAME, model(n_features_in_=3), target="y")
    assert type(rows.X) is np.ndarray
    np.testing.assert_array_equal(rows.X, [[1.5, 3, 1], [2.5, 4, 2]])
    assert rows.sample_weight is None


def test_missing_values_in_nullable_columns_become_nan() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "y": [0, 1]})
    rows = rows_for_model(frame, model(n_features_in_=1), target="y")
    np.testing.assert_array_equal(rows.X, [[1.0], [np.nan]])


WIDE = pd.DataFrame(np.zeros((1, 100)), columns=[f"c{i}" for i in range(100)])
DOUBLED = pd.DataFrame([[1, 2, 3]], columns=["a", "y", "y"])
OTHER_TARGET = FRAME.rename(columns={"y": "label"})
NO_TARGET = r"no target column 'lable'.*Did you mean 'label'\? Available: b, a, w, label"
NO_FEATURE = r"no feature column 'c' in the data.*Available: b, a, w"
# The table, what the model was trained on, what columns are named, the error, and its words.
REFUSED: list[tuple[pd.DataFrame, SimpleNamespace, dict[str, Any], type[InputError], str]] = [
    (OTHER_TARGET, named("a", "b"), {"target": "lable"}, InputError, NO_TARGET),
    (WIDE, model(), {}, InputError, r"c19 and 80 more\.$"),
    (DOUBLED, named("a"), {}, InputError, "2 columns called 'y'"),
    (FRAME, named("b", "c"), {}, DataMismatchError, "missing: c; not in the model: a, w"),
    (FRAME, model(n_features_in_=2), {}, DataMismatchError, "2 features without names, and the data has 3 .*b, a, w"),
    (FRAME, model(n_features_in_=3), {"target": "a"}, InputError, "not numbers: y"),
    (FRAME, named("a", "b"), {"target": "a", "sample_weight": "v"}, InputError, "no sample weight column 'v'"),
    (FRAME, named("b"), {"target": "a", "sample_weight": "y"}, InputError, "weight column 'y' is not numeric"),
    (FRAME, named("a"), {"drop": ["c"]}, InputError, NO_FEATURE),
    (FRAME, named("a"), {"features": ["c"]}, InputError, NO_FEATURE),
]


@pytest.mark.parametrize(("frame", "trained", "columns", "error", "words"), REFUSED)
def test_columns_that_do_not_fit_the_model_are_refused(
    frame: pd.DataFrame, trained: SimpleNamespace, columns: dict[str, Any], error: type[InputError], words: str
) -> None:
    with pytest.raises(error, match=words):
        rows_for_model(frame, trained, **{"target": "y", **columns})


def test_columns_that_the_model_never_knew_are_left_out() -> None:
    rows = rows_for_model(FRAME, named("a"), target="y")
    assert list(rows.X.columns) == ["a"]
    assert rows.left_out == ("b", "w")
    assert rows_for_model(FRAME, named("a"), target="y", drop=["b,w"]).left_out == ()


def test_features_are_taken_in_the_order_given_by_a_model_without_names() -> None:
    rows = rows_for_model(FRAME, model(n_features_in_=2), target="y", features=["w", "a"])
    np.testing.assert_array_equal(rows.X, [[1, 3], [2, 4]])
    dropped = rows_for_model(FRAME, model(n_features_in_=2), target="y", drop=["b"])
    np.testing.assert_array_equal(dropped.X, [[3, 1], [4, 2]])


def test_names_with_commas_are_names_first() -> None:
    frame = FRAME.rename(columns={"a": "a,b"})
    rows = rows_for_model(frame, model(n_features_in_=2), target="y", features=["a,b", "w,b"], drop=["w"])
    np.testing.assert_array_equal(rows.X, [[3, 1.5], [4, 2.5]])


@pytest.mark.parametrize("labels", [["0", "1"], ["False", "True"]])
def test_labels_that_a_csv_file_cannot_mark_as_text_are_those_of_training(tmp_path: Path, labels: list[str]) -> None:
    rows = pd.DataFrame({"x": np.arange(20.0), "y": np.repeat(labels, 10)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    frame = read_table(tmp_path / "rows.csv")
    forest = RandomForestClassifier(2, random_state=0)
    assert rows_for_model(frame, forest.fit(rows[["x"]], rows["y"]), target="y").y.tolist() == rows["y"].tolist()
    assert rows_for_model(frame, forest.fit(rows[["x"]], frame["y"]), target="y").y.tolist() == frame["y"].tolist()


@pytest.mark.parametrize("labels", [["None", "some"], ["NA", "n/a"], ["007", "1"], ["1.0", "2.50"], ["", "a"]])
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv.gz"])
def test_labels_that_a_csv_file_changes_are_those_of_training(name: str, tmp_path: Path, labels: list[str]) -> None:
    path = tmp_path / name
    rows = pd.DataFrame({"x": np.arange(20.0), "y": np.repeat(labels, 10)})
    rows.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    forest = RandomForestClassifier(2, random_state=0).fit(rows[["x"]], rows["y"])
    found = rows_for_model(read_table(path), forest, target="y", path=str(path))
    assert found.y.tolist() == rows["y"].tolist()


def test_labels_of_numbers_stay_numbers(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = pd.DataFrame({"x": np.arange(20.0), "y": np.repeat([1.0, 2.5], 10)})
    rows.to_csv(path, index=False)
    forest = RandomForestClassifier(2, random_state=0).fit(rows[["x"]], rows["y"].map({1.0: 1, 2.5: 2}))
    assert rows_for_model(read_table(path), forest, target="y", path=str(path)).y.tolist() == rows["y"].tolist()


CITIES = pd.Categorical(["b", "a", "c", "b"] * 10, categories=["c", "b", "a"])
CODES = pd.Categorical([3, 7, 9, 7] * 10)
TRAINED = pd.DataFrame({"city": CITIES, "x": np.arange(40.0) % 7, "code": CODES})


def trained_on_categories() -> list[Any]:
    y = (TRAINED["city"] == "a") + TRAINED["x"]
    own = lightgbm.LGBMRegressor(n_estimators=3, min_child_samples=1, min_data_per_group=1, verbose=-1).fit(TRAINED, y)
    trees = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True).fit(TRAINED, y)
    return [own, own.booster_, trees, trees.get_booster()]


def test_text_of_a_file_becomes_the_categories_of_a_boosters_training(tmp_path: Path) -> None:
    TRAINED.assign(y=0.0).to_csv(tmp_path / "rows.csv", index=False)
    frame = read_table(tmp_path / "rows.csv")
    for model in trained_on_categories():
        X = rows_for_model(frame, model, target="y").X
        assert X["city"].cat.codes.tolist() == CITIES.codes.tolist()
        assert X["code"].cat.categories.tolist() == [3, 7, 9]
        assert X["x"].dtype == np.float64


def test_values_that_are_no_categories_of_training_are_refused() -> None:
    frame = TRAINED.assign(city="elsewhere", y=0.0)
    for model in trained_on_categories():
        with pytest.raises(DataMismatchError, match=r"No value of the column 'city' is among the categories .* 'c'"):
            rows_for_model(frame.astype({"code": int}), model, target="y")


def test_xgboost_categories_that_were_cut_and_cannot_be_recognised_are_refused() -> None:
    cities = pd.Series(["Bodø", "Oslo"] * 20, dtype="category")
    model = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True).fit(cities.to_frame("city"), cities.cat.codes)
    frame = pd.DataFrame({"city": ["Oslo"] * 5, "y": 0.0})
    with pytest.raises(
        DataMismatchError, match=r"'city' cannot be read from the booster.* in a parquet file of pandas"
    ):
        rows_for_model(frame, model, target="y")


def xgboost_booster(rows: Any) -> Any:
    return xgboost.train({"num_parallel_tree": 2}, xgboost.DMatrix(rows, [0.0, 1.0]), num_boost_round=1)


def lightgbm_model(rows: Any) -> Any:
    return lightgbm.LGBMRegressor(n_estimators=2, min_child_samples=1, verbose=-1).fit(rows, [0.0, 1.0])


def boosters(rows: Any) -> list[Any]:
    own = lightgbm_model(rows)
    return [xgboost_booster(rows), own.booster_, own]


def test_boosters_keep_the_names_of_features_in_places_of_their_own() -> None:
    for booster in boosters(FRAME[["w", "a", "b"]]):
        assert list(rows_for_model(FRAME, booster, target="y").X.columns) == ["w", "a", "b"]
        with pytest.raises(DataMismatchError, match="missing: a"):
            rows_for_model(FRAME.drop(columns="a"), booster, target="y")


def test_boosters_of_plain_arrays_get_one() -> None:
    rows = FRAME[["w", "a", "b"]].to_numpy()
    searched = GridSearchCV(lightgbm_model(rows), {}, cv=[([0, 1], [0, 1])]).fit(rows, [0.0, 1.0])
    for model in (*boosters(rows), searched):
        np.testing.assert_array_equal(rows_for_model(FRAME, model, target="y").X, [[1.5, 3, 1], [2.5, 4, 2]])
        with pytest.raises(DataMismatchError, match="3 features without names, and the data has 2"):
            rows_for_model(FRAME.drop(columns="a"), model, target="y")


def test_underscores_that_lightgbm_puts_for_blanks_find_their_columns() -> None:
    frame = FRAME.rename(columns={"a": "mean radius", "b": "mean_area"})
    booster = lightgbm_model(frame[["mean radius", "mean_area"]]).booster_
    assert booster.feature_name() == ["mean_radius", "mean_area"]
    rows = rows_for_model(frame, booster, target="y", sample_weight="w")
    assert list(rows.X.columns) == ["mean radius", "mean_area"]
    both = frame.rename(columns={"w": "mean_radius"})
    with pytest.raises(DataMismatchError, match="more than one column for the feature 'mean radius'"):
        rows_for_model(both, booster, target="y")
    assert list(rows_for_model(both, booster, target="y", drop=["mean radius"]).X.columns) == [
        "mean_radius",
        "mean_area",
    ]


def test_pipelines_of_spark_take_no_table() -> None:
    stages = [
        type(name, (), {"__module__": "pyspark.ml.feature"})() for name in ("StringIndexerModel", "VectorAssembler")
    ]
    pipeline = type("PipelineModel", (), {"__module__": "pyspark.ml.pipeline", "stages": stages})()
    with pytest.raises(UnsupportedModelError, match=r"\(StringIndexerModel\).* ens_plugin.spark.analyze"):
        rows_for_model(pd.DataFrame({"plan": ["a", "b"], "y": [0, 1]}), pipeline, target="y")


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
