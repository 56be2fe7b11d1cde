"""Truncated XGBoost boosters, compared with smaller trainings and with what XGBoost's own functions return for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.datasets import make_classification

import ens_plugin
from ens_plugin.errors import NotFittedError, UnsupportedModelError
from tests.adapters.harness import Array, frozen

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from ens_plugin.adapters.xgboost.bags import likely_draws  # noqa: E402
from ens_plugin.adapters.xgboost.forest import GROWN_PARALLEL, Forest  # noqa: E402
from tests.adapters.xgboost.xgboost_cases import (  # noqa: E402
    FOREST,
    RELEASE,
    SKLEARN,
    WITH_NAN,
    X2,
    X3,
    XR,
    Y2,
    Y3,
    YR,
    with_categories,
)

GROWN, SIZE = 20, 7
# float32 keeps 24 bits: a leaf is rounded when it is divided by all trees, and once more when scaled.
ROUNDED = 2.0**-23
BINARY = {"objective": "binary:logistic"}
MULTI = {"objective": "multi:softprob", "num_class": 3}
TRAININGS: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("binary", X2, Y2, BINARY),
    ("base score", X2, Y2, {**BINARY, "base_score": 0.3}),
    ("raw", X2, Y2, {"objective": "binary:logitraw", "learning_rate": 0.1}),
    ("exact", X2, Y2, {**BINARY, "tree_method": "exact"}),
    ("approx", X2, Y2, {**BINARY, "tree_method": "approx"}),
    ("regression", XR, YR, {}),
    ("poisson", X3, Y3, {"objective": "count:poisson"}),
    ("NaN", WITH_NAN, Y2, BINARY),
    ("categories", with_categories(), Y2, {**BINARY, "max_cat_to_onehot": 1}),
    ("three classes", X3, Y3, MULTI),
    ("three classes, labels", X3, Y3, {**MULTI, "objective": "multi:softmax"}),
    ("three classes, exact", X3, Y3, {**MULTI, "tree_method": "exact"}),
    ("two targets", XR, np.stack([YR, -YR], axis=1), {}),
]
if RELEASE >= (3, 1):  # refused for parallel trees before
    TRAININGS.append(("absolute error", XR, YR, {"objective": "reg:absoluteerror"}))


def over(trainings: list[tuple[str, Any, Any, dict[str, Any]]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("X", "y", "options"), [training[1:] for training in trainings], ids=[training[0] for training in trainings]
    )


every_training = over(TRAININGS)
of_one_group = over([training for training in TRAININGS if training[0][:3] not in ("thr", "two")])


def matrix(X: Any, y: Any = None) -> Any:
    return xgboost.DMatrix(X, y, enable_categorical=hasattr(X, "iloc"))


def trained(X: Any, y: Any, n_trees: int = GROWN, rounds: int = 1, **options: Any) -> Any:
    return xgboost.train({**FOREST, **options, "num_parallel_tree": n_trees}, matrix(X, y), num_boost_round=rounds)


def tree_values(booster: Any, X: Any) -> Array:
    """What each tree of a booster adds to the margin, by the library's own table of nodes; (n_rows, n_trees)."""
    nodes = booster.trees_to_dataframe()
    leaves = nodes[nodes["Feature"] == "Leaf"].set_index(["Tree", "Node"])["Gain"]
    reached = booster.predict(matrix(X), pred_leaf=True).reshape(len(X), -1).astype(int)
    return np.stack([leaves.loc[tree].loc[nodes].to_numpy() for tree, nodes in enumerate(reached.T)], axis=1)


def members(booster: Any, X: Any) -> Array:
    """Trees of each group as if the prediction were theirs alone, shape (n_rows, n_groups, n_members)."""
    forest = Forest(booster)
    values = tree_values(booster, X).reshape(len(X), forest.n_groups, forest.n_parallel) * forest.n_parallel
    return values + forest.base_margin[:, None]


def expected_margin(booster: Any, X: Any, size: int) -> Array:
    return members(booster, X)[:, :, :size].mean(axis=2).squeeze()


