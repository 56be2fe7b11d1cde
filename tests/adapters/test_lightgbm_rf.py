"""What LightGBM's forests answer, and what is refused with which words."""

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
from ens_plugin.adapters.base import find_adapter
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginWarning,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from tests.adapters.lightgbm_cases import FRAME, RF, X2, X3, XR, Y2, Y3, YR
from tests.adapters.lightgbm_draws import drawn_bags, stated_seed

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")


def fitted(X: Any = X2, y: Any = Y2, **options: Any) -> Any:
    return lightgbm.LGBMClassifier(**{**RF, **options}).fit(X, y)


def regressor(X: Any = XR, y: Any = YR, **options: Any) -> Any:
    return lightgbm.LGBMRegressor(**{**RF, **options}).fit(X, y)


def trained(X: Any = XR, y: Any = YR, **options: Any) -> Any:
    parameters = {**RF, **options}
    return lightgbm.train(parameters, lightgbm.Dataset(X, y), parameters.pop("n_estimators"))


def edited(booster: Any, pattern: str, replacement: str) -> Any:
    text, count = re.subn(pattern, replacement, booster.model_to_string(), flags=re.MULTILINE)
    assert count
    return lightgbm.Booster(model_str=text)


# ---- analyze


def test_report_of_a_binary_forest_agrees_with_brute_force() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 5)), rng.integers(0, 2, 600)
    y = np.where(rng.random(600) < 0.8, (X[:, 0] > 0).astype(int), y)
    model = fitted(X, y, n_estimators=60)
    booster = model.booster_
    in_bag = drawn_bags(600, stated_seed(booster), int(np.ceil(0.6 * 32768)), 60)
    scores = np.array([booster.predict(X, raw_score=True, start_iteration=t, num_iteration=1) for t in range(60)])
    member_error = np.mean([np.mean((scores[~in_bag[:, i], i] > 0) != y[i]) for i in range(600)])
    means = np.array([scores[~in_bag[:, i], i].mean() for i in range(600)])
    report = ens_plugin.analyze(model, X, y)
    assert report.bags == "proved"
    assert report.aggregation == "mean_score"
    assert report.bias_variance.member_error == pytest.approx(member_error, rel=1e-12)
    # The rows' out-of-bag means are of about 24 members; the curve at that size must be near their error.
    assert report.error_curve.at(25) == pytest.approx(np.mean((means > 0) != y), abs=0.01)


def test_report_of_a_regression_forest_is_the_closed_form() -> None:
    model = regressor(n_estimators=40)
    in_bag = drawn_bags(300, stated_seed(model.booster_), int(np.ceil(0.6 * 32768)), 40)
    values = np.array([model.booster_.predict(XR, start_iteration=t, num_iteration=1) for t in range(40)])
    heard = np.where(in_bag, np.nan, values)
    mean, variance = np.nanmean(heard, axis=0), np.nanvar(heard, axis=0, ddof=1)
    infinite = np.mean((mean - YR) ** 2 - variance / (~in_bag).sum(axis=0))
    report = ens_plugin.analyze(model, XR, YR)
    assert report.error_curve.asymptote == pytest.approx(infinite, rel=1e-9)
    assert report.error_curve.at(40) == pytest.approx(infinite + variance.mean() / 40, rel=1e-9)


@pytest.mark.parametrize(("X", "y"), [(X2, Y2), (X3, Y3)], ids=["binary", "multiclass"])
def test_metric_meets_the_probabilities_of_predict_proba(X: Any, y: Any) -> None:
    model = fitted(X, y)
    met = []

    def log_loss(target: Any, probability: Any) -> float:
        met.append(probability)
        return float(-np.log(probability[np.arange(len(target)), target]).mean())

    ens_plugin.analyze(model, X, y, data="holdout", metric=log_loss)
    full = [probability for probability in met if probability.shape == (300, len(np.unique(y)))]
    expected = model.predict_proba(X)
    assert min(np.abs(probability - expected).max() for probability in full) < 1e-12


def test_multiclass_report_and_path() -> None:
    model = fitted(X3, Y3)
    assert ens_plugin.analyze(model, X3, Y3).n_members == RF["n_estimators"]
    path = ens_plugin.analyze(fitted(), X2, Y2, data="holdout", estimator="path")
    own = np.mean(fitted().predict(X2) != Y2)
    assert path.error_curve.at(RF["n_estimators"]) == pytest.approx(own)


