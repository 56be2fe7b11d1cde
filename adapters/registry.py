"""The registry of adapters and libraries: those that users registered first, then those of installed distributions.

Built-in ones come last.  Adapters are imported when a model of their library arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, distributions, entry_points
from inspect import getattr_static
from itertools import chain
from typing import Any, TypeVar

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.library import Library, home_libraries
from ens_plugin.adapters.unsupported import no_adapter
from ens_plugin.core.validation import one_line
from ens_plugin.errors import (
    AdapterError,
    EnsPluginWarning,
    InputError,
    UnsupportedModelError,
    ends_at_caller,
    warn_user,
)

GROUP = "ens_plugin.adapters"
_BUILT_IN: tuple[tuple[str, str, str], ...] = (
    # Its ensemble is a CustomEnsemble.
    ("ens_plugin", "ens_plugin.adapters.custom", "CustomAdapter"),
    # Their ensembles derive from classes of scikit-learn.
    ("imblearn", "ens_plugin.adapters.imblearn", "BalancedForestAdapter"),
    ("imblearn", "ens_plugin.adapters.imblearn", "BalancedBaggingAdapter"),
    ("quantile_forest", "ens_plugin.adapters.quantile_forest", "QuantileForestAdapter"),
    ("sksurv", "ens_plugin.adapters.sksurv", "SurvivalForestAdapter"),
    ("econml", "ens_plugin.adapters.econml", "RegressionForestAdapter"),
    ("econml", "ens_plugin.adapters.econml", "CausalForestAdapter"),
    ("sklearnex", "ens_plugin.adapters.sklearn.forest", "OneApiForestAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.forest", "SklearnForestAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.bagging", "SklearnBaggingAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.forest", "IsolationForestAdapter"),
    ("ydf", "ens_plugin.adapters.ydf", "YdfForestAdapter"),
    ("lightgbm", "ens_plugin.adapters.lightgbm.forest", "LightGBMForestAdapter"),
    ("xgboost", "ens_plugin.adapters.xgboost.trees", "XGBoostTreesAdapter"),
    ("ens_plugin", "ens_plugin.adapters.spark_ml", "SparkForestAdapter"),
    ("ens_plugin.adapters.sksurv", "ens_plugin.adapters.sksurv", "SurvivalAtAdapter"),
    ("ens_plugin.adapters.quantile_forest", "ens_plugin.adapters.quantile_forest", "QuantileAtAdapter"),
    ("pyspark", "ens_plugin.adapters.spark_ml", "SparkForestAdapter"),
)
# Of these, the adapters tell how one trains and stores models, too.
BUILT_IN_LIBRARIES = ("econml", "imblearn", "quantile_forest", "sklearn")
# These classes can be loaded without their libraries, to read the libraries' files.
_READERS: tuple[tuple[str, str], ...] = (
    ("ens_plugin.adapters.xgboost.library", "XGBoost"),
    ("ens_plugin.adapters.lightgbm.library", "LightGBM"),
)
# An adapter that overrides the method on the left must define what is on the right too.
_TOGETHER: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (EnsembleAdapter, "loss", ("loss_name",)),
    (EnsembleAdapter, "loss_name", ("loss",)),
    (EnsembleAdapter, "combined", ("loss", "loss_name")),
    (Library, "reads", ("read", "title", "requirement")),
)

AdapterClasses = tuple[type[EnsembleAdapter], ...]
AdapterClass = TypeVar("AdapterClass", bound=type[EnsembleAdapter])

_loaded: dict[str, AdapterClasses | AdapterError] = {}
_registered: list[type[EnsembleAdapter]] = []
_observers: list[Callable[[type[EnsembleAdapter]], None]] = []


def offered_libraries() -> tuple[str, ...]:
    """Return the import names of the libraries that installed distributions offer adapters for, sorted."""
    # No distribution's code is imported. The entry points are read once in a process.
    return tuple(_entries())


def offered_adapters(library: str) -> AdapterClasses:
    """Return the adapters that installed distributions offer for one library, loaded at the first call."""
    if library not in _loaded:
        try:
            _loaded[library] = tuple(cls for entry in _entries().get(library, ()) for cls in _classes(entry))
        except AdapterError as error:
            _loaded[library] = error
    found = _loaded[library]
    if isinstance(found, AdapterError):
        # A new exception each time: a raised one collects the frames of every call.
        raise AdapterError(str(found)) from found.__cause__
    return found


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
        reason = _problem(cls)
        if reason is None and issubclass(cls, Library) and cls.library != entry.name:
            reason = f"{cls.__name__}.library is {cls.library!r}, which must be the name of the entry point"
        if reason is not None:
            raise AdapterError(_unusable(entry, reason))
    return tuple(classes)


def _problem(cls: object) -> str | None:
    """Return what keeps an object from being an adapter; None if nothing does."""
    if not (isinstance(cls, type) and issubclass(cls, EnsembleAdapter)):
        return f"{cls!r:.80} is neither a subclass of ens_plugin.adapters.EnsembleAdapter nor a tuple of such"
    if missing := _missing_parts(cls):
        return (
            f"{cls.__name__} does not implement {', '.join(missing)}; what they are is in the help of "
            "ens_plugin.adapters.EnsembleAdapter and ens_plugin.adapters.Library"
        )
    return None


def _missing_parts(cls: type) -> list[str]:
    """Return the names of the methods and class attributes that an adapter lacks."""
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if issubclass(cls, Library) and not hasattr(cls, "library"):
        missing.append("library")
    for base, name, needed in _TOGETHER:
        if issubclass(cls, base) and _overrides(cls, base, name):
            missing += [part for part in needed if not _overrides(cls, base, part) and part not in missing]
    return missing


def _overrides(cls: type, base: type, name: str) -> bool:
    return getattr_static(cls, name, None) is not getattr_static(base, name, None)


def _unusable(entry: EntryPoint, reason: str) -> str:
    distribution = _distribution(entry)
    return (
        f"The distribution {distribution} offers an adapter for {entry.name} that cannot be used: {reason}. (Entry "
        f"point {entry.name!r} = {entry.value!r} of the group {GROUP!r}.) Update or uninstall {distribution}, or "
        "report this to its authors."
    )


def _distribution(entry: EntryPoint) -> str:
    return "of unknown name" if entry.dist is None else f"{entry.dist.metadata['Name']} {entry.dist.version}"


@ends_at_caller
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
        If `cls` is not a concrete subclass of EnsembleAdapter, or lacks what one of its optional methods needs, such as
        the :attr:`~ens_plugin.adapters.contract.EnsembleAdapter.loss_name` of a loss.

    Examples
    --------
    >>> import ens_plugin
    >>> from ens_plugin.adapters import EnsembleAdapter
    >>> ens_plugin.register_adapter(EnsembleAdapter)
    Traceback (most recent call last):
    ens_plugin.errors.InputError: ...
    """
    if problem := _problem(cls):
        raise InputError(f"This cannot be registered: {problem}. Change that first.")
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
    raise UnsupportedModelError(no_adapter(model, is_known))


