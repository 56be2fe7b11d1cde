"""Dynamic pruning: labels against the whole ensemble's, members queried, and wall time of predict.

Forests of 501 fully grown trees, confidence 0.99; 20000 fresh rows by formula, or the half of the real data that was
not trained on (repeated for the timings). Times are of predict with one thread, alternating, medians of ratios. Rows
that hardly settle: those for which rule full queries at least 90% of the members, repeated to as many rows. One row:
20 rows, each predicted by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

from benchmarks.cost.speed import alternate
from benchmarks.shared.forests import TRAINING_ROWS, Plan, Record, grow_all
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import FORMULAS
from benchmarks.shared.results import Claim, conclude
from ens_plugin.errors import WeakEstimateWarning
from ens_plugin.papers.dynamic_pruning_2009 import PrunedEnsemble, prune

Array = NDArray[Any]

PROBLEMS = ("twonorm", "ringnorm", "circle", "spiral", "breast cancer", "digits")
FAST = ("twonorm", "breast cancer")
RULES = ("full", "infinite", "learned")
OTHERS = ("shallow forest", "bagged trees", "LightGBM", "XGBoost")
OTHER_PROBLEMS = ("twonorm", "ringnorm", "digits")
N_TREES, N_ROWS, SHALLOW = 501, 20_000, 4
SINGLE_ROWS = 20
HARD_SHARE = 0.9
MOST_SLOWER = 1.1
MANY = "many rows"


def ensemble(kind: str, n_trees: int, seed: int) -> Any:
    """Return an ensemble of one kind, not fitted."""
    if kind == "bagged trees":
        return BaggingClassifier(n_estimators=n_trees, random_state=seed)
    if kind == "LightGBM":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            boosting_type="rf", n_estimators=n_trees, subsample=0.632, subsample_freq=1, feature_fraction_bynode=0.3,
            min_child_samples=5, random_state=seed, n_jobs=1, verbose=-1,
        )  # fmt: skip
    if kind == "XGBoost":
        from xgboost import XGBRFClassifier

        return XGBRFClassifier(
            n_estimators=n_trees, subsample=0.632, colsample_bynode=0.3, random_state=seed, n_jobs=1
        )  # fmt: skip
    depth = SHALLOW if kind == "shallow forest" else None
    return RandomForestClassifier(n_trees, max_depth=depth, random_state=seed)


def samples(plan: Plan) -> tuple[Array, Array, Array]:
    """Training rows, their labels, and fresh rows: by formula, or the half of real data that is not trained on."""
    features, y, rng = plan.sample()
    if plan.problem in FORMULAS:
        return features, y, FORMULAS[plan.problem].sample(plan.fresh_rows, rng)[0]
    rows = rng.permutation(y.size)
    half = y.size // 2
    return features[rows[:half]], y[rows[:half]], features[rows[half:]]


def pruned_by(model: Any, features: Array, y: Array) -> dict[str, PrunedEnsemble]:
    """Return one pruned ensemble per rule."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEstimateWarning)
        return {rule: prune(model, features, y, rule=rule) for rule in RULES}


def counted(kind: str, plan: Plan) -> Record:
    """Return by rule: members queried and share of other labels on fresh rows, and both as expected beforehand."""
    features, y, fresh = samples(plan)
    model = clone(ensemble(kind, plan.n_trees, plan.forest_seed() % 2**31)).fit(features, y)
    whole = model.predict(fresh)
    record: Record = {}
    for rule, pruned in pruned_by(model, features, y).items():
        found = pruned.query(fresh)
        expected = [pruned.expected_queries, pruned.expected_disagreement]
        of_rows = [found.n_queries.mean(), np.mean(found.labels != whole)]
        record[rule] = np.array([*of_rows, *expected], dtype=np.float64) * [1.0, 100.0, 1.0, 100.0]
    return record


def plans(problem: str, options: Options, repetitions: int) -> list[Plan]:
    """One plan per repetition."""
    n_rows = TRAINING_ROWS[problem] if problem in FORMULAS else None
    n_trees, fresh = (51, 500) if options.smoke else (N_TREES, N_ROWS)
    return [Plan(problem, n_rows, n_trees, None, fresh, options.seed, r) for r in range(repetitions)]


def by_rule(records: Sequence[Record]) -> dict[str, Array]:
    """Stack what was counted, shape (n_repetitions, 4) for each rule."""
    return {rule: np.array([record[rule] for record in records]) for rule in RULES}


def mean_claim(measure: str, values: Array, low: float = -np.inf, high: float = np.inf) -> Claim:
    """Claim about a mean over repetitions."""
    spread = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None
    return Claim(measure, float(values.mean()), spread, low=low, high=high)


