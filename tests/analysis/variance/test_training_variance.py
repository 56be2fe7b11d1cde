"""The variance over training sets from one ensemble: by its formula, for each library, and where it is refused."""

from __future__ import annotations

from collections.abc import Callable
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
    "n_estimators": 40, "boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1, "min_child_samples": 3,
    "random_state": 0, "verbose": -1, "n_jobs": 1,
}  # fmt: skip


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


def test_weights_at_fit_are_warned_of_where_rows_are_drawn_by_them() -> None:
    weight = np.random.default_rng(0).lognormal(size=80)
    model = forest().fit(X, Y, sample_weight=weight)
    found = ens_plugin.training_variance(model, X, NEW)
    assert np.isfinite(found.variance).all()
    if getattr(model, "_sample_weight", None) is not None:
        assert any("drawn by weight" in warning for warning in found.warnings)
        # The heaviest rows are in nearly every bag.
        assert found.jackknife is None


BALANCED, RARE = make_classification(200, weights=[0.8], random_state=0)
WARNED: dict[str, tuple[Callable[[], Any], Any, Any, str]] = {
    "copies": (forest, np.repeat(X, 2, axis=0), np.repeat(Y, 2), "80 of 160 training rows equal an earlier one"),
    "balanced labels": (
        lambda: RandomForestClassifier(50, class_weight="balanced", random_state=0), BALANCED, RARE,
        "class_weight='balanced'",
    ),
    "few trees": (lambda: forest(8), X, Y, "8 members are too few"),
    "few rows": (
        lambda: BaggingRegressor(KNeighborsRegressor(1), 50, random_state=0), X[:6], Y[:6], "Only 6 rows or groups"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WARNED)
def test_what_makes_the_variance_weak_is_warned_of(case: str) -> None:
    make, rows, y, words = WARNED[case]
    found = ens_plugin.training_variance(make().fit(rows, y), rows, rows[:5] + 0.01, y_train=y)
    assert any(words in warning for warning in found.warnings)
    assert np.isfinite(found.variance).all()
    assert found.standard_error.min() >= 0


def variance_of(model: Any, rows: Any = X, new: Any = NEW, y: Any = Y, **options: Any) -> Callable[[], object]:
    """Of a model that is fitted first, where it is not."""

    def act() -> object:
        fitted = model.fit(X, y) if hasattr(model, "fit") and not hasattr(model, "estimators_") else model
        return ens_plugin.training_variance(fitted, rows, new, **options)

    return act


def given(members: Any, bags: Any) -> Any:
    return ens_plugin.CustomEnsemble.from_estimators(members, bags)


THREE = np.digitize(Y, np.quantile(Y, [0.3, 0.6]))
TREES = forest(5).fit(X, Y).estimators_
HALVES = np.arange(80) < 40 + np.arange(40)[:, None]
ARRAYS = ens_plugin.CustomEnsemble(np.zeros((5, 80)), np.eye(80, dtype=bool)[:5], aggregation="mean")
SUBSAMPLES = BaggingClassifier(max_samples=0.5, bootstrap=False, random_state=0)
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "shared bags": (
        lambda: variance_of(lightgbm.LGBMRegressor(**{**LIGHTGBM, "subsample_freq": 5}), y_train=Y)(),
        BagError, "8 different bags",
    ),
    "three labels of xgboost": (
        lambda: variance_of(
            xgboost.XGBRFClassifier(n_estimators=10, subsample=0.6, random_state=0, n_jobs=1), y=THREE, y_train=THREE
        )(),
        BagError, "trees of the 3 labels",
    ),
    "three trees": (variance_of(forest(3)), TooFewMembersError, "has 3 members"),
    "forest without bootstrap": (variance_of(forest(bootstrap=False)), BagError, "without bootstrap"),
    "bagging without bootstrap": (
        variance_of(BaggingRegressor(random_state=0, bootstrap=False)), BagError, "bootstrap=False"
    ),
    "arrays": (variance_of(ARRAYS, None, None), BagError, "from_estimators"),
    "members without bags": (variance_of(given(TREES, None)), BagError, "made without bags"),
    "unequal chances": (variance_of(given(TREES * 8, HALVES)), BagError, "equal chances"),
    "a row less": (variance_of(forest(), X[:-1]), DataMismatchError, "X has 79 rows"),
    "no new rows": (variance_of(forest(), new=NEW[:0]), InputError, "X cannot be used"),
    "groups too few": (variance_of(forest(), groups=[1, 2]), InputError, "one group per row"),
    "one group": (variance_of(forest(), groups=np.zeros(80)), InputError, "names one group"),
    "groups of subsamples": (
        variance_of(SUBSAMPLES, y=Y > 14, groups=np.arange(80) // 2),
        BagError, "only for bags drawn with replacement",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refusal(case: str) -> None:
    act, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        act()
