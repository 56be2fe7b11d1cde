"""Exceptions and warnings of this package, and how users are warned."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = [
    "AdapterCheckError",
    "AdapterError",
    "BagError",
    "ClusterError",
    "DataMismatchError",
    "EnsPluginError",
    "EnsPluginWarning",
    "GateError",
    "InputError",
    "ModelLoadError",
    "NotConvergedWarning",
    "NotFittedError",
    "TooFewMembersError",
    "TrackingError",
    "UnsupportedModelError",
    "WeakEstimateWarning",
    "ends_at_caller",
    "warn_user",
]


class EnsPluginError(Exception):
    """Base class of every exception raised on purpose by ens_plugin."""


class InputError(EnsPluginError, ValueError):
    """Raised for an argument of a wrong shape, range or content; the message names the argument."""


class DataMismatchError(InputError):
    """Raised where the rows or columns given are not those that the model was trained on."""


class UnsupportedModelError(EnsPluginError, TypeError):
    """Raised for a model without an adapter, a form of it that is not covered, or what its adapter does not offer."""


class AdapterError(EnsPluginError, ImportError):
    """Raised for an adapter of an installed distribution that cannot be loaded; the message names the distribution."""


class AdapterCheckError(EnsPluginError, AssertionError):
    """Raised by :func:`ens_plugin.testing.check_adapter` for an adapter that breaks its contract."""


class NotFittedError(EnsPluginError, ValueError):
    """Raised for a model that is not fitted yet."""


class BagError(EnsPluginError, ValueError):
    """Raised where the in-bag rows of the members are not available or cannot be proved (no bootstrap, for example)."""


class TooFewMembersError(EnsPluginError, ValueError):
    """Raised where the members, or the out-of-bag members per row, are too few for an estimate.

    Attributes
    ----------
    finding : str or None
        What was found, without the remedies that follow it in the message; None where the message has no remedies.
    """

    finding: str | None = None

    def __init__(self, message: str, finding: str | None = None) -> None:
        super().__init__(message)
        if finding is not None:
            self.finding = finding


class ModelLoadError(EnsPluginError, OSError):
    """Raised for a file or URI that cannot be read as a model."""


class TrackingError(EnsPluginError, ConnectionError):
    """Raised where a tracking server cannot be reached or refuses a call, or the library of a tracker fails."""


class ClusterError(EnsPluginError, RuntimeError):
    """Raised where a Spark job cannot be started, or fails for a reason other than the model and the rows."""


class GateError(EnsPluginError, LookupError):
    """Raised where a gate cannot decide on a model version: evidence is missing or contradictory."""


Function = TypeVar("Function", bound=Callable[..., Any])


def ends_at_caller(function: Function) -> Function:
    """Return a public function whose refusals are shown with the caller's line, and not with ten frames below it.

    What another library or a function of the user raised is still shown as the cause.  With
    ``ENS_PLUGIN_TRACEBACK=full`` in the environment all frames are, for the report of a fault.
    """

    @wraps(function)
    def door(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except EnsPluginError as error:
            if os.environ.get("ENS_PLUGIN_TRACEBACK") == "full":
                raise
            cause = None if isinstance(error.__cause__, EnsPluginError) else error.__cause__
            raise error.with_traceback(None) from cause

    return cast(Function, door)


class EnsPluginWarning(UserWarning):
    """Base class of every warning issued by ens_plugin."""


class WeakEstimateWarning(EnsPluginWarning):
    """Issued with an estimate from few rows or few members."""


class NotConvergedWarning(EnsPluginWarning):
    """Issued where an ensemble has fewer members than its estimate recommends, or no estimate supports its size."""


# Libraries that call this package for the user; the user's own line is above them on the stack.
_PASSED = frozenset({"ens_plugin", "functools", "joblib", "mlflow", "sklearn"})


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the innermost line that is neither of this package nor of a library that called it.

    Parameters
    ----------
    message : str
    category : type of Warning

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("25 rows are few.", UserWarning)
    >>> str(caught[0].message)
    '25 rows are few.'
    """
    level, frame = 1, sys._getframe()
    # warnings.warn(skip_file_prefixes=...) is new in Python 3.12.
    while frame.f_back is not None and _library(frame.f_globals.get("__name__")) in _PASSED:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _library(module: object) -> str:
    return str(module).partition(".")[0]
