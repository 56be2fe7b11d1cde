"""Bootstrap model averaging: the rule, its samples, bounds and regions, growth, input and scikit-learn's contract."""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import gammaln, logsumexp
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin.errors import (
    EnsPluginError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
    WeakEstimateWarning,
)
from ens_plugin.papers import model_averaging_2004 as bootstrap_samples
from ens_plugin.papers.model_averaging_2004 import (
    BootstrapModelAveragingClassifier,
    bounds,
    general_sd_bound,
    grow_until_settled,
    mean_bound,
    model_draw,
    models_by_row,
    models_to_settle,
    published_sd_bound,
    score_regions,
    sd_bound,
    settled_rows,
)
from tests.extras import SKLEARN_RELEASE
from tests.own_checks import own_checks

Array = NDArray[Any]


def iris(step: int = 3) -> tuple[Array, Array]:
    X, y = load_iris(return_X_y=True)
    return X[::step], y[::step]


def counts(n_rows: int = 60, seed: int = 0) -> tuple[Array, Array]:
    """Whole counts from 0 to 4 with a weak signal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    return rng.binomial(4, 0.2 + 0.2 * y[:, None], size=(n_rows, 5)).astype(float), y


def averaged(estimator: Any = None, **parameters: Any) -> BootstrapModelAveragingClassifier:
    return BootstrapModelAveragingClassifier(estimator, **({"n_estimators": 8, "random_state": 0} | parameters))


WEIGHTS_ARE_CHANCES = "weights are chances of being drawn: the samples of repeated rows are other random samples"


EXPECTED_FAILURES = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    WEIGHTS_ARE_CHANCES,
)


@own_checks([averaged()], EXPECTED_FAILURES)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.slow
@own_checks([averaged(combine="conditional"), averaged(BernoulliNB(), bootstrap="parametric")], EXPECTED_FAILURES)
def test_scikit_learns_own_checks_of_other_options(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("bootstrap", ["rows", "parametric"])
@pytest.mark.parametrize(
    "base", [GaussianNB(), BernoulliNB(binarize=2.0), MultinomialNB(), CategoricalNB()], ids=lambda base: str(base)
)
def test_labels_are_those_of_the_summed_joint_probabilities(base: Any, bootstrap: str) -> None:
    X, y = counts()
    model = averaged(base, bootstrap=bootstrap).fit(X, y)
    assert [type(one) for one in model.estimators_] == [type(base)] * 8
    joint = np.stack([one.predict_joint_log_proba(X) for one in model.estimators_])
    total = np.exp(joint).sum(axis=0)
    np.testing.assert_allclose(np.exp(model.predict_joint_log_proba(X)), total / 8, rtol=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), total / total.sum(axis=1, keepdims=True), rtol=1e-10)
    np.testing.assert_array_equal(model.predict(X), model.classes_[total.argmax(axis=1)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_conditional_sum_is_the_mean_of_the_models_probabilities() -> None:
    X, y = iris()
    model = averaged(combine="conditional").fit(X, y)
    mean = np.mean([one.predict_proba(X) for one in model.estimators_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), mean, atol=1e-12)
    joint = clone(model).set_params(combine="joint").fit(X, y)
    np.testing.assert_array_equal(model.predict_joint_log_proba(X), joint.predict_joint_log_proba(X))
    assert np.abs(model.predict_proba(X) - joint.predict_proba(X)).max() > 0.01


def test_samples_are_training_rows_with_replacement() -> None:
    X, y = iris()
    kept: list[tuple[Array, Array]] = []

    class Recorder(GaussianNB):
        def fit(self, X: Array, y: Array, sample_weight: Any = None) -> Any:
            kept.append((X, y))
            return super().fit(X, y, sample_weight)

    averaged(Recorder(), n_estimators=200).fit(X, y)
    whole, *samples = kept
    np.testing.assert_array_equal(whole[0], X)
    shares = []
    for rows, labels in samples:
        assert rows.shape == X.shape
        pairs = set(map(tuple, np.column_stack([rows, labels])))
        assert pairs <= set(map(tuple, np.column_stack([X, y])))
        shares.append(len(pairs) / len(X))
    assert np.mean(shares) == pytest.approx(1 - np.exp(-1), abs=0.02)


def test_a_label_missing_from_a_sample_has_no_probability_there() -> None:
    X, y = iris()
    y = np.where(y == 2, 7, np.where(y == 1, 7, y))
    y[0] = 3
    model = averaged(n_estimators=30).fit(X, y)
    assert model.classes_.tolist() == [0, 3, 7]
    assert 0 < sum(3 not in one.classes_ for one in model.estimators_) < 30
    expected = np.zeros((len(X), 3))
    for one in model.estimators_:
        for label, scores in zip(one.classes_, one.predict_joint_log_proba(X).T, strict=True):
            expected[:, model.classes_.tolist().index(label)] += np.exp(scores)
    np.testing.assert_allclose(np.exp(model.predict_joint_log_proba(X)), expected / 30, rtol=1e-10)
    for combine in ("joint", "conditional"):
        assert np.isfinite(model.set_params(combine=combine).predict_proba(X)).all()


def test_a_row_without_any_probability_gets_the_shares_of_the_labels() -> None:
    X = np.array([[0], [0], [1], [1], [1]])
    y = np.array(["a", "a", "b", "b", "b"])

    class Deaf(CategoricalNB):
        def predict_joint_log_proba(self, X: Array) -> Array:
            return np.where(np.asarray(X) == 2, -np.inf, super().predict_joint_log_proba(X))

    model = averaged(Deaf(min_categories=3)).fit(X, y)
    for combine in ("joint", "conditional"):
        model.set_params(combine=combine)
        np.testing.assert_allclose(model.predict_proba([[2]]), [[0.4, 0.6]])
        assert model.predict([[2]]).tolist() == ["b"]
        assert not model.settled_rows([[2]]).any()
    with pytest.raises(InputError, match="scores are 0 for every label"):
        model.score_regions([[2]])


@pytest.mark.fast_cases("auto-rows-GaussianNB()", "auto-parametric-BernoulliNB(binarize=2.0)")
@pytest.mark.parametrize("base", [GaussianNB(), BernoulliNB(binarize=2.0), MultinomialNB()], ids=str)
@pytest.mark.parametrize("bootstrap", ["rows", "parametric"])
@pytest.mark.parametrize("n_estimators", [9, "auto"])
@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_the_same_to_the_bit_whatever_the_threads(base: Any, bootstrap: str, n_estimators: object) -> None:
    X, y = counts()
    one, other = (
        averaged(base, bootstrap=bootstrap, n_estimators=n_estimators, max_n_estimators=60, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 3)
    )
    np.testing.assert_array_equal(one.predict_joint_log_proba(X), other.predict_joint_log_proba(X))
    assert one.n_estimators_ == other.n_estimators_


def test_auto_stops_at_the_wanted_share() -> None:
    X, y = counts(400)
    model = averaged(BernoulliNB(binarize=2.0), n_estimators="auto", share=0.8, max_n_estimators=3000).fit(X, y)
    assert model.settled_rows(X).mean() >= 0.8
    sizes = [step.size for step in model.history_]
    assert sizes[0] == 25
    assert sizes[-1] == model.n_estimators_ == len(model.estimators_)
    assert len(sizes) > 1
    assert all(a < b <= 2 * a for a, b in pairwise(sizes))
    assert [step.settled < 0.8 for step in model.history_] == [True] * (len(sizes) - 1) + [False]
    assert model.history_[-1].settled == model.settled_rows(X).mean()


def test_auto_says_what_it_would_take() -> None:
    X, y = iris()
    with pytest.warns(WeakEstimateWarning, match=r"about \d+ models would") as caught:
        model = averaged(n_estimators="auto", max_n_estimators=30).fit(X, y)
    assert caught[0].filename == __file__
    assert model.n_estimators_ == 30
    needed = model.models_to_settle(X)
    assert needed is not None
    assert needed > 30
    assert f"about {needed} models" in str(caught[0].message)
    assert f"{100 * model.settled_rows(X).mean():.1f} %" in str(caught[0].message)


@pytest.mark.fast_cases("joint")
@pytest.mark.parametrize("combine", ["joint", "conditional"])
def test_regions_are_those_of_the_core(combine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.papers.model_averaging_2004.BLOCK_ROWS", 50)
    X, y = load_wine(return_X_y=True)
    model = averaged(n_estimators=60, combine=combine).fit(X[::2], y[::2])
    logs = np.stack([one.predict_joint_log_proba(X) for one in model.estimators_])
    if combine == "conditional":
        logs -= logsumexp(logs, axis=2, keepdims=True)
    np.testing.assert_array_equal(model.settled_rows(X, 0.1), settled_rows(logs, 0.1))
    assert 0 < model.settled_rows(X, 0.1).mean() < 1
    assert model.models_to_settle(X, 0.5, 0.1) == models_to_settle(logs, 0.5, 0.1)
    for ours, theirs in zip(model.score_regions(X, 0.1), score_regions(logs, 0.1), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("combine", ["joint", "conditional"])
def test_bounds_are_the_half_widths_of_the_regions(combine: str) -> None:
    X, y = iris()
    model = averaged(combine=combine).fit(X, y)
    found, regions = bounds(model, X, delta=0.2), model.score_regions(X, delta=0.2)
    # Regions are relative to a row's largest term, conditional terms of bounds are probabilities.
    scale = found["mean"].to_numpy().reshape(regions.mean.shape) / regions.mean
    np.testing.assert_allclose(scale, scale[:, :1] * np.ones(3))
    half = (regions.upper - regions.lower) / 2.0
    np.testing.assert_allclose(found["mean_bound"].to_numpy().reshape(half.shape), half * scale, atol=1e-12)
    if combine == "joint":
        np.testing.assert_allclose(scale, 1.0)
    else:
        np.testing.assert_allclose(found["mean"].to_numpy().reshape(half.shape), model.predict_proba(X))


@pytest.mark.slow
def test_no_label_is_settled_while_another_is_missing_from_every_model() -> None:
    """One row of the second label: a third of the samples miss it, and their models are all alike."""
    X = np.zeros((32, 1), dtype=int)
    X[0] = 1
    y = X[:, 0]
    base = CategoricalNB(alpha=0.01)
    assert averaged(base, n_estimators=200).fit(X, y).predict([[1]]).tolist() == [1]
    fits = [averaged(base, n_estimators=3, random_state=seed).fit(X, y) for seed in range(100)]
    missed = [fit for fit in fits if fit.predict([[1]]).tolist() == [0]]
    assert missed
    assert not any(fit.settled_rows([[1]]).any() for fit in missed)
    assert missed[0].models_to_settle([[1]]) is None


def test_too_few_models_for_regions() -> None:
    X, y = iris()
    model = averaged(n_estimators=2).fit(X, y)
    for call in (model.settled_rows, model.score_regions, model.models_to_settle):
        with pytest.raises(TooFewMembersError, match="2 model"):
            call(X)


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


N_ROWS = 20_000


def table() -> tuple[Array, Array]:
    """Counts of 0 to 3 in three columns; three times as many rows of one label as of the other."""
    rng = np.random.default_rng(1)
    y = np.repeat(["no", "yes"], [3 * N_ROWS // 4, N_ROWS // 4])
    return rng.binomial(3, np.where(y == "no", 0.2, 0.6)[:, None], size=(N_ROWS, 3)).astype(float), y


def drawn(model: Any, X: Array, y: Array) -> tuple[Array, Array]:
    rows, labels = model_draw(model.fit(X, y), X, None)(np.random.default_rng(0))
    assert rows.shape == X.shape
    assert np.mean(labels == "yes") == pytest.approx(0.25, abs=0.01)
    return rows, labels


def test_normal_rows() -> None:
    X, y = table()
    X = X * [1.0, 10.0, 0.1]
    model = GaussianNB()
    rows, labels = drawn(model, X, y)
    for code, label in enumerate(("no", "yes")):
        some = rows[labels == label]
        sd = np.sqrt(model.var_[code])
        np.testing.assert_allclose((some.mean(axis=0) - model.theta_[code]) / sd, 0.0, atol=0.05)
        np.testing.assert_allclose(some.std(axis=0) / sd, 1.0, atol=0.05)
        assert np.abs(np.corrcoef(some.T) - np.eye(3)).max() < 0.05


@pytest.mark.parametrize("threshold", [0.0, 1.5, None])
def test_boolean_rows(threshold: float | None) -> None:
    X, y = table()
    model = BernoulliNB(binarize=threshold)
    rows, labels = drawn(model, (X > 0).astype(float) if threshold is None else X, y)
    ones = rows > (threshold or 0.0)
    assert len(np.unique(rows)) == 2
    for code, label in enumerate(("no", "yes")):
        share = np.exp(model.feature_log_prob_[code])
        np.testing.assert_allclose(ones[labels == label].mean(axis=0), share, atol=0.02)


def test_multinomial_rows_have_the_totals_of_training_rows() -> None:
    X, y = table()
    X[:, 1] *= 2
    model = MultinomialNB()
    rows, labels = drawn(model, X, y)
    np.testing.assert_array_equal(rows, np.floor(rows))
    np.testing.assert_allclose(
        np.bincount(rows.sum(axis=1).astype(int)), np.bincount(X.sum(axis=1).astype(int)), atol=250
    )
    for code, label in enumerate(("no", "yes")):
        some = rows[labels == label]
        np.testing.assert_allclose(some.sum(axis=0) / some.sum(), np.exp(model.feature_log_prob_[code]), atol=0.02)


def test_fractions_are_no_counts() -> None:
    X, y = table()
    for rows in (X / 2, sparse.csr_matrix(X / 2)):
        with pytest.raises(InputError, match="whole counts"):
            model_draw(MultinomialNB().fit(rows, y), rows, None)


def test_categorical_rows() -> None:
    X, y = table()
    model = CategoricalNB(min_categories=5)
    rows, labels = drawn(model, X, y)
    for code, label in enumerate(("no", "yes")):
        for feature in range(3):
            share = np.bincount(rows[labels == label, feature], minlength=5) / np.sum(labels == label)
            np.testing.assert_allclose(share, np.exp(model.feature_log_prob_[feature][code]), atol=0.02)


@pytest.mark.parametrize("model", [MultinomialNB(), BernoulliNB()], ids=str)
def test_sparse_rows_stay_sparse(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    draw = model_draw(model.fit(X, y), sparse.csr_matrix(X), None)
    whole, labels = draw(np.random.default_rng(0))
    assert sparse.issparse(whole)
    monkeypatch.setattr(bootstrap_samples, "CELLS_AT_ONCE", 3000)
    blocks, _ = model_draw(model, sparse.csr_matrix(X), None)(np.random.default_rng(0))
    assert blocks.shape == X.shape
    for code, label in enumerate(("no", "yes")):
        share = np.asarray(blocks[labels == label].mean(axis=0)).ravel()
        np.testing.assert_allclose(share / share.sum(), _shares(model)[code], atol=0.02)


def _shares(model: Any) -> Array:
    share = np.exp(model.feature_log_prob_)
    return np.asarray(share / share.sum(axis=1, keepdims=True))


FloatArray = NDArray[np.float64]

positive = st.floats(1e-3, 1e3)


def test_bounds_are_their_formulas() -> None:
    assert float(mean_bound(2.0, 25, 0.04)) == pytest.approx(2.0)
    assert float(sd_bound(2.0, 51, 0.04)) == pytest.approx(1.0)
    assert float(published_sd_bound(2.0, 25, 51, 0.04)) == pytest.approx(0.2)
    assert float(general_sd_bound(2.0, 51, 0.04)) == pytest.approx(2.0)
    assert float(general_sd_bound(1.0, 11, 0.05, 1.1)) == pytest.approx(np.sqrt(0.3 / 0.05))


def test_figures_of_the_papers_example() -> None:
    """2004 section 8.2 prints 0.00456 (no root) and 0.0016; eq. 11 gives 0.0161."""
    without_root = 0.057 / (250 * 0.05)
    assert without_root == pytest.approx(0.00456, abs=5e-6)
    assert float(mean_bound(0.057, 250, 0.05)) == pytest.approx(0.01612, abs=1e-5)
    assert float(mean_bound(np.sqrt(0.25 / 50), 250, 0.05)) == pytest.approx(0.02)
    assert float(published_sd_bound(0.057, 250, 50, 0.05)) == pytest.approx(0.0016, abs=5e-5)


def test_normal_bound_rests_on_an_inequality_that_holds() -> None:
    """E(S - sigma)^2 = 2 sigma^2 (1 - c4(T)) is at most sigma^2 / (2 (T - 1)), for every T."""
    models = np.arange(2.0, 20_000.0)
    c4 = np.sqrt(2 / (models - 1)) * np.exp(gammaln(models / 2) - gammaln((models - 1) / 2))
    assert np.all(2 * (1 - c4) <= 1 / (2 * (models - 1)))


def exceeded(draws: FloatArray, delta: float, excess_kurtosis: float, sd: float, mean: float) -> list[float]:
    """How often each bound is exceeded, with the true standard deviation and with the models' own."""
    n_models = draws.shape[1]
    own = draws.std(axis=1, ddof=1)
    return [
        float(np.mean(np.abs(draws.mean(axis=1) - mean) > mean_bound(sd, n_models, delta))),
        float(np.mean(np.abs(draws.mean(axis=1) - mean) > mean_bound(own, n_models, delta))),
        float(np.mean(np.abs(own - sd) > sd_bound(sd, n_models, delta))),
        float(np.mean(np.abs(own - sd) > sd_bound(own, n_models, delta))),
        float(np.mean(np.abs(own - sd) > general_sd_bound(sd, n_models, delta, excess_kurtosis))),
    ]


