"""Rows that belong together with those before and after them: doubted in their order; independent rows never.

Rows before and after each other, of docs/methods/copies.md; forests of 60 trees. Independent rows: 400 rows of
four normal columns, a label with little or much noise, bags of all rows or of 30 %; a sorted table may get a warning,
no doubt. Subjects: 600 rows in 8 normal columns, the rows of a subject one after the other, its label drawn at
random; their change is in standard deviations of a column. Windows: 1200 windows of consecutive values of a series,
each one step on; the target is the mean of the next 10 values less the last one. Field: 600 places of a random walk
in the plane, with the label of a smooth random function of place. Drift: 600 rows whose columns are random walks with
noise, and whose label has odds that move slowly up and down with time. Three kinds are tried in random order too.
Standard errors are binomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]
Table = tuple[Array, Array]
Draw = Callable[[np.random.Generator], Table]

FOUND = "neighbouring-rows"
N_TREES = 60
N_ROWS = 600
N_COLUMNS = 8
LENGTH, AHEAD = 1200, 10


def independent(order: str, rng: np.random.Generator) -> Table:
    X = rng.normal(size=(400, 4))
    y = np.asarray(X[:, 0] + rng.normal(size=400) * rng.choice([0.1, 1.0]) > 0, dtype=np.int64)
    keys = {"random": rng.random(400), "label": y, "column": X[:, 0]}[order]
    rows = np.argsort(keys, kind="stable")
    return X[rows], y[rows]


def subjects(n_each: int, change: float, rng: np.random.Generator) -> Table:
    n_subjects = N_ROWS // n_each
    X = np.repeat(rng.normal(size=(n_subjects, N_COLUMNS)), n_each, axis=0)
    y = np.repeat(rng.integers(0, 2, n_subjects), n_each)
    return X + change * rng.normal(size=X.shape), y


def windows(width: int, memory: float, rng: np.random.Generator) -> Table:
    n = LENGTH + width + AHEAD - 1
    series = rng.normal(size=n)
    for step in range(1, n):
        series[step] += memory * series[step - 1]
    X = np.lib.stride_tricks.sliding_window_view(series, width)[:LENGTH]
    later = np.lib.stride_tricks.sliding_window_view(series, AHEAD)[width : width + LENGTH].mean(axis=1)
    return X, later - X[:, -1]


def field(rng: np.random.Generator) -> Table:
    place = np.cumsum(0.2 * rng.normal(size=(N_ROWS, 2)), axis=0)
    waves = 2.0 * rng.normal(size=(30, 2))
    value = np.cos(place @ waves.T + 2.0 * np.pi * rng.random(30)).sum(axis=1)
    return place, np.asarray(value > np.median(value), dtype=np.int64)


def drift(rng: np.random.Generator) -> Table:
    X = np.cumsum(0.1 * rng.normal(size=(N_ROWS, N_COLUMNS)), axis=0) + 0.3 * rng.normal(size=(N_ROWS, N_COLUMNS))
    odds = 3.0 * np.sin(2.0 * np.pi * (np.arange(N_ROWS) / 200.0 + rng.random()))
    return X, np.asarray(rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-odds)), dtype=np.int64)


def shuffled(draw: Draw, rng: np.random.Generator) -> Table:
    X, y = draw(rng)
    order = rng.permutation(y.size)
    return X[order], y[order]


INDEPENDENT: dict[str, Draw] = {
    "independent rows, in random order": partial(independent, "random"),
    "independent rows, sorted by label": partial(independent, "label"),
    "independent rows, sorted by a column": partial(independent, "column"),
}
TOGETHER: dict[str, Draw] = {
    "pairs of rows, change .3": partial(subjects, 2, 0.3),
    "triples of rows, change .3": partial(subjects, 3, 0.3),
    "fives of rows, change .3": partial(subjects, 5, 0.3),
    "windows of 20 values of a random walk": partial(windows, 20, 1.0),
    "windows of 20 values of an autoregression (.95)": partial(windows, 20, 0.95),
    "windows of 5 values of a random walk": partial(windows, 5, 1.0),
    "field": field,
    "drift": drift,
}
SHUFFLED: dict[str, Draw] = {
    f"{name}, shuffled": partial(shuffled, TOGETHER[name])
    for name in ("pairs of rows, change .3", "windows of 20 values of a random walk", "field")
}


def is_doubted(name: str, draw: Draw, seed: int) -> bool:
    """Grow a forest on one table, and return whether its report doubts their order."""
    rng = np.random.default_rng([seed, *name.encode()])
    X, y = draw(rng)
    kind = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
    share = float(rng.choice([0.3, 1.0])) if name in INDEPENDENT else 1.0
    model = kind(N_TREES, max_samples=share, random_state=seed).fit(X, y)
    return any(found.code == FOUND for found in ens_plugin.analyze(model, X, y).findings)


def count(options: Options, name: str, draw: Draw, repetitions: int) -> int:
    jobs = (delayed(is_doubted)(name, draw, options.seed + index) for index in range(repetitions))
    return int(sum(Parallel(n_jobs=options.n_jobs)(jobs)))


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    claims, lines = [], []
    for name, draw in (INDEPENDENT | TOGETHER | SHUFFLED).items():
        repetitions = options.repetitions * (2 if name in INDEPENDENT and not options.smoke else 1)
        doubted = count(options, name, draw, repetitions)
        share = doubted / repetitions
        spread = 100.0 * math.sqrt(share * (1.0 - share) / repetitions)
        high = 0.0 if name in INDEPENDENT else math.inf
        claims.append(Claim(f"{name}: doubted (%)", 100.0 * share, spread, high=high, digits=0))
        lines.append([name, f"{doubted} of {repetitions}"])
    return conclude(__name__, options, claims, [table(["rows", "doubted"], lines)])
