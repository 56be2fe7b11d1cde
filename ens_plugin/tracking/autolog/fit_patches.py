"""Replacement of the libraries' training functions by functions that report each fit, and their restoration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, cast
from weakref import WeakKeyDictionary

from ens_plugin.adapters.training import FitSite, fit_methods
from ens_plugin.tracking.autolog.fit_watch import watched

__all__ = ["patch", "right_sized_sites", "unpatch"]

# Attribute with the function that MLflow restores when its own autologging is enabled again or disabled.
MLFLOW_ORIGINAL = "_gorilla_original_{}"


# By replacement. An attribute of the replacement would be wrong: MLflow copies attributes to its own patch.
_originals: WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = WeakKeyDictionary()
_replacements: WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = WeakKeyDictionary()  # by original


# All sites that were ever patched: MLflow moves our functions between their attributes.
_sites: dict[FitSite, None] = {}


def patch(sites: Iterable[FitSite]) -> None:
    """Replace training functions by functions that report each fit; those already replaced stay.

    Where MLflow has patched a function, both its patch and the function that it will restore are replaced.

    Parameters
    ----------
    sites : iterable of FitSite
    """
    for site in sites:
        _sites[site] = None
        for attribute in _attributes(site):
            function = vars(site.owner)[attribute]
            if function not in _originals:
                replacement = _replacement(site, attribute, function)
                _originals[replacement] = function
                setattr(site.owner, attribute, replacement)


def _replacement(site: FitSite, attribute: str, function: Callable[..., Any]) -> Callable[..., Any]:
    is_module = isinstance(site.owner, ModuleType)
    # A program may keep a reference to a module's function, so each call returns the same replacement.
    if is_module and function in _replacements:
        return _replacements[function]
    replacement: Any = watched(function, site.read, returns_model=is_module)
    # pickle finds a function by these names; the defining module still has the library's own function.
    replacement.__module__ = site.owner.__name__ if is_module else site.owner.__module__
    replacement.__qualname__ = attribute if is_module else f"{site.owner.__qualname__}.{attribute}"
    if is_module:
        _replacements[function] = replacement
    return cast("Callable[..., Any]", replacement)


def unpatch() -> None:
    """Restore the training functions that :func:`patch` has replaced."""
    for site in _sites:
        for attribute in _attributes(site):
            function = vars(site.owner)[attribute]
            if function in _originals:
                setattr(site.owner, attribute, _originals[function])


def _attributes(site: FitSite) -> Iterator[str]:
    for attribute in (site.name, MLFLOW_ORIGINAL.format(site.name)):
        if attribute in vars(site.owner):
            yield attribute


def right_sized_sites() -> list[FitSite]:
    """Return the ``fit`` methods of this package's own ensembles, for :func:`patch` to replace."""
    from ens_plugin.learners.growth.right_sized import RightSizedClassifier, RightSizedRegressor

    return fit_methods(RightSizedClassifier, RightSizedRegressor)
