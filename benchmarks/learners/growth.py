"""Ensembles grown to the size they need, against a forest of 5000: one shot, Fig. 3 of 2013, BAN, and fixed sizes.

Random forests on the same training rows, wanted agreement 99%; 2000 fresh test rows, of breast cancer and digits the
half that was not trained on. The reference of 5000 trees has another seed, so T trees differ from it by sqrt(1 +
T/5000) times what they do from infinitely many. `one shot`: `ens_plugin.grow`, a probe of 50 trees; `Fig. 3`: the
same with `method="figure3"`, from 100 trees; both on the deconvolved estimate (the paper's plug-in is in section
Paper 2013). Their seconds include the estimates. BAN: reference [7] of 2013; its seconds are those of training alone,
in proportion to the forest of 1000, from which its path comes. The probe of 50 was kept on other data (noisy
logistic, hard/easy mixture, Breiman's ringnorm, wine), where a probe of 100 gave the same disagreement within the
noise.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from tqdm import tqdm

from benchmarks.shared.forests import Plan, Record, kept, leaf_values, out_of_bag
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import FORMULAS
from benchmarks.shared.results import Claim, conclude, mean_and_se
from ens_plugin.errors import NotConvergedWarning
from ens_plugin.papers import ensemble_size_2013
from ens_plugin.sizing.grow import PROBE_SIZE, grow

FloatArray = NDArray[np.float64]
Array = NDArray[Any]

CONFIDENCE = 0.99
REFERENCE_TREES, FIXED_SIZES, BAN_BATCH = 5000, (100, 1000), 20
TRAINING_ROWS = {"twonorm": 300, "ringnorm": 300, "circle": 300, "spiral": 1000, "breast cancer": 284, "digits": 898}
TEST_ROWS = 2000
GROWN = ("one_shot", "iterative")
RULES = (*GROWN, "BAN", *(str(size) for size in FIXED_SIZES))
NAMES = {"one_shot": "one shot", "iterative": "Fig. 3", "BAN": "BAN", "100": "100 trees", "1000": "1000 trees"}


class Found(NamedTuple):
    """What one rule gave, one entry per repetition; percentages of the test rows, members, seconds."""

    disagreement: FloatArray
    error: FloatArray
    kept: FloatArray
    trained: FloatArray
    seconds: FloatArray


def reference_labels(plan: Plan) -> Record:
    """Labels of the large forest, which take most of the time and do not depend on this package."""
    features, y, test, _ = split(plan)
    forest = RandomForestClassifier(plan.n_trees, random_state=plan.forest_seed() + 1).fit(features, y)
    return {"labels": forest.predict(test)}


def compare(cache: Path, plan: Plan) -> Record:
    """Train by every rule on the same rows, and compare with the reference on the same test rows."""
    features, y, test, test_y = split(plan)
    seed = plan.forest_seed()
    reference = kept(cache, "reference labels", plan, reference_labels)["labels"]

    def measured(model: Any, size: int, trained: int, seconds: float) -> Array:
        labels = model.predict(test)
        shares = 100.0 * np.mean(labels != reference), 100.0 * np.mean(labels != test_y)
        return np.array([*shares, size, trained, seconds])

    record = {"reference": np.array(100.0 * np.mean(reference != test_y))}
    for method in GROWN:
        begun = time.perf_counter()
        model, trained = grown(method, features, y, seed)
        record[method] = measured(model, len(model.estimators_), trained, time.perf_counter() - begun)
    for size in FIXED_SIZES:
        begun = time.perf_counter()
        forest = RandomForestClassifier(size, random_state=seed).fit(features, y)
        seconds = time.perf_counter() - begun
        record[str(size)] = measured(forest, size, size, seconds)
    chosen = ensemble_size_2013.ban_size(out_of_bag_path(forest, features, y)) or FIXED_SIZES[-1]
    trained = (chosen + BAN_BATCH - 1) // BAN_BATCH * BAN_BATCH + BAN_BATCH
    small = RandomForestClassifier(chosen, random_state=seed).fit(features, y)
    record["BAN"] = measured(small, chosen, trained, seconds * trained / FIXED_SIZES[-1])
    return record


def split(plan: Plan) -> tuple[Array, Array, Array, Array]:
    """Training rows and test rows; of real data, the rows left."""
    if plan.problem in FORMULAS:
        features, y, rng = plan.sample()
        return features, y, *FORMULAS[plan.problem].sample(plan.fresh_rows, rng)
    features, y, _ = plan._replace(n_rows=10**6).sample()
    return features[: plan.n_rows], y[: plan.n_rows], features[plan.n_rows :], y[plan.n_rows :]


def grown(method: str, features: Array, y: Array, seed: int) -> tuple[Any, int]:
    """Train a forest by one of the two algorithms, and return it with the number of trees trained."""
    forest = RandomForestClassifier(random_state=seed)
    with warnings.catch_warnings():
        # Stopped at the largest size: shows in the sizes.
        warnings.simplefilter("ignore", NotConvergedWarning)
        if method == "iterative":
            model, history = ensemble_size_2013.grow(forest, features, y, confidence=CONFIDENCE)
            return model, max(history)
        growth = grow(forest, features, y, criterion="agreement", tolerance=1.0 - CONFIDENCE)
        return growth.model, growth.trained_members


def out_of_bag_path(forest: RandomForestClassifier, features: Array, y: Array) -> FloatArray:
    """Error of each row's out-of-bag votes after 1, 2, ... trees; a row without votes counts as wrong by chance."""
    rows, is_oob = features.astype(np.float32), out_of_bag(forest, y.size)
    n_labels = forest.n_classes_
    votes, path = np.zeros((y.size, n_labels)), np.empty(len(forest.estimators_))
    codes = np.searchsorted(forest.classes_, y)
    for member, tree in enumerate(forest.estimators_):
        free = np.flatnonzero(is_oob[member])
        votes[free, leaf_values(tree, rows[free]).argmax(axis=1)] += 1
        wrong = votes.argmax(axis=1) != codes
        path[member] = np.mean(np.where(votes.any(axis=1), wrong, 1.0 - 1.0 / n_labels))
    return path


