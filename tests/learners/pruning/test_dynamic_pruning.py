"""Pruned predictions against the whole ensemble's, over every kind of ensemble."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
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
from sklearn.utils.estimator_checks import parametrize_with_checks

import ens_plugin
from benchmarks.problems import FORMULAS
from ens_plugin import DynamicPruningClassifier
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.sklearn import SklearnForestAdapter
from ens_plugin.core.stopping import stopping_table, uniform_prior
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)

Array = NDArray[Any]

ALMOST_SURE = 1.0 - 1e-12
few_rows = pytest.mark.filterwarnings("ignore:There are only .* rows to estimate:ens_plugin.errors.WeakEstimateWarning")


def twonorm(n_rows: int, seed: int = 0) -> tuple[Array, Array]:
    return FORMULAS["twonorm"].sample(n_rows, np.random.default_rng(seed))


def frozen(model: Any) -> Any:
    """The model in scikit-learn's FrozenEstimator."""
    return pytest.importorskip("sklearn.frozen", reason="new in scikit-learn 1.6").FrozenEstimator(model)


def ensemble(kind: str) -> Any:
    """An ensemble of one kind, not fitted."""
    if kind == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        model = lightgbm.LGBMClassifier(
            boosting_type="rf",
            n_estimators=101,
            subsample=0.632,
            subsample_freq=1,
            random_state=0,
            verbose=-1,
            n_jobs=1,
        )
    elif kind == "xgboost":
        xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
        model = xgboost.XGBRFClassifier(
            n_estimators=101, subsample=0.632, colsample_bynode=0.5, random_state=0, n_jobs=1
        )
    else:
        model = {
            "forest": RandomForestClassifier(101, random_state=0),
            "even forest": RandomForestClassifier(100, random_state=0),
            "shallow forest": RandomForestClassifier(101, max_depth=3, random_state=0),
            "bagged trees": BaggingClassifier(n_estimators=101, max_features=0.7, random_state=0),
            "bagged votes": BaggingClassifier(RidgeClassifier(), n_estimators=101, max_samples=0.2, random_state=0),
        }[kind]
    return model


KINDS = [
    "forest", "even forest", "shallow forest", "bagged trees", "bagged votes", "lightgbm", "xgboost"
]  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)
labels = pytest.mark.parametrize("n_labels", [2, 10])


def rows_of(n_labels: int) -> tuple[Array, Array, Array]:
    """Training rows, their labels, and fresh rows."""
    if n_labels == 2:
        return *twonorm(200), twonorm(400, 1)[0]
    X, y = load_digits(return_X_y=True)
    # In the order of the file, rows are other people's handwriting: not exchangeable.
    rows = np.random.default_rng(0).permutation(y.size)
    return X[rows[:500]], y[rows[:500]], X[rows[500:900]]


@few_rows
@parametrize_with_checks([DynamicPruningClassifier(RandomForestClassifier(9, random_state=0))])
def test_scikit_learn_s_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@few_rows
@parametrize_with_checks(
    [DynamicPruningClassifier(RandomForestClassifier(9, max_depth=2, random_state=0), rule="infinite")]
)
def test_scikit_learn_s_own_checks_of_probabilities(estimator: Any, check: Any) -> None:
    check(estimator)


@labels
@every_kind
def test_when_nothing_is_given_up_labels_are_the_whole_ensemble_s(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    for rule in ("full", "learned"):
        pruned = DynamicPruningClassifier(ensemble(kind), rule=rule, confidence=ALMOST_SURE).fit(X, y)
        np.testing.assert_array_equal(pruned.predict(fresh), pruned.estimator_.predict(fresh))


@labels
@every_kind
def test_few_labels_differ_and_few_members_are_asked(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    for rule in ("full", "infinite", "learned"):
        pruned = DynamicPruningClassifier(ensemble(kind), rule=rule).fit(X, y)
        found = pruned.query(fresh)
        # 400 rows at 1 %: 4 expected, 11 in a run of 1000.
        assert np.count_nonzero(found.labels != pruned.estimator_.predict(fresh)) <= 10
        assert found.n_queries.mean() < 80
        assert pruned.expected_queries_ == pytest.approx(found.n_queries.mean(), rel=0.35)
        assert pruned.expected_disagreement_ <= 0.02


@labels
@every_kind
def test_probabilities_are_the_mean_of_the_members_asked(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    pruned = DynamicPruningClassifier(ensemble(kind)).fit(X, y)
    found, model = pruned.query(fresh), pruned.estimator_
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


@labels
@every_kind
def test_a_row_alone_is_predicted_as_among_others(kind: str, n_labels: int) -> None:
    X, y, fresh = rows_of(n_labels)
    pruned = DynamicPruningClassifier(ensemble(kind)).fit(X, y)
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


def test_settled_rows_are_asked_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, fresh = rows_of(10)
    pruned = DynamicPruningClassifier(RandomForestClassifier(51, random_state=0)).fit(X, y)
    whole = pruned.query(fresh)
    monkeypatch.setattr("ens_plugin.learners.pruning.member_queries.BLOCK_BYTES", 0)
    monkeypatch.setattr("ens_plugin.learners.pruning.member_queries.FEWEST_ROWS", 7)
    parts = pruned.query(fresh)
    np.testing.assert_array_equal(parts.labels, whole.labels)
    np.testing.assert_array_equal(parts.n_queries, whole.n_queries)


def test_counting_many_labels_is_counting_few(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, fresh = rows_of(10)
    pruned = DynamicPruningClassifier(RandomForestClassifier(51, random_state=0)).fit(X, y)
    few = pruned.query(fresh)
    monkeypatch.setattr("ens_plugin.learners.pruning.member_queries.FEW_LABELS", 0)
    many = pruned.query(fresh)
    np.testing.assert_array_equal(many.probabilities, few.probabilities)


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
        ({"rule": "half"}, "rule must be one of full, infinite, learned, got 'half'"),
        ({"data": "train"}, "data must be 'oob' or 'holdout', got 'train'"),
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
        (GradientBoostingClassifier(n_estimators=5), UnsupportedModelError, "Members of boosting correct one another"),
        (
            RandomForestClassifier(5, bootstrap=False),
            BagError,
            "has no bootstrap.* rule='full'",
        ),
        (RandomForestClassifier(1, random_state=0), TooFewMembersError, "No row .* two of the 1 members"),
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