@pytest.mark.parametrize("n_rows", [20, 100, 500])
@pytest.mark.parametrize("n_models", [10, 100, 1000])
def test_bounds_hold_for_a_bootstrapped_share(n_rows: int, n_models: int) -> None:
    """2004 section 8.2, 2000 repetitions: exceeded in at most delta of them."""
    rng = np.random.default_rng([n_rows, n_models])
    for share in (0.5, 0.1):
        draws = rng.binomial(n_rows, share, size=(2000, n_models)) / n_rows
        variance = share * (1 - share)
        sd, kurtosis = np.sqrt(variance / n_rows), (1 - 6 * variance) / (n_rows * variance)
        for delta in (0.01, 0.05, 0.2):
            assert max(exceeded(draws, delta, kurtosis, float(sd), share)) <= delta


def test_general_bound_holds_where_the_normal_one_does_not() -> None:
    """A rare large value: kurtosis matters."""
    rng = np.random.default_rng(0)
    share = 0.002
    draws = (rng.random((4000, 200)) < share).astype(np.float64)
    variance = share * (1 - share)
    own = draws.std(axis=1, ddof=1)
    miss = np.abs(own - np.sqrt(variance))
    assert np.mean(miss > sd_bound(np.sqrt(variance), 200, 0.3)) > 0.3
    kurtosis = (1 - 6 * variance) / variance
    assert np.mean(miss > general_sd_bound(np.sqrt(variance), 200, 0.3, kurtosis)) <= 0.3


