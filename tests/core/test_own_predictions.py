"""Targets that are predicted by the ensemble, and measured ones, by the leads of its labels and by its values."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.alike_rows import are_own_values, end_at_a_tie
from ens_plugin.core.tally import ValueTally


@pytest.mark.parametrize("mean", [0.0, 0.3, 0.6])
def test_predicted_labels_end_at_a_tie_and_measured_ones_do_not(mean: float) -> None:
    """The true label's lead is normal over rows, and its sign is right or wrong; predicted labels always lead."""
    for seed in range(40):
        margin = np.clip(np.random.default_rng(seed).normal(mean, 0.5, 3000), -1.0, 1.0)
        assert not end_at_a_tie(np.abs(margin), margin > 0)
        assert end_at_a_tie(np.abs(margin), np.ones(margin.size, dtype=bool))


@pytest.mark.parametrize("mean", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
def test_labels_of_an_easy_problem_do_not_end_at_a_tie(mean: float, spread: float) -> None:
    """Hardly a row has close votes, or none, and nearly all are right."""
    for seed in range(40):
        margin = np.clip(np.random.default_rng(seed).normal(mean, spread, 3000), -1.0, 1.0)
        assert not end_at_a_tie(np.abs(margin), margin > 0)


@pytest.mark.parametrize("n_members", [10, 100])
def test_values_of_such_ensembles_are_own_values_and_measured_ones_are_not(n_members: int) -> None:
    rng = np.random.default_rng(0)
    expected, size = rng.normal(size=500), np.full(500, float(n_members))
    mean = expected + rng.normal(size=500) / np.sqrt(n_members)
    larger = expected + rng.normal(size=500) / np.sqrt(4.0 * n_members)
    measured = expected + 0.6 * rng.normal(size=500)

    def are_own(target: np.typing.NDArray[np.float64]) -> bool:
        return are_own_values(ValueTally(size, mean, np.ones(500), target), np.ones(500))

    assert are_own(mean)
    assert are_own(np.round(mean, 2))
    assert n_members == 10 or are_own(larger)
    assert not are_own(measured)
