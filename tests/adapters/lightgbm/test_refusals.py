"""What is refused of LightGBM's forests, with which words, and what their proof withstands."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginWarning,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from tests.adapters.lightgbm.lightgbm_cases import FRESHR, RF, X2, XR, Y2, YR, edited, fitted, regressor, trained
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags, stated_seed

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")


# ---- the proof


@pytest.mark.parametrize("offset", [-1, 1, 7, 1024])
def test_another_seed_is_refused(offset: int) -> None:
    """As is a model of LightGBM before 3.0, whose bags followed from more than its seed."""
    booster = trained()
    other = edited(booster, r"^\[bagging_seed: (\d+)\]$", f"[bagging_seed: {stated_seed(booster) + offset}]")
    with pytest.raises(DataMismatchError, match=r"other sizes or .* LightGBM before 3\.0"):
        ens_plugin.in_bag(other, XR)


@pytest.mark.parametrize("fraction", ["0.59", "0.61", "0.6004"])
def test_another_fraction_is_refused(fraction: str) -> None:
    other = edited(trained(n_estimators=200), r"^\[bagging_fraction: .*\]$", f"[bagging_fraction: {fraction}]")
    with pytest.raises((DataMismatchError, BagError), match=r"not the rows|The first \d+ trees"):
        ens_plugin.in_bag(other, XR)


@pytest.mark.parametrize("tree", [0, 12, 24])
def test_one_row_in_another_leaf_of_one_tree_is_refused(tree: int) -> None:
    before, *trees = trained().model_to_string().split("\nTree=")
    counts = re.findall(r"^leaf_count=(\d+) (\d+)", trees[tree], re.MULTILINE)[0]
    moved = f"leaf_count={int(counts[0]) + 1} {int(counts[1]) - 1}"
    trees[tree] = re.sub(r"^leaf_count=\d+ \d+", moved, trees[tree], flags=re.MULTILINE)
    text = re.sub(r"^tree_sizes=.*\n", "", "\nTree=".join([before, *trees]), flags=re.MULTILINE)
    with pytest.raises((DataMismatchError, BagError), match=rf"\(trees {tree}\)"):
        ens_plugin.in_bag(lightgbm.Booster(model_str=text), XR)


def test_fraction_lost_to_rounding_is_found() -> None:
    # 20000 / 32768 is printed as 0.610352, which would give 20001.
    X = np.random.default_rng(0).normal(size=(30_000, 2))
    model = regressor(X, X[:, 0], subsample=20000 / 32768, n_estimators=40)
    expected = np.array([rows.mean() for rows in ens_plugin.in_bag(model, X)])
    brute = drawn_bags(30_000, stated_seed(model.booster_), 20000, 3)
    np.testing.assert_array_equal(ens_plugin.in_bag(model, X)[:3], brute)
    assert not np.array_equal(brute, drawn_bags(30_000, stated_seed(model.booster_), 20001, 3))
    assert expected.std() < 0.01


def test_one_changed_row_is_refused() -> None:
    X = XR.copy()
    X[17] = -X[17]
    with pytest.raises(DataMismatchError, match="reach other leaves than at training"):
        ens_plugin.in_bag(regressor(), X)


def test_one_changed_target_is_refused() -> None:
    y = YR.copy()
    y[17] += 100.0
    with pytest.raises(DataMismatchError, match="not the target"):
        ens_plugin.analyze(regressor(), XR, y)


def test_flipped_labels_are_refused() -> None:
    with pytest.raises(DataMismatchError, match="not the target"):
        ens_plugin.in_bag(fitted(), X2, 1 - Y2)


def test_trees_grown_otherwise_from_the_middle_on_are_refused() -> None:
    # As after a callback changed bagging_fraction, which LightGBM 4.7 itself does not survive reliably.
    first, second = (trained(subsample=fraction).model_to_string() for fraction in (0.6, 0.5))
    trees = first.split("\nTree=")[:13] + second.split("\nTree=")[13:]
    text = re.sub(r"^tree_sizes=.*\n", "", "\nTree=".join(trees), flags=re.MULTILINE)
    text = re.sub(r"^\[bagging_fraction: .*\]$", "[bagging_fraction: 0.6]", text, flags=re.MULTILINE)
    with pytest.raises(BagError, match=r"The first 12 trees were grown on the bags .* a callback changed"):
        ens_plugin.in_bag(lightgbm.Booster(model_str=text), XR)


def replaced_last(booster: Any) -> Any:
    booster.rollback_one_iter()
    booster.update()
    return booster


CHANGED_AFTERWARDS = {
    "shuffled": lambda booster: booster.shuffle_models(),
    "last tree grown anew": replaced_last,
    "first trees cut": lambda booster: lightgbm.Booster(model_str=booster.model_to_string(start_iteration=3)),
}


@pytest.mark.parametrize("name", CHANGED_AFTERWARDS)
def test_trees_moved_after_training_are_refused(name: str) -> None:
    parameters = {**RF}
    n_trees = parameters.pop("n_estimators")
    booster = lightgbm.train(parameters, lightgbm.Dataset(XR, YR), n_trees, keep_training_booster=True)
    with pytest.raises(
        (BagError, DataMismatchError), match=r"re-ordered \((shuffle_models|rollback)|re-ordered or cut"
    ):
        ens_plugin.in_bag(CHANGED_AFTERWARDS[name](booster), XR)


def test_last_trees_cut_leave_the_bags_of_the_others() -> None:
    booster = trained()
    first = lightgbm.Booster(model_str=booster.model_to_string(num_iteration=10))
    np.testing.assert_array_equal(ens_plugin.in_bag(first, XR), ens_plugin.in_bag(booster, XR)[:10])


def test_folds_of_cross_validation_are_proved_on_their_own_rows() -> None:
    parameters = {**RF, "objective": "regression"}
    n_trees = parameters.pop("n_estimators")
    folds = [(np.arange(100, 300), np.arange(100)), (np.arange(200), np.arange(200, 300))]
    found = lightgbm.cv(parameters, lightgbm.Dataset(XR, YR), n_trees, folds=folds, return_cvbooster=True)
    for booster, (train, _) in zip(found["cvbooster"].boosters, folds, strict=True):
        expected = drawn_bags(200, stated_seed(booster), int(np.ceil(0.6 * 32768)), n_trees)
        np.testing.assert_array_equal(ens_plugin.in_bag(booster, XR[train], YR[train]), expected)
        with pytest.raises(DataMismatchError):
            ens_plugin.in_bag(booster, XR)


def test_refit_is_refused_even_on_the_training_rows_and_without_y() -> None:
    booster = trained()
    for refit in (booster.refit(XR[::-1], YR[::-1] + 1), booster.refit(XR, YR), booster.refit(XR, YR, decay_rate=0.99)):
        with pytest.raises(BagError, match="refit or set_leaf_output"):
            ens_plugin.in_bag(refit, XR)
        assert ens_plugin.analyze(refit, FRESHR, YR, data="holdout").bags == "holdout"


# Of their trees, the inner nodes show no refit.
SILENT = {
    "absolute error": {"objective": "regression_l1"},
    "quantile": {"objective": "quantile", "alpha": 0.5},
    "penalty": {"reg_lambda": 1.0},
    "two leaves": {"num_leaves": 2},
}


@pytest.mark.parametrize("name", SILENT)
def test_nothing_is_said_of_refit_where_the_target_shows_that_there_was_none(name: str) -> None:
    model = regressor(**SILENT[name])
    with warnings.catch_warnings():
        warnings.simplefilter("error", EnsPluginWarning)
        ens_plugin.in_bag(model, XR)
        report = ens_plugin.analyze(model, XR, YR)
    assert report.bags == "proved"
    assert "refit" not in report.summary()


@pytest.mark.parametrize("decay_rate", [0.0, 0.5])
@pytest.mark.parametrize("name", SILENT)
def test_the_target_shows_a_refit_that_the_trees_do_not_show(name: str, decay_rate: float) -> None:
    refit = regressor(**SILENT[name]).booster_.refit(XR, YR, decay_rate=decay_rate)
    with pytest.raises(DataMismatchError, match="not the target"):
        ens_plugin.analyze(refit, XR, YR)


@pytest.mark.parametrize("name", SILENT)
def test_a_refit_too_small_for_the_target_to_show_changes_no_figure(name: str) -> None:
    model = regressor(**SILENT[name])
    before = ens_plugin.analyze(model, XR, YR)
    try:
        after = ens_plugin.analyze(model.booster_.refit(XR, YR, decay_rate=0.999), XR, YR)
    except DataMismatchError:
        return
    low, high = before.error_interval
    assert abs(after.error - before.error) < 0.01 * (high - low)


def test_where_y_is_not_proved_the_warning_names_values_that_were_replaced() -> None:
    warned = ens_plugin.analyze(regressor(path_smooth=1.0), XR, YR).warnings
    assert [text for text in warned if "the values in the leaves were replaced since" in text] == list(warned)


# ---- bags shared by trees


@pytest.mark.parametrize("data", ["oob", "holdout"])
def test_a_report_warns_of_trees_that_share_a_bag(data: Any) -> None:
    X = XR if data == "oob" else FRESHR
    warned = ens_plugin.analyze(regressor(subsample_freq=5), X, YR, data=data).warnings
    assert any("Each 5 trees in turn share a bag (bagging_freq=5)" in text for text in warned)
    assert ens_plugin.analyze(regressor(), X, YR, data=data).warnings == ()


def test_one_bag_for_all_trees_leaves_held_out_rows() -> None:
    model = regressor(subsample_freq=100, colsample_bytree=0.5, num_leaves=31, min_child_samples=3)
    in_bag = ens_plugin.in_bag(model, XR, YR)
    assert (in_bag == in_bag[0]).all()
    with pytest.raises(TooFewMembersError, match=rf"All 25 members .* same {in_bag[0].sum()} of 300 .* bagging_freq=1"):
        ens_plugin.analyze(model, XR, YR)
    out = ~in_bag[0]
    assert ens_plugin.analyze(model, XR[out], YR[out], data="holdout").n_rows == out.sum()


def test_model_survives_saving_and_pickling(tmp_path: Path) -> None:
    model = fitted()
    expected = ens_plugin.in_bag(model, X2, Y2)
    model.booster_.save_model(tmp_path / "forest.txt")
    loaded = lightgbm.Booster(model_file=tmp_path / "forest.txt")
    np.testing.assert_array_equal(ens_plugin.in_bag(loaded, X2, Y2), expected)
    np.testing.assert_array_equal(ens_plugin.in_bag(pickle.loads(pickle.dumps(model)), X2, Y2), expected)


# ---- refused for what the model states of itself


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        ("[data_sample_strategy: goss]", "goss"),
        ("[bagging_by_query: 1]", "bagging_by_query"),
        ("[num_machines: 2]", "2 machines"),
        ("[bagging_freq: 0]", "without bagging"),
        ("[bagging_fraction: 1]", "without bagging"),
    ],
)
def test_bags_that_cannot_be_drawn_again(replacement: str, message: str) -> None:
    key = replacement.split(":", maxsplit=1)[0][1:]
    booster = trained()
    if f"[{key}:" not in booster.model_to_string():
        pytest.skip(f"LightGBM {lightgbm.__version__} has no parameter {key}")
    other = edited(booster, rf"^\[{key}: .*\]$", replacement)
    with pytest.raises(BagError, match=message) as caught:
        ens_plugin.in_bag(other, XR)
    assert 'data="holdout"' in str(caught.value)


LINE = np.arange(30.0)[:, None]
NOT_KNOWN: dict[str, tuple[Any, Any, str]] = {
    "a single stump": (lambda: regressor(LINE, LINE[:, 0], n_estimators=1, num_leaves=2), LINE, "that is no proof"),
    "no splits": (lambda: regressor(np.zeros((300, 1)), YR), np.zeros((300, 1)), "No tree of this forest has a split"),
    "no parameters": (
        lambda: lightgbm.Booster(
            model_str=trained().model_to_string().partition("\nparameters:")[0] + "\npandas_categorical:null\n"
        ),
        XR,
        "no parameters section",
    ),
    "balanced bags without y": (lambda: fitted(pos_bagging_fraction=0.4), X2, "pass y"),
}


@pytest.mark.parametrize("name", NOT_KNOWN)
def test_bags_that_are_not_known(name: str) -> None:
    make, X, words = NOT_KNOWN[name]
    with pytest.raises(BagError, match=words):
        ens_plugin.in_bag(make(), X)


def test_forest_of_column_samples_only_has_no_bags() -> None:
    model = regressor(subsample=1.0, subsample_freq=0, colsample_bytree=0.5)
    with pytest.raises(BagError, match=r"no row is out of bag.*subsample_freq and subsample"):
        ens_plugin.analyze(model, XR, YR)
    assert ens_plugin.analyze(model, FRESHR, YR, data="holdout").n_members == RF["n_estimators"]


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_boosting_is_no_ensemble_of_members(boosting: str) -> None:
    with pytest.raises(UnsupportedModelError, match=r"boosting_type='rf'.*subsample_freq and subsample"):
        find_adapter(regressor(boosting_type=boosting))


def test_unfitted_model() -> None:
    with pytest.raises(NotFittedError, match="LGBMClassifier has not been fitted"):
        find_adapter(lightgbm.LGBMClassifier(**RF))


@pytest.mark.parametrize(
    "options",
    [
        {"objective": "poisson"},
        {"objective": "gamma"},
        {"objective": "tweedie"},
        {"objective": "cross_entropy"},
        {"reg_sqrt": True},
    ],
    ids=str,
)
def test_link_over_a_mean_is_refused_but_its_bags_are_known(options: dict[str, Any]) -> None:
    y = (YR - YR.min() + 1) / (np.ptp(YR) + 2)
    model = regressor(XR, y, **options)
    name = options.get("objective", "reg_sqrt")
    for data, X in (("oob", XR), ("holdout", FRESHR)):
        with pytest.raises(UnsupportedModelError, match=name):
            ens_plugin.analyze(model, X, y, data=data)  # type: ignore[arg-type]
    expected = drawn_bags(300, stated_seed(model.booster_), int(np.ceil(0.6 * 32768)), 3)
    np.testing.assert_array_equal(ens_plugin.in_bag(model, XR)[:3], expected)


def test_classifier_that_scores_no_labels() -> None:
    with pytest.raises(UnsupportedModelError, match="does not score each label"):
        find_adapter(fitted(objective="regression"))


# ---- categories


CITIES = pd.DataFrame({"city": pd.Categorical(["a", "b", "c", "a"] * 50), "x": np.arange(200.0) % 17})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (CITIES.assign(city=CITIES["city"].cat.codes), r"trained on 1 column of categories, and X has 0\. Pass"),
        (CITIES.assign(city=CITIES["city"].astype(str)), r"trained on 1 column of categories, and X has 0\. Pass"),
        (CITIES.astype("category"), r"1 column of categories, and X has 2 \('city', 'x'\)"),
    ],
)
def test_other_categories_than_at_training_are_named(rows: Any, message: str) -> None:
    model = lightgbm.LGBMRegressor(**RF).fit(CITIES, CITIES["x"])
    with pytest.raises(DataMismatchError, match=message):
        ens_plugin.analyze(model, rows, CITIES["x"])
