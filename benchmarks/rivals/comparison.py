"""Other tools that show how the error depends on the number of trees, or how many are enough, on the same problems.

Problems: banana, magic, phoneme, satimage, spambase, texture, 500 rows of each, drawn under seeds 0 to 3. Each tool
is compared with 2000 trees of its own library, grown from another seed on the same rows: on the same rows (out of
bag, so many trees for each row) and on fresh rows. Where a tool has a curve and no rule, the size is the first from
which on its curve stays within 1 % of its last value. rf-plateau-hpo keeps the default forest and chooses the number
of trees alone, in 10 trials. mlxtend has a quarter of the training rows as its test set and 5 rounds (its default is
200). ranger has no curve: one forest for each of the sizes 10, 20, 50, 100, 200, 500. Time: 2000 rows, 20 features,
200 trees, processor time, one thread; randomForest cannot leave its curve out.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.rivals import tools
from benchmarks.rivals.tools import Answer, Rows, Sizes, missing
from benchmarks.rivals.truth import EXCESS, Members, Truth, truth
from benchmarks.shared.keel import keel_rows, missing_keel
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import FORMULAS
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

# No other script uses these data, and nothing here was built with them.
PROBLEMS = ("banana", "magic", "phoneme", "satimage", "spambase", "texture")
WITHOUT_DATA = ("twonorm",)
TRAINING_ROWS, FRESH_ROWS = 500, 1200
SIZES = Sizes((10, 50, 500), (10, 20, 50, 100, 200, 500), 2000)
SMOKE_SIZES = Sizes((5, 10, 20), (5, 10, 20), 120)
TIMED_ROWS, TIMED_TREES = 2_000, 200
CRITERIA = {"agreement": "99 % agreement", "error": "1 % of the error"}
R_PACKAGES = ("ranger", "randomForest")
NEVER_RUN = {
    "H2O": "the size that its forests need cannot be found as for the others, from the predictions of single trees",
    "optRF": "it is on CRAN only, which was not reachable, and not among Debian's packages",
}


class Outcome(NamedTuple):
    """What one tool found on one problem under one seed, and what is true."""

    answer: Answer
    truth: Truth


def rows_of(problem: str, seed: int, smoke: bool) -> Rows:
    """Draw the rows of a problem, without replacement."""
    n_rows, n_fresh = (80, 200) if smoke else (TRAINING_ROWS, FRESH_ROWS)
    rng = np.random.default_rng(seed)
    if problem in FORMULAS:
        features, labels = FORMULAS[problem].sample(n_rows + n_fresh, rng)
    else:
        features, labels = keel_rows(problem)
        drawn = rng.permutation(len(labels))[: n_rows + n_fresh]
        features, labels = features[drawn], labels[drawn]
    return Rows(features[:n_rows], labels[:n_rows], features[n_rows:], labels[n_rows:])


def outcomes(problem: str, seed: int, sizes: Sizes, libraries: Sequence[str], *, smoke: bool) -> dict[str, Outcome]:
    """Run all tools on one problem, each against many trees of its own library."""
    rows = rows_of(problem, seed, smoke)
    answers: dict[str, tuple[str, Answer]] = {}
    grown: dict[str, Callable[[], Members]] = {
        "scikit-learn": lambda: tools.sklearn_members(rows, sizes, seed),
        "YDF": lambda: tools.ydf_members(rows, sizes, seed),
    }
    for name, (library, run) in tools.python_tools(sizes).items():
        if name.startswith(("ens_plugin", "scikit-learn")) or name in libraries:
            answers[name] = (library, run(rows, sizes, seed))
    truths = {
        library: truth(grown[library](), rows.labels, rows.fresh_labels, sizes.compared, seed)
        for library in {library for library, _ in answers.values()}
    }
    for package in R_PACKAGES:
        if package in libraries:
            answer, members = _of_r(package, rows, sizes, seed)
            answers[package] = (package, answer)
            truths[package] = truth(members, rows.labels, rows.fresh_labels, sizes.compared, seed)
    return {name: Outcome(answer, truths[library]) for name, (library, answer) in answers.items()}


def _of_r(package: str, rows: Rows, sizes: Sizes, seed: int) -> tuple[Answer, Members]:
    every = package == "randomForest"
    curve_sizes = tuple(range(sizes.compared[0], sizes.largest + 1, sizes.compared[0])) if every else sizes.grid
    curve, members, _ = tools.r_run(package, rows, sizes.all_trees, curve_sizes, seed)
    assert members is not None
    return Answer(curve, tools.by_plateau(curve), sizes.largest if every else sum(sizes.grid)), members


def curve_cells(found: Sequence[Outcome], size: int, which: str) -> str:
    """Return bias and root mean squared error of a curve at one size, in points."""
    errors = [
        100.0 * (each.answer.curve[size] - known[size])
        for each in found
        if (known := getattr(each.truth, which)) is not None and size in each.answer.curve
    ]
    return f"{np.mean(errors):+.1f} ({math.sqrt(np.mean(np.square(errors))):.1f})" if errors else "-"


def off(found: Sequence[Outcome], criterion: str) -> float | None:
    """Return the mean distance of the recommended size from the needed one, as an absolute logarithm to base 2."""
    distances = [
        abs(math.log2(size / each.truth.needed[criterion]))
        for each in found
        if (size := each.answer.sizes.get(criterion)) is not None
    ]
    return float(np.mean(distances)) if distances else None


def recommended(found: Sequence[Outcome]) -> list[tuple[float, float]]:
    """Return the sizes that a tool recommends by default, and the excess of their errors over infinitely many trees'.

    The excess is in percent; this package's default is the size for accuracy and probabilities both.
    """
    pairs = []
    for each in found:
        sizes = each.answer.sizes
        size = sizes.get("default", sizes.get("error"))
        if size is not None:
            pairs.append((size, 100.0 * EXCESS * each.truth.needed["error"] / size))
    return pairs


def recommended_cells(found: Sequence[Outcome]) -> list[str]:
    """Return the median size that is recommended by default, how many are, and their mean excess."""
    pairs = recommended(found)
    if not pairs:
        return ["-", "-"]
    sizes, above = np.transpose(pairs)
    return [f"{np.median(sizes):.0f} ({len(pairs)} of {len(found)})", f"{above.mean():.1f}"]


def size_cell(found: Sequence[Outcome], criterion: str) -> str:
    """Return the medians of the size recommended and of the size needed there, and how many are recommended."""
    pairs = [
        (size, each.truth.needed[criterion]) for each in found if (size := each.answer.sizes.get(criterion)) is not None
    ]
    if not pairs:
        return "-"
    size, needed = np.median(pairs, axis=0)
    return f"{size:.0f} / {needed:.0f} ({len(pairs)} of {len(found)})"


def seconds(work: Callable[[], object]) -> float:
    """Measure the processor time of one call, which other work on the machine does not stretch."""
    start = time.process_time()
    work()
    return time.process_time() - start


def times(options: Options, libraries: Sequence[str]) -> dict[str, float]:
    """Return the processor time of each tool besides one fit, over that of the fit; medians of three rounds."""
    n_rows, n_trees = (300, 20) if options.smoke else (TIMED_ROWS, TIMED_TREES)
    features, labels = make_classification(n_rows, 20, n_informative=10, flip_y=0.05, random_state=options.seed)
    rows = Rows(features, labels, features[:10], labels[:10])
    sizes = Sizes((5, 10, n_trees), tuple(size for size in SIZES.grid if size <= n_trees), n_trees)
    forest = RandomForestClassifier(n_trees, random_state=options.seed)
    rounds = [_timed_round(forest, rows, sizes, options.seed, libraries) for _ in range(1 if options.smoke else 3)]
    found = {name: float(np.median([each[name] for each in rounds])) for name in rounds[0]}
    if "ranger" in libraries:
        _, _, measured = tools.r_run("ranger", rows, n_trees, (n_trees,), options.seed)
        assert measured is not None
        found["ranger"] = float(np.median(measured[:, 1] / measured[:, 0])) - 1.0
    return found


def _timed_round(
    forest: RandomForestClassifier, rows: Rows, sizes: Sizes, seed: int, libraries: Sequence[str]
) -> dict[str, float]:
    fit = seconds(lambda: forest.fit(rows.features, rows.labels))
    analysis = seconds(lambda: ens_plugin.analyze(forest, rows.features, rows.labels, n_jobs=1))
    found = {
        f"ens_plugin, from {SIZES.largest} trees": analysis / fit,
        "scikit-learn's warm-start loop": seconds(lambda: tools.loop(rows, sizes, seed)) / fit - 1.0,
        f"scikit-learn's validation curve, {tools.FOLDS} folds": seconds(lambda: tools.folds(rows, sizes, seed)) / fit,
    }
    if "YDF" in libraries:
        train = partial(tools.ydf_model, rows.features, rows.labels, sizes.largest, seed)
        plain, logged = seconds(partial(train, curve=False)), seconds(partial(train, curve=True))
        found["YDF"] = logged / plain - 1.0
    return found


def claims_of(found: Mapping[str, Sequence[Outcome]], sizes: Sizes) -> list[Claim]:
    """Return the targets for this package."""
    few, many = (f"ens_plugin, from {size} trees" for size in sizes.compared[1:])
    # On fresh rows, the luck of which rows were drawn hides a bias of some tenths.
    biases = [
        100.0
        * abs(np.mean([each.answer.curve[size] - same[size] for each in found[many] if (same := each.truth.same)]))
        for size in sizes.compared
    ]
    sizes_off = {name: off(found[name], "agreement") for name in (few, many)}
    return [
        *(
            Claim(f"{name}: size for 99 % agreement, mean abs(log2) from the size needed", distance, high=0.5)
            for name, distance in sizes_off.items()
            if distance is not None
        ),
        Claim(f"{many}: largest absolute bias of the curve on the same rows (points)", float(max(biases)), high=0.3),
    ]


def tables_of(found: Mapping[str, Sequence[Outcome]], spent: Mapping[str, float], sizes: Sizes) -> list[str]:
    """Return the table of curves and the table of sizes, trees and time."""
    curves = [
        [name, *(curve_cells(each, size, which) for which in ("same", "fresh") for size in sizes.compared)]
        for name, each in found.items()
    ]
    heads = [f"{which} rows, {size} trees" for which in ("same", "fresh") for size in sizes.compared]
    needs = []
    for name, each in found.items():
        distances = [off(each, criterion) for criterion in CRITERIA]
        needs.append(
            [
                name,
                *(size_cell(each, criterion) for criterion in CRITERIA),
                *("-" if distance is None else f"{distance:.2f}" for distance in distances),
                *recommended_cells(each),
                f"{np.median([one.answer.n_trees for one in each]):.0f}",
                f"{spent[name]:.2f}" if name in spent else "-",
            ]
        )
    return [
        "Bias of the curve, with its root mean squared error in brackets, in points of error:",
        table(["tool", *heads], curves),
        "Median size recommended / needed where there is one, mean abs(log2) of their ratio, size recommended by "
        "default (for probabilities, or by the tool's one rule), how far its error is above that of infinitely many "
        "trees (mean), trees trained, time besides one fit / fit:",
        table(
            [
                "tool",
                *CRITERIA.values(),
                *(f"{name}: abs(log2)" for name in CRITERIA.values()),
                "by default",
                "its excess (%)",
                "trees trained",
                "time / fit",
            ],
            needs,
        ),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 6, arguments)
    without_data = missing_keel()
    problems = WITHOUT_DATA if options.smoke or without_data else PROBLEMS
    sizes = SMOKE_SIZES if options.smoke else SIZES
    reasons = {name: missing(name) for name in ("mlxtend", "rf-plateau-hpo", "YDF", *R_PACKAGES)}
    libraries = [name for name, reason in reasons.items() if reason is None]
    # A run of twenty minutes that is stopped goes on where it was.
    memory = joblib.Memory(options.cache / "rivals", verbose=0)
    kept = memory.cache(outcomes)
    found: dict[str, list[Outcome]] = defaultdict(list)
    for repetition in range(options.repetitions):
        for problem in problems:
            for name, outcome in kept(
                problem, options.seed + repetition, sizes, libraries, smoke=options.smoke
            ).items():
                found[name].append(outcome)
    reasons = {**reasons, **NEVER_RUN, "the real data": without_data}
    left_out = "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason is not None)
    return conclude(
        __name__, options, claims_of(found, sizes), tables_of(found, times(options, libraries), sizes), left_out
    )
