"""Rows that are alike without being equal: rows augmented by noise, subjects and interpolated rows are doubted.

Of docs/methods/copies.md, near and interpolated rows, in random order; forests of 100 trees. Augmented: 8 tables,
each row with 1, 2, 4 copies, to which normal noise of 0.1, 0.2, 0.3 standard deviations of each column was added.
Subjects: 600 rows of normal columns in which each subject has as many rows, and a random label; the change is in
standard deviations of a column. Oversamplers of imbalanced-learn: tables of 300 rows with 30 % positives, 800 rows
with 10 % positives, 3000 rows with 2 % positives, in 3, 6, 20 columns, shuffled, in 32 and 64 bits. The standard
errors are binomial. Tables without such rows are in the section on subjects and series.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import datasets

import ens_plugin
from benchmarks.checks.shuffled_subjects import N_TREES, forest
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import noisy_logistic
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]
Table = tuple[Array, Array]

FOUND = {"subjects", "interpolated-rows"}


def linear() -> Table:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12))
    return X, X[:, 0] + X[:, 1] + rng.normal(size=300)


AUGMENTED: dict[str, Callable[[], Table]] = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "noisy logistic": lambda: noisy_logistic(400, np.random.default_rng(0)),
    "Friedman": lambda: datasets.make_friedman1(300, noise=2.0, random_state=1),
    "linear": linear,
    "clusters": lambda: datasets.make_classification(400, 10, n_informative=4, flip_y=0.15, random_state=2),
}
COPIES, NOISES = (1, 2, 4), (0.1, 0.2, 0.3)
COLUMNS = (3, 6, 12)
N_SUBJECT_ROWS = 600
EACH = (2, 5, 10)
CHANGES = (0.02, 0.1, 0.3)
OVERSAMPLERS = ("SMOTE", "BorderlineSMOTE", "SVMSMOTE", "ADASYN")
MADE_FROM = ((300, 0.3), (800, 0.1), (3000, 0.02))
MADE_COLUMNS = (3, 6, 20)
TABLES_MADE_FROM = ", ".join(f"{n} rows with {100 * share:g} % positives" for n, share in MADE_FROM)


class Counted(NamedTuple):
    """How many of some tables were doubted."""

    doubted: int
    tables: int

    def shown(self) -> str:
        return f"{self.doubted} of {self.tables}"

    def claim(self, measure: str, low: float = -math.inf, high: float = math.inf, tried: str = "") -> Claim:
        share = self.doubted / self.tables
        spread = 100.0 * math.sqrt(max(share * (1.0 - share), 0.0) / self.tables)
        return Claim(f"{measure} (%)", 100.0 * share, spread, low, high, digits=1, tried=tried)


def is_doubted(rows: Table) -> bool:
    X, y = rows
    report = ens_plugin.analyze(forest(y, N_TREES, 0).fit(X, y), X, y)
    return any(found.code in FOUND for found in report.findings)


def augmented(name: str, n_copies: int, noise: float, seed: int) -> Table:
    """Return a table with noisy copies of each row, in random order."""
    X, y = AUGMENTED[name]()
    rng = np.random.default_rng([zlib.crc32(name.encode()), n_copies, int(10 * noise), seed])
    changed = [X + noise * X.std(axis=0) * rng.normal(size=X.shape) for _ in range(n_copies)]
    order = rng.permutation(y.size * (n_copies + 1))
    return np.concatenate([X, *changed])[order], np.tile(y, n_copies + 1)[order]


def subjects(n_each: int, change: float, n_columns: int, seed: int) -> Table:
    """Draw rows of subjects whose label is of the subject, in random order."""
    rng = np.random.default_rng([n_each, int(100 * change), n_columns, seed])
    subject = rng.permutation(np.repeat(np.arange(N_SUBJECT_ROWS // n_each), n_each))
    centres = rng.normal(size=(N_SUBJECT_ROWS // n_each, n_columns))
    X = centres[subject] + change * rng.normal(size=(subject.size, n_columns))
    return X, rng.integers(0, 2, len(centres))[subject]


def oversampled(name: str, source: tuple[int, float], n_columns: int, dtype: str, seed: int) -> Table:
    """Draw a table with a rare label, to which an oversampler has added rows, in random order."""
    from imblearn import over_sampling

    n_rows, positives = source
    rng = np.random.default_rng([OVERSAMPLERS.index(name), n_rows, n_columns, seed])
    y = np.asarray(rng.random(n_rows) < positives, dtype=np.int64)
    X = rng.normal(size=(n_rows, n_columns)) + 0.4 * y[:, None]
    rows, labels = getattr(over_sampling, name)(random_state=seed).fit_resample(X, y)
    order = rng.permutation(labels.size)
    return rows[order].astype(dtype), labels[order]


def count(options: Options, draw: Any, arguments: Sequence[tuple[Any, ...]]) -> Counted:
    """Return how many of the tables that `draw` makes from the arguments are doubted."""
    found = Parallel(n_jobs=options.n_jobs)(delayed(lambda *given: is_doubted(draw(*given)))(*a) for a in arguments)
    return Counted(int(sum(found)), len(found))


def augmented_section(options: Options) -> tuple[list[Claim], str]:
    """Shares of augmented tables that are doubted, by noise."""
    lines, doubted, n_tables = [], 0, 0
    for name in list(AUGMENTED)[:1] if options.smoke else AUGMENTED:
        found = [count(options, augmented, [(name, n, noise, options.seed) for n in COPIES]) for noise in NOISES]
        doubted, n_tables = doubted + sum(f.doubted for f in found), n_tables + sum(f.tables for f in found)
        lines.append([name, *(f.shown() for f in found)])
    claim = Counted(doubted, n_tables).claim(f"{n_tables} tables with noisy copies: doubted", low=80.0)
    return [claim], table(["augmented, by noise", *map(str, NOISES)], lines)


def subject_section(options: Options) -> str:
    """Return a table of how many tables of subjects are doubted."""
    lines = []
    for n_each in EACH[:1] if options.smoke else EACH:
        for change in CHANGES:
            by_columns = [
                count(
                    options,
                    subjects,
                    [(n_each, change, d, options.seed + index) for index in range(options.repetitions)],
                )
                for d in COLUMNS
            ]
            lines.append([f"{n_each} rows of each, change {change:g}", *(found.shown() for found in by_columns)])
    return table(["doubted, by number of columns", *map(str, COLUMNS)], lines)


def oversampler_section(options: Options) -> tuple[list[Claim], str]:
    """Shares of tables with interpolated rows that are doubted, by oversampler."""
    sources, draws = (MADE_FROM[:1], 1) if options.smoke else (MADE_FROM, max(options.repetitions * 2 // 5, 1))
    lines, doubted, n_tables = [], 0, 0
    for name in OVERSAMPLERS:
        by_columns = [
            count(
                options,
                oversampled,
                [
                    (name, source, n_columns, dtype, options.seed + index)
                    for source in sources
                    for dtype in ("float32", "float64")
                    for index in range(draws)
                ],
            )
            for n_columns in MADE_COLUMNS
        ]
        doubted, n_tables = doubted + sum(f.doubted for f in by_columns), n_tables + sum(f.tables for f in by_columns)
        lines.append([name, *(found.shown() for found in by_columns)])
    claim = Counted(doubted, n_tables).claim(f"{n_tables} tables made by oversamplers: doubted", low=95.0)
    return [claim], table(["oversampler, by number of columns", *map(str, MADE_COLUMNS)], lines)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 5, arguments)
    claims, text = augmented_section(options)
    tables = [text, subject_section(options)]
    if find_spec("imblearn") is not None:
        of_oversamplers, text = oversampler_section(options)
        claims, tables = claims + of_oversamplers, [*tables, text]
    return conclude(__name__, options, claims, tables)
