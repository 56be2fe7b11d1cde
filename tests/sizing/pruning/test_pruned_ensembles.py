"""Ensembles and options that dynamic pruning takes or refuses, and models with it that are stored, searched and cut."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import ens_plugin
from ens_plugin import DynamicPruningClassifier
from ens_plugin.adapters.sklearn import SklearnForestAdapter
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from tests.sizing.pruning.cases import ALMOST_SURE, ensemble, frozen, rows_of, twonorm


def test_an_ensemble_in_a_pipeline_or_a_search() -> None:
    data = load_breast_cancer(as_frame=True)
    X, y = data.data, data.target.map({0: "bad", 1: "good"})
    pipeline = make_pipeline(
        StandardScaler().set_output(transform="pandas"), RandomForestClassifier(51, random_state=0)
    )
    pruned = DynamicPruningClassifier(pipeline, confidence=ALMOST_SURE).fit(X, y)
    np.testing.assert_array_equal(pruned.predict(X), pruned.estimator_.predict(X))
    np.testing.assert_array_equal(pruned.feature_names_in_, X.columns)
    search = GridSearchCV(RandomForestClassifier(31, random_state=0), {"max_depth": [2, 3]}, cv=2)
    found = DynamicPruningClassifier(search, confidence=ALMOST_SURE).fit(X, y)
    np.testing.assert_array_equal(found.predict(X), found.estimator_.predict(X))
    behind_scaler = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        DynamicPruningClassifier(RandomForestClassifier(31, random_state=0)),
    ).fit(X, y)
    assert behind_scaler.score(X, y) > 0.95


def test_sparse_rows() -> None:
    X, y, fresh = rows_of(10)
    pruned = DynamicPruningClassifier(RandomForestClassifier(31, random_state=0)).fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(pruned.predict(sparse.csr_matrix(fresh)), pruned.predict(fresh))


def test_missing_values_are_the_ensemble_s_matter() -> None:
    X, y = twonorm(300)
    X[::7, 3] = np.nan
    pruned = DynamicPruningClassifier(RandomForestClassifier(31, random_state=0)).fit(X, y)
    assert pruned.predict(X[:7]).shape == (7,)
    with pytest.raises(ValueError, match="NaN"):
        DynamicPruningClassifier(BaggingClassifier(RidgeClassifier(), n_estimators=11)).fit(X, y)
    whole = DynamicPruningClassifier(BaggingClassifier(RidgeClassifier(), n_estimators=11)).fit(*twonorm(300))
    with pytest.raises(InputError, match="NaN"):
        whole.predict(X)


@pytest.mark.fast_cases("xgboost", "lightgbm")
@pytest.mark.parametrize("kind", ["forest", "lightgbm", "xgboost"])
def test_pickled_and_cloned(kind: str) -> None:
    X, y, fresh = rows_of(2)
    pruned = DynamicPruningClassifier(ensemble(kind), confidence=0.95).fit(X, y)
    back = pickle.loads(pickle.dumps(pruned))
    np.testing.assert_array_equal(back.predict(fresh), pruned.predict(fresh))
    assert back.expected_queries_ == pruned.expected_queries_
    again = clone(pruned)
    assert not hasattr(again, "estimator_")
    assert again.confidence == 0.95
    np.testing.assert_array_equal(again.fit(X, y).predict(fresh), pruned.predict(fresh))


def test_its_page_names_the_ensemble() -> None:
    html = estimator_html_repr(DynamicPruningClassifier(RandomForestClassifier(11)))
    assert "DynamicPruningClassifier" in html
    assert "RandomForestClassifier" in html


@pytest.mark.slow
def test_searched_over_confidence() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    pruned = DynamicPruningClassifier(RandomForestClassifier(51, random_state=0))
    search = GridSearchCV(pruned, {"confidence": [0.8, 0.999], "estimator__max_depth": [None]}, cv=2).fit(X, y)
    queries = [pruned.set_params(confidence=c).fit(X, y).expected_queries_ for c in (0.8, 0.999)]
    assert queries[0] < queries[1]
    assert search.best_score_ > 0.9


def test_weights_reach_the_ensemble() -> None:
    X, y = twonorm(200)
    weight = np.where(np.arange(200) < 100, 1.0, 0.0)
    forest = RandomForestClassifier(31, random_state=0)
    pruned = DynamicPruningClassifier(forest).fit(X, y, sample_weight=weight)
    expected = clone(forest).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(pruned.estimator_.predict_proba(X), expected.predict_proba(X))
    with sklearn.config_context(enable_metadata_routing=True):
        routed = DynamicPruningClassifier(clone(forest).set_fit_request(sample_weight=True))
        routed.fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(routed.estimator_.predict_proba(X), expected.predict_proba(X))
        scores = cross_val_score(routed, X, y, cv=2, params={"sample_weight": np.ones(200)})
        assert (scores > 0.8).all()
        with pytest.raises(ValueError, match="sample_weight"):
            DynamicPruningClassifier(forest).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "half"}, "rule must be one of full, infinite, learned, certified, got 'half'"),
        ({"data": "train"}, "data must be 'oob' or 'holdout', got 'train'"),
        ({"rule": np.array(["full", "learned"])}, "rule must be one of"),
        ({"data": ["oob"]}, "data must be 'oob' or 'holdout'"),
        ({"confidence": 0.5}, "confidence must lie strictly between 0.5 and 1"),
        ({"confidence": 1.0}, "confidence must lie strictly between 0.5 and 1"),
        ({"confidence": "high"}, "confidence must lie strictly between 0.5 and 1"),
        ({"data": "holdout"}, "Pass a fitted ensemble as sklearn.frozen.FrozenEstimator"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    pruned = DynamicPruningClassifier(RandomForestClassifier(11), **options)
    with pytest.raises(InputError, match=message):
        pruned.fit(*twonorm(50))
    assert not hasattr(pruned, "estimator_")


@pytest.mark.parametrize(
    ("base", "error", "message"),
    [
        (RandomForestRegressor(5), UnsupportedModelError, "is a regressor"),
        (LogisticRegression(), UnsupportedModelError, "No adapter accepts"),
        (RandomForestClassifier, UnsupportedModelError, r"is the class RandomForestClassifier; .*Classifier\(\)"),
        (object, UnsupportedModelError, "is of type type without fit"),
        (None, UnsupportedModelError, "is of type NoneType without fit and get_params"),
        ([RandomForestClassifier()], UnsupportedModelError, "is of type list without fit"),
        (GradientBoostingClassifier(n_estimators=5), UnsupportedModelError, "Members of boosting correct one another"),
        (
            RandomForestClassifier(5, bootstrap=False),
            BagError,
            "has no bootstrap.* rule='full'",
        ),
        (RandomForestClassifier(1, random_state=0), TooFewMembersError, r"No row .* two members \(of 1\)"),
    ],
)
def test_wrong_bases(base: Any, error: Any, message: str) -> None:
    pruned = DynamicPruningClassifier(base)
    with pytest.raises(error, match=message):
        pruned.fit(*twonorm(50))
    assert not hasattr(pruned, "estimator_")
    with pytest.raises(NotFittedError, match="call its fit"):
        pruned.predict(twonorm(5)[0])


def boosters() -> list[Any]:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    return [
        lightgbm.LGBMClassifier(n_jobs=1, verbose=-1),
        xgboost.XGBClassifier(n_jobs=1),
        xgboost.XGBClassifier(n_estimators=2),
    ]


def refuse_to_train(*args: Any, **options: Any) -> None:
    pytest.fail("It was trained before it was refused.")


def test_what_cannot_be_pruned_is_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = ExtraTreesClassifier(5, bootstrap=False)
    for base in (LogisticRegression(), GradientBoostingClassifier(), forest, *boosters()):
        monkeypatch.setattr(type(base), "fit", refuse_to_train)
        for candidate in (base, make_pipeline(StandardScaler(), base)):
            with pytest.raises((UnsupportedModelError, BagError)):
                DynamicPruningClassifier(candidate).fit(*twonorm(50))


def test_what_only_training_can_tell_is_trained() -> None:
    X, y = twonorm(200)
    without_bootstrap = BaggingClassifier(n_estimators=21, bootstrap=False, max_samples=0.5, random_state=0)
    searched = GridSearchCV(GradientBoostingClassifier(), {"n_estimators": [2]}, cv=2)
    assert DynamicPruningClassifier(without_bootstrap).fit(X, y).n_members_ == 21
    with pytest.raises(UnsupportedModelError, match="Members of boosting"):
        DynamicPruningClassifier(searched).fit(X, y)


@pytest.mark.usefixtures("registered_adapters")
def test_an_adapter_of_the_user_s_decides_for_itself() -> None:
    class Trusting(SklearnForestAdapter):
        @classmethod
        def accepts(cls, model: object) -> bool:
            return type(model) in map(type, boosters())

        def __init__(self, model: Any) -> None:
            raise InputError("refused once it is trained")

    ens_plugin.register_adapter(Trusting)
    for booster in boosters():
        with pytest.raises(InputError, match="refused once it is trained"):
            DynamicPruningClassifier(booster).fit(*twonorm(50))


def test_a_frozen_ensemble_is_used_as_it_is() -> None:
    X, y, fresh = rows_of(2)
    forest = RandomForestClassifier(51, random_state=0).fit(X, y)
    pruned = DynamicPruningClassifier(frozen(forest)).fit(X, y)
    assert pruned.estimator_ is forest
    np.testing.assert_array_equal(
        pruned.predict(fresh), DynamicPruningClassifier(clone(forest)).fit(X, y).predict(fresh)
    )
    with pytest.raises(NotFittedError, match="RandomForestClassifier has not been fitted"):
        DynamicPruningClassifier(frozen(RandomForestClassifier(5))).fit(X, y)


def test_wrong_rows_of_a_frozen_ensemble() -> None:
    X, y = twonorm(200)
    base = frozen(RandomForestClassifier(31, random_state=0).fit(X, y))
    with pytest.raises(DataMismatchError, match="training rows in training order"):
        DynamicPruningClassifier(base).fit(X[::-1], y[::-1])
    with pytest.raises(DataMismatchError, match="rows the ensemble was trained on"):
        DynamicPruningClassifier(base, data="holdout").fit(X, y)
    with pytest.raises(InputError, match="labels that the ensemble does not have: \\[2\\]"):
        DynamicPruningClassifier(base, data="holdout").fit(*twonorm(50, 1)[:1], np.arange(50) % 3)
    values = frozen(RandomForestRegressor(5, random_state=0).fit(X, y))
    with pytest.raises(UnsupportedModelError, match="regressor"):
        DynamicPruningClassifier(values).fit(X, y)


def test_one_class() -> None:
    X, _ = twonorm(50)
    with pytest.raises(InputError, match="one class only, 'a'"):
        DynamicPruningClassifier(RandomForestClassifier(11, random_state=0)).fit(X, np.full(50, "a"))


def test_wrong_columns_at_prediction() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    pruned = DynamicPruningClassifier(RandomForestClassifier(11, random_state=0)).fit(X, y)
    with pytest.raises(DataMismatchError, match="feature names"):
        pruned.predict(X.rename(columns={X.columns[0]: "other"}))
    with pytest.raises(DataMismatchError, match="X has 3 features"):
        clone(pruned).fit(X.to_numpy(), y).predict(X.to_numpy()[:, :3])
    with pytest.raises(InputError, match="X cannot be used"):
        pruned.predict(pd.DataFrame({name: ["a"] for name in X.columns}))


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_one_row_of_other_columns_is_refused(kind: str) -> None:
    X, y = twonorm(400)
    pruned = DynamicPruningClassifier(ensemble(kind)).fit(X, y)
    for wrong in (X[:1, 1:], X[0], X[:1].tolist()[0]):
        with pytest.raises((DataMismatchError, ValueError)):
            pruned.predict(wrong)
    assert pruned.predict(X[:1].tolist()).shape == (1,)


def test_a_failed_fit_leaves_the_fit_before() -> None:
    X, y = twonorm(200)
    pruned = DynamicPruningClassifier(RandomForestClassifier(31, random_state=0)).fit(X, y)
    before = pruned.predict(X)
    with pytest.raises(InputError):
        pruned.set_params(rule="none").fit(X, y)
    np.testing.assert_array_equal(pruned.predict(X), before)


def test_logged_to_mlflow_and_loaded(tmp_path: Path) -> None:
    X, y, fresh = rows_of(2)
    pruned = DynamicPruningClassifier(RandomForestClassifier(51, random_state=0)).fit(X, y)
    path = str(tmp_path / "model")
    mlflow.sklearn.save_model(pruned, path, serialization_format="cloudpickle", pip_requirements=["scikit-learn"])
    as_function = mlflow.pyfunc.load_model(path)
    np.testing.assert_array_equal(as_function.predict(fresh), pruned.predict(fresh))
    back = mlflow.sklearn.load_model(path)
    np.testing.assert_array_equal(back.count_queries(fresh), pruned.count_queries(fresh))


def test_analyze_and_truncate_find_the_ensemble() -> None:
    X, y = twonorm(200)
    pruned = DynamicPruningClassifier(RandomForestClassifier(31, random_state=0)).fit(X, y)
    with pytest.raises(NotFittedError, match="DynamicPruningClassifier has not been fitted"):
        ens_plugin.analyze(clone(pruned), X, y)
    assert ens_plugin.analyze(pruned, X, y).error == ens_plugin.analyze(pruned.estimator_, X, y).error
    small = ens_plugin.truncate(make_pipeline(StandardScaler(), pruned).fit(X, y), 11)[-1]
    assert isinstance(small, RandomForestClassifier)
    assert len(small.estimators_) == 11
    assert len(pruned.estimator_.estimators_) == 31


def test_a_truncated_ensemble_can_be_pruned() -> None:
    X, y = twonorm(200)
    pruned = DynamicPruningClassifier(RandomForestClassifier(31, random_state=0)).fit(X, y)
    assert DynamicPruningClassifier(frozen(ens_plugin.truncate(pruned, 11))).fit(X, y).n_members_ == 11
