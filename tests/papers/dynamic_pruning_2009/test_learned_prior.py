"""What is learned from members' outputs for out-of-bag rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.adapters import find_adapter
from ens_plugin.core.tally import RowBlock
from ens_plugin.papers.dynamic_pruning_2009.pruning import OutOfBagOutputs, _out_of_bag_outputs, row_prior


def test_prior_of_votes_is_that_of_the_second_label() -> None:
    rng = np.random.default_rng(0)
    votes = rng.random((40, 500)) < 0.9
    zeros = np.zeros(500, dtype=np.intp)
    found = OutOfBagOutputs(RowBlock(votes.astype(np.uint8), np.ones(votes.shape, bool), zeros, 2), zeros, zeros + 1)
    prior = row_prior(found, "labels")
    assert prior.support @ prior.weights == pytest.approx(0.9, abs=0.01)
    assert prior.spread == 1.0


@pytest.mark.parametrize(("n_members", "n_rows"), [(3, 30_000), (50, 2000)])
def test_probabilities_are_worth_the_votes_that_their_variance_says(n_members: int, n_rows: int) -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0.3, 0.7, n_rows)
    # The mean of five votes has a fifth of a vote's variance.
    second = rng.binomial(5, p, (n_members, p.size)) / 5
    zeros = np.zeros(p.size, dtype=np.intp)
    outputs = np.stack([1 - second, second], axis=2)
    found = OutOfBagOutputs(RowBlock(outputs, np.ones(second.shape, bool), zeros, 2), zeros, zeros + 1)
    prior = row_prior(found, "probabilities")
    assert prior.spread == pytest.approx(5.0, rel=0.05)
    sd = np.sqrt(prior.weights @ (prior.support - prior.support @ prior.weights) ** 2)
    assert sd == pytest.approx(p.std(), rel=0.05)


def test_scores_have_their_mean_and_their_spread() -> None:
    rng = np.random.default_rng(2)
    mu = rng.normal(0.3, 1.0, 2000)
    scores = rng.normal(mu, 2.0, (60, mu.size))
    zeros = np.zeros(mu.size, dtype=np.intp)
    outputs = np.stack([-scores / 2, scores / 2], axis=2)
    found = OutOfBagOutputs(RowBlock(outputs, np.ones(scores.shape, bool), zeros, 2), zeros, zeros + 1)
    prior = row_prior(found, "scores")
    assert prior.spread == pytest.approx(2.0, rel=0.03)
    assert prior.support @ prior.weights == pytest.approx(mu.mean(), abs=0.05)
    sd = np.sqrt(prior.weights @ (prior.support - prior.support @ prior.weights) ** 2)
    assert sd == pytest.approx(1.0, rel=0.1)


def test_the_two_strongest_labels_come_in_the_order_of_the_classes() -> None:
    X, y = make_classification(300, n_informative=6, n_classes=4, random_state=0)
    adapter = find_adapter(RandomForestClassifier(60, random_state=0).fit(X, y))
    found = _out_of_bag_outputs(adapter, X, adapter.prepare(X), y, "oob")
    assert (found.first < found.second).all()
    rows = np.arange(0, found.first.size, 37)
    for row in rows:
        counts = np.bincount(found.block.outputs[found.block.counted[:, row], row], minlength=4)
        strongest = sorted(counts)[-2:]
        assert sorted(counts[[found.first[row], found.second[row]]]) == strongest
    first, second = found.support()
    assert (first + second <= found.trials).all()
    assert found.trials.mean() == pytest.approx(60 * 0.368, rel=0.05)
