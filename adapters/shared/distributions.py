"""The distribution that a library was installed from, and its version, which a report states."""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version

__all__ = ["first_installed", "installed_version"]

_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


@cache
def installed_version(name: str) -> str:
    """Return the version of an installed distribution, read once in a process.

    ``importlib.metadata.version`` parses the whole description, 10 ms for a long one.

    Parameters
    ----------
    name : str
        Name of the distribution.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        If it is not installed.

    Examples
    --------
    >>> import numpy
    >>> installed_version("numpy") == numpy.__version__
    True
    """
    header, _, _ = (distribution(name).read_text("METADATA") or "").partition("\n\n")
    stated = _VERSION.search(header)
    return version(name) if stated is None else stated[1]


def first_installed(*names: str) -> tuple[str, ...]:
    """Return the first of some distributions that is installed, as a tuple; an empty one where none is.

    A library can be importable without any: Spark puts its own PySpark on the ``PYTHONPATH``.  A model that was
    read before can be used without its library.

    Parameters
    ----------
    *names : str
        Names of distributions that hold the same library.

    Examples
    --------
    >>> first_installed("numpy-of-another-name", "numpy")
    ('numpy',)
    >>> first_installed("numpy-of-another-name")
    ()
    """
    for name in names:
        try:
            installed_version(name)
        except PackageNotFoundError:
            continue
        return (name,)
    return ()