def test_published_bound_is_exceeded_more_often_than_not() -> None:
    rng = np.random.default_rng(1)
    draws = rng.binomial(50, 0.5, size=(4000, 250)) / 50
    miss = np.abs(draws.std(axis=1, ddof=1) - np.sqrt(0.005))
    assert np.mean(miss > published_sd_bound(np.sqrt(0.005), 250, 50, 0.05)) > 0.4
    assert np.mean(np.abs(draws.mean(axis=1) - 0.5) > 0.00456) > 0.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_bound(-1.0, 10), "sd must hold finite"),
        (lambda: mean_bound([np.nan], 10), "sd must hold finite"),
        (lambda: mean_bound("a", 10), "sd must hold numbers"),
        (lambda: mean_bound(1.0, 0), "n_models must be a whole number of at least 1"),
        (lambda: mean_bound(1.0, 10, 0.0), "delta must lie"),
        (lambda: sd_bound(1.0, 1), "n_models must be a whole number of at least 2"),
        (lambda: sd_bound(np.inf, 10), "sd must hold finite"),
        (lambda: sd_bound(1.0, 10, 1.0), "delta must lie"),
        (lambda: general_sd_bound(1.0, 1), "n_models must be a whole number of at least 2"),
        (lambda: general_sd_bound(1.0, 10, 0.05, -3.0), "excess_kurtosis must be"),
        (lambda: general_sd_bound(1.0, 10, 0.05, np.nan), "excess_kurtosis must be"),
        (lambda: published_sd_bound(1.0, 10, 1), "n_rows must be a whole number of at least 2"),
        (lambda: published_sd_bound(1.0, 0, 10), "n_models must be"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def normal_models(n_estimators: int = 40, seed: int = 0) -> BootstrapModelAveragingClassifier:
    return BootstrapModelAveragingClassifier(GaussianNB(), n_estimators=n_estimators, random_state=seed)


def test_bounds_are_those_of_the_core_number_by_number() -> None:
    X, y = load_iris(return_X_y=True)
    model = normal_models().fit(X, y)
    found = model.parameter_bounds("theta_", 0.1)
    theta = np.array([one.theta_ for one in model.estimators_])
    sd = theta.std(axis=0, ddof=1)
    np.testing.assert_allclose(found.mean, theta.mean(axis=0))
    np.testing.assert_allclose(found.sd, sd)
    np.testing.assert_allclose(found.mean_bound, mean_bound(sd, 40, 0.1))
    np.testing.assert_allclose(found.sd_bound, sd_bound(sd, 40, 0.1))
    np.testing.assert_allclose(found.published_sd_bound, published_sd_bound(sd, 40, 150, 0.1))
    assert np.all(found.general_sd_bound >= general_sd_bound(sd, 40, 0.1) - 1e-15)
    assert np.any(found.general_sd_bound > general_sd_bound(sd, 40, 0.1) + 1e-6)
    assert found.n_models == 40


@pytest.mark.slow
def test_bounds_hold_for_the_majority_guesser_and_the_published_one_does_not() -> None:
    """A share bootstrapped from 50 rows: mean 0.5 and sd sqrt(0.25 / 50) are known."""
    y = np.repeat([0, 1], 25)
    X = np.zeros((50, 1))
    X[::2] = 1.0
    exceeded = np.zeros(3)
    for seed in range(60):
        found = normal_models(30, seed).fit(X, y).parameter_bounds("class_prior_", 0.2)
        mean_off, sd_off = abs(found.mean[0] - 0.5), abs(found.sd[0] - np.sqrt(0.25 / 50))
        exceeded += [
            mean_off > found.mean_bound[0],
            sd_off > found.sd_bound[0],
            sd_off > found.published_sd_bound[0],
        ]
    assert np.all(exceeded[:2] / 60 <= 0.2)
    assert exceeded[2] / 60 > 0.5


def test_models_without_a_label_are_left_out() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], np.r_[7, y[1:100]]
    model = normal_models().fit(X, y)
    whole = [one for one in model.estimators_ if len(one.classes_) == 3]
    found = model.parameter_bounds("theta_")
    assert found.n_models == len(whole) < 40
    np.testing.assert_allclose(found.mean, np.mean([one.theta_ for one in whole], axis=0))


