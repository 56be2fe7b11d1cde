"""Rows that belong together with those before and after them are doubted, without groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.analysis.checks import is_sorted
from ens_plugin.errors import WeakEstimateWarning

Table = tuple[NDArray[Any], NDArray[Any]]
FOUND = "Members that were trained on neither neighbour of a row"


def pairs(n_pairs: int, seed: int = 0) -> Table:
    """Two measurements of each subject, one after the other, too far apart to be copies."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(n_pairs, 8)), 2, axis=0) + 0.3 * rng.normal(size=(2 * n_pairs, 8))
    return X, np.repeat(rng.integers(0, 2, n_pairs), 2)


def found(report: EnsembleReport) -> bool:
    return any(text.startswith(FOUND) for text in report.basis.doubts)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(60, random_state=0),
        BaggingClassifier(DecisionTreeClassifier(), 60, random_state=0),
        BaggingClassifier(RidgeClassifier(), 60, random_state=0),
    ],
    ids=["probabilities", "trees", "linear"],
)
def test_pairs_of_rows_are_doubted_where_members_fit_them(model: Any) -> None:
    X, y = pairs(300)
    fits_rows = not isinstance(getattr(model, "estimator", None), RidgeClassifier)
    assert found(ens_plugin.analyze(model.fit(X, y), X, y)) == fits_rows
    assert not found(ens_plugin.analyze(model, X, y, groups=np.arange(y.size)))


def test_sorted_rows_are_a_warning() -> None:
    x = np.linspace(0, 10, 400)[:, None]
    report = ens_plugin.analyze(RandomForestRegressor(60, random_state=0).fit(x, np.sin(x[:, 0])), x, np.sin(x[:, 0]))
    assert not found(report)
    assert any(text.startswith(FOUND) and "sorted" in text for text in report.warnings)


def test_sorting_is_found_in_columns_of_many_values() -> None:
    rng, y = np.random.default_rng(0), np.array([1, 0] * 100)
    X = rng.normal(size=(200, 3))
    assert not is_sorted(X, y)
    assert is_sorted(np.column_stack([X, -np.arange(200)]), y)
    assert is_sorted(pd.DataFrame(X).assign(day=np.arange(200)), y)
    assert not is_sorted(np.column_stack([X, np.arange(200) // 2, np.ones(200)]), np.sort(y))
    assert not is_sorted(pd.DataFrame({"a": ["u", "v"] * 100}), y)
    assert not is_sorted(None, y)
    assert is_sorted(None, np.sort(X[:, 0]))


def test_what_rests_on_out_of_bag_rows_states_the_same_doubt() -> None:
    X, y = pairs(300)
    forest = RandomForestClassifier(60, random_state=0).fit(X, y)
    (doubt,) = ens_plugin.analyze(forest, X, y).basis.doubts
    beginning = doubt[: len(FOUND)]
    importance = ens_plugin.oob_permutation_importance(forest, X, y, n_repeats=1, max_rows=50)
    uncertain = ens_plugin.predict_with_uncertainty(forest, X, y, X[:3])
    for found_there in (importance.warnings, uncertain.warnings):
        assert sum(text.startswith(beginning) for text in found_there) == 1
    with pytest.warns(WeakEstimateWarning, match=beginning):
        ens_plugin.oob_predictions(forest, X, y)
    with pytest.warns(WeakEstimateWarning, match=beginning):
        ens_plugin.make_oob_scorer()(forest, X, y)


def windows(seed: int = 0) -> Table:
    """Twenty values of a random walk; the target is the mean of the next ten, relative to the last."""
    walk = np.cumsum(np.random.default_rng(seed).normal(size=1230))
    X = np.lib.stride_tricks.sliding_window_view(walk, 20)[:1200]
    return X, np.lib.stride_tricks.sliding_window_view(walk, 10)[20:1220].mean(axis=1) - X[:, -1]


def test_windows_that_overlap_are_doubted() -> None:
    X, y = windows()
    report = ens_plugin.analyze(RandomForestRegressor(60, random_state=0).fit(X, y), X, y)
    assert found(report)
    blocks = np.arange(y.size) // 100
    model = RandomForestRegressor(60, max_samples=0.02, random_state=0).fit(X, y)
    assert not found(ens_plugin.analyze(model, X, y, groups=blocks))
