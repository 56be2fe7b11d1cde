"""The registry of adapters, which finds the adapter of a model: those that users registered first, then built-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, TypeVar

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.library import FileReadable, Library, home_libraries
from ens_plugin.adapters.shared.refusals import no_adapter
from ens_plugin.errors import InputError, UnsupportedModelError

__all__ = [
    "find_adapter",
    "find_library",
    "is_known",
    "is_registered",
    "libraries",
    "on_registration",
    "register_adapter",
]

_BUILT_IN: tuple[tuple[str, str, str], ...] = (
    ("ens_plugin", "ens_plugin.adapters.custom.adapter", "CustomAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.forest", "SklearnForestAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.bagging", "SklearnBaggingAdapter"),
    ("lightgbm", "ens_plugin.adapters.lightgbm.forest", "LightGBMForestAdapter"),
    ("xgboost", "ens_plugin.adapters.xgboost.trees", "XGBoostTreesAdapter"),
    ("ens_plugin", "ens_plugin.adapters.spark_ml.forest", "SparkForestAdapter"),
    ("pyspark", "ens_plugin.adapters.spark_ml.forest", "SparkForestAdapter"),
)
# These modules import no optional library.
_BUILT_IN_LIBRARIES: tuple[tuple[str, str], ...] = (
    ("ens_plugin.adapters.sklearn.library", "Sklearn"),
    ("ens_plugin.adapters.xgboost.library", "XGBoost"),
    ("ens_plugin.adapters.lightgbm.library", "LightGBM"),
)
# Class attributes that a registered class must define.
_NAMES = ((Library, "library"), (FileReadable, "title"), (FileReadable, "requirement"))
_registered: list[type[EnsembleAdapter]] = []
_observers: list[Callable[[type[EnsembleAdapter]], None]] = []

AdapterClass = TypeVar("AdapterClass", bound=type[EnsembleAdapter])
AnyLibrary = TypeVar("AnyLibrary", bound=Library)


def register_adapter(cls: AdapterClass) -> AdapterClass:
    """Register an adapter for another library and return it; usable as a class decorator.

    Adapters registered last are tried first, before the built-in ones.

    Parameters
    ----------
    cls : subclass of EnsembleAdapter

    Raises
    ------
    InputError
        If `cls` is not a concrete subclass of EnsembleAdapter, or lacks a class attribute that its base classes
        in :mod:`ens_plugin.adapters.library` require.
    """
    if not (isinstance(cls, type) and issubclass(cls, EnsembleAdapter)):
        raise InputError(f"register_adapter expects a subclass of EnsembleAdapter, got {cls!r}; subclass it first.")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    missing += [name for kind, name in _NAMES if issubclass(cls, kind) and not hasattr(cls, name)]
    if missing:
        raise InputError(
            f"{cls.__name__} does not implement {', '.join(missing)}; implement them before registering it, as "
            "ens_plugin.adapters.base.EnsembleAdapter and ens_plugin.adapters.library describe them."
        )
    if cls not in _registered:
        _registered.insert(0, cls)
        for observer in _observers:
            observer(cls)
    return cls


def on_registration(observer: Callable[[type[EnsembleAdapter]], None]) -> None:
    """Have `observer` called with every adapter registered from now on; passing it again has no effect."""
    if observer not in _observers:
        _observers.append(observer)


def is_known(model: object) -> bool:
    """Return whether any adapter accepts `model`, fitted or not."""
    return any(cls.accepts(model) for cls in chain(_registered, _built_in_candidates(model)))


def is_registered(model: object) -> bool:
    """Return whether an adapter that a user registered accepts `model`, fitted or not."""
    return any(cls.accepts(model) for cls in _registered)


def find_adapter(model: object) -> EnsembleAdapter:
    """Return the adapter of a fitted, unwrapped ensemble.

    Raises
    ------
    UnsupportedModelError
        If no adapter accepts the model.
    """
    for cls in chain(_registered, _built_in_candidates(model)):
        if cls.accepts(model):
            return cls(model)
    raise UnsupportedModelError(no_adapter(model))


def libraries(kind: type[AnyLibrary]) -> Iterator[type[AnyLibrary]]:
    """Return the libraries of one kind: those of registered adapters first, then the built-in ones.

    Parameters
    ----------
    kind : subclass of Library
        A class of :mod:`ens_plugin.adapters.library`.

    Examples
    --------
    >>> from ens_plugin.adapters.library import Trainable
    >>> [library.library for library in libraries(Trainable)]
    ['sklearn', 'xgboost', 'lightgbm']
    """
    built_in = (getattr(import_module(module), name) for module, name in _BUILT_IN_LIBRARIES)
    candidates: Iterator[Any] = chain(_registered, built_in)
    return (cls for cls in candidates if issubclass(cls, kind))


def find_library(model: object, kind: type[AnyLibrary]) -> type[AnyLibrary] | None:
    """Return the library of one kind that a model, fitted or not, belongs to; None if there is none.

    Parameters
    ----------
    model : object
        Unwrapped.
    kind : subclass of Library
        A class of :mod:`ens_plugin.adapters.library`.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.adapters.library import Trainable
    >>> find_library(RandomForestClassifier(), Trainable).__name__
    'Sklearn'
    """
    return next((cls for cls in libraries(kind) if cls.accepts(model)), None)


def _built_in_candidates(model: object) -> Iterator[type[EnsembleAdapter]]:
    homes = home_libraries(model)
    for library, module, name in _BUILT_IN:
        if library in homes:
            yield getattr(import_module(module), name)
