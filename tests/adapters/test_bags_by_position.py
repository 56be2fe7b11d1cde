"""Bags of some rows, by their positions, are those of all rows; another target or order is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesRegressor, RandomForestClassifier

from ens_plugin.adapters import find_adapter
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError
from tests.extras import SKLEARN_RELEASE, lightgbm, xgboost
from tests.spark.cases import fitted, in_order, trained_on

NAMES = ("votes", "shares", "values", "bagging", "lightgbm", "xgboost", "xgboost_exact")
LIGHTGBM = {"boosting_type": "rf", "n_estimators": 24, "subsample": 0.6, "subsample_freq": 1, "random_state": 0}
XGBOOST = {"n_estimators": 25, "max_depth": 4, "random_state": 0, "n_jobs": 1}


def lightgbm_forest(y: Any, **options: Any) -> Any:
    return lightgbm.LGBMClassifier(**{**LIGHTGBM, **options}, verbose=-1, n_jobs=1).fit(rows_of_training(), y)


def xgboost_forest(y: Any, **options: Any) -> Any:
    kind = xgboost.XGBRFRegressor if np.asarray(y).dtype.kind == "f" else xgboost.XGBRFClassifier
    return kind(**{**XGBOOST, **options}).fit(rows_of_training(), y)


def rows_of_training() -> Any:
    return in_order(trained_on("votes"))[0]


def labels_of_training(kind: str) -> Any:
    y = in_order(trained_on({"two": "votes", "three": "three", "values": "values"}[kind]))[1]
    return np.unique(y, return_inverse=True)[1] if kind == "three" else y


def proved(model: Any, X: Any, y: Any) -> Any:
    adapter = find_adapter(model)
    return adapter.bags(X, adapter.prepare(X), y).in_bag()


def check_positions(model: Any, X: Any, y: Any) -> None:
    """Compare the bags of four parts of the rows, in any order, with those of all rows, which are proved."""
    adapter = find_adapter(model)
    target = y if adapter.classes is None else np.searchsorted(adapter.classes, y)
    bags_at, whole = adapter.bags_by_position(len(y)), proved(model, X, y)
    for rows in np.array_split(np.random.default_rng(1).permutation(len(y)), 4):
        np.testing.assert_array_equal(bags_at(rows, target[rows]).in_bag(), whole[:, rows])


def test_adapter_without_bags_by_position_says_so() -> None:
    from ens_plugin import CustomEnsemble

    adapter = find_adapter(CustomEnsemble(np.eye(2), np.eye(2, dtype=bool), aggregation="mean"))
    with pytest.raises(UnsupportedModelError, match="has no bags that follow from a row's position alone"):
        adapter.bags_by_position(2)


@pytest.mark.parametrize("name", NAMES)
def test_bags_of_some_rows_are_those_of_all(name: str) -> None:
    X, y, _ = in_order(trained_on(name))
    check_positions(fitted(name), X, y)


@pytest.mark.fast_cases("three-options0", "two-options1", "two-options2")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("three", {}),
        ("two", {"subsample_freq": 3}),
        ("two", {"pos_bagging_fraction": 0.4, "neg_bagging_fraction": 0.9}),
        ("three", {"subsample_freq": 2}),
        # Once a bag holds every row, LightGBM draws no other.
        ("two", {"subsample": 0.995, "n_estimators": 300}),
    ],
)
def test_bags_of_some_rows_of_lightgbm_are_those_of_all(kind: str, options: dict[str, Any]) -> None:
    X, y = rows_of_training(), labels_of_training(kind)
    model = lightgbm_forest(y, **options)
    check_positions(model, X, y)
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        proved(model, X, np.where(y > 0, y, 1 - y) if kind == "two" else (y + 1) % 3)


@pytest.mark.parametrize(
    ("kind", "options"), [("three", {}), ("two", {"subsample": 0.5}), ("values", {"max_depth": 3})]
)
def test_bags_of_some_rows_of_xgboost_are_those_of_all(kind: str, options: dict[str, Any]) -> None:
    X, y = rows_of_training(), labels_of_training(kind)
    check_positions(xgboost_forest(y, **options), X, y)


def test_bags_of_members_with_features_of_their_own_are_those_of_all() -> None:
    X, y = rows_of_training(), labels_of_training("two")
    check_positions(BaggingClassifier(n_estimators=9, max_features=0.5, random_state=0).fit(X, y), X, y)


@pytest.mark.parametrize("release", ["1.7.2", "1.8.0"])
def test_missing_values_may_leave_recorded_seeds_unproved(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before scikit-learn 1.8, rows with NaN may be counted in another leaf than they reach."""
    if release == "1.8.0" and SKLEARN_RELEASE < (1, 8):
        pytest.skip("this release of scikit-learn counts rows with NaN in other leaves, whatever release is stated")
    monkeypatch.setattr("sklearn.__version__", release)
    X, y = rows_of_training().copy(), labels_of_training("two")
    X[::7, 2] = np.nan
    check_positions(RandomForestClassifier(9, random_state=0).fit(X, y), X, y)


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("values", {"subsample": 1.0}, "no row is out of bag"),
        ("values", {"tree_method": "approx", "max_depth": 2}, "grown on 1 draw of rows"),
        ("two", {"max_depth": 1, "n_estimators": 2}, "2 trees of this booster.* would agree with wrong ones"),
    ],
)
def test_bags_of_xgboost_that_cannot_be_proved_are_refused(kind: str, options: dict[str, Any], words: str) -> None:
    y = labels_of_training(kind)
    with pytest.raises(BagError, match=words):
        proved(xgboost_forest(y, **options), rows_of_training(), y)


