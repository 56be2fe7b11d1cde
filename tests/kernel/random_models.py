"""Random models of the libraries, with the leaves that each library itself finds for rows made to err on."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MODELS", "large_model"]

Array = NDArray[Any]

FEW_ROWS, MANY_ROWS = 60, 3000
# Numbers next to which LightGBM draws the line between zero and others, and the largest of float32.
ODD = [0.0, -0.0, 1e-35, -1e-35, float(np.float32(1e-35)), -float(np.float32(1e-35)), 1e-36, 5e-324, 3e38, -3e38]


def draw_rows(rng: np.random.Generator, *, with_missing: bool, with_infinite: bool) -> Array:
    """Rows of four columns of numbers, some of few values, and two of categories; missing and odd numbers mixed in."""
    n_rows = int(rng.integers(FEW_ROWS, MANY_ROWS)) if rng.random() < 0.2 else int(rng.integers(20, FEW_ROWS * 4))
    X = rng.normal(size=(n_rows, 6))
    X[:, 1] = X[:, 1].round(1)
    X[:, 4], X[:, 5] = rng.integers(0, rng.integers(2, 80), n_rows), rng.integers(0, 3, n_rows)
    numbers = X[:, :4]
    numbers[rng.random(numbers.shape) < 0.1] = rng.choice(ODD)
    if rng.random() < 0.3:
        numbers[rng.random(numbers.shape) < 0.3] = 0.0
    if with_infinite:
        numbers[rng.random(numbers.shape) < 0.02] = rng.choice([np.inf, -np.inf])
    if with_missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def target(rng: np.random.Generator, X: Array) -> Array:
    """Return values, constant in one of eight models."""
    if rng.random() < 0.125:
        return np.ones(len(X))
    filled = np.nan_to_num(X, posinf=1.0, neginf=-1.0)
    return filled[:, 0].clip(-3, 3) + filled[:, 4] % 3 + rng.normal(size=len(X)) * rng.choice([0.01, 1.0])


def hard_rows(rng: np.random.Generator, X: Array) -> Array:
    """Return the rows and others with cells of other rows, unknown categories, fractions of categories and zeros."""
    others = rng.permuted(X, axis=0)
    others[:, 4] += rng.choice([0.0, 0.5, -0.5, 40.0, -3.0, 3e9], len(X))
    others[rng.random(X.shape) < 0.05] = 0.0
    return np.concatenate([X, others])


def sklearn_model(rng: np.random.Generator) -> tuple[Any, Array, Callable[[], Array]]:
    """A forest or bagged trees of scikit-learn, rows, and a function that returns their own leaves."""
    from sklearn.ensemble import BaggingRegressor, ExtraTreesRegressor, RandomForestRegressor

    X = draw_rows(rng, with_missing=rng.random() < 0.5, with_infinite=False).clip(-1e38, 1e38)
    kind, n_trees = rng.integers(3), int(rng.integers(1, 6))
    leaves: dict[str, Any] = {"min_samples_leaf": int(rng.integers(1, 20)), "max_depth": rng.choice([None, 1, 5])}
    seed = int(rng.integers(2**31))
    if kind == 0:
        model = BaggingRegressor(n_estimators=n_trees, max_features=0.5, random_state=seed)
    else:
        model = (RandomForestRegressor, ExtraTreesRegressor)[kind - 1](
            n_trees, bootstrap=True, random_state=seed, **leaves
        )
    model.fit(X, target(rng, X))
    rows = np.ascontiguousarray(hard_rows(rng, X), np.float32)

    def own() -> Array:
        columns = getattr(model, "estimators_features_", [slice(None)] * n_trees)
        pairs = zip(model.estimators_, columns, strict=True)
        return np.stack([tree.apply(rows[:, own], check_input=False) for tree, own in pairs])

    return model, rows, own


def lightgbm_model(rng: np.random.Generator) -> tuple[Any, Array, Callable[[], Array]]:
    """A forest of LightGBM."""
    import lightgbm

    X = draw_rows(rng, with_missing=rng.random() < 0.5, with_infinite=rng.random() < 0.5)
    X = X.astype(rng.choice(["f4", "f8"]))
    options = {
        "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "objective": "regression", "verbose": -1,
        "num_threads": 1, "num_leaves": int(rng.choice([2, 7, 31, 1000])), "min_data_in_leaf": int(rng.integers(1, 20)),
        "zero_as_missing": bool(rng.random() < 0.3), "use_missing": bool(rng.random() < 0.9),
        "seed": int(rng.integers(2**31)), "max_cat_to_onehot": int(rng.choice([1, 4, 100])), "min_data_per_group": 1,
        "extra_trees": bool(rng.random() < 0.3), "cat_smooth": 1.0,
    }  # fmt: skip
    categories: Any = [4, 5] if rng.random() < 0.5 else []
    data = lightgbm.Dataset(X, target(rng, X), categorical_feature=categories, params={"verbose": -1})
    model = lightgbm.train(options, data, int(rng.integers(1, 6)))
    rows = hard_rows(rng, X)
    return model, rows, lambda: model.predict(rows, pred_leaf=True, num_threads=1).reshape(len(rows), -1).T


def xgboost_model(rng: np.random.Generator) -> tuple[Any, Array, Callable[[], Array]]:
    """Parallel trees of XGBoost; it refuses infinite values."""
    import xgboost

    X = draw_rows(rng, with_missing=rng.random() < 0.5, with_infinite=False)
    types = ["q"] * 4 + (["c"] * 2 if rng.random() < 0.5 else ["q"] * 2)
    options = {
        "num_parallel_tree": int(rng.integers(1, 6)), "subsample": 0.6, "learning_rate": 1, "nthread": 1,
        "max_depth": int(rng.choice([1, 3, 6, 14])), "min_child_weight": float(rng.choice([0, 1, 10])),
        "max_cat_to_onehot": int(rng.choice([1, 4, 100])), "seed": int(rng.integers(2**31)),
        "tree_method": "hist" if "c" in types else str(rng.choice(["hist", "approx", "exact"])),
    }  # fmt: skip
    kinds: dict[str, Any] = {"feature_types": types, "enable_categorical": True, "nthread": 1}
    model = xgboost.train(options, xgboost.DMatrix(X, target(rng, X), **kinds), 1)
    rows = hard_rows(rng, X)

    def own() -> Array:
        nodes = model.predict(xgboost.DMatrix(rows, **kinds), pred_leaf=True).reshape(len(rows), -1).T
        trees = model.trees_to_dataframe()
        numbers = []
        for index, found in enumerate(nodes.astype(int)):
            own = trees[trees.Tree == index]
            leaves = np.sort(own.Node[own.Feature == "Leaf"].to_numpy())
            numbers.append(np.searchsorted(leaves, found))
        return np.stack(numbers)

    return model, rows, own


def large_model(library: str, X: Array, y: Array) -> tuple[Any, Array]:
    """Return a tree of 65 535 leaves, of XGBoost one of more, and the leaf that the library finds for each row."""
    n_leaves = 65_535
    if library == "sklearn":
        from sklearn.ensemble import RandomForestRegressor

        model: Any = RandomForestRegressor(1, max_leaf_nodes=n_leaves, max_features=1, random_state=0).fit(X, y)
        return model, model.apply(X).T
    if library == "lightgbm":
        import lightgbm

        options: dict[str, Any] = {
            "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.9, "num_leaves": n_leaves, "verbose": -1,
            "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0, "max_bin": 63, "num_threads": 1,
            "histogram_pool_size": 100,
        }  # fmt: skip
        model = lightgbm.train(options, lightgbm.Dataset(X, y, params={"max_bin": 63, "verbose": -1}), 1)
        return model, model.predict(X, pred_leaf=True, num_threads=1).reshape(len(X), -1).T
    import xgboost

    options = {
        "num_parallel_tree": 1, "subsample": 0.9, "learning_rate": 1, "nthread": 1, "max_depth": 400,
        "min_child_weight": 0, "lambda": 0, "tree_method": "exact",
    }  # fmt: skip
    model = xgboost.train(options, xgboost.DMatrix(X, y), 1)
    nodes = model.predict(xgboost.DMatrix(X), pred_leaf=True).astype(int).reshape(len(X), -1).T
    tree = model.trees_to_dataframe()
    return model, np.searchsorted(np.sort(tree.Node[tree.Feature == "Leaf"].to_numpy()), nodes)


MODELS = {"sklearn": sklearn_model, "lightgbm": lightgbm_model, "xgboost": xgboost_model}
warnings.filterwarnings("ignore", message="Found .* in categorical", category=UserWarning)
