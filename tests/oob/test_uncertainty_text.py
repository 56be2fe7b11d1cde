"""The text of predictions with their uncertainty, and errors about the rows to predict."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import ens_plugin
from ens_plugin.errors import DataMismatchError

X = np.random.default_rng(0).normal(size=(150, 3))
FOREST = RandomForestRegressor(20, random_state=0).fit(X, X[:, 0])


def test_many_rows_are_a_short_text_with_the_warnings() -> None:
    found = ens_plugin.predict_with_uncertainty(FOREST, X, X[:, 0], X + 0.1)
    text = str(found)
    assert text.startswith("PredictionUncertainty of 150 rows, of which these are the first 5:")
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("Warning: ") == len(found.warnings) > 0


def test_errors_name_the_rows_to_predict() -> None:
    with pytest.raises(DataMismatchError, match=r"X_new cannot be predicted\. X has 2 columns"):
        ens_plugin.predict_with_uncertainty(FOREST, X, X[:, 0], X[:, :2])
