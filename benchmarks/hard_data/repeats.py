"""Rows that repeat: copies are refused or doubted, chance repeats are not, and groups have honest intervals.

Forests of 100 members. Groups: each repetition draws a new training set, and 2000 fresh groups as its truth; the
interval is the 95 % interval of the error at the current size with groups=. The first table has half as many training
sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se
from ens_plugin.errors import EnsPluginError

Array = NDArray[Any]
Table = tuple[Array, Array]

N_TREES = 100
FRESH_GROUPS = 2000
N_COLUMNS = 5


class GroupedRows(NamedTuple):
    """Rows of a training or test set, and the group of each."""

    X: Array
    y: Array
    groups: Array


class Covered(NamedTuple):
    """The error of one training set on fresh groups, and the report's estimates of it."""

    truth: float
    error: float
    lower: float
    upper: float
    without_groups: float


def labels_of(score: Array, rng: np.random.Generator) -> Array:
    """Draw labels whose odds follow a score."""
    return (rng.random(score.size) < 1.0 / (1.0 + np.exp(-score))).astype(np.int64)


def mixed_groups(
    n_groups: int, rng: np.random.Generator, *, sizes: tuple[int, int], spread: float, by_group: bool
) -> GroupedRows:
    """Draw groups of rows around centres; the label is that of the group, or of each row."""
    counts = rng.integers(sizes[0], sizes[1] + 1, n_groups)
    groups = np.repeat(np.arange(n_groups), counts)
    centres = rng.normal(size=(n_groups, N_COLUMNS))
    X = centres[groups] + spread * rng.normal(size=(groups.size, N_COLUMNS))
    if by_group:
        y = labels_of(2.0 * centres[:, 0] + rng.normal(size=n_groups), rng)[groups]
    else:
        y = labels_of(2.0 * X[:, 0] + 1.5 * rng.normal(size=n_groups)[groups], rng)
    return GroupedRows(X, y, groups)


def group_values(n_groups: int, rng: np.random.Generator) -> GroupedRows:
    """Draw groups of ten rows with an effect of the group on a real target."""
    rows = mixed_groups(n_groups, rng, sizes=(10, 10), spread=0.3, by_group=False)
    effect = rng.normal(size=n_groups)[rows.groups]
    return GroupedRows(rows.X, 2.0 * rows.X[:, 0] + effect + 0.5 * rng.normal(size=effect.size), rows.groups)


def forest(share: float, seed: int, rows: GroupedRows) -> Any:
    """Grow a scikit-learn forest on bags of a share of the rows."""
    kind = RandomForestClassifier if rows.y.dtype.kind == "i" else RandomForestRegressor
    return kind(N_TREES, max_samples=share, min_samples_leaf=2, random_state=seed).fit(rows.X, rows.y)


def boosted_forest(share: float, seed: int, rows: GroupedRows) -> Any:
    """Grow a LightGBM forest on bags of a share of the rows."""
    import lightgbm

    return lightgbm.LGBMClassifier(
        boosting_type="rf", n_estimators=N_TREES, bagging_freq=1, bagging_fraction=share, num_leaves=15,
        min_child_samples=3, random_state=seed, n_jobs=1, verbose=-1,
    ).fit(rows.X, rows.y)  # fmt: skip


def group_bootstrap(seed: int, rows: GroupedRows) -> Any:
    """Grow trees on bootstrap samples of whole groups."""
    rng = np.random.default_rng(seed)
    by_group = np.split(np.arange(rows.y.size), np.flatnonzero(np.diff(rows.groups)) + 1)
    draws = [
        np.concatenate([by_group[group] for group in rng.integers(0, len(by_group), len(by_group))])
        for _ in range(N_TREES)
    ]
    trees = [
        DecisionTreeClassifier(max_features="sqrt", random_state=index).fit(rows.X[draw], rows.y[draw])
        for index, draw in enumerate(draws)
    ]
    return ens_plugin.CustomEnsemble.from_estimators(trees, draws)


