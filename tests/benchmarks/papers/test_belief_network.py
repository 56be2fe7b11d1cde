"""The belief network of the 2004 benchmark: its probabilities, its fits, and the optimal Bayes classifier."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.papers.belief_network import (
    CLINIC,
    STATES,
    answers,
    compare,
    draw_queries,
    fitted_chances,
    joint_probabilities,
)

TRUTH = joint_probabilities([np.array(node.chances) for node in CLINIC])


def test_joint_probabilities_are_products_over_nodes() -> None:
    for state, found in zip(STATES, TRUTH, strict=True):
        expected = 1.0
        for node, value in zip(CLINIC, state, strict=True):
            tables = dict(zip(itertools.product((0, 1), repeat=len(node.parents)), node.chances, strict=True))
            chance = tables[tuple(state[list(node.parents)])]
            expected *= chance if value else 1.0 - chance
        assert found == pytest.approx(expected)
    assert TRUTH.sum() == pytest.approx(1.0)


def test_the_clinic_has_the_marginals_of_1988() -> None:
    # Tuberculosis, lung cancer, bronchitis, positive X-ray and dyspnoea.
    found = TRUTH @ STATES
    assert found[[1, 3, 4, 6, 7]].round(4).tolist() == [0.0104, 0.055, 0.45, 0.1103, 0.436]


def test_many_rows_give_the_networks_own_chances() -> None:
    found = fitted_chances(1e9 * TRUTH, 1.0)
    for node, chances in zip(CLINIC, found, strict=True):
        np.testing.assert_allclose(chances, node.chances, atol=1e-5)


def test_posterior_means_are_the_mean_over_the_posterior() -> None:
    rng = np.random.default_rng(0)
    counts = rng.multinomial(30, TRUTH).astype(float)
    queries = draw_queries(TRUTH, 20, rng)
    drawn = []
    for node, chances in enumerate(fitted_chances(counts, 1.0)):
        # From the mean true / total of a pseudo-count of 1, and the mode of none, the Beta's two numbers.
        at = np.array([counts[_matches(node, code)].sum() for code in range(chances.size)]) + 2.0
        drawn.append(rng.beta(chances * at, (1.0 - chances) * at, size=(20_000, chances.size)))
    simulated = answers(joint_probabilities(drawn), queries)
    exact = answers(joint_probabilities(fitted_chances(counts, 1.0)), queries)
    error = simulated.std(axis=0) / np.sqrt(20_000)
    assert np.all(np.abs(simulated.mean(axis=0) - exact) < 5 * error + 1e-15)


def _matches(node: int, code: int) -> list[bool]:
    parents = CLINIC[node].parents
    bits = tuple(int(bit) for bit in f"{code:0{len(parents)}b}") if parents else ()
    return [tuple(state[list(parents)]) == bits for state in STATES]


def test_shares_are_shares_and_settled_labels_are_seldom_others() -> None:
    found = compare(100, 60, np.random.default_rng(0))
    assert np.all((found >= 0) & (found <= 1))
    assert found[2] > 0.5
    assert found[3] < 0.05
