"""The log loss of networks, of forests with leaves of 5 and of boosters' forests: its limit against more members.

Noisy labels of make_classification, 600 rows to train on and as many held out. The true limit is that of a pool of 96
other networks or 1000 other trees on the same rows, judged in the same way; the errors are those of the limit over
it, in percent, with their standard errors. Intervals are to hold the log loss of the pool on 5000 fresh rows.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBRFClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, mean_and_se, root_mean_square
from ens_plugin.errors import EnsPluginError

Array = NDArray[Any]

ROWS, FRESH_ROWS = 600, 5000
LABELS = (2, 4, 10)
BOOSTERS = ("LightGBM", "XGBoost")
SIZES = {"networks": (4, 8, 16), "leaves of 5": (25, 100), "LightGBM": (25, 100), "XGBoost": (25, 100)}
POOL = {"networks": 96, "leaves of 5": 1000, "LightGBM": 1000, "XGBoost": 1000}
# In percent of the limit.
ALLOWED_BIAS = 2.0
Z_95 = 1.96


class Case(NamedTuple):
    """Ensembles of one kind and size, judged by one kind of rows."""

    kind: str
    n_labels: int
    data: str
    n_members: int


class Outcome(NamedTuple):
    """The limit of a report over that of the same rows less 1, and whether the interval holds that of fresh rows."""

    error: float
    held: bool


def rows_of(n_labels: int, seed: int) -> list[tuple[Array, Array]]:
    """Return rows with noisy labels: those to train on, as many that are held out, and fresh ones."""
    X, y = make_classification(
        2 * ROWS + FRESH_ROWS, 20, n_informative=8, n_redundant=4, n_classes=n_labels, n_clusters_per_class=1,
        flip_y=0.1, class_sep=0.8, random_state=seed,
    )  # fmt: skip
    return [(X[part], y[part]) for part in (slice(0, ROWS), slice(ROWS, 2 * ROWS), slice(2 * ROWS, None))]


def grown(kind: str, n_members: int, seed: int) -> Any:
    """Return an ensemble that is not trained."""
    if kind == "networks":
        network = make_pipeline(StandardScaler(), MLPClassifier((16,), max_iter=100))
        return BaggingClassifier(network, n_members, random_state=seed)
    if kind == "leaves of 5":
        return RandomForestClassifier(n_members, min_samples_leaf=5, random_state=seed)
    if kind == "LightGBM":
        return LGBMClassifier(
            boosting_type="rf", n_estimators=n_members, bagging_freq=1, bagging_fraction=0.6, feature_fraction=0.6,
            num_leaves=15, random_state=seed, n_jobs=1, verbose=-1,
        )  # fmt: skip
    return XGBRFClassifier(
        n_estimators=n_members, max_depth=5, subsample=0.6, colsample_bynode=0.6, random_state=seed, n_jobs=1
    )


def fitted(kind: str, n_members: int, seed: int, X: Array, y: Array) -> Any:
    """Return a trained ensemble."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return grown(kind, n_members, seed).fit(X, y)


def losses(probabilities: Array, y: Array) -> Array:
    """Return the log loss of each row."""
    return -np.log(np.maximum(probabilities[np.arange(y.size), y].astype(np.float64), np.finfo(np.float64).eps))


def limit_of_members(outputs: Array, counted: Array, y: Array) -> float:
    """Return the log loss of infinitely many members on some rows, by a line in 1/size through halves and all."""
    parts = [slice(start, None, 2) for start in range(2)]
    known = np.all([counted[part].any(axis=0) for part in parts], axis=0)

    def of_members(some: slice) -> float:
        own = counted[some][:, known]
        sums = np.einsum("mrk,mr->rk", outputs[some][:, known], own)
        return float(losses(sums / own.sum(axis=0)[:, None], y[known]).mean())

    halves = [of_members(part) for part in parts]
    return 2.0 * of_members(slice(None)) - float(np.mean(halves))


