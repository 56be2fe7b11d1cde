"""The error of the first members in the order of training, row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor

import ens_plugin
from ens_plugin.papers.ensemble_size_2013 import path_curve

N_MEMBERS, N_ROWS, N_LABELS = 6, 90, 3


def made(kind: str) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """Return outputs, which rows are out of bag, and the target."""
    rng = np.random.default_rng(0)
    is_oob = rng.random((N_MEMBERS, N_ROWS)) < 0.4
    labels = rng.integers(0, N_LABELS, N_ROWS)
    if kind == "vote":
        return rng.integers(0, N_LABELS, (N_MEMBERS, N_ROWS)), is_oob, labels
    if kind == "mean_proba":
        return rng.dirichlet(np.ones(N_LABELS), (N_MEMBERS, N_ROWS)), is_oob, labels
    return rng.normal(size=(N_MEMBERS, N_ROWS)), is_oob, rng.normal(size=N_ROWS)


def ensemble(outputs: NDArray[Any], is_oob: NDArray[np.bool_], kind: str) -> ens_plugin.CustomEnsemble:
    classes = None if kind == "mean" else np.arange(N_LABELS)
    return ens_plugin.CustomEnsemble(outputs, ~is_oob, aggregation=kind, classes=classes)


def loss_of_row(outputs: NDArray[Any], truth: float, kind: str) -> float:
    if kind == "mean":
        return float((outputs.mean() - truth) ** 2)
    shares = np.eye(N_LABELS)[outputs] if kind == "vote" else outputs
    return float(np.argmax(shares.sum(axis=0)) != truth)


@pytest.mark.parametrize("kind", ["vote", "mean_proba", "mean"])
def test_each_row_is_judged_by_its_members_so_far(kind: str) -> None:
    outputs, is_oob, target = made(kind)
    found = path_curve(ensemble(outputs, is_oob, kind), None, target)
    assert found["size"].tolist() == [*range(1, N_MEMBERS + 1)]
    for size, error in found.itertuples(index=False):
        known = np.flatnonzero(is_oob[:size].any(axis=0))
        losses = [loss_of_row(outputs[:size, row][is_oob[:size, row]], target[row], kind) for row in known]
        assert error == pytest.approx(np.mean(losses), rel=1e-12)


def test_the_error_is_not_known_before_a_row_is_out_of_bag() -> None:
    outputs, is_oob, target = made("vote")
    is_oob[0] = False
    assert path_curve(ensemble(outputs, is_oob, "vote"), None, target)["error"].isna().tolist() == [True] + [False] * 5


def test_the_path_ends_at_the_out_of_bag_error_of_scikit_learn() -> None:
    X, y = load_diabetes(return_X_y=True)
    forest = RandomForestRegressor(60, oob_score=True, random_state=0).fit(X, y)
    assert path_curve(forest, X, y)["error"].iloc[-1] == pytest.approx(np.mean((forest.oob_prediction_ - y) ** 2))
