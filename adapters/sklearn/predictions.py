"""The check that a scikit-learn ensemble predicts what its members predict on average, and no more."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import reason_of
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.validation import counted
from ens_plugin.errors import UnsupportedModelError

__all__ = ["check_predictions", "probe_rows", "refuse_other_part"]

# The model predicts some of the rows of which the members' mean is known: half of them at random, and half where the
# two likeliest labels are closest, which another threshold than the largest mean predicts differently.
KNOWN_ROWS, MIXTURES, COMPARED_ROWS = 128, 3, 32
CLOSE, TIED = 1e-6, 1e-9
_PREDICTING = ("predict", "predict_proba")


def check_predictions(adapter: EnsembleAdapter, features: Any, known: tuple[type, ...], **options: Any) -> None:
    """Raise UnsupportedModelError unless a model predicts the mean of its members, on some rows.

    A model of one of the `known` classes, with their own methods, does so by its class.
    """
    model = adapter.model
    if type(model) in known and not any(_is_replaced(model, name) for name in _PREDICTING):
        return
    rows = _with_mixed(features[spread_rows(features.shape[0], KNOWN_ROWS)])
    mean = _means(adapter, rows)
    chosen = _telling_rows(mean)
    rows, mean = rows[chosen], mean[chosen]
    if adapter.classes is None:
        pairs = [("predict", _are_close(_called(model, "predict", rows, **options), mean))]
    else:
        pairs = [
            ("predict", _are_labels(_called(model, "predict", rows, **options), mean, adapter.classes)),
            ("predict_proba", _are_close(_called(model, "predict_proba", rows), mean)),
        ]
    for name, is_same in pairs:
        if not is_same.all():
            raise _other(model, adapter.n_members, name, int(np.count_nonzero(~is_same)), is_same.size)


def refuse_other_part(whole: EnsembleAdapter, check: Callable[[], None], size: int) -> None:
    """Raise UnsupportedModelError where `check`, of a copy with the first members of an ensemble, raises anything."""
    try:
        check()
    except Exception as error:  # a user's class may raise anything without all of its members
        name = type(whole.model).__name__
        raise UnsupportedModelError(
            f"This {name} cannot be cut: a copy with its first {counted(size, 'member')} does not predict their mean "
            f"({reason_of(error)}). Train one with n_estimators={size} instead."
        ) from error


def probe_rows(n_features: int, thresholds: dict[int, NDArray[np.float64]]) -> NDArray[np.float32]:
    """Return rows of thresholds of trees, by column in random order; standard normal values where there are none."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(KNOWN_ROWS, n_features))
    for column, values in thresholds.items():
        rows[:, column] = rng.choice(values, KNOWN_ROWS)
    return rows.astype(np.float32)


def _is_replaced(model: Any, name: str) -> bool:
    """Return whether a method of a model is not the one that its library defines."""
    method = getattr(type(model), name, None)
    if method is None or name in vars(model):
        return name in vars(model)
    libraries = ("sklearn", type(model).__module__.partition(".")[0])
    return hasattr(method, "__wrapped__") or method.__module__.partition(".")[0] not in libraries


def _with_mixed(rows: Any) -> Any:
    """Return rows of an array, with others whose columns are in random order: members are certain of training rows."""
    if not isinstance(rows, np.ndarray):
        return rows
    rng = np.random.default_rng(0)
    return np.concatenate([rows, *(rng.permuted(rows, axis=0) for _ in range(MIXTURES))])


def _means(adapter: EnsembleAdapter, rows: Any) -> NDArray[np.float64]:
    outputs = adapter.outputs(rows)
    if adapter.output_kind != "labels":
        return np.asarray(outputs.mean(axis=0))
    assert adapter.classes is not None
    return np.stack([(outputs == code).mean(axis=0) for code in range(len(adapter.classes))], axis=1)


def _telling_rows(mean: NDArray[np.float64]) -> NDArray[np.intp]:
    chosen = spread_rows(len(mean), COMPARED_ROWS)
    if mean.ndim == 1:
        return chosen
    lead = np.diff(np.sort(mean, axis=1)[:, -2:], axis=1)[:, 0]
    close = np.argsort(np.where(lead > TIED, lead, np.inf))[: COMPARED_ROWS // 2]
    return np.union1d(chosen[::2], close)


def _called(model: Any, name: str, rows: Any, **options: Any) -> NDArray[Any]:
    names = getattr(model, "feature_names_in_", None)
    if names is not None and isinstance(rows, np.ndarray):
        # A subclass may read columns by their names.
        import pandas as pd

        rows = pd.DataFrame(rows, columns=names)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(getattr(model, name)(rows, **options))
    except Exception as error:  # a user's class may raise anything
        raise UnsupportedModelError(
            f"The {name} of this {type(model).__name__} failed on rows of X ({reason_of(error)}), so it is not known "
            f"to predict the mean of its members. {_REMEDY}"
        ) from error


def _are_close(found: NDArray[Any], mean: NDArray[np.float64]) -> NDArray[np.bool_]:
    if found.shape != mean.shape or found.dtype.kind not in "fiu":
        return np.zeros(len(mean), np.bool_)
    gap = np.abs(found - mean) <= CLOSE * max(float(np.abs(mean).max()), 1.0 if mean.ndim == 2 else 0.0)
    return np.asarray(gap if gap.ndim == 1 else gap.all(axis=1))


def _are_labels(found: NDArray[Any], mean: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[np.bool_]:
    if found.shape != (len(mean),):
        return np.zeros(len(mean), np.bool_)
    is_likeliest = mean >= mean.max(axis=1, keepdims=True) - TIED
    return np.asarray((is_likeliest & (found[:, None] == classes[None, :])).any(axis=1))


def _other(model: Any, n_members: int, method: str, n_other: int, n_rows: int) -> UnsupportedModelError:
    name = type(model).__name__
    return UnsupportedModelError(
        f"The {method} of this {name} returns something else than the mean of its {n_members} members in "
        f"{n_other} of {n_rows} rows that were compared, as where a subclass or a patch replaces how it predicts. So "
        f"no mean over members describes what it predicts. {_REMEDY}"
    )


_REMEDY = (
    "If the members' mean is what you want to judge, pass an ensemble of scikit-learn's own class with the same "
    "members, such as plain = RandomForestClassifier(), after vars(plain).update(vars(model)). Else pass what the "
    "members predict, ens_plugin.CustomEnsemble(outputs, in_bag, ...), or register an adapter with "
    "ens_plugin.register_adapter."
)
