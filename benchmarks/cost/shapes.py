"""What an analysis costs beside the fit of its own model, by shape: labels, leaves, depth, rows, trees and metrics.

Processor time on one thread; the fit is one of one thread, and is timed once. The last column is the analysis over
what it is to cost at most: 10 % of the fit, or 0.1 s, whichever is larger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]
Rows = Callable[[int, int, int], "tuple[Array, Array]"]

# An analysis is to cost at most a tenth of the fit, or .1 s, whichever is larger.
SHARE, SECONDS = 0.1, 0.1
N_FEATURES = 20
METRICS = ("accuracy", "balanced_accuracy", "f1", "matthews_corrcoef", "roc_auc", "average_precision", "neg_log_loss")
TRIED = (
    "metrics of labels by a formula of the confusion matrix, subsets of all sizes counted together, rows alike "
    "with one posterior, errors by label and sizes nobody asked for only where they are read; a third of the "
    "subsets: the curve moved by more than its stated error. Since the compiled part went, boosters of ten labels "
    "take two to four times as long: LightGBM finds the leaves of all rows in all of its trees, and reads its "
    "document twice. Next: a proof of the bags by as many trees as make chance agreement impossible."
)


class Shape(NamedTuple):
    """Rows, and what trains a model on them."""

    name: str
    rows: Callable[[], tuple[Array, Array]]
    train: Callable[[Array, Array], Any]


def labelled(n_rows: int, n_labels: int, seed: int) -> tuple[Array, Array]:
    """Draw rows of labels that are clusters."""
    features, target = make_classification(
        n_rows, N_FEATURES, n_informative=12, n_classes=n_labels, n_clusters_per_class=1, flip_y=0.05,
        random_state=seed,
    )  # fmt: skip
    return features, target


def grown(library: str, features: Array, y: Array, n_trees: int) -> Any:
    """Train a forest of one library, `n_trees` members."""
    n_labels = int(y.max()) + 1
    if library == "lightgbm":
        return lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=n_trees, subsample=0.6, subsample_freq=1, colsample_bytree=0.5,
            random_state=0, verbose=-1,
        ).fit(features, y)  # fmt: skip
    objective: dict[str, Any] = {"objective": "binary:logistic"}
    if n_labels > 2:
        objective = {"objective": "multi:softprob", "num_class": n_labels}
    options = {"num_parallel_tree": n_trees, "subsample": 0.6, "colsample_bynode": 0.5, "learning_rate": 1, "seed": 7}
    return xgboost.train({**options, **objective}, xgboost.DMatrix(features, y), num_boost_round=1)


def processor_seconds(work: Callable[[], object]) -> float:
    """Measure the processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def single(draw: Rows, n_rows: int, n_labels: int, seed: int) -> tuple[Array, Array]:
    """Draw rows in the type that boosters take."""
    features, y = draw(n_rows, n_labels, seed)
    return features.astype(np.float32), y


