"""Bootstrap model averaging: the rule, the refusals, and scikit-learn's own contract."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from ens_plugin.errors import InputError, TooFewMembersError, WeakEstimateWarning
from ens_plugin.papers.model_averaging_2004 import bounds, models_to_settle, score_regions, settled_rows
from tests.own_checks import own_checks
from tests.papers.model_averaging_2004.cases import Array, averaged, counts, iris

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
@own_checks(
    [
        averaged(bootstrap="parametric"),
        averaged(combine="conditional"),
        averaged(BernoulliNB(), bootstrap="parametric"),
        averaged(MultinomialNB()),
    ],
    EXPECTED_FAILURES,
)
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


def test_sums_do_not_underflow() -> None:
    X, y = iris()
    far = X + 500.0
    model = averaged().fit(X, y)
    joint = np.stack([one.predict_joint_log_proba(far) for one in model.estimators_])
    assert joint.max() < -1000
    np.testing.assert_allclose(model.predict_joint_log_proba(far), logsumexp(joint, axis=0) - np.log(8), rtol=1e-12)
    np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0)


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


def test_a_label_missing_from_every_sample_is_never_predicted() -> None:
    X, y = iris()
    y[0] = 3
    fits = (averaged(n_estimators=1, random_state=seed).fit(X, y) for seed in range(50))
    model = next(fit for fit in fits if 3 not in fit.estimators_[0].classes_)
    assert np.isneginf(model.predict_joint_log_proba(X)[:, 3]).all()
    np.testing.assert_array_equal(model.predict_proba(X)[:, 3], 0.0)


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


def test_growing_by_steps_gives_the_models_of_one_go() -> None:
    X, y = iris()
    with pytest.warns(WeakEstimateWarning):
        grown = averaged(n_estimators="auto", max_n_estimators=40).fit(X, y)
    whole = averaged(n_estimators=40).fit(X, y)
    np.testing.assert_array_equal(grown.predict_joint_log_proba(X), whole.predict_joint_log_proba(X))


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


def test_auto_says_where_no_number_would_do() -> None:
    X = np.tile([[0.0], [1.0]], (20, 1))

    class Tied(GaussianNB):
        def predict_joint_log_proba(self, X: Array) -> Array:
            return np.zeros((len(X), len(self.classes_)))

    with pytest.warns(WeakEstimateWarning, match="no number of models would"):
        model = averaged(Tied(), n_estimators="auto", max_n_estimators=60).fit(X, np.arange(40) // 2 % 2)
    assert [step.size for step in model.history_] == [25, 50, 60]


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
