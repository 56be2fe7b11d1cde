"""Bags computed row by row are those of all rows at once, and sums over parts prove them or refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier

from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.contract import ProofStatistics, merge_sums
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError
from tests.extras import SKLEARN_RELEASE, lightgbm, xgboost
from tests.spark.cases import fitted, in_order, trained_on

NAMES = ("votes", "shares", "values", "bagging", "lightgbm", "xgboost", "xgboost_exact")
SKLEARN = ("votes", "values", "bagging")
LIGHTGBM = {"boosting_type": "rf", "n_estimators": 24, "subsample": 0.6, "subsample_freq": 1, "random_state": 0}
XGBOOST = {"n_estimators": 25, "max_depth": 4, "random_state": 0, "n_jobs": 1}


def codes(adapter: Any, y: Any) -> Any:
    return y if adapter.classes is None else np.searchsorted(adapter.classes, y)


def lightgbm_forest(y: Any, **options: Any) -> Any:
    return lightgbm.LGBMClassifier(**{**LIGHTGBM, **options}, verbose=-1, n_jobs=1).fit(rows_of_training(), y)


def xgboost_forest(y: Any, weight: Any = None, **options: Any) -> Any:
    kind = xgboost.XGBRFRegressor if np.asarray(y).dtype.kind == "f" else xgboost.XGBRFClassifier
    return kind(**{**XGBOOST, **options}).fit(rows_of_training(), y, sample_weight=weight)


def rows_of_training() -> Any:
    return in_order(trained_on("votes"))[0]


def labels_of_training(kind: str) -> Any:
    y = in_order(trained_on({"two": "votes", "three": "three", "values": "values"}[kind]))[1]
    return np.unique(y, return_inverse=True)[1] if kind == "three" else y


def prove(model: Any, X: Any, y: Any, *, shift: int = 0, candidate: int = 0) -> Any:
    """Bags of all rows, computed and proved by way of four parts in any order; rows lie `shift` places off."""
    adapter = find_adapter(model)
    target, row_bags = codes(adapter, y), adapter.distributed_bags(len(y), candidate)
    order = np.random.default_rng(1).permutation(len(y))
    in_bag, sums = [], []
    for rows in np.array_split(order, 4):
        bags = row_bags.at((rows + shift) % len(y), target[rows])
        in_bag.append(bags.in_bag())
        sums.append(row_bags.sums(rows, adapter.prepare(X[rows]), target[rows], bags))
    row_bags.prove(merge_sums(sums))
    return np.concatenate(in_bag, axis=1)[:, np.argsort(order)]


def on_one_machine(model: Any, X: Any, y: Any) -> Any:
    adapter = find_adapter(model)
    return adapter.bags(X, adapter.prepare(X), y).in_bag()


@pytest.mark.parametrize("name", NAMES)
def test_sums_of_all_parts_prove_the_bags_and_sums_of_some_do_not(name: str) -> None:
    X, y, _ = in_order(trained_on(name))
    adapter = find_adapter(fitted(name))
    target, row_bags = codes(adapter, y), adapter.distributed_bags(len(y), 0)
    sums = []
    for rows in np.array_split(np.random.default_rng(1).permutation(len(y)), 5):
        bags = row_bags.at(rows, target[rows])
        sums.append(row_bags.sums(rows, adapter.prepare(X[rows]), target[rows], bags))
    row_bags.prove(merge_sums(sums))
    with pytest.raises((BagError, DataMismatchError)):
        row_bags.prove(merge_sums(sums[:-1]))


@pytest.mark.parametrize("name", NAMES)
def test_possible_draws_come_to_an_end(name: str) -> None:
    adapter = find_adapter(fitted(name))
    with pytest.raises(BagError):
        adapter.distributed_bags(len(trained_on(name)), 100)


def test_adapter_without_bags_by_position_says_so() -> None:
    from ens_plugin import CustomEnsemble

    adapter = find_adapter(CustomEnsemble(np.eye(2), np.eye(2, dtype=bool), aggregation="mean"))
    with pytest.raises(UnsupportedModelError, match="has no bags that follow from a row's position alone"):
        adapter.distributed_bags(2, 0)


def test_sums_of_several_trees_are_told_apart() -> None:
    """Tree 1 from tree 11, too."""
    trees = {tree: ProofStatistics({"rows": np.array([tree])}, {"lowest": np.array([-tree])}) for tree in (1, 11, 111)}
    merged = merge_sums([sums.named(tree) for tree, sums in trees.items()])
    for tree in trees:
        own = merged.of_tree(tree)
        assert own.added == {"rows": np.array([tree])}
        assert own.least == {"lowest": np.array([-tree])}
    assert merged.of_tree(2).added == {}


def inverted(y: Any) -> Any:
    """Values from top to bottom; of labels, each for the next."""
    labels = np.unique(y)
    is_values = labels.size > 3
    return y.max() + y.min() - y if is_values else labels[(np.searchsorted(labels, y) + 1) % labels.size]


@pytest.mark.parametrize("name", NAMES)
def test_target_of_the_training_is_accepted(name: str) -> None:
    X, y, _ = in_order(trained_on(name))
    np.testing.assert_array_equal(prove(fitted(name), X, y), on_one_machine(fitted(name), X, y))


@pytest.mark.parametrize("change", [np.random.default_rng(2).permutation, inverted])
@pytest.mark.parametrize("name", NAMES)
def test_permuted_and_inverted_targets_are_refused(name: str, change: Any) -> None:
    X, y, _ = in_order(trained_on(name))
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        prove(fitted(name), X, change(y))


@pytest.mark.parametrize("name", ["values", "lightgbm values", "xgboost values"])
@pytest.mark.parametrize("change", ["scaled", "shifted", "inverted"])
def test_values_on_another_scale_are_refused(name: str, change: str) -> None:
    X, y = rows_of_training(), labels_of_training("values")
    if name == "values":
        X, y, _ = in_order(trained_on("values"))
        model = fitted("values")
    elif name == "lightgbm values":
        model = lightgbm.LGBMRegressor(**LIGHTGBM, verbose=-1, n_jobs=1).fit(X, y)
    else:
        model = xgboost_forest(y)
    wrong = {"scaled": 1.5 * y, "shifted": y + np.ptp(y) / 4, "inverted": inverted(y)}[change]
    np.testing.assert_array_equal(prove(model, X, y), on_one_machine(model, X, y))
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        prove(model, X, wrong)


@pytest.mark.parametrize("name", NAMES)
def test_rows_in_another_order_are_not_those_of_the_training(name: str) -> None:
    X, y, _ = in_order(trained_on(name))
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        prove(fitted(name), X, y, shift=1)


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
def test_forests_of_lightgbm_have_the_bags_of_one_machine(kind: str, options: dict[str, Any]) -> None:
    X, y = rows_of_training(), labels_of_training(kind)
    model = lightgbm_forest(y, **options)
    np.testing.assert_array_equal(prove(model, X, y), on_one_machine(model, X, y))
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        prove(model, X, np.where(y > 0, y, 1 - y) if kind == "two" else (y + 1) % 3)


def test_members_with_features_of_their_own_get_those() -> None:
    X, y = rows_of_training(), labels_of_training("two")
    model = BaggingClassifier(n_estimators=9, max_features=0.5, random_state=0).fit(X, y)
    np.testing.assert_array_equal(prove(model, X, y), on_one_machine(model, X, y))


@pytest.mark.parametrize("release", ["1.7.2", "1.8.0"])
def test_missing_values_may_leave_recorded_seeds_unproved(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before scikit-learn 1.8, rows with NaN may be counted in another leaf than they reach."""
    if release == "1.8.0" and SKLEARN_RELEASE < (1, 8):
        pytest.skip("this release of scikit-learn counts rows with NaN in other leaves, whatever release is stated")
    monkeypatch.setattr("sklearn.__version__", release)
    X, y = rows_of_training().copy(), labels_of_training("two")
    X[::7, 2] = np.nan
    model = RandomForestClassifier(9, random_state=0).fit(X, y)
    np.testing.assert_array_equal(prove(model, X, y), on_one_machine(model, X, y))


