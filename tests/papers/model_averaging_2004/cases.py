"""Data and classifiers that the tests of bootstrap model averaging share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_iris

from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier

Array = NDArray[Any]


def iris(step: int = 3) -> tuple[Array, Array]:
    X, y = load_iris(return_X_y=True)
    return X[::step], y[::step]


def counts(n_rows: int = 60, seed: int = 0) -> tuple[Array, Array]:
    """Whole counts from 0 to 4 with a weak signal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_rows)
    return rng.binomial(4, 0.2 + 0.2 * y[:, None], size=(n_rows, 5)).astype(float), y


def averaged(estimator: Any = None, **parameters: Any) -> BootstrapModelAveragingClassifier:
    return BootstrapModelAveragingClassifier(estimator, **({"n_estimators": 8, "random_state": 0} | parameters))
