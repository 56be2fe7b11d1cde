"""Copies of rows: the error that they hide, a doubt where they move the error, and equal rows that are no copies.

Copies: 300 rows of the noisy logistic problem, each 5 times, and a forest of 100 trees. Its out-of-bag error as
scikit-learn has it, against the error on 4000 fresh rows. Some copies: 600 rows, of which copies of others are added
until so many rows are equal to another. Point masses: 600 rows of the noisy logistic problem, of which 10 to 50 % are
one to three blank records; and rows of it in which the rarer label was drawn again, each original about ten times,
from 5 to 40 originals. Doubted as copies; and the error out of bag less that on fresh rows where rows are blank or
some are copies.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import noisy_logistic
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

TIMES = 5
N_ROWS, N_FRESH, N_TREES = 300, 4000, 100
N_MASSES = 600
FEW, MANY = 0.06, 0.5


def hidden_error(seed: int) -> tuple[float, float, bool]:
    """Return the error by scikit-learn, that on fresh rows, and whether the report is doubted."""
    rng = np.random.default_rng([seed, 3])
    X, y = noisy_logistic(N_ROWS, rng)
    fresh, fresh_labels = noisy_logistic(N_FRESH, rng)
    X, y = np.repeat(X, TIMES, axis=0), np.repeat(y, TIMES)
    model = RandomForestClassifier(N_TREES, oob_score=True, random_state=seed).fit(X, y)
    doubted = doubts_copies(model, X, y)[0]
    return 1.0 - float(model.oob_score_), float(np.mean(model.predict(fresh) != fresh_labels)), doubted


def copies_section(options: Options) -> list[Claim]:
    found = np.array([hidden_error(options.seed + index) for index in range(options.repetitions)], dtype=np.float64)
    spread = 100.0 * found.std(axis=0, ddof=1) / math.sqrt(len(found))
    reported, truth, doubted = 100.0 * found.mean(axis=0)
    return [
        Claim(f"each row {TIMES} times: out-of-bag error by scikit-learn (%)", reported, spread[0], digits=1),
        Claim(f"each row {TIMES} times: error on fresh rows (%)", truth, spread[1], digits=1),
        Claim(f"each row {TIMES} times: doubted (%)", doubted, spread[2], low=100.0, digits=0),
    ]


def with_blank_records(n_rows: int, share: float, n_blank: int, rng: np.random.Generator) -> tuple[Array, Array]:
    X, y = noisy_logistic(n_rows, rng)
    blank = rng.random(n_rows) < share
    X[blank] = np.arange(n_blank)[rng.integers(n_blank, size=np.count_nonzero(blank)), None]
    return X, y


def drawn_again(rng: np.random.Generator) -> tuple[Array, Array]:
    X, y = noisy_logistic(N_MASSES, rng)
    originals = np.flatnonzero(y == 1)[: rng.integers(5, 41)]
    rows = np.append(np.flatnonzero(y == 0), rng.choice(originals, 10 * originals.size))
    return X[rows], y[rows]


def doubts_copies(model: Any, X: Array, y: Array) -> tuple[bool, float]:
    """Return whether an analysis doubts copies, and its error."""
    report = ens_plugin.analyze(model, X, y)
    return any(found.code == "copies" for found in report.findings), report.error


def some_copied(share: float, seed: int) -> tuple[bool, float]:
    """Return whether copies that are a share of the rows are doubted, and the error less that on fresh rows."""
    rng = np.random.default_rng([seed, 7])
    X, y = noisy_logistic(N_MASSES, rng)
    fresh, labels = noisy_logistic(N_FRESH, rng)
    # Each row that is copied once makes two equal ones.
    n_copies = int(share / (2.0 - share) * N_MASSES)
    rows = rng.permutation(np.append(np.arange(N_MASSES), rng.permutation(N_MASSES)[:n_copies]))
    model = RandomForestClassifier(N_TREES, random_state=seed).fit(X[rows], y[rows])
    doubted, error = doubts_copies(model, X[rows], y[rows])
    return doubted, 100.0 * (error - float(np.mean(model.predict(fresh) != labels)))


def share_section(options: Options) -> list[Claim]:
    claims = []
    for share, low, high in ((FEW, -math.inf, 10.0), (MANY, 90.0, math.inf)):
        found = np.array([some_copied(share, options.seed + index) for index in range(options.repetitions)])
        doubted, bias = found.mean(axis=0)
        spread = found.std(axis=0, ddof=1) / math.sqrt(len(found))
        name = f"{100 * share:g} % of the rows equal to another"
        claims.append(Claim(f"{name}: doubted (%)", 100.0 * doubted, 100.0 * spread[0], low, high, digits=0))
        claims.append(Claim(f"{name}: error out of bag less that on fresh rows (points)", bias, spread[1]))
    return claims


def masses_section(options: Options) -> list[Claim]:
    ordinary, copied, differences = [], [], []
    for index in range(options.repetitions):
        rng = np.random.default_rng([options.seed + index, 5])
        share, n_blank = float(rng.uniform(0.1, 0.5)), int(rng.integers(1, 4))
        X, y = with_blank_records(N_MASSES, share, n_blank, rng)
        fresh, labels = with_blank_records(N_FRESH, share, n_blank, rng)
        model = RandomForestClassifier(N_TREES, random_state=index).fit(X, y)
        is_doubted, error = doubts_copies(model, X, y)
        ordinary.append(is_doubted)
        differences.append(100.0 * (error - float(np.mean(model.predict(fresh) != labels))))
        X, y = drawn_again(rng)
        copied.append(doubts_copies(RandomForestClassifier(N_TREES, random_state=index).fit(X, y), X, y)[0])
    spread = float(np.nanstd(differences, ddof=1)) / math.sqrt(len(differences))
    n = options.repetitions
    return [
        Claim(f"{n} tables with blank records: taken for copies", sum(ordinary), None, high=0.0, digits=0),
        Claim(
            "tables with blank records: error out of bag less that on fresh rows (points)",
            float(np.nanmean(differences)),
            spread,
        ),
        Claim(f"{n} tables with a label drawn again: taken for copies", sum(copied), None, low=0.9 * n, digits=0),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    claims = [*copies_section(options), *share_section(options), *masses_section(options)]
    return conclude(__name__, options, claims)
