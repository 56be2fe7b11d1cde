from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse

from ens_plugin.tracking.autolog.training_data import (
    TrainingData,
    from_booster_call,
    from_dataset_call,
    from_method_call,
)
from tests.extras import lightgbm, xgboost

X = np.array([[1.0, 0.0, np.nan], [0.0, 2.0, 3.0]])
Y = np.array([0.0, 1.0])
WEIGHT = np.array([0.5, 2.0])


def test_a_method_is_given_its_data() -> None:
    data = from_method_call({"self": None, "X": X, "y": Y, "sample_weight": WEIGHT})
    assert (data.X, data.y, data.sample_weight) == (X, Y, WEIGHT)
    assert from_method_call({"self": None, "X": X}).y is None


def test_a_dense_matrix_comes_back_as_it_was() -> None:
    data = from_booster_call({"params": {}, "dtrain": xgboost.DMatrix(X, Y, weight=WEIGHT)})
    assert_array_equal(data.table(), X)
    assert_array_equal(data.y, Y)
    assert_array_equal(data.sample_weight, WEIGHT)
    assert from_booster_call({"dtrain": xgboost.DMatrix(X, Y)}).sample_weight is None


def test_a_sparse_matrix_stays_sparse() -> None:
    rows = sparse.random(20, 30, density=0.1, format="csr", random_state=0)
    table = from_booster_call({"dtrain": xgboost.DMatrix(rows, np.zeros(20))}).table()
    assert sparse.issparse(table)
    assert_array_equal(table.toarray(), rows.toarray().astype(np.float32))


def test_a_dataset_is_read_before_it_lets_go_of_its_rows() -> None:
    dataset = lightgbm.Dataset(X, Y, weight=WEIGHT)
    data = from_dataset_call({"train_set": dataset})
    dataset.construct()
    assert data.X is X
    assert (data.y, data.sample_weight) == (Y, WEIGHT)
    assert from_dataset_call({"train_set": dataset}).X is None
    assert from_dataset_call({"train_set": lightgbm.Dataset("rows.csv")}).X is None


def test_xgboost_is_given_weights_and_margins_with_its_rows() -> None:
    model = xgboost.XGBRFClassifier()
    margin = np.array([0.25, -0.25])
    matrix = TrainingData(X, Y, WEIGHT, margin).rows_for(model)
    assert_array_equal(matrix.get_weight(), WEIGHT)
    assert_array_equal(matrix.get_base_margin(), margin)
    assert TrainingData(X, Y).rows_for(model) is X
    assert TrainingData(X, Y, WEIGHT).rows_for(lightgbm.LGBMClassifier()) is X
