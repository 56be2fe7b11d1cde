"""Which adapter takes a model: those that users registered first, then the built-in ones of the model's library."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from typing import TypeVar

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.shared.refusals import no_adapter
from ens_plugin.errors import InputError, UnsupportedModelError

__all__ = ["find_adapter", "is_known", "is_registered", "register_adapter"]

_BUILT_IN: tuple[tuple[str, str, str], ...] = (
    ("ens_plugin", "ens_plugin.adapters.custom.adapter", "CustomAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.forest", "SklearnForestAdapter"),
    ("sklearn", "ens_plugin.adapters.sklearn.bagging", "SklearnBaggingAdapter"),
    ("lightgbm", "ens_plugin.adapters.lightgbm.forest", "LightGBMForestAdapter"),
    ("xgboost", "ens_plugin.adapters.xgboost.trees", "XGBoostTreesAdapter"),
    ("ens_plugin", "ens_plugin.adapters.spark_ml.forest", "SparkForestAdapter"),
    ("pyspark", "ens_plugin.adapters.spark_ml.forest", "SparkForestAdapter"),
)
_registered: list[type[EnsembleAdapter]] = []

AdapterClass = TypeVar("AdapterClass", bound=type[EnsembleAdapter])


def register_adapter(cls: AdapterClass) -> AdapterClass:
    """Add an adapter for another library; usable as a class decorator.

    Adapters registered last are tried first, before the built-in ones.

    Parameters
    ----------
    cls : subclass of EnsembleAdapter

    Raises
    ------
    InputError
        If `cls` is not a concrete subclass of EnsembleAdapter.
    """
    if not (isinstance(cls, type) and issubclass(cls, EnsembleAdapter)):
        raise InputError(f"register_adapter expects a subclass of EnsembleAdapter, got {cls!r}; subclass it first.")
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    if missing:
        raise InputError(
            f"{cls.__name__} does not implement {', '.join(missing)}; implement them before registering it."
        )
    if cls not in _registered:
        _registered.insert(0, cls)
    return cls


def is_known(model: object) -> bool:
    """Return whether an adapter takes models of this class, fitted or not."""
    return any(cls.accepts(model) for cls in chain(_registered, _built_in_candidates(model)))


def is_registered(model: object) -> bool:
    """Return whether an adapter that a user registered takes models of this class, fitted or not."""
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


def _built_in_candidates(model: object) -> Iterator[type[EnsembleAdapter]]:
    libraries = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    for library, module, name in _BUILT_IN:
        if library in libraries:
            yield getattr(import_module(module), name)
