"""Agreement at the recommended size, by the votes of other trees on out-of-bag and on fresh rows.

Each repetition draws training rows, grows 5000 trees beyond those analysed, and draws ensembles of the recommended
size from their votes: out-of-bag ones on the training rows, all of them on fresh rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.forests import Plan, Record, grow_all, random_numbers
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

CONFIDENCE = 0.99
MEMBERS = (100, 300)
OTHER_TREES = 5000
N_DRAWS = 40
SIZES = np.unique((np.geomspace(3, 2001, 40).astype(np.int64) - 1) // 2 * 2 + 1)
GAUSSIANS = "12 Gaussians"
LOADERS = {"digits": datasets.load_digits, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}


class Outcome(NamedTuple):
    """One recommendation.

    Attributes
    ----------
    agreement, fresh : float
        At the recommended size, by the other trees' out-of-bag votes, and by their votes on fresh rows.
    log_ratio : float
        log2 of the recommended size over the size needed by the other trees' out-of-bag votes.
    covered : bool
        The interval holds the latter.
    """

    agreement: float
    fresh: float
    log_ratio: float
    covered: bool


def rows_of(problem: str, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Return training rows and fresh rows; of real data, two thirds and one third."""
    if problem == GAUSSIANS:
        centres = np.random.default_rng(5).standard_normal((12, 5)) * 1.6
        labels = rng.integers(0, 12, 5000)
        features = centres[labels] + rng.standard_normal((5000, 5))
        return features[:1000], labels[:1000], features[1000:], labels[1000:]
    features, labels = LOADERS[problem](return_X_y=True)
    order = rng.permutation(labels.size)
    cut = 2 * labels.size // 3
    return features[order[:cut]], labels[order[:cut]], features[order[cut:]], labels[order[cut:]]


def grow(plan: Plan) -> Record:
    """Train a pool; keep the first trees' votes, and of all others how often each label was voted for."""
    rng = random_numbers(plan.problem, plan.seed, plan.repetition)
    features, labels, fresh, fresh_labels = rows_of(plan.problem, rng)
    n_labels, n_first = int(max(labels.max(), fresh_labels.max())) + 1, max(MEMBERS)
    forest = RandomForestClassifier(n_first + plan.n_trees, random_state=int(rng.integers(2**31))).fit(features, labels)
    in_bag = ens_plugin.in_bag(forest, features, labels)
    rows, fresh_rows = np.float32(features), np.float32(fresh)
    votes = np.empty((n_first, labels.size), dtype=np.int8)
    counts = np.zeros((labels.size, n_labels), dtype=np.int32)
    fresh_counts = np.zeros((fresh_labels.size, n_labels), dtype=np.int32)
    for index, tree in enumerate(forest.estimators_):
        vote = forest.classes_[tree.predict(rows).astype(np.int64)]
        if index < n_first:
            votes[index] = vote
            continue
        np.add.at(counts, (np.flatnonzero(~in_bag[index]), vote[~in_bag[index]]), 1)
        fresh_vote = forest.classes_[tree.predict(fresh_rows).astype(np.int64)]
        fresh_counts[np.arange(fresh_vote.size), fresh_vote] += 1
    return {"votes": votes, "in_bag": in_bag[:n_first], "labels": labels, "counts": counts, "fresh": fresh_counts}


def agreement_of(counts: Array, size: int, rng: np.random.Generator) -> float:
    """Share of rows where the label with most of `size` votes drawn at random is that with most of all votes."""
    label = counts.argmax(axis=1)
    open_rows = np.flatnonzero(np.count_nonzero(counts, axis=1) > 1)
    if open_rows.size == 0:
        return 1.0
    share = counts[open_rows] / counts[open_rows].sum(axis=1, keepdims=True)
    drawn = [np.mean(rng.multinomial(size, share).argmax(axis=1) != label[open_rows]) for _ in range(N_DRAWS)]
    return float(1.0 - np.mean(drawn) * open_rows.size / label.size)


def wanted_size(counts: Array, rng: np.random.Generator) -> float:
    """Size at which :func:`agreement_of` reaches the confidence, interpolated in logarithms."""
    apart = np.maximum([1.0 - agreement_of(counts, int(size), rng) for size in SIZES], 1e-9)
    apart = np.minimum.accumulate(apart)
    below = np.flatnonzero(apart <= 1.0 - CONFIDENCE)
    if below.size == 0:
        return math.inf
    index = max(int(below[0]), 1)
    high, low = np.log(apart[[index - 1, index]])
    part = np.clip((high - np.log(1.0 - CONFIDENCE)) / max(high - low, 1e-12), 0.0, 1.0)
    return float(SIZES[index - 1] * (SIZES[index] / SIZES[index - 1]) ** part)


def outcome(record: Record, members: int) -> Outcome:
    """Analyse the first trees and compare with the others."""
    rng = np.random.default_rng(0)
    n_labels = record["counts"].shape[1]
    outputs = np.eye(n_labels)[record["votes"][:members].astype(np.int64)]
    ensemble = ens_plugin.CustomEnsemble(
        outputs, record["in_bag"][:members], aggregation="mean_proba", classes=np.arange(n_labels)
    )
    found = ens_plugin.analyze(
        ensemble, None, record["labels"], criterion="agreement", tolerance=1.0 - CONFIDENCE
    ).recommendation
    size = found.size or found.max_size
    truth = wanted_size(record["counts"], rng)
    low, high = found.interval
    return Outcome(
        agreement_of(record["counts"], size, rng),
        agreement_of(record["fresh"], size, rng),
        math.log2(size / truth) if math.isfinite(truth) else math.nan,
        low <= truth <= (math.inf if high is None else high),
    )


def spread_of(values: Sequence[float]) -> tuple[float, float]:
    """Mean of the finite values and its standard error."""
    known = np.array([value for value in values if math.isfinite(value)])
    return (float(known.mean()), float(known.std() / math.sqrt(known.size))) if known.size else (0.0, 0.0)


def claims_of(problem: str, members: int, found: Sequence[Outcome]) -> list[Claim]:
    """List the targets for one problem and number of trees."""
    about = f"{problem}, {members} trees"
    fresh = spread_of([each.fresh for each in found])
    ratio = spread_of([each.log_ratio for each in found])
    return [
        Claim(f"{about}: agreement at the recommended size on fresh rows", *fresh, 0.988, 0.992, 4),
        Claim(f"{about}: log2(recommended size / other trees')", *ratio, -0.15, 0.15),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments, smoke=2)
    claims: list[Claim] = []
    rows: list[list[str]] = []
    n_trees = 200 if options.smoke else OTHER_TREES
    for problem in ["wine"] if options.smoke else [*LOADERS, GAUSSIANS]:
        plans = [
            Plan(problem, None, n_trees, None, 0, options.seed, repetition) for repetition in range(options.repetitions)
        ]
        records = grow_all(options.cache, "sizes", plans, grow, options.n_jobs)
        for members in MEMBERS:
            found = [outcome(record, members) for record in records]
            claims += claims_of(problem, members, found)
            oob = spread_of([each.agreement for each in found])
            covered = 100.0 * float(np.mean([each.covered for each in found]))
            rows.append([f"{problem}, {members} trees", f"{oob[0]:.4f} ± {oob[1]:.4f}", f"{covered:.0f}"])
    header = ["", "agreement, out-of-bag votes", "interval holds the other trees' size (%)"]
    return conclude(__name__, options, claims, [table(header, rows)])
