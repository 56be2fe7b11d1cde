"""The ensemble inside of a wrapper: pipelines, searches, MLflow's models, several outputs, stacks, Spark models."""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from functools import partial
from inspect import getattr_static
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.members import several_targets
from ens_plugin.adapters.unsupported import no_adapter
from ens_plugin.core.validation import one_line, refuse_lazy
from ens_plugin.errors import DataMismatchError, InputError, NotFittedError, UnsupportedModelError

# A message may have several lines, up to its stack trace.
_JAVA_CAUSE = re.compile(r"^(?:Caused by)?: (.*(?:\n(?!\s*at |\s*\.{3}|Caused by|Driver stack|\s*$).*)*)", re.MULTILINE)
_SPARK_SEARCHES = ("CrossValidatorModel", "TrainValidationSplitModel")
_FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
_WRAPPERS = ("MultiOutputClassifier", "MultiOutputRegressor")
# Attribute, True, of a tree for one of several outputs whose class weights are products over all of them.
JOINT_WEIGHTS = "_ens_plugin_joint_weights"


def is_spark_model(model: object) -> bool:
    """Return whether a model takes Spark's DataFrames: one of ``pyspark.ml`` or ``xgboost.spark``."""
    return type(model).__module__.startswith(("pyspark.ml.", "xgboost.spark."))


def java_reason(error: Exception | str) -> str:
    r"""Return the innermost cause of an error of Spark, as one line without a full stop."""
    causes: list[str] = _JAVA_CAUSE.findall(str(error)) or [str(error).partition("\n")[0]]
    return " ".join(causes[-1].split()).rstrip(".")


def stages_and_model(model: Any) -> tuple[list[Any], Any]:
    """Return the stages that transform rows before the innermost model, and that model."""
    name = type(model).__name__
    if is_spark_model(model) and name in _SPARK_SEARCHES:
        return stages_and_model(model.bestModel)
    if is_spark_model(model) and name == "PipelineModel":
        *earlier, last = model.stages
        later, inner = stages_and_model(last)
        return [*earlier, *later], inner
    return [], model


def held_model(model: Any) -> Any | None:
    """Return the model inside a pipeline or search of Spark, or a model of xgboost.spark; None for any other."""
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
            "so only ens_plugin.spark.analyze takes it, with a DataFrame."
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


def unwrap(model: Any, X: Any, *, are_fresh: bool = False) -> tuple[Any, Any]:
    """Return the ensemble inside pipelines, RFE, searches, learners and MLflow's pyfunc, and X transformed for it."""
    refuse_lazy(X, "X")
    if _is_pipeline(model):
        return unwrap(model[-1], _transformed(model, X, are_fresh), are_fresh=are_fresh)
    if is_elimination(model):
        return unwrap(_held(model), _of_steps(model, X), are_fresh=are_fresh)
    held = _held(model)
    if _is_causal(model) and model.featurizer_ is not None:
        X = _of_steps(model.featurizer_, X)
    return (model, X) if held is None else unwrap(held, X, are_fresh=are_fresh)


def refuse_resampled(model: Any) -> None:
    """Raise UnsupportedModelError for a pipeline that resamples rows before it trains its ensemble."""
    if not _is_pipeline(model):
        return
    for name, step in model.steps[:-1]:
        if hasattr(step, "fit_resample"):
            raise UnsupportedModelError(
                f"Step {name!r} of the pipeline ({type(step).__name__}) resamples the rows: the "
                "ensemble was not trained on those that were given. Out-of-bag rows would have copies or near-copies "
                "in the bag, or other shares of the labels, and the out-of-bag error would be wrong. Pass rows no "
                "member was trained on with data='holdout', or balance inside each bag "
                "(class_weight='balanced_subsample', or imbalanced-learn's BalancedRandomForestClassifier) in place of "
                "this step."
            )


