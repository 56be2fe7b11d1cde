"""Time of an analysis, as ratios inside one run: alternating, medians.

A forest of 200 fully grown trees on 20000 rows and 20 features; wall time, medians over repetitions, every round in
the same order. Compare the ratios, never the seconds of different runs. ens-plugin-walk is installed.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from joblib import parallel_config
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from threadpoolctl import threadpool_limits

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.analysis.evidence import tally_rows
from ens_plugin.core.error_curve import recommended_size
from ens_plugin.core.tally import LabelTally
from ens_plugin.papers.wrong_votes import binomial_curve, fit_mixture

Array = NDArray[Any]

N_ROWS, N_FEATURES, N_TREES, STEP = 20_000, 20, 200, 5
LABEL_TREES, N_LABELS = 100, 100
CURVE_ROWS = 100_000
# Of an analysis over the out-of-bag score, on one and on two threads.
FOR_ONE, FOR_TWO = 1.0, 0.6
CURVE_SIZES = np.arange(1, 2002, 2)


def seconds(work: Callable[[], object]) -> float:
    """Measure the wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def alternate(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Array]:
    """Time every piece of work once per round, after one round that does not count."""
    for work in works.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(seconds(work))
    return {name: np.array(found) for name, found in times.items()}


TRIED_OF_ANALYSIS = (
    "rows in the order of the first tree's leaves (a seventh faster); the bags drawn with one generator; nearly equal "
    "rows put together in the jackknife over members; strided blocks of pairs copied together; likelihoods of whole "
    "votes as products of small matrices; votes counted once; sums, and ranks for the Brier score, of few rows and all "
    "members at once (not faster); compiled code for leaves, bags, sums and votes (1.0 to 1.3 times as fast, and "
    "dropped). A second thread takes over half of reading leaves and drawing bags; fits and intervals are many short "
    "calls, which hold Python's lock."
)
TRIED_LABELS = (
    "votes counted by label once for a row instead of compared with every label for each member; the label of a "
    "row's other members searched only where one member can change it; errors by label from the tally of all rows; "
    "subsets of votes ranked by one maximum; each fit begun with a few EM steps, with a Hessian only where the density "
    "still moves. Next: the distributions of each label's rows together, because each takes longer in calls than in "
    "arithmetic."
)
TRIED = (
    "drawing the bags in threads, taking rows instead of indexing them, label codes instead of probabilities, plain "
    "threads instead of joblib's. Bags are drawn with "
    "one generator for each thread, because making one takes fifty times as long as seeding it."
)
TRIED_OF_FIT = (
    "variances of hard votes from counts, gamma quantiles only where the share falls below the wanted one, fits of "
    "all groups of rows from that of nearly equal ones. Next: sums over pairs of rows for the spread over seeds, and "
    "the mean posteriors of 200 drawn densities."
)


def ratio(measure: str, above: Array, below: Array, high: float = np.inf, tried: str = TRIED) -> Claim:
    """Compare two works round by round: the median ratio, and a robust standard error of it."""
    ratios = above / below
    spread = 1.2533 * 1.4826 * float(np.median(np.abs(ratios - np.median(ratios)))) / np.sqrt(ratios.size)
    return Claim(measure, float(np.median(ratios)), float(spread), high=high, tried=tried)


def tally_curve_and_size(forest: RandomForestClassifier, features: Array, y: Array, n_jobs: int) -> int | None:
    """Do what scikit-learn's out-of-bag score does, and the curve and the size besides; no intervals."""
    adapter = find_adapter(forest)
    prepared = adapter.prepare(features)
    with parallel_config(backend="threading", n_jobs=n_jobs):
        evidence = tally_rows(
            adapter,
            prepared,
            adapter.bags(features, prepared, y),
            np.searchsorted(forest.classes_, y),
            np.ones(y.size),
            rng=np.random.default_rng(0),
            progress=None,
        )
        tally = evidence.tally
        assert isinstance(tally, LabelTally)
        mixture = fit_mixture(tally.wrong_members, tally.trials)
        mixture.error(CURVE_SIZES)
        return recommended_size(mixture.support, mixture.weights)


def own_score(forest: RandomForestClassifier, features: Array, y: Array) -> Callable[[], object]:
    """Return scikit-learn's own out-of-bag score of a fitted forest, ready to call."""
    scored = copy.copy(forest).set_params(warm_start=True, oob_score=True)

    def score() -> None:
        # A warm start that has nothing to grow computes the score if there is none, and nothing else.
        if hasattr(scored, "oob_score_"):
            del scored.oob_score_
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Warm-start fitting without increasing", category=UserWarning)
            scored.fit(features, y)

    return score


def warm_start_loop(features: Array, y: Array, n_trees: int) -> list[float]:
    """Run the out-of-bag loop of scikit-learn's documentation: grow by five trees, score, repeat."""
    forest = RandomForestClassifier(warm_start=True, oob_score=True, random_state=0)
    errors = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Some inputs do not have OOB scores", category=UserWarning)
        for size in range(STEP, n_trees + 1, STEP):
            forest.set_params(n_estimators=size).fit(features, y)
            errors.append(1.0 - forest.oob_score_)
    return errors


