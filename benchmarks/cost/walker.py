"""Processor time of an analysis with and without the compiled search for leaves, alternating; medians of ratios."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

import ens_plugin
from benchmarks.cost.boosters import SHARE, sample
from benchmarks.cost.speed import own_score, ratio
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, table
from ens_plugin import _kernel
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.sizing.pruning import DynamicPruningClassifier

Array = NDArray[Any]
Work = Callable[[], object]

N_ROWS, N_FEATURES, N_TREES = 20_000, 20, 200
MANY_LABELS, TREES_OF_MANY = 100, 100
# Rows and trees of the boosters' forests, by the number of labels.
BOOSTED = {2: (100_000, 500), 5: (100_000, 500)}
ONE_ROW_CALLS = 20
OWN, CLASSIFIER = "the library itself", "its classifier"
TRIED = (
    "for the search: blocks of 64 to 512 rows, AVX2 gathers, rows at a leaf sorted out after 2 or 4 steps, 16 rows to "
    "the instruction with AVX-512 (a third of the time of one by one), nodes packed into 8 bytes and the first five "
    "levels in registers (gathers of 64 bits are slower than two of 32, and ranks of values and thresholds in place "
    "of numbers were estimated to take longer to find than they save); for small trees, truths about 64 rows as bits, "
    "with thresholds compared once for all trees. For the rest, which is the bags, the tally, the fit of the curve "
    "and the intervals: sums over members in compiled code, 16 to 64 rows at a time, outputs read ahead of them, "
    "blocks of 1 to 16 MB, scores of two labels added up from bytes of leaf numbers without being written, leaves of "
    "several labels combined without their values; values of leaves looked up without a copy, the bags of scikit- "
    "learn drawn with one generator, nearly equal rows put together in the jackknife over members; votes on pairs of "
    "rows as counts of bits; nodes of scikit-learn's trees read in one pass without branches, each tree compared with "
    "the library right after it, labels of pure leaves read ahead, bags drawn by marks, strided blocks of pairs "
    "copied together, likelihoods of whole votes as products of small matrices, votes counted once. Without compiled "
    "code: rows in the order of the first tree's leaves (a seventh faster; with compiled code a tenth, which the "
    "order costs); sums, and ranks for the Brier score, of few rows and all members at once, leaves of several trees "
    "counted together (none of these is faster). For boosters the proof of the bags needs the leaves of rows in bag "
    "too, so the search cannot be limited to rows out of bag; of 2500 trees and 100 000 rows, without compiled code, "
    "leaves out of bag are kept up to 64 MB and the others read twice. By bits: AVX-512 and its count of bits (not "
    "faster), 512 rows at a time (a tenth faster, two thirds slower for 256 rows)."
)


class Limits(NamedTuple):
    """Targets of a ratio: with the walk, and without."""

    fast: float = np.inf
    plain: float = np.inf


def seconds(work: Work) -> float:
    """Measure the processor time of one call, which other processes hardly change."""
    start = time.process_time()
    work()
    return time.process_time() - start


def alternate(works: Mapping[str, Work], rounds: int) -> dict[str, Array]:
    """Time every piece of work once per round, after one round that does not count."""
    times = [[seconds(work) for work in works.values()] for _ in range(rounds + 1)]
    return dict(zip(works, np.array(times[1:]).T, strict=True))


def without_walk(work: Work) -> Work:
    """Return the same work, during which adapters find that nothing is compiled."""

    def plain() -> None:
        is_used = _kernel.is_used
        _kernel.is_used = lambda: False
        try:
            work()
        finally:
            _kernel.is_used = is_used

    return plain


def compare(measure: str, work: Work, own: Work, limits: Limits, options: Options) -> list[Claim]:
    """Compare work with the walk and without it with the library's own, in turns."""
    return judged(measure, {"fast": work, "plain": without_walk(work), OWN: own}, OWN, limits, options)


def judged(measure: str, works: dict[str, Work], own: str, limits: Limits, options: Options) -> list[Claim]:
    """Time work with the walk, without it, and by the library itself, in turns."""
    times = alternate(works, options.repetitions)
    claims = [
        ratio(f"{measure}, {name}", times[key], times[own], high)
        for key, name, high in (("fast", "with fast", limits.fast), ("plain", "without", limits.plain))
    ]
    return [Claim(**{**vars(claim), "tried": TRIED}) for claim in claims]


def share_of_fit(measure: str, work: Work, fit: float, options: Options) -> list[Claim]:
    """Compare work with the walk and without it with one fit."""
    times = alternate({"fast": work, "plain": without_walk(work)}, options.repetitions)
    return [
        Claim(f"{measure}, {name}", float(np.median(times[key])) / fit, high=high, tried=TRIED)
        for key, name, high in (("fast", "with fast", 0.05), ("plain", "without", 0.15))
    ]


