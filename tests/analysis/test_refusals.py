"""What an analysis refuses, in errors that state what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ens_plugin import analyze
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from tests.forests import CANCER, DIABETES, fitted

X, Y = CANCER
N = len(Y)
ORDER = np.random.default_rng(0).permutation(N)
ONES = Y == 1
FRIEDMAN = make_friedman1(60, random_state=0)[0]
NO_ENSEMBLE = r"CustomEnsemble|Supported|Load the model first|is no trained ensemble"
# A message that ends where the fault is named leaves the reader alone.
REMEDY = re.compile(r"\b(pass|train|refit|fit|supported|must be|must have|give|leave|load)\b", re.IGNORECASE)


def trained(model: Any, rows: Any = X, y: Any = Y) -> Callable[[], Any]:
    return lambda: model.fit(rows, y)


def of(make: Callable[[], Any] = fitted, rows: Any = X, y: Any = Y, **options: Any) -> Callable[[], object]:
    return lambda: analyze(make(), rows, y, **options)


VOTES_OF_SVC = BaggingClassifier(SVC(), 40, oob_score=True, random_state=0)
CASES: dict[str, tuple[Callable[[], object], type[EnsPluginError], str]] = {
    # Models.
    "forest not fitted": (of(RandomForestClassifier), NotFittedError, "has not been fitted"),
    "forest of values not fitted": (of(RandomForestRegressor), NotFittedError, "has not been fitted"),
    "bagging not fitted": (of(BaggingClassifier), NotFittedError, "has not been fitted"),
    "no ensemble": (of(trained(SVC())), UnsupportedModelError, NO_ENSEMBLE),
    "boosting": (of(trained(GradientBoostingClassifier(n_estimators=2))), UnsupportedModelError, NO_ENSEMBLE),
    "text": (of(lambda: "model"), UnsupportedModelError, NO_ENSEMBLE),
    "no object": (lambda: analyze(None, X, Y), UnsupportedModelError, NO_ENSEMBLE),
    "any object": (of(object), UnsupportedModelError, NO_ENSEMBLE),
    "one member": (of(partial(fitted, n_estimators=1)), TooFewMembersError, "one member"),
    "two members": (of(partial(fitted, n_estimators=2)), TooFewMembersError, r"of 569 rows have fewer than 2.*holdout"),
    "three members": (
        of(partial(fitted, n_estimators=3)), TooFewMembersError, r"of 569 rows have fewer than 2.*holdout"
    ),
    "two outputs": (
        of(trained(RandomForestRegressor(10, random_state=0), FRIEDMAN, np.ones((60, 2))), FRIEDMAN, np.ones(60)),
        InputError, r"predicts 2 outputs; pass y of shape \(n_rows, 2\)",
    ),
    "no bootstrap": (of(partial(fitted, bootstrap=False)), BagError, "holdout"),
    "no bootstrap of extra trees": (of(trained(ExtraTreesClassifier(20, random_state=0))), BagError, "holdout"),
    # Training rows as held out.
    "training rows": (of(data="holdout"), DataMismatchError, "rows the model was trained on"),
    "training rows of all members": (
        of(partial(fitted, bootstrap=False), data="holdout"), DataMismatchError, "rows the model was trained on"
    ),
    "training rows of columns": (
        of(trained(BaggingClassifier(n_estimators=10, max_features=0.5, random_state=0)), data="holdout"),
        DataMismatchError, "rows the model was trained on",
    ),
    "training rows of a pipeline": (
        of(trained(make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0))), data="holdout"),
        DataMismatchError, "rows the model was trained on",
    ),
    # Rows that are not those of the training.
    "fewer columns": (of(rows=X[:, :-1]), DataMismatchError, "X has 29 columns"),
    "fewer columns held out": (of(rows=X[:, :-1], data="holdout"), DataMismatchError, "X has 29 columns"),
    "fewer rows": (of(rows=X[:500], y=Y[:500]), DataMismatchError, "training"),
    "few rows": (of(rows=X[:20], y=Y[:20]), DataMismatchError, "training"),
    "more rows": (of(rows=np.concatenate([X, X]), y=np.concatenate([Y, Y])), DataMismatchError, "training"),
    "shuffled": (of(rows=X[ORDER], y=Y[ORDER]), DataMismatchError, "order"),
    "shuffled, with stored outputs": (
        of(partial(fitted, oob_score=True), X[ORDER], Y[ORDER]), DataMismatchError, "order"
    ),
    # Of a learner whose fit leaves no trace of its rows.
    "shuffled, by stored outputs": (
        of(trained(VOTES_OF_SVC, X[:200], Y[:200]), X[:200][::-1], Y[:200][::-1]), DataMismatchError, "stored"
    ),
    "no rows": (of(rows=X[:0], y=Y[:0]), InputError, "y is empty"),
    "no rows held out": (of(rows=X[:0], y=Y[:0], data="holdout"), InputError, "y is empty"),
    # Targets.
    "target too short": (of(y=Y[:-1]), InputError, "X has 569 rows and y has 568"),
    "rows too few for the target": (of(rows=X[:-1], data="holdout"), InputError, r"568.*569|569.*568"),
    "unknown labels": (of(y=np.where(ONES, 2, Y)), InputError, "does not have"),
    "missing label": (of(y=np.where(np.arange(N) == 0, np.nan, Y)), InputError, "y holds 1 missing"),
    "missing value": (
        of(trained(RandomForestRegressor(20, random_state=0)), y=np.where(np.arange(N) == 0, np.nan, Y)),
        InputError, "y holds 1 missing",
    ),
    "one label held out": (of(rows=X[ONES], y=Y[ONES], data="holdout"), InputError, "single label"),
    "one label": (
        of(trained(RandomForestClassifier(10, random_state=0), X[ONES], Y[ONES]), X[ONES], Y[ONES]),
        InputError, "single label",
    ),
    # Weights; with that of one row, the size came out as 1400 with an interval of 1399 to 1401.
    "weights too few": (of(sample_weight=np.ones(3)), InputError, "sample_weight"),
    "weight of one row": (
        of(sample_weight=np.where(np.arange(N) == 7, 1e9, 1.0)), InputError, "One row has 100 % of sample_weight"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refusal(case: str) -> None:
    act, kind, words = CASES[case]
    with pytest.raises(kind, match=words) as caught:
        act()
    assert REMEDY.search(str(caught.value)), str(caught.value)


@pytest.mark.fast_cases("bagged neighbours", "regression")
@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (RandomForestClassifier(100, random_state=0), CANCER),
        (ExtraTreesClassifier(100, bootstrap=True, random_state=0), CANCER),
        (RandomForestRegressor(60, random_state=0), DIABETES),
        (BaggingClassifier(n_estimators=100, max_features=0.5, random_state=0), CANCER),
        (BaggingRegressor(KNeighborsRegressor(1), 60, random_state=0), DIABETES),
        (make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0)), CANCER),
    ],
    ids=["forest", "extra trees", "regression", "bagged trees", "bagged neighbours", "pipeline"],
)
def test_training_rows_in_another_order_are_not_held_out(model: Any, problem: Any) -> None:
    X, y = problem
    order = np.random.default_rng(0).permutation(len(y))
    trained, fresh = order[:300], order[300:]
    model = clone(model).fit(X[trained], y[trained])
    for rows in (trained[::-1], np.sort(trained)[:200]):
        with pytest.raises(DataMismatchError, match="rows the model was trained on"):
            analyze(model, X[rows], y[rows], data="holdout")
    assert analyze(model, X[fresh], y[fresh], data="holdout").data == "holdout"


def test_too_few_trees_and_members_without_bags_take_held_out_rows() -> None:
    stumps = RandomForestClassifier(2, max_depth=1, random_state=0).fit(*CANCER)
    assert analyze(stumps, X, Y, data="holdout").data == "holdout"
    assert analyze(fitted(bootstrap=False), X[::2], Y[::2], data="holdout").data == "holdout"


def test_rows_that_nothing_can_check_come_with_a_warning() -> None:
    neighbours = BaggingClassifier(KNeighborsClassifier(1), 20, random_state=0)
    (warning,) = analyze(neighbours.fit(X, Y), X, Y).warnings
    assert "training rows in training order" in warning
    checked = BaggingClassifier(KNeighborsClassifier(1), 20, oob_score=True, random_state=0).fit(X, Y)
    assert analyze(checked, X, Y).warnings == ()
    held_out = analyze(neighbours, X[::2], Y[::2], data="holdout").warnings
    assert any("whether its members were trained on these rows" in text for text in held_out)


@pytest.mark.slow
def test_stored_outputs_of_an_earlier_fit_are_not_believed() -> None:
    forest = RandomForestClassifier(40, oob_score=True, random_state=0).fit(X, Y)
    forest.set_params(oob_score=False, random_state=1).fit(X, Y)
    assert analyze(forest, X, Y).error == analyze(fitted(n_estimators=40, random_state=1), X, Y).error
