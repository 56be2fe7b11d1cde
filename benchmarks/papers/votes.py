"""Forests of the papers of 2007 and 2013: every tree's mistakes out of bag and on held-out rows, kept as bits."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from benchmarks.shared.forests import Plan, Record, leaf_values, out_of_bag, random_numbers
from benchmarks.shared.keel import keel_rows
from benchmarks.shared.problems import FORMULAS

FloatArray = NDArray[np.float64]
LabelArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def split(plan: Plan) -> tuple[FloatArray, LabelArray, FloatArray, LabelArray]:
    """Return the training rows and the held-out rows of a plan, by formula or at random of a data set of KEEL.

    The papers' trees split words by sets, as those of R do: with three words, indicators allow the same splits.
    """
    if plan.problem in FORMULAS:
        features, y, rng = plan.sample()
        return features, y, *FORMULAS[plan.problem].sample(plan.fresh_rows, rng)
    features, y = keel_rows(plan.problem, as_indicators=True)
    rows = random_numbers(plan.problem, plan.seed, plan.repetition).permutation(y.size)
    assert plan.n_rows is not None
    train, others = rows[: plan.n_rows], rows[plan.n_rows : plan.n_rows + plan.fresh_rows]
    return features[train], y[train], features[others], y[others]


def bagging_mistakes(plan: Plan) -> Record:
    """Bagging of unpruned CART trees: every split looks at all features.

    Returns
    -------
    dict
        As :func:`forest_mistakes`.
    """
    return _mistakes(plan, None)


def forest_mistakes(plan: Plan) -> Record:
    """Random forest: every split looks at the square root of the number of features.

    Returns
    -------
    dict
        ``wrong`` and ``seen``, packed bits of shape (n_trees, n_rows), wrong votes and out-of-bag rows of the training
        data; ``held_out_wrong``, packed bits of shape (n_trees, fresh_rows); ``rows``, the two numbers of rows.
    """
    return _mistakes(plan, "sqrt")


METHODS = {"random forest": forest_mistakes, "bagging": bagging_mistakes}


def _mistakes(plan: Plan, max_features: Literal["sqrt"] | None) -> Record:
    features, y, fresh, fresh_y = split(plan)
    forest = RandomForestClassifier(plan.n_trees, max_features=max_features, random_state=plan.forest_seed())
    forest.fit(features, y)
    return {
        "wrong": np.packbits(_wrong(forest.estimators_, features, y), axis=1),
        "seen": np.packbits(out_of_bag(forest, y.size), axis=1),
        "held_out_wrong": np.packbits(_wrong(forest.estimators_, fresh, fresh_y), axis=1),
        "rows": np.array([y.size, fresh_y.size]),
    }


def _wrong(trees: list[Any], features: FloatArray, y: LabelArray) -> BoolArray:
    rows = features.astype(np.float32)
    return np.stack([leaf_values(tree, rows).argmax(axis=1) != y for tree in trees])


def unpacked(record: Record) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return the wrong votes and the out-of-bag votes, trees x rows, and the wrong votes about held-out rows."""
    n_rows, fresh_rows = map(int, record["rows"])
    wrong, is_oob = (np.unpackbits(record[name], axis=1, count=n_rows).astype(bool) for name in ("wrong", "seen"))
    return wrong, is_oob, np.unpackbits(record["held_out_wrong"], axis=1, count=fresh_rows).astype(bool)


def out_of_bag_path(wrong: BoolArray, is_oob: BoolArray) -> NDArray[np.float64]:
    """Out-of-bag error after 1, 2, ... trees, over the rows that have a vote; ties count half."""
    trials = np.cumsum(is_oob, axis=0, dtype=np.int32)
    excess = 2 * np.cumsum(wrong & is_oob, axis=0, dtype=np.int32) - trials
    mistakes = np.where(trials > 0, 0.5 * (np.sign(excess) + 1), 0.0)
    return np.asarray(mistakes.sum(axis=1) / (trials > 0).sum(axis=1))
