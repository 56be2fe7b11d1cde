"""What the out-of-bag members of each row predict, member by member, by each library's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from ens_plugin import CustomEnsemble
from tests.adapters.harness import Array


def mask_of(samples: list[Array], n_rows: int) -> NDArray[np.bool_]:
    """Which rows each member drew, shape (n_members, n_rows)."""
    mask = np.zeros((len(samples), n_rows), dtype=bool)
    for member, rows in enumerate(samples):
        mask[member, rows] = True
    return mask


def member_predictions(model: Any, X: Any, in_bag: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The combined predictions of each row's out-of-bag members, NaN without any, and how many they are."""
    library = type(model).__module__.partition(".")[0]
    if library == "xgboost":
        return xgboost_predictions(model, X, in_bag)
    outputs = OUTPUTS[library](model, X)
    mean = mean_over(outputs, ~in_bag)
    return lightgbm_link(model, mean) if library == "lightgbm" else mean, (~in_bag).sum(axis=0)


def mean_over(outputs: Array, counted: NDArray[np.bool_]) -> Array:
    """Row by row: the mean of the outputs that count."""
    rows = range(outputs.shape[1])
    missing = np.full(outputs.shape[2:], np.nan)
    return np.stack([outputs[counted[:, r], r].mean(axis=0) if counted[:, r].any() else missing for r in rows])


def sklearn_outputs(model: Any, X: Any) -> Array:
    rows = X.to_numpy() if hasattr(X, "to_numpy") else X
    columns = getattr(model, "estimators_features_", [slice(None)] * len(model.estimators_))
    return np.stack(
        [one_output(model, own, rows[:, some]) for own, some in zip(model.estimators_, columns, strict=True)]
    )


def one_output(model: Any, member: Any, rows: Any) -> Array:
    if not hasattr(model, "classes_"):
        return np.asarray(member.predict(rows))
    # The members' labels are codes into those of the ensemble.
    if not hasattr(member, "predict_proba"):
        return np.eye(len(model.classes_))[member.predict(rows)]
    found = np.zeros((rows.shape[0], len(model.classes_)))
    found[:, member.classes_.astype(int)] = member.predict_proba(rows)
    return found


def custom_outputs(model: CustomEnsemble, X: Any) -> Array:
    rows = model.rows(X)
    outputs = np.stack([model.member_outputs(member, rows) for member in range(model.n_members)])
    return np.eye(len(model.classes))[outputs] if model.aggregation == "vote" else outputs


def lightgbm_outputs(model: Any, X: Any) -> Array:
    booster = getattr(model, "booster_", model)
    iterations = range(booster.current_iteration())
    return np.stack([booster.predict(X, raw_score=True, start_iteration=m, num_iteration=1) for m in iterations])


def lightgbm_link(model: Any, score: Array) -> Array:
    # As its documentation has it: binary sigmoid:1, multiclass num_class:3, regression.
    objective = str(getattr(model, "booster_", model).dump_model()["objective"])
    factor = float(objective.partition("sigmoid:")[2].partition(" ")[0] or 1.0)
    if objective.startswith("binary"):
        return np.stack([1.0 - expit(factor * score), expit(factor * score)], axis=1)
    if objective.startswith("multiclassova"):
        return np.asarray(expit(factor * score))
    return np.asarray(softmax(score, axis=1)) if score.ndim == 2 else score


def xgboost_predictions(model: Any, X: Any, in_bag: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Values of the leaves that rows reach; a row's out-of-bag trees of one class meet those of the others."""
    import xgboost

    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    matrix = xgboost.DMatrix(X, enable_categorical=hasattr(X, "iloc"))
    frame = booster.trees_to_dataframe()
    leaves = frame[frame["Feature"] == "Leaf"].set_index(["Tree", "Node"])["Gain"].to_dict()
    reached = booster.predict(matrix, pred_leaf=True).astype(int).reshape(matrix.num_row(), -1)
    values = np.array([[leaves[tree, leaf] for tree, leaf in enumerate(row)] for row in reached])
    margin = booster.predict(matrix, output_margin=True).reshape(matrix.num_row(), -1)
    n_classes = margin.shape[1]
    n_trees = values.shape[1] // n_classes
    # Trees come class by class, all parallel trees of one class after the other.
    by_class = values.reshape(-1, n_classes, n_trees)
    base = margin - by_class.sum(axis=2)
    out = ~in_bag.T.reshape(-1, n_classes, n_trees)
    n_members = out.sum(axis=2).min(axis=1)
    mean = np.full(margin.shape, np.nan)
    for row, count in enumerate(n_members):
        for label in range(n_classes):
            own = by_class[row, label][out[row, label]][:count]
            # Leaves hold the share of a tree in the sum over all.
            mean[row, label] = base[row, label] + n_trees * own.mean() if count else np.nan
    if n_classes > 1:
        return np.asarray(softmax(mean, axis=1)), n_members
    if "binary" in booster.save_config():
        return np.stack([1.0 - expit(mean[:, 0]), expit(mean[:, 0])], axis=1), n_members
    return mean[:, 0], n_members


OUTPUTS = {"sklearn": sklearn_outputs, "ens_plugin": custom_outputs, "lightgbm": lightgbm_outputs}
