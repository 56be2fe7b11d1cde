"""Models that live in Spark, with the columns they read: what is left to judge in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ens_plugin.adapters.unwrap.spark_wrappers import is_spark_model, java_reason, stages_and_model
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble
from ens_plugin.errors import BagError, InputError

__all__ = ["Question", "behind_stages"]


class Question(NamedTuple):
    """A model, and the rows as it takes them.

    Attributes
    ----------
    model : object
        Without the stages that Spark runs.
    df : pyspark.sql.DataFrame
        With these stages applied.
    feature_cols : sequence of str, or str
    """

    model: Any
    df: Any
    feature_cols: Sequence[str] | str


def behind_stages(model: Any, df: Any, feature_cols: Sequence[str] | str | None, data: str) -> Question:
    """Apply what a Spark model does before its ensemble, and name the columns that the ensemble reads.

    Raises
    ------
    InputError
        If a model that is not Spark's comes without `feature_cols`, or a stage refuses the DataFrame.
    NotFittedError
        If it is an estimator of Spark.
    BagError
        If training rows are asked about of a model that Spark trained.
    """
    if not is_spark_model(model):
        if feature_cols is None:
            raise InputError(
                "feature_cols is missing; name the columns the model was trained on, in the same order. Only models "
                "of Spark ML and xgboost.spark name their own."
            )
        return Question(model, df, feature_cols)
    stages, inner = stages_and_model(model)
    if data == "oob":
        raise BagError(
            f"Which rows the members of this {type(inner).__name__} saw is not known: Spark trained it on several "
            'machines. Pass data="holdout" with rows the model never saw.'
        )
    ensemble = inner_ensemble(inner)
    columns = _own_columns(inner) if feature_cols is None else feature_cols
    return Question(ensemble, _transformed(stages, df), columns)


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
    """The columns that a model of Spark ML or xgboost.spark was told to read."""
    several = model.hasParam("features_cols") and model.getOrDefault("features_cols")
    return list(several) if several else str(model.getOrDefault("featuresCol"))
