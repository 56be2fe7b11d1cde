"""Dynamic pruning by proof: labels against the infinite ensemble's, and members queried, against the other rules.

Forests of 501 fully grown trees, which vote, and of depth 4, which average probabilities; confidence 0.99. Rows are
fresh by formula, 5000 for each forest, or the 1497 digits that are not among the 300 trained on. The infinite
ensemble's label is that of 3000 other trees on the same training rows, which may be wrong about a tie, so the shares
err upwards. A row is settled where fewer than all members are queried, and settled wrongly where its label is not
that of the infinite ensemble (which `full` and `learned` do not aim at). Close rows: the two highest mean shares of
the reference lie less than 0.2 apart. The bound is the larger one of those for independent rows and for independent
forests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, t
from sklearn.base import clone

from benchmarks.learners.pruning import N_TREES, ensemble
from benchmarks.shared.forests import TRAINING_ROWS, Plan, Record, grow_all
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import FORMULAS
from benchmarks.shared.results import Claim, conclude, mean_and_se
from ens_plugin.papers.dynamic_pruning_2009 import prune

Array = NDArray[Any]

LEVEL = 0.01
RULES = ("full", "infinite", "learned", "certified")
REFERENCE_TREES = 3000
ROWS_OF_FOREST = 5000
TRAINING_DIGITS, HELD_OUT_DIGITS = 300, 1497
CELLS = (
    ("forest", "twonorm"),
    ("forest", "ringnorm"),
    ("forest", "circle"),
    ("forest", "spiral"),
    ("forest", "digits"),
    ("shallow forest", "twonorm"),
    ("shallow forest", "digits"),
)
CLOSE = 0.2
MOST_PRICE = 1.5
TRIED = (
    "for votes on two labels, the exact chance of a wrong label in place of Ville's inequality (8 % fewer members); "
    "rates of the bets from .02 to .2 up to .5 to .98 with other weights, and bounds of k t^g votes above half of t, g "
    "from .4 to .7 (at best 2 % fewer); for ten labels, a wealth for each pair of labels at a ninth of the level (13 % "
    "more). What is left is the price of a promise for each row: `infinite` stops close rows early, and those of two "
    "labels are settled wrongly more often than the level"
)


class Found(NamedTuple):
    """What one rule gave on the rows of one forest: numbers of rows, and members queried by row on average."""

    rows: int
    settled: int
    wrong: int
    close: int
    wrong_close: int
    queries: float


def samples(plan: Plan) -> tuple[Array, Array, Array]:
    """Return training rows, their labels, and fresh rows; of real data, the rows that are left."""
    features, y, rng = plan.sample()
    if plan.problem in FORMULAS:
        return features, y, FORMULAS[plan.problem].sample(plan.fresh_rows, rng)[0]
    rows = rng.permutation(y.size)
    trained, left = np.split(rows, [TRAINING_DIGITS])
    return features[trained], y[trained], features[left]


def judged(kind: str, plan: Plan) -> Record:
    """Return by rule what it did on fresh rows of one forest, against a larger forest of another seed."""
    features, y, fresh = samples(plan)
    seed = plan.forest_seed() % 2**31
    model = clone(ensemble(kind, plan.n_trees, seed)).fit(features, y)
    reference = ensemble(kind, 51 if plan.n_trees < N_TREES else REFERENCE_TREES, seed + 1).fit(features, y)
    shares = reference.predict_proba(fresh)
    highest = np.sort(shares, axis=1)[:, -2:]
    close, label = highest[:, 1] - highest[:, 0] < CLOSE, reference.classes_[shares.argmax(axis=1)]
    record: Record = {}
    for rule in RULES:
        queried = prune(model, features, y, rule=rule, confidence=1 - LEVEL).query(fresh)
        settled = queried.n_queries < plan.n_trees
        wrong = settled & (queried.labels != label)
        record[rule] = np.array(
            [label.size, settled.sum(), wrong.sum(), close.sum(), (wrong & close).sum(), queried.n_queries.mean()],
            dtype=np.float64,
        )
    return record


def plans(problem: str, repetitions: int, options: Options) -> list[Plan]:
    """Return one plan for each forest, as many as it takes for the same number of rows on each set."""
    n_trees, rows = (51, 300) if options.smoke else (N_TREES, ROWS_OF_FOREST)
    if problem in FORMULAS:
        n_rows = TRAINING_ROWS[problem]
        return [Plan(problem, n_rows, n_trees, None, rows, options.seed, r) for r in range(repetitions)]
    n_forests = max(-(-repetitions * rows // HELD_OUT_DIGITS), 2)
    return [Plan(problem, None, n_trees, None, 0, options.seed, r) for r in range(n_forests)]


def founds(records: Sequence[Record], rule: str) -> list[Found]:
    """Return what one rule gave, by forest."""
    return [Found(*record[rule].tolist()) for record in records]


def share(wrong: Array, rows: Array) -> tuple[float, float]:
    """Return the share of wrong rows and its upper 95 % bound, in percent.

    The bound is the larger one of those for independent rows and for independent forests.
    """
    n_rows, n_wrong = rows.sum(), wrong.sum()
    of_rows = 1.0 if n_wrong == n_rows else float(beta.ppf(0.95, n_wrong + 1, n_rows - n_wrong))
    by_forest = wrong / np.maximum(rows, 1)
    error = by_forest.std(ddof=1) / np.sqrt(by_forest.size)
    of_forests = float(by_forest.mean() + t.ppf(0.95, by_forest.size - 1) * error)
    return 100.0 * float(n_wrong / max(n_rows, 1)), 100.0 * max(of_rows, of_forests)


def price(records: Sequence[Record], rule: str) -> tuple[float, float]:
    """Return how many times the members of another rule are queried by proof, mean over forests and standard error."""
    ratios = np.array(
        [
            own.queries / other.queries
            for own, other in zip(founds(records, "certified"), founds(records, rule), strict=True)
        ]
    )
    return mean_and_se(ratios)


def columns(records: Sequence[Record], rule: str) -> Mapping[str, Array]:
    """Return the numbers of one rule, one entry per forest."""
    return dict(zip(Found._fields, np.array(founds(records, rule)).T, strict=True))


def claims(name: str, records: Sequence[Record]) -> list[Claim]:
    """List the promise and its price on one set."""
    found = columns(records, "certified")
    _, bound = share(found["wrong"], found["rows"])
    value, error = price(records, "infinite")
    return [
        Claim(f"{name}: rows settled wrongly, upper 95 % bound (%)", bound, high=100 * LEVEL, digits=3),
        Claim(f"{name}: members queried, certified / infinite", value, error, high=MOST_PRICE, tried=TRIED),
    ]


def promise_table(results: Mapping[str, Sequence[Record]]) -> str:
    """Return the rows settled wrongly, of all and of close rows."""
    rows = []
    for name, records in results.items():
        cells = []
        for rule in RULES:
            found = columns(records, rule)
            every, bound = share(found["wrong"], found["rows"])
            close, close_bound = share(found["wrong_close"], found["close"])
            cells.append(f"{every:.3f} ({bound:.3f}); {close:.2f} ({close_bound:.2f})")
        certified = columns(records, "certified")
        rows.append([f"{name}, {int(certified['rows'].sum())} rows, {int(certified['close'].sum())} close", *cells])
    return table(["settled wrongly, % (upper 95 % bound): of all rows; of close rows", *RULES], rows)


def price_table(results: Mapping[str, Sequence[Record]]) -> str:
    """Return the members queried and the rows settled."""
    rows = []
    for name, records in results.items():
        cells = []
        for rule in RULES:
            found = columns(records, rule)
            mean, spread = found["queries"].mean(), found["queries"].std(ddof=1)
            cells.append(f"{mean:.1f} ± {spread:.1f}; {100 * found['settled'].sum() / found['rows'].sum():.1f}")
        rows.append([name, *cells, *(f"{price(records, rule)[0]:.2f}" for rule in RULES[:-1])])
    header = ["members queried, mean ± sd over forests; rows settled, %", *RULES]
    return table([*header, *(f"certified / {rule}" for rule in RULES[:-1])], rows)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    results: dict[str, Sequence[Record]] = {}
    for kind, problem in CELLS[-1:] if options.smoke else CELLS:
        judge, what = partial(judged, kind), f"certified {kind}"
        has_all_rows = kind == "forest" and problem in FORMULAS
        repetitions = options.repetitions if has_all_rows else max(options.repetitions // 4, 2)
        chosen = plans(problem, repetitions, options)
        results[f"{kind}, {problem}"] = grow_all(options.cache, what, chosen, judge, options.n_jobs)
    found = [claim for name, records in results.items() for claim in claims(name, records)]
    return conclude(__name__, options, found, [promise_table(results), price_table(results)])
