"""XGBoost models for the shared harness, and bags redrawn number by number, as the library's C++ does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xgboost
from scipy.sparse import csr_matrix
from scipy.special import expit
from sklearn.datasets import make_classification, make_regression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ens_plugin.adapters.xgboost.forest import Forest
from tests.adapters.harness import Array, Case

RELEASE = tuple(int(part) for part in xgboost.__version__.split(".")[:2])
N_ROWS = 160
SHARE = 0.6
FOREST: dict[str, Any] = {"num_parallel_tree": 20, "subsample": SHARE, "learning_rate": 1, "seed": 3, "nthread": 1}
SKLEARN: dict[str, Any] = {
    "n_estimators": 1,
    "num_parallel_tree": 20,
    "subsample": SHARE,
    "learning_rate": 1,
    "random_state": 3,
    "n_jobs": 1,
}

X2, Y2 = make_classification(N_ROWS, 6, n_informative=4, flip_y=0.1, random_state=0)
X3, Y3 = make_classification(N_ROWS, 6, n_informative=4, n_classes=3, flip_y=0.1, random_state=1)
XR, YR = make_regression(N_ROWS, 6, noise=10.0, random_state=2)
WITH_NAN = np.where(np.random.default_rng(4).random(X2.shape) < 0.1, np.nan, X2)
SPARSE = csr_matrix(np.where(np.abs(X3) < 0.5, 0.0, X3))
FRAME = pd.DataFrame(X2, columns=[f"feature {i}" for i in range(6)])


N = N_ROWS
BINARY = {"objective": "binary:logistic"}
MULTI = {"objective": "multi:softprob", "num_class": 3}


def train(options: dict[str, Any], X: Any = X2, y: Any = Y2, rounds: int = 1, **more: Any) -> Any:
    return xgboost.train({**FOREST, **options}, xgboost.DMatrix(X, y, **more), num_boost_round=rounds)


def as_mask(samples: list[Any], n_rows: int = N) -> Any:
    mask = np.zeros((len(samples), n_rows), dtype=bool)
    for tree, rows in enumerate(samples):
        mask[tree, rows] = True
    return mask


def check_counts(booster: Any, mask: Any, leaves: Any) -> None:
    """Compare the rows of the bags in each leaf with the numbers that the trees store."""
    forest = Forest(booster)
    for tree in range(forest.n_trees):
        is_leaf = forest.of_tree(forest.is_leaf, tree)
        counts = np.bincount(leaves[mask[tree], tree].astype(int), minlength=is_leaf.size)
        np.testing.assert_array_equal(counts[is_leaf], forest.leaf_covers(tree))


def with_categories() -> Any:
    frame = FRAME.copy()
    frame["kind"] = pd.Categorical(np.random.default_rng(5).choice(list("uvwxyz"), N_ROWS))
    return frame


def redrawn(seed: int, n_trees: int, n_rows: int, share: float) -> list[Array]:
    """Rows of each tree of one `hist` training, by the definition: one state, one row after the other."""
    state = np.random.RandomState(seed % 2**32)
    outputs = state.randint(0, 2**32, size=n_trees + 1, dtype=np.uint32)
    # Tried: 2.1.1, and 3.x.
    first = 1 if (2, 1) < RELEASE < (3, 3) else 0
    bags = []
    for word in outputs[first : first + n_trees].tolist():
        x, rows = word, []
        for row in range(n_rows):
            x = 16807 * x % 2**63
            if (x - 1) / 2**63 < float(np.float32(share)):
                rows.append(row)
        bags.append(np.array(rows))
    return bags


def booster_samples(model: Any) -> list[Array]:
    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    return redrawn(3, len(booster.get_dump()), N_ROWS, SHARE)


def own_prediction(model: Any, X: Any) -> Array:
    """What the library itself predicts: probabilities of all labels (of raw margins, their logistic), or values."""
    booster = model if isinstance(model, xgboost.Booster) else model.get_booster()
    categorical = {"enable_categorical": True} if hasattr(X, "iloc") else {}
    predicted = np.asarray(booster.predict(xgboost.DMatrix(X, **categorical)), dtype=np.float64)
    objective = json.loads(booster.save_config())["learner"]["objective"]["name"]
    if objective == "binary:logitraw":
        predicted = expit(predicted)
    return np.stack([1.0 - predicted, predicted], axis=1) if objective.startswith("binary") else predicted


def pipeline_prediction(model: Any, X: Any) -> Array:
    return own_prediction(model[-1], model[:-1].transform(X))


def booster(options: dict[str, Any], X: Any, y: Array) -> Callable[[], Any]:
    categorical = {"enable_categorical": True} if hasattr(X, "iloc") else {}
    return lambda: xgboost.train({**FOREST, **options}, xgboost.DMatrix(X, y, **categorical), num_boost_round=1)


def case(name: str, fit: Callable[[], Any], X: Any, y: Array, predict: Any = own_prediction, **options: Any) -> Case:
    largest = max(float(np.abs(y).max()), 1.0)
    return Case(f"xgboost {name}", fit, X, y, booster_samples, predict, tolerance=1e-5 * largest, **options)


def xgboost_cases() -> list[Case]:
    binary, multi = BINARY, MULTI
    made = [
        case("binary", booster(binary, X2, Y2), X2, Y2),
        case("binary raw", booster({"objective": "binary:logitraw", "learning_rate": 0.1}, X2, Y2), X2, Y2),
        case("three classes", booster(multi, X3, Y3), X3, Y3),
        case("NaN", booster(binary, WITH_NAN, Y2), WITH_NAN, Y2),
        case("sparse", booster(multi, SPARSE, Y3), SPARSE, Y3),
        case("categories", booster({**binary, "max_cat_to_onehot": 1}, with_categories(), Y2), with_categories(), Y2),
        case("regression", booster({}, XR, YR), XR, YR),
        case("classifier", lambda: xgboost.XGBClassifier(**SKLEARN).fit(X3, Y3), X3, Y3),
        case("regressor", lambda: xgboost.XGBRegressor(**SKLEARN).fit(XR, YR), XR, YR),
        case(
            "pipeline",
            lambda: make_pipeline(StandardScaler(), xgboost.XGBClassifier(**SKLEARN)).fit(X2, Y2),
            X2,
            Y2,
            pipeline_prediction,
        ),
    ]
    return made
