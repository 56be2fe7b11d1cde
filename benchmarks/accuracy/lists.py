"""Lists that another seed would give too: the overlap from one forest, against that of twenty at each of six sizes.

Columns by impurity (1000 markers with 250 rows, ten of which have effects, as in the simulations of optRF; 30, 100
and 120 columns, also correlated ones), columns by permutation (30), new rows by value and by probability (500), rows
with the votes of all trees, columns that few trees split, anomalies (three tables) and, where EconML is installed,
new rows by the effect of a treatment (500; sizes are numbers of members there, each a group of four trees). Six
forests are read at their first 50 and 100 members. The truth is the mean overlap of all pairs of the twenty forests,
one of which is the one that is read; a size is judged where the truth passes the overlap between two of the six
sizes. optRF (2025) trains ten forests at each of five sizes, and fits a curve of two parameters to their overlaps: it
is done with ten of the forests, and judged by the other ten at a size that is left out of the fit.

What no method can do better without a bias is told by the bound of Cramér and Rao: members are taken for normal, with
the mean of all 8000 members and the covariance of 600, which is known to the method; only the means are not.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import curve_fit
from sklearn.datasets import load_breast_cancer, load_digits, make_classification, make_friedman1
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.shared.forests import Plan, Record, grow_all, leaf_values, out_of_bag
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se, root_mean_square
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.core.intervals import DrawnCurve
from ens_plugin.core.lists import RankedItems, largest

Array = NDArray[Any]

SIZES, READ = np.array([13, 25, 50, 100, 200, 400]), (50, 100)
# Of twenty forests, six are read, and ten are those of optRF.
FORESTS, N_READ, OF_OPTRF, WANTED, LEVEL, MAX_SIZE = 20, 6, 10, 0.95, 0.95, 20_001
# Draws for the slopes of the bound.
SLOPE_BLOCKS, BLOCK = 6, 1000
TRIED = (
    "a fitted distribution of the true means (EM; RMSE .09), extrapolation by halves of the members (.07), of higher "
    "order (.11), from less noise (.07), without the counted halves (.053 for .054): all on other tables. Lists of ten "
    "hang on one or two gaps between means, which 50 trees do not tell."
)

TRIED_SD = (
    "set on simulated members of other kinds, where 98, 95 and 91 % are held up to half, four and 32 times of them."
)


class Table(NamedTuple):
    """What is ranked, how long the list is, and a function that trains a forest of so many trees."""

    length: int
    train: Callable[[int, int], tuple[Any, Array, Array]]  # size and seed; the forest, its rows and the rows to rank
    reads: Callable[[Any, Array, Array], Array]  # values by member


def by_impurity(forest: Any, X: Array, rows: Array) -> Array:
    return np.stack([tree.feature_importances_ for tree in forest.estimators_])


def by_output(forest: Any, X: Array, rows: Array) -> Array:
    return np.stack([leaf_values(tree, rows.astype(np.float32))[:, -1] for tree in forest.estimators_])


def by_path(forest: Any, X: Array, rows: Array) -> Array:
    adapter = find_adapter(forest)
    return -np.asarray(adapter.outputs(adapter.prepare(rows)))


def markers(n_causal: int, share: float, **options: Any) -> Callable[[int, int], tuple[Any, Array, Array]]:
    """Genotypes of 1000 independent markers and a trait, of whose variance the causal ones explain a share."""
    options = {"max_features": 0.1, **options}
    rng = np.random.default_rng([2025, n_causal])
    X = rng.binomial(2, rng.uniform(0.05, 0.5, 1000), (250, 1000)).astype(np.float32)
    effect = X[:, rng.choice(1000, n_causal, replace=False)] @ rng.normal(size=n_causal)
    y = effect / effect.std() + rng.normal(size=250) * math.sqrt(1.0 / share - 1.0)
    return lambda size, seed: (RandomForestRegressor(size, random_state=seed, **options).fit(X, y), X, X)


def columns(n_columns: int, correlation: float, *, has_labels: bool) -> Callable[[int, int], tuple[Any, Array, Array]]:
    """Columns, 40 % of which have effects, in blocks of ten correlated ones."""
    X, y = data_of_columns(n_columns, correlation)
    kind, target = (RandomForestClassifier, y > 0) if has_labels else (RandomForestRegressor, y)
    return lambda size, seed: (kind(size, max_features="sqrt", random_state=seed).fit(X, target), X, X)


def data_of_columns(n_columns: int, correlation: float) -> tuple[Array, Array]:
    rng = np.random.default_rng([7, n_columns])
    shared = np.repeat(rng.normal(size=(300, n_columns // 10)), 10, axis=1)
    X = math.sqrt(correlation) * shared + math.sqrt(1.0 - correlation) * rng.normal(size=(300, n_columns))
    signal = X @ (rng.exponential(size=n_columns) * (rng.random(n_columns) < 0.4))
    return X, signal / signal.std() + 0.7 * rng.normal(size=300)


def new_rows(*, has_labels: bool) -> Callable[[int, int], tuple[Any, Array, Array]]:
    if has_labels:
        X, y = make_classification(1000, 15, n_informative=5, flip_y=0.15, random_state=3)
        return lambda size, seed: (
            RandomForestClassifier(size, min_samples_leaf=3, random_state=seed).fit(X[:500], y[:500]), X, X[500:],
        )  # fmt: skip
    X, y = make_friedman1(1000, noise=1.5, random_state=3)
    return lambda size, seed: (
        RandomForestRegressor(size, max_features=0.33, random_state=seed).fit(X[:500], y[:500]), X, X[500:],
    )  # fmt: skip


def sure_rows() -> Callable[[int, int], tuple[Any, Array, Array]]:
    """Rows of which all trees of a small forest vote for the label of many."""
    X, y = make_classification(1000, 12, n_informative=5, random_state=11)
    return lambda size, seed: (RandomForestClassifier(size, random_state=seed).fit(X[:500], y[:500]), X, X[500:])


def anomalies(X: Array) -> Callable[[int, int], tuple[Any, Array, Array]]:
    return lambda size, seed: (IsolationForest(n_estimators=size, random_state=seed).fit(X), X, X)


def _two_clouds() -> Array:
    rng = np.random.default_rng(5)
    return np.concatenate([rng.normal(size=(900, 8)), rng.normal(3.0, 2.0, size=(60, 8))])


TABLES = {
    "markers, 10 causal": Table(50, markers(10, 0.5), by_impurity),
    "30 columns": Table(10, columns(30, 0.0, has_labels=False), by_impurity),
    "100 correlated columns": Table(10, columns(100, 0.6, has_labels=False), by_impurity),
    "120 columns, labels": Table(10, columns(120, 0.0, has_labels=True), by_impurity),
    "rows by value": Table(75, new_rows(has_labels=False), by_output),
    "rows by probability": Table(75, new_rows(has_labels=True), by_output),
    "rows by probability, tied": Table(30, sure_rows(), by_output),
    "columns hardly split": Table(100, markers(10, 0.5, max_depth=2), by_impurity),
    "anomalies, digits": Table(40, anomalies(load_digits().data), by_path),
    "anomalies, breast cancer": Table(40, anomalies(load_breast_cancer().data), by_path),
    "anomalies, two clouds": Table(40, anomalies(_two_clouds()), by_path),
}
PERMUTED, EFFECTS = "30 columns, permuted", "effects of a causal forest"
LENGTHS = {PERMUTED: 10, EFFECTS: 50}


def of_laws(law: DrawnCurve) -> Array:
    """Return the estimated overlap, the ends of its interval by size, and the size for the wanted overlap."""
    ends = np.array([law.loss_interval(size, LEVEL) for size in SIZES])
    size = law.size_within(1.0 - WANTED, MAX_SIZE) or MAX_SIZE
    return np.stack([1.0 - law.losses(SIZES), 1.0 - ends[:, 1], 1.0 - ends[:, 0], np.full(SIZES.size, size)])


def grow(plan: Plan) -> Record:
    """Return the mean values of one forest by size, and of a forest that is read the values of its first trees."""
    if plan.problem == PERMUTED:
        return grow_permuted(plan)
    if plan.problem == EFFECTS:
        return grow_effects(plan)
    _, train, reads = TABLES[plan.problem]
    values = reads(*train(int(SIZES[-1]), plan.repetition))
    first = values[: READ[-1]] if plan.repetition < N_READ else values[:0]
    return {"means": np.stack([values[:size].mean(axis=0) for size in SIZES]), "first": first}


def grow_permuted(plan: Plan) -> Record:
    """Return the importances by permutation of one forest by size, with the same permutations in all forests."""
    X, y = data_of_columns(30, 0.0)
    forest = RandomForestRegressor(int(SIZES[-1]), max_features="sqrt", random_state=plan.repetition).fit(X, y)
    is_oob = out_of_bag(forest, y.size)

    def errors(rows: Array) -> Array:
        values = np.stack([tree.predict(rows) for tree in forest.estimators_])
        totals, trials = np.cumsum(values * is_oob, axis=0)[SIZES - 1], np.cumsum(is_oob, axis=0)[SIZES - 1]
        is_known = trials[0] > 0
        return np.asarray(((totals / np.maximum(trials, 1) - y)[:, is_known] ** 2).mean(axis=1))

    means, base = np.zeros((SIZES.size, X.shape[1])), errors(X)
    for column in range(X.shape[1]):
        for repeat in range(2):
            order = np.random.default_rng([0, column, repeat]).permutation(y.size)
            moved = X.copy()
            moved[:, column] = X[order, column]
            means[:, column] += (errors(moved) - base) / 2.0
    return {"means": means}


def causal_forest(n_members: int, seed: int) -> tuple[Any, Array]:
    """Return a forest of the effects of a treatment at random, in groups of four trees, and rows to rank."""
    from econml.grf import CausalForest

    rng = np.random.default_rng(11)
    X, is_treated = rng.normal(size=(1000, 5)), rng.integers(0, 2, 1000)
    effect = X[:, 0] + np.maximum(X[:, 1], 0.0)
    y = X[:, 2] + effect * is_treated + rng.normal(size=1000)
    return CausalForest(4 * n_members, random_state=seed, n_jobs=1).fit(X[:500], is_treated[:500], y[:500]), X[500:]


def grow_effects(plan: Plan) -> Record:
    """Return the effects by one forest by size, each from the means over its trees of that size."""
    forest, rows = causal_forest(int(SIZES[-1]), plan.repetition)
    parts = [forest.predict_alpha_and_jac(rows, slice=range(4 * size)) for size in SIZES]
    return {"means": np.stack([np.linalg.solve(jacobian, alpha[..., None])[:, 0, 0] for alpha, jacobian in parts])}


def read(name: str, record: Record, repetition: int, n_read: int) -> Array:
    """Return what the first members of a forest tell, as :func:`of_laws`."""
    if name == EFFECTS:
        causal, rows = causal_forest(n_read, repetition)
        return of_laws(ens_plugin.agreement(causal, rows, top=LENGTHS[name], max_size=MAX_SIZE).between)
    if name != PERMUTED:
        return of_laws(RankedItems(record["first"][:n_read], length_of(name)).laws(MAX_SIZE).between)
    X, y = data_of_columns(30, 0.0)
    forest = RandomForestRegressor(n_read, max_features="sqrt", random_state=repetition).fit(X, y)
    found = ens_plugin.oob_permutation_importance(forest, X, y, n_repeats=2).agreement(LENGTHS[name])
    return of_laws(found.between)


def length_of(name: str) -> int:
    return LENGTHS[name] if name in LENGTHS else TABLES[name].length


def overlaps(means: Array, length: int) -> Array:
    """Return the mean overlap of pairs of forests by size; `means` has shape (n_forests, n_sizes, n_items)."""
    rng, found = np.random.default_rng(0), []
    for own in means.transpose(1, 0, 2):
        lists = largest(own, length, 1e-12 * float(np.abs(own).max()), rng).astype(np.float64)
        found.append((lists @ lists.T)[np.triu_indices(len(lists), 1)].mean() / length)
    return np.array(found)


def passing(truth: Array, wanted: float) -> float:
    """Return the size at which the truth passes the wanted overlap; NaN where that is not between two of the sizes."""
    if not truth[0] < wanted <= truth[-1]:
        return math.nan
    after = int(np.argmax(truth >= wanted))
    ends = np.log(np.maximum(1.0 - truth[[after, after - 1]], 1e-6))
    return float(np.exp(np.interp(math.log(1.0 - wanted), ends, np.log(SIZES[[after, after - 1]]))))


def least_variances(records: Sequence[Record], length: int) -> Array:
    """Return the bound of Cramér and Rao, times the members read, of the overlap at each size by an unbiased estimate.

    The overlap is a function of the true means; noise of one member's covariance is `factor` times normal weights, one
    for each member, and the slope along each is the covariance of the overlap and the weights (Stein's lemma).
    """
    mean = np.mean([record["means"][-1] for record in records], axis=0)
    apart = np.concatenate([own - own.mean(axis=0) for own in (record["first"] for record in records) if len(own)])
    factor = np.asarray(np.linalg.qr(apart / math.sqrt(len(apart)), mode="r"))
    rng, least = np.random.default_rng(0), []
    for size in SIZES:
        # The square of a noisy slope is too large; the product of two independent ones is not.
        one, other = (slope_of_overlap(mean, factor, int(size), length, rng) for _ in range(2))
        least.append(max(float(one @ other), 0.0))
    return np.array(least)


def slope_of_overlap(mean: Array, factor: Array, size: int, length: int, rng: np.random.Generator) -> Array:
    """Return the change of the overlap of ensembles of a size with each normal weight of the noise in the means."""
    found, scale = np.zeros(len(factor)), 1.0 / math.sqrt(size)
    for _ in range(SLOPE_BLOCKS):
        weights = rng.normal(size=(2, BLOCK, len(factor)))
        weights = np.concatenate([weights, -weights], axis=1)
        ties = 1e-12 * float(np.abs(mean).max())
        one, other = (largest(mean + scale * own @ factor, length, ties, rng) for own in weights)
        overlap = (one & other).sum(axis=1) / length
        found += (overlap - overlap.mean()) @ weights.sum(axis=0) / (overlap.size * scale)
    return found / SLOPE_BLOCKS


def bound_claims(judged: dict[str, tuple[Array, list[Outcome]]], least: dict[str, Array]) -> list[Claim]:
    """Return the smallest error that an unbiased estimate can have, of the overlap and of the size."""
    variances: list[float] = []
    chances: list[float] = []
    for name, variance in least.items():
        truth, slopes = judged[name][0], np.gradient(judged[name][0], np.log2(SIZES))
        wanted = math.floor(truth[-1] / 0.05) * 0.05
        for n_read in READ:
            variances.extend(variance[2 * n_read <= SIZES] / n_read)
            sd = np.interp(wanted, truth, np.sqrt(variance / n_read) / slopes)
            chances.append(math.erf(math.log2(1.5) / max(sd, 1e-9) / math.sqrt(2.0)))
    return [
        Claim("least RMSE of an unbiased estimate, twice the size and more", math.sqrt(np.mean(variances)), digits=3),
        Claim(
            "size within a factor of 1.5 by an unbiased estimate, at most (%)",
            100.0 * float(np.mean(chances)),
            digits=0,
        ),
    ]


class Outcome(NamedTuple):
    """One forest, read at some of its trees: errors by size, which intervals hold the truth, and log of the size."""

    n_read: int
    errors: Array
    is_held: Array
    log_size: float


def outcomes(name: str, records: Sequence[Record], n_jobs: int) -> tuple[Array, list[Outcome]]:
    truth = overlaps(np.stack([record["means"] for record in records]), length_of(name))
    size, found = passing(truth, WANTED), []
    plans = [(repetition, n_read) for repetition in range(min(N_READ, len(records))) for n_read in READ]
    done = Parallel(n_jobs=n_jobs)(delayed(read)(name, records[plan[0]], *plan) for plan in plans)
    for (_, n_read), (overlap, low, high, own_size) in zip(plans, done, strict=True):
        is_held = (low <= truth) & (truth <= high)
        found.append(Outcome(n_read, overlap - truth, is_held, math.log2(own_size[0] / size)))
    return truth, found


def sizes_reached(judged: dict[str, tuple[Array, list[Outcome]]]) -> Array:
    """Return logs of sizes for the largest overlap, in steps of .05, that the truth reaches; infinity if not found."""
    logs = []
    for truth, found in judged.values():
        wanted = math.floor(truth[-1] / 0.05) * 0.05
        for each in found:
            size = passing(np.maximum.accumulate(truth + each.errors), wanted)
            logs.append(math.inf if math.isnan(size) else math.log2(size / passing(truth, wanted)))
    return np.array(logs)


def part(found: Sequence[Outcome], name: str, *, is_beyond: bool) -> Array:
    """Return one field of all outcomes, at sizes of twice what was read and more, or below."""
    return np.concatenate([getattr(each, name)[(each.n_read * 2 <= SIZES) == is_beyond] for each in found])


def claims_of(found: Sequence[Outcome]) -> list[Claim]:
    beyond, below = (part(found, "errors", is_beyond=side) for side in (True, False))
    held = [100.0 * float(np.mean(part(found, "is_held", is_beyond=side))) for side in (True, False)]
    sizes = np.array([each.log_size for each in found if not math.isnan(each.log_size)])
    within = 100.0 * float(np.mean(np.abs(sizes) <= math.log2(1.5))) if sizes.size else math.nan
    rmse = root_mean_square
    return [
        Claim("RMSE of the overlap, twice the size and more", rmse(beyond), None, high=0.03, digits=3, tried=TRIED),
        Claim("RMSE of the overlap, below", rmse(below), None, high=0.05, digits=3, tried=TRIED),
        Claim("bias of the overlap, twice the size and more", float(beyond.mean()), None, -0.02, 0.02, digits=3),
        Claim("bias of the overlap, below", float(below.mean()), None, -0.02, 0.02, digits=3),
        Claim("95 % intervals that hold the overlap, twice the size and more (%)", held[0], None, 90, 99, 1, TRIED_SD),
        Claim("95 % intervals that hold the overlap, below (%)", held[1], None, 90, 99, digits=1),
        Claim("size for 95 % within a factor of 1.5 (%)", within, percent_se(within, sizes.size), 80, tried=TRIED),
    ]  # fmt: skip


def by_optrf(records: Sequence[Record], length: int, found: Sequence[Outcome]) -> tuple[float, ...]:
    """Return the error of optRF's curve at the largest size, which it is not fitted to, and two of this package's."""
    means = np.stack([record["means"] for record in records])
    own, truth = overlaps(means[:OF_OPTRF], length), overlaps(means[OF_OPTRF:], length)
    (scale, power), _ = curve_fit(lambda size, a, b: 1.0 / (1.0 + (a / size) ** b), SIZES[:-1], own[:-1], (50.0, 0.5))
    fitted = 1.0 / (1.0 + (scale / SIZES[-1]) ** power)
    errors = [root_mean_square([each.errors[-1] for each in found if each.n_read == size]) for size in READ]
    return abs(float(fitted - truth[-1])), *errors


def seconds_and_memory(n_members: int, n_items: int, length: int) -> tuple[float, float]:
    """Return the seconds that the statistics of members' values take, and the memory beyond these, in GB."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=n_items) + 3.0 * rng.standard_exponential(size=(n_members, n_items))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    items = RankedItems(values, length)
    items.laws(MAX_SIZE, first=n_members / 4.0)
    items.chances()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return time.process_time() - start, used / 1e6


class Lookup:
    """A member that gives each row a value at once, so that reading a million rows is all that takes time."""

    def __init__(self, seed: int) -> None:
        self.values = np.random.default_rng(seed).standard_exponential(4096)

    def predict(self, X: Array) -> Array:
        """Return the value of each row's number, moved by the member."""
        rows = X[:, 0].astype(np.int64)
        return np.asarray(X[:, 0] * 1e-6 + self.values[rows & 4095])


def million_rows() -> tuple[float, float, float]:
    """Return the seconds for 1000 of a million rows and 200 members, those of the members, and the memory in GB."""
    X = np.arange(1_000_000, dtype=np.float64)[:, None]
    members, start = [Lookup(seed) for seed in range(200)], time.process_time()
    for member in members:
        member.predict(X)
    of_members = time.process_time() - start
    ensemble = ens_plugin.CustomEnsemble.from_estimators(members, None)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    ens_plugin.agreement(ensemble, X, top=1000)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    return time.process_time() - start, of_members, memory


def cost_claims(options: Options) -> list[Claim]:
    if options.smoke:
        return []
    # Each in a process of its own, since the memory is the most that a process ever had.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as own:
        rows_s, members_s, rows_gb = own.submit(million_rows).result()
        columns_s, columns_gb = own.submit(seconds_and_memory, 500, 10_000, 50).result()
    return [
        Claim("10 000 columns of 500 trees (s of one core)", columns_s, None, high=10, digits=1),
        Claim("10 000 columns of 500 trees, memory beyond the values (GB)", columns_gb),
        Claim("a million rows of 200 members that predict at once (s of one core)", rows_s, None, high=10, digits=1),
        Claim("a million rows of 200 members: of it the members' own predictions (s)", members_s, digits=1),
        Claim("a million rows of 200 members, memory (GB)", rows_gb),
    ]


def row_of(name: str, truth: Array, found: Sequence[Outcome]) -> list[str]:
    beyond, below = (part(found, "errors", is_beyond=side) for side in (True, False))
    held = np.concatenate([each.is_held for each in found])
    size = passing(truth, WANTED)
    return [
        name,
        " ".join(f"{value:.2f}" for value in truth),
        f"{beyond.mean():+.3f}",
        f"{root_mean_square(beyond):.3f}",
        f"{root_mean_square(below):.3f}",
        f"{100 * held.mean():.0f}",
        "-" if math.isnan(size) else f"{size:.0f}",
        "-" if math.isnan(size) else f"{np.median([each.log_size for each in found]):+.2f}",
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, FORESTS, arguments, smoke=4)
    names = (
        ["anomalies, two clouds"] if options.smoke else [*TABLES, PERMUTED, *([EFFECTS] if find_spec("econml") else [])]
    )
    by_table = {}
    for name in names:
        plans = [Plan(name, None, int(SIZES[-1]), None, 0, options.seed, r) for r in range(options.repetitions)]
        by_table[name] = grow_all(options.cache, "lists", plans, grow, options.n_jobs)
    judged = {name: outcomes(name, records, options.n_jobs) for name, records in by_table.items()}
    claims = claims_of([each for _, found in judged.values() for each in found])
    reached = 100.0 * float(np.mean(np.abs(sizes_reached(judged)) <= math.log2(1.5)))
    claims.append(Claim("size for the largest overlap reached within a factor of 1.5 (%)", reached, digits=0))
    if not options.smoke:
        of_optrf = [
            by_optrf(by_table[name], length_of(name), judged[name][1])
            for name in by_table
            if name.startswith("markers")
        ]
        fitted, few, many = (root_mean_square(errors) for errors in zip(*of_optrf, strict=True))
        n_trees = int(OF_OPTRF * SIZES[:-1].sum())
        claims += [
            Claim(f"markers, overlap at 400: error of optRF's curve, from {n_trees} trees", fitted, digits=3),
            Claim("markers, overlap at 400: error of this package, from 50 trees", few, digits=3),
            Claim("markers, overlap at 400: error of this package, from 100 trees", many, digits=3),
            *cost_claims(options),
        ]
        least = {name: least_variances(by_table[name], length_of(name)) for name in TABLES}
        claims += bound_claims(judged, least)
    heads = [
        "table",
        "overlap at 13 to 400",
        "bias beyond",
        "RMSE beyond",
        "RMSE below",
        "held (%)",
        "size",
        "log2 off",
    ]
    rows = [row_of(name, truth, found) for name, (truth, found) in judged.items()]
    return conclude(__name__, options, claims, [table(heads, rows)])
