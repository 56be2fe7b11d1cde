"""The variance over training sets from one ensemble: by its formula, for each library, and where it is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import ens_plugin
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError
from tests.extras import lightgbm, xgboost

X, Y = make_friedman1(80, noise=1.0, random_state=0)
NEW = make_friedman1(30, random_state=1)[0]
LIGHTGBM = {
    "n_estimators": 40,
    "boosting_type": "rf",
    "subsample": 0.6,
    "subsample_freq": 1,
    "min_child_samples": 3,
    "random_state": 0,
    "verbose": -1,
    "n_jobs": 1,
}


def forest(n_estimators: int = 60, **options: Any) -> Any:
    return RandomForestRegressor(n_estimators, random_state=0, **options)


def counts_of(model: Any) -> Any:
    return np.stack([np.bincount(rows, minlength=len(X)) for rows in model.estimators_samples_])


@pytest.mark.slow
def test_variance_is_that_of_the_formula() -> None:
    """Uncorrected, by the double loop of the paper's eq. 5; corrected, near its own correction, eq. 7."""
    model = forest(400).fit(X, Y)
    counts, outputs = counts_of(model), np.stack([tree.predict(NEW) for tree in model.estimators_])
    expected = np.zeros(len(NEW))
    for row in range(len(X)):
        covariance = np.mean(
            (counts[:, row] - counts[:, row].mean())[:, None] * (outputs - outputs.mean(axis=0)), axis=0
        )
        expected += covariance**2
    found = ens_plugin.training_variance(model, X, NEW)
    np.testing.assert_allclose(found.uncorrected, expected, rtol=1e-10)
    np.testing.assert_allclose(found.prediction, model.predict(NEW), rtol=1e-12)
    corrected = expected - len(X) / 400 * outputs.var(axis=0)
    np.testing.assert_allclose(found.variance, corrected, atol=0.15 * corrected.mean())
    np.testing.assert_allclose(found.seed_variance, outputs.var(axis=0, ddof=1) / 400, rtol=1e-12)


def test_wrappers_are_opened_and_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_pipeline(StandardScaler(), forest()).fit(X, Y)
    found = ens_plugin.training_variance(model, X, NEW)
    monkeypatch.setattr("ens_plugin.analysis.variance.CELLS_AT_ONCE", 60 * 7)
    np.testing.assert_allclose(ens_plugin.training_variance(model, X, NEW).variance, found.variance, rtol=1e-10)
    np.testing.assert_allclose(found.prediction, model.predict(NEW), rtol=1e-12)


def test_forest_and_its_trees_with_their_rows_agree() -> None:
    model = forest().fit(X, Y)
    custom = ens_plugin.CustomEnsemble.from_estimators(model.estimators_, model.estimators_samples_)
    theirs, ours = (ens_plugin.training_variance(one, X, NEW) for one in (custom, model))
    np.testing.assert_allclose(theirs.variance, ours.variance, rtol=1e-9)
    np.testing.assert_allclose(theirs.jackknife, ours.jackknife, rtol=1e-9)
    mask = ens_plugin.CustomEnsemble.from_estimators(model.estimators_, counts_of(model) > 0)
    found = ens_plugin.training_variance(mask, X, NEW)
    assert found.jackknife is None
    np.testing.assert_allclose(found.variance, ours.jackknife, rtol=0.1, atol=0.02)
    assert any("as often as it was drawn" in warning for warning in found.warnings)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("is_classifier", [True, False])
def test_boosters_that_draw_without_replacement(library: str, is_classifier: bool) -> None:
    target = np.median(Y) < Y if is_classifier else Y
    if library == "xgboost":
        kind = xgboost.XGBRFClassifier if is_classifier else xgboost.XGBRFRegressor
        model = kind(n_estimators=40, subsample=0.6, max_depth=3, random_state=0, n_jobs=1)
    else:
        kind = lightgbm.LGBMClassifier if is_classifier else lightgbm.LGBMRegressor
        model = kind(**LIGHTGBM)
    model.fit(X, target)
    found = ens_plugin.training_variance(model, X, NEW, y_train=target)
    predicted = model.predict_proba(NEW) if is_classifier else model.predict(NEW)
    np.testing.assert_allclose(found.prediction, predicted, rtol=1e-4)
    assert found.jackknife is None
    assert any("without replacement" in warning for warning in found.warnings)
    assert np.mean(found.uncorrected) > np.mean(found.variance)


def test_members_that_share_bags_are_refused() -> None:
    model = lightgbm.LGBMRegressor(**{**LIGHTGBM, "subsample_freq": 5}).fit(X, Y)
    with pytest.raises(BagError, match="8 different bags"):
        ens_plugin.training_variance(model, X, NEW, y_train=Y)


def test_several_labels_of_xgboost_are_refused() -> None:
    labels = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
    model = xgboost.XGBRFClassifier(n_estimators=10, subsample=0.6, random_state=0, n_jobs=1).fit(X, labels)
    with pytest.raises(BagError, match="trees of the 3 labels"):
        ens_plugin.training_variance(model, X, NEW, y_train=labels)


