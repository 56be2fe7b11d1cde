"""Models, rows, and what it means for two reports to be the same."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesRegressor, RandomForestClassifier

from ens_plugin import EnsembleReport
from tests.extras import lightgbm, xgboost

COLUMNS = [f"x{index}" for index in range(6)]
N_TRAINED = 600
N_ROWS = 2000
NOT_COMPARED = ("n_distinct", "created", "versions", "proof")


@lru_cache(maxsize=1)
def table() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows and labels 0 and 1, more than any test needs."""
    X, y = make_classification(N_TRAINED + 30_000, 6, n_informative=4, n_redundant=0, flip_y=0.15, random_state=3)
    return X, y


def target(kind: str) -> NDArray[Any]:
    X, y = table()
    if kind == "values":
        return np.asarray(X[:, 0] + y)
    if kind == "three":
        return np.array(["high", "low", "middle"])[np.digitize(X[:, 0] + y, [0.0, 1.0])]
    return y


@cache
def fitted(name: str) -> Any:
    """A model trained on the first rows; odd numbers of members let no votes tie."""
    X, y = table()[0][:N_TRAINED], target(KINDS[name])[:N_TRAINED]
    return MAKERS[name]().fit(X, y)


def _lightgbm() -> Any:
    return lightgbm.LGBMClassifier(
        boosting_type="rf", n_estimators=25, subsample=0.6, subsample_freq=1, random_state=0, verbose=-1, n_jobs=1
    )


def _xgboost() -> Any:
    return xgboost.XGBRFRegressor(n_estimators=25, max_depth=4, random_state=0, n_jobs=1)


def _xgboost_exact() -> Any:
    return xgboost.XGBRFClassifier(
        n_estimators=25, max_depth=4, tree_method="exact", colsample_bynode=1, random_state=3, n_jobs=1
    )


KINDS = {
    "votes": "two",
    "shares": "two",
    "bagging": "two",
    "three": "three",
    "values": "values",
    "lightgbm": "two",
    "xgboost": "values",
    "xgboost_exact": "two",
}
MAKERS: dict[str, Any] = {
    "votes": lambda: RandomForestClassifier(25, random_state=0),
    "shares": lambda: RandomForestClassifier(25, max_depth=4, random_state=0),
    "bagging": lambda: BaggingClassifier(n_estimators=15, max_samples=0.5, random_state=0),
    "three": lambda: RandomForestClassifier(25, max_depth=4, random_state=0),
    "values": lambda: ExtraTreesRegressor(25, bootstrap=True, max_depth=5, random_state=0),
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "xgboost_exact": _xgboost_exact,
}


def held_out(name: str, n_rows: int = N_ROWS) -> pd.DataFrame:
    """Return held-out rows, shuffled: features, `y`, whole weights `w` with some 0, and the position `row`."""
    own = slice(N_TRAINED, N_TRAINED + n_rows)
    frame = pd.DataFrame(table()[0][own], columns=COLUMNS)
    rng = np.random.default_rng(1)
    frame["y"], frame["w"], frame["row"] = target(KINDS[name])[own], rng.integers(0, 4, n_rows), np.arange(n_rows)
    return frame.sample(frac=1, random_state=2)


def trained_on(name: str) -> pd.DataFrame:
    """The training rows, shuffled; `row` is their position in training order."""
    own = slice(0, N_TRAINED)
    frame = pd.DataFrame(table()[0][own], columns=COLUMNS)
    frame["y"], frame["w"], frame["row"] = target(KINDS[name])[own], 1, np.arange(N_TRAINED)
    return frame.sample(frac=1, random_state=2)


def in_order(frame: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[Any], NDArray[np.float64]]:
    """The same rows as the analysis on one machine takes them: features, target, weights."""
    ordered = frame.sort_values("row")
    return ordered[COLUMNS].to_numpy(), ordered["y"].to_numpy(), ordered["w"].to_numpy().astype(np.float64)


def largest_difference(report: EnsembleReport, other: EnsembleReport) -> float:
    """Largest difference of any number in two reports, relative where numbers are above 1; words must be equal."""
    worst = 0.0
    first, second = (each.to_dict() for each in (report, other))
    for (name, value), (_, compared) in zip(_leaves(first), _leaves(second), strict=True):
        if name in NOT_COMPARED:
            continue
        if isinstance(value, (str, type(None))) or isinstance(compared, (str, type(None))):
            assert value == compared, f"{name}: {value!r} against {compared!r}"
            continue
        a, b = np.asarray(value, dtype=np.float64), np.asarray(compared, dtype=np.float64)
        assert np.array_equal(np.isnan(a), np.isnan(b)), name
        worst = max(worst, float((np.abs(a - b) / np.maximum(np.abs(a), 1.0))[~np.isnan(a)].max(initial=0.0)))
    return worst


def _leaves(tree: dict[str, Any], name: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if key in NOT_COMPARED:
            continue
        if isinstance(value, dict):
            yield from _leaves(value, f"{name}{key}.")
        elif isinstance(value, (list, tuple)) and any(isinstance(item, dict) for item in value):
            for place, item in enumerate(value):
                yield from _leaves(item, f"{name}{key}[{place}].")
        elif isinstance(value, (list, tuple)) and any(isinstance(item, (str, type(None))) for item in value):
            yield from ((f"{name}{key}", item) for item in value)
        else:
            yield f"{name}{key}", value