def ordered(n_rows: int, n_labels: int, seed: int) -> tuple[Array, Array]:
    """Draw rows of labels that are intervals of a noisy sum."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n_rows, N_FEATURES))
    score = features[:, :5].sum(axis=1) + rng.normal(size=n_rows)
    return features, np.searchsorted(np.quantile(score, np.arange(1, n_labels) / n_labels), score)


def values(n_rows: int, seed: int) -> tuple[Array, Array]:
    """Draw rows of a target that is a number."""
    features, y = make_regression(n_rows, N_FEATURES, n_informative=12, noise=10.0, random_state=seed)
    return features, y


def shapes(options: Options) -> Iterator[Shape]:
    """Yield the shapes; those of a smoke run are small."""
    seed, small = options.seed, 20 if options.smoke else 1

    def forest(n_trees: int, **parameters: Any) -> Callable[[Array, Array], Any]:
        empty = RandomForestClassifier(max(n_trees // small, 10), random_state=seed, n_jobs=1, **parameters)
        train: Callable[[Array, Array], Any] = empty.fit
        return train

    def of_labels(n_rows: int, n_labels: int, n_trees: int, draw: Rows = labelled, **parameters: Any) -> Shape:
        kind = "ordered" if draw is ordered else "clustered"
        settings = "".join(f", {name} {value}" for name, value in parameters.items())
        name = f"{n_rows} x {n_trees}, {n_labels} {kind} labels{settings}"
        few = min(n_labels, 5) if options.smoke else n_labels
        return Shape(name, partial(draw, max(n_rows // small, 300), few, seed), forest(n_trees, **parameters))

    yield of_labels(20_000, 2, 200)
    yield of_labels(5_000, 2, 200, min_samples_leaf=5)
    yield of_labels(5_000, 2, 200, max_depth=3)
    for n_labels in (2, 3, 10):
        yield of_labels(1_000, n_labels, 100)
    for draw in (ordered, labelled):
        for leaf in (1, 5):
            yield of_labels(8_000, 10, 60, draw, min_samples_leaf=leaf)
    for leaf in (1, 5):
        yield of_labels(8_000, 100, 60, min_samples_leaf=leaf)
    yield of_labels(20_000, 100, 100, min_samples_leaf=5)
    for n_rows in (5_000, 20_000):
        train = RandomForestRegressor(200 // small, random_state=seed, n_jobs=1).fit
        yield Shape(f"{n_rows} x 200, values", partial(values, n_rows // small, seed), train)
    for library, shown in (("lightgbm", "LightGBM"), ("xgboost", "XGBoost")):
        for n_labels in (2, 10):
            few = min(n_labels, 5) if options.smoke else n_labels
            draw_rows = partial(single, labelled, 20_000 // small, few, seed)
            name = f"20000 x 200, {n_labels} labels, {shown}"
            yield Shape(name, draw_rows, partial(grown, library, n_trees=200 // small))


def measured(shape: Shape, repetitions: int) -> tuple[float, float]:
    """Return the processor time of the fit, and the median one of an analysis."""
    features, y = shape.rows()
    start = time.process_time()
    model = shape.train(features, y)
    fit = time.process_time() - start

    def analysis() -> object:
        return ens_plugin.analyze(model, features, y, n_jobs=1)

    analysis()
    return fit, float(np.median([processor_seconds(analysis) for _ in range(repetitions)]))


def metric_rows(options: Options) -> list[list[str]]:
    """Return a line for each metric: its analysis over that without a metric, on the same model."""
    n_rows, n_trees = (300, 20) if options.smoke else (1_000, 100)
    features, y = labelled(n_rows, 2, options.seed)
    forest = RandomForestClassifier(n_trees, random_state=options.seed, n_jobs=1).fit(features, y)

    def analysis(**arguments: Any) -> float:
        return processor_seconds(lambda: ens_plugin.analyze(forest, features, y, n_jobs=1, **arguments))

    lines = []
    for metric in METRICS:
        analysis(metric=metric)
        ratios = [analysis(metric=metric) / analysis() for _ in range(options.repetitions)]
        lines.append([metric, f"{np.median(ratios):.1f}"])
    return lines


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 3, arguments, smoke=1)
    lines, over = [], []
    for shape in shapes(options):
        fit, seconds = measured(shape, options.repetitions)
        allowed = max(SHARE * fit, SECONDS)
        over.append(seconds > allowed)
        lines.append([shape.name, f"{fit:.2f}", f"{seconds:.2f}", f"{seconds / fit:.2f}", f"{seconds / allowed:.1f}"])
    share = sum(over) / len(over)
    return conclude(
        __name__,
        options,
        [
            Claim(
                f"share of the shapes that cost more than {100 * SHARE:g} % of the fit and {SECONDS:g} s",
                share,
                high=0.0,
                tried=TRIED,
            )
        ],
        [
            table(["shape (rows x trees)", "fit (s)", "analysis (s)", "analysis / fit", "analysis / allowed"], lines),
            table(["metric, 1000 x 100", "analysis with it / without"], metric_rows(options)),
        ],
    )
