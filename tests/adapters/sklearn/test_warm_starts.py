"""Members that a warm start added after parameters had changed: doubted, or refused where their bags are lost."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import BagError

_RNG = np.random.default_rng(2031)
X = _RNG.normal(size=(240, 5))
Y = (X[:, 0] + X[:, 1] + _RNG.normal(size=240) > 0).astype(int)
VALUES = X[:, 0] + _RNG.normal(size=240)
FRESH = _RNG.normal(size=(200, 5))
FRESH_Y = (FRESH[:, 0] > 0).astype(int)


def grown(model: Any, target: Any = Y, **changed: Any) -> Any:
    """Return a model with as many members added, after parameters changed."""
    model.set_params(warm_start=True, n_estimators=20, random_state=5).fit(X, target)
    return model.set_params(n_estimators=40, **changed).fit(X, target)


@pytest.mark.parametrize(
    ("model", "changed"),
    [
        (RandomForestClassifier(), {"max_depth": 2}),
        (RandomForestClassifier(max_features=1), {"max_features": 5}),
        (RandomForestClassifier(), {"min_samples_leaf": 20}),
        (RandomForestClassifier(), {"criterion": "entropy"}),
        (ExtraTreesClassifier(bootstrap=True), {"max_depth": 2}),
        (RandomForestRegressor(), {"min_samples_leaf": 10}),
        (ExtraTreesRegressor(bootstrap=True), {"criterion": "absolute_error"}),
    ],
)
def test_trees_of_other_parameters_put_the_doubt_into_the_headline(model: Any, changed: dict[str, Any]) -> None:
    target = Y if hasattr(model, "predict_proba") else VALUES
    report = ens_plugin.analyze(grown(model, target, **changed), X, target)
    assert any(f"{next(iter(changed))} was" in doubt for doubt in report.basis.doubts)
    assert not report.is_actionable
    assert "Do not use these figures. Members were trained with unequal parameters" in " ".join(
        report.summary().split()
    )


@pytest.mark.parametrize(
    ("model", "changed", "named"),
    [
        (BaggingClassifier(DecisionTreeClassifier()), {"estimator__max_depth": 1}, "max_depth"),
        (BaggingRegressor(), {"max_features": 0.6}, "the number of columns was 5 for 20 and 3 for 20"),
        (BaggingClassifier(KNeighborsClassifier(9)), {"estimator__n_neighbors": 1}, "n_neighbors was 9"),
        (RandomForestClassifier(), {"max_features": None}, "max_features was 'sqrt' for 20 and None for 20"),
    ],
)
def test_held_out_rows_are_doubted_likewise(model: Any, changed: dict[str, Any], named: str) -> None:
    target = Y if hasattr(model, "predict_proba") else VALUES
    fresh = FRESH_Y if hasattr(model, "predict_proba") else FRESH[:, 0]
    report = ens_plugin.analyze(grown(model, target, **changed), FRESH, fresh, data="holdout")
    assert [doubt for doubt in report.basis.doubts if named in doubt]


needs_counts = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="trees tell how many rows they drew from scikit-learn 1.9 on",
)


@needs_counts
@pytest.mark.parametrize(
    ("model", "first", "then"),
    [
        (RandomForestClassifier(), 0.3, 1.0),
        (RandomForestClassifier(), None, 0.5),
        (RandomForestRegressor(), 0.3, None),
        (ExtraTreesClassifier(bootstrap=True), 100, 50),
    ],
)
def test_another_max_samples_is_named_where_it_is_found(model: Any, first: Any, then: Any) -> None:
    """Nothing was wrong with the rows, which the earlier refusal blamed; the regressor was not refused at all."""
    target = Y if hasattr(model, "predict_proba") else VALUES
    forest = grown(model.set_params(max_samples=first), target, max_samples=then)
    with pytest.raises(BagError, match=r"20 of 40 trees .* drew another number of rows .* max_samples"):
        ens_plugin.analyze(forest, X, target)
    fresh = FRESH_Y if hasattr(model, "predict_proba") else FRESH[:, 0]
    report = ens_plugin.analyze(forest, FRESH, fresh, data="holdout")
    assert any("the number of rows was" in doubt for doubt in report.basis.doubts)


def test_trees_added_to_an_isolation_forest_have_lost_their_seeds() -> None:
    """Their number was not compared with that of the seeds, and an IndexError came out."""
    forest = grown(IsolationForest(max_samples=64), None)
    with pytest.raises(BagError, match="40 members, but scikit-learn kept the seeds of the last 20 only"):
        ens_plugin.analyze(forest, X, np.where(Y == 1, 1, -1))
    assert find_adapter(forest).doubts() == ()
    (doubt,) = find_adapter(grown(IsolationForest(max_samples=64), None, max_samples=32)).doubts()
    text = str(doubt)
    assert "max_depth was 6 for 20 and 5 for 20" in text


def changed_later() -> Any:
    return RandomForestClassifier(30, random_state=0).fit(X, Y).set_params(max_depth=2, max_features=None)


def stored_earlier() -> Any:
    """Return a forest some of whose trees lack a parameter, and have numbers of NumPy that are equal to Python's."""
    forest = RandomForestClassifier(20, random_state=0).fit(X, Y)
    for tree in forest.estimators_:
        vars(tree).pop("monotonic_cst")
    for tree in forest.estimators_[:7]:
        tree.min_samples_leaf = np.int64(1)
    return forest


