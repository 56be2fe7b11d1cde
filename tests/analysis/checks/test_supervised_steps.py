"""Steps before the ensemble that were fitted to the target of rows that are out of bag."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import BaggingClassifier, IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold, f_regression
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

import ens_plugin
from ens_plugin.adapters.unwrap import supervised_steps
from ens_plugin.analysis.checks import chance_share
from ens_plugin.errors import DataMismatchError, WeakEstimateWarning

FOUND = "was fitted to the target of all rows"


def noise(n_rows: int = 150, n_columns: int = 600) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_rows, n_columns)), rng.integers(0, 2, n_rows)


def doubts(model: Any, X: Any, y: Any, **options: Any) -> list[str]:
    report = ens_plugin.analyze(model, X, y, max_size=101, **options)
    return [doubt for doubt in report.basis.doubts if FOUND in doubt]


def test_columns_chosen_by_the_labels_of_all_rows_are_doubted() -> None:
    X, y = noise()
    model = make_pipeline(SelectKBest(k=10), RandomForestClassifier(60, random_state=0)).fit(X, y)
    report = ens_plugin.analyze(model, X, y, max_size=101)
    fresh, labels = noise(n_rows=4000)
    assert report.error_curve.upper[-1] < 0.45 < 1 - model.score(fresh[150:], labels[150:])  # the error is too low
    [doubt] = report.basis.doubts
    assert "Step 'selectkbest' of the pipeline, a SelectKBest" in doubt
    assert "It chose 10 of 600 columns" in doubt
    assert "do not rely on these figures" in report.summary().replace("\n", " ")


def test_every_use_of_the_training_rows_is_doubted() -> None:
    X, y = noise(n_columns=100)
    model = make_pipeline(SelectKBest(k=5), RandomForestClassifier(40, random_state=0)).fit(X, y)
    with pytest.warns(WeakEstimateWarning, match=FOUND):
        ens_plugin.oob_predictions(model, X, y)
    assert any(FOUND in text for text in ens_plugin.oob_permutation_importance(model, X, y, n_repeats=1).warnings)
    assert any(FOUND in text for text in ens_plugin.predict_with_uncertainty(model, X, y, X[:3]).warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grown = ens_plugin.grow(clone(model), X, y, probe_size=20, max_size=40)
    assert grown.report is not None
    assert FOUND in grown.report.basis.doubts[-1]
    search = GridSearchCV(
        model,
        {"selectkbest__k": [5]},
        scoring=ens_plugin.make_oob_scorer(),
        cv=ens_plugin.OneFold(),
        error_score="raise",
    )
    with pytest.warns(WeakEstimateWarning, match=FOUND):
        search.fit(X, y)
    assert doubts(search, X, y)


def test_few_columns_left_out_by_many_rows_and_held_out_rows_are_let_pass() -> None:
    X, y = noise(n_rows=1000, n_columns=12)
    model = make_pipeline(SelectKBest(k=10), RandomForestClassifier(30, max_depth=4, random_state=0)).fit(X, y)
    assert not doubts(model, X, y)
    X, y = noise()
    model = make_pipeline(SelectKBest(k=10), RandomForestClassifier(30, random_state=0)).fit(X[:75], y[:75])
    assert not doubts(model, X[75:], y[75:], data="holdout")


def test_the_reports_of_all_outputs_are_doubted() -> None:
    X, y = noise(n_columns=100)
    steps = SelectFromModel(Lasso(0.01), max_features=5, threshold=-np.inf)
    model = make_pipeline(steps, RandomForestRegressor(40, random_state=0)).fit(X, np.stack([y, X[:, 0]], axis=1))
    report = ens_plugin.analyze(model, X, np.stack([y, X[:, 0]], axis=1), max_size=101)
    for part in (report, *report.outputs.values()):
        assert FOUND in part.basis.doubts[-1]


@pytest.mark.parametrize(
    ("step", "is_supervised"),
    [
        (SelectKBest(k=2), True),
        (RFE(Lasso(), n_features_to_select=2), True),
        (SelectFromModel(Lasso(0.01)), True),
        (SelectFromModel(IsolationForest(n_estimators=2), importance_getter=lambda _: np.ones(4)), False),
        (NeighborhoodComponentsAnalysis(2, max_iter=2), True),
        (make_pipeline(StandardScaler(), SelectKBest(k=2)), True),
        (FeatureUnion([("a", PCA(2)), ("b", SelectKBest(k=2))]), True),
        (make_column_transformer((SelectKBest(k=1), [0, 1]), remainder="passthrough"), True),
        (make_column_transformer((StandardScaler(), [0, 1]), remainder="drop"), False),
        (VarianceThreshold(), False),
        (PCA(2), False),
        ("passthrough", False),
    ],
)
def test_steps_that_read_the_target_are_found(step: Any, is_supervised: bool) -> None:
    X, y = noise(n_columns=4)
    model = make_pipeline(StandardScaler(), step, RandomForestRegressor(2)).fit(X, y)
    assert len(supervised_steps(model)) == is_supervised


class OfTheUser(BaseEstimator):  # type: ignore[misc]
    """A step with attributes of its own that have the names of scikit-learn's."""

    steps = (1, 2)

    def fit(self, X: Any, y: Any = None) -> OfTheUser:
        self.transformers_ = [1, 2]
        return self

    def transform(self, X: Any) -> Any:
        return X

    def get_support(self, columns: Any) -> Any:
        return columns


