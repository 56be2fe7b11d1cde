"""The prefixes of the reports that a run, a writer or a tracker has received in this process."""

from __future__ import annotations

import weakref
from collections.abc import Collection

__all__ = ["free_prefix", "used_prefixes"]

_used: dict[int, set[str]] = {}  # by id of the object
_kept: list[object] = []


def used_prefixes(place: object) -> set[str]:
    """Return the set of prefixes that were logged to an object, for the caller to add to.

    Parameters
    ----------
    place : object
        A run, a writer, or a tracker; it is not kept alive if it can be referenced weakly.

    Examples
    --------
    >>> class Writer: ...
    >>> writer = Writer()
    >>> used_prefixes(writer).add("ens")
    >>> used_prefixes(writer), used_prefixes(Writer())
    ({'ens'}, set())
    """
    if id(place) not in _used:
        _used[id(place)] = set()
        try:
            weakref.finalize(place, _used.pop, id(place), None).atexit = False
        except TypeError:
            # Were it freed, another object could get its id.
            _kept.append(place)
    return _used[id(place)]


def free_prefix(used: Collection[str], prefix: str) -> str:
    """Return `prefix`, or else the first of ``<prefix>_2``, ``<prefix>_3`` and so on that is not used.

    Examples
    --------
    >>> free_prefix({"ens", "ens_2"}, "ens")
    'ens_3'
    """
    numbered, count = prefix, 1
    while numbered in used:
        count += 1
        numbered = f"{prefix}_{count}"
    return numbered
