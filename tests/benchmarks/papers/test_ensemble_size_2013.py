"""The 2013 benchmark: its smoke run, and its parts on votes with known probabilities."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.papers.ensemble_size_2013 import (
    choices,
    chosen_sizes,
    disagreement_and_error,
    grown_size,
    law,
)
from benchmarks.shared.forests import Record
from ens_plugin.core.error_curve import agreement, recommended_size


def votes(p: NDArray[np.float64], n_trees: int, seed: int = 0) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random((n_trees, p.size)) < p


def record(n_trees: int, seed: int = 0) -> Record:
    """300 training and 1500 test rows, wrong with probabilities from Beta(1, 3)."""
    rng = np.random.default_rng([seed, 1])
    p, test = rng.beta(1, 3, size=300), rng.beta(1, 3, size=1500)
    return {
        "wrong": np.packbits(votes(p, n_trees, seed), axis=1),
        "seen": np.packbits(rng.random((n_trees, 300)) < 0.368, axis=1),
        "held_out_wrong": np.packbits(votes(test, n_trees, seed + 1), axis=1),
        "rows": np.array([300, 1500]),
    }


def test_growing_stops_near_the_size_that_the_probabilities_want() -> None:
    p = np.random.default_rng(0).beta(1, 3, size=4000)
    truth = recommended_size(p)
    assert truth is not None
    wrong = votes(p, 1000)
    assert grown_size(wrong, np.ones_like(wrong)) == pytest.approx(truth, rel=0.25)
    assert grown_size(wrong[:120], np.ones_like(wrong[:120])) == 120


def test_disagreement_is_corrected_for_the_trees_shared_with_the_proxy() -> None:
    """A flat density around 1/2; 400 of 1000 trees shared would hide 22 % of the disagreement."""
    p = np.linspace(0.2, 0.8, 20_000)
    expected = 100 * (1 - agreement(p, None, [399])[0])
    found, error = disagreement_and_error(votes(p, 1000), 399)
    assert found == pytest.approx(expected, rel=0.07)
    assert error == pytest.approx(50, abs=1.5)


def test_law_holds_for_a_flat_density() -> None:
    rng = np.random.default_rng(3)
    records = []
    for seed in range(3):
        kept = record(2000, seed)
        kept["held_out_wrong"] = np.packbits(votes(rng.random(4000), 2000, seed), axis=1)
        kept["rows"] = np.array([300, 4000])
        records.append(kept)
    found = law(records)
    assert found.slope == pytest.approx(-0.5, abs=0.06)
    assert found.disagreement_ratio == pytest.approx(1.0, abs=0.1)
    assert found.tail_ratio == pytest.approx(1.0, abs=0.15)


def test_every_rule_chooses_a_size_and_large_ones_are_measured_within_the_proxy() -> None:
    found = choices([record(300), record(300, 7)])
    assert set(found) == {"Test", "OOB", "BAN", "ours", "McNemar", "(m-1)/m", "infinite"}
    assert all(np.isfinite(choice.disagreement).all() for choice in found.values())
    assert chosen_sizes(record(300))["(m-1)/m"] == 100
