"""Every tree of many kinds of XGBoost training gives up its bag, and the bag is right."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import ens_plugin

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from ens_plugin.adapters.xgboost.forest import Forest  # noqa: E402
from tests.adapters.xgboost.xgboost_cases import check_counts  # noqa: E402

RELEASE = tuple(int(part) for part in xgboost.__version__.split(".")[:2])
BASE: dict[str, Any] = {"num_parallel_tree": 8, "subsample": 0.6, "seed": 3, "nthread": 1, "max_depth": 6}
LOGISTIC = {"objective": "binary:logistic"}
SOFTMAX = {"objective": "multi:softprob", "num_class": 3}
COLUMNS = {"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.7}
BY_LOSS = {"grow_policy": "lossguide", "max_depth": 0}


def setting(name: str, options: dict[str, Any] | None = None, **more: Any) -> Any:
    return pytest.param({"options": options or {}, **more}, id=name)


SETTINGS = [
    *(setting(f"seed {seed}", {"seed": seed}) for seed in (0, 7, -1, 2**31 - 1, 2**40 + 3)),
    setting("seed by round", {"seed_per_iteration": True}, rounds=3),
    *(setting(f"share {share}", {"subsample": share}) for share in (0.05, 0.3, 0.632, 0.8, 0.99)),
    *(setting(f"threads {n}", {"nthread": n}, n_rows=60_000) for n in (1, 2, 4)),
    *(setting(f"{n} rows", n_rows=n) for n in (37, 1023, 1024, 1025)),
    *(setting(f"{key} {method}", {key: 0.5, "tree_method": method}, rounds=2)
      for key in ("colsample_bytree", "colsample_bylevel", "colsample_bynode")
      for method in ("hist", "approx", "exact") if (key, method) != ("colsample_bynode", "exact")),
    *(setting(f"all columns {method}", {**COLUMNS, "tree_method": method}) for method in ("hist", "approx")),
    *(setting(f"{method} three classes", {**SOFTMAX, "tree_method": method}, rounds=2)
      for method in ("hist", "approx", "exact")),
    setting("depth 2", {"max_depth": 2}),
    setting("no depth limit", {"max_depth": 0, **COLUMNS}, n_rows=2000),
    setting("leaves by loss", {**BY_LOSS, "max_leaves": 20, "colsample_bynode": 0.5}),
    setting("leaves by level", {"max_leaves": 20, "max_depth": 0, "colsample_bynode": 0.5}),
    setting("by loss, depth", {"grow_policy": "lossguide", "max_leaves": 20, **COLUMNS}),
    setting("binary", LOGISTIC, rounds=3),
    setting("binary, few positives", LOGISTIC, threshold=2.2),
    setting("binary, few negatives", LOGISTIC, threshold=-2.2),
    setting("binary, base score", {**LOGISTIC, "base_score": 0.9}),
    setting("raw", {"objective": "binary:logitraw"}, rounds=2),
    setting("counts", {"objective": "count:poisson"}, rounds=2),
    setting("three classes", SOFTMAX, rounds=3),
    setting("weights with zeros", LOGISTIC, weighted=True, rounds=2),
    setting("weights, squares", {}, weighted=True),
    setting("categories", {"max_cat_to_onehot": 2}, table="frame"),
    setting("missing", LOGISTIC, table="missing"),
    setting("sparse", SOFTMAX, table="sparse"),
    setting("pickled", LOGISTIC, carry="pickle", rounds=2),
    setting("saved and loaded", LOGISTIC, carry="file", rounds=2),
    setting("saved and loaded exact", {"tree_method": "exact"}, carry="file"),
    *(setting(f"saved and loaded, {key}", {key: 0.5}, carry="file")
      for key in ("colsample_bytree", "colsample_bylevel", "colsample_bynode")),
    setting("saved and loaded, all columns", COLUMNS, carry="file", n_rows=3000),
    setting("sliced", LOGISTIC, carry="slice", rounds=3),
    setting("max_bin, gamma", {"max_bin": 16, "gamma": 1.0, "alpha": 0.5}),
    setting("monotone", {"monotone_constraints": (1, 0, 0, 0, 0, 0)}),
]  # fmt: skip


def table(kind: str, n_rows: int) -> Any:
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 6))
    if kind == "missing":
        return np.where(rng.random(X.shape) < 0.2, np.nan, X)
    if kind == "sparse":
        return csr_matrix(np.where(np.abs(X) < 0.4, 0.0, X))
    if kind == "frame":
        frame = pd.DataFrame(X, columns=list("abcdef"))
        frame["f"] = pd.Categorical(rng.choice(list("uvwxyz"), n_rows))
        return frame
    return X


def target(options: dict[str, Any], X: Any, threshold: float) -> Any:
    first = X.toarray()[:, 0] if hasattr(X, "toarray") else np.nan_to_num(np.asarray(X)[:, 0].astype(float))
    noisy = first + 0.5 * np.random.default_rng(1).normal(size=first.size)
    objective = options.get("objective", "reg:squarederror")
    if objective.startswith("binary"):
        return (noisy > threshold).astype(int)
    if objective.startswith("multi"):
        return np.digitize(noisy, [-0.5, 0.5])
    return np.digitize(noisy, [-1, 0, 1, 2]) if objective == "count:poisson" else noisy


def carried(booster: Any, how: str, tmp_path: Any) -> Any:
    if how == "pickle":
        return pickle.loads(pickle.dumps(booster))
    if how == "slice":
        return booster[:2]
    if how == "file":
        booster.save_model(tmp_path / "model.json")
        return xgboost.Booster(model_file=tmp_path / "model.json")
    return booster


@pytest.mark.slow
@pytest.mark.parametrize("how", SETTINGS)
def test_every_tree_is_proved(how: dict[str, Any], tmp_path: Any) -> None:
    options = {**BASE, **how["options"]}
    X = table(how.get("table", ""), how.get("n_rows", 500))
    y = target(options, X, how.get("threshold", 0.0))
    weight = np.random.default_rng(2).integers(0, 4, len(y)).astype(float) if how.get("weighted") else None
    matrix = xgboost.DMatrix(X, y, weight=weight, enable_categorical=hasattr(X, "iloc"))
    booster = xgboost.train(options, matrix, num_boost_round=how.get("rounds", 1))
    booster = carried(booster, how.get("carry", ""), tmp_path)
    mask = ens_plugin.in_bag(booster, X if weight is None else matrix, y if how.get("rounds", 1) == 1 else None)
    forest = Forest(booster)
    assert mask.shape == (forest.n_trees, len(y))
    if "objective" in options or weight is not None:
        assert abs(mask[:, 2:].mean() - options["subsample"]) < 0.05
        return
    check_counts(booster, mask, booster.predict(matrix, pred_leaf=True).reshape(len(y), -1))


def stopped_by(options: dict[str, Any], n_rows: int) -> Any:
    X = table("", n_rows)
    return xgboost.train({**BASE, **options}, xgboost.DMatrix(X, target(BASE, X, 0.0)), num_boost_round=1)


@pytest.mark.parametrize("method", ["hist", "approx", "exact"])
def test_methods(method: str) -> None:
    """The matrix in small, for every run."""
    X, booster = table("", 300), stopped_by({"tree_method": method}, 300)
    mask = ens_plugin.in_bag(booster, X)
    check_counts(booster, mask, booster.predict(xgboost.DMatrix(X), pred_leaf=True))