def test_rows_of_xgboost_drawn_by_gradients_are_refused_before_any_work() -> None:
    booster = xgboost_forest(labels_of_training("values")).get_booster()
    booster.set_param({"sampling_method": "gradient_based"})
    with pytest.raises(BagError, match="drawn by their gradients"):
        find_adapter(booster).bags_by_position(600)


def test_draws_of_another_tree_method_are_tried_in_turn(tmp_path: Path) -> None:
    """A saved booster keeps no tree method; rows of `approx` are drawn elsewhere than those of `hist`."""
    X, y = rows_of_training(), labels_of_training("values")
    model = xgboost_forest(y, tree_method="approx", max_depth=6)
    model.save_model(tmp_path / "forest.json")
    booster = xgboost.Booster(model_file=tmp_path / "forest.json")
    booster.set_param({"subsample": 0.8, "reg_lambda": 1e-5})
    np.testing.assert_array_equal(proved(booster, X, y), proved(model, X, y))
    rows = np.arange(len(y))
    assert not np.array_equal(find_adapter(booster).bags_by_position(len(y))(rows, y).in_bag(), proved(model, X, y))


def inverted(y: Any) -> Any:
    """Values from top to bottom; of labels, each for the next."""
    labels = np.unique(y)
    is_values = labels.size > 3
    return y.max() + y.min() - y if is_values else labels[(np.searchsorted(labels, y) + 1) % labels.size]


@pytest.mark.parametrize("change", [np.random.default_rng(2).permutation, inverted])
@pytest.mark.parametrize("name", NAMES)
def test_permuted_and_inverted_targets_are_refused(name: str, change: Any) -> None:
    X, y, _ = in_order(trained_on(name))
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        proved(fitted(name), X, change(y))


@pytest.mark.parametrize("name", ["values", "lightgbm values", "xgboost values"])
@pytest.mark.parametrize("change", ["scaled", "shifted", "inverted"])
def test_values_on_another_scale_are_refused(name: str, change: str) -> None:
    X, y = rows_of_training(), labels_of_training("values")
    if name == "values":
        model = fitted("values")
    elif name == "lightgbm values":
        model = lightgbm.LGBMRegressor(**LIGHTGBM, verbose=-1, n_jobs=1).fit(X, y)
    else:
        model = xgboost_forest(y)
    check_positions(model, X, y)
    wrong = {"scaled": 1.5 * y, "shifted": y + np.ptp(y) / 4, "inverted": inverted(y)}[change]
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        proved(model, X, wrong)


@pytest.mark.parametrize("name", NAMES)
def test_rows_in_another_order_are_not_those_of_the_training(name: str) -> None:
    X, y, _ = in_order(trained_on(name))
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        proved(fitted(name), np.roll(X, 1, axis=0), np.roll(y, 1))


@pytest.mark.parametrize("name", ["votes", "values", "weighted values"])
def test_rows_compared_in_parts_prove_what_all_at_once_do(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, _ = in_order(trained_on(name.removeprefix("weighted ")))
    model = fitted(name.removeprefix("weighted "))
    if name == "weighted values":
        weight = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
        model = ExtraTreesRegressor(25, bootstrap=True, max_depth=5, random_state=0).fit(X, y, weight)
    adapter = find_adapter(model)
    proof = adapter.bags(X, adapter.prepare(X), y).proof
    monkeypatch.setattr("ens_plugin.adapters.sklearn.bags.PART_ROWS", 50)
    assert adapter.bags(X, adapter.prepare(X), y).proof == proof
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        proved(model, X, inverted(y))