def test_a_step_of_the_user_is_left_alone() -> None:
    X, y = noise(n_columns=4)
    model = make_pipeline(OfTheUser(), RandomForestClassifier(40, random_state=0)).fit(X, y)
    assert not doubts(model, X, y)


def test_the_share_explained_by_chosen_noise_is_that_of_a_simulation() -> None:
    X, _ = noise(n_rows=200, n_columns=500)
    rng = np.random.default_rng(1)
    shares = []
    for _ in range(200):
        y = rng.normal(size=200)
        model = make_pipeline(SelectKBest(f_regression, k=25), RandomForestRegressor(1))
        model[0].fit(X, y)
        correlations = np.corrcoef(X[:, model[0].get_support()].T, y)[-1, :-1]
        shares.append((correlations**2).sum() - 25 / 200)
    [step] = supervised_steps(model)
    assert_allclose(chance_share(step, 200), np.mean(shares), rtol=0.05)


@pytest.mark.filterwarnings("ignore:`TargetEncoder.shuffle`:FutureWarning")
def test_a_cross_fitted_encoder_is_named_where_its_rows_are_refused() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 30, size=(300, 2)).astype(str), rng.integers(0, 2, 300)
    encoder = TargetEncoder(cv=3, shuffle=False)
    model = make_pipeline(encoder, RandomForestClassifier(30, random_state=0)).fit(X, y)
    for use in (ens_plugin.analyze, ens_plugin.in_bag, ens_plugin.oob_predictions):
        with pytest.raises(DataMismatchError, match="Step 'targetencoder' of the pipeline, a TargetEncoder"):
            use(model, X, y)
    with pytest.raises(DataMismatchError, match="Step 'targetencoder' of the pipeline, a TargetEncoder"):
        ens_plugin.oob_permutation_importance(model, X, y)
    trained_on = clone(model[:-1]).fit_transform(X, y)
    assert not ens_plugin.analyze(model[-1], trained_on, y, max_size=101).basis.doubts


@pytest.mark.filterwarnings("ignore:`TargetEncoder.shuffle`:FutureWarning")
def test_an_encoder_with_as_many_categories_as_it_has_rows_is_doubted() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 60, size=(300, 2)).astype(str), rng.integers(0, 2, 300)
    bagged = BaggingClassifier(KNeighborsClassifier(), 30, random_state=0)
    model = make_pipeline(TargetEncoder(cv=3, shuffle=False), bagged).fit(X, y)
    [doubt] = doubts(model, X, y)
    n_learned = sum(np.unique(column).size - 1 for column in X.T)
    assert f"It learned {n_learned} numbers from it" in doubt
