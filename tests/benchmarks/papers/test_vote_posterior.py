"""The posterior of the vote data against bootstrapped models: divergence, and the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from benchmarks.papers.vote_posterior import PAPER, Parameters, distances, divergence, draw_posterior, vote_parameters
from tests.extras import needs_keel


def test_divergence_of_draws_from_the_posterior_itself_vanishes() -> None:
    drawn = beta(31, 71).rvs(200_000, random_state=0)
    assert 0 <= divergence(drawn, 30, 70) < 1e-3


def test_divergence_of_one_cell_is_minus_the_log_of_its_probability() -> None:
    expected = -np.log(beta(31, 71).cdf(0.31) - beta(31, 71).cdf(0.30))
    assert divergence(np.full(10, 0.305), 30, 70) == pytest.approx(expected)


def test_distances_by_hand() -> None:
    drawn = np.array([[0.2], [0.4], [0.3]])
    found = distances(Parameters(drawn, np.array([30.0]), np.array([70.0])))
    assert found["mean"] == pytest.approx(abs(0.3 - 31 / 102))
    assert found["sd"] == pytest.approx(0.1 - beta(31, 71).std())
    assert found.keys() == PAPER.keys()


@needs_keel
def test_models_have_the_voters_shares_on_average(tmp_path: Path) -> None:
    parameters = vote_parameters(40, 0)
    share = parameters.yes / (parameters.yes + parameters.no)
    assert np.all(np.abs(parameters.drawn.mean(axis=0) - share) < 5 * parameters.drawn.std(axis=0) / np.sqrt(40))
    draw_posterior(parameters, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
