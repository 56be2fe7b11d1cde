"""The steps before an ensemble that were fitted to the target, which out-of-bag rows then have had a part in."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ens_plugin.adapters.unwrap.wrappers import is_elimination, layers

__all__ = ["SupervisedStep", "supervised_steps"]

# A step can be of one of these classes only if the module is loaded.
_HOLDERS = (
    ("sklearn.pipeline", "Pipeline", "steps"),
    ("sklearn.pipeline", "FeatureUnion", "transformer_list"),
    ("sklearn.compose", "ColumnTransformer", "transformers_"),
)


class SupervisedStep(NamedTuple):
    """A fitted step of a pipeline that learned from the target.

    Attributes
    ----------
    name : str
        In its pipeline.
    kind : str
        Name of its class.
    n_parameters : int
        Numbers that it learned from the target: a mean for each category of an encoder, a weight for each column of
        a projection.  Of a selection, the columns chosen from.
    n_chosen : int or None
        Columns chosen; None for a step that selects none.
    is_cross_fitted : bool
        Whether ``fit_transform`` gives a training row a value that is computed without its own target, other than
        ``transform`` does.
    """

    name: str
    kind: str
    n_parameters: int
    n_chosen: int | None = None
    is_cross_fitted: bool = False


def supervised_steps(model: Any) -> list[SupervisedStep]:
    """Return the steps that were fitted to the target, of all pipelines around an ensemble.

    Parameters
    ----------
    model : fitted model

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn.feature_selection import SelectKBest
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(SelectKBest(k=2), RandomForestClassifier(n_estimators=5)).fit(X, y)
    >>> supervised_steps(model)
    [SupervisedStep(name='selectkbest', kind='SelectKBest', n_parameters=4, n_chosen=2, is_cross_fitted=False)]
    """
    return [
        _described(name, step) for layer in layers(model) for name, step in _steps_before(layer) if _reads_target(step)
    ]


def _steps_before(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield the steps that change the rows before they reach what is inside a layer, by name."""
    if is_elimination(layer):
        yield type(layer).__name__.lower(), layer
    yield from _inner_steps(_named_steps(layer)[:-1])


def _inner_steps(named: Iterable[tuple[Any, ...]]) -> Iterator[tuple[str, Any]]:
    """Yield steps by name, those inside a pipeline, a union or a ColumnTransformer in place of these."""
    for name, step, *_ in named:
        inner = _named_steps(step)
        if inner:
            yield from _inner_steps(inner)
        else:
            yield str(name), step


def _named_steps(step: Any) -> list[tuple[Any, ...]]:
    """Return the steps inside a step of scikit-learn that has some, fitted; none of any other object."""
    for home, name, attribute in _HOLDERS:
        if home in sys.modules and isinstance(step, getattr(sys.modules[home], name)):
            return list(getattr(step, attribute))
    return []


def _is_selector(step: Any) -> bool:
    module = sys.modules.get("sklearn.feature_selection")
    return module is not None and isinstance(step, module.SelectorMixin)


def _reads_target(step: Any) -> bool:
    if type(step).__name__ == "FrozenEstimator" or getattr(step, "prefit", False) is True:
        return False  # fitted elsewhere, perhaps to other rows
    if _is_selector(step):
        # Selectors of scikit-learn rank columns by a function of the target, or by a model, which may need none.
        return hasattr(step, "score_func") or _needs_target(step) or _needs_target(getattr(step, "estimator", None))
    return hasattr(step, "transform") and _needs_target(step)


def _needs_target(estimator: Any) -> bool:
    try:
        from sklearn.utils import get_tags
    except ImportError:  # before scikit-learn 1.6
        tags: dict[str, Any] = getattr(estimator, "_get_tags", dict)()
        return bool(tags.get("requires_y", False))
    try:
        return bool(get_tags(estimator).target_tags.required)
    except Exception:  # a step of a user need not have tags
        return False


def _described(name: str, step: Any) -> SupervisedStep:
    kind = type(step).__name__
    if _is_selector(step):
        chosen = np.asarray(step.get_support())
        return SupervisedStep(name, kind, chosen.size, int(np.count_nonzero(chosen)))
    if kind == "TargetEncoder" and type(step).__module__.startswith("sklearn."):
        return SupervisedStep(name, kind, sum(len(means) - 1 for means in step.encodings_), is_cross_fitted=True)
    return SupervisedStep(name, kind, int(getattr(step, "n_features_in_", 1)))