TRAINED_ALIKE: dict[str, Callable[[], Any]] = {
    "grown": lambda: grown(RandomForestClassifier()),
    "balanced": lambda: RandomForestClassifier(30, class_weight="balanced_subsample", random_state=0).fit(X, Y),
    "label weights": lambda: RandomForestClassifier(30, class_weight={0: 1, 1: 5}, random_state=0).fit(X, Y),
    "row weights": lambda: RandomForestClassifier(30, random_state=0).fit(X, Y, sample_weight=1 + (X[:, 0] > 0)),
    "small samples": lambda: RandomForestRegressor(30, max_samples=0.4, random_state=0).fit(X, VALUES),
    "parameters changed later": changed_later,
    "clone": lambda: clone(changed_later()).fit(X, Y),
    "copy": lambda: pickle.loads(pickle.dumps(changed_later())),
    "stored earlier": stored_earlier,
    "pipeline": lambda: make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0)).fit(X, Y),
    "search": lambda: GridSearchCV(RandomForestClassifier(20, random_state=0), {"max_depth": [1, 9]}, cv=2).fit(X, Y),
    "bagged weights": lambda: BaggingClassifier(DecisionTreeClassifier(class_weight="balanced"), 20).fit(X, Y),
    "bagged pipelines": lambda: BaggingClassifier(make_pipeline(StandardScaler(), KNeighborsClassifier())).fit(X, Y),
    "columns": lambda: BaggingRegressor(n_estimators=20, max_features=0.5, bootstrap_features=True).fit(X, VALUES),
}


@pytest.mark.parametrize("name", TRAINED_ALIKE)
def test_members_that_were_trained_alike_are_not_doubted(name: str) -> None:
    model = TRAINED_ALIKE[name]()
    report = ens_plugin.analyze(model, X, VALUES if "Regressor" in type(model).__name__ else Y)
    assert not any("trained alike" in doubt for doubt in report.basis.doubts)


def test_outputs_have_the_doubt_in_common() -> None:
    target = np.stack([VALUES, X[:, 2]], axis=1)
    report = ens_plugin.analyze(grown(RandomForestRegressor(), target, max_depth=2), X, target)
    assert sum("max_depth was None for 20 and 2 for 20" in doubt for doubt in report.basis.doubts) == 1


@pytest.mark.filterwarnings("ignore:class_weight presets:UserWarning")
@pytest.mark.parametrize("first", [{0: 1, 1: 4}, "balanced_subsample", None])
def test_trees_of_other_label_weights_are_doubted(first: Any) -> None:
    """No tree keeps its class_weight: the shares of the labels in its bag show it."""
    rare = (np.arange(240) % 5 == 0).astype(int)
    fresh = (np.arange(200) % 5 == 0).astype(int)
    forest = grown(
        RandomForestClassifier(class_weight=first), rare, class_weight={0: 1, 1: 8} if first is None else None
    )
    found = ens_plugin.analyze(forest, FRESH, fresh, data="holdout").basis.doubts
    assert any("the bags of the first 20 have a mean target" in doubt for doubt in found)
    alike = grown(RandomForestClassifier(class_weight=first), rare)
    assert find_adapter(alike).doubts() == ()


def test_trees_of_other_row_weights_are_doubted() -> None:
    forest = RandomForestRegressor(20, warm_start=True, random_state=5).fit(X, VALUES)
    forest.set_params(n_estimators=60).fit(X, VALUES, sample_weight=np.exp(VALUES))
    (doubt,) = find_adapter(forest).doubts()
    assert "bags of the first 20 have" in str(doubt)
    assert "those of the other 40" in str(doubt)