@pytest.mark.parametrize(
    ("kind", "options"), [("three", {}), ("two", {"subsample": 0.5}), ("values", {"max_depth": 3})]
)
def test_trees_of_xgboost_have_the_bags_of_one_machine(kind: str, options: dict[str, Any]) -> None:
    X, y = rows_of_training(), labels_of_training(kind)
    model = xgboost_forest(y, **options)
    np.testing.assert_array_equal(prove(model, X, y), on_one_machine(model, X, y))


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("values", {"subsample": 1.0}, "no row is out of bag"),
        ("values", {"tree_method": "approx", "max_depth": 2}, "grown on 1 draw of rows"),
        ("two", {"max_depth": 1, "n_estimators": 2}, "2 trees of this booster.* would agree with wrong ones"),
    ],
)
def test_bags_of_xgboost_that_cannot_be_proved_are_refused_as_on_one_machine(
    kind: str, options: dict[str, Any], words: str
) -> None:
    X, y = rows_of_training(), labels_of_training(kind)
    model = xgboost_forest(y, **options)
    for road in (prove, on_one_machine):
        with pytest.raises(BagError, match=words):
            road(model, X, y)


def test_rows_of_xgboost_drawn_by_gradients_are_refused_before_any_work() -> None:
    y = labels_of_training("values")
    booster = xgboost_forest(y).get_booster()
    booster.set_param({"sampling_method": "gradient_based"})
    with pytest.raises(BagError, match="drawn by their gradients"):
        find_adapter(booster).distributed_bags(600, 0)


@pytest.mark.parametrize(
    ("weight", "words"), [(1.0, "the sums in tree 0 and 24 more of 25"), (2.0, r"hold \d+\.\d % of 600 rows")]
)
def test_trees_of_xgboost_grown_with_weights_are_for_one_machine(weight: float, words: str) -> None:
    X, y = rows_of_training(), labels_of_training("values")
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 600)
    model = xgboost_forest(y, weights / weights.mean() * weight)
    with pytest.raises(DataMismatchError, match=f"{words}.*on one machine only"):
        prove(model, X, y)


def test_draws_of_another_tree_method_are_tried_in_turn(tmp_path: Path) -> None:
    """A saved booster keeps no tree method; rows of `approx` are drawn elsewhere than those of `hist`."""
    X, y = rows_of_training(), labels_of_training("values")
    model = xgboost_forest(y, tree_method="approx", max_depth=6)
    model.save_model(tmp_path / "forest.json")
    booster = xgboost.Booster(model_file=tmp_path / "forest.json")
    booster.set_param({"subsample": 0.8, "reg_lambda": 1e-5})
    from ens_plugin.adapters.xgboost.bags import MAX_PROOFS

    proved = {}
    for attempt in range(MAX_PROOFS):
        try:
            proved[attempt] = prove(booster, X, y, candidate=attempt)
        except (BagError, DataMismatchError):
            continue
    assert proved
    assert 0 not in proved
    for found in proved.values():
        np.testing.assert_array_equal(found, on_one_machine(model, X, y))
