"""What members add to a loss of their mean: against derivatives by hand, brute force and fresh members."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import expit, softmax

from ens_plugin.core.curvature import (
    curvature_slopes,
    curvatures,
    curved_terms,
    mean_terms,
    shared_terms,
    terms_along,
    terms_of_variance,
)
from ens_plugin.core.seed_variance import shared_luck_variance


def log_loss(mean: np.ndarray) -> np.ndarray:
    return -np.log(softmax(mean, axis=1)[:, 0])


@pytest.mark.parametrize("n_labels", [2, 5])
def test_curvatures_of_a_log_loss_are_the_covariance_of_the_labels(n_labels: int) -> None:
    mean = np.random.default_rng(2).normal(0.0, 2.0, (7, n_labels))
    found = curvatures(log_loss, mean)
    for row, p in enumerate(softmax(mean, axis=1)):
        np.testing.assert_allclose(found[:, :, row], np.diag(p) - np.outer(p, p), atol=1e-4)


def test_terms_of_both_kinds_are_half_the_quadratic_form() -> None:
    rng = np.random.default_rng(3)
    deviations, mean = rng.normal(size=(4, 9, 6)), rng.normal(size=(6, 4))
    curvature = curvatures(log_loss, mean)
    expected = 0.5 * np.einsum("jmr,jkr,kmr->mr", deviations, curvature, deviations)
    np.testing.assert_allclose(curved_terms(curvature, list(deviations)), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(terms_along(log_loss, mean, list(deviations)), expected, atol=1e-3)


def test_slopes_are_what_half_the_curvature_changes_by() -> None:
    rng = np.random.default_rng(4)
    mean, spread = rng.normal(size=(5, 3)), rng.normal(size=(5, 3, 2))
    covariance = spread @ spread.transpose(0, 2, 1)
    found = curvature_slopes(log_loss, mean, covariance)
    for label, step in enumerate(0.01 * np.eye(3)):
        change = curvatures(log_loss, mean + step) - curvatures(log_loss, mean - step)
        expected = 0.5 * np.einsum("rjk,jkr->r", covariance, change) / 0.02
        np.testing.assert_allclose(found[:, label], expected, rtol=0.02, atol=0.01)


@pytest.mark.parametrize(("n_members", "n_rows"), [(5, 4), (60, 1500)])
def test_terms_in_parts_are_those_of_all_rows(n_members: int, n_rows: int) -> None:
    rng = np.random.default_rng(5)
    outputs = rng.normal(size=(n_members, n_rows, 2)) + rng.normal(size=(n_members, 1, 2))
    weight, counted = rng.random(n_rows), rng.random((n_members, n_rows)) < 0.7
    counted[:2] = True

    def loss_of(rows: slice) -> Callable[[np.ndarray], np.ndarray]:
        return log_loss

    n = counted.sum(axis=0)
    mean = np.einsum("mr,mrk->rk", counted, outputs) / n[:, None]
    deviations = np.where(counted[:, :, None], outputs - mean, 0.0)
    covariance = np.einsum("mrj,mrk->rjk", deviations, deviations) / (n - 1)[:, None, None]
    own = curved_terms(curvatures(log_loss, mean), list(deviations.transpose(2, 0, 1)))
    influence = own * n / np.maximum(n - 2, 1) + np.einsum(
        "mrk,rk->mr", deviations, curvature_slopes(log_loss, mean, covariance)
    )
    variance, shared = shared_terms(loss_of, outputs, counted, weight)
    np.testing.assert_allclose(variance, own.sum(axis=0) / (n - 1), rtol=1e-9)
    np.testing.assert_allclose(mean_terms(loss_of, outputs, counted), variance, rtol=1e-9)
    expected = shared_luck_variance(influence, counted, weight / weight.mean(), n_rows)
    assert shared == pytest.approx(expected, rel=1e-9)


def test_terms_of_one_output_are_those_of_its_variance() -> None:
    rng = np.random.default_rng(8)
    outputs, counted = rng.normal(size=(30, 40, 1)), rng.random((30, 40)) < 0.7

    def loss(mean: np.ndarray) -> np.ndarray:
        return np.asarray(np.square(expit(mean[:, 0]) - 0.3))

    own = [outputs[mask, row, 0] for row, mask in enumerate(counted.T)]
    mean, variance = np.array([one.mean() for one in own])[:, None], np.array([one.var(ddof=1) for one in own])
    expected = mean_terms(lambda rows: loss, outputs, counted)
    np.testing.assert_allclose(terms_of_variance(loss, mean, variance), expected, rtol=1e-6, atol=1e-9)


def test_v_is_what_fresh_members_add() -> None:
    """The excess of means of 50 fresh scores over the infinite mean, in each of 200 rows of 60 members."""
    rng = np.random.default_rng(6)
    centre, target = rng.normal(0.0, 1.5, 200), rng.integers(0, 2, 200)
    outputs = centre[:, None] + 1.2 * rng.standard_normal((60, 200, 1))
    variance = mean_terms(
        lambda rows: lambda mean: np.square(expit(mean[:, 0]) - target[rows]), outputs, np.ones((60, 200), dtype=bool)
    )
    fresh = centre + 1.2 / np.sqrt(50) * rng.standard_normal((4000, 200))
    both = np.square(expit(fresh) - target) + np.square(expit(2.0 * centre - fresh) - target)
    truth = 50.0 * (both / 2.0 - np.square(expit(centre) - target)).mean()
    assert variance.mean() == pytest.approx(truth, rel=0.05)