def layers(model: Any) -> Iterator[Any]:
    """Yield a model, the model inside it, and so on down to the ensemble, without reading any rows."""
    yield model
    inner = model[-1] if _is_pipeline(model) else _held(model)
    if inner is not None:
        yield from layers(inner)


def steps_before(layer: Any) -> list[tuple[str, Any]]:
    """Return the steps that change rows before they reach the model inside one of the :func:`layers`, by name."""
    if is_elimination(layer):
        return [(type(layer).__name__.lower(), layer)]
    steps = layer.steps[:-1] if _is_pipeline(layer) else []
    return [(str(name), step) for name, step in steps if hasattr(step, "transform")]


def inner_ensemble(model: Any) -> Any:
    """Return the ensemble inside pipelines, searches, learners and MLflow's pyfunc: the last of the :func:`layers`."""
    *_, ensemble = layers(model)
    return ensemble


def replace_ensemble(model: Any, change: Callable[[Any], Any]) -> Any:
    """Return `model` with the ensemble inside it replaced by ``change(ensemble)``; `model` stays as it is."""
    # For a pipeline, a pipeline is returned, with its other steps copied, and for an RFE an RFE. For a search, a
    # RightSized*, a FrozenEstimator or a pyfunc, the model inside is returned: its records are about the ensemble
    # before the change.
    if _is_pipeline(model):
        return _with_last_step(model, replace_ensemble(model[-1], change))
    held = _held(model)
    if held is None:
        return change(model)
    inner = replace_ensemble(held, change)
    if not is_elimination(model):
        return inner
    changed = copy(model)
    changed.estimator_ = inner
    return changed


def is_learner(model: Any) -> bool:
    """Return whether a model is one of this package's estimators that keep their ensemble as ``estimator_``."""
    return _is_a(model, "ens_plugin.sizing.right_sized", ("RightSizedClassifier", "RightSizedRegressor"))


def is_elimination(model: Any) -> bool:
    """Return whether a model is scikit-learn's RFE or RFECV, which predicts by the columns that it chose."""
    return _is_a(model, "sklearn.feature_selection", ("RFE",))


def _held(model: Any) -> Any | None:
    """Return the model inside a pyfunc, a search, an RFE, a learner or a model of Spark; None for any other."""
    if _is_pyfunc(model):
        return native_model(model)
    if _is_search(model):
        return _best_estimator(model)
    if _is_a(model, "sklearn.frozen", ("FrozenEstimator",)):
        return model.estimator
    if _is_causal(model):
        return _learned(model, "model_cate")
    if _is_a(model, "econml.grf", ("MultiOutputGRF",)):
        return _only_forest(model)
    keeps_estimator = is_learner(model) or is_elimination(model) or _cuts_in_half(model)
    return _learned(model) if keeps_estimator else held_model(model)


def _cuts_in_half(model: Any) -> bool:
    """Return whether a model takes the likelier of two labels, by a threshold, as the ensemble inside it does."""
    is_cut = _is_a(model, "sklearn.model_selection", ("FixedThresholdClassifier",))
    return is_cut and model.response_method != "decision_function" and model.threshold in ("auto", 0.5)


def _is_a(model: Any, module: str, names: tuple[str, ...]) -> bool:
    """Return whether a model is of one of some classes, which some releases lack, without loading their module."""
    # A model can be of one of these classes only if the module is loaded.
    return isinstance(model, tuple(getattr(sys.modules.get(module), name, ()) for name in names))


def _is_pyfunc(model: Any) -> bool:
    return type(model).__module__.startswith("mlflow.pyfunc") and hasattr(model, "get_raw_model")


def _is_search(model: Any) -> bool:
    # The base class of scikit-learn's searches is private; other libraries derive theirs from it.
    # Not hasattr: LightGBM's CVBooster returns a function for every name.
    return _has_own(model, "best_estimator_") or any(cls.__name__ == "BaseSearchCV" for cls in type(model).__mro__)


def _has_own(model: Any, name: str) -> bool:
    """Return whether an object or its class defines an attribute, and not a ``__getattr__`` that knows every name."""
    return getattr_static(model, name, None) is not None and hasattr(model, name)


