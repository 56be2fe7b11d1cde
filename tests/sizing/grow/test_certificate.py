"""Growth until labels are proved, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ens_plugin import RightSizedClassifier, grow
from ens_plugin.core.certificate import RunningVote
from ens_plugin.errors import EnsPluginError, InputError, NotConvergedWarning, UnsupportedModelError
from tests.sizing.grow.cases import X, Y, forest

AT_ONCE: dict[str, Any] = {"certificate": 0.05, "tolerance": 0.1}


def settled_out_of_bag(model: RandomForestClassifier, level: float) -> NDArray[np.bool_]:
    """Which training rows are settled, by a loop over rows and scikit-learn's own record of bags."""
    votes = np.stack([tree.predict(X.astype(np.float32)).astype(int) for tree in model.estimators_])
    is_oob = np.ones(votes.shape, dtype=bool)
    for member, rows in enumerate(model.estimators_samples_):
        is_oob[member, rows] = False
    vote = RunningVote(Y.size, 2, level)
    for own, counted in zip(votes, is_oob, strict=True):
        vote.add(own, counted)
    return vote.settled


def test_growth_ends_when_enough_rows_are_settled() -> None:
    growth = grow(forest(), X, Y, **AT_ONCE)
    assert growth.converged
    assert growth.method == "certificate"
    assert growth.n_members == growth.wanted_size == growth.trained_members == len(growth.model.estimators_)
    *before, last = [step.settled for step in growth.history]
    assert all(share is not None and share < 0.9 for share in before)
    assert last is not None
    assert last >= 0.9
    assert last == pytest.approx(settled_out_of_bag(growth.model, 0.05).mean(), abs=0.004)
    assert growth.reason.startswith(f"{100 * last:.4g} % of the rows are settled by {growth.n_members} members")
    assert "at level 0.05" in growth.reason
    assert growth.report is not None
    assert growth.report.n_members == growth.n_members
    assert growth.to_frame()["settled"].notna().all()


def test_the_members_are_those_of_one_training() -> None:
    growth = grow(forest(), X, Y, **AT_ONCE)
    whole = forest(n_estimators=growth.n_members).fit(X, Y)
    np.testing.assert_array_equal(growth.model.predict_proba(X), whole.predict_proba(X))


def test_max_size_says_how_many_rows_are_settled() -> None:
    with pytest.warns(NotConvergedWarning, match=r"stopped at max_size=60, where \d+\.\d+ % of the rows are settled"):
        growth = grow(forest(), X, Y, certificate=0.01, tolerance=0.01, max_size=60)
    assert growth.n_members == 60
    assert not growth.converged
    assert growth.suffices is False
    assert [step.n_members for step in growth.history] == [50, 60]
    assert "and 99 % are wanted" in growth.reason
    assert "too close to a tie" in growth.reason


def test_a_level_that_is_lower_takes_more_members() -> None:
    sizes = [grow(forest(), X, Y, certificate=level, tolerance=0.15).n_members for level in (0.2, 0.001)]
    assert sizes[0] < sizes[1]


def test_rows_are_settled_by_weight() -> None:
    weight = np.where(np.arange(Y.size) % 2, 1.0, 3.0)
    growth = grow(forest(), X, Y, **AT_ONCE, sample_weight=weight)
    share = np.average(settled_out_of_bag(growth.model, 0.05), weights=weight)
    assert growth.history[-1].settled == pytest.approx(share, abs=0.004)


@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(max_depth=3, random_state=0),
        BaggingClassifier(max_samples=0.5, random_state=0),
        make_pipeline(StandardScaler(), forest()),
    ],
)
def test_other_ensembles_that_vote_or_average(model: Any) -> None:
    growth = grow(model, X, Y, certificate=0.1, tolerance=0.2)
    assert growth.converged
    assert growth.model.predict(X).shape == Y.shape


def test_many_labels() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 300)
    rows = rng.normal(size=(300, 4)) + 3 * np.eye(5)[labels][:, :4]
    assert grow(forest(), rows, labels, certificate=0.1, tolerance=0.3).converged


def test_the_right_sized_classifier_takes_it() -> None:
    model = RightSizedClassifier(random_state=0, **AT_ONCE).fit(X, Y)
    assert model.growth_.method == "certificate"
    assert model.n_members_ == grow(forest(), X, Y, **AT_ONCE).n_members


@pytest.mark.parametrize("level", [0.0, 0.5, 1, -0.1, "0.01", float("nan"), True])
def test_a_level_out_of_range_is_refused(level: Any) -> None:
    with pytest.raises(InputError, match=r"certificate must lie strictly between 0 and 0\.5"):
        grow(forest(), X, Y, certificate=level)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"method": "iterative"}, "method"),
        ({"criterion": "error"}, "criterion"),
        ({"metric": "accuracy"}, "metric"),
    ],
)
def test_other_goals_are_refused(options: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=f"not by {name}"):
        grow(forest(), X, Y, certificate=0.01, **options)


def test_a_share_that_may_stay_unsettled_is_below_a_half() -> None:
    with pytest.raises(InputError, match=r"may stay unsettled, and must be below 0\.5"):
        grow(forest(), X, Y, certificate=0.01, tolerance=0.6)


def test_regression_is_refused() -> None:
    with pytest.raises(InputError, match="is about labels"):
        grow(RandomForestRegressor(), X, Y, certificate=0.01)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_raw_scores_are_refused(library: str) -> None:
    module = pytest.importorskip(library)
    model = module.LGBMClassifier(
        boosting_type="rf", subsample=0.6, subsample_freq=1, verbose=-1
    ) if library == "lightgbm" else module.XGBRFClassifier(random_state=0)  # fmt: skip
    with pytest.raises(UnsupportedModelError, match="raw scores"):
        grow(model, X, Y, certificate=0.01)


def test_boosting_is_refused() -> None:
    with pytest.raises(EnsPluginError, match="boost"):
        grow(GradientBoostingClassifier(), X, Y, certificate=0.01)
