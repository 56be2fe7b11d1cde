"""Adapters that installed distributions offer, found by the entry point group ``ens_plugin.adapters``."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, distributions, entry_points

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.library import Library, missing_parts
from ens_plugin.core.validation import one_line
from ens_plugin.errors import AdapterError

__all__ = ["GROUP", "is_loaded", "offered_adapters", "offered_libraries"]

GROUP = "ens_plugin.adapters"

AdapterClasses = tuple[type[EnsembleAdapter], ...]
_loaded: dict[str, AdapterClasses | AdapterError] = {}


def offered_libraries() -> tuple[str, ...]:
    """Return the import names of the libraries that installed distributions offer adapters for, sorted.

    No distribution's code is imported.  The entry points are read once in a process.

    Examples
    --------
    >>> "sklearn" in offered_libraries()
    False
    """
    return tuple(_entries())


def offered_adapters(library: str) -> AdapterClasses:
    """Return the adapters that installed distributions offer for one library, loaded at the first call.

    Parameters
    ----------
    library : str
        Import name of the library, which is the name of the entry point.

    Raises
    ------
    AdapterError
        If an entry point cannot be loaded, or what it names is not an adapter.

    Examples
    --------
    >>> offered_adapters("a_library_without_adapters")
    ()
    """
    if library not in _loaded:
        try:
            _loaded[library] = tuple(cls for entry in _entries().get(library, ()) for cls in _classes(entry))
        except AdapterError as error:
            _loaded[library] = error
    found = _loaded[library]
    if isinstance(found, AdapterError):
        # A new exception each time: a raised one collects the frames of every call.
        raise AdapterError(found.template) from found.__cause__
    return found


def is_loaded(library: str) -> bool:
    """Return whether the adapters offered for a library have been loaded, without loading them."""
    return isinstance(_loaded.get(library), tuple)


@cache
def _entries() -> dict[str, list[EntryPoint]]:
    """Return the entry points of the group by name, those of one name in the order of their distributions' names."""
    found: dict[str, list[EntryPoint]] = {}
    if not _may_be_offered():
        return found
    # An editable install may be on the path twice.
    unique = {(entry.name, _distribution(entry), entry.value): entry for entry in entry_points(group=GROUP)}
    for (name, _, _), entry in sorted(unique.items()):
        found.setdefault(name, []).append(entry)
    return found


def _may_be_offered() -> bool:
    """Return whether a distribution names the group; to parse all entry points takes three times as long."""
    return any(GROUP in (distribution.read_text("entry_points.txt") or "") for distribution in distributions())


def _classes(entry: EntryPoint) -> AdapterClasses:
    try:
        offered = entry.load()
    except Exception as error:  # importing runs the distribution's code, which may raise anything
        raise AdapterError(_unusable(entry, f"{type(error).__name__}: {one_line(str(error))}")) from error
    classes = offered if isinstance(offered, (tuple, list)) else (offered,)
    for cls in classes:
        reason = _problem(cls, entry.name)
        if reason is not None:
            raise AdapterError(_unusable(entry, reason))
    return tuple(classes)


def _problem(cls: object, library: str) -> str | None:
    """Return what keeps an offered object from being an adapter of `library`; None if nothing does."""
    if not (isinstance(cls, type) and issubclass(cls, EnsembleAdapter)):
        return f"{cls!r:.80} is neither a subclass of ens_plugin.adapters.EnsembleAdapter nor a tuple of such"
    missing = missing_parts(cls)
    if missing:
        return f"{cls.__name__} does not implement {', '.join(missing)}"
    if issubclass(cls, Library) and cls.library != library:
        return f"{cls.__name__}.library is {cls.library!r}, which must be the name of the entry point"
    return None


def _unusable(entry: EntryPoint, reason: str) -> str:
    distribution = _distribution(entry)
    return (
        f"The distribution {distribution} offers an adapter for {entry.name} that cannot be used: {reason}. (Entry "
        f"point {entry.name!r} = {entry.value!r} of the group {GROUP!r}.) Update or uninstall {distribution}, or "
        "report this to its authors."
    )


def _distribution(entry: EntryPoint) -> str:
    return "of unknown name" if entry.dist is None else f"{entry.dist.metadata['Name']} {entry.dist.version}"