def _is_pipeline(model: Any) -> bool:
    return _is_a(model, "sklearn.pipeline", ("Pipeline",))


def native_model(model: Any) -> Any:
    """Return the model behind MLflow's pyfunc; any other as it is."""
    if not _is_pyfunc(model):
        return model
    try:
        return model.get_raw_model()
    except (AttributeError, NotImplementedError) as error:
        raise UnsupportedModelError(
            "This MLflow pyfunc model does not give the model inside it; load it with its own flavour instead, for "
            "example mlflow.sklearn.load_model(uri)."
        ) from error


def _best_estimator(search: Any) -> Any:
    if _has_own(search, "best_estimator_"):
        return search.best_estimator_
    name = type(search).__name__
    if hasattr(search, "cv_results_"):
        raise NotFittedError(
            f"This {name} was fitted with refit=False, so it holds no model trained on all rows; fit it with "
            "refit=True, or fit its estimator with best_params_."
        )
    raise NotFittedError(f"This {name} has not been fitted; call its fit(X, y) first.")


def _learned(model: Any, name: str = "estimator_") -> Any:
    if not hasattr(model, name):
        raise NotFittedError(f"This {type(model).__name__} has not been fitted; call its fit(X, y) first.")
    return getattr(model, name)


def _is_causal(model: Any) -> bool:
    """Return whether a model is EconML's CausalForestDML, which holds a forest of the effects on each outcome."""
    return _is_a(model, "econml.dml", ("CausalForestDML",))


def _only_forest(model: Any) -> Any:
    forests = _learned(model, "estimators_")
    if len(forests) > 1:
        raise UnsupportedModelError(
            f"This {type(model).__name__} holds a forest for each of {len(forests)} outcomes, and one is read at a "
            "time. Pass one of its estimators_: of a CausalForestDML, model.model_cate.estimators_[0]."
        )
    return forests[0]


def _transformed(pipeline: Any, X: Any, are_fresh: bool) -> Any:
    steps = pipeline.steps[:-1]
    if are_fresh:
        steps = [(name, step) for name, step in steps if not hasattr(step, "fit_resample")]
    else:
        refuse_resampled(pipeline)
    for name, step in steps:
        if step is not None and step != "passthrough" and not hasattr(step, "transform"):
            raise UnsupportedModelError(
                f"Step {name!r} of the pipeline ({type(step).__name__}) has no transform, so the rows "
                "its ensemble was trained on cannot be computed. Pass the ensemble itself with the rows it was fitted "
                "on."
            )
    if not steps:
        return X
    earlier = copy(pipeline)
    earlier.steps = steps
    return _of_steps(earlier, X)


def _of_steps(steps: Any, X: Any) -> Any:
    """Return X as the steps before an ensemble transform it."""
    from sklearn.exceptions import NotFittedError as SklearnNotFittedError

    try:
        return steps.transform(X)
    except SklearnNotFittedError as error:
        raise NotFittedError(f"This {type(steps).__name__} has not been fitted; call its fit(X, y) first.") from error
    except Exception as error:  # a step may be a user's function
        raise DataMismatchError(
            f"The steps before the ensemble refuse X ({type(error).__name__}: {one_line(str(error))}); pass "
            "the columns the pipeline was trained on."
        ) from error


def _with_last_step(pipeline: Any, step: Any) -> Any:
    earlier = copy(pipeline)
    earlier.steps = pipeline.steps[:-1]
    whole = deepcopy(earlier)
    whole.steps.append((pipeline.steps[-1][0], step))
    return whole