def test_what_cannot_be_bounded_is_said() -> None:
    X, y = load_iris(return_X_y=True)
    model = normal_models(6).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="no fitted attribute 'coef_'"):
        model.parameter_bounds("coef_")
    with pytest.raises(InputError, match="'priors' is not"):
        BootstrapModelAveragingClassifier(GaussianNB(priors=None), n_estimators=6).fit(
            X, y.astype(str)
        ).parameter_bounds("priors")
    with pytest.raises(InputError, match="delta must lie strictly"):
        model.parameter_bounds("theta_", 0.0)
    with pytest.raises(TooFewMembersError, match="4 of 4 models"):
        normal_models(4).fit(X, y).parameter_bounds("theta_")


MEANS = np.array([[0.30, 0.10, 0.05], [0.21, 0.20, 0.02], [0.101, 0.10, 0.099]])


def scores_around_means(rng: np.random.Generator, n_models: int, noise: float = 0.02) -> FloatArray:
    """Logarithms of positive scores around MEANS."""
    return np.asarray(np.log(MEANS * np.exp(noise * rng.standard_normal((n_models, *MEANS.shape)))))


def test_regions_are_mean_and_bound_relative_to_the_largest_score() -> None:
    scores = np.array([[[0.3, 0.1]], [[0.2, 0.1]], [[0.25, 0.4]]])
    regions = score_regions(np.log(scores), 0.1)
    relative = scores / 0.4
    half = relative.std(axis=0, ddof=1) / np.sqrt(3 * 0.1)
    np.testing.assert_allclose(regions.mean, relative.mean(axis=0))
    np.testing.assert_allclose(regions.lower, relative.mean(axis=0) - half)
    np.testing.assert_allclose(regions.upper, relative.mean(axis=0) + half)


