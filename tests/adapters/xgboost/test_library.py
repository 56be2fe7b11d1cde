"""What is known of XGBoost beside its trained trees."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse

from ens_plugin.adapters.xgboost.library import fit_arguments, train_arguments
from tests.extras import xgboost

X = np.array([[1.0, 0.0, np.nan], [0.0, 2.0, 3.0]])
Y = np.array([0.0, 1.0])
WEIGHT = np.array([0.5, 2.0])


def test_a_dense_matrix_comes_back_as_it_was() -> None:
    data = train_arguments({"params": {}, "dtrain": xgboost.DMatrix(X, Y, weight=WEIGHT)})
    assert_array_equal(data.table(), X)
    assert_array_equal(data.y, Y)
    assert_array_equal(data.sample_weight, WEIGHT)
    assert train_arguments({"dtrain": xgboost.DMatrix(X, Y)}).sample_weight is None


def test_a_sparse_matrix_stays_sparse() -> None:
    rows = sparse.random(20, 30, density=0.1, format="csr", random_state=0)
    table = train_arguments({"dtrain": xgboost.DMatrix(rows, np.zeros(20))}).table()
    assert sparse.issparse(table)
    assert_array_equal(table.toarray(), rows.toarray().astype(np.float32))


def test_rows_come_with_their_weights_and_margins() -> None:
    model = xgboost.XGBRFClassifier()
    margin = np.array([0.25, -0.25])
    data = fit_arguments({"self": model, "X": X, "y": Y, "sample_weight": WEIGHT, "base_margin": margin})
    assert (data.X, data.y, data.sample_weight, data.table()) == (X, Y, WEIGHT, X)
    matrix = data.rows_for(model)
    assert_array_equal(matrix.get_weight(), WEIGHT)
    assert_array_equal(matrix.get_base_margin(), margin)
    assert fit_arguments({"self": model, "X": X, "y": Y}).rows_for(model) is X