def predicted(model: Any, rows: GroupedRows) -> Array:
    """Return what an ensemble predicts for rows, by its own rule."""
    if hasattr(model, "models"):
        mean = np.mean([tree.predict_proba(rows.X) for tree in model.models], axis=0)
        return np.asarray(mean.argmax(axis=1))
    return np.asarray(model.predict(rows.X))


Draw = Callable[[int, np.random.Generator], GroupedRows]
Grow = Callable[[int, GroupedRows], Any]
NEAR_COPIES = partial(mixed_groups, sizes=(10, 10), spread=0.01, by_group=True)
PATIENTS = partial(mixed_groups, sizes=(10, 10), spread=0.7, by_group=False)
UNEQUAL = partial(mixed_groups, sizes=(1, 20), spread=0.5, by_group=False)
PAIRS = partial(mixed_groups, sizes=(2, 3), spread=0.3, by_group=True)
CELLS: dict[str, tuple[int, Draw, Grow]] = {
    "60 groups of 10 near-copies, scikit-learn forest": (60, NEAR_COPIES, partial(forest, 0.1)),
    "60 groups of 10 near-copies, group bootstrap": (60, NEAR_COPIES, group_bootstrap),
    "60 groups of 10 rows, scikit-learn forest": (60, PATIENTS, partial(forest, 0.1)),
    "60 groups of 10 rows, LightGBM": (60, PATIENTS, partial(boosted_forest, 0.1)),
    "60 groups of 10 rows, group bootstrap": (60, PATIENTS, group_bootstrap),
    "60 groups of 1 to 20 rows, group bootstrap": (60, UNEQUAL, group_bootstrap),
    "200 groups of 2 or 3 rows, scikit-learn forest": (200, PAIRS, partial(forest, 0.6)),
    "20 groups of 10 rows, scikit-learn forest": (20, PATIENTS, partial(forest, 0.1)),
    "60 groups of 10 rows, regression": (60, group_values, partial(forest, 0.1)),
}


def analyse_groups(name: str, seed: int) -> Covered:
    """Train on groups of one kind, and compare the report with fresh groups."""
    n_groups, draw, grow = CELLS[name]
    rng = np.random.default_rng([seed, 7])
    rows, fresh = draw(n_groups, rng), draw(FRESH_GROUPS, rng)
    model = grow(seed, rows)
    wrong = predicted(model, fresh) - fresh.y
    truth = float(np.mean(wrong != 0 if rows.y.dtype.kind == "i" else wrong**2))
    report = ens_plugin.analyze(model, rows.X, rows.y, groups=rows.groups)
    plain = ens_plugin.analyze(model, rows.X, rows.y)
    return Covered(truth, report.error, *report.error_interval, plain.error)


def coverage_section(options: Options) -> tuple[list[Claim], str]:
    """Coverage of the interval of the error on rows of fresh groups."""
    lines, shares, claims = [], [], []
    for name in list(CELLS)[:2] if options.smoke else CELLS:
        jobs = (delayed(analyse_groups)(name, options.seed + index) for index in range(options.repetitions))
        found = Parallel(n_jobs=options.n_jobs)(jobs)
        covered = 100.0 * float(np.mean([one.lower <= one.truth <= one.upper for one in found]))
        shares.append(covered)
        spread = percent_se(covered, len(found))
        claims.append(Claim(f"{name}: coverage (%)", covered, spread, 90, digits=0))
        means = [np.mean([getattr(one, field) for one in found]) for field in ("truth", "error", "without_groups")]
        width = np.mean([one.upper - one.lower for one in found])
        lines.append([name, *(f"{value:.3f}" for value in (*means, width)), f"{covered:.0f} %"])
    claims.append(Claim("mean coverage of the cells (%)", float(np.mean(shares)), None, 90, 99, digits=1))
    header = ["groups", "truth", "estimate", "estimate without groups", "width", "coverage"]
    return claims, table(header, lines)


def continuous(n: int, positives: float, rng: np.random.Generator) -> Table:
    """Draw rows of real numbers with a share of positives."""
    y = (rng.random(n) < positives).astype(np.int64)
    return rng.normal(size=(n, 8)) + y[:, None] * 0.7, y


