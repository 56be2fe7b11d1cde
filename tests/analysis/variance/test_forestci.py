"""The variance over training sets against that of forestci, which has the infinitesimal jackknife of random forests."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor

import ens_plugin
from tests.extras import imported

forestci = imported("forestci")

# Slow, so that it is run where .ci/run has installed the library.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def test_it_agrees_with_forestci() -> None:
    X, y = make_friedman1(200, noise=1.0, random_state=0)
    trained, new = slice(0, 150), slice(150, 200)
    forest = RandomForestRegressor(500, min_samples_leaf=3, random_state=0).fit(X[trained], y[trained])
    found = ens_plugin.training_variance(forest, X[trained], X[new])

    # Its sum of squared covariances, before any correction.
    counts = forestci.calc_inbag(150, forest)
    outputs = np.stack([tree.predict(X[new]) for tree in forest.estimators_])
    covariances = (counts - 1.0) @ (outputs - outputs.mean(axis=0)) / 500
    np.testing.assert_allclose(found.uncorrected, np.square(covariances).sum(axis=0), rtol=1e-9)

    # The two corrections for the noise of the trees are of the same size, and not the same.
    theirs = forestci.random_forest_error(forest, X[trained].shape, X[new], calibrate=False)
    assert np.corrcoef(found.variance, theirs)[0, 1] > 0.999
    assert np.abs(found.variance - theirs).max() < 0.25 * found.noise.mean()
    assert found.variance.mean() == pytest.approx(theirs.mean(), rel=0.01)
