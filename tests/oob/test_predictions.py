"""Out-of-bag predictions against what each member of a library predicts, one by one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import ens_plugin
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.analysis import evidence as row_blocks
from ens_plugin.errors import BagError, DataMismatchError, EnsPluginWarning, InputError, TooFewMembersError
from tests.adapters.cases import CASES, NAMES, WITH_BAGS, X3, XR, Y2, Y3, YR, for_cases
from tests.adapters.harness import Case, permutation, take_rows
from tests.oob.member_outputs import mask_of, member_predictions

Array = np.ndarray[Any, np.dtype[Any]]

with_bags = for_cases(WITH_BAGS)
stored = for_cases([c for c in CASES if not c.name.startswith(("pasting", "custom", "lightgbm", "xgboost", "spark"))])


@cache
def predicted(case: Case) -> ens_plugin.OobPredictions:
    return ens_plugin.oob_predictions(case.model, case.X, case.y)


# What float32 leaves of it; LightGBM and XGBoost keep scores and leaves so.
CLOSE = {"lightgbm": 1e-6, "xgboost": 1e-5}


@with_bags
def test_mean_of_what_each_member_predicts(case: Case) -> None:
    model, rows = unwrap(case.model, case.X)
    expected, n_members = member_predictions(model, rows, mask_of(case.samples(model), case.n_rows))
    found = predicted(case)
    np.testing.assert_array_equal(found.n_members, n_members)
    close = max(CLOSE.get(case.name.split()[0], 1e-12) * np.nanmax(np.abs(expected)), case.tolerance)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=close)


@stored
def test_bits_of_scikit_learn_where_it_stores_them(case: Case) -> None:
    model, _ = unwrap(case.model, case.X)
    name = "oob_decision_function_" if hasattr(model, "classes_") else "oob_prediction_"
    theirs, found = getattr(model, name), predicted(case)
    known = found.n_members > 0
    assert found.values.dtype == theirs.dtype == np.float64
    if case.tolerance:
        np.testing.assert_allclose(found.values[known], theirs[known], rtol=0, atol=case.tolerance)
    else:
        np.testing.assert_array_equal(found.values[known], theirs[known])
    if hasattr(model, "classes_"):
        np.testing.assert_array_equal(found.labels[known], model.classes_[theirs[known].argmax(axis=1)])


@with_bags
def test_without_a_target_nothing_changes(case: Case) -> None:
    if case.needs_target:
        with pytest.raises(BagError, match="pass y"):
            ens_plugin.oob_predictions(case.model, case.X)
        return
    np.testing.assert_array_equal(ens_plugin.oob_predictions(case.model, case.X).values, predicted(case).values)


STORED: dict[str, Any] = {"n_estimators": 40, "random_state": 0, "oob_score": True}
FOREST: dict[str, Any] = {"n_estimators": 30, "random_state": 0}


def forest(y: Any = Y3, **options: Any) -> Any:
    return RandomForestClassifier(**{**FOREST, **options}).fit(X3, y)


def test_rows_that_every_member_drew_are_nan_without_label() -> None:
    model = forest(NAMES[Y3], n_estimators=2)
    found = ens_plugin.oob_predictions(model, X3)
    missing = found.n_members == 0
    assert 20 < missing.sum() < 120
    assert np.isnan(found.values[missing]).all()
    assert not np.isnan(found.values[~missing]).any()
    assert set(found.labels[missing]) == {None}
    assert set(found.labels[~missing]) <= set(NAMES)
    assert found.to_frame()["label"].isna().equals(pd.Series(missing))


def test_labels_are_those_of_the_model_and_the_first_wins_ties() -> None:
    values = np.array([[0.5, 0.5], [0.2, 0.8], [np.nan, np.nan]])
    found = ens_plugin.OobPredictions(values, np.array([2, 5, 0]), np.array([3, 7]))
    assert found.labels.tolist() == [3, 7, None]
    assert found.labels.dtype == object
    known = ens_plugin.OobPredictions(values[:2], np.array([2, 5]), np.array([3, 7]))
    assert known.labels.dtype == np.array([3, 7]).dtype


def test_values_have_no_labels() -> None:
    found = ens_plugin.oob_predictions(RandomForestRegressor(**FOREST).fit(XR, YR), XR, YR)
    assert found.values.shape == (len(YR),)
    with pytest.raises(InputError, match="no labels"):
        _ = found.labels


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
def test_frame_has_the_index_of_the_rows(wrap: Any) -> None:
    rows = pd.DataFrame(X3, columns=list("abcdef"), index=pd.Index(np.arange(len(Y3)) * 7 + 1, name="patient"))
    found = ens_plugin.oob_predictions(wrap(RandomForestClassifier(**FOREST)).fit(rows, NAMES[Y3]), rows, NAMES[Y3])
    frame = found.to_frame()
    pd.testing.assert_index_equal(frame.index, rows.index)
    assert list(frame.columns) == ["label", "value_ash", "value_birch", "value_oak", "n_members"]
    np.testing.assert_array_equal(frame.filter(like="value").to_numpy(), found.values)
    np.testing.assert_array_equal(frame["label"].to_numpy(), found.labels)
    np.testing.assert_array_equal(frame["n_members"].to_numpy(), found.n_members)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_blocks_and_threads_change_no_bit(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for model, X in ((forest(max_depth=3), X3), (RandomForestRegressor(**FOREST).fit(XR, YR), XR)):
        whole = ens_plugin.oob_predictions(model, X)
        with monkeypatch.context() as patch:
            patch.setattr(row_blocks, "CHUNK", 8)
            patch.setattr(row_blocks, "BLOCK_BYTES", 1)
            blocks = ens_plugin.oob_predictions(model, X, n_jobs=n_jobs)
        np.testing.assert_array_equal(blocks.values, whole.values)
        np.testing.assert_array_equal(blocks.n_members, whole.n_members)


def test_a_row_of_a_group_is_out_of_bag_where_the_whole_group_is() -> None:
    model, groups = forest(max_samples=0.2, max_depth=3), np.arange(len(Y3)) // 3
    in_bag = ens_plugin.in_bag(model, X3)
    whole = np.stack([np.isin(groups, groups[member]) for member in in_bag])
    expected, n_members = member_predictions(model, X3, whole)
    found = ens_plugin.oob_predictions(model, X3, groups=groups)
    np.testing.assert_array_equal(found.n_members, n_members)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)


def test_identical_rows_are_a_group() -> None:
    X, y = np.concatenate([X3, X3]), np.concatenate([Y3, Y3])
    model = RandomForestClassifier(max_samples=0.2, **FOREST).fit(X, y)
    found = ens_plugin.oob_predictions(model, X, y, groups="identical")
    n_rows = len(Y3)
    np.testing.assert_array_equal(found.values[:n_rows], found.values[n_rows:])
    named = ens_plugin.oob_predictions(model, X, y, groups=np.tile(np.arange(n_rows), 2))
    np.testing.assert_array_equal(found.values, named.values)
    with pytest.raises(InputError, match="pass y"):
        ens_plugin.oob_predictions(model, X, groups="identical")


def test_labels_that_a_member_never_met_have_probability_zero() -> None:
    y = np.where(np.arange(len(Y3)) == 5, 2, Y2)
    model = BaggingClassifier(KNeighborsClassifier(3), n_estimators=20, random_state=0).fit(X3, y)
    expected, n_members = member_predictions(model, X3, mask_of(list(model.estimators_samples_), len(y)))
    with pytest.warns(EnsPluginWarning, match="Nothing in this model shows"):
        found = ens_plugin.oob_predictions(model, X3, y)
    np.testing.assert_array_equal(found.n_members, n_members)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "X", "y"),
    [
        (forest, X3, Y3),
        (lambda: RandomForestRegressor(**FOREST).fit(XR, YR), XR, YR),
        (lambda: BaggingClassifier(LinearSVC(), **STORED).fit(X3, Y3), X3, Y3),
        (lambda: BaggingRegressor(**FOREST).fit(XR, YR), XR, YR),
    ],
    ids=["forest", "regression", "SVC", "bagged trees"],
)
def test_other_rows_are_refused(model: Any, X: Array, y: Array) -> None:
    fitted = model()
    shuffled = take_rows(X, permutation(len(y)))
    with pytest.raises(DataMismatchError, match=r"predicted by its own predict|not the rows"):
        ens_plugin.oob_predictions(fitted, shuffled)
    with pytest.raises(DataMismatchError):
        ens_plugin.oob_predictions(fitted, X[:-1])


def test_two_rows_that_changed_places_are_refused_where_predictions_are_stored() -> None:
    model = BaggingClassifier(KNeighborsClassifier(), **STORED).fit(X3, Y3)
    with pytest.raises(DataMismatchError, match="2 of 160 rows have other out-of-bag outputs"):
        ens_plugin.oob_predictions(model, X3[np.r_[1, 0, 2 : len(Y3)]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": Y3[:-1]}, "X has 160 rows and y has 159"),
        ({"y": np.where(Y3 == 0, 9, Y3)}, "labels that the ensemble does not have"),
        ({"groups": np.arange(3)}, "groups has 3 entries"), ({"groups": "other"}, "groups must hold"),
        ({"n_jobs": 0}, "n_jobs"), ({"X": X3[:0]}, "0 sample"), ({"X": X3[:, :4]}, "X has 4 columns"),
    ],
)  # fmt: skip
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ens_plugin.oob_predictions(forest(), **{"X": X3, **options})


def test_rows_that_no_member_left_out_are_refused() -> None:
    with pytest.raises(BagError, match=r"without bootstrap.*predicted by its own predict"):
        ens_plugin.oob_predictions(forest(bootstrap=False), X3, Y3)
    with pytest.raises(TooFewMembersError, match=r"No row is out of bag for any member .* smaller groups"):
        ens_plugin.oob_predictions(forest(), X3, groups=np.arange(len(Y3)) % 2)


def test_the_text_of_predictions_is_their_first_rows() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    lines = repr(ens_plugin.oob_predictions(forest, X, y)).splitlines()
    assert lines[0] == "OobPredictions of 569 rows, of which these are the first 5:"
    assert lines[1].split() == ["label", "value_0", "value_1", "n_members"]
    assert len(lines) == 7