def test_a_score_of_zero_and_scores_that_underflow_are_fine() -> None:
    logs = scores_around_means(np.random.default_rng(0), 200)
    logs[:, :, 2] = -np.inf
    np.testing.assert_array_equal(settled_rows(logs - 5000.0), settled_rows(logs))
    assert settled_rows(logs).tolist() == [True, True, False]
    assert np.all(score_regions(logs).upper[:, 2] == 0)


@pytest.mark.parametrize(("n_models", "delta"), [(3, 0.2), (10, 0.2), (100, 0.05)])
def test_settled_labels_are_those_of_infinitely_many_models(n_models: int, delta: float) -> None:
    """Two labels a quarter of a standard error apart: the worst that can be settled by mistake."""
    rng = np.random.default_rng(n_models)
    wrongly = 0
    for _ in range(2000):
        gap = 0.25 / np.sqrt(n_models)
        scores = 10.0 + rng.standard_normal((n_models, 1, 2)) + np.array([gap, 0.0])
        settled = settled_rows(np.log(scores), delta)[0]
        wrongly += bool(settled and scores.mean(axis=0)[0].argmax() == 1)
    assert wrongly / 2000 <= delta


def test_extrapolated_number_of_models_settles_the_wanted_share() -> None:
    """Two of three rows: from 50 models, then the number estimated."""
    pilot = scores_around_means(np.random.default_rng(0), 50, 0.1)
    wanted = models_to_settle(pilot, 0.6)
    assert wanted is not None
    assert not settled_rows(pilot)[1]
    grown = scores_around_means(np.random.default_rng(1), int(1.3 * wanted), 0.1)
    assert settled_rows(grown)[:2].all()