def limits(kind: str, pool: Any, train: tuple[Array, Array], held_out: tuple[Array, Array]) -> dict[str, float]:
    """Return the log loss of infinitely many members on the training rows, out of bag, and on held-out rows."""
    if kind in BOOSTERS:
        # With 1000 trees, nothing is left to extrapolate.  XGBoost has a row or two in the bags of all trees.
        return {"oob": float(np.nanmean(losses(ens_plugin.oob_predictions(pool, *train).values, train[1])))}
    found = {}
    for data, (X, y) in (("oob", train), ("holdout", held_out)):
        outputs = np.stack([member.predict_proba(X) for member in pool.estimators_])
        counted = np.ones(outputs.shape[:2])
        if data == "oob":
            for own, rows in zip(counted, pool.estimators_samples_, strict=True):
                own[rows] = 0.0
        found[data] = limit_of_members(outputs, counted, y)
    return found


def outcomes(kind: str, n_labels: int, seed: int, pool_size: int, sizes: tuple[int, ...]) -> dict[Case, Outcome]:
    """Analyse ensembles of some sizes, and compare their limits with that of a pool of other members."""
    train, held_out, (fresh, fresh_y) = rows_of(n_labels, seed)
    pool = fitted(kind, pool_size, seed + 10_000, *train)
    known, of_fresh = limits(kind, pool, train, held_out), losses(pool.predict_proba(fresh), fresh_y)
    noise = Z_95 * float(of_fresh.std(ddof=1)) / math.sqrt(of_fresh.size)
    found = {}
    for n_members in sizes:
        model = fitted(kind, n_members, seed, *train)
        for data in ("oob", "holdout") if kind == "networks" else ("oob",):
            rows = train if data == "oob" else held_out
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    report = ens_plugin.analyze(model, *rows, data=data, metric="neg_log_loss", n_jobs=1)
            except EnsPluginError:
                continue
            low, high = report.error_curve.asymptote_interval
            apart = abs(float(of_fresh.mean()) + (low + high) / 2.0)
            limit = -report.error_curve.asymptote
            found[Case(kind, n_labels, data, n_members)] = Outcome(
                limit / known[data] - 1.0, apart <= math.hypot((high - low) / 2.0, noise)
            )
    return found


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options: Options = read_options("benchmarks.metrics.smooth_log_loss", __doc__, 3, arguments)
    seeds = range(options.seed, options.seed + options.repetitions)
    kinds = {"networks": (4,), "leaves of 5": (25,)} if options.smoke else SIZES
    found: dict[Case, list[Outcome]] = {}
    for kind, sizes in kinds.items():
        for n_labels in (2,) if options.smoke else LABELS:
            pool_size = 16 if options.smoke else POOL[kind]
            tried = Parallel(n_jobs=options.n_jobs)(
                delayed(outcomes)(kind, n_labels, seed, pool_size, sizes) for seed in seeds
            )
            for one in tried:
                for case, each in one.items():
                    found.setdefault(case, []).append(each)
            if not options.smoke:
                print(kind, n_labels, tried, flush=True)
    return conclude("benchmarks.metrics.smooth_log_loss", options, _claims(found), [_table(found)])


def _claims(found: dict[Case, list[Outcome]]) -> list[Claim]:
    claims = []
    for kind in dict.fromkeys(case.kind for case in found):
        every = [one for case, several in found.items() if case.kind == kind for one in several]
        bias, spread = mean_and_se([100.0 * one.error for one in every])
        held = 100.0 * float(np.mean([one.held for one in every]))
        claims.append(Claim(f"{kind}: bias of the limit (%)", bias, spread, -ALLOWED_BIAS, ALLOWED_BIAS))
        claims.append(Claim(f"{kind}: interval holds the log loss of fresh rows (%)", held, None, 90.0, digits=1))
    return claims


def _table(found: dict[Case, list[Outcome]]) -> str:
    header = ["ensembles", "labels", "judged by", "members", "reports", "error (%)", "root mean square (%)", "held"]
    rows = []
    for case, several in found.items():
        errors = [100.0 * one.error for one in several]
        bias, spread = mean_and_se(errors)
        rows.append(
            [case.kind, str(case.n_labels), "held-out rows" if case.data == "holdout" else "out-of-bag members",
             str(case.n_members), str(len(several)), f"{bias:+.1f} ± {spread:.1f}", f"{root_mean_square(errors):.1f}",
             str(sum(one.held for one in several))]
        )  # fmt: skip
    return table(header, rows)


if __name__ == "__main__":
    print(main())