def found_by(records: Sequence[Record], rule: str) -> Found:
    return Found(*np.array([record[rule] for record in records]).T)


def mean_over_sets(by_set: Sequence[FloatArray]) -> tuple[float, float]:
    """Mean of the sets' means, and its standard error over repetitions."""
    means, errors = zip(*map(mean_and_se, by_set), strict=True)
    return float(np.mean(means)), float(np.sqrt(np.sum(np.square(errors))) / len(errors))


TRIED = "nothing: the size is the one that analyze() recommends, and the rule has nothing to tune but the probe."


def claims(results: Mapping[str, Sequence[Record]]) -> list[Claim]:
    """List the targets."""
    found = {rule: [found_by(records, rule) for records in results.values()] for rule in RULES}
    made = []
    for method in GROWN:
        value, se = mean_over_sets([one.disagreement for one in found[method]])
        measure = f"{NAMES[method]}: disagreement with {REFERENCE_TREES} trees, mean over sets (%)"
        made.append(Claim(measure, value, se, low=0.7, high=1.3, tried=TRIED))
    pairs = list(zip(found["one_shot"], found["iterative"], strict=True))
    value, se = mean_over_sets([once.disagreement - often.disagreement for once, often in pairs])
    made.append(
        Claim("one shot less Fig. 3: disagreement, mean over sets (%)", value, se, low=-0.2, high=0.2, tried=TRIED)
    )
    ratios = [one.trained / one.kept for one in found["one_shot"]]
    larger = [ratio[one.kept > PROBE_SIZE] for ratio, one in zip(ratios, found["one_shot"], strict=True)]
    worst = float(np.concatenate(larger).max(initial=1.0))
    made.append(Claim("one shot: members trained over kept, where more than the probe, largest", worst, high=1.1))
    value, se = mean_over_sets([once.trained / often.trained for once, often in pairs])
    made.append(Claim("one shot over Fig. 3: members trained, mean ratio over sets", value, se, high=1.0, tried=TRIED))
    value, se = mean_over_sets([once.seconds / often.seconds for once, often in pairs])
    made.append(Claim("one shot over Fig. 3: seconds, mean ratio over sets", value, se))
    value, se = mean_over_sets([one.disagreement for one in found["BAN"]])
    made.append(Claim(f"BAN: disagreement with {REFERENCE_TREES} trees, mean over sets (%)", value, se))
    return made


def disagreement_table(results: Mapping[str, Sequence[Record]]) -> str:
    """Disagreement, and test error in brackets."""
    rows = []
    for problem, records in results.items():
        cells = []
        for rule in RULES:
            found = found_by(records, rule)
            value, se = mean_and_se(found.disagreement)
            cells.append(f"{value:.2f} ± {se:.2f} ({found.error.mean():.2f})")
        reference = np.mean([record["reference"] for record in records])
        rows.append([problem, *cells, f"({reference:.2f})"])
    header = ["disagreement, % (test error, %)", *(NAMES[rule] for rule in RULES), f"{REFERENCE_TREES} trees"]
    return table(header, rows)


def cost_table(results: Mapping[str, Sequence[Record]]) -> str:
    """Members kept and trained, and seconds."""
    rows = []
    for problem, records in results.items():
        cells = []
        for rule in RULES:
            found = found_by(records, rule)
            low, median, high = np.percentile(found.kept, [25, 50, 75])
            spread = "" if rule in map(str, FIXED_SIZES) else f" ({low:.0f}-{high:.0f})"
            cells.append(f"{median:.0f}{spread}; {np.mean(found.trained):.0f}; {found.seconds.mean():.2f}")
        rows.append([problem, *cells])
    return table(["members kept, median (quartiles); trained, mean; seconds", *(NAMES[rule] for rule in RULES)], rows)


def run(options: Options) -> dict[str, Sequence[Record]]:
    """Compare on every set, with progress on stderr."""
    n_trees, test_rows = (60, 200) if options.smoke else (REFERENCE_TREES, TEST_ROWS)
    results: dict[str, Sequence[Record]] = {}
    for problem in ["circle"] if options.smoke else TRAINING_ROWS:
        plans = [
            Plan(problem, TRAINING_ROWS[problem], n_trees, None, test_rows, options.seed, repetition)
            for repetition in range(options.repetitions)
        ]
        calls = (joblib.delayed(compare)(options.cache, plan) for plan in plans)
        records = joblib.Parallel(n_jobs=options.n_jobs, return_as="generator")(calls)
        results[problem] = list(tqdm(records, desc=problem, total=len(plans), file=sys.stderr, mininterval=5))
    return results


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options("benchmarks.learners.growth", __doc__, 10, arguments)
    results = run(options)
    tables = [disagreement_table(results), cost_table(results)]
    return conclude("benchmarks.learners.growth", options, claims(results), tables)


if __name__ == "__main__":
    print(main())
