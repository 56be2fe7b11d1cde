"""Which distribution a library was installed from, for the versions that a report states."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__all__ = ["first_installed"]


def first_installed(*names: str) -> tuple[str, ...]:
    """Return the first of these distributions that is installed here; empty where none is.

    A library can be importable without any: Spark brings a PySpark of its own on the ``PYTHONPATH``.  A model can
    also be there without its library: one that was read before needs it no more.

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