def close(actual: Any, expected: Any) -> None:
    """To 1e-5 of the scale."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@every_training
def test_margin_is_the_mean_of_the_first_members(X: Any, y: Any, options: dict[str, Any]) -> None:
    whole = trained(X, y, **options)
    small = ens_plugin.truncate(whole, SIZE)
    expected = expected_margin(whole, X, SIZE)
    close(small.predict(matrix(X), output_margin=True), expected)
    link = {"binary:logistic": expit, "multi:softprob": lambda margin: softmax(margin, axis=1), "count:poisson": np.exp}
    labels = {"multi:softmax": lambda margin: margin.argmax(axis=1)}
    convert: Any = {**link, **labels}.get(options.get("objective", ""), lambda margin: margin)
    close(small.predict(matrix(X)), convert(expected))


@every_training
def test_xgboosts_own_tables_of_the_trees_agree(X: Any, y: Any, options: dict[str, Any]) -> None:
    small = ens_plugin.truncate(trained(X, y, **options), SIZE)
    n_groups = Forest(small).n_groups
    margin = small.predict(matrix(X), output_margin=True)
    assert len(small.get_dump()) == SIZE * n_groups
    assert small.num_boosted_rounds() == 1
    close(members(small, X).mean(axis=2).squeeze(), margin)
    close(small.predict(matrix(X), pred_contribs=True).sum(axis=-1), margin)
    np.testing.assert_array_equal(small[0:1].predict(matrix(X), output_margin=True), margin)
    np.testing.assert_array_equal(small.predict(matrix(X), output_margin=True, iteration_range=(0, 1)), margin)
    assert small.get_score(importance_type="weight").keys() == small.get_score(importance_type="gain").keys()


def compare(actual: Any, expected: Any, where: str = "") -> None:
    """Equal, float32 numbers to their rounding."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), where
        for key in expected:
            compare(actual[key], expected[key], f"{where}/{key}")
    elif isinstance(expected, list) and expected and isinstance(expected[0], (dict, list)):
        assert len(actual) == len(expected), where
        for position, values in enumerate(zip(actual, expected, strict=True)):
            compare(*values, f"{where}/{position}")
    elif isinstance(expected, list) and np.asarray(expected).dtype.kind == "f":
        found, known = (np.asarray(values, dtype=np.float32) for values in (actual, expected))
        np.testing.assert_allclose(found, known, rtol=ROUNDED, atol=0, err_msg=where)
    else:
        np.testing.assert_array_equal(actual, expected, err_msg=where)


@of_one_group
def test_document_is_that_of_training_fewer(X: Any, y: Any, options: dict[str, Any]) -> None:
    small, fewer = ens_plugin.truncate(trained(X, y, **options), SIZE), trained(X, y, SIZE, **options)
    document, expected = json.loads(small.save_raw("json")), json.loads(fewer.save_raw("json"))
    if options.get("objective") == "reg:absoluteerror":
        # Leaves are fitted anew after growth, so that a leaf's weight is not its value; no prediction reads it.
        for tree in (*trees_of(document), *trees_of(expected)):
            del tree["base_weights"]
    compare(document, expected)
    assert settings(small) == settings(fewer)


def settings(booster: Any) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(booster.save_config())
    # Releases from 3.3 on keep where the generator stopped, which is after the trees that were grown.
    known["learner"]["generic_param"].pop("rng_state", None)
    return known


def trees_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = document["learner"]["gradient_booster"]["model"]["trees"]
    return trees


def bags_of_first(booster: Any, X: Any, y: Any, size: int) -> Array:
    known = ens_plugin.in_bag(booster, X, y)
    return known.reshape(-1, GROWN, len(X))[:, :size].reshape(-1, len(X))