def counting_section(options: Options) -> tuple[list[Claim], str]:
    """Disagreement and members queried, forests on all problems."""
    claims, rows = [], []
    for problem in PROBLEMS[-2:] if options.smoke else PROBLEMS:
        grow = partial(counted, "forest")
        found = by_rule(
            grow_all(options.cache, "pruned forest", plans(problem, options, options.repetitions), grow, options.n_jobs)
        )
        full, learned = found["full"], found["learned"]
        claims += [
            mean_claim(f"{problem}, rule full: labels other than the whole forest's (%)", full[:, 1], high=1.0),
            mean_claim(f"{problem}, rule learned: labels other than the whole forest's (%)", learned[:, 1], high=1.0),
            mean_claim(f"{problem}: members queried, learned / full", learned[:, 0] / full[:, 0], high=1.0),
        ]
        if np.isfinite(learned[:, 2]).all():
            claims.append(
                mean_claim(f"{problem}, rule learned: members queried / expected", learned[:, 0] / learned[:, 2])
            )
        rows.append([problem, *(_cell(found[rule]) for rule in RULES)])
    return claims, counts_table(rows)


def counts_table(rows: Sequence[Sequence[str]]) -> str:
    """Return what was counted, with what was expected beforehand in brackets: only of votes on two labels."""
    return table(["members queried (expected); other labels, % (expected)", *RULES], rows)


def _cell(values: Array) -> str:
    queried, other, expected, expected_other = values.mean(axis=0)
    if np.isnan(expected):
        return f"{queried:.1f}; {other:.2f}"
    return f"{queried:.1f} ({expected:.1f}); {other:.2f} ({expected_other:.2f})"


def other_section(options: Options) -> str:
    """The same for ensembles that do not vote, or not as forests of scikit-learn do."""
    rows = []
    for kind in OTHERS:
        for problem in OTHER_PROBLEMS[-1:] if options.smoke else OTHER_PROBLEMS:
            chosen = plans(problem, options, max(options.repetitions // 4, 1))
            found = by_rule(grow_all(options.cache, f"pruned {kind}", chosen, partial(counted, kind), options.n_jobs))
            rows.append([f"{kind}, {problem}", *(_cell(found[rule]) for rule in RULES)])
    return counts_table(rows)


def tiled(rows: Array, n_rows: int) -> Array:
    """Repeat rows until there are enough."""
    return rows[np.arange(n_rows) % len(rows)]


def works(model: Any, pruned: Mapping[str, Any], batches: Sequence[Array]) -> dict[str, Callable[[], object]]:
    """Return predictions, batch by batch, of the whole ensemble and of every rule, ready to be timed."""

    def many(predictor: Any) -> Callable[[], object]:
        return lambda: [predictor.predict(rows) for rows in batches]

    return {"whole": many(model)} | {rule: many(predictor) for rule, predictor in pruned.items()}


def times_as_fast(measure: str, above: Array, below: Array, low: float = -np.inf) -> Claim:
    """Compare round by round how many times as fast the second is."""
    ratios = above / below
    spread = 1.2533 * 1.4826 * float(np.median(np.abs(ratios - np.median(ratios)))) / np.sqrt(ratios.size)
    return Claim(measure, float(np.median(ratios)), float(spread), low=low)


def hard_rows(pruned: PrunedEnsemble, rows: Array, n_rows: int) -> Array:
    """Rows that need practically all members, repeated."""
    queries = pruned.query(rows).n_queries
    return tiled(rows[queries >= min(HARD_SHARE * pruned.n_members, queries.max())], n_rows)


def timing_section(kind: str, problems: Sequence[str], options: Options, rounds: int) -> tuple[list[Claim], str]:
    """Wall time of predict: many rows, rows that hardly settle, and one row; one thread."""
    claims, table_rows = [], []
    n_rows, n_single = (500, 2) if options.smoke else (N_ROWS, SINGLE_ROWS)
    for problem in problems:
        plan = plans(problem, options, 1)[0]
        features, y, fresh = samples(plan)
        model = ensemble(kind, plan.n_trees, plan.forest_seed() % 2**31).fit(features, y)
        pruned = pruned_by(model, features, y)
        sets = {
            MANY: [tiled(fresh, n_rows)],
            "rows that hardly settle": [hard_rows(pruned["full"], fresh, n_rows)],
            "one row": np.split(fresh[:n_single], n_single),
        }
        cells = [f"{kind}, {problem}"]
        for name, batches in sets.items():
            found = alternate(works(model, pruned, batches), 2 if options.smoke else rounds)
            cells += [f"{np.median(found['whole'] / found[rule]):.1f}" for rule in RULES]
            if kind == "forest":
                low = 4.0 if problem in FAST and name == MANY else 1 / MOST_SLOWER
                claims += [
                    times_as_fast(
                        f"{problem}, {name}: times as fast as the forest, {rule}", found["whole"], found[rule], low
                    )
                    for rule in ("full", "learned")
                ]
        table_rows.append(cells)
    header = ["times as fast", *(f"{name}, {rule}" for name in ("all", "hard", "one row") for rule in RULES)]
    return claims, table(header, table_rows)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    claims, counts = counting_section(options)
    others = other_section(options)
    with threadpool_limits(limits=1):
        fast, speeds = timing_section("forest", PROBLEMS[-2:] if options.smoke else PROBLEMS, options, 11)
        other_speeds = [timing_section(kind, OTHER_PROBLEMS[:1], options, 3)[1] for kind in OTHERS]
    return conclude(
        __name__,
        options,
        [*claims, *fast],
        [
            counts,
            speeds,
            f"Other ensembles of {N_TREES} members: forests of depth {SHALLOW} average probabilities, the boosters raw "
            "scores; their rules are approximations.",
            others,
            *other_speeds,
        ],
    )
