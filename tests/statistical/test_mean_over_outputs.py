"""The interval of the mean error over outputs covers the error on fresh rows, though outputs have noise in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin

pytestmark = pytest.mark.slow

# No size above that of the forest is of interest here, and each takes time.
N_SETS, N_ROWS, N_OUTPUTS, N_MEMBERS = 60, 200, 3, 60
Array = NDArray[Any]


def draw(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Return rows and values whose noise is mostly common to all outputs, and long-tailed."""
    X = rng.normal(size=(n_rows, 5))
    common, own = rng.gamma(2.0, size=(n_rows, 1)) - 2.0, rng.normal(size=(n_rows, N_OUTPUTS))
    signal = X @ rng_coefficients() + np.abs(X[:, :1])
    return X, signal + common + 0.5 * own


def rng_coefficients() -> Array:
    return np.random.default_rng(99).normal(size=(5, N_OUTPUTS))


@pytest.mark.long
@pytest.mark.parametrize("task", ["values", "labels"])
def test_interval_of_the_mean_covers_the_error_on_fresh_rows(task: str) -> None:
    rng = np.random.default_rng(5)
    X_new, values_new = draw(rng, 10_000)
    covered, widths, alone = [], [], []
    for seed in range(N_SETS):
        X, values = draw(rng, N_ROWS)
        if task == "values":
            model: Any = RandomForestRegressor(N_MEMBERS, min_samples_leaf=3, random_state=seed).fit(X, values)
            error = float(((model.predict(X_new) - values_new) ** 2).mean())
            report = ens_plugin.analyze(model, X, values, max_size=N_MEMBERS)
        else:
            y = (values > 0).astype(int)
            model = RandomForestClassifier(N_MEMBERS, min_samples_leaf=3, random_state=seed).fit(X, y)
            error = float((model.predict(X_new) != (values_new > 0)).mean())
            report = ens_plugin.analyze(model, X, y, max_size=N_MEMBERS)
        low, high = report.error_interval
        covered.append(low <= error <= high)
        widths.append(high - low)
        alone.append(np.mean([np.subtract(*part.error_interval[::-1]) for part in report.outputs.values()]))
    assert 0.90 <= np.mean(covered) <= 0.99
    # Between that of independent outputs and that of one output.
    assert 1 / np.sqrt(N_OUTPUTS) < np.mean(widths) / np.mean(alone) < 1.0
