"""Standard errors of the importance of columns: against the spread over fresh rows, and for columns of noise.

One forest of 8 trees on 200 rows of Friedman's first function of 6 columns, judged on 3 draws of 100 fresh rows for
each repetition: the root mean square standard error over the standard deviation of the importance, by column. And a
training set of 150 rows for each repetition, in which 2 columns matter and 4 are noise, with forests of 60 trees: how
often the importance of a noise column lies within one, two and three standard errors of 0. A normal error would lie
there in 68.3, 95.4 and 99.7 % of cases. The standard errors of the shares are those over training sets.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import friedman
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

DRAWS_EACH = 3
N_FRESH, N_TREES_ONE = 100, 8
N_ROWS, N_TREES, N_COLUMNS, N_SIGNAL = 150, 60, 6, 2
LIMITS = ((1, "one standard error", -math.inf), (2, "two standard errors", 90.0), (3, "three standard errors", 98.0))


def values_of(n_rows: int, seed: list[int]) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, N_COLUMNS))
    return X, friedman(X) + rng.normal(size=n_rows)


def over_fresh_rows(options: Options) -> Array:
    """Return the standard errors over the spread, shape (n_columns,)."""
    X, y = values_of(200, [options.seed, 0])
    trees = RandomForestRegressor(N_TREES_ONE, random_state=options.seed).fit(X, y).estimators_
    found, errors = [], []
    for index in range(1, 1 + DRAWS_EACH * options.repetitions):
        fresh, values = values_of(N_FRESH, [options.seed, index])
        ensemble = ens_plugin.CustomEnsemble.from_estimators(trees, np.zeros((N_TREES_ONE, N_FRESH), dtype=bool))
        result = ens_plugin.oob_permutation_importance(ensemble, fresh, values, n_repeats=3)
        found.append(result.importances_mean)
        errors.append(result.standard_error)
    return np.asarray(np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(found, axis=0))


def noise_ratios(seed: int, *, has_labels: bool) -> Array:
    """Return the importances of the columns of noise in standard errors."""
    rng = np.random.default_rng([seed, 5])
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    values = X[:, :N_SIGNAL].sum(axis=1) + rng.normal(size=N_ROWS)
    kind, y = (RandomForestClassifier, values > 0) if has_labels else (RandomForestRegressor, values)
    found = ens_plugin.oob_permutation_importance(kind(N_TREES, random_state=seed).fit(X, y), X, y)
    return np.asarray(found.importances_mean[N_SIGNAL:] / found.standard_error[N_SIGNAL:])


def shares_within(options: Options, *, has_labels: bool) -> list[Claim]:
    jobs = (delayed(noise_ratios)(options.seed + index, has_labels=has_labels) for index in range(options.repetitions))
    ratios = np.abs(np.array(Parallel(n_jobs=options.n_jobs)(jobs)))
    name = "labels" if has_labels else "values"
    claims = []
    for width, words, low in LIMITS:
        by_set = 100.0 * np.mean(ratios < width, axis=1)
        spread = float(by_set.std(ddof=1) / np.sqrt(by_set.size))
        claims.append(Claim(f"{name}: noise within {words} of 0 (%)", float(by_set.mean()), spread, low, digits=1))
    return claims


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 100, arguments, smoke=3)
    ratios = over_fresh_rows(options)
    claims = [
        Claim("standard error over the spread, smallest column", float(ratios.min()), low=0.85),
        Claim("standard error over the spread, largest column", float(ratios.max()), high=1.15),
        *shares_within(options, has_labels=False),
        *shares_within(options, has_labels=True),
    ]
    text = table(
        ["column", *map(str, range(1, N_COLUMNS + 1))],
        [["standard error over the spread", *(f"{ratio:.2f}" for ratio in ratios)]],
    )
    return conclude(__name__, options, claims, [text])
