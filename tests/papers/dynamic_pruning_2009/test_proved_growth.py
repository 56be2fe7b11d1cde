"""Growth until labels are proved, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

from ens_plugin.errors import EnsPluginError, InputError, NotConvergedWarning, UnsupportedModelError
from ens_plugin.papers.dynamic_pruning_2009 import grow_until_proved
from ens_plugin.papers.dynamic_pruning_2009.certificate import RunningVote

X, Y = load_breast_cancer(return_X_y=True)
AT_ONCE: dict[str, Any] = {"level": 0.05, "unsettled": 0.1}


def forest(**options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(random_state=0, **options)


def settled_out_of_bag(model: RandomForestClassifier, level: float) -> NDArray[np.bool_]:
    """Which training rows are settled in the end, by scikit-learn's own record of bags."""
    vote = RunningVote(Y.size, 2, level)
    for tree, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
        is_oob = np.ones(Y.size, dtype=bool)
        is_oob[rows] = False
        vote.add(tree.predict(X.astype(np.float32)).astype(int), is_oob)
    return vote.settled


def test_growth_ends_when_enough_rows_are_settled() -> None:
    model, history = grow_until_proved(forest(), X, Y, **AT_ONCE)
    *before, last = history.values()
    assert all(share < 0.9 for share in before)
    assert last >= 0.9
    assert last == pytest.approx(settled_out_of_bag(model, 0.05).mean(), abs=0.004)
    assert list(history)[:2] == [50, 75]
    assert max(history) == len(model.estimators_)
    whole = forest(n_estimators=max(history)).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))


def test_max_size_says_how_many_rows_are_settled() -> None:
    with pytest.warns(NotConvergedWarning, match=r"60 members settle \d+\.\d+ % of the rows, and 99 % are wanted"):
        model, history = grow_until_proved(forest(), X, Y, unsettled=0.01, max_size=60)
    assert list(history) == [50, 60]
    assert len(model.estimators_) == 60


def test_a_level_that_is_lower_takes_more_members() -> None:
    sizes = [max(grow_until_proved(forest(), X, Y, level=level, unsettled=0.15)[1]) for level in (0.2, 0.001)]
    assert sizes[0] < sizes[1]


@pytest.mark.parametrize("model", [forest(max_depth=3), BaggingClassifier(max_samples=0.5, random_state=0)])
def test_other_ensembles_that_vote_or_average(model: Any) -> None:
    grown, history = grow_until_proved(model, X, Y, level=0.1, unsettled=0.2)
    assert list(history.values())[-1] >= 0.8
    assert grown.predict(X).shape == Y.shape


def test_many_labels() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 300)
    rows = rng.normal(size=(300, 4)) + 3 * np.eye(5)[labels][:, :4]
    assert list(grow_until_proved(forest(), rows, labels, level=0.1, unsettled=0.3)[1].values())[-1] >= 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.5}, "level must lie strictly between 0 and 0.5"),
        ({"unsettled": 0.0}, "unsettled must lie strictly between 0 and 1"),
        ({"max_size": 0}, "max_size must be"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        grow_until_proved(forest(), X, Y, **options)


def test_members_without_labels_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="give values"):
        grow_until_proved(RandomForestRegressor(), X, Y)
    with pytest.raises(EnsPluginError, match="boost"):
        grow_until_proved(GradientBoostingClassifier(), X, Y)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_raw_scores_are_refused(library: str) -> None:
    module = pytest.importorskip(library)
    model = module.LGBMClassifier(
        boosting_type="rf", subsample=0.6, subsample_freq=1, verbose=-1
    ) if library == "lightgbm" else module.XGBRFClassifier(random_state=0)  # fmt: skip
    with pytest.raises(UnsupportedModelError, match="give scores"):
        grow_until_proved(model, X, Y)
