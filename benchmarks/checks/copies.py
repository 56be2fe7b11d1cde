"""Copies of rows: the error that they hide, and rows that were drawn repeatedly, which are no copies."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import noisy_logistic
from benchmarks.shared.results import Claim, conclude, table
from ens_plugin.core.alike_rows import too_even
from ens_plugin.errors import EnsPluginError

Array = NDArray[Any]

TIMES = 5
N_ROWS, N_FRESH, N_TREES = 300, 4000, 100
DRAWS_EACH = 25
N_MASSES = 600
CHANCES: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "uniform": lambda rng, n: np.ones(n),
    "gamma": lambda rng, n: rng.gamma(rng.choice([0.2, 1.0, 50.0]), size=n) + 1e-12,
    "Zipf": lambda rng, n: 1.0 / np.arange(1, n + 1),
    "lognormal": lambda rng, n: rng.lognormal(sigma=rng.uniform(0.2, 3.0), size=n),
}
NOTES = f"""\
Copies: {N_ROWS} rows of the noisy logistic problem, each {TIMES} times, and a forest of {N_TREES} trees. Its
out-of-bag error as scikit-learn has it, against the error on {N_FRESH} fresh rows. Drawn rows: 30 to 30 000 rows
drawn from 2 to 10 000 different ones, whose chances are uniform, gamma, Zipf or lognormal, {DRAWS_EACH} draws of
each for a repetition; taken for copies where the counts are too even. Point masses: {N_MASSES} rows of the
noisy logistic problem, of which 10 to 50 % are one to three blank records; and rows of it in which the rarer label was
drawn again, each original about ten times, from 5 to 40 originals. Doubted or refused as copies; and the error out of
bag less that on fresh rows where rows are blank."""


def hidden_error(seed: int) -> tuple[float, float, bool]:
    """Return the error by scikit-learn, that on fresh rows, and whether the analysis is refused."""
    rng = np.random.default_rng([seed, 3])
    X, y = noisy_logistic(N_ROWS, rng)
    fresh, fresh_labels = noisy_logistic(N_FRESH, rng)
    X, y = np.repeat(X, TIMES, axis=0), np.repeat(y, TIMES)
    model = RandomForestClassifier(N_TREES, oob_score=True, random_state=seed).fit(X, y)
    try:
        ens_plugin.analyze(model, X, y)
        refused = False
    except EnsPluginError:
        refused = True
    return 1.0 - float(model.oob_score_), float(np.mean(model.predict(fresh) != fresh_labels)), refused


def is_too_even(kind: str, seed: int) -> bool:
    rng = np.random.default_rng([seed, *kind.encode()])
    n_rows, n_records = int(10 ** rng.uniform(1.5, 4.5)), int(10 ** rng.uniform(0.3, 4.0))
    chances = CHANCES[kind](rng, n_records)
    counts = rng.multinomial(n_rows, chances / chances.sum())
    return bool(too_even(counts[counts > 0]))


def copies_section(options: Options) -> list[Claim]:
    found = np.array([hidden_error(options.seed + index) for index in range(options.repetitions)], dtype=np.float64)
    spread = 100.0 * found.std(axis=0, ddof=1) / math.sqrt(len(found))
    reported, truth, refused = 100.0 * found.mean(axis=0)
    return [
        Claim(f"each row {TIMES} times: out-of-bag error by scikit-learn (%)", reported, spread[0], digits=1),
        Claim(f"each row {TIMES} times: error on fresh rows (%)", truth, spread[1], digits=1),
        Claim(f"each row {TIMES} times: refused (%)", refused, spread[2], low=100.0, digits=0),
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
    """Return whether an analysis doubts or refuses copies, and its error."""
    try:
        report = ens_plugin.analyze(model, X, y)
    except EnsPluginError:
        return True, math.nan
    return any(
        "copy of another" in doubt or "copies of another" in doubt for doubt in report.basis.doubts
    ), report.error


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
        Claim("the same: error out of bag less that on fresh rows (points)", float(np.nanmean(differences)), spread),
        Claim(f"{n} tables with a label drawn again: taken for copies", sum(copied), None, low=0.9 * n, digits=0),
    ]


def draws_section(options: Options) -> tuple[list[Claim], str]:
    each = DRAWS_EACH * options.repetitions
    lines, n_found = [], 0
    for kind in CHANCES:
        found = sum(is_too_even(kind, options.seed * each + index) for index in range(each))
        n_found += found
        lines.append([kind, f"{found} of {each}"])
    n_draws = each * len(CHANCES)
    claim = Claim(f"{n_draws} draws: taken for copies", n_found, None, high=0.0, digits=0)
    return [claim], table(["chances of the rows that are drawn", "taken for copies"], lines)


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.checks.copies", __doc__, 20, arguments)
    of_draws, text = draws_section(options)
    about = ["## Copies and drawn rows", __doc__ or "", NOTES]
    claims = [*copies_section(options), *of_draws, *masses_section(options)]
    return conclude("benchmarks.checks.copies", options, about, claims, [text])


if __name__ == "__main__":
    print(main())
