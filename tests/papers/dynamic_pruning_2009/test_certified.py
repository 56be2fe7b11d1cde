"""The rule that settles rows by proof, over ensembles that vote or average probabilities."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.linear_model import RidgeClassifier

from ens_plugin.adapters import find_adapter
from ens_plugin.errors import UnsupportedModelError
from ens_plugin.papers.dynamic_pruning_2009 import PrunedEnsemble, prune
from ens_plugin.papers.dynamic_pruning_2009.certificate import RunningVote
from ens_plugin.papers.dynamic_pruning_2009.stopping import certificate_table, checkpoints
from tests.papers.dynamic_pruning_2009.cases import ensemble, fitted, rows_of

KINDS = [("forest", 2), ("bagged votes", 2), ("shallow forest", 2), ("forest", 10), ("shallow forest", 10)]
every_kind = pytest.mark.parametrize(("kind", "n_labels"), KINDS)


def certified(kind: str, n_labels: int, **options: Any) -> PrunedEnsemble:
    X, y, _ = rows_of(n_labels)
    return prune(fitted(kind, n_labels), X, y, rule="certified", **options)


def outputs_of(kind: str, n_labels: int) -> Any:
    adapter = find_adapter(fitted(kind, n_labels))
    return adapter.outputs(adapter.prepare(rows_of(n_labels)[2]))


@every_kind
def test_settled_rows_have_the_label_of_many_more_members(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    found = certified(kind, n_labels).query(fresh)
    other = ensemble(kind).set_params(n_estimators=1001, random_state=1).fit(X, y)
    settled = found.n_queries < 101
    # 400 rows at 1 %.
    assert np.count_nonzero(found.labels[settled] != other.predict(fresh)[settled]) <= 4
    assert 0.4 < settled.mean() < 1.0


@pytest.mark.parametrize(("kind", "n_labels"), [case for case in KINDS if case[0] != "bagged votes"])
def test_more_members_are_queried_than_for_the_infinite_rule(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    assumed = prune(fitted(kind, n_labels), X, y, rule="infinite").query(fresh).n_queries.mean()
    pruned = certified(kind, n_labels)
    queries = pruned.query(fresh).n_queries
    assert assumed * 0.9 < queries.mean() < 2.0 * assumed


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


@pytest.mark.parametrize(("kind", "n_labels"), [("forest", 2), ("shallow forest", 10)])
def test_it_is_stored_with_its_rule(kind: str, n_labels: int) -> None:
    fresh = rows_of(n_labels)[2]
    pruned = certified(kind, n_labels, confidence=0.95)
    back = pickle.loads(pickle.dumps(pruned))
    np.testing.assert_array_equal(back.query(fresh).n_queries, pruned.query(fresh).n_queries)


def test_a_lower_confidence_takes_fewer_members() -> None:
    fresh = rows_of(2)[2]
    queries = [certified("forest", 2, confidence=c).query(fresh).n_queries.mean() for c in (0.8, 0.95, 0.999)]
    assert queries == sorted(queries)
    assert queries[0] < queries[-1] / 2


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
