"""The check that a subclass of a booster's estimator, or a patch of it, predicts what the library's own class does."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ens_plugin.adapters.shared.foreign_calls import reason_of
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.errors import UnsupportedModelError

__all__ = ["check_replaced_methods"]

COMPARED_ROWS = 256
CLOSE = 1e-6


def check_replaced_methods(model: Any, features: Any, library: str) -> None:
    """Raise UnsupportedModelError if ``predict`` or ``predict_proba`` is replaced, and returns something else.

    Parameters
    ----------
    model : fitted estimator, or a Booster
    features : prepared rows, whose `table` the estimator takes
    library : str
        Import name of the library, whose own methods are taken as known.
    """
    for name in ("predict", "predict_proba"):
        plain = next((vars(cls)[name] for cls in type(model).__mro__ if _has_own(cls, name, library)), None)
        if plain is None or (name not in vars(model) and getattr(type(model), name) is plain):
            continue
        table = features[spread_rows(features.shape[0], COMPARED_ROWS)].table
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found, expected = np.asarray(getattr(model, name)(table)), np.asarray(plain(model, table))
            finding = "" if _are_same(found, expected) else "returns something else than"
        except Exception as error:  # a user's class may raise anything
            finding = f"failed on rows of X ({reason_of(error)}), and is not known to return"
        if finding:
            raise UnsupportedModelError(
                f"The {name} of this {type(model).__name__} {finding} what the class of {library} returns, as where a "
                "subclass or a patch replaces how it predicts. So the mean of its members does not describe what it "
                "predicts. If the members' mean is what you want to judge, pass model.booster_ of LightGBM or "
                "model.get_booster() of XGBoost; else pass ens_plugin.CustomEnsemble(outputs, in_bag, ...)."
            )


def _has_own(cls: type, name: str, library: str) -> bool:
    return cls.__module__.partition(".")[0] == library and name in vars(cls)


def _are_same(found: Any, expected: Any) -> bool:
    if found.shape != expected.shape:
        return False
    if found.dtype.kind != "f" or expected.dtype.kind != "f":
        return bool((found == expected).all())
    return bool((np.abs(found - expected) <= CLOSE * np.abs(expected).max(initial=0.0)).all())
