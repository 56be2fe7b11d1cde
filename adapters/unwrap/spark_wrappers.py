"""Access to the model inside a PipelineModel or a search of Spark, or a model of xgboost.spark."""

from __future__ import annotations

import math
import re
from typing import Any

from ens_plugin.errors import NotFittedError, UnsupportedModelError

__all__ = ["held_model", "is_spark_model", "java_reason", "stages_and_model"]

# A message may have several lines, up to its stack trace.
_JAVA_CAUSE = re.compile(r"^(?:Caused by)?: (.*(?:\n(?!\s*at |\s*\.{3}|Caused by|Driver stack|\s*$).*)*)", re.MULTILINE)
_SEARCHES = ("CrossValidatorModel", "TrainValidationSplitModel")


def is_spark_model(model: object) -> bool:
    """Return whether a model takes Spark's DataFrames: one of ``pyspark.ml`` or ``xgboost.spark``."""
    return type(model).__module__.startswith(("pyspark.ml.", "xgboost.spark."))


def java_reason(error: Exception | str) -> str:
    r"""Return the innermost cause of an error of Spark, as one line without a full stop.

    Examples
    --------
    >>> java_reason(ValueError("An error occurred while calling o1.save.\n: a.FileException: No such file.\n\tat b"))
    'a.FileException: No such file'
    """
    causes: list[str] = _JAVA_CAUSE.findall(str(error)) or [str(error).partition("\n")[0]]
    return " ".join(causes[-1].split()).rstrip(".")


def stages_and_model(model: Any) -> tuple[list[Any], Any]:
    """Return the stages that transform rows before the innermost model, and that model.

    Parameters
    ----------
    model : pyspark.ml Model
        Pipelines are opened, also those in pipelines, and of searches the best model is taken.

    Examples
    --------
    >>> stages_and_model("anything else")
    ([], 'anything else')
    """
    name = type(model).__name__
    if is_spark_model(model) and name in _SEARCHES:
        return stages_and_model(model.bestModel)
    if is_spark_model(model) and name == "PipelineModel":
        *earlier, last = model.stages
        later, inner = stages_and_model(last)
        return [*earlier, *later], inner
    return [], model


def held_model(model: Any) -> Any | None:
    """Return the model inside a pipeline or search of Spark, or a model of xgboost.spark; None for any other.

    Raises
    ------
    NotFittedError
        If the model inside is an unfitted estimator of Spark, whose ``fit`` returns the model.
    UnsupportedModelError
        If stages before the model transform rows in Spark, or the booster is not all of the model.
    """
    if not is_spark_model(model):
        return None
    stages, inner = stages_and_model(model)
    if hasattr(inner, "fit") and not hasattr(inner, "transform"):
        raise NotFittedError(
            f"This {type(inner).__name__} has not been fitted; pass the model that its fit(df) returns."
        )
    if stages:
        names = ", ".join(type(stage).__name__ for stage in stages)
        raise UnsupportedModelError(
            f"Before the {type(inner).__name__} of this {type(model).__name__} Spark transforms the rows ({names}), "
            "so only ens_plugin.spark.analyze takes it, with a DataFrame, and the command line with --engine spark."
        )
    if type(inner).__module__.startswith("xgboost.spark."):
        return _booster(inner)
    return None if inner is model else inner


def _booster(model: Any) -> Any:
    name = type(model).__name__
    if model.isDefined("base_margin_col") and model.getOrDefault("base_margin_col"):
        raise UnsupportedModelError(
            f"This {name} starts from the column {model.getOrDefault('base_margin_col')!r} (base_margin_col), which is "
            "not part of its booster. Train it without a base margin."
        )
    missing = float(model.getOrDefault("missing"))
    if not math.isnan(missing):
        raise UnsupportedModelError(
            f"This {name} treats {missing:g} as a missing value, which its booster does not store. Train it with "
            "missing=nan, and with null or NaN in the rows."
        )
    return model.get_booster()