def test_tied_labels_are_never_settled() -> None:
    logs = np.log(np.full((10, 2, 2), 0.5))
    assert not settled_rows(logs).any()
    assert models_to_settle(logs) is None
    logs[:, 0, 0] = np.log(0.6)
    assert models_to_settle(logs, 0.5) == 3


@pytest.mark.parametrize("function", [score_regions, settled_rows, models_by_row, models_to_settle])
def test_bad_scores_are_named(function: object) -> None:
    assert callable(function)
    good = np.log(np.full((5, 2, 2), 0.5))
    for bad in (good[0], good[:, :, :1], good[:, :0], np.zeros(3)):
        with pytest.raises(InputError, match="log_scores must have shape"):
            function(bad)
    with pytest.raises(InputError, match="log_scores must hold numbers"):
        function("scores")
    with pytest.raises(TooFewMembersError, match="log_scores holds 2 model"):
        function(good[:2])
    for value in (np.nan, np.inf):
        broken = good.copy()
        broken[0, 0, 0] = value
        with pytest.raises(InputError, match="NaN or plus infinity"):
            function(broken)
    empty = good.copy()
    empty[:, 0] = -np.inf
    with pytest.raises(InputError, match="scores are 0 for every label"):
        function(empty)
    for delta in (0.0, 1.0, np.nan):
        with pytest.raises(InputError, match="delta must lie strictly"):
            function(good, delta=delta)


