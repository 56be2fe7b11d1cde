"""Data frames of other libraries than pandas, whose columns have names too."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin.adapters.registry import find_library
from ens_plugin.errors import DataMismatchError, InputError
from ens_plugin.papers.dynamic_pruning_2009 import prune
from ens_plugin.sizing.budget import first_rows
from tests.extras import lightgbm, xgboost

RNG = np.random.default_rng(0)
N_ROWS = 200


def rows(seed: int) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(size=N_ROWS),
            "city": pd.Categorical(rng.choice(["z", "b", "a"], N_ROWS)),
            "height": rng.normal(size=N_ROWS),
            "count": rng.integers(0, 5, N_ROWS),
        }
    )
    return X, (X["age"] + 2 * (X["city"] == "b") + rng.normal(scale=0.3, size=N_ROWS) > 0.5).astype(int).to_numpy()


def numbers(seed: int) -> tuple[pd.DataFrame, Any]:
    X, y = rows(seed)
    return X.assign(city=X["city"].cat.codes.astype(float)), y


def polars_frame(frame: pd.DataFrame) -> Any:
    import polars

    return polars.from_pandas(frame)


class OtherFrame:
    """A data frame of a library that has a conversion to pandas and nothing of Arrow."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame, self.columns, self.shape = frame, list(frame.columns), frame.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.frame.to_numpy(dtype)

    def to_pandas(self) -> pd.DataFrame:
        return self.frame


FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "Table": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "RecordBatch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "other": OtherFrame,
}
if find_spec("polars") is not None:
    FRAMES["polars"] = polars_frame


def lightgbm_forest(X: Any, y: Any) -> Any:
    return lightgbm.LGBMClassifier(
        n_estimators=30, boosting_type="rf", subsample=0.6, subsample_freq=1, verbose=-1, n_jobs=1
    ).fit(X, y)


def xgboost_forest(X: Any, y: Any) -> Any:
    return xgboost.XGBRFClassifier(n_estimators=30, enable_categorical=True, n_jobs=1).fit(X, y)


def custom_ensemble(X: Any, y: Any) -> Any:
    bags = [np.arange(seed % 3, N_ROWS, 2) for seed in range(5)]
    models = [DecisionTreeClassifier(max_depth=3).fit(X.iloc[bag], y[bag]) for bag in bags]
    return ens_plugin.CustomEnsemble.from_estimators(models, bags)


MODELS: dict[str, Callable[[Any, Any], Any]] = {
    "LGBMClassifier": lightgbm_forest,
    "lightgbm.Booster": lambda X, y: lightgbm_forest(X, y).booster_,
    "XGBRFClassifier": xgboost_forest,
    "xgboost.Booster": lambda X, y: xgboost_forest(X, y).get_booster(),
    "RandomForestClassifier": lambda X, y: RandomForestClassifier(30, random_state=0).fit(X, y),
    "CustomEnsemble": custom_ensemble,
}
BOOSTERS = [name for name in MODELS if "Booster" in name or "GBM" in name or "XGB" in name]

some_cases = pytest.mark.fast_cases("LGBMClassifier-Table", "xgboost.Booster-RecordBatch")
every_frame = pytest.mark.parametrize("kind", FRAMES)
every_model = pytest.mark.parametrize("name", MODELS)


@some_cases
@every_frame
@every_model
def test_held_out_rows_of_a_frame_give_the_report_of_pandas(name: str, kind: str) -> None:
    model, (X, y) = MODELS[name](*numbers(0)), numbers(1)
    expected = ens_plugin.analyze(model, X, y, data="holdout")
    assert ens_plugin.analyze(model, FRAMES[kind](X), y, data="holdout").error == expected.error


@some_cases
@every_frame
@every_model
def test_columns_in_another_order_are_refused(name: str, kind: str) -> None:
    model, (X, y) = MODELS[name](*numbers(0)), numbers(1)
    with pytest.raises((DataMismatchError, InputError), match=r"order|feature_names|feature names"):
        ens_plugin.analyze(model, FRAMES[kind](X[list(X.columns[::-1])]), y, data="holdout")


@some_cases
@every_frame
@every_model
def test_renamed_columns_are_refused(name: str, kind: str) -> None:
    model, (X, y) = MODELS[name](*numbers(0)), numbers(1)
    with pytest.raises((DataMismatchError, InputError), match=r"weight|age|feature names"):
        ens_plugin.analyze(model, FRAMES[kind](X.rename(columns={"age": "weight"})), y, data="holdout")


@some_cases
@every_frame
@pytest.mark.parametrize("name", BOOSTERS)
def test_categories_of_a_frame_are_those_of_pandas(name: str, kind: str) -> None:
    model, (X, y) = MODELS[name](*rows(0)), rows(1)
    expected = ens_plugin.analyze(model, X, y, data="holdout")
    assert ens_plugin.analyze(model, FRAMES[kind](X), y, data="holdout").error == expected.error


