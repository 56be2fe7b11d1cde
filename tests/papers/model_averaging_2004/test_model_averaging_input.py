"""Weights, containers, base classifiers and wrong input of bootstrap model averaging."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin.errors import EnsPluginError, InputError, NotFittedError, UnsupportedModelError
from tests.extras import SKLEARN_RELEASE
from tests.papers.model_averaging_2004.cases import Array, averaged, counts, iris


@pytest.mark.slow
def test_weights_are_chances() -> None:
    X, y = iris()
    weight = np.where(y == 2, 3.0, 1.0)
    expected = np.bincount(y, weights=weight) / weight.sum()
    shares = [one.class_prior_ for one in averaged(n_estimators=200).fit(X, y, weight).estimators_]
    np.testing.assert_allclose(np.mean(shares, axis=0), expected, atol=0.01)
    drawn = averaged(n_estimators=200, bootstrap="parametric").fit(X, y, weight)
    np.testing.assert_allclose(drawn.single_model_.class_prior_, expected)
    shares = [one.class_prior_ for one in drawn.estimators_]
    np.testing.assert_allclose(np.mean(shares, axis=0), expected, atol=0.01)
    np.testing.assert_allclose(drawn.class_prior_, expected)


@pytest.mark.parametrize("bootstrap", ["rows", "parametric"])
def test_rows_of_weight_zero_are_as_if_left_out(bootstrap: str) -> None:
    X, y = iris()
    weight = np.arange(len(y)) % 3
    kept = weight > 0
    one = averaged(bootstrap=bootstrap).fit(X, y, weight)
    other = averaged(bootstrap=bootstrap).fit(X[kept], y[kept], weight[kept])
    np.testing.assert_array_equal(one.predict_joint_log_proba(X), other.predict_joint_log_proba(X))
    assert one.n_drawn_rows_ == kept.sum()


def test_equal_weights_change_nothing() -> None:
    X, y = iris()
    one, other = averaged().fit(X, y), averaged().fit(X, y, np.full(len(y), 0.3))
    np.testing.assert_array_equal(one.predict_joint_log_proba(X), other.predict_joint_log_proba(X))


def test_sample_weight_is_routed() -> None:
    X, y = iris(1)
    weight = np.where(y == 2, 5.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = averaged().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"combine": ["joint"]}, cv=3).fit(X, y, sample_weight=weight)
    direct = averaged().fit(X, y, weight)
    np.testing.assert_array_equal(search.predict_proba(X), direct.predict_proba(X))


@pytest.mark.slow
def test_a_scikit_learn_citizen() -> None:
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = averaged(GaussianNB()).fit(X, y)
    assert model.feature_names_in_.tolist() == list(X)
    assert model.n_features_in_ == 4
    with pytest.raises(InputError, match="feature names"):
        model.predict(X.rename(columns=str.upper))
    assert "BootstrapModelAveragingClassifier" in model._repr_html_()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    search = GridSearchCV(model, {"estimator__var_smoothing": [1e-9, 0.1], "bootstrap": ["rows", "parametric"]}, cv=3)
    assert search.fit(X, y).best_score_ > 0.9
    assert cross_val_score(averaged(), X, y, cv=3).mean() > 0.9
    pipeline = make_pipeline(StandardScaler(), averaged()).set_output(transform="pandas").fit(X, y)
    assert pipeline[-1].feature_names_in_.tolist() == list(X)
    assert pipeline.score(X, y) > 0.9


def test_inputs_are_left_alone() -> None:
    X, y = iris()
    base, weight = GaussianNB(), np.arange(1.0, len(y) + 1)
    copies = X.copy(), y.copy(), weight.copy()
    averaged(base).fit(X, y, weight).predict(X)
    for now, before in zip((X, y, weight), copies, strict=True):
        np.testing.assert_array_equal(now, before)
    assert not hasattr(base, "classes_")


@pytest.mark.parametrize("bootstrap", ["rows", "parametric"])
@pytest.mark.parametrize("base", [MultinomialNB(), BernoulliNB()], ids=str)
def test_sparse_rows_give_what_dense_rows_give(base: Any, bootstrap: str) -> None:
    X, y = counts()
    dense = averaged(base, bootstrap=bootstrap).fit(X, y)
    thin = averaged(base, bootstrap=bootstrap).fit(sparse.coo_matrix(X), y)
    np.testing.assert_allclose(
        thin.predict_joint_log_proba(sparse.csc_matrix(X)), dense.predict_joint_log_proba(X), rtol=1e-10
    )


def test_categories_missing_from_a_sample_stay_categories() -> None:
    X, y = counts(80)
    X[3, 0] = 9
    model = averaged(CategoricalNB(), n_estimators=20).fit(X, y)
    assert any(one.category_count_[0].sum(axis=0)[9] == 0 for one in model.estimators_)
    assert np.isfinite(model.predict_joint_log_proba(X)).all()


def test_loads_from_mlflow(tmp_path: Any) -> None:
    mlflow_sklearn = pytest.importorskip("mlflow.sklearn")
    X, y = iris()
    model = averaged().fit(X, y)
    mlflow_sklearn.save_model(model, tmp_path / "model", serialization_format="cloudpickle", pip_requirements=[])
    again = mlflow_sklearn.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_analysis_says_why_it_refuses() -> None:
    X, y = iris()
    with pytest.raises(UnsupportedModelError, match=r"joint probabilities.*settled_rows"):
        ens_plugin.analyze(averaged().fit(X, y), X, y)


class NormalLabels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The least a base needs: one normal feature, missing values allowed, and rows of its own."""

    def fit(self, X: Array, y: Array) -> NormalLabels:
        self.classes_ = np.unique(y)
        self.mean_ = np.array([np.nanmean(X[y == label]) for label in self.classes_])
        return self

    def predict_joint_log_proba(self, X: Array) -> Array:
        scores = norm.logpdf(X, self.mean_) - np.log(len(self.classes_))
        return np.where(np.isnan(X), -np.log(len(self.classes_)), scores)

    def sample(self, n_samples: int, random_state: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(random_state)
        codes = rng.integers(len(self.classes_), size=n_samples)
        return rng.normal(self.mean_[codes])[:, None], self.classes_[codes]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@pytest.mark.parametrize("bootstrap", ["rows", "parametric"])
def test_a_base_of_ones_own_and_missing_values(bootstrap: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = rng.normal(2.0 * y)[:, None]
    X[::10] = np.nan
    model = averaged(NormalLabels(), bootstrap=bootstrap).fit(X, y)
    assert model.score(X, y) > 0.75
    means = np.array([one.mean_ for one in model.estimators_])
    assert np.all(np.ptp(means, axis=0) > 0)
    np.testing.assert_allclose(means.mean(axis=0), model.single_model_.mean_, atol=0.15)
    if SKLEARN_RELEASE >= (1, 6):
        assert model.__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize(
    ("base", "parameters", "words"),
    [
        (LogisticRegression(), {}, "no predict_joint_log_proba"),
        (make_pipeline(StandardScaler(), GaussianNB()), {}, "put a preprocessing Pipeline around"),
        (ComplementNB(), {}, r"no joint probabilities.*MultinomialNB"),
        (ComplementNB(), {"bootstrap": "parametric"}, "no generative model"),
        (GaussianNB, {}, "must be an instance"),
        ("naive", {}, "no fit and no predict_joint_log_proba"),
    ],
    ids=str,
)
def test_bases_that_cannot_be_averaged(base: Any, parameters: dict[str, Any], words: str) -> None:
    model = averaged(base, **parameters)
    with pytest.raises(UnsupportedModelError, match=words):
        model.fit(*iris())
    assert not [name for name in vars(model) if name.endswith("_")]


def test_bases_that_cannot_draw_rows() -> None:
    class Drawless(NormalLabels):
        sample = property(lambda self: (_ for _ in ()).throw(AttributeError()))

    with pytest.raises(UnsupportedModelError, match=r"no method sample\(n_samples, random_state\)"):
        averaged(Drawless(), bootstrap="parametric").fit(np.ones((4, 1)), [0, 1, 0, 1])
    with pytest.raises(UnsupportedModelError, match="takes no sample_weight"):
        averaged(NormalLabels(), bootstrap="parametric").fit(np.eye(4)[:, :1], [0, 1, 0, 1], [1, 2, 3, 4])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_estimators": 0}, "n_estimators must be a whole number"),
        ({"n_estimators": 2.5}, "n_estimators must be a whole number"),
        ({"n_estimators": "many"}, "'auto'"),
        ({"max_n_estimators": 2}, "max_n_estimators"),
        ({"share": 1.0}, "share"),
        ({"delta": 0.0}, "delta"),
        ({"n_estimators": 10**30}, "n_estimators must be a whole number of at most 1000000"),
        ({"max_n_estimators": 10**30}, "max_n_estimators must be a whole number of at most 1000000"),
        ({"bootstrap": "blocks"}, "bootstrap must be 'rows' or 'parametric'"),
        ({"combine": "vote"}, "combine must be 'joint' or 'conditional'"),
        ({"combine": np.array(["joint", "joint"])}, "combine must be 'joint' or 'conditional'"),
        ({"n_jobs": 0}, "n_jobs must be a whole number other than 0"),
        ({"n_jobs": np.inf}, "n_jobs must be a whole number other than 0"),
        ({"random_state": "seed"}, "seed"),
        ({"y": np.zeros(50)}, "one class only"),
        ({"y": np.linspace(0, 1, 50)}, "continuous"),
        ({"y": np.arange(49) % 2}, "inconsistent numbers of samples"),
        ({"y": np.where(np.arange(50) == 3, np.nan, np.arange(50) % 2)}, "NaN"),
        ({"X": np.full((50, 2), np.nan)}, "NaN"),
        ({"X": np.ones(50)}, "2D"),
        ({"sample_weight": np.zeros(50)}, "sample_weight is zero"),
        ({"sample_weight": np.full(50, -1.0)}, "sample_weight"),
        ({"sample_weight": (np.arange(50) // 3 % 3 == 0).astype(float)}, "one class only"),
        ({"estimator": MultinomialNB(), "X": -np.ones((50, 2))}, "Negative values"),
        ({"estimator": MultinomialNB(), "X": np.full((50, 2), 0.5), "bootstrap": "parametric"}, "whole counts"),
        ({"estimator": GaussianNB(var_smoothing=0), "X": np.ones((50, 2))}, "zero variance"),
        (
            {"estimator": GaussianNB(priors=[0.2, 0.2, 0.6]), "n_estimators": 40, "y": np.r_[9, np.arange(49) % 2]},
            r"without rows of \[9\]",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_wrong_input_is_named_and_leaves_the_estimator_as_it_was(change: dict[str, Any], words: str) -> None:
    X, y = iris()
    model = averaged().fit(X, y)
    before = pickle.dumps(model)
    data = {"X": X, "y": np.arange(50) // 3 % 3, "sample_weight": None} | change
    parameters = {name: data.pop(name) for name in list(data) if name not in ("X", "y", "sample_weight")}
    model.set_params(**parameters)
    with pytest.raises(InputError, match=words):
        model.fit(**data)
    unset = {name: getattr(averaged(), name) for name in parameters}
    assert pickle.dumps(model.set_params(**unset)) == before
    fresh = averaged(**parameters)
    with pytest.raises(InputError):
        fresh.fit(**data)
    assert not [name for name in vars(fresh) if name.endswith("_")]


def test_wrong_rows_to_predict() -> None:
    X, y = iris()
    model = averaged()
    for call in (model.predict, model.predict_proba, model.predict_joint_log_proba, model.settled_rows):
        with pytest.raises(NotFittedError, match="not fitted"):
            call(X)
    for call in (model.score_regions, model.models_to_settle):
        with pytest.raises(NotFittedError, match="not fitted"):
            call(X)
    with pytest.raises(NotFittedError, match="not fitted"):
        model.parameter_bounds("theta_")
    with pytest.raises(NotFittedError, match="not fitted"):
        model.score(X, y)
    model.fit(X, y)
    for bad, words in ((X[:, :2], "2 features"), (np.full((2, 4), np.nan), "NaN"), (X[0], "2D")):
        with pytest.raises(InputError, match=words):
            model.predict(bad)
    known = model.score(X, y, sample_weight=(y != 2).astype(float))
    assert model.score(X, np.where(y == 2, 8, y)) == pytest.approx(known * np.mean(y != 2))
    with pytest.raises(InputError, match=r"training rows did not have: \[8\]"):
        model.score(X[y == 2], np.full(np.sum(y == 2), 8))
    with pytest.raises(InputError, match="missing"):
        model.score(X, np.where(y == 2, np.nan, y))
    with pytest.raises(EnsPluginError, match="training rows did not"):
        model.score(X, np.array(["a"] * len(y)))
    assert model.score(pd.DataFrame(X).to_numpy(), y.tolist()) > 0.9


def test_categories_never_seen() -> None:
    X, y = counts()
    model = averaged(CategoricalNB()).fit(X, y)
    with pytest.raises(InputError, match="categories"):
        model.predict(X + 40)