def forest_section(options: Options) -> list[Claim]:
    """Time forests of scikit-learn: two labels against the out-of-bag score, many labels against predict_proba."""
    n_rows, n_trees = (300, 20) if options.smoke else (N_ROWS, N_TREES)
    X, y = make_classification(n_rows, N_FEATURES, n_informative=10, flip_y=0.05, random_state=options.seed)
    forest = RandomForestClassifier(n_trees, random_state=options.seed, n_jobs=1)
    fit = seconds(lambda: forest.fit(X, y))
    what = f"scikit-learn, {n_rows} rows, {n_trees} trees"
    score = own_score(forest, X, y)
    claims = [
        *compare(f"{what}: analyze / its own out-of-bag score", analysis(forest, X, y), score,
                 Limits(0.40, 1.0), options),
        *compare(f"{what}: all leaves / its own predict_proba", leaves_of(forest, X),
                 lambda: forest.predict_proba(X), Limits(), options),
        *share_of_fit(f"{what}: analyze / fit", analysis(forest, X, y), fit, options),
    ]  # fmt: skip
    n_labels, n_trees = (5, 10) if options.smoke else (MANY_LABELS, TREES_OF_MANY)
    X, y = make_classification(
        n_rows, N_FEATURES, n_informative=15, n_classes=n_labels, n_clusters_per_class=1, random_state=options.seed
    )
    forest = RandomForestClassifier(n_trees, random_state=options.seed, n_jobs=1).fit(X, y)
    what = f"scikit-learn, {n_rows} rows, {n_trees} trees, {n_labels} labels"
    many = compare(
        f"{what}: analyze / its own predict_proba", analysis(forest, X, y), lambda: forest.predict_proba(X),
        Limits(1.5, 3.0), options,
    )  # fmt: skip
    return [*claims, *many]


def booster_section(library: str, n_labels: int, limits: Limits, options: Options) -> list[Claim]:
    """Time a booster's forest against its own prediction, its fit, and for one row with members left out."""
    n_rows, n_trees = (300, 20) if options.smoke else BOOSTED[n_labels]
    X, y = sample(n_rows, n_labels, options.seed)
    model = unfitted(library, n_trees)
    fit = seconds(lambda: model.fit(X, y))
    what = f"{'LightGBM' if library == 'lightgbm' else 'XGBoost'}, {n_rows} rows, {n_trees} trees, {n_labels} labels"
    own = own_prediction(library, model)
    claims = compare(f"{what}: analyze / its own predict", analysis(model, X, y), lambda: own(X), limits, options)
    if n_labels > 2:
        return claims
    pruned: dict[str, DynamicPruningClassifier] = {}

    def prune() -> None:
        pruned["new"] = DynamicPruningClassifier(FrozenEstimator(model), rule="full").fit(X, y)

    def one_by_one(pruner: DynamicPruningClassifier) -> Work:
        return lambda: [pruner.predict(X[row : row + 1]) for row in range(ONE_ROW_CALLS)]

    prune()
    fast = one_by_one(pruned["new"])
    without_walk(prune)()
    single = {
        "fast": fast,
        "plain": one_by_one(pruned["new"]),
        OWN: lambda: [own(X[row : row + 1]) for row in range(ONE_ROW_CALLS)],
        CLASSIFIER: lambda: [model.predict(X[row : row + 1]) for row in range(ONE_ROW_CALLS)],
    }
    pruning = f"{what}: DynamicPruningClassifier, row by row"
    return [
        *claims,
        *compare(f"{what}: all leaves / its own predict", leaves_of(model, X), lambda: own(X), Limits(), options),
        *share_of_fit(f"{what}: analyze / fit", analysis(model, X, y), fit, options),
        *judged(f"{pruning} / the classifier's own predict", single, CLASSIFIER, Limits(1.0), options),
        *judged(f"{pruning} / the booster's own predict", single, OWN, Limits(1.0), options),
    ]


def analysis(model: Any, X: Array, y: Array) -> Work:
    """Return an analysis on one thread."""
    return lambda: ens_plugin.analyze(model, X, y, n_jobs=1)


def leaves_of(model: Any, X: Array) -> Work:
    """Return the reading of all outputs, with what the adapter does for it once."""

    def outputs() -> None:
        adapter = find_adapter(model)
        adapter.outputs(adapter.prepare(X))

    return outputs


def unfitted(library: str, n_trees: int) -> Any:
    """Return an untrained forest of a booster's library, one thread."""
    if library == "lightgbm":
        return lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=n_trees, subsample=SHARE, subsample_freq=1, colsample_bytree=0.5,
            random_state=0, verbose=-1, n_jobs=1,
        )  # fmt: skip
    return xgboost.XGBRFClassifier(
        n_estimators=n_trees, subsample=SHARE, colsample_bynode=0.5, learning_rate=1, random_state=7, n_jobs=1
    )


def own_prediction(library: str, model: Any) -> Callable[[Array], object]:
    """Return the library's own prediction on one thread; of XGBoost, on a fresh DMatrix."""
    if library == "lightgbm":
        return lambda rows: model.booster_.predict(rows, num_threads=1)
    booster = model.get_booster()
    booster.set_param({"nthread": 1})
    return lambda rows: booster.predict(xgboost.DMatrix(rows, nthread=1))


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.cost.walker", __doc__, 2, arguments)
    with threadpool_limits(limits=1, user_api="blas"):
        claims = [
            *forest_section(options),
            *booster_section("lightgbm", 2, Limits(0.6, 1.3), options),
            *booster_section("lightgbm", 5, Limits(0.8, 1.5), options),
            *booster_section("xgboost", 2, Limits(1.0, 3.0), options),
            *booster_section("xgboost", 5, Limits(1.2, 3.5), options),
        ]
    return conclude(
        "benchmarks.cost.walker",
        options,
        [
            "## The compiled search for leaves",
            __doc__ or "",
            "`with fast` is with the compiled part; one thread. All leaves: the outputs of all "
            "members for all rows, with the reading of the trees and the comparison with the library.",
        ],
        claims,
        [table(["compiled part", ""], [["", "yes" if _kernel.is_used() else "no"]])],
    )


if __name__ == "__main__":
    print(main())
