"""Pruned predictions against the whole ensemble's, over every kind of ensemble, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.shared.problems import FORMULAS
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from ens_plugin.papers.dynamic_pruning_2009 import prune
from ens_plugin.papers.dynamic_pruning_2009.stopping import checkpoints, stopping_table, uniform_prior
from tests.papers.dynamic_pruning_2009.cases import ALMOST_SURE, fitted, rows_of, twonorm

KINDS = [
    "forest", "even forest", "shallow forest", "bagged trees", "bagged votes", "lightgbm", "xgboost"
]  # fmt: skip
FIRST = ("forest", "shallow forest", "lightgbm")
# Of ten labels, one ensemble for each kind of output: labels, probabilities, raw scores.
every_ensemble = pytest.mark.parametrize(
    ("kind", "n_labels"),
    [
        pytest.param(kind, n_labels, marks=() if n_labels == 2 or kind in FIRST else pytest.mark.slow)
        for n_labels in (2, 10)
        for kind in KINDS
    ],
)


@pytest.mark.fast_cases("forest-2", "bagged votes-2", "lightgbm-10")
@every_ensemble
def test_when_nothing_is_given_up_labels_are_the_whole_ensemble_s(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    model = fitted(kind, n_labels)
    for rule in ("full", "learned"):
        pruned = prune(model, X, y, rule=rule, confidence=ALMOST_SURE)
        np.testing.assert_array_equal(pruned.predict(fresh), model.predict(fresh))


@pytest.mark.fast_cases("forest-2", "lightgbm-10", "bagged votes-2", "xgboost-2")
@every_ensemble
def test_few_labels_differ_and_few_members_are_queried(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    model = fitted(kind, n_labels)
    for rule in ("full", "infinite", "learned"):
        found = prune(model, X, y, rule=rule).query(fresh)
        # 400 rows at 1 %: 4 expected, 11 in a run of 1000.
        assert np.count_nonzero(found.labels != model.predict(fresh)) <= 10
        assert found.n_queries.mean() < 80


@pytest.mark.fast_cases("forest-2", "lightgbm-10", "xgboost-2")
@every_ensemble
def test_probabilities_are_the_mean_of_the_members_queried(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    model = fitted(kind, n_labels)
    found = prune(model, X, y).query(fresh)
    np.testing.assert_array_equal(model.classes_[found.probabilities.argmax(axis=1)], found.labels)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, rtol=1e-6)
    adapter = find_adapter(model)
    outputs = adapter.outputs(adapter.prepare(fresh))
    for row in range(0, 400, 50):
        queried = outputs[: found.n_queries[row], row]
        if adapter.output_kind == "labels":
            queried = np.eye(n_labels)[queried]
        mean = queried.mean(axis=0)
        if adapter.output_kind == "scores":
            mean = adapter.inverse_link(np.array([[-mean / 2, mean / 2] if mean.ndim == 0 else mean]))[0]
        np.testing.assert_allclose(found.probabilities[row], mean, rtol=1e-6)


@pytest.mark.fast_cases("forest-2", "lightgbm-10", "xgboost-2")
@every_ensemble
def test_a_row_alone_is_predicted_as_among_others(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    pruned = prune(fitted(kind, n_labels), X, y)
    together = pruned.query(fresh)
    for row in range(0, 400, 80):
        alone = pruned.query(fresh[row : row + 1])
        assert alone.labels[0] == together.labels[row]
        assert alone.n_queries[0] == together.n_queries[row]


def test_stops_where_the_table_says_member_by_member() -> None:
    X, y, fresh = rows_of(2)
    model = fitted("forest", 2)
    table = stopping_table(uniform_prior(101), checkpoints(101), 0.99)
    votes = np.stack([tree.predict(fresh.astype(np.float32)) for tree in model.estimators_]).astype(int)
    expected = []
    for own in votes.T:
        stops = (
            checkpoint
            for checkpoint, low, high in zip(table.checkpoints, table.lower, table.upper, strict=True)
            if own[:checkpoint].sum() <= low or own[:checkpoint].sum() >= high
        )
        expected.append(next(stops))
    np.testing.assert_array_equal(prune(model, X, y, rule="full").query(fresh).n_queries, expected)


def test_settled_rows_are_queried_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, fresh = rows_of(2)
    pruned = prune(fitted("forest", 2), X, y)
    n_queried = 0
    whole = SklearnForestAdapter.outputs

    def counted(adapter: Any, features: Any, members: range) -> Any:
        nonlocal n_queried
        n_queried += len(members) * features.shape[0]
        return whole(adapter, features, members)

    monkeypatch.setattr(SklearnForestAdapter, "outputs", counted)
    queries = pruned.query(fresh).n_queries
    assert n_queried == queries.sum()
    assert queries.min() < 10
    assert queries.max() == 101


@pytest.mark.fast_cases("twonorm")
@pytest.mark.parametrize("problem", ["twonorm", "ringnorm", "spiral"])
def test_saving_and_disagreement_are_known_beforehand(problem: str) -> None:
    rng = np.random.default_rng(5)
    X, y = FORMULAS[problem].sample(500, rng)
    fresh = FORMULAS[problem].sample(4000, rng)[0]
    forest = RandomForestClassifier(151, random_state=0).fit(X, y)
    queries = {}
    for rule in ("learned", "full"):
        pruned = prune(forest, X, y, rule=rule)
        found = pruned.query(fresh)
        disagreement = np.mean(found.labels != forest.predict(fresh))
        assert disagreement <= 0.01 + 2 * np.sqrt(0.01 * 0.99 / 4000)
        assert found.n_queries.mean() == pytest.approx(pruned.expected_queries, rel=0.2)
        assert disagreement == pytest.approx(pruned.expected_disagreement, abs=0.005)
        queries[rule] = found.n_queries.mean()
    assert queries["learned"] < queries["full"]


def test_held_out_rows_teach_as_training_rows_do() -> None:
    forest = RandomForestClassifier(101, bootstrap=False, random_state=0).fit(*twonorm(300))
    pruned = prune(forest, *twonorm(500, 2), data="holdout")
    queries = pruned.query(twonorm(2000, 3)[0]).n_queries.mean()
    assert queries == pytest.approx(pruned.expected_queries, rel=0.25)


@pytest.mark.parametrize("rule", ["full", "infinite"])
def test_rules_without_prior_take_one_member_and_need_no_bags(rule: str) -> None:
    X, y, fresh = rows_of(2)
    for model in (RandomForestClassifier(1, random_state=0), ExtraTreesClassifier(51, random_state=0)):
        pruned = prune(model.fit(X, y), X, y, rule=rule)
        assert pruned.expected_queries is None
        assert pruned.expected_disagreement is None
        assert np.mean(pruned.predict(fresh) == model.predict(fresh)) > 0.98
    with pytest.raises(BagError):
        prune(model, X, y)


def test_an_ensemble_in_a_pipeline_or_a_search() -> None:
    data = load_breast_cancer(as_frame=True)
    X, y = data.data, data.target.map({0: "bad", 1: "good"})
    forest = RandomForestClassifier(51, random_state=0)
    pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), forest)
    search = GridSearchCV(RandomForestClassifier(31, random_state=0), {"max_depth": [2, 3]}, cv=2)
    for model in (pipeline.fit(X, y), search.fit(X, y)):
        np.testing.assert_array_equal(prune(model, X, y, confidence=ALMOST_SURE).predict(X), model.predict(X))


def test_sparse_rows() -> None:
    X, y, fresh = rows_of(10)
    forest = RandomForestClassifier(31, random_state=0).fit(sparse.csr_matrix(X), y)
    pruned = prune(forest, sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(pruned.predict(sparse.csr_matrix(fresh)), pruned.predict(fresh))


@pytest.mark.parametrize("kind", ["forest", "lightgbm", "xgboost"])
def test_it_is_pickled(kind: str) -> None:
    X, y, fresh = rows_of(2)
    pruned = prune(fitted(kind, 2), X, y, confidence=0.95)
    expected = pruned.predict(fresh)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(pruned)).predict(fresh), expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "half"}, "rule must be one of full, infinite, learned, certified, got 'half'"),
        ({"data": "train"}, "data must be one of oob, holdout, got 'train'"),
        ({"rule": np.array(["full", "learned"])}, "rule must be one of"),
        ({"confidence": 0.5}, "confidence must lie strictly between 0.5 and 1"),
        ({"confidence": "high"}, "confidence must lie strictly between 0.5 and 1"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prune(fitted("forest", 2), *rows_of(2)[:2], **options)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (RandomForestRegressor(5), UnsupportedModelError, "predicts values: its members have no label to settle"),
        (LogisticRegression(), UnsupportedModelError, "No adapter accepts"),
        (GradientBoostingClassifier(n_estimators=5), UnsupportedModelError, "Members of boosting correct one another"),
        (RandomForestClassifier(1, random_state=0), TooFewMembersError, r"No row .* two members \(of 1\)"),
    ],
)
def test_wrong_models(model: Any, error: Any, message: str) -> None:
    X, y = twonorm(50)
    with pytest.raises(error, match=message):
        prune(model.fit(X, y), X, y)


def test_wrong_rows() -> None:
    X, y = twonorm(200)
    forest = RandomForestClassifier(31, random_state=0).fit(X, y)
    with pytest.raises(DataMismatchError, match="training rows in training order"):
        prune(forest, X[::-1], y[::-1])
    with pytest.raises(DataMismatchError, match="rows the ensemble was trained on"):
        prune(forest, X, y, data="holdout")
    with pytest.raises(InputError, match="labels that the ensemble does not have: \\[2\\]"):
        prune(forest, *twonorm(50, 1)[:1], np.arange(50) % 3, data="holdout")
    with pytest.raises(NotFittedError, match="RandomForestClassifier has not been fitted"):
        prune(RandomForestClassifier(5), X, y)
    with pytest.raises(InputError, match="single label, 'a'"):
        prune(RandomForestClassifier(11, random_state=0).fit(X, np.full(200, "a")), X, np.full(200, "a"))


def test_wrong_columns_at_prediction() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    pruned = prune(RandomForestClassifier(11, random_state=0).fit(X, y), X, y)
    for wrong in (X.rename(columns={X.columns[0]: "other"}), X[X.columns[::-1]], X.to_numpy()[:, :3]):
        with pytest.raises(DataMismatchError):
            pruned.predict(wrong)


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_one_row_of_other_columns_is_refused(kind: str) -> None:
    X, y, _ = rows_of(2)
    pruned = prune(fitted(kind, 2), X, y)
    for wrong in (X[:1, 1:], X[0], X[:1].tolist()[0]):
        with pytest.raises((DataMismatchError, InputError, UnsupportedModelError)):
            pruned.predict(wrong)
