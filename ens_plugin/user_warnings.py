"""Warnings attributed to the user's own line of code, wherever in the package they are issued."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn_user"]

# Libraries that call this package for the user; the user's own line is above them on the stack.
_PASSED = frozenset({"ens_plugin", "joblib", "mlflow", "sklearn"})


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
