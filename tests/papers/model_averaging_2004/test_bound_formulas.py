from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import t as student

from ens_plugin.errors import InputError
from ens_plugin.papers.model_averaging_2004 import general_sd_bound, mean_bound, published_sd_bound, sd_bound

FloatArray = NDArray[np.float64]

positive = st.floats(1e-3, 1e3)
deltas = st.sampled_from([0.001, 0.01, 0.05, 0.2, 0.9])


def test_bounds_are_their_formulas() -> None:
    assert float(mean_bound(2.0, 25, 0.04)) == pytest.approx(2.0)
    assert float(sd_bound(2.0, 51, 0.04)) == pytest.approx(1.0)
    assert float(published_sd_bound(2.0, 25, 51, 0.04)) == pytest.approx(0.2)
    assert float(general_sd_bound(2.0, 51, 0.04)) == pytest.approx(2.0)
    assert float(general_sd_bound(1.0, 11, 0.05, 1.1)) == pytest.approx(np.sqrt(0.3 / 0.05))


def test_figures_of_the_papers_example() -> None:
    """2004 section 8.2 prints 0.00456 (no root) and 0.0016; eq. 11 gives 0.0161."""
    without_root = 0.057 / (250 * 0.05)
    assert without_root == pytest.approx(0.00456, abs=5e-6)
    assert float(mean_bound(0.057, 250, 0.05)) == pytest.approx(0.01612, abs=1e-5)
    assert float(mean_bound(np.sqrt(0.25 / 50), 250, 0.05)) == pytest.approx(0.02)
    assert float(published_sd_bound(0.057, 250, 50, 0.05)) == pytest.approx(0.0016, abs=5e-5)


@given(st.lists(positive, min_size=1, max_size=4), st.integers(2, 10_000), deltas)
def test_bounds_take_arrays_scale_and_fall(sd: list[float], models: int, delta: float) -> None:
    for bound in (mean_bound, sd_bound, general_sd_bound):
        values = bound(sd, models, delta)
        assert values.shape == (len(sd),)
        np.testing.assert_allclose(bound(2 * np.array(sd), models, delta), 2 * values)
        assert np.all(bound(sd, 4 * models, delta) < values)
        assert np.all(bound(sd, models, delta / 2) > values)


def test_normal_bound_rests_on_an_inequality_that_holds() -> None:
    """E(S - sigma)^2 = 2 sigma^2 (1 - c4(T)) is at most sigma^2 / (2 (T - 1)), for every T."""
    models = np.arange(2.0, 20_000.0)
    c4 = np.sqrt(2 / (models - 1)) * np.exp(gammaln(models / 2) - gammaln((models - 1) / 2))
    assert np.all(2 * (1 - c4) <= 1 / (2 * (models - 1)))


@pytest.mark.parametrize("models", [3, 5, 20, 200])
def test_mean_bound_covers_student_with_the_models_own_sd(models: int) -> None:
    delta = np.geomspace(1e-6, 0.9, 50)
    needed = student.isf(delta / 2, models - 1)
    allowed = [float(mean_bound(1.0, models, chance)) * np.sqrt(models) for chance in delta]
    assert np.all(needed <= np.array(allowed))


def exceeded(draws: FloatArray, delta: float, excess_kurtosis: float, sd: float, mean: float) -> list[float]:
    """How often each bound is exceeded, with the true standard deviation and with the models' own."""
    n_models = draws.shape[1]
    own = draws.std(axis=1, ddof=1)
    return [
        float(np.mean(np.abs(draws.mean(axis=1) - mean) > mean_bound(sd, n_models, delta))),
        float(np.mean(np.abs(draws.mean(axis=1) - mean) > mean_bound(own, n_models, delta))),
        float(np.mean(np.abs(own - sd) > sd_bound(sd, n_models, delta))),
        float(np.mean(np.abs(own - sd) > sd_bound(own, n_models, delta))),
        float(np.mean(np.abs(own - sd) > general_sd_bound(sd, n_models, delta, excess_kurtosis))),
    ]


@pytest.mark.parametrize("n_rows", [20, 100, 500])
@pytest.mark.parametrize("n_models", [10, 100, 1000])
def test_bounds_hold_for_a_bootstrapped_share(n_rows: int, n_models: int) -> None:
    """2004 section 8.2, 2000 repetitions: exceeded in at most delta of them."""
    rng = np.random.default_rng([n_rows, n_models])
    for share in (0.5, 0.1):
        draws = rng.binomial(n_rows, share, size=(2000, n_models)) / n_rows
        variance = share * (1 - share)
        sd, kurtosis = np.sqrt(variance / n_rows), (1 - 6 * variance) / (n_rows * variance)
        for delta in (0.01, 0.05, 0.2):
            assert max(exceeded(draws, delta, kurtosis, float(sd), share)) <= delta


def test_general_bound_holds_where_the_normal_one_does_not() -> None:
    """A rare large value: kurtosis matters."""
    rng = np.random.default_rng(0)
    share = 0.002
    draws = (rng.random((4000, 200)) < share).astype(np.float64)
    variance = share * (1 - share)
    own = draws.std(axis=1, ddof=1)
    miss = np.abs(own - np.sqrt(variance))
    assert np.mean(miss > sd_bound(np.sqrt(variance), 200, 0.3)) > 0.3
    kurtosis = (1 - 6 * variance) / variance
    assert np.mean(miss > general_sd_bound(np.sqrt(variance), 200, 0.3, kurtosis)) <= 0.3


def test_published_bound_is_exceeded_more_often_than_not() -> None:
    rng = np.random.default_rng(1)
    draws = rng.binomial(50, 0.5, size=(4000, 250)) / 50
    miss = np.abs(draws.std(axis=1, ddof=1) - np.sqrt(0.005))
    assert np.mean(miss > published_sd_bound(np.sqrt(0.005), 250, 50, 0.05)) > 0.4
    assert np.mean(np.abs(draws.mean(axis=1) - 0.5) > 0.00456) > 0.25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_bound(-1.0, 10), "sd must hold finite"),
        (lambda: mean_bound([np.nan], 10), "sd must hold finite"),
        (lambda: mean_bound("a", 10), "sd must hold numbers"),
        (lambda: mean_bound(1.0, 0), "n_models must be a whole number of at least 1"),
        (lambda: mean_bound(1.0, 10, 0.0), "delta must lie"),
        (lambda: sd_bound(1.0, 1), "n_models must be a whole number of at least 2"),
        (lambda: sd_bound(np.inf, 10), "sd must hold finite"),
        (lambda: sd_bound(1.0, 10, 1.0), "delta must lie"),
        (lambda: general_sd_bound(1.0, 1), "n_models must be a whole number of at least 2"),
        (lambda: general_sd_bound(1.0, 10, 0.05, -3.0), "excess_kurtosis must be"),
        (lambda: general_sd_bound(1.0, 10, 0.05, np.nan), "excess_kurtosis must be"),
        (lambda: published_sd_bound(1.0, 10, 1), "n_rows must be a whole number of at least 2"),
        (lambda: published_sd_bound(1.0, 0, 10), "n_models must be"),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