@pytest.mark.fast_cases("saved-exact-2", "saved-hist-3", "as it is-approx 0.5-3")
@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize(
    "options",
    [
        {"tree_method": "hist"},
        {"tree_method": "hist", "colsample_bynode": 0.5},
        {"tree_method": "hist", "colsample_bytree": 0.5, "colsample_bylevel": 0.5},
        {"tree_method": "approx"},
        {"tree_method": "approx", "colsample_bylevel": 0.5},
        {"tree_method": "exact"},
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
@pytest.mark.parametrize("saved", [False, True], ids=["as it is", "saved"])
def test_bags_are_those_of_the_first_trees(options: dict[str, Any], n_labels: int, saved: bool) -> None:
    # `approx` draws one bag for all trees of a class: rows enough for one tree to prove it.
    X, y = make_classification(1200, 6, n_informative=4, n_classes=n_labels, flip_y=0.3, random_state=0)
    whole = trained(X, y, **(BINARY if n_labels == 2 else MULTI), **options)
    small = ens_plugin.truncate(ens_plugin.truncate(whole, SIZE + 5), SIZE)
    if saved:
        small.load_model(small.save_raw("json"))
    np.testing.assert_array_equal(ens_plugin.in_bag(small, X, y), bags_of_first(whole, X, y, SIZE))


@pytest.mark.parametrize("method", ["hist", "approx", "exact"])
def test_draws_are_expected_where_those_of_the_kept_trees_are(method: str) -> None:
    whole = trained(X3, Y3, **MULTI, tree_method=method, colsample_bytree=0.5)
    kept = [group * GROWN + tree for group in range(3) for tree in range(SIZE)]
    small, grown = (
        likely_draws(Forest(booster), len(X3))[0].position for booster in (ens_plugin.truncate(whole, SIZE), whole)
    )
    np.testing.assert_array_equal(small, grown[kept])


def test_rounds_after_truncation_leave_no_trees_out() -> None:
    small = ens_plugin.truncate(trained(X3, Y3, **MULTI), SIZE)
    small.update(matrix(X3, Y3), 1)
    forest = Forest(small)
    position = likely_draws(forest, len(X3))[0].position
    np.testing.assert_array_equal(np.diff(position[forest.round == 1]), 1)
    assert np.diff(position[forest.round == 0]).max() == GROWN - SIZE + 1


def test_attributes_of_the_user_stay_and_the_best_score_does_not() -> None:
    data = matrix(X3, Y3)
    whole = xgboost.train(
        {**FOREST, **MULTI}, data, 1, evals=[(data, "train")], verbose_eval=False, early_stopping_rounds=1
    )
    whole.set_attr(owner="me")
    assert whole.attributes().keys() == {"owner", "best_iteration", "best_score"}
    assert ens_plugin.truncate(whole, SIZE).attributes() == {"owner": "me", GROWN_PARALLEL: str(GROWN)}
    assert ens_plugin.truncate(whole, GROWN).attributes() == whole.attributes()
    np.testing.assert_array_equal(ens_plugin.truncate(whole, GROWN).save_raw(), whole.save_raw())


@pytest.mark.filterwarnings("ignore:`XGBRF.* is deprecated:FutureWarning")
@pytest.mark.parametrize(
    ("cls", "y", "size_of"),
    [
        ("XGBClassifier", Y2, "num_parallel_tree"),
        ("XGBClassifier", Y3, "num_parallel_tree"),
        ("XGBRegressor", YR, "num_parallel_tree"),
        ("XGBRFClassifier", Y2, "n_estimators"),
        ("XGBRFClassifier", Y3, "n_estimators"),
        ("XGBRFRegressor", YR, "n_estimators"),
    ],
)
def test_models_of_the_scikit_learn_interface(cls: str, y: Any, size_of: str, tmp_path: Path) -> None:
    options = {**SKLEARN, "n_estimators": 1, "num_parallel_tree": None, size_of: GROWN}
    whole = getattr(xgboost, cls)(**options).fit(X3, y, eval_set=[(X3, y)], verbose=False)
    small = ens_plugin.truncate(whole, SIZE)
    stated = {**whole.get_params(), size_of: SIZE}
    assert repr(small.get_params()) == repr(stated)
    answer = "predict_proba" if hasattr(whole, "predict_proba") else "predict"
    margin = expected_margin(whole.get_booster(), X3, SIZE)
    close(small.predict(X3, output_margin=True), margin)
    np.testing.assert_array_equal(
        small.apply(X3).reshape(len(X3), -1), small.get_booster().predict(matrix(X3), pred_leaf=True)
    )
    assert small.feature_importances_.shape == (X3.shape[1],)
    assert whole.evals_result()
    with pytest.raises(xgboost.core.XGBoostError, match="No evaluation result"):
        small.evals_result()
    assert settings(clone(small).fit(X3, y).get_booster()) == settings(small.get_booster())
    small.save_model(tmp_path / "model.json")
    loaded = getattr(xgboost, cls)()
    loaded.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(getattr(loaded, answer)(X3), getattr(small, answer)(X3))


def test_generator_of_the_user_is_not_drawn_from() -> None:
    state = np.random.RandomState(0)
    model = xgboost.XGBRegressor(**{**SKLEARN, "random_state": state}).fit(XR, YR)
    before = frozen(model)
    ens_plugin.truncate(model, SIZE)
    assert frozen(model) == before


def test_sizes_that_do_not_divide_and_one() -> None:
    whole = trained(XR, YR)
    for size in (1, 3, 19):
        close(ens_plugin.truncate(whole, size).predict(matrix(XR)), expected_margin(whole, XR, size))


# ---- refusals


def test_several_rounds_are_refused() -> None:
    with pytest.raises(
        UnsupportedModelError, match=r"trained in 3 rounds of 20 parallel trees: .* none can be left out"
    ):
        ens_plugin.truncate(trained(X2, Y2, rounds=3, **BINARY), SIZE)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # XGBoost 3.4 calls both deprecated
@pytest.mark.parametrize(
    "options", [{"booster": "dart", "rate_drop": 0.9, "one_drop": 1}, {"booster": "gblinear"}], ids=["dart", "gblinear"]
)
def test_other_boosters_are_refused(options: dict[str, Any]) -> None:
    booster = xgboost.train({"nthread": 1, **options}, matrix(XR, YR), num_boost_round=3)
    with pytest.raises(UnsupportedModelError, match="dart drops and rescales trees while it trains"):
        ens_plugin.truncate(booster, 1)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # rate_drop is ignored by a booster of kind gbtree before 3.4
def test_dropout_that_dropped_nothing_is_no_obstacle() -> None:
    whole = trained(XR, YR, rate_drop=0.9)
    close(ens_plugin.truncate(whole, SIZE).predict(matrix(XR)), expected_margin(whole, XR, SIZE))


def test_unfitted_models() -> None:
    with pytest.raises(NotFittedError, match="This XGBClassifier has not been fitted"):
        ens_plugin.truncate(xgboost.XGBClassifier(num_parallel_tree=9), 3)
    with pytest.raises(NotFittedError, match="holds no trees"):
        ens_plugin.truncate(xgboost.Booster(), 3)
