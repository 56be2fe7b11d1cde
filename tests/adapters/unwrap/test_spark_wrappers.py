"""Models behind the stages and searches of Spark; stand-ins of the same classes' names need no Spark."""

from __future__ import annotations

from typing import Any

import pytest

from ens_plugin.adapters.unwrap import held_model, java_reason, stages_and_model
from ens_plugin.errors import UnsupportedModelError


def stand_in(home: str, name: str, **attributes: Any) -> Any:
    return type(name, (), {"__module__": home, **attributes})()


def pipeline(*stages: Any) -> Any:
    return stand_in("pyspark.ml.pipeline", "PipelineModel", stages=list(stages))


def xgboost_model(**options: Any) -> Any:
    chosen = {"missing": float("nan"), "base_margin_col": None, **options}
    return stand_in(
        "xgboost.spark.estimator",
        "SparkXGBRegressorModel",
        isDefined=lambda self, name: chosen[name] is not None,
        getOrDefault=lambda self, name: chosen[name],
        get_booster=lambda self: "the booster",
    )


FOREST = stand_in("pyspark.ml.classification", "RandomForestClassificationModel")


def test_pipelines_in_pipelines_are_opened_with_all_their_stages() -> None:
    assert stages_and_model(pipeline("a", pipeline("b", pipeline("c", FOREST)))) == (["a", "b", "c"], FOREST)


@pytest.mark.parametrize("search", ["CrossValidatorModel", "TrainValidationSplitModel"])
def test_best_pipeline_of_a_search_is_opened(search: str) -> None:
    found = stand_in("pyspark.ml.tuning", search, bestModel=pipeline("a", FOREST))
    assert stages_and_model(found) == (["a"], FOREST)
    assert stages_and_model(pipeline("z", found)) == (["z", "a"], FOREST)
    assert held_model(stand_in("pyspark.ml.tuning", search, bestModel=FOREST)) is FOREST


def test_forest_holds_no_other_model() -> None:
    assert held_model(FOREST) is None
    assert held_model(pipeline(FOREST)) is FOREST


def test_booster_that_is_all_of_the_model_is_held() -> None:
    assert held_model(xgboost_model()) == "the booster"
    assert held_model(xgboost_model(base_margin_col="")) == "the booster"


def test_base_margins_of_a_column_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="starts from the column 'offset'"):
        held_model(xgboost_model(base_margin_col="offset"))


@pytest.mark.parametrize("missing", [0.0, -999.0, float("inf")])
def test_values_that_stand_for_missing_ones_are_refused(missing: float) -> None:
    with pytest.raises(UnsupportedModelError, match=f"treats {missing:g} as a missing value"):
        held_model(xgboost_model(missing=missing))


@pytest.mark.parametrize(
    "end", ["\tat org.apache.spark.ml", "\t... 12 more", "Caused by: deeper", "", "Driver stacktrace:"]
)
def test_reason_of_several_lines_is_whole_and_without_its_stack(end: str) -> None:
    message = "Job aborted.\n\tat a\nCaused by: b.SparkException: Encountered null. Consider \nremoving nulls.\n" + end
    assert java_reason(message) == (
        "deeper" if "deeper" in end else "b.SparkException: Encountered null. Consider removing nulls"
    )
