"""What is known of LightGBM beside its trained forests."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ens_plugin.adapters.lightgbm.library import LightGBM, train_arguments
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


def test_columns_of_text_become_the_categories_of_training() -> None:
    trained = pd.DataFrame({"city": pd.Categorical(["b", "a", "c", "a"] * 10), "x": np.arange(40.0)})
    model = lightgbm.LGBMRegressor(n_estimators=2, min_child_samples=1, verbose=-1).fit(trained, trained["x"])
    found = LightGBM.with_categories(model, pd.DataFrame({"city": ["c", "a"], "x": [0.0, 1.0]}))
    assert found["city"].cat.codes.tolist() == [2, 0]
    assert found["x"].dtype == np.float64
    assert LightGBM.with_categories(model, trained) is trained
