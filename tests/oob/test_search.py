"""Searches of scikit-learn without folds, scored by out-of-bag error."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401  (what makes the halving searches importable)
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate

import ens_plugin
from ens_plugin import OneFold, make_oob_scorer
from ens_plugin.errors import BagError, DataMismatchError, InputError

RELEASE = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
forwards_weights = pytest.mark.skipif(RELEASE < (1, 7), reason="searches pass sample_weight to scorers since 1.7")

X, Y = make_classification(120, 6, n_informative=4, flip_y=0.1, random_state=0)
FOREST = RandomForestClassifier(25, random_state=0)
MODEL = clone(FOREST).fit(X, Y)
GRID: dict[str, list[Any]] = {"min_samples_leaf": [1, 10]}
OPTIONS: dict[str, Any] = {"cv": OneFold(), "error_score": "raise"}


def error(setting: dict[str, Any]) -> float:
    """The error at infinity of one setting, fitted and analysed by hand."""
    return ens_plugin.analyze(clone(FOREST).set_params(**setting).fit(X, Y), X, Y).error_curve.asymptote


def test_score_is_minus_the_error_of_one_fit_on_all_rows() -> None:
    search = RandomizedSearchCV(FOREST, GRID, n_iter=2, scoring=make_oob_scorer(), random_state=0, **OPTIONS).fit(X, Y)
    results = search.cv_results_
    expected = [-error(setting) for setting in results["params"]]
    assert results["mean_test_score"].tolist() == expected
    assert search.best_params_ == results["params"][int(np.argmax(expected))]
    assert search.n_splits_ == 1


def test_score_at_a_size() -> None:
    curve = ens_plugin.analyze(MODEL, X, Y).error_curve
    for size in (7, 1000):
        assert make_oob_scorer(size=size)(MODEL, X, Y) == -curve.at(size)


def brier(y: Any, probability: Any) -> float:
    return float(np.mean((probability[:, 1] - y) ** 2))


def test_a_metric_of_ones_own_reaches_analyze() -> None:
    assert make_oob_scorer(brier)(MODEL, X, Y) == -ens_plugin.analyze(MODEL, X, Y, metric=brier).error_curve.asymptote
    with pytest.raises(InputError, match="no name of a scorer"):
        make_oob_scorer("no such metric")(MODEL, X, Y)  # type: ignore[arg-type]


def test_direction_is_that_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    score = make_oob_scorer()(MODEL, X, Y)
    monkeypatch.setattr(ens_plugin.ErrorCurve, "greater_is_better", property(lambda _: True))
    assert make_oob_scorer()(MODEL, X, Y) == -score


def test_scorer_is_cloned_pickled_and_printed() -> None:
    scorer = make_oob_scorer(brier, size=50)
    twin = pickle.loads(pickle.dumps(clone(scorer, safe=False)))
    assert (twin.metric, twin.size) == (brier, 50)
    assert repr(twin) == "make_oob_scorer(metric='brier', size=50)"
    assert repr(make_oob_scorer()) == "make_oob_scorer(size=inf)"


@pytest.mark.parametrize("size", [0, -1, 2.5, -math.inf, math.nan, "10", None])
def test_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(InputError, match="size must be a whole number of at least 1"):
        make_oob_scorer(size=size)


def test_a_setting_without_bags_and_folds_are_refused() -> None:
    grid = {"bootstrap": [True, False]}
    with pytest.raises(
        BagError, match=r"This setting cannot be scored .* trained without bootstrap, .* leave the setting"
    ):
        GridSearchCV(FOREST, grid, scoring=make_oob_scorer(), **OPTIONS).fit(X, Y)
    lenient = GridSearchCV(FOREST, grid, scoring=make_oob_scorer(), cv=OneFold())
    with (
        pytest.warns(UserWarning, match="test scores are non-finite"),
        pytest.warns(UserWarning, match=r"(?s)Scoring failed.*trained without bootstrap"),
    ):
        lenient.fit(X, Y)
    assert np.isnan(lenient.cv_results_["mean_test_score"]).tolist() == [False, True]
    assert lenient.best_params_ == {"bootstrap": True}
    with pytest.raises(DataMismatchError, match=r"cv=ens_plugin.OneFold\(\)"):
        GridSearchCV(FOREST, {}, scoring=make_oob_scorer(), cv=3, error_score="raise").fit(X, Y)
    with pytest.raises(InputError, match="needs the target"):
        make_oob_scorer()(MODEL, X)


def test_one_fold_has_all_rows_in_order() -> None:
    for rows in (X, pd.DataFrame(X), X.tolist()):
        ((train, test),) = OneFold().split(rows)
        np.testing.assert_array_equal(train, np.arange(len(Y)))
        np.testing.assert_array_equal(test, np.arange(len(Y)))
    assert OneFold().get_n_splits(X, Y) == 1
    found = cross_validate(clone(FOREST), X, Y, cv=OneFold(), scoring=make_oob_scorer(), error_score="raise")
    assert found["test_score"].tolist() == [-error({})]


WEIGHTS = np.random.default_rng(0).integers(1, 4, len(Y)).astype(float)


@forwards_weights
def test_weights_of_the_fit_weigh_the_error() -> None:
    search = GridSearchCV(FOREST, {}, scoring=make_oob_scorer(), **OPTIONS).fit(X, Y, sample_weight=WEIGHTS)
    model = clone(FOREST).fit(X, Y, sample_weight=WEIGHTS)
    expected = ens_plugin.analyze(model, X, Y, sample_weight=WEIGHTS).error_curve.asymptote
    assert search.best_score_ == -expected
    with pytest.raises(InputError, match="takes no weights"):
        GridSearchCV(FOREST, {}, scoring=make_oob_scorer(brier), **OPTIONS).fit(X, Y, sample_weight=WEIGHTS)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("routing")
def test_weights_and_groups_by_metadata_routing() -> None:
    forest = clone(FOREST).set_params(max_samples=0.3).set_fit_request(sample_weight=True)
    groups = np.arange(len(Y)) // 2

    def best(scorer: Any, **metadata: Any) -> float:
        return float(GridSearchCV(forest, {}, scoring=scorer, **OPTIONS).fit(X, Y, **metadata).best_score_)

    model = clone(forest).fit(X, Y, sample_weight=WEIGHTS)
    weighed = ens_plugin.analyze(model, X, Y, sample_weight=WEIGHTS).error_curve.asymptote
    assert best(make_oob_scorer().set_score_request(sample_weight=True), sample_weight=WEIGHTS) == -weighed
    plain = ens_plugin.analyze(model, X, Y).error_curve.asymptote
    assert best(make_oob_scorer().set_score_request(sample_weight=False), sample_weight=WEIGHTS) == -plain
    with pytest.raises(UnsetMetadataPassedError, match="OobScorer"):
        best(make_oob_scorer(), sample_weight=WEIGHTS)
    model = clone(forest).fit(X, Y)
    grouped = ens_plugin.analyze(model, X, Y, groups=groups).error_curve.asymptote
    assert best(make_oob_scorer().set_score_request(groups=True), groups=groups) == -grouped


def test_groups_without_metadata_routing() -> None:
    forest, groups = clone(FOREST).set_params(max_samples=0.3), np.arange(len(Y)) // 2
    with pytest.raises(InputError, match=r"functools.partial\(make_oob_scorer\(\), groups=groups\)"):
        GridSearchCV(forest, {}, scoring=make_oob_scorer(), **OPTIONS).fit(X, Y, groups=groups)
    search = GridSearchCV(forest, {}, scoring=partial(make_oob_scorer(), groups=groups), **OPTIONS).fit(X, Y)
    expected = ens_plugin.analyze(clone(forest).fit(X, Y), X, Y, groups=groups).error_curve.asymptote
    assert search.best_score_ == -expected
