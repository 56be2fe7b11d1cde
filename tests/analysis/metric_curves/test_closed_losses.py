"""The size by the closed form of a squared loss, against simulated members."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin import CustomEnsemble, SizeRecommendation, analyze
from tests.forests import Array

N_MEMBERS = 20


def sized(second: Array, y: Array, metric: str) -> SizeRecommendation:
    ensemble = CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba")
    return analyze(ensemble, None, y, metric=metric, data="holdout", tolerance=0.05).recommendation


@pytest.mark.slow
def test_the_interval_of_the_size_allows_for_the_members_that_were_trained() -> None:
    """A fifth of the members vary much more than the others: by the rows alone, it would be far too narrow."""
    rng = np.random.default_rng(5)
    chance = rng.beta(3.0, 3.0, 1500) * 0.8 + 0.1
    y = (rng.random(1500) < chance).astype(int)
    share = 0.2 / 1.7 + 0.8 / 31.0
    size = share * np.mean(chance * (1.0 - chance)) / (0.05 * np.mean((chance - y) ** 2))
    held = []
    for _ in range(40):
        spreads = np.where(rng.random(N_MEMBERS) < 0.2, 0.7, 30.0)
        second = np.stack([rng.beta(spread * chance, spread * (1.0 - chance)) for spread in spreads])
        low, high = sized(second, y, "neg_brier_score").interval
        held.append(low <= np.ceil(size) and (high is None or np.floor(size) <= high))
    assert np.mean(held) >= 0.8
