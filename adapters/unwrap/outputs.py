"""Models of several outputs taken apart: for each output, an ensemble of the same members that predicts it alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from copy import copy, deepcopy
from functools import partial
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.refusals import no_adapter, several_targets
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble, replace_ensemble
from ens_plugin.core.validation import with_article
from ens_plugin.errors import InputError, NotFittedError, UnsupportedModelError

__all__ = [
    "IMPURITY_OUTPUTS",
    "JOINT_WEIGHTS",
    "MemberOutput",
    "first_members",
    "has_own_bags",
    "output_count",
    "output_ensemble",
    "split_outputs",
]

_FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
# True of a tree for one of several outputs whose class weights are products over all of them, not one for each label.
JOINT_WEIGHTS = "_ens_plugin_joint_weights"
# Of a tree for one of several outputs: the number of outputs that its impurities are means over.
IMPURITY_OUTPUTS = "_ens_plugin_impurity_outputs"
_WRAPPERS = ("MultiOutputClassifier", "MultiOutputRegressor")


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
        raise UnsupportedModelError(no_adapter(ensemble))
    if _is_a(ensemble, "sklearn.ensemble", (*_FORESTS, "BaggingRegressor")) and not hasattr(ensemble, "estimators_"):
        raise NotFittedError(f"This {type(ensemble).__name__} has not been fitted; call its fit(X, y) first.")
    n_outputs = output_count(ensemble, probe=True)
    if (n_targets := _booster_targets(ensemble)) > 1:
        raise UnsupportedModelError(several_targets(type(ensemble).__name__, n_targets))
    if n_outputs < 2:
        raise InputError(f"This {type(ensemble).__name__} predicts one output; pass it as it is.")
    return [replace_ensemble(model, partial(output_ensemble, output=output)) for output in range(n_outputs)]


def output_count(ensemble: Any, *, probe: bool = False) -> int:
    """Return how many outputs an unwrapped ensemble predicts; 1 for what is no ensemble.

    Parameters
    ----------
    ensemble : object
    probe : bool, default=False
        Whether bagged members that are no trees predict a row of zeros, to count their outputs.

    Raises
    ------
    NotFittedError
        If a MultiOutputClassifier or MultiOutputRegressor has not been fitted.
    """
    if _is_a(ensemble, "sklearn.multioutput", _WRAPPERS):
        if not hasattr(ensemble, "estimators_"):
            raise NotFittedError(f"This {type(ensemble).__name__} has not been fitted; call its fit(X, y) first.")
        return len(ensemble.estimators_)
    if _is_a(ensemble, "sklearn.ensemble", _FORESTS):
        return int(getattr(ensemble, "n_outputs_", 1))
    if not _is_a(ensemble, "sklearn.ensemble", ("BaggingRegressor",)) or not hasattr(ensemble, "estimators_"):
        return 1
    member, columns = ensemble.estimators_[0], ensemble.estimators_features_[0]
    if hasattr(member, "tree_") or not probe:
        return int(getattr(member, "n_outputs_", 1))
    found = np.asarray(member.predict(np.zeros((1, len(columns)))))
    return 1 if found.ndim == 1 else int(found.shape[1])


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
    """Return a copy of an unwrapped model of several outputs with its first `size` members for each output.

    Parameters
    ----------
    ensemble : fitted model of several outputs
    size : int
    truncate : callable
        ``truncate(model, size)`` returns a model of one output cut to size, with its checks.
    """
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
                f"{with_article(type(self.member).__name__, 'A')} was trained on several outputs and predicts one; "
                "refit all members."
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
    setattr(part, IMPURITY_OUTPUTS, tree.n_outputs_)
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


def _is_a(model: Any, module: str, names: tuple[str, ...]) -> bool:
    # A model can be of one of these classes only if the module is loaded.
    return module in sys.modules and isinstance(model, tuple(getattr(sys.modules[module], name) for name in names))
