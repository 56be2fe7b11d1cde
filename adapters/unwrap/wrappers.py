"""Access to the ensemble inside a pipeline, a search, a learner of this package or a pyfunc of MLflow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from copy import copy, deepcopy
from typing import Any

from ens_plugin.adapters.unwrap.spark_wrappers import held_model
from ens_plugin.core.validation import one_line, refuse_lazy, with_article
from ens_plugin.errors import DataMismatchError, NotFittedError, UnsupportedModelError

__all__ = ["inner_ensemble", "is_elimination", "is_learner", "layers", "refuse_resampled", "replace_ensemble", "unwrap"]

# A model can be of one of these classes only if the module is loaded.
_LEARNERS = (
    ("ens_plugin.learners.growth.right_sized", "RightSizedClassifier"),
    ("ens_plugin.learners.growth.right_sized", "RightSizedRegressor"),
    ("ens_plugin.learners.pruning.dynamic_pruning", "DynamicPruningClassifier"),
)


def unwrap(model: Any, X: Any, *, are_fresh: bool = False) -> tuple[Any, Any]:
    """Return the ensemble inside pipelines, RFE, searches, learners and MLflow's pyfunc, and X transformed for it.

    Parameters
    ----------
    model : object
        Any object; one that is no wrapper is returned as it is.
    X : array-like, DataFrame or None
        Rows as the wrapper takes them.  A pipeline's earlier steps transform them as its ``predict``
        does: where a step's ``fit_transform`` gives other values than its ``transform`` (a
        cross-fitted target encoder, for example), these are not the rows the ensemble was trained on.
    are_fresh : bool, default=False
        Whether the rows are to be predicted, and none is a training row: resamplers (steps with
        ``fit_resample``) are then skipped, as in the pipeline's own ``predict``.

    Returns
    -------
    model : object
    X : array-like, DataFrame or None

    Raises
    ------
    NotFittedError
        If a wrapper has not been fitted, or a search was fitted with ``refit=False``.
    UnsupportedModelError
        If an earlier step of a pipeline resamples the training rows or has no ``transform``, or a pyfunc does not
        give access to its model.
    DataMismatchError
        If an earlier step of a pipeline refuses `X`.
    InputError
        If the rows of `X` have not been computed, as of a polars LazyFrame.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.array([[0.0], [2.0]])
    >>> pipeline = make_pipeline(StandardScaler(), RandomForestRegressor(n_estimators=2)).fit(X, [0.0, 1.0])
    >>> forest, scaled = unwrap(pipeline, X)
    >>> type(forest).__name__, scaled.tolist()
    ('RandomForestRegressor', [[-1.0], [1.0]])
    """
    refuse_lazy(X, "X")
    if _is_pipeline(model):
        return unwrap(model[-1], _transformed(model, X, are_fresh), are_fresh=are_fresh)
    if is_elimination(model):
        return unwrap(_held(model), _of_steps(model, X), are_fresh=are_fresh)
    held = _held(model)
    return (model, X) if held is None else unwrap(held, X, are_fresh=are_fresh)


def refuse_resampled(model: Any) -> None:
    """Raise UnsupportedModelError for a pipeline that resamples rows before it trains its ensemble.

    Raises
    ------
    UnsupportedModelError
        If a step before the last resamples the rows: it has ``fit_resample``.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> refuse_resampled(make_pipeline("passthrough", Ridge()))
    """
    if not _is_pipeline(model):
        return
    for name, step in model.steps[:-1]:
        if hasattr(step, "fit_resample"):
            raise UnsupportedModelError(
                f"Step {name!r} of the pipeline, {with_article(type(step).__name__)}, resamples the rows: the "
                "ensemble was not trained on those that were given. Out-of-bag rows would have copies or near-copies "
                "in the bag, or other shares of the labels, and the out-of-bag error would be wrong. Pass rows no "
                "member was trained on with {data='holdout'}, or balance inside each bag "
                "(class_weight='balanced_subsample', or imbalanced-learn's BalancedRandomForestClassifier) in place of "
                "this step."
            )


def layers(model: Any) -> Iterator[Any]:
    """Yield a model, the model inside it, and so on down to the ensemble, without reading any rows.

    Raises
    ------
    NotFittedError, UnsupportedModelError
        As :func:`unwrap`.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> [type(layer).__name__ for layer in layers(make_pipeline("passthrough", Ridge()))]
    ['Pipeline', 'Ridge']
    """
    yield model
    inner = model[-1] if _is_pipeline(model) else _held(model)
    if inner is not None:
        yield from layers(inner)


def inner_ensemble(model: Any) -> Any:
    """Return the ensemble inside pipelines, searches, learners and MLflow's pyfunc: the last of the :func:`layers`.

    Raises
    ------
    NotFittedError, UnsupportedModelError
        As :func:`unwrap`.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> inner_ensemble(make_pipeline("passthrough", Ridge()))
    Ridge()
    """
    *_, ensemble = layers(model)
    return ensemble


def replace_ensemble(model: Any, change: Callable[[Any], Any]) -> Any:
    """Return `model` with the ensemble inside it replaced by ``change(ensemble)``; `model` stays as it is.

    For a pipeline, a pipeline is returned, with its other steps copied, and for an RFE an RFE.  For a search, a
    RightSized*, a DynamicPruningClassifier, a FrozenEstimator or a pyfunc, the model inside is returned: its records
    are about the ensemble before the change.

    Raises
    ------
    NotFittedError
        If a search has not been fitted, or was fitted with ``refit=False``.
    UnsupportedModelError
        If a pyfunc does not give access to its model.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression, Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> replace_ensemble(make_pipeline(StandardScaler(), LinearRegression()), lambda ensemble: Ridge())[-1]
    Ridge()
    """
    if _is_pipeline(model):
        return _with_last_step(model, replace_ensemble(model[-1], change))
    held = _held(model)
    if held is None:
        return change(model)
    inner = replace_ensemble(held, change)
    return _with_estimator(model, inner) if is_elimination(model) else inner


def is_learner(model: Any) -> bool:
    """Return whether a model is one of this package's estimators that keep their ensemble as ``estimator_``."""
    return any(home in sys.modules and isinstance(model, getattr(sys.modules[home], name)) for home, name in _LEARNERS)