def split_outputs(model: Any) -> list[Any]:
    """Return, for each output of a model of several outputs, an ensemble that predicts this output alone.

    Each takes the place of a model with one output in every function of this package: with ``y[:, k]``, the k-th has
    the same members and the same bags, and its figures are those of output k.

    Parameters
    ----------
    model : fitted model
        scikit-learn's RandomForest*, ExtraTrees* or BaggingRegressor with y of shape (n_rows, n_outputs), a
        MultiOutputClassifier or MultiOutputRegressor of any supported ensembles, or a pipeline or search of one.

    Returns
    -------
    list of fitted models
        One for each output, in the order of the columns of y.  Of a Pipeline, Pipelines.  Trees are copied.

    Raises
    ------
    InputError
        If the model predicts one output.
    NotFittedError
        If the model has not been fitted.
    UnsupportedModelError
        If this is a class, a path, a list or another object that is no model.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import ens_plugin
    >>> X, y = load_linnerud(return_X_y=True)
    >>> forest = RandomForestRegressor(50, random_state=0).fit(X, y)
    >>> weight, waist, pulse = ens_plugin.split_outputs(forest)
    >>> bool((pulse.predict(X) == forest.predict(X)[:, 2]).all())
    True
    """
    ensemble = inner_ensemble(model)
    if isinstance(ensemble, (type, PathLike)) or type(ensemble).__module__ == "builtins":
        raise UnsupportedModelError(no_adapter(ensemble, lambda held: False))
    if _is_a(ensemble, "sklearn.ensemble", (*_FORESTS, "BaggingRegressor")) and not hasattr(ensemble, "estimators_"):
        raise NotFittedError(f"This {type(ensemble).__name__} has not been fitted; call its fit(X, y) first.")
    n_outputs = output_count(ensemble, default=0)
    if not n_outputs:
        raise UnsupportedModelError(
            f"How many outputs this {type(ensemble).__name__} predicts is not known: its members refuse a row of zeros "
            "as a trial. If it was trained on one column of y, pass it as it is. If on several, ens_plugin.analyze, "
            "grow and truncate take the whole model; for an ensemble of each column, train a MultiOutputRegressor."
        )
    if (n_targets := _booster_targets(ensemble)) > 1:
        raise UnsupportedModelError(several_targets(type(ensemble).__name__, n_targets))
    if n_outputs < 2:
        raise InputError(f"This {type(ensemble).__name__} predicts one output; pass it as it is.")
    return [replace_ensemble(model, partial(output_ensemble, output=output)) for output in range(n_outputs)]


def output_count(ensemble: Any, *, default: int = 1) -> int:
    """Return how many outputs an unwrapped ensemble predicts; 1 for what is no ensemble."""
    # `default` is the number where neither the members' class nor a prediction tells it.
    if _is_a(ensemble, "sklearn.multioutput", _WRAPPERS):
        if not hasattr(ensemble, "estimators_"):
            raise NotFittedError(f"This {type(ensemble).__name__} has not been fitted; call its fit(X, y) first.")
        return len(ensemble.estimators_)
    if _is_a(ensemble, "sklearn.ensemble", _FORESTS):
        return int(getattr(ensemble, "n_outputs_", 1))
    # A BaggingClassifier takes one column of labels only.
    if not _is_a(ensemble, "sklearn.ensemble", ("BaggingRegressor",)) or not hasattr(ensemble, "estimators_"):
        return 1
    member, columns = ensemble.estimators_[0], ensemble.estimators_features_[0]
    if hasattr(member, "tree_"):
        return int(getattr(member, "n_outputs_", 1))
    return _predicted_count(member, len(columns)) or default


def _predicted_count(member: Any, n_columns: int) -> int | None:
    """Return how many values a member predicts for a row; None where it takes no row of zeros."""
    # What models store as their number of outputs may be another: of a network it is the number of its last units.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.asarray(member.predict(np.zeros((1, n_columns))))
    except Exception:  # a user's model may raise anything
        return None
    return 1 if found.ndim < 2 else int(found.shape[1])


def has_own_bags(ensemble: Any) -> bool:
    """Return whether each output has an ensemble of its own, trained on its own bags."""
    return _is_a(ensemble, "sklearn.multioutput", _WRAPPERS)