def test_threads_and_kept_leaves_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted()
    expected = ens_plugin.analyze(model, X2, Y2).to_dict()
    threads = ens_plugin.analyze(model, X2, Y2, n_jobs=2).to_dict()
    module = "ens_plugin.adapters.lightgbm_rf"
    monkeypatch.setattr(f"{module}.KEPT_BYTES", 0)
    monkeypatch.setattr(f"{module}.WALKED_CELLS", 5 * 7)
    monkeypatch.setattr(f"{module}.WALKED_TREES", 5)
    monkeypatch.setattr(f"{module}.COUNTED_BYTES", RF["n_estimators"] * 16)
    walked_twice = ens_plugin.analyze(model, X2, Y2).to_dict()
    for report in (expected, threads, walked_twice):
        del report["created"]
    assert expected == threads == walked_twice


# ---- what predict uses


def test_members_are_those_up_to_the_best_iteration() -> None:
    model = fitted()
    model.booster_.best_iteration = 10
    adapter = find_adapter(model)
    assert adapter.n_members == 10
    assert adapter.bags(X2, adapter.prepare(X2), Y2).n_members == 10


@pytest.mark.filterwarnings("ignore:Whether Booster.refit")
def test_forest_with_trees_of_one_leaf_counts_them() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((400, 1)) < 0.02, 1.0, 0.0)
    model = regressor(X, X[:, 0] + rng.normal(size=400), subsample=0.5, min_child_samples=5, n_estimators=60)
    adapter = find_adapter(model)
    n_leaves = re.findall(r"^num_leaves=(\d+)$", model.booster_.model_to_string(), re.MULTILINE)
    assert 0 < n_leaves.count("1") < 60
    features = adapter.prepare(X)
    np.testing.assert_allclose(adapter.outputs(features, None).mean(axis=0), model.predict(X), atol=1e-12)
    expected = drawn_bags(400, stated_seed(model.booster_), 16384, 60)
    np.testing.assert_array_equal(adapter.bags(X, features, None).in_bag(), expected)


def test_mean_that_is_not_the_prediction_is_refused() -> None:
    adapter: Any = find_adapter(regressor())
    adapter._values[3] = adapter._values[3] * 1.01
    with pytest.raises(UnsupportedModelError, match=r"differs by .* from what LightGBM"):
        adapter.prepare(XR)


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
    with pytest.raises(DataMismatchError, match="Nearly, but not all"):
        ens_plugin.in_bag(regressor(), X)


def test_one_changed_target_is_refused() -> None:
    y = YR.copy()
    y[17] += 100.0
    with pytest.raises(DataMismatchError, match="not the target"):
        ens_plugin.analyze(regressor(), XR, y)


def test_flipped_labels_are_refused() -> None:
    with pytest.raises(DataMismatchError, match="not the target"):
        ens_plugin.in_bag(fitted(), X2, 1 - Y2)


@pytest.mark.filterwarnings("ignore:Whether Booster.refit")
def test_too_little_evidence_is_no_proof() -> None:
    X = np.arange(30.0)[:, None]
    model = regressor(X, X[:, 0], n_estimators=1, num_leaves=2)
    with pytest.raises(BagError, match="that is no proof"):
        ens_plugin.in_bag(model, X)


def test_forest_of_stumps_without_splits_is_no_proof() -> None:
    with pytest.raises(BagError, match="No tree of this forest has a split"):
        ens_plugin.in_bag(regressor(np.zeros((300, 1)), YR), np.zeros((300, 1)))


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
        assert ens_plugin.analyze(refit, XR, YR, data="holdout").bags == "holdout"


def test_where_refit_cannot_be_told_a_warning_says_so() -> None:
    with pytest.warns(EnsPluginWarning, match="Whether Booster.refit replaced"):
        ens_plugin.in_bag(regressor(objective="regression_l1"), XR)
    with warnings.catch_warnings():
        warnings.simplefilter("error", EnsPluginWarning)
        ens_plugin.in_bag(regressor(), XR)


@pytest.mark.filterwarnings("ignore:Whether Booster.refit")
def test_a_report_carries_the_warning_where_refit_cannot_be_told() -> None:
    def cautions(model: Any, data: Any) -> str:
        return " ".join(ens_plugin.analyze(model, XR, YR, data=data).warnings)

    silent = regressor(objective="regression_l1")
    assert "Whether Booster.refit replaced" in cautions(silent, "oob")
    assert "Whether Booster.refit replaced" in ens_plugin.analyze(silent, XR, YR).summary().replace("\n  ", " ")
    assert "refit" not in cautions(regressor(), "oob")
    changed = lightgbm.Booster(model_str=silent.booster_.refit(XR, YR + 1).model_to_string())
    assert "Whether Booster.refit replaced" in cautions(changed, "oob")
    assert "refit" not in cautions(changed, "holdout")


