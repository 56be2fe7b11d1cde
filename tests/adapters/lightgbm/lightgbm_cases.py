"""LightGBM forests that every adapter check is run for; none where LightGBM is not installed."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification, make_regression

from tests.adapters.harness import Array, Case
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags, stated_seed

N_ROWS, FRACTION, N_TREES = 300, 0.6, 25
RF: dict[str, Any] = {
    "boosting_type": "rf",
    "n_estimators": N_TREES,
    "subsample": FRACTION,
    "subsample_freq": 1,
    "num_leaves": 8,
    "min_child_samples": 5,
    "random_state": 3,
    "n_jobs": 1,
    "verbose": -1,
}
X2, Y2 = make_classification(N_ROWS, 6, n_informative=4, flip_y=0.1, random_state=0)
X3, Y3 = make_classification(N_ROWS, 6, n_informative=4, n_classes=3, flip_y=0.1, random_state=1)
XR, YR = make_regression(N_ROWS, 6, noise=10.0, random_state=2)
# Rows of the same problems that no model was trained on.
FRESH2, FRESH3, FRESHR = (X + np.random.default_rng(5).normal(0.0, 0.3, X.shape) for X in (X2, X3, XR))
NAMES = np.array(["birch", "ash", "oak"])
WEIGHTS = np.random.default_rng(3).integers(0, 4, N_ROWS).astype(float)
WITH_NAN = np.where(np.random.default_rng(4).random(X2.shape) < 0.1, np.nan, X2)
SPARSE = csr_matrix(np.where(np.abs(X3) < 0.5, 0.0, X3))
FRAME = pd.DataFrame(X2, columns=[f"feature {index}" for index in range(6)])
MIXED = FRAME.assign(**{"feature 5": pd.Categorical(NAMES[Y3])})


def _library() -> Any:
    return import_module("lightgbm")


def fitted(X: Any = X2, y: Any = Y2, **options: Any) -> Any:
    return _library().LGBMClassifier(**{**RF, **options}).fit(X, y)


def regressor(X: Any = XR, y: Any = YR, **options: Any) -> Any:
    return _library().LGBMRegressor(**{**RF, **options}).fit(X, y)


def trained(X: Any = XR, y: Any = YR, **options: Any) -> Any:
    parameters = {**RF, **options}
    return _library().train(parameters, _library().Dataset(X, y), parameters.pop("n_estimators"))


def edited(booster: Any, pattern: str, replacement: str) -> Any:
    text, count = re.subn(pattern, replacement, booster.model_to_string(), flags=re.MULTILINE)
    assert count
    return _library().Booster(model_str=text)


def booster_of(model: Any) -> Any:
    return getattr(model, "booster_", model)


def drawn(limit: Any = None, frequency: int = 1) -> Callable[[Any], list[Array]]:
    """Rows of each member by brute force."""

    def samples(model: Any) -> list[Array]:
        booster = booster_of(model)
        n_members = booster.current_iteration()
        limits = int(np.ceil(FRACTION * 32768)) if limit is None else limit
        rounds = drawn_bags(N_ROWS, stated_seed(booster), limits, -(-n_members // frequency))
        return [np.flatnonzero(rounds[member // frequency]) for member in range(n_members)]

    return samples


def own_booster_prediction(model: Any, X: Any) -> Array:
    """Probabilities of all labels, or values, by the library itself."""
    predicted = np.asarray(booster_of(model).predict(X))
    binary = "objective=binary" in booster_of(model).model_to_string()
    return np.stack([1.0 - predicted, predicted], axis=1) if binary else predicted


def lightgbm_forests() -> list[Case]:
    if find_spec("lightgbm") is None:
        return []
    import lightgbm

    classifier, regressor = lightgbm.LGBMClassifier, lightgbm.LGBMRegressor

    def case(name: str, cls: Any, X: Any, y: Array, samples: Any = None, weight: Any = None, **options: Any) -> Case:
        known = {key: options.pop(key) for key in ("proves_target", "needs_target") if key in options}
        return Case(
            f"lightgbm {name}",
            lambda: cls(**{**RF, **options}).fit(X, y, sample_weight=weight),
            X,
            y,
            samples or drawn(),
            own_booster_prediction,
            # LightGBM adds trees in another order than ours.
            tolerance=1e-9 if cls is regressor else 1e-13,
            **known,
        )

    def train(X: Any, y: Array, **parameters: Any) -> Callable[[], Any]:
        options = {**RF, **parameters}
        n_trees = options.pop("n_estimators")
        return lambda: lightgbm.train(options, lightgbm.Dataset(X, y), n_trees)

    blind: dict[str, Any] = {"proves_target": False}
    balanced = {"pos_bagging_fraction": 0.3, "neg_bagging_fraction": 0.75}
    limits = np.where(Y2 == 1, int(np.ceil(0.3 * 32768)), int(0.75 * 32768))
    return [
        case("binary", classifier, X2, Y2),
        case("binary string labels", classifier, X2, NAMES[Y2]),
        case("binary sigmoid", classifier, X2, Y2, sigmoid=2.0),
        case("binary weights", classifier, X2, Y2, weight=WEIGHTS, **blind),
        case("binary balanced bagging", classifier, X2, Y2, drawn(limits), needs_target=True, **balanced),
        case("multiclass", classifier, X3, NAMES[Y3]),
        case("multiclass ova", classifier, X3, Y3, objective="multiclassova"),
        case("regression", regressor, XR, YR),
        case("regression weights", regressor, XR, YR, weight=WEIGHTS),
        case("freq 2", regressor, XR, YR, drawn(frequency=2), subsample_freq=2),
        case("random_state None", classifier, X2, Y2, random_state=None),
        case("bagging_seed", classifier, X2, Y2, bagging_seed=2**31 - 1),
        case("feature fractions", classifier, X3, Y3, colsample_bytree=0.5, feature_fraction_bynode=0.5),
        case("NaN", classifier, WITH_NAN, Y2),
        case("sparse", classifier, SPARSE, Y3),
        case("DataFrame", classifier, FRAME, Y2),
        case("categories", classifier, MIXED, Y2, **blind),
        case("linear trees", regressor, XR, YR, linear_tree=True, **blind),
        Case(
            "lightgbm Booster binary", train(X2, Y2, objective="binary"), X2, Y2, drawn(), own_booster_prediction, 1e-13
        ),
        Case("lightgbm Booster regression", train(XR, YR), XR, YR, drawn(), own_booster_prediction, 1e-9),
    ]
