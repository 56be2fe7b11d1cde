"""The models that every adapter check is run for."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from ens_plugin import CustomEnsemble
from tests.adapters.harness import Array, Case, own_prediction, recorded_samples
from tests.adapters.lightgbm.lightgbm_cases import lightgbm_forests
from tests.adapters.spark_ml.spark_trees import spark_forest_of

RELEASE = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
# Before 1.8, trees may count rows with NaN in another leaf than apply finds, so nothing can be proved from them.
NAN_OPTIONS: dict[str, Any] = {"proves_rows": RELEASE >= (1, 8)}
N_ROWS = 160
BAGGED: dict[str, Any] = {"n_estimators": 40, "oob_score": True, "random_state": 1}
FOREST: dict[str, Any] = {**BAGGED, "bootstrap": True}

X2, Y2 = make_classification(N_ROWS, 6, n_informative=4, flip_y=0.1, random_state=0)
X3, Y3 = make_classification(N_ROWS, 6, n_informative=4, n_classes=3, flip_y=0.1, random_state=1)
XR, YR = make_regression(N_ROWS, 6, noise=10.0, random_state=2)
NAMES = np.array(["birch", "ash", "oak"])
WEIGHTS = np.random.default_rng(3).integers(1, 4, N_ROWS).astype(float)
SOME_ZERO = np.where(np.arange(N_ROWS) % 4 == 0, 0.0, WEIGHTS)
WITH_NAN = np.where(np.random.default_rng(4).random(X2.shape) < 0.1, np.nan, X2)
SPARSE = csr_matrix(np.where(np.abs(X3) < 0.5, 0.0, X3))
FRAME = pd.DataFrame(X2, columns=[f"feature {i}" for i in range(6)])


def case(name: str, model: Any, X: Any, y: Array, weight: Array | None = None, **options: Any) -> Case:
    """Return the case of a scikit-learn model, fitted when first needed."""
    # Some releases take the weights of bagging by their name only.
    fit = (lambda: model.fit(X, y)) if weight is None else (lambda: model.fit(X, y, sample_weight=weight))
    return Case(name, fit, X, y, **{"samples": recorded_samples, **options})


def forests() -> list[Case]:
    classifiers: tuple[Callable[..., Any], ...] = (RandomForestClassifier, ExtraTreesClassifier)
    cases = [
        made
        for cls in classifiers
        for made in (
            case(f"{cls.__name__} 2 labels", cls(**FOREST), X2, Y2),
            case(f"{cls.__name__} 3 labels", cls(**FOREST), X3, Y3),
            case(f"{cls.__name__} max_depth", cls(max_depth=3, **FOREST), X3, Y3),
        )
    ]
    forest = RandomForestClassifier
    cases += [
        case("forest string labels", forest(**FOREST), X3, NAMES[Y3]),
        case("forest max_samples int", forest(max_samples=70, **FOREST), X3, Y3),
        case("forest max_samples float", forest(max_samples=0.4, **FOREST), X3, Y3),
        case("forest balanced", forest(class_weight="balanced", **FOREST), X3, Y3),
        case("forest balanced_subsample", forest(class_weight="balanced_subsample", **FOREST), X3, Y3),
        case("forest sample_weight", forest(**FOREST), X2, Y2, WEIGHTS),
        case("forest zero weights", forest(**FOREST), X2, Y2, SOME_ZERO),
        case("forest max_leaf_nodes", forest(max_leaf_nodes=8, **FOREST), X3, Y3),
        case("forest entropy", forest(criterion="entropy", min_samples_leaf=5, **FOREST), X3, Y3),
        case(
            "forest monotonic",
            forest(max_depth=4, **FOREST).set_params(monotonic_cst=[1, 0, 0, 0, 0, 0]),
            X2,
            Y2,
            proves_target=False,
        ),
        case("forest NaN", forest(**FOREST), WITH_NAN, Y2, **NAN_OPTIONS),
        case("forest sparse", forest(**FOREST), SPARSE, Y3),
        case("forest DataFrame", forest(**FOREST), FRAME, NAMES[Y2]),
        case("forest regression", RandomForestRegressor(**FOREST), XR, YR),
        case("forest regression max_depth", RandomForestRegressor(max_depth=3, **FOREST), XR, YR),
        case("forest absolute error", RandomForestRegressor(criterion="absolute_error", **FOREST), XR, YR),
        case("extra trees regression", ExtraTreesRegressor(min_samples_leaf=5, **FOREST), XR, YR, WEIGHTS),
    ]
    if RELEASE >= (1, 6):
        cases.append(case("extra trees NaN", ExtraTreesClassifier(**FOREST), WITH_NAN, Y2, **NAN_OPTIONS))
    return cases


def baggings() -> list[Case]:
    subsets: dict[str, Any] = {"max_features": 0.5, "bootstrap_features": True}
    pasting: dict[str, Any] = {"n_estimators": 25, "bootstrap": False, "max_samples": 0.5, "random_state": 0}
    tree, linear = DecisionTreeClassifier(), LogisticRegression()
    blind: dict[str, Any] = {"proves_rows": False}
    # brute: a k-d tree counts its own queries, so scikit-learn's predict changes the pickled model.
    return [
        case("bagging default", BaggingClassifier(**BAGGED), X3, Y3),
        case("bagging shallow trees", BaggingClassifier(DecisionTreeClassifier(max_depth=3), **BAGGED), X3, NAMES[Y3]),
        case("bagging feature subsets", BaggingClassifier(tree, **BAGGED, **subsets), X3, Y3),
        case("bagging max_samples", BaggingClassifier(tree, max_samples=60, **BAGGED), X2, Y2),
        case("bagging sample_weight", BaggingClassifier(tree, **BAGGED), X2, Y2, WEIGHTS),
        case("bagging sparse", BaggingClassifier(tree, **BAGGED, **subsets), SPARSE, Y3),
        case("bagging DataFrame", BaggingClassifier(tree, **BAGGED), FRAME, Y2),
        case("bagging NaN", BaggingClassifier(tree, **BAGGED), WITH_NAN, Y2, **NAN_OPTIONS),
        case(
            "bagging kNN",
            BaggingClassifier(KNeighborsClassifier(3, algorithm="brute"), **BAGGED),
            X3,
            NAMES[Y3],
            **blind,
        ),
        case("bagging logistic", BaggingClassifier(linear, **BAGGED, **subsets), X3, Y3, tolerance=1e-12, **blind),
        case("bagging SVC", BaggingClassifier(LinearSVC(dual=False), **BAGGED), X3, NAMES[Y3], **blind),
        case("pasting", BaggingClassifier(tree, **pasting), X3, Y3),
        case("pasting regression", BaggingRegressor(**pasting), XR, YR),
        case("bagging regression", BaggingRegressor(**BAGGED), XR, YR),
        case("bagging regression subsets", BaggingRegressor(DecisionTreeRegressor(), **BAGGED, **subsets), XR, YR),
        case(
            "bagging kNN regression",
            BaggingRegressor(KNeighborsRegressor(3, algorithm="brute"), **BAGGED),
            XR,
            YR,
            **blind,
        ),
        case("bagging ridge", BaggingRegressor(Ridge(), **BAGGED), XR, YR, tolerance=1e-9, **blind),
    ]


def wrapped() -> list[Case]:
    forest = RandomForestClassifier(**FOREST)
    pipeline = make_pipeline(StandardScaler(), forest)
    depths = {"randomforestclassifier__max_depth": [2, None]}
    return [
        case("pipeline", make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST)), X2, Y2),
        case("pipeline DataFrame", make_pipeline(StandardScaler(), RandomForestRegressor(**FOREST)), FRAME, YR),
        case("search", GridSearchCV(RandomForestClassifier(**FOREST), {"max_depth": [2, 4]}, cv=2), X3, Y3),
        case("search of a pipeline", GridSearchCV(pipeline, depths, cv=2), X3, NAMES[Y3]),
    ]


def custom() -> list[Case]:
    rng = np.random.default_rng(5)
    bags = [rng.integers(0, N_ROWS, N_ROWS) for _ in range(25)]
    values = rng.normal(size=(25, N_ROWS))
    scores = rng.normal(size=(25, N_ROWS, 3))
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
    votes = NAMES[rng.integers(0, 3, (25, N_ROWS))]
    shares = np.stack([(votes == label).mean(axis=0) for label in sorted(NAMES)], axis=1)
    mask = np.zeros((25, N_ROWS), dtype=bool)
    for member, rows in enumerate(bags):
        mask[member, rows] = True

    def arrays(name: str, ensemble: Callable[[], Any], y: Array, mean: Array) -> Case:
        return Case(
            name,
            ensemble,
            X2,
            y,
            lambda _: bags,
            lambda _, __: mean,
            tolerance=1e-12,
            proves_rows=False,
            has_columns=False,
        )

    trees = [DecisionTreeClassifier(random_state=0).fit(FRAME.iloc[rows], NAMES[Y2][rows]) for rows in bags]
    return [
        arrays("custom values", lambda: CustomEnsemble(values, bags, aggregation="mean"), YR, values.mean(axis=0)),
        arrays(
            "custom probabilities",
            lambda: CustomEnsemble(probabilities, mask, aggregation="mean_proba", classes=NAMES),
            NAMES[Y3],
            probabilities.mean(axis=0),
        ),
        arrays(
            "custom scores", lambda: CustomEnsemble(scores, bags, aggregation="mean_score"), Y3, scores.mean(axis=0)
        ),
        arrays("custom votes", lambda: CustomEnsemble(votes, mask, aggregation="vote"), NAMES[Y3], shares),
        Case(
            "custom estimators",
            lambda: CustomEnsemble.from_estimators(trees, bags),
            FRAME,
            NAMES[Y2],
            lambda _: bags,
            lambda _, X: np.mean([tree.predict_proba(X) for tree in trees], axis=0),
            tolerance=1e-12,
            counts_rows=False,
            proves_rows=False,
            has_columns=False,
        ),
    ]


def forests_of_spark() -> list[Case]:
    """Return forests of scikit-learn in the form of Spark ML's forests, on rows that float32 holds."""

    def read(name: str, forest: Any, X: Array, y: Array) -> Case:
        rows = X.astype(np.float32).astype(np.float64)
        return Case(
            f"spark {name}",
            lambda: spark_forest_of(forest.fit(rows, y)),
            rows,
            y,
            predict=lambda _, rows: own_prediction(forest, rows),
            proves_rows=False,
        )

    return [
        read("two labels", RandomForestClassifier(40, max_depth=4, random_state=1), X2, Y2),
        read("three labels, pure leaves", RandomForestClassifier(40, random_state=1), X3, Y3),
        read("regression", RandomForestRegressor(40, max_depth=5, random_state=1), XR, YR),
    ]


