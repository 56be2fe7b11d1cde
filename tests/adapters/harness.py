"""What the tests of adapters share beside the public checks of ens_plugin.testing.

To test another adapter, add its models to CASES (cases.py) with `Case(name, fit, X, y)`.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.testing import AdapterCase as Case
from ens_plugin.testing import own_prediction

__all__ = ["Array", "Case", "assert_same", "frozen", "own_prediction", "permutation", "recorded_samples", "take_rows"]

Array = NDArray[Any]


def recorded_samples(ensemble: Any) -> list[Array]:
    """Rows each member drew, as scikit-learn publishes them."""
    return list(ensemble.estimators_samples_)


def assert_same(actual: Array, expected: Array, tolerance: float) -> None:
    """Assert that arrays are equal to the bit, or within an absolute tolerance above 0."""
    if tolerance == 0:
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance)


def take_rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def permutation(n_rows: int) -> Array:
    return np.random.default_rng(0).permutation(n_rows)


def frozen(value: Any) -> bytes:
    return pickle.dumps(value)
