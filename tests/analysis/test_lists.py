"""Agreement of lists and values: of every kind of model, of importances, their names, and what is refused."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import CustomEnsemble
from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError

CANCER, DIAGNOSIS = load_breast_cancer(return_X_y=True, as_frame=True)
DIABETES, PROGRESS = load_diabetes(return_X_y=True)
OF_CANCER = RandomForestClassifier(60, random_state=0).fit(CANCER[:300], DIAGNOSIS[:300])
OF_DIABETES = RandomForestRegressor(60, random_state=0).fit(DIABETES, PROGRESS)


@cache
def isolation_forest() -> IsolationForest:
    return IsolationForest(random_state=0).fit(CANCER)


def test_list_is_that_of_the_most_anomalous_rows() -> None:
    forest = isolation_forest()
    found = ens_plugin.agreement(forest, CANCER, top=40)
    listed = set(np.argsort(forest.score_samples(CANCER))[:40].tolist())
    undecided = found.undecided
    assert found.findings == ()  # the threshold between labels is nothing to a list
    assert undecided.columns.tolist() == ["value", "listed", "chance"]
    assert set(undecided.index[undecided["listed"]]) <= listed
    assert not set(undecided.index[~undecided["listed"]]) & listed
    others = [IsolationForest(random_state=seed).fit(CANCER).score_samples(CANCER) for seed in range(1, 7)]
    sets = [set(np.argsort(scores)[:40].tolist()) for scores in others]
    true = np.mean([len(one & other) / 40 for place, one in enumerate(sets) for other in sets[:place]])
    assert found.overlap == pytest.approx(true, abs=0.06)


def of_members(n_members: int) -> Any:
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 442, 442) for _ in range(n_members)]
    return CustomEnsemble.from_estimators([Ridge(1.0).fit(DIABETES[own], PROGRESS[own]) for own in rows], None)


@pytest.mark.parametrize(
    "model",
    [
        OF_DIABETES,
        ExtraTreesRegressor(20, min_samples_leaf=5, random_state=0).fit(DIABETES, PROGRESS),
        BaggingRegressor(Ridge(), 20, random_state=0).fit(DIABETES, PROGRESS),
        make_pipeline(StandardScaler(), RandomForestRegressor(20, random_state=0)).fit(DIABETES, PROGRESS),
        of_members(20),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_model_of_values_has_a_list(model: Any) -> None:
    found = ens_plugin.agreement(model, DIABETES, top=40)
    assert 0.3 < found.overlap < found.agreement < 1.0
    assert found.overlap_at(1000) > found.overlap


def test_members_alike_list_the_same_rows() -> None:
    ensemble = CustomEnsemble.from_estimators([Ridge(1.0).fit(DIABETES, PROGRESS)] * 10, None)
    found = ens_plugin.agreement(ensemble, DIABETES, top=10)
    assert (found.overlap, found.agreement) == pytest.approx((1.0, 1.0), abs=1e-6)
    assert found.undecided.empty


def test_label_is_the_last_of_two_or_the_one_that_is_named() -> None:
    last, named = (ens_plugin.agreement(OF_CANCER, CANCER[300:], top=150, label=label) for label in (None, 1))
    assert last.overlap == named.overlap
    assert ens_plugin.agreement(OF_CANCER, CANCER[300:], top=30, label=0).overlap != last.overlap


def test_training_rows_and_sparse_rows_are_taken() -> None:
    rows = sparse.csr_array(np.where(DIABETES > 0, DIABETES, 0.0))
    forest = RandomForestRegressor(20, random_state=0).fit(rows, PROGRESS)
    dense = RandomForestRegressor(20, random_state=0).fit(rows.toarray(), PROGRESS)
    assert ens_plugin.agreement(forest, rows, top=20).overlap == pytest.approx(
        ens_plugin.agreement(dense, rows.toarray(), top=20).overlap, abs=1e-12
    )


def test_many_rows_are_read_twice_and_lose_as_much() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12_000, 3))
    values = rows[:, 0] + 0.5 * rng.normal(size=12_000)
    forest = RandomForestRegressor(20, max_depth=7, random_state=0).fit(rows[:2000], values[:2000])
    many = ens_plugin.agreement(forest, rows, top=1200)
    few = ens_plugin.agreement(forest, rows[:9000], top=900)
    assert many.overlap == pytest.approx(few.overlap, abs=0.05)


class Shifted:
    """A member that gives every row the same value of its own."""

    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.value)


def test_percent_of_means_that_do_not_differ_is_refused() -> None:
    """The standard deviation of equal means is one of rounding, of which 5 % were taken for a distance."""
    ensemble = CustomEnsemble.from_estimators(
        [Shifted(value) for value in np.random.default_rng(0).normal(size=10)], None
    )
    with pytest.raises(InputError, match="which must differ"):
        ens_plugin.agreement(ensemble, DIABETES[:100], within="5 %")


class Constant:
    """A member that gives most rows 1, as every other does, and the rest a value of its own."""

    def __init__(self, seed: int) -> None:
        self.values = np.where(np.arange(20_000) < 15_000, 1.0, np.random.default_rng(seed).random(20_000))

    def predict(self, X: Any) -> Any:
        return self.values[X[:, 0].astype(int)]


def test_more_tied_rows_than_are_read_stand_for_all_of_them() -> None:
    """A list of 600 out of 15 000 tied rows was said to be the same in 99.9 %, since the rows left out were certain."""
    ensemble = CustomEnsemble.from_estimators([Constant(seed) for seed in range(20)], None)
    found = ens_plugin.agreement(ensemble, np.arange(20_000.0)[:, None], top=600)
    assert found.overlap == pytest.approx(600 / 15_000, abs=0.02)


def test_rows_that_a_tie_puts_on_the_list_are_undecided() -> None:
    """Each of 15 000 tied rows has hardly a chance to be listed, so that none was said to be undecided."""
    ensemble = CustomEnsemble.from_estimators([Constant(seed) for seed in range(20)], None)
    found = ens_plugin.agreement(ensemble, np.arange(20_000.0)[:, None], top=60)
    assert found.undecided["listed"].sum() > 30
    assert found.undecided["chance"].max() < 0.05


class Noisy(Constant):
    """A member whose noise moves most rows over the end of a list."""

    def __init__(self, seed: int) -> None:
        quality = np.random.default_rng(1000).normal(size=60_000)
        self.values = quality + 3.0 * np.random.default_rng(seed).normal(size=60_000)


def test_more_open_rows_than_are_read_stand_for_all_of_them() -> None:
    """The rows nearest to the end alone were drawn, so that a list that shares 52 % was said to share 77 %."""
    ensemble = CustomEnsemble.from_estimators([Noisy(seed) for seed in range(12)], None)
    found = ens_plugin.agreement(ensemble, np.arange(60_000.0)[:, None], top=15_000)
    other = (np.mean([Noisy(seed).values for seed in range(12 * part, 12 * part + 12)], axis=0) for part in (1, 2))
    one, two = (set(np.argsort(-values)[:15_000].tolist()) for values in other)
    assert found.overlap == pytest.approx(len(one & two) / 15_000, abs=0.04)


def test_importances_are_those_of_the_forest_and_have_names() -> None:
    found = ens_plugin.importance_agreement(OF_CANCER, top=10)
    assert found.n_rows == 30
    assert set(found.undecided.index) <= set(CANCER.columns)
    importances = pd.Series(OF_CANCER.feature_importances_, CANCER.columns)
    assert found.undecided["value"].to_dict() == pytest.approx(importances[found.undecided.index].to_dict())
    without_names = RandomForestRegressor(20, random_state=0).fit(DIABETES, PROGRESS)
    assert set(ens_plugin.importance_agreement(without_names, top=3).undecided.index) <= {f"x{k}" for k in range(10)}


def test_importances_of_bagged_trees_are_of_their_own_columns() -> None:
    bagging = BaggingRegressor(n_estimators=30, max_features=0.5, random_state=0).fit(DIABETES, PROGRESS)
    expected = np.zeros(10)
    for tree, own in zip(bagging.estimators_, bagging.estimators_features_, strict=True):
        expected[own] += tree.feature_importances_ / 30
    undecided = ens_plugin.importance_agreement(bagging, top=3).undecided
    places = [int(name[1:]) for name in undecided.index]
    assert undecided["value"].to_numpy() == pytest.approx(expected[places])


def test_pseudo_values_of_a_permutation_sum_to_its_importance() -> None:
    found = ens_plugin.oob_permutation_importance(OF_DIABETES, DIABETES, PROGRESS, n_repeats=2)
    listed = found.agreement(4)
    assert 0.4 < listed.overlap < listed.overlap_at(2000) <= 1.0
    importance = found.to_frame()["importances_mean"]
    differences = (listed.undecided["value"] - importance[listed.undecided.index]).abs()
    assert (differences < 0.1 * importance.max()).all()


@pytest.mark.parametrize("within", [5.0, "10 %"])
def test_values_are_close_as_normal_means_are(within: Any) -> None:
    found = ens_plugin.agreement(OF_DIABETES, DIABETES, within=within)
    values = np.stack([tree.predict(DIABETES) for tree in OF_DIABETES.estimators_])
    distance = within if isinstance(within, float) else 0.1 * values.mean(axis=0).std()
    rng = np.random.default_rng(0)
    halves = [rng.permutation(60) for _ in range(50)]
    moved = [np.abs(values[own[:30]].mean(axis=0) - values[own[30:]].mean(axis=0)) for own in halves]
    assert found.overlap_at(30) == pytest.approx(np.mean(np.array(moved) <= distance), abs=0.03)
    assert found.undecided.empty


def test_result_is_printed_stored_and_drawn_like_that_of_labels() -> None:
    found = ens_plugin.agreement(isolation_forest(), CANCER, top=40)
    content = json.loads(found.to_json())
    assert content["overlap"] == found.overlap
    assert content["overlap_interval"] == list(found.overlap_interval or ())
    assert set(content["undecided"][0]) == {"row", "value", "listed", "chance"}
    assert len(str(found).splitlines()) <= 15
    assert "40 rows with the largest" in str(found)
    assert "<th>chance</th>" in found.to_html()
    assert found.plot().get_ylabel() == "Same with another seed (%)"
    assert found.to_frame().columns.tolist() == ["agreement", "overlap"]


def test_labels_have_an_overlap_below_their_agreement() -> None:
    found = ens_plugin.agreement(OF_CANCER, CANCER[300:])
    assert found.overlap is not None
    assert found.agreement_at(30) - 0.01 < found.overlap < found.agreement
    assert found.agreement_interval[0] <= found.agreement <= found.agreement_interval[1]


IRIS, SPECIES = load_iris(return_X_y=True)
OF_IRIS = RandomForestClassifier(20, random_state=0).fit(IRIS, SPECIES)
OF_SETOSA = RandomForestClassifier(20, random_state=0).fit(IRIS, np.zeros(150))
TREE = RandomForestRegressor(1, random_state=0).fit(DIABETES, PROGRESS)
SEVEN = RandomForestRegressor(7, random_state=0).fit(DIABETES, PROGRESS)
BOOSTED = GradientBoostingRegressor(n_estimators=10).fit(DIABETES, PROGRESS)


@pytest.mark.parametrize(
    ("model", "X", "options", "error", "words"),
    [
        (OF_DIABETES, DIABETES, {"top": 443}, InputError, "at most 442"),
        (OF_DIABETES, DIABETES, {"top": 0}, InputError, "at least 1"),
        (OF_DIABETES, DIABETES[:1], {"top": 1}, InputError, "1 row, and an agreement is a share of many"),
        (OF_DIABETES, DIABETES, {"top": 2.5}, InputError, "whole number"),
        (OF_DIABETES, DIABETES, {"top": 4, "within": 1.0}, InputError, "one of them"),
        (OF_DIABETES, DIABETES, {"top": 4, "label": 1}, InputError, "Leave label out"),
        (OF_DIABETES, DIABETES, {"top": 4, "tolerance": 0.7}, InputError, "below 0.5"),
        (OF_DIABETES, DIABETES, {"within": -1.0}, InputError, "no distance"),
        (OF_DIABETES, DIABETES, {"within": "five"}, InputError, "no distance"),
        (OF_DIABETES, DIABETES, {}, UnsupportedModelError, "Pass top"),
        (OF_CANCER, CANCER[300:], {"label": 1}, InputError, "Pass top"),
        (OF_CANCER, CANCER[300:], {"top": 4, "label": "sick"}, InputError, "none of the model's labels"),
        (OF_CANCER, CANCER[300:], {"top": 4, "label": np.array([0, 1])}, InputError, "none of the model's labels"),
        (OF_IRIS, IRIS, {"top": 4}, InputError, "Pass label"),
        (OF_SETOSA, IRIS, {"top": 4}, InputError, "Pass label"),
        (isolation_forest(), CANCER, {"within": 0.1}, UnsupportedModelError, "no unit"),
        (TREE, DIABETES, {"top": 4}, TooFewMembersError, "1 member"),
        (SEVEN, DIABETES, {"top": 4}, TooFewMembersError, "7 members"),
        (BOOSTED, DIABETES, {"top": 4}, UnsupportedModelError, "correct one another"),
        (CustomEnsemble(np.zeros((9, 4)), None, aggregation="mean"), None, {"top": 2}, InputError, "made of arrays"),
    ],
)
def test_refusals(model: Any, X: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ens_plugin.agreement(model, X, **options)


@pytest.mark.parametrize(
    ("model", "top", "error", "words"),
    [
        (OF_DIABETES, 11, InputError, "at most 10"),
        (SEVEN, 3, TooFewMembersError, "7 members"),
        (isolation_forest(), 3, UnsupportedModelError, "split at random"),
        (BaggingRegressor(Ridge(), 10).fit(DIABETES, PROGRESS), 3, UnsupportedModelError, "oob_permutation_importance"),
        (BOOSTED, 3, UnsupportedModelError, "correct one another"),
    ],
)
def test_refusals_of_importances(model: Any, top: int, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ens_plugin.importance_agreement(model, top=top)
