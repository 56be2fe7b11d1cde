"""Standard errors of predictions: how often they contain the mean prediction over training sets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.accuracy.standard_errors import Table, measure

Array = NDArray[np.float64]


def skewed() -> tuple[Array, Array]:
    """Return counts, most of which are zero, that depend on coarse columns."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 5, (20_000, 3)), rng.normal(size=(20_000, 2))]).astype(np.float64)
    y = rng.poisson(rng.gamma(0.4, size=20_000) * np.exp(0.3 * X[:, 0] + 0.4 * X[:, 3]))
    return X, y.astype(np.float64)


def rare() -> tuple[Array, Array]:
    """Return labels, of which one in fifteen is 1."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(20_000, 4))
    return X, (X[:, 0] + X[:, 1] + rng.normal(size=20_000) > 2.6).astype(np.float64)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("table", [Table("skewed", skewed), Table("rare", rare, is_classification=True)])
def test_mean_over_training_sets_is_within_196_standard_errors(table: Any) -> None:
    found = measure(table, 200, 400, repetitions=12, seed=1)
    assert 88 <= found.coverage <= 97.5
    assert found.plain < 85, "row by row, the infinitesimal jackknife covers too few"
