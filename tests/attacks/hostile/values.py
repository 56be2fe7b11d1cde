"""Hostile values, and small ensembles to attack with them."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris, make_regression
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

__all__ = ["any_value", "array_like", "cases", "hostile_members"]


class Unprintable:
    """Raises an exception when it is printed or compared."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    def __array__(self, *_: object, **__: object) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


class ControlRepr:
    """Prints as control characters."""

    def __repr__(self) -> str:
        return "\x1b[31m\u202e\n\ufffe" * 50


NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 7, 10**30, -(10**30), 0.0, -0.0, 0.5, 0.99, 1.0, 1e308, -1e308, 1e-320, math.inf, -math.inf, math.nan,
    True, False, 2**63, 2**64, 3.5, 1 + 2j, Decimal("0.9"), Decimal("NaN"), Fraction(1, 3), np.float32(0.9), np.int8(5),
    np.float64("nan"), np.bool_(True), np.uint64(2**63), np.datetime64("2020-01-01"), np.timedelta64(3, "D"),
    pd.NA, pd.NaT,
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None, "", "auto", "oob", "holdout", "vote", "mean", "path", "x" * 10_000, "\x00", "\ufffe\ud800", "\x1b[2J",
    b"auto", (), [], {}, set(), [[]], [None], ["a", 1], [[1], [1, 2]], {"a": 1}, object, object(), len, print, int,
    Exception("e"),
    np.array([]), np.zeros(3), np.zeros((3, 3)), np.array("auto"), np.array(["auto", "path"]),
    np.array([None, 1], dtype=object),
    pd.DataFrame({"a": [1, 2]}), pd.Series([1, 2]), pd.Categorical(["a", "b"]), range(3), iter([1, 2]), slice(1), ...,
    NotImplemented, Unprintable(), ControlRepr(), np.ma.masked, memoryview(b"abc"), bytearray(b"x"), np.dtype("f8"),
    frozenset([1]),
)  # fmt: skip


def any_value(random: Random) -> Any:
    """A value of any kind."""
    kind = random.randrange(5)
    if kind == 0:
        return random.choice(NUMBERS)
    if kind == 1:
        return random.choice(OTHERS)
    if kind == 2:
        return random.uniform(-2, 2) * 10.0 ** random.randrange(-320, 308)
    if kind == 3:
        return [any_value(random) for _ in range(random.randrange(4))]
    return random.randrange(-5, 400)


def array_like(random: Random, shape: tuple[int, ...]) -> Any:
    """An array about as large as one that is expected, of any type, with something wrong or nothing."""
    shape = tuple(max(length + random.choice((0, 0, 0, 0, 0, 1, -1)), 0) for length in shape)
    if random.random() < 0.1:
        shape += (random.randrange(3),)
    generator = np.random.default_rng(random.randrange(2**32))
    kind = random.randrange(12)
    if kind == 0:
        return any_value(random)
    if kind <= 3:
        array: Any = generator.integers(0, 3, shape)
    elif kind <= 5:
        array = generator.normal(size=shape) * 10.0 ** random.randrange(-160, 160)
    elif kind == 6:
        array = generator.random(shape) < 0.6
    elif kind == 7:
        array = generator.choice(["a", "b", "c"], shape)
    elif kind == 8:
        array = generator.dirichlet(np.ones(shape[-1]), shape[:-1]) if shape and min(shape) else np.zeros(shape)
    elif kind == 9:
        array = generator.integers(0, 3, shape).astype(
            random.choice(["f2", "f4", "u1", "c8", "M8[s]", "m8[s]", "S2", "O"])
        )
    elif kind == 10:
        array = np.full(shape, random.choice(NUMBERS), dtype=object)
    else:
        array = generator.random(shape)
    if array.size and random.random() < 0.3:
        array = array.astype(object) if random.random() < 0.5 else array
        try:
            array.flat[random.randrange(array.size)] = any_value(random)
        except Exception:  # not every array holds every value
            return array
    return random.choice((lambda: array, lambda: array, array.tolist, lambda: _as_frame(array)))()


def _as_frame(array: Any) -> Any:
    """Return the array as a DataFrame, or as it is where pandas does not hold it, such as unpaired surrogates."""
    try:
        return pd.DataFrame(array) if array.ndim == 2 else array
    except UnicodeEncodeError:
        return array


class Member:
    """A member with given predictions."""

    def __init__(self, answer: Any, classes: Any = None) -> None:
        self.answer = answer
        if classes is not None:
            self.classes_ = classes

    def predict(self, X: Any) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class ProbabilityMember(Member):
    """The same with probabilities."""

    def predict_proba(self, X: Any) -> Any:
        return self.predict(X)


def hostile_members(random: Random, n_rows: int) -> list[Any]:
    """Members that predict something, or raise."""

    def answer() -> Any:
        return random.choice((lambda: array_like(random, (n_rows,)), lambda: array_like(random, (n_rows, 3)),
                              lambda: ValueError("\x1b"), lambda: Unprintable()))()  # fmt: skip

    kind = random.choice((Member, ProbabilityMember))
    classes = random.choice((None, [0, 1, 2], ["a", "b"], any_value(random)))
    return [kind(answer(), classes) for _ in range(random.randrange(1, 4))]


def _by_label(frame: Any) -> Any:
    return frame.loc[:, "a":]  # type: ignore[misc]


@cache
def cases() -> dict[str, tuple[Any, Any, Any]]:
    """Small fitted ensembles with their rows."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    XR, yr = make_regression(50, 4, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcd"))
    labels = np.array(list("abc"))[y]
    pipeline = make_pipeline(FunctionTransformer(_by_label), RandomForestClassifier(7, random_state=0)).fit(frame, y)
    return {
        "forest": (RandomForestClassifier(7, random_state=0).fit(X, y), X, y),
        "texts": (RandomForestClassifier(7, random_state=0, min_samples_leaf=5).fit(X, labels), X, labels),
        "regression": (RandomForestRegressor(7, random_state=0).fit(XR, yr), XR, yr),
        "bagged kNN": (BaggingClassifier(KNeighborsClassifier(3), 7, random_state=0).fit(X, y), X, y),
        "bagged ridge": (BaggingRegressor(Ridge(), 7, random_state=0).fit(XR, yr), XR, yr),
        "bagged pipelines": (
            BaggingClassifier(make_pipeline(StandardScaler(), LogisticRegression()), 5, random_state=0).fit(X, y), X, y,
        ),
        "by label": (pipeline, frame, y),
    }  # fmt: skip