def forest_section(options: Options) -> tuple[list[Claim], list[Sequence[str]]]:
    """Time the analysis of one fitted forest against scikit-learn."""
    n_rows, n_trees = (1_000, 40) if options.smoke else (N_ROWS, N_TREES)
    features, y = make_classification(n_rows, N_FEATURES, n_informative=10, flip_y=0.05, random_state=options.seed)
    forest = RandomForestClassifier(n_trees, random_state=options.seed, n_jobs=1)
    fit = seconds(lambda: forest.fit(features, y))
    own = own_score(forest, features, y)
    times = alternate(
        {
            "scikit-learn's out-of-bag score": own,
            "tally, curve and size, 1 thread": lambda: tally_curve_and_size(forest, features, y, 1),
            "tally, curve and size, 2 threads": lambda: tally_curve_and_size(forest, features, y, 2),
            "analyze, 1 thread": lambda: ens_plugin.analyze(forest, features, y, n_jobs=1),
            "analyze, 2 threads": lambda: ens_plugin.analyze(forest, features, y, n_jobs=2),
        },
        options.repetitions,
    )
    loop = seconds(lambda: warm_start_loop(features, y, n_trees))
    score, one, two, whole, whole_two = times.values()
    analysis = float(np.median(whole))
    against = "/ scikit-learn's own out-of-bag score"
    claims = [
        ratio(f"tally, curve and size, 1 thread {against}", one, score, 1.0),
        ratio(f"tally, curve and size, 2 threads {against}", two, score, 0.6),
        ratio(f"analyze with all intervals, 1 thread {against}", whole, score, FOR_ONE, TRIED_OF_ANALYSIS),
        ratio(f"analyze with all intervals, 2 threads {against}", whole_two, score, FOR_TWO, TRIED_OF_ANALYSIS),
        Claim(f"scikit-learn's warm-start loop (step {STEP}) / analyze", loop / analysis, low=20, digits=0),
        Claim("the loop without the growing / analyze", (loop - fit) / analysis, digits=0),
        Claim("analyze, 1 thread / fit (%)", 100 * analysis / fit, high=5, tried=TRIED_OF_FIT),
    ]
    rows = [[name, f"{np.median(found):.2f}"] for name, found in times.items()]
    return claims, [*rows, ["fit, 1 thread", f"{fit:.1f}"], [f"warm-start loop, step {STEP}", f"{loop:.1f}"]]


def label_section(options: Options) -> tuple[list[Claim], list[Sequence[str]]]:
    """Time the analysis of a forest with many labels against its own probabilities."""
    n_rows, n_trees, n_labels = (1_000, 20, 20) if options.smoke else (N_ROWS, LABEL_TREES, N_LABELS)
    features, y = make_classification(
        n_rows, N_FEATURES, n_informative=12, n_classes=n_labels, n_clusters_per_class=1, flip_y=0.05,
        random_state=options.seed,
    )  # fmt: skip
    forest = RandomForestClassifier(n_trees, random_state=options.seed, n_jobs=1).fit(features, y)
    what = f"{n_labels} labels, {n_rows} rows, {n_trees} trees"
    times = alternate(
        {
            f"predict_proba, {what}": lambda: forest.predict_proba(features),
            f"analyze, {what}": lambda: ens_plugin.analyze(forest, features, y, n_jobs=1),
        },
        options.repetitions,
    )
    own, analysis = times.values()
    claim = ratio(f"{what}: analyze / its own predict_proba, 1 thread", analysis, own, 3.0, TRIED_LABELS)
    return [claim], [[name, f"{np.median(found):.2f}"] for name, found in times.items()]


def curve_section(options: Options) -> tuple[list[Claim], list[Sequence[str]]]:
    """Time the arithmetic alone: all odd sizes to 2001 from the counts of many rows."""
    rng = np.random.default_rng(options.seed)
    n_rows = 2_000 if options.smoke else CURVE_ROWS
    trials = rng.binomial(N_TREES, 0.368, n_rows)
    wrong = rng.binomial(trials, rng.beta(0.5, 2.0, n_rows))
    mixture = fit_mixture(wrong, trials)
    times = alternate(
        {
            "plug-in curve from the counts": lambda: binomial_curve(wrong, trials, CURVE_SIZES),
            "default curve from the fitted distribution": lambda: mixture.error(CURVE_SIZES),
            "fit of the distribution": lambda: fit_mixture(wrong, trials),
        },
        options.repetitions,
    )
    what = f"{n_rows} rows, all odd sizes to 2001"
    claims = []
    for name, high in zip(times, (50.0, 50.0, np.inf), strict=True):
        found = 1e3 * times[name]
        spread = float(found.std(ddof=1)) / np.sqrt(found.size)
        claims.append(Claim(f"{name}, {what} (ms)", float(np.median(found)), float(spread), high=high, digits=1))
    return claims, []


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 7, arguments)
    # As in analyze(): a BLAS that competes with other threads for two cores is ten times slower than one thread.
    with threadpool_limits(limits=1, user_api="blas"):
        (claims, rows), (curve_claims, _) = forest_section(options), curve_section(options)
        label_claims, label_rows = label_section(options)
    return conclude(
        __name__,
        options,
        [*claims, *label_claims, *curve_claims],
        [table(["seconds, median", "wall time"], [*rows, *label_rows])],
    )
