from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.margins import MarginModel, fit_margins
from ens_plugin.core.row_model import RowModel, group_means, mean_posterior, model_error, row_means
from ens_plugin.papers.wrong_votes import Mixture, fit_mixture

FloatArray = NDArray[np.float64]

N_ROWS = 120


def mixture() -> Mixture:
    rng = np.random.default_rng(0)
    n = rng.integers(10, 25, N_ROWS)
    return fit_mixture(rng.binomial(n, rng.beta(0.6, 2.0, N_ROWS)), n, rng.integers(1, 4, N_ROWS).astype(float))


def margins() -> MarginModel:
    rng = np.random.default_rng(1)
    n, sd = rng.integers(10, 25, N_ROWS), rng.choice([0.2, 0.5, 0.9], N_ROWS)
    return fit_margins(np.clip(rng.normal(0.5, 0.4, N_ROWS), -1, 1), sd, n, rng.integers(1, 4, N_ROWS).astype(float))


def narrow_margins() -> MarginModel:
    """Of so many members that most of the likelihoods are 0 and are left out."""
    rng = np.random.default_rng(2)
    n, sd = rng.integers(900, 1000, N_ROWS), rng.choice([0.1, 0.2, 0.3], N_ROWS)
    fitted = fit_margins(np.clip(rng.normal(0.5, 0.4, N_ROWS), -1, 1), sd, n, rng.integers(1, 4, N_ROWS).astype(float))
    assert not isinstance(fitted.likelihood, np.ndarray)
    return fitted


@pytest.fixture(params=[mixture, margins, narrow_margins], ids=["mixture", "margins", "narrow margins"], scope="module")
def model(request: pytest.FixtureRequest) -> RowModel:
    fitted: RowModel = request.param()
    return fitted


def posteriors(model: RowModel, weights: FloatArray) -> FloatArray:
    """Bayes' rule for each group, shape (n_groups, n_points)."""
    joint = np.asarray(model.likelihood) * weights
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def test_point_weights_are_a_distribution(model: RowModel) -> None:
    assert model.point_weights.sum() == pytest.approx(1.0)
    assert (model.point_weights >= 0).all()
    assert model.point_weights.shape == (model.likelihood.shape[1],)


def test_every_row_has_a_group_and_its_weight(model: RowModel) -> None:
    assert model.group.shape == (N_ROWS,)
    assert set(model.group.tolist()) == set(range(model.counts.size))


def test_error_is_the_mean_over_points(model: RowModel) -> None:
    sizes = np.array([1, 7, 201, np.inf])
    mean = model_error(model, sizes)
    expected = [float((values * model.point_weights).sum()) for values in model.error_by_point(sizes)]
    np.testing.assert_allclose(mean, expected, rtol=1e-12)
    assert ((mean >= 0) & (mean <= 1 + 1e-12)).all()


def test_mean_posterior_is_bayes_rule_averaged_over_rows(model: RowModel) -> None:
    weights = model.density.weights
    expected = np.zeros(weights.size)
    for group, posterior in enumerate(posteriors(model, weights)):
        expected += model.counts[group] * posterior / model.counts.sum()
    np.testing.assert_allclose(mean_posterior(model, weights), expected, rtol=0, atol=1e-13)


def test_mean_posterior_of_several_densities_is_one_each(model: RowModel) -> None:
    several = np.stack([model.density.weights, np.full(400, 1 / 400)])
    together = mean_posterior(model, several)
    for weights, expected in zip(several, together, strict=True):
        np.testing.assert_allclose(mean_posterior(model, weights), expected, rtol=1e-12)
    np.testing.assert_allclose(together.sum(axis=1), 1.0)


def test_group_and_row_means_are_posterior_means(model: RowModel) -> None:
    by_point = model.error_by_point([3, 41])
    expected = [
        [float(posterior @ values) for posterior in posteriors(model, model.density.weights)] for values in by_point
    ]
    np.testing.assert_allclose(group_means(model, by_point), expected, rtol=1e-9)
    np.testing.assert_allclose(row_means(model, by_point), np.array(expected)[:, model.group], rtol=1e-9)
