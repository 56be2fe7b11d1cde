"""The distribution that a library was installed from, for the versions that a report states."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["first_installed"]


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
            version(name)
        except PackageNotFoundError:
            continue
        return (name,)
    return ()
