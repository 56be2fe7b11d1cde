"""Steps before the ensemble that have seen the target of rows that are out of bag."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold, chi2, f_regression
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state

import ens_plugin
from ens_plugin.analysis.steps import step_findings
from ens_plugin.errors import DataMismatchError, EnsPluginWarning, WeakEstimateWarning
from ens_plugin.papers.dynamic_pruning_2009 import prune
from ens_plugin.papers.members import out_of_bag_members

FOUND = "was fitted to the target of all rows"


def noise(n_rows: int = 300, n_columns: int = 100, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n_rows, n_columns)), rng.integers(0, 2, n_rows)


def categories(n_rows: int, n_categories: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({name: rng.integers(0, n_categories, n_rows).astype(str) for name in ("town", "trade")})
    return X.set_axis(rng.permutation(n_rows)), rng.integers(0, 2, n_rows)


def codes(model: Any, X: Any, y: Any, **options: Any) -> list[str]:
    return [found.code for found in step_findings(model, X, y, **options)]


def random_numbers() -> list[int]:
    """Return the state of the generator that scikit-learn uses where random_state is None."""
    return check_random_state(None).get_state()[1].tolist()  # type: ignore[no-any-return]


def small_forest() -> RandomForestClassifier:
    return RandomForestClassifier(5, random_state=0)


class MeanEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Replaces each category by the mean target of its rows."""

    def fit(self, X: Any, y: Any = None) -> MeanEncoder:
        target = pd.Series(np.asarray(y, dtype=float))
        self.means_ = [target.groupby(np.asarray(column)).mean() for _, column in X.items()]
        return self

    def transform(self, X: Any) -> Any:
        columns = [column.map(means) for (_, column), means in zip(X.items(), self.means_, strict=True)]
        return np.stack(columns, axis=1)


class LeaveOneOutEncoder(MeanEncoder):
    """Gives training rows the mean target of the other rows of their category."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        target = np.asarray(y, dtype=float)
        found = []
        for _, column in X.items():
            of_category = pd.Series(target).groupby(np.asarray(column))
            total, count = of_category.transform("sum"), of_category.transform("count")
            found.append((total - target) / np.maximum(count - 1, 1))
        self.fit(X, y)
        return np.stack(found, axis=1)


class Strongest(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Keeps the columns that correlate most with the target, without a tag that it needs one."""

    def fit(self, X: Any, y: Any = None) -> Strongest:
        self.kept_ = np.argsort(-np.abs(np.corrcoef(X.T, y)[-1, :-1]))[:5]
        return self

    def transform(self, X: Any) -> Any:
        return X[:, self.kept_]


