"""Proofs of labels output by output: how often a wrong label is ever settled, by brute force."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

from ens_plugin.core.certificate import is_settled
from ens_plugin.errors import EnsPluginError, InputError, NotConvergedWarning, UnsupportedModelError
from ens_plugin.papers.dynamic_pruning_2009 import grow_until_proved
from ens_plugin.papers.dynamic_pruning_2009.certificate import RunningVote, settled_rows
from ens_plugin.papers.dynamic_pruning_2009.stopping import certificate_table, checkpoints
from ens_plugin.papers.members import Members

FloatArray = NDArray[np.float64]
Draw = Callable[[], NDArray[Any]]


def needed_votes(n_draws: int, level: float) -> NDArray[np.int64]:
    """The smallest count of votes for one of two labels that settles it, after 1, 2, ... votes."""
    found = []
    for size in range(1, n_draws + 1):
        votes = np.arange(size + 1)
        settled = is_settled(np.stack([size - votes, votes], axis=1), level) & (2 * votes > size)
        found.append(int(np.argmax(settled)) if settled.any() else size + 1)
    return np.array(found)


def ever_settled(vote: RunningVote, n_draws: int, draw: Draw, n_rows: int) -> NDArray[np.int64]:
    """The first label that is settled on each row, -1 if none."""
    first = np.full(n_rows, -1)
    for _ in range(n_draws):
        vote.add(draw())
        new = vote.settled & (first < 0)
        first[new] = vote.labels[new]
    return first


def voters(rng: np.random.Generator, shares: list[float], n_rows: int) -> Draw:
    steps = np.cumsum(shares)[:-1]
    return lambda: np.searchsorted(steps, rng.random(n_rows), side="right")


NEAR_A_TIE = {
    "a third and a little": [0.36, 0.32, 0.32],
    "thirds": [0.34, 0.33, 0.33],
    "quarters": [0.26, 0.25, 0.25, 0.24],
    "two of four": [0.42, 0.41, 0.01, 0.16],
    "halves": [0.501, 0.499, 0.0],
    "tenths": [0.104, *[0.0996] * 8, 0.0992],
}


@pytest.mark.fast_cases("thirds", "halves")
@pytest.mark.parametrize("shares", NEAR_A_TIE.values(), ids=NEAR_A_TIE)
def test_of_many_labels_near_a_tie_a_wrong_one_is_hardly_ever_settled(shares: list[float]) -> None:
    rng, level, rows = np.random.default_rng(1), 0.1, 4000
    vote = RunningVote(rows, len(shares), level)
    first = ever_settled(vote, 400, voters(rng, shares, rows), rows)
    assert np.mean(first > 0) <= level


def test_one_vote_among_many_labels_settles_nothing() -> None:
    # A wealth for each pair of labels would settle the first vote here, which is wrong for nearly all rows.
    vote = RunningVote(50, 50, 0.49)
    vote.add(np.arange(50))
    assert not vote.settled.any()
    assert not is_settled(np.eye(50), 0.49).any()


@pytest.mark.fast_cases("1.0")
@pytest.mark.parametrize("best", [1.0, 0.95])
def test_probabilities_with_rare_large_values(best: float) -> None:
    # The mean of the first label is 1/2; nine members in ten are on the side of the second.
    usual = (0.5 - 0.1 * best) / 0.9
    rng, level, rows = np.random.default_rng(3), 0.1, 4000

    def draw() -> FloatArray:
        first = np.where(rng.random(rows) < 0.1, best, usual)
        return np.stack([first, 1.0 - first], axis=1)

    first = ever_settled(RunningVote(rows, 2, level), 1000, draw, rows)
    assert np.mean(first == 0) <= level
    assert np.mean(first == 1) <= level


def test_probabilities_of_three_labels_at_a_tie() -> None:
    rng, level, rows = np.random.default_rng(4), 0.1, 4000
    first = ever_settled(RunningVote(rows, 3, level), 400, lambda: rng.dirichlet([0.3, 0.3, 0.3], rows), rows)
    for label in range(3):
        assert np.mean(first == label) <= level


def test_clear_labels_are_settled_soon() -> None:
    rng, rows = np.random.default_rng(5), 1000
    vote = RunningVote(rows, 10, 0.01)
    first = ever_settled(vote, 100, voters(rng, [0.7, 0.2, *[0.0125] * 8], rows), rows)
    assert np.mean(first == 0) > 0.95
    # Probabilities vary less than votes do, and settle a lead that votes would leave open.
    soft = RunningVote(rows, 2, 0.01)
    first = ever_settled(soft, 60, lambda: np.tile([0.6, 0.4], (rows, 1)), rows)
    assert (first == 0).all()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([2, 4]), st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 1, 2, 3]), min_size=1, max_size=60))
def test_counts_alone_settle_no_more_than_the_votes_in_any_order(n_labels: int, votes: list[int]) -> None:
    codes = np.array(votes) % n_labels
    vote = RunningVote(1, n_labels, 0.2)
    for one in codes:
        vote.add(np.array([one]))
    if is_settled(np.bincount(codes, minlength=n_labels)[None], 0.2)[0]:
        assert vote.settled[0]


@pytest.mark.parametrize("level", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("share", [0.5, 0.4])
def test_the_table_settles_the_rarer_label_of_all_sequences_with_at_most_the_level(level: float, share: float) -> None:
    n_members = 13
    table = certificate_table(checkpoints(n_members), level)
    wrong = 0.0
    for votes in product([0, 1], repeat=n_members):
        counts = np.cumsum(votes)
        chance = share ** counts[-1] * (1 - share) ** (n_members - counts[-1])
        for place, checkpoint in enumerate(table.checkpoints[:-1].tolist()):
            count = counts[checkpoint - 1]
            if table.settled(place, np.array([count]))[0]:
                wrong += chance * (count >= table.upper[place])
                break
    assert wrong <= level + 1e-12


def test_the_table_of_a_known_number_of_members_settles_no_later_than_counts_alone() -> None:
    table = certificate_table(checkpoints(501), 0.01)
    bounds = needed_votes(501, 0.01)[table.checkpoints - 1]
    assert (table.upper[:-1] <= bounds[:-1]).all()
    assert (table.upper[:-1] < bounds[:-1]).mean() > 0.5
    np.testing.assert_array_equal(table.lower[:-1], table.checkpoints[:-1] - table.upper[:-1])


def test_members_left_out_change_nothing() -> None:
    rng = np.random.default_rng(6)
    outputs = np.where(rng.random((300, 40)) < 0.72, 2, rng.integers(0, 3, (300, 40)))
    counted = rng.random((300, 40)) < 0.4
    members = Members(outputs, counted, np.zeros(40, dtype=np.int64), np.arange(3), "labels")
    found = settled_rows(members, 0.01)
    for row in range(40):
        vote = RunningVote(1, 3, 0.01)
        settled_as = -1
        for member in np.flatnonzero(counted[:, row]):
            vote.add(outputs[member, row : row + 1])
            if settled_as < 0 and vote.settled[0]:
                settled_as = int(vote.labels[0])
        votes = np.bincount(outputs[counted[:, row], row], minlength=3)
        assert found[row] == (settled_as == votes.argmax())
    assert 0 < found.sum() <= 40


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


@pytest.mark.parametrize("model", [forest(max_depth=3), BaggingClassifier(max_samples=0.5, random_state=0)])
def test_other_ensembles_that_vote_or_average(model: Any) -> None:
    grown, history = grow_until_proved(model, X, Y, level=0.1, unsettled=0.2)
    assert list(history.values())[-1] >= 0.8
    assert grown.predict(X).shape == Y.shape


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
