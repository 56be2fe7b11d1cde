"""The adapter of treebag keeps the contract, and is found without an import."""

from __future__ import annotations

import numpy as np
import pytest
import treebag
from sklearn.datasets import load_iris

import ens_plugin
from ens_plugin.testing import check_adapter

X, Y = load_iris(return_X_y=True)
LABELS = np.array(["setosa", "versicolor", "virginica"])[Y]


def drawn(model: treebag.TreeBag) -> list[np.ndarray]:
    """Return the rows that each tree was trained on, from the library itself."""
    return [model.sample(seed) for seed in model.seeds]


@pytest.mark.parametrize("max_depth", [None, 2])
def test_the_contract(max_depth: int | None) -> None:
    model = treebag.TreeBag(40, max_depth=max_depth).fit(X, LABELS)
    assert len(check_adapter(model, X, LABELS, samples=drawn)) == 17


def test_the_out_of_bag_error_is_that_of_brute_force() -> None:
    model = treebag.TreeBag(300).fit(X, LABELS)
    total = np.zeros((len(X), 3))
    for rows, tree in zip(drawn(model), model.trees, strict=True):
        left_out = np.setdiff1d(np.arange(len(X)), rows)
        total[left_out] += tree.predict_proba(X[left_out].astype(np.float32))
    expected = model.classes[total.argmax(axis=1)]
    predictions = ens_plugin.oob_predictions(model, X, LABELS)
    np.testing.assert_array_equal(predictions.labels, expected)


def test_a_smaller_ensemble_has_the_first_trees() -> None:
    small = ens_plugin.truncate(treebag.TreeBag(40).fit(X, LABELS), 10)
    np.testing.assert_array_equal(
        small.predict_proba(X), treebag.TreeBag(10).fit(X, LABELS).predict_proba(X)
    )
