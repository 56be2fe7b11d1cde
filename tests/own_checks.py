"""scikit-learn's own checks of an estimator, some of which are expected to fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.extras import SKLEARN_RELEASE

__all__ = ["own_checks"]

HAS_EXPECTED = SKLEARN_RELEASE >= (1, 6)
REASON = "scikit-learn before 1.6 has no way to expect a check to fail"


def own_checks(estimators: Sequence[Any], expected_failures: Mapping[str, str]) -> Callable[[Any], Any]:
    """Return a decorator that runs a test for each check of each estimator.

    Parameters
    ----------
    estimators : sequence of estimators
    expected_failures : mapping of str to str
        Reason by name of the check.
    """
    options = {"expected_failed_checks": lambda _: dict(expected_failures)} if HAS_EXPECTED else {}
    parametrized = parametrize_with_checks(list(estimators), **options)
    skipped = pytest.mark.skipif(not HAS_EXPECTED, reason=REASON)
    return lambda function: skipped(parametrized(function))