def is_elimination(model: Any) -> bool:
    """Return whether a model is scikit-learn's RFE or RFECV, which predicts by the columns that it chose."""
    module = sys.modules.get("sklearn.feature_selection")
    return module is not None and isinstance(model, module.RFE)


def _held(model: Any) -> Any | None:
    """Return the model inside a pyfunc, a search, an RFE, a learner or a model of Spark; None for any other."""
    if _is_pyfunc(model):
        return _raw_model(model)
    if _is_search(model):
        return _best_estimator(model)
    if _is_frozen(model):
        return model.estimator
    keeps_estimator = is_learner(model) or is_elimination(model) or _cuts_in_half(model)
    return _learned(model) if keeps_estimator else held_model(model)


def _cuts_in_half(model: Any) -> bool:
    """Return whether a model takes the likelier of two labels, by a threshold, as the ensemble inside it does."""
    module = sys.modules.get("sklearn.model_selection")
    known = getattr(module, "FixedThresholdClassifier", None)  # new in scikit-learn 1.5
    if known is None or not isinstance(model, known) or model.response_method == "decision_function":
        return False
    return model.threshold in ("auto", 0.5)


def _is_frozen(model: Any) -> bool:
    module = sys.modules.get("sklearn.frozen")  # new in scikit-learn 1.6
    return module is not None and isinstance(model, module.FrozenEstimator)


def _is_pyfunc(model: Any) -> bool:
    return type(model).__module__.startswith("mlflow.pyfunc") and hasattr(model, "get_raw_model")


def _is_search(model: Any) -> bool:
    # The base class of scikit-learn's searches is private; other libraries derive theirs from it.
    return hasattr(model, "best_estimator_") or any(cls.__name__ == "BaseSearchCV" for cls in type(model).__mro__)


def _is_pipeline(model: Any) -> bool:
    module = sys.modules.get("sklearn.pipeline")
    return module is not None and isinstance(model, module.Pipeline)


def _raw_model(model: Any) -> Any:
    try:
        return model.get_raw_model()
    except (AttributeError, NotImplementedError) as error:
        raise UnsupportedModelError(
            "This MLflow pyfunc model does not give the model inside it; load it with its own flavour instead, for "
            "example mlflow.sklearn.load_model(uri)."
        ) from error


def _best_estimator(search: Any) -> Any:
    if hasattr(search, "best_estimator_"):
        return search.best_estimator_
    name = type(search).__name__
    if hasattr(search, "cv_results_"):
        raise NotFittedError(
            f"This {name} was fitted with refit=False, so it holds no model trained on all rows; fit it with "
            "refit=True, or fit its estimator with best_params_."
        )
    raise NotFittedError(f"This {name} has not been fitted; call its fit(X, y) first.")


def _learned(model: Any) -> Any:
    if not hasattr(model, "estimator_"):
        raise NotFittedError(f"This {type(model).__name__} has not been fitted; call its fit(X, y) first.")
    return model.estimator_


def _transformed(pipeline: Any, X: Any, are_fresh: bool) -> Any:
    steps = pipeline.steps[:-1]
    if are_fresh:
        steps = [(name, step) for name, step in steps if not hasattr(step, "fit_resample")]
    else:
        refuse_resampled(pipeline)
    for name, step in steps:
        if step is not None and step != "passthrough" and not hasattr(step, "transform"):
            raise UnsupportedModelError(
                f"Step {name!r} of the pipeline, {with_article(type(step).__name__)}, has no transform, so the rows "
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


def _with_estimator(elimination: Any, estimator: Any) -> Any:
    changed = copy(elimination)
    changed.estimator_ = estimator
    return changed


def _with_last_step(pipeline: Any, step: Any) -> Any:
    earlier = copy(pipeline)
    earlier.steps = pipeline.steps[:-1]
    whole = deepcopy(earlier)
    whole.steps.append((pipeline.steps[-1][0], step))
    return whole
