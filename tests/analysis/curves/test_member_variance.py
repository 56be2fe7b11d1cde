"""The chance that a member's label is not the infinite ensemble's, against members of known distributions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.analysis import Evidence
from ens_plugin.analysis.labels import estimate_labels
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock, tally_labels
from ens_plugin.core.weights import RowWeight
from tests.analysis.curves.test_estimates import SETTINGS

N_ROWS = 3000


def found_variance(outputs: NDArray[np.float64], *, has_scores: bool = False) -> float:
    """Return the estimate from members' outputs by label on rows whose true label is the first."""
    counted = np.random.default_rng(9).random(outputs.shape[:2]) < 0.8
    counted[:3] = True
    block = RowBlock(outputs, counted, np.zeros(outputs.shape[1], dtype=np.int64), outputs.shape[2])
    tally = tally_labels(block)
    weight = np.ones(outputs.shape[1])
    sample = Sample(block, np.arange(weight.size), weight)
    rows = Evidence(tally, sample, RowWeight(weight))
    found = estimate_labels(rows, len(outputs), SETTINGS, has_scores=has_scores).bias_variance
    assert abs(found.member_error - found.bias) <= found.member_variance + 0.01
    return found.member_variance


@pytest.mark.parametrize("n_members", [12, 60])
@pytest.mark.parametrize(("low", "high", "off"), [(0.1, 0.9, 0.01), (0.0, 0.7, 0.01), (0.35, 1.0, 0.025)])
def test_two_labels_with_one_of_two_probabilities(low: float, high: float, off: float, n_members: int) -> None:
    """A member predicts the wrong label with probability `high` on a share of its draws, and else `low`."""
    rng = np.random.default_rng(1)
    share = rng.beta(1.0, 1.5, N_ROWS)
    wrong = np.where(rng.random((n_members, N_ROWS)) < share, high, low)
    is_wrong = low + (high - low) * share > 0.5
    truth = np.where(is_wrong, 1.0 - share, share).mean()
    outputs = np.stack([1.0 - wrong, wrong], axis=2)
    # Noise that no label depends on, so that the outputs are probabilities and not votes.
    outputs = np.abs(outputs - rng.uniform(0.0, 0.01, outputs.shape))
    assert found_variance(outputs) == pytest.approx(truth, abs=off)


@pytest.mark.parametrize("n_members", [12, 60])
def test_two_labels_by_skewed_raw_scores(n_members: int) -> None:
    """Most members' scores are a little below 0, and few are far above it."""
    rng = np.random.default_rng(2)
    share = rng.beta(1.0, 3.0, N_ROWS)
    score = np.where(rng.random((n_members, N_ROWS)) < share, 3.0, -1.0) + rng.uniform(-0.5, 0.5, (n_members, N_ROWS))
    truth = np.where(4.0 * share > 1.0, 1.0 - share, share).mean()
    outputs = np.stack([-score / 2.0, score / 2.0], axis=2)
    assert found_variance(outputs, has_scores=True) == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize("n_labels", [3, 10])
@pytest.mark.parametrize("n_members", [8, 50])
def test_few_members_of_many_labels(n_labels: int, n_members: int) -> None:
    """The other members of a few predict the infinite ensemble's label too seldom to stand for it."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet(np.append(4.0, np.full(n_labels - 1, 2.0 / (n_labels - 1))), N_ROWS)
    labels = (rng.random((n_members, N_ROWS, 1)) > shares.cumsum(axis=1)).sum(axis=2).clip(max=n_labels - 1)
    outputs = np.eye(n_labels)[labels]
    assert found_variance(outputs) == pytest.approx(1.0 - shares.max(axis=1).mean(), abs=0.015)
