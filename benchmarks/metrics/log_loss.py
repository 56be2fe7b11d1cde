"""The log loss of fully grown forests: is there an answer, of which kind, and is it right on fresh rows.

Default random forests of 100 trees on 400 rows, or on half of a real table. The truth is that of a pool of 1000 other
trees on the same rows, on 5000 fresh rows or the other half, with 0 replaced by 2.2e-16 as scikit-learn does. Of real
tables, the noise of the other half is added to the interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import ens_plugin
from benchmarks.metrics.problems import PROBLEMS as LAWS
from benchmarks.shared import problems
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se
from ens_plugin.errors import EnsPluginError

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, int], tuple[Array, Array]]

ROWS, TREES = 400, 100
FRESH_ROWS, POOL = 5000, 1000
LABELS = 4
LEAST = float(np.finfo(np.float64).eps)
Z_95 = 1.96


def four_clouds(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Draw four labels of normal features, whose means are the corners of a square."""
    y = rng.integers(0, LABELS, n_rows)
    X = rng.normal(size=(n_rows, 8))
    X[:, :2] += 1.5 * np.stack([y % 2, y // 2], axis=1)
    return X, y


def _of_formula(name: str) -> Draw:
    return lambda rng, n_rows: problems.FORMULAS[name].sample(n_rows, rng)


SIMULATED: dict[str, Draw] = {
    **{name: law.sample for name, law in LAWS.items() if law.chance is not None},
    **{name: _of_formula(name) for name in ("twonorm", "ringnorm", "circle", "spiral", "hard/easy mixture")},
    "four clouds": four_clouds,
}
REAL = ("breast cancer", "wine", "digits")


class Outcome(NamedTuple):
    """What the report of one forest stated, and whether it was right.

    Attributes
    ----------
    kind : str
        ``"curve"`` where it begins at the forest's size or below, ``"later"`` where it begins above, ``"clipped"``
        where no size is large enough, ``"refused"``.
    now, large : bool or None
        Whether the value at the forest's own size, and that at the size of the pool, were within their intervals;
        None where the report states none.
    expected_zeros : float
        Rows with probability 0 among as many fresh rows as were analysed, at the size from which on the log loss
        counts as finite; NaN beyond the pool.
    off : float
        Stated value at the size of the pool, or else of the forest, less the true one.
    """

    kind: str
    now: bool | None
    large: bool | None
    expected_zeros: float
    off: float


REFUSED = Outcome("refused", None, None, math.nan, math.nan)


def rows_of(name: str, n_rows: int, n_fresh: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return training rows and fresh ones: of a real table, halves of it."""
    rng = np.random.default_rng([seed, *name.encode()])
    if name in SIMULATED:
        return (*SIMULATED[name](rng, n_rows), *SIMULATED[name](rng, n_fresh))
    X, y = problems.load_real(name, None, rng)
    X, fresh, y, labels = train_test_split(X, y.astype(np.int64), test_size=0.5, random_state=seed, stratify=y)
    return X, y, fresh, labels


def own_probabilities(forest: RandomForestClassifier, X: Array, y: Array) -> Array:
    """Return each tree's probability of each row's label, shape (n_trees, n_rows)."""
    places, features = np.arange(y.size), X.astype(np.float32)
    values = [tree.tree_.predict(features).reshape(y.size, -1)[places, y] for tree in forest.estimators_]
    return np.stack(values).astype(np.float32)


def clipped_losses(own: Array, size: int) -> Array:
    """Return scikit-learn's log loss of each row with a number of trees, as the mean over forests of the pool."""
    forests = [own[start : start + size].mean(axis=0) for start in range(0, own.shape[0] - size + 1, size)]
    return np.asarray(np.mean([-np.log(np.maximum(mean, LEAST)) for mean in forests], axis=0))


def outcome(name: str, seed: int, n_trees: int, n_pool: int, n_fresh: int) -> Outcome:
    """Analyse one forest, and compare the report with a pool of trees on fresh rows."""
    X, y, fresh, labels = rows_of(name, ROWS, n_fresh, seed)
    forest = RandomForestClassifier(n_trees, random_state=seed).fit(X, y)
    try:
        report = ens_plugin.analyze(forest, X, y, metric="neg_log_loss", n_jobs=1)
    except EnsPluginError:
        return REFUSED
    curve = report.error_curve
    assert curve.metric_basis is not None
    zeros = curve.metric_basis.zeros
    pool = RandomForestClassifier(n_pool, random_state=seed + 10_000).fit(X, y)
    own = own_probabilities(pool, fresh, labels)
    first = None if zeros is None else zeros.finite_from
    kind = "clipped" if zeros is not None and first is None else "later" if (first or 1) > n_trees else "curve"
    interval = report.error_interval if zeros is None else zeros.clipped_interval
    # The noise of fresh rows is that of the truth: it widens the interval of real tables, whose other half is small.
    now = _holds(interval, clipped_losses(own, n_trees), is_small=name in REAL)
    large, off = None, math.nan
    if curve.reaches(n_pool):
        losses = clipped_losses(own, n_pool)
        large = _holds(curve.interval_at(n_pool), losses, is_small=name in REAL)
        off = curve.at(n_pool) + float(losses.mean())
    expected = math.nan
    if first is not None and first <= n_pool:
        groups = [own[start : start + first].max(axis=0) for start in range(0, n_pool - first + 1, first)]
        expected = y.size * float(np.mean([group <= 0.0 for group in groups]))
    return Outcome(kind, now, large, expected, off)


def _holds(interval: tuple[float, float], losses: Array, *, is_small: bool) -> bool:
    """Return whether an interval of the negative log loss holds the mean of fresh rows' losses."""
    noise = Z_95 * float(losses.std(ddof=1)) / math.sqrt(losses.size) if is_small else 0.0
    low, high = interval
    half = (high - low) / 2.0
    widened = math.hypot(half, noise) - half
    return low - widened <= -float(losses.mean()) <= high + widened


def claims_of(found: list[Outcome]) -> list[Claim]:
    """Return the figures with their targets."""
    answered = [one for one in found if one.kind != "refused"]
    now = np.array([one.now for one in answered], dtype=np.float64)
    large = np.array([one.large for one in answered if one.large is not None], dtype=np.float64)
    both = np.array([one.now and one.large is not False for one in answered], dtype=np.float64)
    expected = np.array([one.expected_zeros for one in answered if not math.isnan(one.expected_zeros)])
    share = 100.0 * len(answered) / len(found)
    return [
        Claim("default forests with an answer (%)", share, percent_se(share, len(found)), 80.0, digits=0),
        _held("value that scikit-learn prints at the forest's size within its interval (%)", now),
        _held(f"value at {POOL} trees within its interval, where the curve reaches it (%)", large),
        _held("both (%)", both),
        Claim(
            "chance that as many fresh rows have no probability of 0 where the log loss counts as finite, mean (%)",
            100.0 * float(np.exp(-expected).mean()) if expected.size else math.nan,
            None,
            88.0,
            digits=0,
        ),
    ]


def _held(measure: str, held: Array) -> Claim:
    share = 100.0 * float(held.mean()) if held.size else math.nan
    return Claim(measure, share, percent_se(share, held.size), 90.0, digits=0)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options: Options = read_options(__name__, __doc__, 4, arguments, smoke=1)
    names = ["circle", "wine"] if options.smoke else [*SIMULATED, *REAL]
    n_pool, n_fresh = (200, 300) if options.smoke else (POOL, FRESH_ROWS)
    seeds = range(options.seed, options.seed + options.repetitions)
    of_forest = partial(outcome, n_trees=TREES, n_pool=n_pool, n_fresh=n_fresh)
    found = {}
    for name in names:
        found[name] = list(Parallel(n_jobs=options.n_jobs)(delayed(of_forest)(name, seed) for seed in seeds))
        if not options.smoke:
            print(name, found[name], flush=True)
    every = [one for several in found.values() for one in several]
    kinds = ("curve", "later", "clipped", "refused")
    rows = [
        [name, *(str(sum(one.kind == kind for one in several)) for kind in kinds),
         f"{sum(bool(one.now) for one in several)}", f"{sum(bool(one.large) for one in several)}",
         f"{np.nanmean([one.off for one in several] or [math.nan]):+.3f}" if any(
             not math.isnan(one.off) for one in several) else ""]
        for name, several in found.items()
    ]  # fmt: skip
    header = ["problem", "curve from the forest's size or below", "from a later size", "clipped only", "refused",
              "right at its size", "right at the pool's", "bias at the pool's"]  # fmt: skip
    return conclude(__name__, options, claims_of(every), [table(header, rows)])