def test_share_is_checked() -> None:
    with pytest.raises(InputError, match="share must lie strictly"):
        models_to_settle(np.log(np.full((5, 2, 2), 0.5)), share=1.0)


def test_models_by_row_answer_for_each_row_what_the_regions_say() -> None:
    logs = np.concatenate([scores_around_means(np.random.default_rng(seed), 200, 0.15) for seed in range(20)], axis=1)
    logs[:, 4] = np.log(0.5)
    by_row = models_by_row(logs, 0.1)
    np.testing.assert_array_equal(by_row <= 200, settled_rows(logs, 0.1))
    assert 0 < np.mean(by_row <= 200) < 1
    assert np.isinf(by_row[4])
    assert models_to_settle(logs, 0.5, 0.1) == np.sort(by_row)[29]


@pytest.mark.parametrize(
    ("spread", "n_models", "share"), [(3.0, 25, 0.39), (3.0, 1000, 0.06), (1.5, 25, 0.02), (1.5, 1000, 0.0)]
)
def test_a_rival_of_rare_large_scores_is_excluded_as_often_as_documented(
    spread: float, n_models: int, share: float
) -> None:
    rng = np.random.default_rng(0)
    rival = np.log(1.1) - spread**2 / 2 + spread * rng.normal(size=(n_models, 2000))
    logs = np.stack([np.zeros_like(rival), rival], axis=2)
    excluded = settled_rows(logs, 0.05) & (np.exp(rival).mean(axis=0) < 1.0)
    # Four standard errors of 2000 rows, and the digits that the docstring leaves out.
    assert abs(excluded.mean() - share) < 0.005 + 4 * np.sqrt(max(share, 1e-4) / 2000)


