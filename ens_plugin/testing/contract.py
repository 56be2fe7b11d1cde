"""The functions that check an adapter against its whole contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import counted
from ens_plugin.errors import AdapterCheckError
from ens_plugin.testing.adapter_case import AdapterCase, Samples, own_prediction
from ens_plugin.testing.adapter_checks import ADAPTER_CHECKS, AdapterCheck

__all__ = ["check_adapter", "check_case"]

Array = NDArray[Any]


def check_adapter(
    model: Any,
    X: Any,
    y: Any,
    *,
    samples: Samples | None = None,
    predict: Callable[[Any, Any], Array] = own_prediction,
    tolerance: float = 0.0,
    proves_rows: bool = True,
    proves_target: bool | None = None,
    needs_target: bool = False,
) -> tuple[str, ...]:
    """Check that the adapter of a fitted model keeps the contract, and return the promises that were checked.

    The adapter is found as :func:`ens_plugin.analyze` finds it: registered, offered by an installed distribution, or
    built in.

    Parameters
    ----------
    model : fitted ensemble
        Trained on `X` and `y`; a Pipeline or a search of one is taken apart.
    X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features)
        The training rows, in training order; at least 30 of them, with at least two columns.
    y : array-like of shape (n_rows,)
    samples, predict, tolerance, proves_rows, proves_target, needs_target
        As of :class:`AdapterCase`.  With `samples`, the bags are compared with those of another source.

    Returns
    -------
    tuple of str

    Raises
    ------
    AdapterCheckError
        If promises are broken: the message has each with what was found.
    UnsupportedModelError
        If no adapter accepts the model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.testing import check_adapter
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    >>> len(check_adapter(forest, X, y, samples=lambda forest: forest.estimators_samples_))
    16
    """
    case = AdapterCase(
        name=type(model).__name__,
        fit=lambda: model,
        X=X,
        y=y if hasattr(y, "iloc") else np.asarray(y),
        samples=samples,
        predict=predict,
        tolerance=tolerance,
        proves_rows=proves_rows,
        proves_target=proves_target,
        needs_target=needs_target,
    )
    return check_case(case)


def check_case(case: AdapterCase) -> tuple[str, ...]:
    """Make all checks that apply to a case, as :func:`check_adapter`, and return the promises that were checked.

    Raises
    ------
    AdapterCheckError, UnsupportedModelError
        As :func:`check_adapter`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.testing import AdapterCase, check_case
    >>> X, y = load_diabetes(return_X_y=True)
    >>> case = AdapterCase("a small forest", lambda: RandomForestRegressor(10, random_state=0).fit(X, y), X, y)
    >>> len(check_case(case))
    15
    """
    name = type(case.adapter).__name__
    checks = [check for check in ADAPTER_CHECKS if check.applies(case)]
    failures = [f"- {check.promise}\n  {found}" for check in checks if (found := _failure(check, case)) is not None]
    if failures:
        raise AdapterCheckError(
            f"{name} breaks {len(failures)} of {counted(len(checks), 'promise')} for {case.name}:\n"
            + "\n".join(failures)
        )
    return tuple(check.promise for check in checks)


def _failure(check: AdapterCheck, case: AdapterCase) -> str | None:
    try:
        check.run(case)
    except AdapterCheckError as error:
        return str(error)
    except Exception as error:  # an adapter under test may raise anything
        return f"It raised {type(error).__name__}: {error}"
    return None
