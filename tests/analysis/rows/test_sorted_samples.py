"""Samples in the order of their content keep what the tally of all rows has counted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.analysis.analyze import open_model, tally_model_rows
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.analysis.rows import read_rows
from ens_plugin.core.tally import count_members, label_support


@pytest.mark.parametrize("min_samples_leaf", [1, 20])
@pytest.mark.parametrize("n_left_out", [0, 300])
def test_sampled_rows_have_the_votes_of_their_members(min_samples_leaf: int, n_left_out: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(30, min_samples_leaf=min_samples_leaf, random_state=0).fit(X, y)
    options = AnalysisOptions(sample_weight=np.arange(y.size) >= n_left_out)
    adapter, inner, settings = open_model(forest, X, y, options)
    _, evidence = tally_model_rows(read_rows(adapter, inner, y, options, None), settings)
    block, rows = evidence.sample.block, evidence.sample.rows
    assert rows.min() == n_left_out
    np.testing.assert_array_equal(block.target, y[rows])
    np.testing.assert_array_equal(block.trials, count_members(block.counted))
    np.testing.assert_allclose(block.support, label_support(block, block.counted), rtol=1e-12)
