"""Models of several outputs, taken apart and cut."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_regression
from sklearn.ensemble import RandomForestRegressor

import ens_plugin


def test_only_a_copy_with_all_members_keeps_the_out_of_bag_predictions() -> None:
    X, y = make_regression(80, 4, n_targets=2, random_state=0)
    forest = RandomForestRegressor(30, oob_score=True, random_state=0).fit(X, y)
    whole, part = ens_plugin.truncate(forest, 30), ens_plugin.truncate(forest, 20)
    np.testing.assert_array_equal(whole.oob_prediction_, forest.oob_prediction_)
    assert whole.oob_score_ == forest.oob_score_
    assert not hasattr(part, "oob_prediction_")
    assert not hasattr(part, "oob_score_")
