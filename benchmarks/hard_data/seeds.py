"""How often a gate finds the same recipe worse under another seed, and how often a worse recipe worse.

Each repetition draws new training rows of five problems (300 or 500 rows), grows two forests of the same recipe and
one of trees of 8 leaves, and compares them by their out-of-bag rows as the gate does. Before: without the noise of
the seeds in the interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ens_plugin
from benchmarks.shared.forests import TRAINING_ROWS, Plan, Record, grow_all, leaf_values, out_of_bag
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se
from ens_plugin.analysis.analyze import analyze_rows
from ens_plugin.core.comparison import Difference
from ens_plugin.registry.evidence import compare_pairs
from ens_plugin.tracking.digest import Measurement

Array = NDArray[Any]

PROBLEMS = ("twonorm", "ringnorm", "noisy logistic", "circle", "hard/easy mixture")
ROWS = {**TRAINING_ROWS, "circle": 300, "hard/easy mixture": 500}
MEMBERS = (10, 30, 100)
WORSE_LEAVES = 8


def grow_pair(plan: Plan) -> Mapping[str, Array]:
    """Grow two forests of one recipe and one of small trees, on the same new training rows.

    Returns
    -------
    dict
        ``labels_0``, ``labels_1`` and ``labels_2`` (the small trees), shape (n_trees, n_rows); ``in_bag_0`` to
        ``in_bag_2``; ``target``.
    """
    from sklearn.ensemble import RandomForestClassifier

    features, y, _ = plan.sample()
    record: dict[str, Array] = {"target": y}
    for number, leaves in enumerate((None, None, WORSE_LEAVES)):
        seed = 3 * plan.repetition + number
        forest = RandomForestClassifier(plan.n_trees, max_leaf_nodes=leaves, random_state=seed).fit(features, y)
        rows = features.astype(np.float32)
        labels = np.stack([leaf_values(tree, rows).argmax(axis=1) for tree in forest.estimators_])
        record[f"labels_{number}"] = labels.astype(np.uint8)
        record[f"in_bag_{number}"] = ~out_of_bag(forest, y.size)
    return record


def measured(record: Record, number: int, members: int) -> Measurement:
    """Return the measurement of a forest's first members on their out-of-bag rows."""
    labels, in_bag = (record[f"{name}_{number}"][:members] for name in ("labels", "in_bag"))
    ensemble = ens_plugin.CustomEnsemble(labels, in_bag, aggregation="vote", classes=np.array([0, 1]))
    report, judged = analyze_rows(ensemble, None, record["target"], data="oob")
    return Measurement(report, judged, "")


def verdicts(record: Record, members: int) -> list[bool]:
    """Return worse and better for another seed, then worse for small trees: with the seeds' noise, and without it."""
    forests = [measured(record, number, members) for number in range(3)]
    found = []
    for one in (forests, [forest._replace(judged=forest.judged._replace(seed_variance=0.0)) for forest in forests]):
        same, small = (_increase(one[number], one[0]) for number in (1, 2))
        found += [same.lower > 0, same.upper < 0, small.lower > 0]
    return found


def _increase(candidate: Measurement, baseline: Measurement) -> Difference:
    return compare_pairs(candidate, baseline).increase


def rates(records: list[Record], members: int) -> Array:
    """Return the percentages of :func:`verdicts`."""
    return np.asarray(100.0 * np.mean([verdicts(record, members) for record in records], axis=0))


def claims_of(members: int, found: Array, count: int) -> list[Claim]:
    """List the targets at one size."""
    claims = [
        Claim(
            f"{members} trees, another seed: called {word} (%)",
            float(value),
            percent_se(value, count),
            high=4.0,
            digits=1,
        )
        for word, value in zip(("worse", "better"), found[:2], strict=True)
    ]
    if members == max(MEMBERS):
        ratio = float(found[2]) / max(float(found[5]), 1e-9) if found[5] else 1.0
        claims.append(Claim(f"{members} trees, small trees: called worse, share of before", ratio, None, 0.9))
    return claims


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options: Options = read_options(__name__, __doc__, 100, arguments)
    problems = PROBLEMS[:1] if options.smoke else PROBLEMS
    records: list[Record] = []
    for problem in problems:
        plans = [
            Plan(problem, ROWS[problem], max(MEMBERS), None, 0, options.seed, repetition)
            for repetition in range(options.repetitions)
        ]
        records += grow_all(options.cache, "pairs", plans, grow_pair, options.n_jobs)
    claims, lines = [], []
    for members in MEMBERS:
        found = rates(records, members)
        claims += claims_of(members, found, len(records))
        lines.append([f"{members} trees", *(f"{value:.1f}" for value in found)])
    header = ["called (%)", "worse", "better", "small trees: worse", "before: worse", "before: better"]
    return conclude(__name__, options, claims, [table([*header, "before: small trees"], lines)])
