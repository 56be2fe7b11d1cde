from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from ens_plugin.core.intervals import size_interval, wilson_interval

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class TestWilson:
    @pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
    def test_plain_binomial_case(self, level: float) -> None:
        for wrong, rows in [(0, 50), (1, 50), (25, 50), (50, 50), (37, 1000), (1, 1)]:
            e = wrong / rows
            lower, upper = wilson_interval([e], [np.sqrt(e * (1 - e) / rows)], rows, level)
            expected = binomtest(wrong, rows).proportion_ci(level, method="wilson")
            np.testing.assert_allclose([lower[0], upper[0]], [expected.low, expected.high], atol=1e-12)

    def test_larger_sd_is_fewer_rows(self) -> None:
        e, rows, inflation = 0.2, 400, 2.0
        lower, upper = wilson_interval([e], [inflation * np.sqrt(e * (1 - e) / rows)], rows, 0.95)
        expected = binomtest(20, 100).proportion_ci(0.95, method="wilson")
        np.testing.assert_allclose([lower[0], upper[0]], [expected.low, expected.high], atol=1e-12)

    @given(
        st.integers(0, 10**6).map(lambda e: e / 10**6),
        st.sampled_from([0.0, 1e-6, 0.01, 0.1, 0.5]),
        st.integers(1, 1000),
    )
    def test_interval_holds_the_share_and_stays_a_share(self, e: float, sd: float, rows: int) -> None:
        lower, upper = wilson_interval([e], [sd], rows, 0.95)
        assert 0 <= lower[0] <= e <= upper[0] <= 1


class TestSizeInterval:
    def test_quantiles_are_draws(self) -> None:
        draws = np.arange(1.0, 401.0, 2.0)
        low, high = size_interval(draws, 0.9, 20001)
        assert (low, high) in {(19, 379), (21, 379), (19, 381), (21, 381)}

    def test_upper_end_above_the_largest_size_is_none(self) -> None:
        draws = np.concatenate([np.full(190, 101.0), np.full(10, np.inf)])
        assert size_interval(draws, 0.8, 20001) == (101, 101)
        assert size_interval(draws, 0.95, 20001) == (101, None)

    def test_lower_end_above_the_largest_size_is_that_size(self) -> None:
        """Never a number beyond what was looked at."""
        assert size_interval(np.full(200, np.inf), 0.95, 20001) == (20001, None)


def test_an_error_of_rounding_alone_has_the_interval_of_none() -> None:
    none = wilson_interval([0.0], [0.1], 50, 0.95)[1]
    np.testing.assert_allclose(wilson_interval([3e-17], [0.1], 50, 0.95)[1], none)


@pytest.mark.parametrize("error", [1e-6, 0.01, 0.3, 1.0 - 1e-6])
@pytest.mark.parametrize("sd", [1e-160, 1e-9, 1e-4])
def test_no_interval_is_narrower_than_that_of_all_rows(error: float, sd: float) -> None:
    narrow = wilson_interval([error], [sd], 340, 0.95)
    of_all_rows = wilson_interval([error], [np.sqrt(error * (1.0 - error) / 340)], 340, 0.95)
    assert narrow[0] <= of_all_rows[0] + 1e-12
    assert narrow[1] >= of_all_rows[1] - 1e-12
