"""Replacement of the libraries' training functions by watched ones, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

from ens_plugin.tracking.autolog.fit_watch import Reader, watched
from ens_plugin.tracking.autolog.training_data import from_booster_call, from_dataset_call, from_method_call

__all__ = ["LAZY_LIBRARIES", "LIBRARIES", "patch_library", "unpatch_libraries"]

LIBRARIES = ("ens_plugin", "sklearn")
LAZY_LIBRARIES = ("lightgbm", "xgboost")
# Where MLflow keeps the function that it puts back when its own autologging is enabled again or disabled.
MLFLOW_ORIGINAL = "_gorilla_original_{}"


# Keyed by replacement. MLflow copies attributes of a function to its own patch, so an attribute would not do.
_originals: WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = WeakKeyDictionary()
_replacements: WeakKeyDictionary[Callable[..., Any], Callable[..., Any]] = WeakKeyDictionary()  # by original


class _Site(NamedTuple):
    """An attribute that holds a function which trains models."""

    owner: Any
    name: str
    read: Reader
    returns_model: bool


def patch_library(library: str) -> None:
    """Replace the training functions of an imported library by watched ones; those already replaced stay.

    Where MLflow has patched a function, both its patch and what it will put back are watched.

    Parameters
    ----------
    library : {"ens_plugin", "sklearn", "lightgbm", "xgboost"}
    """
    for site, attribute in _attributes(library):
        function = vars(site.owner)[attribute]
        if function not in _originals:
            replacement = _replacement(site, attribute, function)
            _originals[replacement] = function
            setattr(site.owner, attribute, replacement)


def _replacement(site: _Site, attribute: str, function: Callable[..., Any]) -> Callable[..., Any]:
    is_module = isinstance(site.owner, ModuleType)
    # A program may keep a reference to a module's function, so each call returns the same replacement.
    if is_module and function in _replacements:
        return _replacements[function]
    replacement: Any = watched(function, site.read, returns_model=site.returns_model)
    # pickle looks a function up by these names; the defining module still holds the library's own.
    replacement.__module__ = site.owner.__name__ if is_module else site.owner.__module__
    replacement.__qualname__ = attribute if is_module else f"{site.owner.__qualname__}.{attribute}"
    if is_module:
        _replacements[function] = replacement
    return cast("Callable[..., Any]", replacement)


def unpatch_libraries() -> None:
    """Restore the original functions."""
    for library in (*LIBRARIES, *LAZY_LIBRARIES):
        for site, attribute in _attributes(library):
            function = vars(site.owner)[attribute]
            if function in _originals:
                setattr(site.owner, attribute, _originals[function])


def _attributes(library: str) -> Iterator[tuple[_Site, str]]:
    if library in LAZY_LIBRARIES and library not in sys.modules:
        return
    for site in _SITES[library]():
        for attribute in (site.name, MLFLOW_ORIGINAL.format(site.name)):
            if attribute in vars(site.owner):
                yield site, attribute


def _sklearn_sites() -> list[_Site]:
    from sklearn import ensemble, model_selection, pipeline

    classes = (
        ensemble.BaggingClassifier,
        ensemble.BaggingRegressor,
        ensemble.ExtraTreesClassifier,
        ensemble.ExtraTreesRegressor,
        ensemble.RandomForestClassifier,
        ensemble.RandomForestRegressor,
        model_selection.GridSearchCV,
        model_selection.RandomizedSearchCV,
        pipeline.Pipeline,
    )
    return _fit_methods(*classes)


def _lightgbm_sites() -> list[_Site]:
    import lightgbm

    return [
        _Site(lightgbm, "train", from_dataset_call, True),
        *_fit_methods(lightgbm.LGBMClassifier, lightgbm.LGBMRegressor),
    ]


def _xgboost_sites() -> list[_Site]:
    import xgboost

    return [
        _Site(xgboost, "train", from_booster_call, True),
        *_fit_methods(xgboost.XGBClassifier, xgboost.XGBRegressor, xgboost.XGBRFClassifier, xgboost.XGBRFRegressor),
    ]


def _right_sized_sites() -> list[_Site]:
    from ens_plugin.learners.growth.right_sized import RightSizedClassifier, RightSizedRegressor

    return _fit_methods(RightSizedClassifier, RightSizedRegressor)


def _fit_methods(*classes: type) -> list[_Site]:
    """Return the classes that define ``fit``, parents included: MLflow patches classes that only inherit it."""
    owners = dict.fromkeys(owner for cls in classes for owner in cls.__mro__ if "fit" in vars(owner))
    return [_Site(owner, "fit", from_method_call, False) for owner in owners]


_SITES: dict[str, Callable[[], list[_Site]]] = {
    "ens_plugin": _right_sized_sites,
    "sklearn": _sklearn_sites,
    "lightgbm": _lightgbm_sites,
    "xgboost": _xgboost_sites,
}
