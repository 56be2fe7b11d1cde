"""Forests of LightGBM and XGBoost, reduced to their members' out-of-bag predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray

import ens_plugin
from benchmarks.shared.forests import FEW, Plan, Record
from benchmarks.shared.problems import FORMULAS
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.core.tally import RowBlock, mean_and_sd, member_margins, strongest_rival, value_sums

Array = NDArray[Any]

SHARE = 0.632
FRESH_AT_ONCE = 5_000


class Library(NamedTuple):
    """A library that grows random forests.

    Attributes
    ----------
    name : str
        With its version.
    train : callable
        ``train(X, y, n_trees, seed)`` returns a booster; rows and columns are drawn as a random forest's, and all
        else is the library's default (LightGBM's leaves of 20 rows are too many for data of 300: 5).
    predict : callable
        ``predict(booster, X)`` returns probabilities.
    """

    name: str
    train: Callable[[Array, Array, int, int], Any]
    predict: Callable[[Any, Array], Array]


def _lightgbm_forest(X: Array, y: Array, n_trees: int, seed: int) -> Any:
    n_labels = np.unique(y).size
    options: dict[str, Any] = {
        "boosting": "rf",
        "objective": "binary" if n_labels == 2 else "multiclass",
        "bagging_fraction": SHARE,
        "bagging_freq": 1,
        "feature_fraction_bynode": X.shape[1] ** -0.5,
        "min_data_in_leaf": 5,
        "seed": seed,
        "num_threads": 1,
        "verbose": -1,
    }
    return lightgbm.train({**options, **_label_count("num_class", n_labels)}, lightgbm.Dataset(X, y), n_trees)


def _xgboost_forest(X: Array, y: Array, n_trees: int, seed: int) -> Any:
    n_labels = np.unique(y).size
    options: dict[str, Any] = {
        "objective": "binary:logistic" if n_labels == 2 else "multi:softprob",
        "num_parallel_tree": n_trees,
        "subsample": SHARE,
        "colsample_bynode": X.shape[1] ** -0.5,
        "learning_rate": 1,
        "seed": seed,
        "nthread": 1,
    }
    options |= _label_count("num_class", n_labels)
    return xgboost.train(options, xgboost.DMatrix(X, y), num_boost_round=1)


def _label_count(name: str, n_labels: int) -> dict[str, int]:
    return {name: n_labels} if n_labels > 2 else {}


LIBRARIES = {
    "LightGBM": Library(
        f"LightGBM {lightgbm.__version__}",
        _lightgbm_forest,
        lambda booster, X: np.asarray(booster.predict(X, num_threads=1)),
    ),
    "XGBoost": Library(
        f"XGBoost {xgboost.__version__}",
        _xgboost_forest,
        lambda booster, X: np.asarray(booster.predict(xgboost.DMatrix(X, nthread=1))),
    ),
}


def scores(library: str, plan: Plan) -> Record:
    """Return the outputs of the first 50 members, and the mean and spread of every row's margin over all members.

    Returns
    -------
    dict
        ``outputs``, raw scores, shape (50, n_rows) or (50, n_rows, n_labels); ``in_bag``, shape (50, n_rows);
        ``target``, label codes; ``mean``, ``sd`` and ``trials``, shape (n_rows,), of all members out of bag.
    """
    X, y, _ = plan.sample()
    y = y.astype(np.int64)
    booster = LIBRARIES[library].train(X, y, plan.n_trees, plan.forest_seed())
    outputs, is_oob = _out_of_bag_scores(booster, X, y)
    block = RowBlock(outputs, is_oob, y, np.unique(y).size)
    margins = (
        np.where(y == 1, outputs, -outputs)
        if outputs.ndim == 2
        else member_margins(block, strongest_rival(block.support, y))
    )
    trials, total, squares = value_sums(RowBlock(margins, is_oob, y, 0))
    mean, sd = mean_and_sd(total, squares, trials)
    return {**_few_scores(ens_plugin.truncate(booster, FEW), X, y), "mean": mean, "sd": sd, "trials": trials}


def fresh_error(library: str, sample: Callable[[Plan], tuple[Array, Array, np.random.Generator]], plan: Plan) -> Record:
    """Return the outputs and bags of all members, and the error of the booster itself on fresh rows.

    Returns
    -------
    dict
        ``outputs``, ``in_bag`` and ``target`` as :func:`scores`, of all members; ``fresh``, the error on
        ``plan.fresh_rows`` rows.
    """
    X, y, rng = sample(plan)
    booster = LIBRARIES[library].train(X, y, plan.n_trees, plan.forest_seed())
    fresh, fresh_y = FORMULAS[plan.problem].sample(plan.fresh_rows, rng)
    starts = range(0, plan.fresh_rows, FRESH_AT_ONCE)
    predict = LIBRARIES[library].predict
    positive = np.concatenate([predict(booster, fresh[start : start + FRESH_AT_ONCE]) for start in starts])
    return {**_few_scores(booster, X, y), "fresh": np.asarray(np.mean((positive > 0.5) != fresh_y))}


def tossed_rows(plan: Plan) -> tuple[Array, Array, np.random.Generator]:
    """Training rows whose labels are tosses of a coin: `Plan.sample` has as many of one label as of the other."""
    drawn = plan._replace(n_rows=2 * (plan.n_rows or 0))
    X, y, rng = drawn.sample()
    n_positive = rng.binomial(y.size // 2, 0.5)
    chosen = np.concatenate([np.flatnonzero(y == 1)[:n_positive], np.flatnonzero(y == 0)[: y.size // 2 - n_positive]])
    chosen = rng.permutation(chosen)
    return X[chosen], y[chosen], rng


def _few_scores(booster: Any, X: Array, y: Array) -> Record:
    outputs, is_oob = _out_of_bag_scores(booster, X, y)
    return {"outputs": outputs, "in_bag": ~is_oob, "target": y}


def _out_of_bag_scores(booster: Any, X: Array, y: Array) -> tuple[Array, Array]:
    adapter = find_adapter(booster)
    features = adapter.prepare(X)
    return adapter.block(features, adapter.bags(X, features, y), slice(0, y.size))
