"""The registry of adapters: those that users registered come first, then those of installed distributions.

Built-in ones come last.  Adapters are imported when a model of their library arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from typing import Any, TypeVar

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.entry_points import is_loaded, offered_adapters, offered_libraries
from ens_plugin.adapters.library import Library, home_libraries, missing_parts
from ens_plugin.adapters.shared.refusals import no_adapter
from ens_plugin.core.validation import with_article
from ens_plugin.errors import AdapterError, EnsPluginWarning, InputError, UnsupportedModelError
from ens_plugin.user_warnings import warn_user

__all__ = [
    "find_adapter",
    "find_library",
    "is_known",
    "is_registered",
    "libraries",
    "load_offered_adapters",
    "on_registration",
    "register_adapter",
]

_BUILT_IN: tuple[tuple[str, str, str], ...] = (
    ("ens_plugin", "ens_plugin.adapters.custom.adapter", "CustomAdapter"),
    # Their ensembles derive from classes of scikit-learn.
    ("imblearn", "ens_plugin.adapters.imblearn.forest", "BalancedForestAdapter"),
    ("imblearn", "ens_plugin.adapters.imblearn.bagging", "BalancedBaggingAdapter"),
    ("imblearn", "ens_plugin.adapters.imblearn.bagging", "EasyEnsembleAdapter"),
    ("quantile_forest", "ens_plugin.adapters.quantile_forest.forest", "QuantileForestAdapter"),
    ("sksurv", "ens_plugin.adapters.sksurv.risk", "SurvivalForestAdapter"),
    ("econml", "ens_plugin.adapters.econml.forest", "RegressionForestAdapter"),
    ("sklearnex", "ens_plugin.adapters.sklearn.oneapi", "OneApiForestAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.forest", "SklearnForestAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.bagging", "SklearnBaggingAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.isolation", "IsolationForestAdapter"),
    ("ydf", "ens_plugin.adapters.ydf.forest", "YdfForestAdapter"),
    ("h2o", "ens_plugin.adapters.h2o.forest", "H2OForestAdapter"),
    ("lightgbm", "ens_plugin.adapters.lightgbm.forest", "LightGBMForestAdapter"),
    ("xgboost", "ens_plugin.adapters.xgboost.trees", "XGBoostTreesAdapter"),
    ("ens_plugin", "ens_plugin.adapters.spark_ml.forest", "SparkForestAdapter"),
    ("ens_plugin", "ens_plugin.adapters.sksurv.probability", "SurvivalAtAdapter"),
    ("ens_plugin", "ens_plugin.adapters.quantile_forest.quantile", "QuantileAtAdapter"),
    ("pyspark", "ens_plugin.adapters.spark_ml.forest", "SparkForestAdapter"),
)
# These modules import no optional library.
_BUILT_IN_LIBRARIES: tuple[tuple[str, str], ...] = (
    ("ens_plugin.adapters.imblearn.library", "Imblearn"),
    ("ens_plugin.adapters.quantile_forest.library", "QuantileForest"),
    ("ens_plugin.adapters.econml.library", "EconML"),
    ("ens_plugin.adapters.sklearn.library", "Sklearn"),
    ("ens_plugin.adapters.xgboost.library", "XGBoost"),
    ("ens_plugin.adapters.lightgbm.library", "LightGBM"),
)
_registered: list[type[EnsembleAdapter]] = []
_observers: list[Callable[[type[EnsembleAdapter]], None]] = []

AdapterClass = TypeVar("AdapterClass", bound=type[EnsembleAdapter])
AnyLibrary = TypeVar("AnyLibrary", bound=Library)


def register_adapter(cls: AdapterClass) -> AdapterClass:
    """Register an adapter for another library and return it; usable as a class decorator.

    Adapters registered last are tried first, before those of installed distributions and the built-in ones.  A
    distribution offers adapters by the entry point group ``ens_plugin.adapters``, without a call of this function;
    see ``docs/how-to/adapters.md``.

    Parameters
    ----------
    cls : subclass of EnsembleAdapter

    Raises
    ------
    InputError
        If `cls` is not a concrete subclass of EnsembleAdapter, or lacks a class attribute that its base classes
        in :mod:`ens_plugin.adapters.library` require.

    Examples
    --------
    >>> import ens_plugin
    >>> from ens_plugin.adapters import EnsembleAdapter
    >>> ens_plugin.register_adapter(EnsembleAdapter)
    Traceback (most recent call last):
    ens_plugin.errors.InputError: ...
    """
    if not (isinstance(cls, type) and issubclass(cls, EnsembleAdapter)):
        raise InputError(f"register_adapter expects a subclass of EnsembleAdapter, got {cls!r}; subclass it first.")
    missing = missing_parts(cls)
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
    return any(cls.accepts(model) for cls in chain(_third_party(model), _built_in_candidates(model)))


def is_registered(model: object) -> bool:
    """Return whether an adapter that a user registered, or a distribution offers, accepts `model`, fitted or not."""
    return any(cls.accepts(model) for cls in _third_party(model))


def find_adapter(model: object) -> EnsembleAdapter:
    """Return the adapter of a fitted, unwrapped ensemble.

    Raises
    ------
    AdapterError
        If an installed distribution offers an adapter for the model's library that cannot be loaded.
    UnsupportedModelError
        If no adapter accepts the model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import find_adapter
    >>> find_adapter(RandomForestRegressor(10).fit(*load_diabetes(return_X_y=True))).n_members
    10
    """
    for cls in chain(_third_party(model), _built_in_candidates(model)):
        if cls.accepts(model):
            return cls(model)
    raise UnsupportedModelError(no_adapter(model) + _held_ensembles(model))


def _held_ensembles(model: object) -> str:
    """Return a sentence that names an ensemble which a model of an unknown class keeps; empty if it keeps none."""
    if type(model).__module__.startswith("sklearn."):
        return ""
    kept = getattr(model, "__dict__", {})
    # What a fit made comes before what it was made from.
    for name in sorted(kept, key=lambda name: not name.endswith("_")):
        held = kept[name]
        is_list = isinstance(held, (list, tuple)) and len(held) > 0
        inner = held[0] if is_list else held
        if is_known(inner):
            return (
                f" This {type(model).__name__} keeps {with_article(type(inner).__name__)} as "
                f"model.{name}{'[0]' if is_list else ''}: pass that, with the rows and the target that it was trained "
                "on."
            )
    return ""


def libraries(kind: type[AnyLibrary]) -> Iterator[type[AnyLibrary]]:
    """Return the libraries of one kind: those of registered adapters, of installed distributions, and built-in ones.

    A distribution's adapters are among them once the library that they are for is imported, unless they cannot be
    loaded, which :func:`find_adapter` reports.

    Parameters
    ----------
    kind : subclass of Library
        A class of :mod:`ens_plugin.adapters.library`.

    Examples
    --------
    >>> from ens_plugin.adapters import Trainable, libraries
    >>> [library.library for library in libraries(Trainable)]
    ['imblearn', 'quantile_forest', 'econml', 'sklearn', 'xgboost', 'lightgbm']
    """
    present = [name for name in offered_libraries() if name in sys.modules or is_loaded(name)]
    offered = (cls for name in present for cls in _loadable(name))
    candidates: Iterator[Any] = chain(_registered, offered, _built_in_libraries())
    return (cls for cls in candidates if issubclass(cls, kind))


def load_offered_adapters() -> None:
    """Load the adapters of all installed distributions, to find the one that reads a file of an unknown format.

    One that cannot be loaded is left out, with an EnsPluginWarning.
    """
    for name in offered_libraries():
        try:
            offered_adapters(name)
        except AdapterError as error:
            warn_user(str(error), EnsPluginWarning)


def find_library(model: object, kind: type[AnyLibrary]) -> type[AnyLibrary] | None:
    """Return the library of one kind that a model, fitted or not, belongs to; None if there is none.

    Parameters
    ----------
    model : object
        Unwrapped.
    kind : subclass of Library
        A class of :mod:`ens_plugin.adapters.library`.

    Raises
    ------
    AdapterError
        If an installed distribution offers an adapter for the model's library that cannot be loaded.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.adapters import Trainable, find_library
    >>> find_library(RandomForestClassifier(), Trainable).__name__
    'Sklearn'
    """
    candidates: Iterator[Any] = chain(_third_party(model), _built_in_libraries())
    return next((cls for cls in candidates if issubclass(cls, kind) and cls.accepts(model)), None)


def _third_party(model: object) -> Iterator[type[EnsembleAdapter]]:
    """Yield registered adapters, then those that distributions offer for the libraries of a model's class."""
    yield from tuple(_registered)
    homes = home_libraries(model)
    for name in offered_libraries():
        if name in homes:
            yield from offered_adapters(name)


def _loadable(library: str) -> tuple[type[EnsembleAdapter], ...]:
    try:
        return offered_adapters(library)
    except AdapterError:
        return ()


def _built_in_libraries() -> Iterator[type[Library]]:
    return (getattr(import_module(module), name) for module, name in _BUILT_IN_LIBRARIES)


def _built_in_candidates(model: object) -> Iterator[type[EnsembleAdapter]]:
    homes = home_libraries(model)
    for library, module, name in _BUILT_IN:
        if library in homes:
            yield getattr(import_module(module), name)
