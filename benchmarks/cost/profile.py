"""Where an analysis spends its time, by library and shape; its cost in rows, trees and labels; its first call."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.cost.boosters import grown
from benchmarks.cost.first_analysis import FIRST_ROWS, FIRST_TREES, compiled_environment
from benchmarks.cost.stages import REST, STAGES, clocked
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

N_FEATURES = 20
EXPONENT = 1.05

TRIED_FIRST = (
    "what only other analyses need imported where it is used (128 modules in place of 198), classes within an analysis "
    "made as dataclasses without comparison, repr and freezing, the tables of the first curve computed for half of a "
    "symmetric grid and once for each size, entry points parsed only where there are any, versions read from the head "
    "of a distribution's metadata. Two fifths of it are still the import of these modules; a third is what a second "
    "analysis takes; a tenth is the search for libraries whose threads are limited, in which threadpoolctl resolves "
    "the path of each of 270 loaded libraries; the rest is the first curve."
)


@dataclass(frozen=True)
class Case:
    """A trained model with its rows and its own prediction.

    Attributes
    ----------
    name : str
    model : fitted ensemble
    features, target : ndarray
    predict : callable
        The library's own prediction of all rows, on one thread.
    """

    name: str
    model: Any
    features: Array
    target: Array
    predict: Callable[[], object]


def labelled(n_rows: int, n_labels: int, seed: int) -> tuple[Array, Array]:
    """Draw rows of labels that are clusters."""
    features, target = make_classification(
        n_rows, N_FEATURES, n_informative=12, n_classes=n_labels, n_clusters_per_class=1, flip_y=0.05,
        random_state=seed,
    )  # fmt: skip
    return features, target


def forest_case(n_labels: int, n_rows: int, n_trees: int, seed: int, leaf: int = 1) -> Case:
    """Train a forest of fully grown trees, or of trees with leaves of at least `leaf` rows."""
    features, target = labelled(n_rows, n_labels, seed)
    forest = RandomForestClassifier(n_trees, min_samples_leaf=leaf, random_state=seed, n_jobs=1).fit(features, target)
    leaves = f", leaves of {leaf} rows or more" if leaf > 1 else ""
    name = f"scikit-learn, {n_labels} labels{leaves}, {n_rows} x {n_trees}"
    return Case(name, forest, features, target, lambda: forest.predict_proba(features))


def regression_case(n_rows: int, n_trees: int, seed: int) -> Case:
    """Train a forest of regression trees."""
    features, target = make_regression(n_rows, N_FEATURES, n_informative=12, noise=10.0, random_state=seed)
    forest = RandomForestRegressor(n_trees, random_state=seed, n_jobs=1).fit(features, target)
    name = f"scikit-learn, regression, {n_rows} x {n_trees}"
    return Case(name, forest, features, target, lambda: forest.predict(features))


def booster_case(library: str, n_labels: int, n_rows: int, n_trees: int, seed: int) -> Case:
    """Train a forest of LightGBM or XGBoost."""
    features, target = labelled(n_rows, n_labels, seed)
    features = features.astype(np.float32)
    model = grown(library, features, target, n_trees)
    if library == "lightgbm":
        name, predict = "LightGBM", lambda: model.booster_.predict(features, num_threads=1)
    else:
        from xgboost import DMatrix

        model.set_param({"nthread": 1})
        name, predict = "XGBoost", lambda: model.predict(DMatrix(features, nthread=1))
    return Case(f"{name}, {n_labels} labels, {n_rows} x {n_trees}", model, features, target, predict)


def cases(options: Options) -> Sequence[Callable[[], Case]]:
    """Return functions that train the models, one after the other, so that one is in memory at a time."""
    seed = options.seed
    if options.smoke:
        return [
            lambda: forest_case(4, 300, 20, seed),
            lambda: regression_case(300, 20, seed),
            lambda: booster_case("lightgbm", 2, 300, 20, seed),
        ]
    return [
        lambda: forest_case(2, 10_000, 50, seed),
        lambda: forest_case(10, 10_000, 50, seed),
        lambda: forest_case(100, 5_000, 50, seed),
        lambda: forest_case(100, 3_000, 30, seed, leaf=3),
        lambda: forest_case(500, 3_000, 30, seed),
        lambda: regression_case(10_000, 50, seed),
        *(
            lambda library=library, n_labels=n_labels: booster_case(library, n_labels, 10_000, 50, seed)
            for library in ("lightgbm", "xgboost")
            for n_labels in (2, 5)
        ),
    ]


def processor_seconds(work: Callable[[], object]) -> float:
    """Measure the processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def profiled(case: Case, repetitions: int) -> tuple[dict[str, float], float]:
    """Return the processor time of each stage of an analysis, JSON and page, and the median of the whole over predict.

    Returns
    -------
    seconds : dict of str to float
        By stage, mean over repetitions; ``JSON`` and ``card with figures`` come after the analysis.
    over_predict : float
    """
    report = ens_plugin.analyze(case.model, case.features, case.target, n_jobs=1)
    case.predict()
    shown = {"JSON": report.to_json, "card with figures": report._repr_html_}
    found: dict[str, float] = {}
    ratios = []
    for _ in range(repetitions):
        own = processor_seconds(case.predict)
        with clocked() as clock:
            ens_plugin.analyze(case.model, case.features, case.target, n_jobs=1)
        ratios.append(sum(clock.seconds.values()) / own)
        seconds = {**clock.seconds, **{name: processor_seconds(work) for name, work in shown.items()}}
        for name, value in seconds.items():
            found[name] = found.get(name, 0.0) + value / repetitions
    return found, float(np.median(ratios))


