"""What is known of LightGBM beside its trained forests."""

from __future__ import annotations

import numpy as np

from ens_plugin.adapters.lightgbm.library import train_arguments
from tests.extras import lightgbm

X = np.array([[1.0, 0.0, np.nan], [0.0, 2.0, 3.0]])
Y = np.array([0.0, 1.0])
WEIGHT = np.array([0.5, 2.0])


def test_a_dataset_is_read_before_it_lets_go_of_its_rows() -> None:
    dataset = lightgbm.Dataset(X, Y, weight=WEIGHT)
    data = train_arguments({"train_set": dataset})
    dataset.construct()
    assert data.X is X
    assert (data.y, data.sample_weight) == (Y, WEIGHT)
    assert train_arguments({"train_set": dataset}).X is None
    assert train_arguments({"train_set": lightgbm.Dataset("rows.csv")}).X is None