def libraries(name: str | None = None) -> Iterator[type[Library]]:
    """Return the libraries: those of registered adapters, of installed distributions, and built-in ones.

    An adapter is a library if it is derived from Library, and among the libraries once the one that it is for is
    imported, unless it cannot be loaded, which :func:`find_adapter` reports.

    Parameters
    ----------
    name : str, optional
        Import name of a library, whose adapters alone are loaded and returned.

    Examples
    --------
    >>> import sklearn
    >>> from ens_plugin.adapters import libraries
    >>> {library.library for library in libraries("sklearn")}
    {'sklearn'}
    """
    offered = (cls for home in offered_libraries() if _is_wanted(home, name) for cls in _loadable(home))
    own = [(home, *path) for home, *path in _BUILT_IN if home in BUILT_IN_LIBRARIES]
    built_in = (_imported(*path) for home, *path in own if _is_wanted(home, name))
    candidates: Iterator[Any] = chain(_registered, offered, built_in, _readers())
    return (cls for cls in candidates if issubclass(cls, Library) and name in (None, cls.library))


def _is_wanted(home: str, name: str | None) -> bool:
    """Return whether the adapters of a library are to be loaded for :func:`libraries`."""
    return (
        home == name if name is not None else sys.modules.get(home) is not None or isinstance(_loaded.get(home), tuple)
    )


def load_offered_adapters() -> None:
    """Load the adapters of all installed distributions, to find the one that reads a file of an unknown format."""
    # One that cannot be loaded is left out, with an EnsPluginWarning.
    for name in offered_libraries():
        try:
            offered_adapters(name)
        except AdapterError as error:
            warn_user(str(error), EnsPluginWarning)


def find_library(model: object) -> type[Library]:
    """Return the library that a model, fitted or not, belongs to.

    It is the first one that accepts the model.  If none does, it is the base class
    Library, whose methods fit models with the interface of scikit-learn.

    Parameters
    ----------
    model : object
        Unwrapped.

    Raises
    ------
    AdapterError
        If an installed distribution offers an adapter for the model's library that cannot be loaded.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.adapters import find_library
    >>> find_library(RandomForestClassifier()).library
    'sklearn'
    """
    candidates: Iterator[Any] = chain(_third_party(model), _readers(), _built_in_candidates(model))
    return next((cls for cls in candidates if issubclass(cls, Library) and cls.accepts(model)), Library)


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


def _readers() -> Iterator[type[Library]]:
    return (_imported(*path) for path in _READERS)


def _built_in_candidates(model: object) -> Iterator[type[EnsembleAdapter]]:
    # Classes of this package that need another library are named by the file that holds them.
    homes = home_libraries(model) | {base.__module__ for base in type(model).__mro__}
    return (_imported(*path) for home, *path in _BUILT_IN if home in homes)


def _imported(module: str, name: str) -> Any:
    return getattr(import_module(module), name)
