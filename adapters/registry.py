"""The registry of adapters and libraries: those that users registered first, then those of installed distributions.

Built-in ones come last.  Adapters are imported when a model of their library arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, distributions, entry_points
from inspect import getattr_static, signature
from itertools import chain
from typing import Any, ClassVar, TypeVar

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.library import FitSite, Library, Trainer, fit_methods, home_libraries, retrain_members
from ens_plugin.adapters.members import no_adapter
from ens_plugin.core.validation import one_line
from ens_plugin.errors import (
    AdapterError,
    EnsPluginWarning,
    InputError,
    UnsupportedModelError,
    ends_at_caller,
    warn_user,
)


class _NamedEnsembles(Library):
    """A library whose ensembles are recognised by the names of their classes, so that it need not be imported.

    Attributes
    ----------
    module : str
        Import name of the module that has the ensembles.
    ensembles : tuple of str
        Names of their classes.
    """

    module: ClassVar[str]
    ensembles: ClassVar[tuple[str, ...]]
    works_in_fork: ClassVar[bool] = True

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is one of the ensembles, or of a class derived from one."""
        return super().accepts(model) and any(parent.__name__ in cls.ensembles for parent in type(model).__mro__)

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the ensembles."""
        module = import_module(cls.module)
        return fit_methods(*(getattr(module, name) for name in cls.ensembles))


class EconML(_NamedEnsembles):
    """The library EconML with its RegressionForest, which is recognised without importing the library."""

    library: ClassVar[str] = "econml"
    module: ClassVar[str] = "econml.grf"
    ensembles: ClassVar[tuple[str, ...]] = ("RegressionForest",)

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Raise UnsupportedModelError: members are groups of trees, which `n_estimators` does not count."""
        raise UnsupportedModelError(
            f"This {type(estimator).__name__} cannot be grown: its members are groups of trees that "
            "share half of the rows. Train it with the n_estimators you can afford, and cut it with "
            "ens_plugin.truncate."
        )


class Imblearn(_NamedEnsembles):
    """The library imbalanced-learn with its balanced ensembles, which are recognised without importing the library."""

    library: ClassVar[str] = "imblearn"
    module: ClassVar[str] = "imblearn.ensemble"
    ensembles: ClassVar[tuple[str, ...]] = ("BalancedRandomForestClassifier", "BalancedBaggingClassifier")

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the ensembles, and of pipelines."""
        from imblearn.pipeline import Pipeline

        return (*super().fit_sites(), *fit_methods(Pipeline))

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains anew at each size."""
        return retrain_members


class QuantileForest(_NamedEnsembles):
    """The library quantile-forest with its forests, which are recognised without importing the library."""

    library: ClassVar[str] = "quantile_forest"
    module: ClassVar[str] = "quantile_forest"
    ensembles: ClassVar[tuple[str, ...]] = ("RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor")

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains anew at each size."""
        return retrain_members


GROUP = "ens_plugin.adapters"

AdapterClasses = tuple[type[EnsembleAdapter], ...]
_loaded: dict[str, AdapterClasses | AdapterError] = {}


def offered_libraries() -> tuple[str, ...]:
    """Return the import names of the libraries that installed distributions offer adapters for, sorted.

    No distribution's code is imported.  The entry points are read once in a process.
    """
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
    missing = _missing_parts(cls)
    if missing:
        return f"{cls.__name__} does not implement {', '.join(missing)}"
    if unlike := _unlike_signatures(cls):
        return unlike[0]
    if issubclass(cls, Library) and cls.library != library:
        return f"{cls.__name__}.library is {cls.library!r}, which must be the name of the entry point"
    return None


# An adapter that overrides the method on the left must define what is on the right too.
_TOGETHER: tuple[tuple[type, str, tuple[str, ...]], ...] = (
    (EnsembleAdapter, "loss", ("loss_name",)),
    (EnsembleAdapter, "loss_name", ("loss",)),
    (EnsembleAdapter, "combined", ("loss", "loss_name")),
    (Library, "reads", ("read", "title", "requirement")),
)


def _missing_parts(cls: type) -> list[str]:
    """Return the names of the methods and class attributes that an adapter lacks."""
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if issubclass(cls, Library) and not hasattr(cls, "library"):
        missing.append("library")
    for base, name, needed in _TOGETHER:
        if issubclass(cls, base) and _overrides(cls, base, name):
            missing += [part for part in needed if not _overrides(cls, base, part) and part not in missing]
    return missing


def _unlike_signatures(cls: type[EnsembleAdapter]) -> list[str]:
    """Return in words which methods cannot be called with the arguments that the contract's own method takes."""
    found = []
    for base in (EnsembleAdapter, Library):
        for name in vars(base) if issubclass(cls, base) else ():
            if name.startswith("_") or not callable(getattr(base, name)) or not _overrides(cls, base, name):
                continue
            # Of a class, a method is called with the object as its first argument, a class method without.
            expected, own = getattr(base, name), getattr(cls, name, None)
            n_arguments = len(signature(expected).parameters)
            if not callable(own) or not _takes(own, n_arguments):
                words = f"{name}{signature(expected)}"
                found.append(f"{cls.__name__}.{name} cannot be called as {words}, which the contract has it take")
    return found