def grown(needed: dict[int, float], max_size: int) -> list[tuple[int, str]]:
    """Models at hand at each warning, and its text; `needed` by size, the last one for all above."""
    models: list[int] = []
    warned: list[tuple[int, str]] = []

    def grow(start: int, stop: int) -> list[int]:
        models.extend(range(start, stop))
        return list(range(start, stop))

    def by_row(_: list[int]) -> NDArray[np.float64]:
        return np.full(10, needed[min(len(models), max(needed))])

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *_: warned.append(
            (len(models), f"{category.__name__}: {message}")
        )
        grow_until_settled(grow, by_row, 0.95, max_size)
    return warned


@pytest.mark.parametrize(
    ("needed", "takes"),
    [(4000.0, "about 4000 models would settle"), (np.inf, "no number of models settles")],
)
def test_what_is_out_of_sight_is_warned_of_after_two_checks(needed: float, takes: str) -> None:
    early, late = grown({25: needed, 50: needed}, 1000)
    assert early[0] == 50
    assert early[1].startswith(WeakEstimateWarning.__name__)
    assert f"from 50 models, {takes} the labels of 95 %" in early[1]
    assert "max_n_estimators=1000" in early[1]
    assert late[0] == 1000
    assert "1000 models settle the labels of 0.0 %" in late[1]


def test_there_is_no_warning_once_most_models_are_there() -> None:
    (only,) = grown({25: 9000.0, 50: 9000.0}, 199)
    assert only[0] == 199
    assert [size for size, _ in grown({25: 9000.0, 50: 9000.0}, 200)] == [50, 200]
