"""Ensembles of networks that differ in their random starts: trained on all rows, and judged on rows held out."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.neural_network import MLPClassifier

import ens_plugin
from ens_plugin import CustomEnsemble
from ens_plugin.errors import BagError

X, Y = make_moons(400, noise=0.3, random_state=0)
FRESH, FRESH_Y = make_moons(600, noise=0.3, random_state=1)
N_NETWORKS = 15


class Network:
    """What a module of PyTorch or Keras is wrapped in: predict_proba, predict and the labels."""

    def __init__(self, seed: int) -> None:
        self.module = MLPClassifier((6,), solver="lbfgs", max_iter=40, random_state=seed)
        self.classes_ = np.unique(Y)

    def fit(self) -> Network:
        self.module.fit(X, Y)
        return self

    def predict_proba(self, rows: Any) -> Any:
        return self.module.predict_proba(rows)

    def predict(self, rows: Any) -> Any:
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


@pytest.fixture(scope="module")
def networks() -> list[Network]:
    return [Network(seed).fit() for seed in range(N_NETWORKS)]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_deep_ensemble_is_judged_on_held_out_rows(networks: list[Network]) -> None:
    outputs = np.stack([network.predict_proba(FRESH) for network in networks])
    report = ens_plugin.analyze(
        CustomEnsemble.from_estimators(networks, None), FRESH, FRESH_Y, data="holdout", random_state=0
    )
    assert report.n_members == N_NETWORKS
    assert report.error == pytest.approx(np.mean(outputs.mean(axis=0).argmax(axis=1) != FRESH_Y), abs=5e-3)
    of_arrays = ens_plugin.analyze(
        CustomEnsemble(outputs, None, aggregation="mean_proba"), None, FRESH_Y, data="holdout", random_state=0
    )
    assert of_arrays.error == report.error
    assert of_arrays.recommended_size == report.recommended_size


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_brier_score_of_five_networks_is_that_of_all_fives(networks: list[Network]) -> None:
    report = ens_plugin.analyze(
        CustomEnsemble.from_estimators(networks, None), FRESH, FRESH_Y, data="holdout", metric="neg_brier_score"
    )
    chances = np.stack([network.predict_proba(FRESH)[:, 1] for network in networks])
    fives = np.array(list(combinations(range(N_NETWORKS), 5)))
    expected = np.mean((chances[fives].mean(axis=1) - FRESH_Y) ** 2)
    assert report.error_curve.at(5) == pytest.approx(-expected, rel=1e-6)


def test_networks_trained_on_all_rows_have_no_out_of_bag_rows(networks: list[Network]) -> None:
    with pytest.raises(BagError, match="holdout"):
        ens_plugin.analyze(CustomEnsemble.from_estimators(networks, None), X, Y)
