"""The closed forms of section A.2 beside the tables, which are exact."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.ensemble_scores import closed_form_bias_variance
from ens_plugin.papers.score_tables_2017.scores import NormalScores, score_bias_variance
from tests.papers.score_tables_2017.score_examples import tables

ROWS = NormalScores(np.array([0.4, -0.3, 1.5]), np.array([1.0, 4.0, 0.25]), np.array([1.0, 2.0, 1.0]))


@pytest.mark.parametrize("aggregation", ["mean_proba", "mean_score"])
@pytest.mark.parametrize("spread", [0.1, 1.0, 2.0, 5.0, 8.0])
def test_closed_forms_are_near_the_tables(spread: float, aggregation: str) -> None:
    for mean in np.linspace(-8.0, 8.0, 33):
        row = NormalScores(np.array([mean]), np.array([spread**2]), np.ones(1))
        found = closed_form_bias_variance(row, [1, 5, np.inf], aggregation=aggregation)
        exact = score_bias_variance(row, [1, 5, np.inf], tables(), loss="squared", aggregation=aggregation)
        np.testing.assert_allclose(found.bias, exact.bias, atol=0.06)
        np.testing.assert_allclose(found.variance, exact.variance, atol=0.042)


def test_one_member_without_spread_is_exact() -> None:
    rows = NormalScores(ROWS.mean, np.zeros(3), ROWS.weight)
    found = closed_form_bias_variance(rows, [1])
    exact = score_bias_variance(rows, [1], tables(), loss="squared")
    np.testing.assert_allclose(found.bias, exact.bias, atol=1e-9)
    np.testing.assert_allclose(found.variance, 0.0, atol=1e-12)


def test_the_logistic_of_a_normal_is_that_of_a_shrunken_mean() -> None:
    """By hand: mu = 1 and variance 8/pi give kappa = 1/sqrt(2), and the label 1 a bias of 2 (1 - s(0.7071))^2."""
    row = NormalScores(np.ones(1), np.array([8.0 / np.pi]), np.ones(1))
    expected = 1.0 / (1.0 + np.exp(-np.sqrt(0.5)))
    assert closed_form_bias_variance(row, [1]).bias[0] == pytest.approx(2.0 * (1.0 - expected) ** 2)


def test_voting_divides_the_variance_and_parameter_mixing_the_spread() -> None:
    one, voted = closed_form_bias_variance(ROWS, [1]), closed_form_bias_variance(ROWS, [6])
    assert voted.bias[0] == one.bias[0]
    assert voted.variance[0] == pytest.approx(one.variance[0] / 6)
    mixed = closed_form_bias_variance(ROWS, [6], aggregation="mean_score")
    single = closed_form_bias_variance(ROWS.mixed_scores(6), [1])
    assert (mixed.bias[0], mixed.variance[0]) == (single.bias[0], single.variance[0])


def test_other_ensembles_are_refused() -> None:
    with pytest.raises(InputError, match="aggregation"):
        closed_form_bias_variance(ROWS, [1], aggregation="vote")
    with pytest.raises(InputError, match="sizes"):
        closed_form_bias_variance(ROWS, [0])