# ---- bags shared by trees


@pytest.mark.parametrize("data", ["oob", "holdout"])
def test_a_report_warns_of_trees_that_share_a_bag(data: Any) -> None:
    warned = ens_plugin.analyze(regressor(subsample_freq=5), XR, YR, data=data).warnings
    assert any("Each 5 trees in turn share a bag (bagging_freq=5)" in text for text in warned)
    assert ens_plugin.analyze(regressor(), XR, YR, data=data).warnings == ()


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


# ---- refused for what the model says of itself


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


def test_forest_of_column_samples_only_has_no_bags() -> None:
    model = regressor(subsample=1.0, subsample_freq=0, colsample_bytree=0.5)
    with pytest.raises(BagError, match="every tree saw every row"):
        ens_plugin.analyze(model, XR, YR)
    assert ens_plugin.analyze(model, XR, YR, data="holdout").n_members == RF["n_estimators"]


def test_model_without_parameters() -> None:
    text = trained().model_to_string().partition("\nparameters:")[0] + "\npandas_categorical:null\n"
    with pytest.raises(BagError, match="no parameters section"):
        ens_plugin.in_bag(lightgbm.Booster(model_str=text), XR)


def test_balanced_bagging_needs_the_target() -> None:
    with pytest.raises(BagError, match="pass y"):
        ens_plugin.in_bag(fitted(pos_bagging_fraction=0.4), X2)


@pytest.mark.parametrize("boosting", ["gbdt", "dart"])
def test_boosting_is_no_ensemble_of_members(boosting: str) -> None:
    with pytest.raises(UnsupportedModelError, match="boosting_type='rf'"):
        find_adapter(regressor(boosting_type=boosting))


def test_unfitted_model() -> None:
    with pytest.raises(NotFittedError, match="LGBMClassifier has not been fitted"):
        find_adapter(lightgbm.LGBMClassifier(**RF))


@pytest.mark.filterwarnings("ignore:Whether Booster.refit")
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
    for data in ("oob", "holdout"):
        with pytest.raises(UnsupportedModelError, match=name):
            ens_plugin.analyze(model, XR, y, data=data)  # type: ignore[arg-type]
    expected = drawn_bags(300, stated_seed(model.booster_), int(np.ceil(0.6 * 32768)), 3)
    np.testing.assert_array_equal(ens_plugin.in_bag(model, XR)[:3], expected)


def test_classifier_that_scores_no_labels() -> None:
    with pytest.raises(UnsupportedModelError, match="does not score each label"):
        find_adapter(fitted(objective="regression"))


# ---- rows


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([*FRAME.columns[:-1], "other"], "missing 'feature_5'"),
        (list(FRAME.columns[::-1]), "another order"),
        (list(FRAME.columns[:-1]), "X has 5 columns"),
    ],
)
def test_other_columns_are_named(columns: list[str], message: str) -> None:
    X = FRAME.reindex(columns=columns, fill_value=0.0)
    with pytest.raises(DataMismatchError, match=message):
        find_adapter(fitted(FRAME)).prepare(X)


@pytest.mark.parametrize(
    "X",
    [np.full((3, 6), "a"), np.zeros(6), pd.DataFrame(np.full((3, 6), "a"), columns=FRAME.columns)],
    ids=["text", "one dimension", "frame of text"],
)
def test_rows_lightgbm_cannot_take(X: Any) -> None:
    with pytest.raises(InputError, match="X"):
        find_adapter(fitted(FRAME)).prepare(X)


def test_table_without_rows() -> None:
    with pytest.raises(InputError, match="no rows"):
        ens_plugin.analyze(fitted(), X2[:0], Y2, data="holdout")


def test_lists_and_frames_of_the_same_rows_are_the_same_rows() -> None:
    model = fitted()
    expected = ens_plugin.in_bag(model, X2)
    np.testing.assert_array_equal(ens_plugin.in_bag(model, X2.tolist()), expected)
    np.testing.assert_array_equal(ens_plugin.in_bag(model, FRAME), expected)
