from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import genpareto, norm

from ens_plugin.core.intervals import FittedTail, LargestValues, fit_tail, hall_limits, largest_values

FloatArray = NDArray[np.float64]


def tail_of(values: FloatArray, weights: FloatArray | None = None) -> FittedTail | None:
    w = np.ones(values.size) if weights is None else weights
    mean = float(np.average(values, weights=w))
    variance = float(np.average((values - mean) ** 2, weights=w))
    return fit_tail(largest_values(values, w), mean, variance, float(w.sum()), float(w.sum() ** 2 / (w @ w)))


def test_limits_without_skewness_are_normal_and_mirror_each_other() -> None:
    np.testing.assert_allclose(hall_limits(0.0, 0.95), 1.959964, rtol=1e-6)
    np.testing.assert_allclose(hall_limits(1e-5, 0.95), 1.959964, rtol=1e-3)
    assert hall_limits(-0.4, 0.9) == pytest.approx(hall_limits(0.4, 0.9)[::-1])


@pytest.mark.parametrize("skewness", [0.05, 0.3, 0.9])
def test_limits_invert_halls_transformation(skewness: float) -> None:
    below, above = hall_limits(skewness, 0.95)
    t = np.array([below, -above])
    transformed = t + skewness * t**2 / 3 + skewness**2 * t**3 / 27 + skewness / 6
    np.testing.assert_allclose(transformed, [1.959964, -1.959964], rtol=1e-6)


@pytest.mark.parametrize("n_parts", [2, 7])
def test_largest_values_of_parts_are_those_of_all(n_parts: int) -> None:
    rng = np.random.default_rng(0)
    values, weights = np.round(rng.exponential(size=3000), 2), rng.integers(0, 3, 3000).astype(float)
    parts = [largest_values(values[part], weights[part]) for part in np.array_split(rng.permutation(3000), n_parts)]
    merged, whole = reduce(LargestValues.merge, parts), largest_values(values, weights)
    np.testing.assert_array_equal(merged.values, np.sort(values[weights > 0])[::-1][:256])
    np.testing.assert_array_equal(merged.values, whole.values)
    np.testing.assert_array_equal(merged.weights, whole.weights)


@pytest.mark.parametrize("shape", [0.0, 0.3, 0.6])
def test_shape_is_found_from_many_rows(shape: float) -> None:
    """With 64 rows in the tail the prior, whose mean is 0.3, has a quarter of the weight."""
    found = []
    for seed in range(20):
        tail = tail_of(np.asarray(genpareto.rvs(shape, size=2000, random_state=seed)))
        found.append(tail.shape)
    assert np.mean(found) == pytest.approx(0.3 + 0.75 * (shape - 0.3), abs=0.1)


def summed_limit(values: FloatArray, level: float) -> float:
    """Return the upper limit of the mean by the documented prior, on a fine grid, with SciPy's distributions."""
    n_tail = int(np.ceil(np.clip(values.size / 15, 10, 64) - 1e-9))
    ordered = np.sort(values)[::-1]
    threshold, body = ordered[n_tail], ordered[n_tail:]
    excess, above = ordered[:n_tail] - threshold, n_tail / values.size
    reach = min(1.0, 0.25 + 5.0 / np.sqrt(n_tail))
    logs, centres, spreads = [], [], []
    for shape in np.linspace(-0.45, 0.95, 57):
        for tail_mean in excess.mean() * np.exp(np.linspace(-reach, reach, 41)):
            likelihood = genpareto.logpdf(excess, shape, scale=tail_mean * (1.0 - shape)).sum()
            logs.append(likelihood + norm.logpdf(shape, 0.3, 0.35))
            apart = threshold + tail_mean - body.mean()
            centres.append(body.mean() + above * apart)
            spreads.append(np.sqrt(((1.0 - above) * body.var() + above * (1.0 - above) * apart**2) / values.size))
    posterior = np.exp(np.array(logs) - max(logs))
    law = norm(np.array(centres), np.array(spreads))

    def too_much(limit: float) -> float:
        return float(posterior @ law.cdf(limit) / posterior.sum()) - 0.5 - level / 2.0

    return float(brentq(too_much, min(centres) - 9 * max(spreads), max(centres) + 9 * max(spreads)))


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("name", "allowed"), [("uniform", 0.001), ("exponential", 0.006), ("heavy", 0.02)])
def test_limit_is_that_of_the_posterior(name: str, allowed: float, level: float) -> None:
    rng = np.random.default_rng(1)
    drawn = {"uniform": rng.random(300), "exponential": rng.exponential(size=300), "heavy": rng.standard_t(3, 300) ** 2}
    values = drawn[name]
    tail = tail_of(values)
    distance = summed_limit(values, level) - values.mean()
    assert tail.upper_limit(level) - values.mean() == pytest.approx(distance, rel=allowed)


def test_limit_does_not_depend_on_the_unit() -> None:
    values = np.random.default_rng(1).standard_t(3, size=400) ** 2
    one, other = tail_of(values), tail_of(1e6 * values)
    assert other.upper_limit(0.95) == pytest.approx(1e6 * one.upper_limit(0.95), rel=1e-6)


def test_equal_weights_change_nothing_and_weightless_rows_are_none() -> None:
    values = np.random.default_rng(2).exponential(size=200)
    plain, scaled = tail_of(values), tail_of(values, np.full(200, 7.0))
    idle = tail_of(np.append(values, 1e9), np.append(np.ones(200), 0.0))
    assert scaled.upper_limit(0.95) == pytest.approx(plain.upper_limit(0.95), rel=1e-9)
    assert idle.upper_limit(0.95) == pytest.approx(plain.upper_limit(0.95), rel=1e-9)


@pytest.mark.parametrize("values", [np.ones(100), np.arange(12.0), np.append(np.ones(98), [2.0, 2.0]), np.ones(1)])
def test_tails_that_cannot_be_fitted_are_none_or_finite(values: FloatArray) -> None:
    tail = tail_of(values)
    assert tail is None or np.isfinite(tail.upper_limit(0.95))