def oversampled(X: Array, y: Array, share: float, rng: np.random.Generator) -> Table:
    """Append copies of random positives until they are a share of the negatives."""
    positives = np.flatnonzero(y)
    wanted = int(share * (y.size - positives.size)) - positives.size
    rows = np.append(np.arange(y.size), rng.choice(positives, max(wanted, 0)))
    return X[rows], y[rows]


def interpolated(X: Array, y: Array, rng: np.random.Generator) -> Table:
    """Append points between positives and one of their five nearest until the labels are equal, as SMOTE does."""
    positives = X[y == 1]
    distances = np.square(positives[:, None] - positives).sum(axis=2) + np.diag(np.full(len(positives), np.inf))
    first = rng.integers(0, len(positives), y.size - 2 * len(positives))
    second = np.argsort(distances, axis=1)[first, rng.integers(0, 5, first.size)]
    part = rng.random((first.size, 1))
    new = positives[first] + part * (positives[second] - positives[first])
    return np.concatenate([X, new]), np.append(y, np.ones(first.size, dtype=np.int64))


def repeated_data(kind: str, rng: np.random.Generator) -> Table:
    """Draw training rows of one kind."""
    if kind == "each row five times":
        X, y = continuous(300, 0.4, rng)
        return np.repeat(X, 5, axis=0), np.repeat(y, 5)
    if kind.startswith("oversampled"):
        X, y = continuous(1000, 0.03, rng)
        X, y = oversampled(X, y, 1.0 if "equal" in kind else 0.1, rng)
        order = rng.permutation(y.size) if "shuffled" in kind else np.arange(y.size)
        return X[order], y[order]
    if kind == "interpolated as SMOTE does":
        return interpolated(*continuous(1000, 0.05, rng), rng)
    n_columns = {"three binary features": 3, "eight binary features": 8}.get(kind, 5)
    if kind in ("three binary features", "eight binary features"):
        X = rng.integers(0, 2, (1000, n_columns)).astype(np.float64)
    else:
        X = np.column_stack([rng.poisson(2.0, 1000), np.round(rng.normal(40, 12, 1000)), rng.integers(0, 3, (1000, 3))])
    return X, labels_of(2.0 * (X[:, 0] - X[:, 0].mean()), rng)


COPIES = (
    "each row five times",
    "oversampled to equal",
    "oversampled to equal, shuffled",
    "oversampled to a tenth, shuffled",
    "interpolated as SMOTE does",
)
CHANCE = ("three binary features", "eight binary features", "counts, ages and categories")


def stopped(kind: str, seed: int) -> float:
    """Return 1 where the analysis is refused, 0.5 where the report has a doubt, else 0."""
    X, y = repeated_data(kind, np.random.default_rng([seed, 11]))
    model = RandomForestClassifier(N_TREES, random_state=seed).fit(X, y)
    try:
        return 0.5 if ens_plugin.analyze(model, X, y).basis.doubts else 0.0
    except EnsPluginError:
        return 1.0


def stop_section(options: Options) -> tuple[list[Claim], str]:
    """Shares of training sets that are refused or doubted."""
    claims, lines = [], []
    repetitions = max(options.repetitions // 2, 1)
    for kind in (*COPIES, *CHANCE):
        jobs = (delayed(stopped)(kind, options.seed + index) for index in range(repetitions))
        found: Sequence[float] = Parallel(n_jobs=options.n_jobs)(jobs)
        share = 100.0 * float(np.mean(np.array(found) > 0))
        low, high = (100, math.inf) if kind in COPIES else (-math.inf, 0)
        claims.append(Claim(f"{kind}: refused or doubted (%)", share, None, low, high, digits=0))
        lines.append([kind, *(f"{100 * np.mean(np.array(found) == value):.0f} %" for value in (1.0, 0.5, 0.0))])
    return claims, table(["training rows", "refused", "doubted", "let pass"], lines)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 60, arguments)
    sections = [stop_section(options), coverage_section(options)]
    return conclude(
        __name__, options, [claim for found, _ in sections for claim in found], [text for _, text in sections]
    )
