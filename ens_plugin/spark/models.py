"""Models of Spark ML and xgboost.spark: the ensemble after the stages, and the columns that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ens_plugin.adapters.unwrap.spark_wrappers import is_spark_model, java_reason, stages_and_model
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.errors import BagError, InputError

__all__ = ["SparkInput", "behind_stages"]


class SparkInput(NamedTuple):
    """An ensemble, its input rows and its feature columns, without the stages that Spark runs.

    Attributes
    ----------
    model : object
        Model without the stages that Spark runs.
    df : pyspark.sql.DataFrame
        Rows with these stages applied.
    feature_cols : sequence of str, or str
    """

    model: Any
    df: Any
    feature_cols: Sequence[str] | str


def behind_stages(model: Any, df: Any, feature_cols: Sequence[str] | str | None, data: str) -> SparkInput:
    """Return the ensemble of a Spark model, the rows with the stages before it applied, and its feature columns.

    Raises
    ------
    InputError
        If a model that is not Spark's is given without `feature_cols`, or a stage refuses the DataFrame.
    NotFittedError
        If `model` is an estimator of Spark, which is not fitted.
    BagError
        If `data` is ``"oob"`` for a model that Spark trained.
    """
    if not is_spark_model(model):
        if feature_cols is None:
            raise InputError(
                "feature_cols is missing. Name the columns that the model was trained on, in the same order. Only "
                "models of Spark ML and xgboost.spark have their names."
            )
        return SparkInput(model, df, feature_cols)
    stages, inner = stages_and_model(model)
    if data == "oob":
        raise BagError(
            f"The in-bag rows of this {type(inner).__name__} are not known, because Spark trained it on several "
            'machines. Pass {data="holdout"} with rows that were not used for training.'
        )
    ensemble = inner_ensemble(inner)
    columns = _own_columns(inner) if feature_cols is None else feature_cols
    return SparkInput(ensemble, _transformed(stages, df), columns)


def _transformed(stages: list[Any], df: Any) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    for stage in stages:
        try:
            df = stage.transform(df)
        except (PySparkException, Py4JJavaError) as error:
            raise InputError(
                f"Stage {type(stage).__name__} before the ensemble refuses the DataFrame: {java_reason(error)}. "
                "Pass the columns the pipeline was fitted on."
            ) from error
    return df


def _own_columns(model: Any) -> Sequence[str] | str:
    """Return the columns that a model of Spark ML or xgboost.spark is set to read."""
    several = model.hasParam("features_cols") and model.getOrDefault("features_cols")
    return list(several) if several else str(model.getOrDefault("featuresCol"))
