"""Every way to train a LightGBM forest that its bags must survive: all trees proved, other rows refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import ens_plugin
from ens_plugin.errors import DataMismatchError
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags, stated_seed

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")

pytestmark = pytest.mark.slow

PLAIN: dict[str, Any] = {
    "boosting": "rf",
    "bagging_freq": 1,
    "bagging_fraction": 0.5,
    "num_leaves": 15,
    "min_data_in_leaf": 5,
    "num_threads": 1,
    "verbose": -1,
}
SETTINGS: dict[str, dict[str, Any]] = {
    "seed 0": {"seed": 0},
    "seed 7": {"seed": 7},
    "seed large": {"seed": 2**31 - 1},
    "bagging_seed 0": {"bagging_seed": 0},
    "fraction 0.05": {"bagging_fraction": 0.05},
    "fraction 0.1": {"bagging_fraction": 0.1},
    "fraction 0.333333333": {"bagging_fraction": 1 / 3},
    "fraction 0.632": {"bagging_fraction": 0.632},
    "fraction 0.9": {"bagging_fraction": 0.9},
    "fraction 0.99": {"bagging_fraction": 0.99},
    "threads 2": {"num_threads": 2},
    "threads 4": {"num_threads": 4},
    "freq 2": {"bagging_freq": 2},
    "freq 5": {"bagging_freq": 5},
    "feature_fraction": {"feature_fraction": 0.5},
    "feature_fraction_bynode": {"feature_fraction_bynode": 0.5},
    "both feature fractions": {"feature_fraction": 0.6, "feature_fraction_bynode": 0.6},
    "max_depth 3": {"max_depth": 3},
    "leaves 2": {"num_leaves": 2},
    "leaves 300": {"num_leaves": 300, "min_data_in_leaf": 1},
    "extra_trees": {"extra_trees": True},
    "col-wise": {"force_col_wise": True},
    "row-wise": {"force_row_wise": True},
    "few bins": {"max_bin": 15},
    "lambda": {"lambda_l1": 0.5, "lambda_l2": 2.0},
    "path_smooth": {"path_smooth": 2.0},
    "max_delta_step": {"max_delta_step": 0.3},
    "monotone": {"monotone_constraints": [1, 0, 0, 0, 0, 0]},
    "quantized": {"use_quantized_grad": True},
    "no average": {"boost_from_average": False},
    "linear_tree": {"linear_tree": True},
    "L1": {"objective": "regression_l1"},
    "huber": {"objective": "huber"},
    "quantile": {"objective": "quantile", "alpha": 0.3},
    "binary": {"objective": "binary"},
    "unbalanced": {"objective": "binary", "is_unbalance": True},
    "scale_pos_weight": {"objective": "binary", "scale_pos_weight": 3.0},
    "positives": {"objective": "binary", "pos_bagging_fraction": 0.3},
    "positives and negatives": {"objective": "binary", "pos_bagging_fraction": 0.8, "neg_bagging_fraction": 0.2},
    "multiclass": {"objective": "multiclass", "num_class": 4},
    "multiclass freq 3": {"objective": "multiclass", "num_class": 4, "bagging_freq": 3},
    "one versus all": {"objective": "multiclassova", "num_class": 4},
    "weights": {"weights": True},
    "binary weights": {"objective": "binary", "weights": True},
    "multiclass weights": {"objective": "multiclass", "num_class": 4, "weights": True},
    "NaN": {"kind": "NaN"},
    "sparse": {"kind": "sparse"},
    "categories": {"kind": "categories"},
    "float32": {"kind": "float32"},
    "integers": {"kind": "integers"},
}
N_TREES = 12
# Before 4.2, forests with quantized gradients count rows they never had, or end in LightGBM's own error.
QUANTIZED_WORKS = tuple(int(part) for part in lightgbm.__version__.split(".")[:2]) >= (4, 2)


def table(kind: str, n_rows: int) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6))
    if kind == "NaN":
        X[rng.random(X.shape) < 0.15] = np.nan
    if kind == "sparse":
        return csr_matrix(np.where(np.abs(X) < 0.7, 0.0, X))
    if kind == "categories":
        X[:, 4:] = rng.integers(0, 9, (n_rows, 2))
    if kind == "float32":
        return X.astype(np.float32)
    if kind == "integers":
        return (X * 1000).astype(np.int64)
    return X


def forest(setting: dict[str, Any], n_rows: int) -> tuple[Any, Any, Any]:
    """A booster with the rows and the target it was trained on."""
    options = {**PLAIN, **setting}
    kind, weighted = options.pop("kind", "plain"), options.pop("weights", False)
    X = table(kind, n_rows)
    rng = np.random.default_rng(1)
    dense = np.nan_to_num(X.toarray() if kind == "sparse" else X.astype(np.float64))
    score = dense[:, 0] / dense[:, 0].std() + (dense[:, 4] == 3) + 0.5 * rng.normal(size=n_rows)
    n_labels = 2 if options.get("objective") == "binary" else options.get("num_class", 0)
    y = np.digitize(score, np.quantile(score, np.arange(1, n_labels) / n_labels)) if n_labels else score
    weight = rng.integers(0, 3, n_rows).astype(float) if weighted else None
    data = lightgbm.Dataset(X, y, weight=weight, categorical_feature=[4, 5] if kind == "categories" else "auto")
    return lightgbm.train(options, data, N_TREES), X, y


def brute_force(booster: Any, setting: dict[str, Any], y: Any) -> Any:
    options = {**PLAIN, **setting}
    if "pos_bagging_fraction" in options:
        by_label = np.array([options.get("neg_bagging_fraction", 1.0), options["pos_bagging_fraction"]])
        limit = np.ceil(by_label * 32768).astype(int)[y].tolist()
    else:
        limit = int(np.ceil(options["bagging_fraction"] * 32768))
    rounds = drawn_bags(len(y), stated_seed(booster), limit, -(-N_TREES // options["bagging_freq"]))
    return rounds[np.arange(N_TREES) // options["bagging_freq"]]


def permuted(X: Any) -> Any:
    return X[np.random.default_rng(2).permutation(X.shape[0])]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_tree_is_proved_and_other_rows_are_refused(name: str) -> None:
    if name == "quantized" and not QUANTIZED_WORKS:
        pytest.skip(f"LightGBM {lightgbm.__version__} cannot grow forests with quantized gradients")
    setting = SETTINGS[name]
    booster, X, y = forest(setting, 1500)
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, X, y), brute_force(booster, setting, y))
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        ens_plugin.in_bag(booster, permuted(X), y)
    with pytest.raises(DataMismatchError, match="rows"):
        ens_plugin.in_bag(booster, X[:-1], y[:-1])
    seed = stated_seed(booster)
    text = booster.model_to_string().replace(f"[bagging_seed: {seed}]", f"[bagging_seed: {seed + 1}]")
    with pytest.raises(DataMismatchError):
        ens_plugin.in_bag(lightgbm.Booster(model_str=text), X, y)


@pytest.mark.parametrize("n_rows", [37, 200, 1023, 1024, 1025, 2048, 60_000])
@pytest.mark.parametrize(
    "setting", [{}, {"objective": "binary"}, {"bagging_fraction": 0.8, "bagging_freq": 2}], ids=str
)
def test_every_number_of_rows(n_rows: int, setting: dict[str, Any]) -> None:
    setting = {**setting, "min_data_in_leaf": 2}
    booster, X, y = forest(setting, n_rows)
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, X, y), brute_force(booster, setting, y))


def test_no_wrong_seed_is_accepted_in_small_forests() -> None:
    booster, X, y = forest({"min_data_in_leaf": 2}, 30)
    seed = stated_seed(booster)
    text = booster.model_to_string()
    for offset in range(1, 1001):
        other = text.replace(f"[bagging_seed: {seed}]", f"[bagging_seed: {seed + offset}]")
        with pytest.raises(DataMismatchError):
            ens_plugin.in_bag(lightgbm.Booster(model_str=other), X, y)


def test_columns_bundled_by_mistake_are_named_as_a_cause() -> None:
    rng = np.random.default_rng(0)
    rows, column = np.arange(60_000), rng.integers(0, 30, 60_000)
    X = np.zeros((60_000, 30))
    X[rows, column] = rng.integers(1, 4, rows.size)
    both = rows[rng.random(rows.size) < 0.01]
    X[both, (column[both] + 7) % 30] = 1.0
    y = X[:, :10].sum(axis=1) - X[:, 10:20].sum(axis=1) + rng.normal(size=rows.size)
    options = {**PLAIN, "bin_construct_sample_cnt": 200}
    bundled = lightgbm.train(options, lightgbm.Dataset(X, y), 5)
    with pytest.raises(DataMismatchError, match="enable_bundle=False"):
        ens_plugin.in_bag(bundled, X)
    apart = lightgbm.train({**options, "enable_bundle": False}, lightgbm.Dataset(X, y), 5)
    np.testing.assert_array_equal(ens_plugin.in_bag(apart, X)[:2], drawn_bags(60_000, stated_seed(apart), 16384, 2))
