"""What a model of Spark is taken apart to; stand-ins of the same classes' names need no Spark."""

from __future__ import annotations

from typing import Any

import pytest

from ens_plugin.errors import InputError
from ens_plugin.spark import behind_stages
from tests.adapters.unwrap.test_spark_wrappers import pipeline, stand_in
from tests.extras import NEEDS_PYSPARK

pytestmark = NEEDS_PYSPARK


def forest(**columns: Any) -> Any:
    return stand_in(
        "pyspark.ml.classification",
        "RandomForestClassificationModel",
        hasParam=lambda self, name: name in columns,
        getOrDefault=lambda self, name: columns[name],
    )


class Adds:
    """A stage that adds a word to what it is given."""

    def __init__(self, word: str) -> None:
        self.word = word

    def transform(self, df: str) -> str:
        return f"{df} {self.word}"


class Breaks:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def transform(self, df: str) -> str:
        raise self.error


def test_all_stages_are_applied_in_their_order() -> None:
    inner = forest(featuresCol="vectors")
    found = behind_stages(pipeline(Adds("a"), Adds("b"), pipeline(Adds("c"), inner)), "rows", None)
    assert found == (inner, "rows a b c", "vectors")


def test_columns_that_are_named_count_more_than_those_of_the_model() -> None:
    assert behind_stages(forest(featuresCol="vectors"), "rows", ["other"]).feature_cols == ["other"]


def test_several_columns_of_xgboost_count_more_than_the_one_that_is_set_by_default() -> None:
    model = forest(features_cols=("a", "b"), featuresCol="features")
    assert behind_stages(model, "rows", None).feature_cols == ["a", "b"]
    model = forest(features_cols=(), featuresCol="features")
    assert behind_stages(model, "rows", None).feature_cols == "features"


def test_other_models_need_their_columns_named() -> None:
    with pytest.raises(InputError, match="feature_cols is missing"):
        behind_stages("any model", "rows", None)
    assert behind_stages("any model", "rows", "a") == ("any model", "rows", "a")


def test_stage_that_refuses_gives_its_reason() -> None:
    from pyspark.errors import AnalysisException

    model = pipeline(Adds("a"), Breaks(AnalysisException("No x1 here.\n'Project")), forest(featuresCol="vectors"))
    with pytest.raises(InputError, match=r"^Stage Breaks before the ensemble refuses the DataFrame: No x1 here\. Pass"):
        behind_stages(model, "rows", None)