def _takes(function: Callable[..., Any], n_arguments: int) -> bool:
    try:
        signature(function).bind(*range(n_arguments))
    except TypeError:
        return False
    except ValueError:  # of compiled functions, which state none
        return True
    return True


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


_BUILT_IN: tuple[tuple[str, str, str], ...] = (
    # Its ensemble is a CustomEnsemble.
    ("ens_plugin", "ens_plugin.adapters.answers", "AnswerAdapter"),
    ("ens_plugin", "ens_plugin.adapters.custom", "CustomAdapter"),
    # Their ensembles derive from classes of scikit-learn.
    ("imblearn", "ens_plugin.adapters.imblearn", "BalancedForestAdapter"),
    ("imblearn", "ens_plugin.adapters.imblearn", "BalancedBaggingAdapter"),
    ("imblearn", "ens_plugin.adapters.imblearn", "EasyEnsembleAdapter"),
    ("quantile_forest", "ens_plugin.adapters.quantile_forest", "QuantileForestAdapter"),
    ("sksurv", "ens_plugin.adapters.sksurv", "SurvivalForestAdapter"),
    ("econml", "ens_plugin.adapters.econml", "RegressionForestAdapter"),
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
# These modules import no optional library.
_BUILT_IN_LIBRARIES: tuple[tuple[str, str], ...] = (
    ("ens_plugin.adapters.registry", "Imblearn"),
    ("ens_plugin.adapters.registry", "QuantileForest"),
    ("ens_plugin.adapters.registry", "EconML"),
    ("ens_plugin.adapters.sklearn.library", "Sklearn"),
    ("ens_plugin.adapters.xgboost.library", "XGBoost"),
    ("ens_plugin.adapters.lightgbm.library", "LightGBM"),
)
_registered: list[type[EnsembleAdapter]] = []
_observers: list[Callable[[type[EnsembleAdapter]], None]] = []

AdapterClass = TypeVar("AdapterClass", bound=type[EnsembleAdapter])


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
    if not (isinstance(cls, type) and issubclass(cls, EnsembleAdapter)):
        raise InputError(f"register_adapter expects a subclass of EnsembleAdapter, got {cls!r}; subclass it first.")
    missing = _missing_parts(cls)
    if missing:
        raise InputError(
            f"{cls.__name__} does not implement {', '.join(missing)}; implement them before registering it, as "
            "ens_plugin.adapters.contract.EnsembleAdapter and ens_plugin.adapters.Library describe them."
        )
    if unlike := _unlike_signatures(cls):
        raise InputError(f"{unlike[0]}. Give it these parameters before registering it.")
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
                f" This {type(model).__name__} keeps its {type(inner).__name__} as "
                f"model.{name}{'[0]' if is_list else ''}: pass that, with the rows and the target that it was trained "
                "on."
            )
    return ""


def libraries() -> Iterator[type[Library]]:
    """Return the libraries: those of registered adapters, of installed distributions, and built-in ones.

    A distribution's adapters are among them once the library that they are for is imported, unless they cannot be
    loaded, which :func:`find_adapter` reports.

    Examples
    --------
    >>> from ens_plugin.adapters import libraries
    >>> [library.library for library in libraries()]
    ['imblearn', 'quantile_forest', 'econml', 'sklearn', 'xgboost', 'lightgbm']
    """
    present = [name for name in offered_libraries() if name in sys.modules or is_loaded(name)]
    offered = (cls for name in present for cls in _loadable(name))
    candidates: Iterator[Any] = chain(_registered, offered, _built_in_libraries())
    return (cls for cls in candidates if issubclass(cls, Library))


def load_offered_adapters() -> None:
    """Load the adapters of all installed distributions, to find the one that reads a file of an unknown format.

    One that cannot be loaded is left out, with an EnsPluginWarning.
    """
    for name in offered_libraries():
        try:
            offered_adapters(name)
        except AdapterError as error:
            warn_user(str(error), EnsPluginWarning)


def find_library(model: object) -> type[Library]:
    """Return the library that a model, fitted or not, belongs to.

    It is the first one that accepts the model, in the order of :func:`libraries`.  If none does, it is the base class
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
    >>> find_library(RandomForestClassifier()).__name__
    'Sklearn'
    """
    candidates: Iterator[Any] = chain(_third_party(model), _built_in_libraries())
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


def _built_in_libraries() -> Iterator[type[Library]]:
    return (getattr(import_module(module), name) for module, name in _BUILT_IN_LIBRARIES)


def _built_in_candidates(model: object) -> Iterator[type[EnsembleAdapter]]:
    # Classes of this package that need another library are named by the file that holds them.
    homes = home_libraries(model) | {base.__module__ for base in type(model).__mro__}
    for home, module, name in _BUILT_IN:
        if home in homes:
            yield getattr(import_module(module), name)