def output_ensemble(ensemble: Any, output: int) -> Any:
    """Return the unwrapped ensemble, or a pipeline of one, that predicts one output alone; `ensemble` is unchanged."""
    if has_own_bags(ensemble):
        return ensemble.estimators_[output]
    part = copy(ensemble)
    part.estimators_ = [_member(member, output) for member in ensemble.estimators_]
    if getattr(ensemble, "class_weight", None) is not None:
        for tree in part.estimators_:
            setattr(tree, JOINT_WEIGHTS, True)
    if hasattr(ensemble, "n_outputs_"):
        part.n_outputs_ = 1
    if hasattr(ensemble, "n_classes_"):
        part.classes_, part.n_classes_ = ensemble.classes_[output], ensemble.n_classes_[output]
    for name in ("oob_prediction_", "oob_decision_function_"):
        stored = getattr(ensemble, name, None)
        if stored is not None:
            setattr(part, name, np.asarray(stored)[..., output])
    # The score of one output is not kept: scikit-learn's is one for all outputs.
    vars(part).pop("oob_score_", None)
    return part


def first_members(ensemble: Any, size: int, truncate: Callable[[Any, int], Any]) -> Any:
    """Return a copy of an unwrapped model of several outputs with its first `size` members for each output."""
    if has_own_bags(ensemble):
        part = copy(ensemble)
        part.estimators_ = [truncate(model, size) for model in ensemble.estimators_]
        return part
    # The first output's ensemble has all members, bags and checks; only what the members predict is put back.
    part = truncate(output_ensemble(ensemble, 0), size)
    for name in ("n_outputs_", "classes_", "n_classes_"):
        if hasattr(ensemble, name):
            setattr(part, name, deepcopy(getattr(ensemble, name)))
    part.estimators_ = deepcopy(ensemble.estimators_[:size])
    for name in ("oob_prediction_", "oob_decision_function_", "oob_score_"):
        vars(part).pop(name, None)
        if size == len(ensemble.estimators_) and hasattr(ensemble, name):
            setattr(part, name, deepcopy(getattr(ensemble, name)))
    return part


class MemberOutput:
    """One output of a fitted regressor that predicts several; other attributes are the regressor's own."""

    def __init__(self, member: Any, output: int) -> None:
        self.member = member
        self.output = output

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted values of this output, shape (n_rows,)."""
        found = np.asarray(self.member.predict(X))
        if found.ndim != 2:
            raise UnsupportedModelError(
                f"This {type(self.member).__name__} was trained on several outputs and predicts one; refit all members."
            )
        return np.asarray(found[:, self.output])

    def __getattr__(self, name: str) -> Any:
        # While a copy is made, there is no member yet.
        if name.startswith("__") or name == "member":
            raise AttributeError(name)
        return getattr(self.member, name)


def _member(member: Any, output: int) -> Any:
    return _tree(member, output) if hasattr(member, "tree_") else MemberOutput(member, output)


def _tree(tree: Any, output: int) -> Any:
    """Return a tree of scikit-learn with the values of one output, and the same nodes."""
    make, (n_features, n_classes, _), state = tree.tree_.__reduce__()
    n_labels = int(n_classes[output])
    nodes = make(n_features, np.array([n_labels], dtype=n_classes.dtype), 1)
    nodes.__setstate__({**state, "values": np.ascontiguousarray(state["values"][:, output : output + 1, :n_labels])})
    part = copy(tree)
    part.tree_, part.n_outputs_ = nodes, 1
    if hasattr(tree, "classes_"):
        part.classes_, part.n_classes_ = tree.classes_[output], tree.n_classes_[output]
    return part


def _booster_targets(model: Any) -> int:
    """Return the number of targets of a fitted model of XGBoost, whose trees cannot be taken apart; 1 for others."""
    if not _is_a(model, "xgboost", ("Booster", "XGBModel")):
        return 1
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    parameters = json.loads(booster.save_config())["learner"]["learner_model_param"]
    return int(parameters.get("num_target", "1"))
