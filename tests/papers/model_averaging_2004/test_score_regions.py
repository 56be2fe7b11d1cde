from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.papers.model_averaging_2004 import models_by_row, models_to_settle, score_regions, settled_rows

FloatArray = NDArray[np.float64]

MEANS = np.array([[0.30, 0.10, 0.05], [0.21, 0.20, 0.02], [0.101, 0.10, 0.099]])


def drawn(rng: np.random.Generator, n_models: int, noise: float = 0.02) -> FloatArray:
    """Logarithms of positive scores around MEANS."""
    return np.asarray(np.log(MEANS * np.exp(noise * rng.standard_normal((n_models, *MEANS.shape)))))


def test_regions_are_mean_and_bound_relative_to_the_largest_score() -> None:
    scores = np.array([[[0.3, 0.1]], [[0.2, 0.1]], [[0.25, 0.4]]])
    regions = score_regions(np.log(scores), 0.1)
    relative = scores / 0.4
    half = relative.std(axis=0, ddof=1) / np.sqrt(3 * 0.1)
    np.testing.assert_allclose(regions.mean, relative.mean(axis=0))
    np.testing.assert_allclose(regions.lower, relative.mean(axis=0) - half)
    np.testing.assert_allclose(regions.upper, relative.mean(axis=0) + half)


def test_a_score_of_zero_and_scores_that_underflow_are_fine() -> None:
    logs = drawn(np.random.default_rng(0), 200)
    logs[:, :, 2] = -np.inf
    np.testing.assert_array_equal(settled_rows(logs - 5000.0), settled_rows(logs))
    assert settled_rows(logs).tolist() == [True, True, False]
    assert np.all(score_regions(logs).upper[:, 2] == 0)


@given(st.permutations(range(3)), st.permutations(range(3)), st.integers(0, 1000))
def test_order_of_models_rows_and_labels_does_not_matter(rows: list[int], labels: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    logs = drawn(rng, 30, 0.1)
    moved = logs[rng.permutation(30)][:, rows][:, :, labels]
    np.testing.assert_array_equal(settled_rows(moved), settled_rows(logs)[rows])
    assert models_to_settle(moved, 0.6) == models_to_settle(logs, 0.6)


@given(st.integers(0, 1000), st.sampled_from([0.001, 0.05, 0.5]))
def test_a_smaller_chance_settles_fewer_rows(seed: int, delta: float) -> None:
    logs = drawn(np.random.default_rng(seed), 40, 0.2)
    assert np.all(settled_rows(logs, delta / 5) <= settled_rows(logs, delta))


@pytest.mark.parametrize(("n_models", "delta"), [(3, 0.2), (10, 0.2), (100, 0.05)])
def test_settled_labels_are_those_of_infinitely_many_models(n_models: int, delta: float) -> None:
    """Two labels a quarter of a standard error apart: the worst that can be settled by mistake."""
    rng = np.random.default_rng(n_models)
    wrongly = 0
    for _ in range(2000):
        gap = 0.25 / np.sqrt(n_models)
        scores = 10.0 + rng.standard_normal((n_models, 1, 2)) + np.array([gap, 0.0])
        settled = settled_rows(np.log(scores), delta)[0]
        wrongly += bool(settled and scores.mean(axis=0)[0].argmax() == 1)
    assert wrongly / 2000 <= delta


def test_extrapolated_number_of_models_settles_the_wanted_share() -> None:
    """Two of three rows: from 50 models, then the number estimated."""
    pilot = drawn(np.random.default_rng(0), 50, 0.1)
    wanted = models_to_settle(pilot, 0.6)
    assert wanted is not None
    assert not settled_rows(pilot)[1]
    grown = drawn(np.random.default_rng(1), int(1.3 * wanted), 0.1)
    assert settled_rows(grown)[:2].all()


def test_extrapolation_agrees_with_the_regions_of_the_models_at_hand() -> None:
    """A row is settled at T models just if the extrapolation from those T needs no more."""
    for seed in range(20):
        logs = drawn(np.random.default_rng(seed), 200, 0.15)
        for row in range(3):
            wanted = models_to_settle(logs[:, [row]])
            assert wanted is not None
            assert settled_rows(logs[:, [row]])[0] == (wanted <= 200)


def test_tied_labels_are_never_settled() -> None:
    logs = np.log(np.full((10, 2, 2), 0.5))
    assert not settled_rows(logs).any()
    assert models_to_settle(logs) is None
    logs[:, 0, 0] = np.log(0.6)
    assert models_to_settle(logs, 0.5) == 3


@pytest.mark.parametrize("function", [score_regions, settled_rows, models_by_row, models_to_settle])
def test_bad_input_is_named(function: object) -> None:
    assert callable(function)
    good = np.log(np.full((5, 2, 2), 0.5))
    for bad in (good[0], good[:, :, :1], good[:, :0], np.zeros(3)):
        with pytest.raises(InputError, match="log_scores must have shape"):
            function(bad)
    with pytest.raises(InputError, match="log_scores must hold numbers"):
        function("scores")
    with pytest.raises(TooFewMembersError, match="log_scores holds 2 model"):
        function(good[:2])
    for value in (np.nan, np.inf):
        broken = good.copy()
        broken[0, 0, 0] = value
        with pytest.raises(InputError, match="NaN or plus infinity"):
            function(broken)
    empty = good.copy()
    empty[:, 0] = -np.inf
    with pytest.raises(InputError, match="scores are 0 for every label"):
        function(empty)
    for delta in (0.0, 1.0, np.nan):
        with pytest.raises(InputError, match="delta must lie strictly"):
            function(good, delta=delta)


def test_share_is_checked() -> None:
    with pytest.raises(InputError, match="share must lie strictly"):
        models_to_settle(np.log(np.full((5, 2, 2), 0.5)), share=1.0)


def test_models_by_row_answer_for_each_row_what_the_regions_say() -> None:
    logs = np.concatenate([drawn(np.random.default_rng(seed), 200, 0.15) for seed in range(20)], axis=1)
    logs[:, 4] = np.log(0.5)
    by_row = models_by_row(logs, 0.1)
    np.testing.assert_array_equal(by_row <= 200, settled_rows(logs, 0.1))
    assert 0 < np.mean(by_row <= 200) < 1
    assert np.isinf(by_row[4])
    assert models_to_settle(logs, 0.5, 0.1) == np.sort(by_row)[29]


@pytest.mark.parametrize(
    ("spread", "n_models", "share"), [(3.0, 25, 0.39), (3.0, 1000, 0.06), (1.5, 25, 0.02), (1.5, 1000, 0.0)]
)
def test_a_rival_of_rare_large_scores_is_excluded_as_often_as_documented(
    spread: float, n_models: int, share: float
) -> None:
    rng = np.random.default_rng(0)
    rival = np.log(1.1) - spread**2 / 2 + spread * rng.normal(size=(n_models, 2000))
    logs = np.stack([np.zeros_like(rival), rival], axis=2)
    excluded = settled_rows(logs, 0.05) & (np.exp(rival).mean(axis=0) < 1.0)
    # Four standard errors of 2000 rows, and the digits that the docstring leaves out.
    assert abs(excluded.mean() - share) < 0.005 + 4 * np.sqrt(max(share, 1e-4) / 2000)