def stage_rows(found: dict[str, dict[str, float]], ratios: dict[str, float]) -> list[list[str]]:
    """Return a line for each case: the analysis over predict, and the milliseconds of each stage."""
    stages = [*STAGES, REST, "JSON", "card with figures"]
    return [
        [name, f"{ratios[name]:.1f}", *(f"{1e3 * seconds.get(stage, 0.0):.0f}" for stage in stages)]
        for name, seconds in found.items()
    ]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the slope of the logarithm of the time in that of the size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _analysis_seconds(model: Any, features: Array, target: Array, repetitions: int) -> float:
    return min(
        processor_seconds(lambda: ens_plugin.analyze(model, features, target, n_jobs=1)) for _ in range(repetitions)
    )


def exponent_claims(options: Options) -> tuple[list[Claim], list[list[str]]]:
    """Fit the cost of an analysis in its rows, trees and labels over two decades each."""
    rows = [60, 300] if options.smoke else [500, 1_500, 5_000, 15_000, 50_000]
    trees = [10, 40] if options.smoke else [5, 15, 50, 150, 500]
    labels = [3, 5] if options.smoke else [3, 10, 30, 100, 300]

    def quick(n_rows: int, n_trees: int) -> tuple[Any, Array, Array]:
        features, target = labelled(n_rows, 2, options.seed)
        forest = ExtraTreesClassifier(
            n_trees, max_depth=8, max_features=1, bootstrap=True, random_state=options.seed, n_jobs=1
        )
        return forest.fit(features, target), features, target

    def of_labels(n_labels: int) -> tuple[Any, Array, Array]:
        case = forest_case(n_labels, 300 if options.smoke else 2_000, 30, options.seed)
        return case.model, case.features, case.target

    measured: dict[str, tuple[list[int], Callable[[int], tuple[Any, Array, Array]]]] = {
        "rows (30 trees of depth 8)": (rows, lambda size: quick(size, 30)),
        "trees (of depth 8, 2000 rows)": (trees, lambda size: quick(300 if options.smoke else 2_000, size)),
        "labels (30 fully grown trees, 2000 rows)": (labels, of_labels),
    }
    claims, lines = [], []
    for what, (sizes, trained) in measured.items():
        seconds = [_analysis_seconds(*trained(size), options.repetitions) for size in sizes]
        claims.append(Claim(f"exponent of the time in {what}", exponent(sizes, seconds), high=EXPONENT))
        for size, value in zip(sizes, seconds, strict=True):
            lines.append([what, str(size), f"{1e3 * value:.0f}"])
    return claims, lines


def first_claims(options: Options) -> list[Claim]:
    """Time the first analysis in processes of their own."""
    imports = "import sklearn.ensemble, sklearn.datasets; from benchmarks.cost.first_analysis import measure"
    call = f"{imports}; print(*measure())"
    command = [sys.executable, "-W", "ignore", "-c", call]
    found = []
    for _ in range(options.repetitions + 1):
        done = subprocess.run(command, env=compiled_environment(), check=True, capture_output=True, text=True)
        found.append([float(value) for value in done.stdout.split()])
    # The first process may have compiled the package.
    first, second = np.median(found[1:], axis=0)
    what = f"{FIRST_ROWS} rows, {FIRST_TREES} trees, beyond the imports of scikit-learn (ms)"
    return [
        Claim(f"first analysis in a process, {what}", float(first), high=50, digits=0, tried=TRIED_FIRST),
        Claim(f"second analysis in a process, {what}", float(second), digits=0),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.cost.profile", __doc__, 3, arguments, smoke=1)
    found, ratios = {}, {}
    for train in cases(options):
        case = train()
        found[case.name], ratios[case.name] = profiled(case, options.repetitions)
    growth, lines = exponent_claims(options)
    stages = [*STAGES, REST, "JSON", "card with figures"]
    rows = [
        [stage, *row] for stage, row in zip(["analyze / predict", *stages], _transposed(found, ratios), strict=True)
    ]
    return conclude(
        "benchmarks.cost.profile",
        options,
        [
            "## Profile",
            __doc__ or "",
            "Processor time on one thread; rows x trees. A stage is timed without the stages that it calls. Stages in "
            "milliseconds; compare them within a column.",
        ],
        [*growth, *first_claims(options)],
        [
            table(["stage (ms)", *map(str, range(1, len(found) + 1))], rows),
            "\n".join(f"- {place}: {name}" for place, name in enumerate(found, start=1)),
            table(["cost in", "size", "analyze (ms)"], lines),
        ],
    )


def _transposed(found: dict[str, dict[str, float]], ratios: dict[str, float]) -> list[list[str]]:
    return [list(line) for line in zip(*(row[1:] for row in stage_rows(found, ratios)), strict=True)]


if __name__ == "__main__":
    print(main())
