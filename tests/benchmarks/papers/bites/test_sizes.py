"""The smallest size is that of the loss averaged over training sets, and estimates are read by the same rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.papers.bites import sizes as bite_sizes
from benchmarks.papers.bites.sizes import (
    GRID,
    SizeCell,
    first_within,
    measure_sizes,
    size_cases,
    size_section,
)


def test_size_within_is_interpolated_after_the_last_excess() -> None:
    sizes = np.array([1, 10, 100])
    assert first_within(sizes, np.array([1.5, 1.02, 1.0]), 1.0) == pytest.approx(10**1.5)
    assert first_within(sizes, np.array([1.0, 1.0, 1.0]), 1.0) == 1
    assert np.isnan(first_within(sizes, np.array([1.0, 1.0, 1.5]), 1.0))


@pytest.mark.slow
def test_losses_are_those_of_normal_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    centre = norm.ppf((np.arange(4000) + 0.5) / 4000, loc=0.8)
    drawn = [rng.normal(centre, 1.5, (400, centre.size)) for _ in range(3)]
    monkeypatch.setattr(bite_sizes, "bite_scores", lambda setting, fraction, n, seed, cache: (drawn[seed], None))
    case = size_cases(n_test=centre.size, n_sets=3, n_members=400, n_ensembles=60, n_draws=2)[0]
    cell = measure_sizes(case, "mean_score", 0, Path("unused"))
    spread = 1.5 * np.sqrt([*(1 / size + 1 / 400 for size in GRID), 1 / 400])
    exact = norm.cdf(-centre / spread[:, None]).mean(axis=1)
    assert cell.losses.mean(axis=0) == pytest.approx(exact, abs=0.003)
    assert {name: found.shape for name, found in cell.estimates.items()} == dict.fromkeys(cell.estimates, (3, 2))


def falling(limit_at: int) -> np.ndarray:
    """Losses 10 % above the limit before the size at `limit_at`, at it from there on."""
    return np.append(np.where(np.arange(len(GRID)) < limit_at, 0.11, 0.1), 0.1)


def test_truth_is_of_the_mean_loss_not_the_mean_of_the_sizes() -> None:
    cell = SizeCell("x", np.stack([falling(2), falling(20)]), {}, np.zeros(2))
    both, second = cell.truth(np.array([0, 1])), cell.truth(np.array([1]))
    assert GRID[19] < both <= second < GRID[20]


def test_claim_is_the_median_ratio_and_counts_never_as_large() -> None:
    losses = np.stack([falling(10)] * 4)
    truth = first_within(np.array(GRID), losses[0, :-1], 0.1)
    estimates = np.array([[2.0, 2.0, 2.0], [2.0, np.nan, np.nan]] * 2) * truth
    cell = SizeCell("x", losses, {"plug-in": estimates, "shrunken": estimates, "matched": estimates}, np.ones(4))
    claims, text = size_section([cell])
    assert claims[0].value == pytest.approx(2.0)
    assert not claims[0].met
    assert f" {truth:.0f} to {truth:.0f} |" in text
    assert "never)" in text