@pytest.mark.parametrize("n_rows", [80, 2])
def test_whole_groups_count_as_one_row(n_rows: int) -> None:
    """Each row three times, drawn three at a time, is the ensemble of single rows; so is it with groups."""
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, n_rows, n_rows) for _ in range(60)]
    trees = [DecisionTreeRegressor(random_state=0).fit(X[rows], Y[rows]) for rows in drawn]
    single = ens_plugin.training_variance(ens_plugin.CustomEnsemble.from_estimators(trees, drawn), X[:n_rows], NEW)
    thrice = [np.concatenate([rows, rows + n_rows, rows + 2 * n_rows]) for rows in drawn]
    ensemble = ens_plugin.CustomEnsemble.from_estimators(trees, thrice)
    repeated, groups = np.tile(X[:n_rows], (3, 1)), np.tile(np.arange(n_rows), 3)
    grouped = ens_plugin.training_variance(ensemble, repeated, NEW, groups=groups)
    np.testing.assert_allclose(grouped.variance, single.variance, rtol=1e-9)
    np.testing.assert_allclose(grouped.jackknife, single.jackknife, rtol=1e-9)


def test_repeated_rows_are_warned_of() -> None:
    rows, target = np.repeat(X, 2, axis=0), np.repeat(Y, 2)
    found = ens_plugin.training_variance(forest().fit(rows, target), rows, NEW, y_train=target)
    assert any("80 of 160 training rows equal an earlier one" in warning for warning in found.warnings)


def test_weights_at_fit_are_warned_of_where_rows_are_drawn_by_them() -> None:
    weight = np.random.default_rng(0).lognormal(size=80)
    model = forest().fit(X, Y, sample_weight=weight)
    found = ens_plugin.training_variance(model, X, NEW)
    assert np.isfinite(found.variance).all()
    if getattr(model, "_sample_weight", None) is not None:
        assert any("drawn by weight" in warning for warning in found.warnings)
        # The heaviest rows are in nearly every bag.
        assert found.jackknife is None


def test_balanced_labels_are_warned_of() -> None:
    rows, labels = make_classification(200, weights=[0.8], random_state=0)
    model = RandomForestClassifier(50, class_weight="balanced", random_state=0).fit(rows, labels)
    warnings = ens_plugin.training_variance(model, rows, rows[:5]).warnings
    assert any("class_weight='balanced'" in warning for warning in warnings)


def test_few_trees_are_warned_of_and_fewer_refused() -> None:
    found = ens_plugin.training_variance(forest(8).fit(X, Y), X, NEW)
    assert any(warning.startswith("8 members are too few") for warning in found.warnings)
    assert found.standard_error.min() >= 0
    with pytest.raises(TooFewMembersError, match="has 3 members"):
        ens_plugin.training_variance(forest(3).fit(X, Y), X, NEW)


def test_few_rows_are_warned_of() -> None:
    model = BaggingRegressor(KNeighborsRegressor(1), 50, random_state=0).fit(X[:6], Y[:6])
    found = ens_plugin.training_variance(model, X[:6], NEW)
    assert "Only 6 rows or groups" in found.warnings[0]
    assert np.isfinite(found.variance).all()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (forest(bootstrap=False), "without bootstrap"),
        (BaggingRegressor(random_state=0, bootstrap=False), "bootstrap=False"),
    ],
)
def test_members_without_bags_are_refused(model: Any, words: str) -> None:
    with pytest.raises(BagError, match=words):
        ens_plugin.training_variance(model.fit(X, Y), X, NEW)


def test_ensembles_without_counts_or_new_rows_are_refused() -> None:
    arrays = ens_plugin.CustomEnsemble(np.zeros((5, 80)), np.eye(80, dtype=bool)[:5], aggregation="mean")
    with pytest.raises(BagError, match="from_estimators"):
        ens_plugin.training_variance(arrays, None, None)
    trees = forest(5).fit(X, Y).estimators_
    with pytest.raises(BagError, match="made without bags"):
        ens_plugin.training_variance(ens_plugin.CustomEnsemble.from_estimators(trees, None), X, NEW)
    halves = ens_plugin.CustomEnsemble.from_estimators(trees * 8, np.arange(80) < 40 + np.arange(40)[:, None])
    with pytest.raises(BagError, match="equal chances"):
        ens_plugin.training_variance(halves, X, NEW)


def test_wrong_rows_and_groups_are_refused() -> None:
    model = forest().fit(X, Y)
    with pytest.raises(DataMismatchError):
        ens_plugin.training_variance(model, X[:-1], NEW)
    with pytest.raises(InputError):
        ens_plugin.training_variance(model, X, NEW[:0])
    with pytest.raises(InputError, match="one group per row"):
        ens_plugin.training_variance(model, X, NEW, groups=[1, 2])
    with pytest.raises(InputError, match="names one group"):
        ens_plugin.training_variance(model, X, NEW, groups=np.zeros(80))
    subsamples = BaggingClassifier(max_samples=0.5, bootstrap=False, random_state=0).fit(X, Y > 14)
    with pytest.raises(BagError, match="only for bags drawn with replacement"):
        ens_plugin.training_variance(subsamples, X, NEW, groups=np.arange(80) // 2)
