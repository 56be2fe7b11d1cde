"""Outputs of many rows, which trees get in another order, are those of the rows in their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier

from ens_plugin.adapters.sklearn.forest import leaf_outputs, outputs_by_tree

N_TREES, N_ROWS = 25, 1200


def grown_forest(kind: str) -> tuple[Any, NDArray[np.float32]]:
    X, y = make_classification(N_ROWS, 6, n_informative=4, n_redundant=0, random_state=0)
    model = ExtraTreesRegressor if kind == "values" else RandomForestClassifier
    return model(N_TREES, min_samples_leaf=3, random_state=0).fit(X, y), X.astype(np.float32)


@pytest.mark.parametrize("kind", ["values", "probabilities"])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, csr_matrix])
def test_rows_in_the_order_of_leaves_have_their_own_outputs(kind: str, form: Any) -> None:
    forest, X = grown_forest(kind)
    trees = forest.estimators_
    expected = np.stack([leaf_outputs(tree, X) for tree in trees])

    def read(place: int, rows: Any) -> NDArray[np.float64]:
        return leaf_outputs(trees[place], rows)

    np.testing.assert_array_equal(outputs_by_tree(trees, read, form(X)), expected)
    wanted = np.random.default_rng(0).random((N_TREES, N_ROWS)) < 0.4
    wanted[3] = False
    found = outputs_by_tree(trees, read, form(X), wanted)
    np.testing.assert_array_equal(found[wanted], expected[wanted])
    if form is not csr_matrix:
        assert not found[~wanted].any()