def boosters() -> list[Case]:
    """Return the cases of XGBoost; none without it, and then the tests of its adapter are skipped with a reason."""
    if find_spec("xgboost") is None:
        return []
    from tests.adapters.xgboost.xgboost_cases import xgboost_cases

    return xgboost_cases()


CASES = [*forests(), *baggings(), *wrapped(), *custom(), *lightgbm_forests(), *boosters(), *forests_of_spark()]
# One model of each kind that takes a road of its own through the adapters; the others are run by `make slow`.
REPRESENTATIVES = {
    "RandomForestClassifier 3 labels", "ExtraTreesClassifier max_depth", "forest string labels",
    "forest max_samples float", "forest sample_weight", "forest NaN",
    "forest sparse", "forest DataFrame", "forest regression max_depth", "bagging feature subsets", "bagging kNN",
    "bagging ridge", "pasting regression", "search of a pipeline", "custom probabilities",
    "custom votes", "custom estimators", "lightgbm binary balanced bagging", "lightgbm multiclass",
    "lightgbm regression weights",
    "lightgbm categories", "lightgbm linear trees", "xgboost three classes",
    "xgboost categories", "xgboost regression", "spark three labels, pure leaves",
}  # fmt: skip


# Spark keeps no record of the bags.
WITH_BAGS = [case for case in CASES if not case.name.startswith("spark")]


def for_cases(cases: list[Case]) -> pytest.MarkDecorator:
    """Run a test for each case, slow for all but the representatives."""
    known = [
        pytest.param(case, id=case.name, marks=() if case.name in REPRESENTATIVES else pytest.mark.slow)
        for case in cases
    ]
    return pytest.mark.parametrize("case", known)