@some_cases
@every_frame
@pytest.mark.parametrize("name", BOOSTERS)
def test_every_verb_reads_training_rows_of_a_frame(name: str, kind: str) -> None:
    X, y = numbers(0)
    model, frame = MODELS[name](X, y), FRAMES[kind](X)
    turned = FRAMES[kind](X[list(X.columns[::-1])])
    assert np.array_equal(ens_plugin.in_bag(model, frame, y), ens_plugin.in_bag(model, X, y))
    assert (
        ens_plugin.oob_predictions(model, frame, y)
        .to_frame()
        .equals(ens_plugin.oob_predictions(model, X, y).to_frame())
    )
    importance = ens_plugin.oob_permutation_importance(model, frame, y, n_repeats=1)
    assert importance.feature_names == tuple(X.columns)
    for verb in (ens_plugin.in_bag, ens_plugin.oob_predictions, ens_plugin.analyze):
        with pytest.raises(DataMismatchError, match="columns of X"):
            verb(model, turned, y)


@pytest.mark.parametrize("name", ["LGBMClassifier", "XGBRFClassifier"])
def test_missing_values_of_arrow_are_missing(name: str) -> None:
    X, y = numbers(0)
    X = X.assign(flag=pd.array(RNG.random(N_ROWS) > 0.5, dtype="boolean"))
    X.loc[::7, "flag"], X.loc[::5, "age"] = pd.NA, np.nan
    model = MODELS[name](X, y)
    expected = ens_plugin.analyze(model, X, y)
    assert ens_plugin.analyze(model, pa.Table.from_pandas(X), y).error == expected.error


def test_a_frame_whose_columns_cannot_be_read_is_refused() -> None:
    class Sealed:
        columns = ("age",)

    forest = xgboost_forest(*numbers(0))
    with pytest.raises(InputError, match=r"X is of type tests\.Sealed, whose columns cannot be read"):
        ens_plugin.analyze(forest, Sealed(), [0, 1], data="holdout")


def test_a_dict_of_columns_is_refused_with_the_remedy() -> None:
    X, y = numbers(0)
    with pytest.raises(InputError, match=r"pass pandas\.DataFrame\(X\)"):
        ens_plugin.analyze(xgboost_forest(X, y), dict(X), y)


class LazyFrame:
    """Stands for the lazy frames of polars and narwhals."""

    columns = ("age",)

    def collect(self) -> None: ...


class DaskFrame:
    """Stands for a DataFrame of Dask."""

    columns = ("age",)

    def __dask_graph__(self) -> None: ...


class SparkFrame:
    """Stands for a DataFrame of Spark."""

    columns = ("age",)

    def toPandas(self) -> None: ...


LAZY = {LazyFrame: r"X\.collect\(\)", DaskFrame: r"X\.compute\(\)", SparkFrame: r"ens_plugin\.spark\.analyze"}


@pytest.mark.parametrize("kind", LAZY)
@every_model
def test_rows_that_are_not_computed_are_refused_with_the_remedy(name: str, kind: type) -> None:
    X, y = numbers(0)
    with pytest.raises(InputError, match=LAZY[kind]):
        ens_plugin.analyze(MODELS[name](X, y), kind(), y)


@pytest.mark.parametrize("argument", ["y", "sample_weight", "groups"])
def test_every_argument_that_is_not_computed_is_named(argument: str) -> None:
    X, y = numbers(0)
    arguments: dict[str, Any] = {"y": y, argument: LazyFrame()}
    with pytest.raises(InputError, match=rf"{argument} is of type LazyFrame.*pass {argument}\.collect\(\)"):
        ens_plugin.analyze(RandomForestClassifier(20, random_state=0).fit(X, y), X, **arguments)


def test_grow_refuses_rows_that_are_not_computed() -> None:
    with pytest.raises(InputError, match=r"pass X\.collect\(\)"):
        ens_plugin.grow(RandomForestClassifier(), LazyFrame(), [0, 1])


@pytest.mark.skipif(find_spec("polars") is None, reason="polars is not installed")
def test_a_lazy_frame_of_polars_is_refused() -> None:
    X, y = numbers(0)
    lazy = polars_frame(X).lazy()
    for model in (xgboost_forest(X, y), RandomForestClassifier(20).fit(X, y), LogisticRegression().fit(X, y)):
        with pytest.raises(InputError, match=r"X is of type LazyFrame.*pass X\.collect\(\)"):
            ens_plugin.analyze(model, lazy, y)


@pytest.mark.parametrize("name", BOOSTERS)
def test_predictions_of_a_frame_with_categories_are_those_of_pandas(name: str) -> None:
    model, (X, _) = MODELS[name](*rows(0)), rows(1)
    for kind in FRAMES:
        frame = first_rows(FRAMES[kind](X), 50) if kind != "other" else FRAMES[kind](X)
        expected = X.head(50) if kind != "other" else X
        predict = find_library(model).predict
        assert np.array_equal(predict(model, frame), predict(model, expected))


def test_pruning_refuses_rows_that_are_not_computed() -> None:
    X, y = numbers(0)
    pruned = prune(RandomForestClassifier(20, random_state=0).fit(X, y), X, y)
    with pytest.raises(InputError, match=r"pass X\.collect\(\)"):
        pruned.predict(LazyFrame())
