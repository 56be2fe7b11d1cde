"""The ensembles of stable and unstable learners in the 2004 benchmark: votes, data, printed figures, claims."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier
from sklearn.tree import DecisionTreeClassifier

from benchmarks.papers.stable_learners import (
    AVERAGED,
    BAGGING,
    EXPERIMENTS,
    NUMBERS_OF_CRX,
    PARAMETRIC,
    PROBLEMS,
    SINGLE,
    Experiment,
    claims,
    error_table,
    errors_of_split,
    majority_labels,
)
from tests.extras import needs_keel


def test_most_votes_win() -> None:
    X, y = load_iris(return_X_y=True)
    bagged = BaggingClassifier(DecisionTreeClassifier(max_depth=2), 7, random_state=0).fit(X, y)
    votes = [np.bincount([int(tree.predict(row[None])[0]) for tree in bagged.estimators_]) for row in X]
    assert majority_labels(bagged, X).tolist() == [int(np.argmax(counts)) for counts in votes]


@needs_keel
def test_numbers_of_crx_are_in_bins() -> None:
    features, y = PROBLEMS["crx"].rows()
    assert {np.unique(features[:, column]).size for column in NUMBERS_OF_CRX} <= {2, 3, 4, 5}
    assert np.unique(y).size == 2


@needs_keel
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.title)
def test_a_split_has_an_error_for_every_printed_method(experiment: Experiment) -> None:
    found = errors_of_split(PROBLEMS["vote"], experiment, 5, 0)
    assert {*experiment.paper["vote"]} <= {*found}
    assert all(0 <= error < 50 for error in found.values())
    assert found == errors_of_split(PROBLEMS["vote"], experiment, 5, 0)


def test_claims_are_differences_of_errors() -> None:
    trees = {"iris": {SINGLE: np.array([6.0, 8.0]), BAGGING: np.array([5.0, 5.0]), "boosting": np.array([7.0, 7.0])}}
    stable = {"iris": {**trees["iris"], AVERAGED: np.array([4.0, 4.0]), PARAMETRIC: np.array([5.0, 5.0])}}
    stable["iris"]["conditional"] = np.array([4.5, 4.5])
    found = {claim.measure.partition(", fall")[0]: claim for claim in claims([trees, stable, stable])}
    assert found["trees, 66 %: bagging"].value == 2.0
    assert found["trees, 66 %: boosting"].value == 0.0
    assert found["trees less naive Bayes, 66 %: bagging"].value == 0.0
    assert found["naive Bayes, 10 %: parametric less rows"].value == -1.0
    assert not found["naive Bayes, 10 %: parametric less rows"].met
    text = error_table(EXPERIMENTS[0], trees)
    assert "| **iris**, paper" in text
    assert "7.0 ± 1.0" in text


def test_every_data_set_has_its_printed_errors() -> None:
    for experiment in EXPERIMENTS:
        assert experiment.paper.keys() == PROBLEMS.keys()
        assert all(SINGLE in printed and BAGGING in printed for printed in experiment.paper.values())
    assert [experiment.is_stable for experiment in EXPERIMENTS] == [False, True, True]
