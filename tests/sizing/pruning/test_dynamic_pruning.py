"""Pruned predictions against the whole ensemble's, over every kind of ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from benchmarks.shared.problems import FORMULAS
from ens_plugin import DynamicPruningClassifier
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.sklearn import SklearnForestAdapter
from ens_plugin.core.stopping import stopping_table, uniform_prior
from ens_plugin.errors import BagError
from tests.sizing.estimator_checks import REPEATED_CHECKS
from tests.sizing.pruning.cases import ALMOST_SURE, ensemble, fitted, frozen, rows_of, trained, twonorm

few_rows = pytest.mark.filterwarnings("ignore:There are only .* rows to estimate:ens_plugin.errors.WeakEstimateWarning")


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


@pytest.mark.slow_cases(*REPEATED_CHECKS)
@few_rows
@parametrize_with_checks([DynamicPruningClassifier(RandomForestClassifier(9, random_state=0))])
def test_scikit_learn_s_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@few_rows
@parametrize_with_checks(
    [
        DynamicPruningClassifier(RandomForestClassifier(9, max_depth=2, random_state=0), rule="infinite"),
        DynamicPruningClassifier(
            RandomForestClassifier(9, max_depth=2, random_state=0), rule="certified", confidence=0.6
        ),
    ]
)
def test_scikit_learn_s_own_checks_of_probabilities(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.fast_cases("forest-2", "bagged votes-2", "lightgbm-10")
@every_ensemble
def test_when_nothing_is_given_up_labels_are_the_whole_ensemble_s(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    for rule in ("full", "learned"):
        pruned = DynamicPruningClassifier(trained(kind, n_labels), rule=rule, confidence=ALMOST_SURE).fit(X, y)
        np.testing.assert_array_equal(pruned.predict(fresh), pruned.estimator_.predict(fresh))


@pytest.mark.fast_cases("forest-2", "lightgbm-10", "bagged votes-2", "xgboost-2")
@every_ensemble
def test_few_labels_differ_and_few_members_are_queried(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    for rule in ("full", "infinite", "learned"):
        pruned = DynamicPruningClassifier(trained(kind, n_labels), rule=rule).fit(X, y)
        found = pruned.query(fresh)
        # 400 rows at 1 %: 4 expected, 11 in a run of 1000.
        assert np.count_nonzero(found.labels != pruned.estimator_.predict(fresh)) <= 10
        assert found.n_queries.mean() < 80
        assert pruned.expected_queries_ == pytest.approx(found.n_queries.mean(), rel=0.35)
        assert pruned.expected_disagreement_ <= 0.02


@pytest.mark.fast_cases("forest-2", "lightgbm-10", "xgboost-2")
@every_ensemble
def test_probabilities_are_the_mean_of_the_members_queried(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    pruned = DynamicPruningClassifier(trained(kind, n_labels)).fit(X, y)
    found, model = pruned.query(fresh), fitted(kind, n_labels)
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
    pruned = DynamicPruningClassifier(trained(kind, n_labels)).fit(X, y)
    together = pruned.query(fresh)
    for row in range(0, 400, 80):
        alone = pruned.query(fresh[row : row + 1])
        assert alone.labels[0] == together.labels[row]
        assert alone.n_queries[0] == together.n_queries[row]


def test_stops_where_the_table_says_member_by_member() -> None:
    X, y, fresh = rows_of(2)
    pruned = DynamicPruningClassifier(ensemble("forest"), rule="full").fit(X, y)
    table = stopping_table(uniform_prior(101), 0.99)
    votes = np.stack([tree.predict(fresh.astype(np.float32)) for tree in pruned.estimator_.estimators_]).astype(int)
    expected = []
    for own in votes.T:
        stops = (
            checkpoint
            for checkpoint, low, high in zip(table.checkpoints, table.lower, table.upper, strict=True)
            if own[:checkpoint].sum() <= low or own[:checkpoint].sum() >= high
        )
        expected.append(next(stops))
    np.testing.assert_array_equal(pruned.count_queries(fresh), expected)


def test_settled_rows_are_queried_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, fresh = rows_of(2)
    pruned = DynamicPruningClassifier(RandomForestClassifier(101, random_state=0)).fit(X, y)
    n_queried = 0
    whole = SklearnForestAdapter.outputs

    def counted(adapter: Any, features: Any, members: range) -> Any:
        nonlocal n_queried
        n_queried += len(members) * features.shape[0]
        return whole(adapter, features, members)

    monkeypatch.setattr(SklearnForestAdapter, "outputs", counted)
    queries = pruned.count_queries(fresh)
    assert n_queried == queries.sum()
    assert queries.min() < 10
    assert queries.max() == 101


@pytest.mark.slow
def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, fresh = rows_of(10)
    pruned = DynamicPruningClassifier(RandomForestClassifier(51, random_state=0)).fit(X, y)
    whole = pruned.query(fresh)
    monkeypatch.setattr("ens_plugin.sizing.pruning.BLOCK_BYTES", 0)
    monkeypatch.setattr("ens_plugin.sizing.pruning.FEWEST_ROWS", 7)
    parts = pruned.query(fresh)
    np.testing.assert_array_equal(parts.labels, whole.labels)
    np.testing.assert_array_equal(parts.n_queries, whole.n_queries)


def test_counting_many_labels_is_counting_few(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, fresh = rows_of(10)
    pruned = DynamicPruningClassifier(RandomForestClassifier(51, random_state=0)).fit(X, y)
    few = pruned.query(fresh)
    monkeypatch.setattr("ens_plugin.sizing.pruning.FEW_LABELS", 0)
    many = pruned.query(fresh)
    np.testing.assert_array_equal(many.probabilities, few.probabilities)


@pytest.mark.fast_cases("twonorm")
@pytest.mark.parametrize("problem", ["twonorm", "ringnorm", "spiral"])
def test_saving_and_disagreement_are_known_beforehand(problem: str) -> None:
    rng = np.random.default_rng(5)
    X, y = FORMULAS[problem].sample(500, rng)
    fresh = FORMULAS[problem].sample(4000, rng)[0]
    queries = {}
    for rule in ("learned", "full"):
        pruned = DynamicPruningClassifier(RandomForestClassifier(151, random_state=0), rule=rule).fit(X, y)
        found = pruned.query(fresh)
        disagreement = np.mean(found.labels != pruned.estimator_.predict(fresh))
        assert disagreement <= 0.01 + 2 * np.sqrt(0.01 * 0.99 / 4000)
        assert found.n_queries.mean() == pytest.approx(pruned.expected_queries_, rel=0.2)
        assert disagreement == pytest.approx(pruned.expected_disagreement_, abs=0.005)
        queries[rule] = found.n_queries.mean()
    assert queries["learned"] < queries["full"]


def test_held_out_rows_teach_as_training_rows_do() -> None:
    X, y = twonorm(300)
    forest = RandomForestClassifier(101, bootstrap=False, random_state=0).fit(X, y)
    held_out = twonorm(500, 2)
    pruned = DynamicPruningClassifier(frozen(forest), data="holdout").fit(*held_out)
    queries = pruned.count_queries(twonorm(2000, 3)[0]).mean()
    assert queries == pytest.approx(pruned.expected_queries_, rel=0.25)


@pytest.mark.parametrize("rule", ["full", "infinite"])
def test_rules_without_prior_take_one_member(rule: str) -> None:
    X, y, _ = rows_of(2)
    pruned = DynamicPruningClassifier(RandomForestClassifier(1, random_state=0), rule=rule).fit(X, y)
    assert pruned.expected_queries_ is None
    assert np.array_equal(pruned.predict(X), pruned.estimator_.predict(X))


def test_rules_without_prior_need_no_bags() -> None:
    X, y, fresh = rows_of(2)
    trees = ExtraTreesClassifier(51, random_state=0)
    for rule in ("full", "infinite"):
        pruned = DynamicPruningClassifier(trees, rule=rule).fit(X, y)
        assert pruned.expected_queries_ is None
        assert pruned.expected_disagreement_ is None
        assert pruned.count_queries(fresh).mean() < 51
    with pytest.raises(BagError, match="has no bootstrap"):
        DynamicPruningClassifier(trees).fit(X, y)
