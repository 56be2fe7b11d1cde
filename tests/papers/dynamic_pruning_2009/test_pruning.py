"""Pruned predictions against the whole ensemble's, over every kind of ensemble, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.shared.problems import FORMULAS
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.core.tally import RowBlock
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from ens_plugin.papers.dynamic_pruning_2009 import PrunedEnsemble, prune
from ens_plugin.papers.dynamic_pruning_2009.certificate import RunningVote
from ens_plugin.papers.dynamic_pruning_2009.pruning import OutOfBagOutputs, _out_of_bag_outputs, row_prior
from ens_plugin.papers.dynamic_pruning_2009.stopping import (
    certificate_table,
    checkpoints,
    stopping_table,
    uniform_prior,
)
from tests.papers.dynamic_pruning_2009.cases import ALMOST_SURE, ensemble, fitted, rows_of, twonorm

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


@pytest.mark.parametrize("rule", ["learned", "certified"])
def test_it_is_pickled(rule: str) -> None:
    X, y, fresh = rows_of(2)
    pruned = prune(fitted("forest", 2), X, y, rule=rule, confidence=0.95)
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


CERTIFIED = [("forest", 2), ("bagged votes", 2), ("shallow forest", 2), ("forest", 10), ("shallow forest", 10)]
every_kind = pytest.mark.parametrize(("kind", "n_labels"), CERTIFIED)


def certified(kind: str, n_labels: int, **options: Any) -> PrunedEnsemble:
    X, y, _ = rows_of(n_labels)
    return prune(fitted(kind, n_labels), X, y, rule="certified", **options)


def outputs_of(kind: str, n_labels: int) -> Any:
    adapter = find_adapter(fitted(kind, n_labels))
    return adapter.outputs(adapter.prepare(rows_of(n_labels)[2]))


@pytest.mark.fast_cases("forest-2", "shallow forest-10")
@every_kind
def test_settled_rows_have_the_label_of_many_more_members(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    found = certified(kind, n_labels).query(fresh)
    other = ensemble(kind).set_params(n_estimators=1001, random_state=1).fit(X, y)
    settled = found.n_queries < 101
    # 400 rows at 1 %.
    assert np.count_nonzero(found.labels[settled] != other.predict(fresh)[settled]) <= 4
    assert 0.4 < settled.mean() < 1.0


def test_votes_on_two_labels_stop_by_the_table() -> None:
    pruned = certified("forest", 2)
    votes, table = outputs_of("forest", 2), certificate_table(checkpoints(101), 0.01)
    for row, queried in enumerate(pruned.query(rows_of(2)[2]).n_queries):
        counts = np.cumsum(votes[:, row])[table.checkpoints - 1]
        places = [k for k, count in enumerate(counts) if table.settled(k, np.array([count]))[0]]
        assert queried == table.checkpoints[places[0]]


@pytest.mark.parametrize(("kind", "n_labels"), [("shallow forest", 2), ("forest", 10), ("shallow forest", 10)])
def test_other_outputs_stop_by_the_running_vote(kind: str, n_labels: int) -> None:
    found = certified(kind, n_labels).query(rows_of(n_labels)[2])
    looks = set(checkpoints(101).tolist())
    vote, outputs = RunningVote(400, n_labels, 1 - 0.99), outputs_of(kind, n_labels)
    expected, labels = np.full(400, 101), np.full(400, -1)
    for member, one in enumerate(outputs, start=1):
        vote.add(one)
        if member in looks:
            new = (labels < 0) & (vote.settled | (member == 101))
            expected[new], labels[new] = member, vote.labels[new]
    np.testing.assert_array_equal(found.n_queries, expected)
    np.testing.assert_array_equal(found.labels, fitted(kind, n_labels).classes_[labels])


@pytest.mark.parametrize(("kind", "n_labels"), [("forest", 2), ("shallow forest", 10)])
def test_a_row_alone_is_settled_as_among_others(kind: str, n_labels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = rows_of(n_labels)[2]
    pruned = certified(kind, n_labels)
    together = pruned.query(fresh)
    for row in range(0, 400, 80):
        assert pruned.query(fresh[row : row + 1]).n_queries[0] == together.n_queries[row]
    monkeypatch.setattr("ens_plugin.papers.dynamic_pruning_2009.pruning.BLOCK_BYTES", 0)
    monkeypatch.setattr("ens_plugin.papers.dynamic_pruning_2009.pruning.FEWEST_ROWS", 7)
    parts = pruned.query(fresh)
    np.testing.assert_array_equal(parts.labels, together.labels)
    np.testing.assert_array_equal(parts.n_queries, together.n_queries)


def test_it_needs_no_rows_that_are_out_of_bag() -> None:
    X, y, fresh = rows_of(2)
    pruned = prune(ExtraTreesClassifier(51, random_state=0).fit(X, y), X, y, rule="certified")
    assert pruned.expected_queries is None
    assert pruned.query(fresh).n_queries.mean() < 51


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_raw_scores_are_refused(kind: str) -> None:
    X, y, _ = rows_of(2)
    with pytest.raises(UnsupportedModelError, match="give scores, which have no largest value"):
        prune(fitted(kind, 2), X, y, rule="certified")


@pytest.mark.parametrize(
    "model",
    [RandomForestClassifier(1, random_state=0), BaggingClassifier(RidgeClassifier(), n_estimators=2, random_state=0)],
)
def test_a_member_or_two_settle_nothing_and_give_the_ensemble_s_label(model: Any) -> None:
    X, y, fresh = rows_of(10)
    pruned = prune(model.fit(X, y), X, y, rule="certified")
    np.testing.assert_array_equal(pruned.predict(fresh), model.predict(fresh))
    assert (pruned.query(fresh).n_queries == pruned.n_members).all()


def test_prior_of_votes_is_that_of_the_second_label() -> None:
    rng = np.random.default_rng(0)
    votes = rng.random((40, 500)) < 0.9
    zeros = np.zeros(500, dtype=np.intp)
    found = OutOfBagOutputs(RowBlock(votes.astype(np.uint8), np.ones(votes.shape, bool), zeros, 2), zeros, zeros + 1)
    prior = row_prior(found, "labels")
    assert prior.support @ prior.weights == pytest.approx(0.9, abs=0.01)
    assert prior.spread == 1.0


@pytest.mark.parametrize(("n_members", "n_rows"), [(3, 30_000), (50, 2000)])
def test_probabilities_are_worth_the_votes_that_their_variance_says(n_members: int, n_rows: int) -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0.3, 0.7, n_rows)
    # The mean of five votes has a fifth of a vote's variance.
    second = rng.binomial(5, p, (n_members, p.size)) / 5
    zeros = np.zeros(p.size, dtype=np.intp)
    outputs = np.stack([1 - second, second], axis=2)
    found = OutOfBagOutputs(RowBlock(outputs, np.ones(second.shape, bool), zeros, 2), zeros, zeros + 1)
    prior = row_prior(found, "probabilities")
    assert prior.spread == pytest.approx(5.0, rel=0.05)
    sd = np.sqrt(prior.weights @ (prior.support - prior.support @ prior.weights) ** 2)
    assert sd == pytest.approx(p.std(), rel=0.05)


def test_scores_have_their_mean_and_their_spread() -> None:
    rng = np.random.default_rng(2)
    mu = rng.normal(0.3, 1.0, 2000)
    scores = rng.normal(mu, 2.0, (60, mu.size))
    zeros = np.zeros(mu.size, dtype=np.intp)
    outputs = np.stack([-scores / 2, scores / 2], axis=2)
    found = OutOfBagOutputs(RowBlock(outputs, np.ones(scores.shape, bool), zeros, 2), zeros, zeros + 1)
    prior = row_prior(found, "scores")
    assert prior.spread == pytest.approx(2.0, rel=0.03)
    assert prior.support @ prior.weights == pytest.approx(mu.mean(), abs=0.05)
    sd = np.sqrt(prior.weights @ (prior.support - prior.support @ prior.weights) ** 2)
    assert sd == pytest.approx(1.0, rel=0.1)


def test_the_two_strongest_labels_come_in_the_order_of_the_classes() -> None:
    X, y = make_classification(300, n_informative=6, n_classes=4, random_state=0)
    adapter = find_adapter(RandomForestClassifier(60, random_state=0).fit(X, y))
    found = _out_of_bag_outputs(adapter, X, adapter.prepare(X), y, "oob")
    assert (found.first < found.second).all()
    rows = np.arange(0, found.first.size, 37)
    for row in rows:
        counts = np.bincount(found.block.outputs[found.block.counted[:, row], row], minlength=4)
        strongest = sorted(counts)[-2:]
        assert sorted(counts[[found.first[row], found.second[row]]]) == strongest
    first, second = found.support()
    assert (first + second <= found.trials).all()
    assert found.trials.mean() == pytest.approx(60 * 0.368, rel=0.05)