class Leaves(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Gives the number of a leaf of a tree, whose order tells nothing."""

    def fit(self, X: Any, y: Any) -> Leaves:
        self.tree_ = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(X, y)
        self.numbers_ = np.random.default_rng(0).permutation(self.tree_.tree_.node_count)
        return self

    def transform(self, X: Any) -> Any:
        return self.numbers_[self.tree_.apply(X)][:, None]


class RandomProjection(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Reads no target and gives other values at each fit."""

    def fit(self, X: Any, y: Any = None) -> RandomProjection:
        self.weights_ = np.random.default_rng().normal(size=(X.shape[1], 5))
        return self

    def transform(self, X: Any) -> Any:
        return X @ self.weights_


class FitsOnce(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    was_fitted = False

    def fit(self, X: Any, y: Any = None) -> FitsOnce:
        if type(self).was_fitted:
            raise RuntimeError("The licence is for one fit.")
        type(self).was_fitted = self.is_fitted_ = True
        return self

    def transform(self, X: Any) -> Any:
        return X


LOOK: list[Callable[[], Any]] = [
    lambda: SelectKBest(k=5), lambda: Strongest(),
    lambda: SelectFromModel(LogisticRegression(), max_features=5, threshold=-np.inf),
    lambda: RFE(LogisticRegression(), n_features_to_select=5, step=0.2), LinearDiscriminantAnalysis, Leaves,
    lambda: make_pipeline(StandardScaler(), SelectKBest(k=5)),
    lambda: FeatureUnion([("axes", PCA(2)), ("columns", SelectKBest(k=5))]),
    lambda: make_column_transformer((SelectKBest(k=5), slice(0, 90)), (StandardScaler(), slice(90, 100))),
]  # fmt: skip
DO_NOT_LOOK: list[Callable[[], Any]] = [
    lambda: VarianceThreshold(), lambda: FunctionTransformer(np.tanh), RandomProjection, lambda: KMeans(3, n_init=1),
    lambda: SelectFromModel(IsolationForest(n_estimators=2), importance_getter=lambda _: np.ones(100)),
    lambda: make_column_transformer((StandardScaler(), [0, 1]), remainder="drop"), lambda: "passthrough",
]  # fmt: skip


@pytest.mark.parametrize("make", LOOK)
def test_a_step_that_has_seen_the_target_is_doubted(make: Callable[[], Any]) -> None:
    X, y = noise()
    assert codes(make_pipeline(make(), small_forest()).fit(X, y), X, y) == ["target-steps"]


class OfComplete(Strongest):
    """Takes missing values for 0."""

    def fit(self, X: Any, y: Any = None) -> Strongest:
        return super().fit(np.nan_to_num(X), y)


def texts() -> Any:
    rng = np.random.default_rng(0)
    return pd.Series([" ".join(f"w{word}" for word in rng.integers(0, 900, 30)) for _ in range(300)])


X, Y = noise()
WIDE = noise(300, 1000)[0]
OF_VALUES = make_pipeline(SelectKBest(f_regression, k=20), RandomForestRegressor(5, random_state=0))
SELECTED = make_pipeline(SelectKBest(k=20), small_forest())
# The model, its rows and its target.
KINDS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "words": lambda: (SELECTED, WIDE, np.array(["no", "yes"])[Y]),
    "many labels": lambda: (SELECTED, WIDE, np.random.default_rng(1).integers(0, 8, 300)),
    "values": lambda: (OF_VALUES, WIDE, np.exp(np.random.default_rng(1).normal(size=300))),
    "texts": lambda: (make_pipeline(CountVectorizer(), SelectKBest(chi2, k=20), small_forest()), texts(), Y),
    "missing values": lambda: (
        make_pipeline(OfComplete(), small_forest()), np.where(np.arange(300)[:, None] % 7, X, np.nan), Y
    ),
    "elimination": lambda: (RFE(RandomForestClassifier(20, random_state=0), n_features_to_select=5, step=0.95), X, Y),
    "target of the program": lambda: (
        make_pipeline(FunctionTransformer(lambda rows: np.column_stack([rows, Y])), small_forest()), X, Y
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_targets_of_every_kind_are_compared(kind: str) -> None:
    model, rows, y = KINDS[kind]()
    assert codes(model.fit(rows, y), rows, y) == ["target-steps"]


@pytest.mark.parametrize("of_each", [False, True], ids=["steps of all outputs", "steps of each output"])
def test_the_reports_of_all_outputs_are_doubted(of_each: bool) -> None:
    if of_each:
        targets = np.stack([Y, Y[::-1]], axis=1)
        pipeline = make_pipeline(SelectKBest(k=5), RandomForestClassifier(40, random_state=0))
        model: Any = MultiOutputClassifier(pipeline).fit(X, targets)
    else:
        targets = np.stack([Y, X[:, 0]], axis=1)
        steps = SelectFromModel(Lasso(0.01), max_features=5, threshold=-np.inf)
        model = make_pipeline(steps, RandomForestRegressor(40, random_state=0)).fit(X, targets)
    report = ens_plugin.analyze(model, X, targets, max_size=101)
    for part in (report, *report.outputs.values()):
        assert FOUND in part.basis.doubts[-1]


@pytest.mark.parametrize("make", DO_NOT_LOOK)
@pytest.mark.parametrize("seed", range(2))
def test_a_step_that_reads_no_target_is_not_doubted(make: Callable[[], Any], seed: int) -> None:
    X, y = noise(seed=seed)
    assert not codes(make_pipeline(make(), small_forest()).fit(X, y), X, y)


def test_an_encoder_is_doubted_by_name_and_the_error_is_too_low() -> None:
    X, y = categories(600, 150)
    model = make_pipeline(MeanEncoder(), RandomForestClassifier(60, random_state=0)).fit(X, y)
    report = ens_plugin.analyze(model, X, y, max_size=101)
    assert report.error_curve.upper[-1] < 0.4  # and the true error is 0.5
    [doubt] = report.basis.doubts
    assert "Step 'meanencoder' of the pipeline (MeanEncoder) was fitted to the target of all rows" in doubt
    assert "Fit the step within each member" in doubt
    assert "Do not use these figures." in report.summary()


def test_an_encoder_of_few_categories_and_a_selection_of_most_columns_are_let_pass() -> None:
    X, y = categories(20_000, 3)
    assert not codes(make_pipeline(MeanEncoder(), small_forest()).fit(X, y), X, y)
    for seed in range(5):
        table, labels = noise(1000, 30, seed)
        assert not codes(make_pipeline(SelectKBest(k=25), small_forest()).fit(table, labels), table, labels)


def test_every_use_of_the_training_rows_is_doubted() -> None:
    X, y = noise()
    model = make_pipeline(SelectKBest(k=5), RandomForestClassifier(40, random_state=0)).fit(X, y)
    for use in (ens_plugin.oob_predictions, out_of_bag_members, prune):
        with pytest.warns(WeakEstimateWarning, match=FOUND):
            use(model, X, y)
    with pytest.warns(WeakEstimateWarning, match=FOUND):
        ens_plugin.oob_predictions(model, X)
    assert any(FOUND in text for text in ens_plugin.oob_permutation_importance(model, X, y, n_repeats=1).warnings)
    assert any(FOUND in text for text in ens_plugin.predict_with_uncertainty(model, X, y, X[:3]).warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        grown = ens_plugin.grow(clone(model), X, y, probe_size=20, max_size=40)
    assert FOUND in grown.report.basis.doubts[-1]
    once: Any = {"scoring": ens_plugin.make_oob_scorer(), "cv": ens_plugin.OneFold(), "error_score": "raise"}
    search = GridSearchCV(model, {"selectkbest__k": [5]}, **once)
    with pytest.warns(WeakEstimateWarning, match=FOUND):
        search.fit(X, y)
    assert codes(search, X, y) == ["target-steps"]


def test_held_out_rows_are_let_pass() -> None:
    X, y = noise()
    model = make_pipeline(SelectKBest(k=5), RandomForestClassifier(30, random_state=0)).fit(X[:150], y[:150])
    assert not ens_plugin.analyze(model, X[150:], y[150:], data="holdout", max_size=101).basis.doubts


def test_a_selector_that_was_fitted_elsewhere_is_let_pass_unless_it_gives_what_these_rows_give() -> None:
    frozen = pytest.importorskip("sklearn.frozen", reason="FrozenEstimator is new in scikit-learn 1.6")
    (X, y), other = noise(), noise(seed=1)
    for rows, expected in (((X, y), ["target-steps"]), (other, [])):
        fitted = LogisticRegression().fit(*rows)
        for step in (
            frozen.FrozenEstimator(SelectKBest(k=5).fit(*rows)),
            frozen.FrozenEstimator(LinearDiscriminantAnalysis().fit(*rows)),
            SelectFromModel(fitted, prefit=True, max_features=5, threshold=-np.inf),
        ):
            assert codes(make_pipeline(step, small_forest()).fit(X, y), X, y) == expected


def test_a_step_that_cannot_be_fitted_again_is_noted() -> None:
    X, y = noise()
    model = make_pipeline(FitsOnce(), RandomForestClassifier(40, random_state=0)).fit(X, y)
    report = ens_plugin.analyze(model, X, y, max_size=101)
    assert not report.basis.doubts
    [note] = [text for text in report.warnings if "fitsonce" in text]
    assert "was not fitted again (RuntimeError: The licence is for one fit)" in note
    with pytest.warns(EnsPluginWarning, match="was not fitted again"):
        ens_plugin.oob_predictions(model, X, y)


def test_steps_that_cannot_be_fitted_here_are_noted_with_the_reason() -> None:
    X, y = noise()
    model = make_pipeline(StandardScaler(), SelectKBest(k=5), small_forest()).fit(X, y)
    [note] = step_findings(model, None, None, not_judged="its rows are on a cluster")
    assert "Step 'selectkbest' of the pipeline (SelectKBest) was not fitted again (its rows are on a" in note.sentence


def test_a_step_is_fitted_without_its_store_and_without_the_programs_random_numbers(tmp_path: Any) -> None:
    X, y = noise()
    selection = SelectFromModel(ExtraTreesClassifier(5), max_features=5, threshold=-np.inf)
    steps = make_pipeline(StandardScaler(), selection, memory=str(tmp_path))
    model = make_pipeline(steps, small_forest()).fit(X, y)
    stored, state = sorted(tmp_path.rglob("*")), random_numbers()
    first = step_findings(model, X, y)
    assert sorted(tmp_path.rglob("*")) == stored
    assert random_numbers() == state
    assert first == step_findings(model, X, y)


def test_rows_of_the_training_are_judged_as_fit_transform_gave_them() -> None:
    X, y = categories(1000, 100)
    crossed = make_pipeline(TargetEncoder(), small_forest()).fit(X, y)
    assert codes(crossed, X, y) == ["target-steps"]
    assert not codes(crossed, X, y, as_trained=True)
    for make in (MeanEncoder, LeaveOneOutEncoder):
        model = make_pipeline(make(), small_forest()).fit(X, y)
        assert codes(model, X, y, as_trained=True) == ["target-steps"]


@pytest.mark.filterwarnings("ignore:`TargetEncoder.shuffle`:FutureWarning")
def test_a_cross_fitted_encoder_is_named_where_its_rows_are_refused() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 30, size=(300, 2)).astype(str), rng.integers(0, 2, 300)
    encoder = TargetEncoder(cv=3, shuffle=False)
    model = make_pipeline(encoder, RandomForestClassifier(30, random_state=0)).fit(X, y)
    for use in (ens_plugin.analyze, ens_plugin.in_bag, ens_plugin.oob_predictions):
        with pytest.raises(DataMismatchError, match=r"Step 'targetencoder' of the pipeline \(TargetEncoder\)"):
            use(model, X, y)
    left_out = make_pipeline(LeaveOneOutEncoder(), RandomForestClassifier(30, random_state=0))
    table, labels = categories(300, 30)
    with pytest.raises(DataMismatchError, match=r"Step 'leaveoneoutencoder' of the pipeline \(LeaveOneOutEncoder\)"):
        ens_plugin.analyze(left_out.fit(table, labels), table, labels)
    trained_on = clone(model[:-1]).fit_transform(X, y)
    assert not ens_plugin.analyze(model[-1], trained_on, y, max_size=101).basis.doubts


class WithoutParameters:
    """Has no parameters as scikit-learn's estimators do, and no transform of the rows that it was fitted to."""

    def __init__(self, *arguments: Any) -> None:
        self.n_columns = arguments[0]

    def get_params(self, deep: bool = True) -> Any:
        raise RuntimeError("no parameters")

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return X[:, : self.n_columns]

    def fit(self, X: Any, y: Any = None) -> WithoutParameters:
        return self

    def transform(self, X: Any) -> Any:
        raise RuntimeError("for new rows only")


def test_steps_of_an_unusual_make_are_noted_and_those_after_them() -> None:
    X, y = noise()
    model = make_pipeline(SelectKBest(k=5), small_forest()).fit(X, y)
    model.steps.insert(0, ("own", WithoutParameters(100)))
    assert codes(model, X, y, as_trained=True) == ["unjudged-steps", "unjudged-steps"]
