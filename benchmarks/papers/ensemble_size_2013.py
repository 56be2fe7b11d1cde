"""Tables 2 to 4 and Fig. 4 of 2013: sizes that reach 99 % agreement with the infinite ensemble.

Cells: disagreement with the infinite ensemble on test rows (%), standard error; median size and quartiles. Test and
OOB grow by Fig. 3 and plug in shares of votes (eq. 17) of unlabelled test rows or out-of-bag rows. `ours`: one fit to
the out-of-bag votes of the first 50 trees (`deconvolved_size`), no growing. BAN: reference [7]; McNemar: [26] on 1000
test rows with their labels; (m-1)/m: [27] at 99%. The proxy of the infinite ensemble has 2000 trees (spiral: 1000,
and a third of the repetitions; `--full`: 10 000 as in the paper). The first T of its M trees agree with it too often,
so disagreements are divided by sqrt(1 - T/M); sizes above 0.75 M are measured there, which errs high, and Fig. 3
cannot grow beyond M. Law: random subsets of 101 to 1001 trees (at most M/2), f(1/2) from the share of test rows
within 0.05 of 1/2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.votes import METHODS, out_of_bag_path, unpacked
from benchmarks.shared.forests import FEW, Plan, Record, grow_all
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, mean_and_se
from ens_plugin.papers.ensemble_size_2013 import (
    ban_size,
    borderline_density,
    deconvolved_size,
    limiting_disagreement,
    limiting_row_size_tail,
    mcnemar_size,
    plugin_size,
    reduction_size,
    row_size_tail,
)
from ens_plugin.papers.wrong_votes import subset_majority_error

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CONFIDENCE = 0.99
FIRST_SIZE = 100
MAX_SHARE = 0.75
MCNEMAR_TREES, MCNEMAR_ROWS = 1000, 1000
RULES = ("Test", "OOB", "BAN", "ours")
OTHERS = ("McNemar", "(m-1)/m")
LAW_SIZES = tuple(int(size) // 2 * 2 + 1 for size in np.geomspace(100, 1000, 9))


@dataclass(frozen=True)
class Setting:
    """Training rows, test rows, trees of the proxy, and one in how many repetitions."""

    n_rows: int
    test_rows: int
    n_trees: int
    one_in: int


@dataclass(frozen=True)
class Printed:
    """The paper's figures for one rule: disagreement (%), median size and quartiles."""

    disagreement: float
    median: int
    low: int
    high: int


SETTINGS = {
    "twonorm": Setting(300, 1000, 2000, 1),
    "ringnorm": Setting(300, 1000, 2000, 1),
    "circle": Setting(300, 1000, 2000, 1),
    "spiral": Setting(5000, 10_000, 1000, 3),
}
SMOKE = Setting(200, 300, 300, 1)

# Table 2 (disagreement), Tables 3 and 4 (sizes, error of the infinite ensemble).
PAPER: dict[tuple[str, str], dict[str, Printed]] = {
    ("random forest", "twonorm"): {
        "Test": Printed(1.0, 365, 286, 428),
        "OOB": Printed(1.1, 315, 225, 454),
        "BAN": Printed(2.2, 96, 62, 117),
    },
    ("random forest", "ringnorm"): {
        "Test": Printed(1.1, 563, 429, 703),
        "OOB": Printed(1.2, 443, 346, 638),
        "BAN": Printed(2.8, 83, 64, 111),
    },
    ("random forest", "circle"): {
        "Test": Printed(1.0, 64, 46, 87),
        "OOB": Printed(1.1, 57, 35, 87),
        "BAN": Printed(1.3, 41, 23, 61),
    },
    ("random forest", "spiral"): {
        "Test": Printed(1.0, 234, 214, 262),
        "OOB": Printed(1.0, 238, 212, 265),
        "BAN": Printed(1.8, 77, 58, 107),
    },
    ("bagging", "twonorm"): {
        "Test": Printed(1.1, 514, 388, 618),
        "OOB": Printed(1.2, 445, 346, 670),
        "BAN": Printed(2.6, 78, 63, 108),
    },
    ("bagging", "ringnorm"): {
        "Test": Printed(1.1, 722, 547, 916),
        "OOB": Printed(1.2, 607, 379, 774),
        "BAN": Printed(3.3, 74, 53, 98),
    },
    ("bagging", "circle"): {
        "Test": Printed(1.0, 45, 33, 68),
        "OOB": Printed(1.0, 48, 36, 69),
        "BAN": Printed(1.3, 35, 20, 56),
    },
    ("bagging", "spiral"): {
        "Test": Printed(1.0, 239, 221, 270),
        "OOB": Printed(1.0, 243, 223, 282),
        "BAN": Printed(1.9, 73, 56, 108),
    },
}
PAPER_ERROR = {
    ("random forest", "twonorm"): 3.82,
    ("random forest", "ringnorm"): 6.17,
    ("random forest", "circle"): 5.30,
    ("random forest", "spiral"): 16.18,
    ("bagging", "twonorm"): 6.17,
    ("bagging", "ringnorm"): 8.93,
    ("bagging", "circle"): 6.00,
    ("bagging", "spiral"): 16.65,
}


@dataclass(frozen=True, eq=False)
class Choice:
    """Sizes that one rule chose over repetitions, and the disagreement and test error (%) they gave."""

    sizes: FloatArray
    disagreement: FloatArray
    error: FloatArray


@dataclass(frozen=True, eq=False)
class Law:
    """What Fig. 4 and Fig. 2 show: slope, and measured over predicted for eq. 14 and eq. 13."""

    slope: float
    disagreement_ratio: float
    disagreement_ratio_se: float
    tail_ratio: float


def grown_size(wrong: BoolArray, is_oob: BoolArray, confidence: float = CONFIDENCE) -> int:
    """Size at which the growing algorithm of Fig. 3 stops, or the number of trees at hand."""
    n_trees = wrong.shape[0]
    size = min(FIRST_SIZE, n_trees)
    while True:
        trials = np.count_nonzero(is_oob[:size], axis=0)
        votes = np.count_nonzero(wrong[:size] & is_oob[:size], axis=0)
        wanted = plugin_size(votes[trials > 0], trials[trials > 0], confidence, n_trees) or n_trees
        if wanted <= size or size == n_trees:
            return wanted
        size = min(wanted, 2 * size)


def chosen_sizes(record: Record) -> dict[str, int]:
    """Every rule's size for one forest."""
    wrong, is_oob, test = unpacked(record)
    few = np.count_nonzero(is_oob[:FEW], axis=0)
    votes = np.count_nonzero(wrong[:FEW] & is_oob[:FEW], axis=0)
    n_trees = wrong.shape[0]
    return {
        "Test": grown_size(test, np.ones_like(test)),
        "OOB": grown_size(wrong, is_oob),
        "BAN": ban_size(out_of_bag_path(wrong, is_oob)) or n_trees,
        "ours": deconvolved_size(votes[few > 0], few[few > 0], CONFIDENCE) or 20_001,
        "McNemar": mcnemar_size(test[:MCNEMAR_TREES, :MCNEMAR_ROWS]),
        "(m-1)/m": reduction_size(CONFIDENCE),
    }


def disagreement_and_error(test: BoolArray, size: int) -> tuple[float, float]:
    """Disagreement (%) of the first trees with infinitely many, and their test error (%).

    The trees are among those of the proxy, which makes them agree too often: near 1/2 the disagreement of T among M is
    sqrt(1/T - 1/M) / sqrt(1/T) of that with infinitely many.
    """
    n_trees = test.shape[0]
    trees = min(size, int(MAX_SHARE * n_trees))
    some = np.sign(2 * np.count_nonzero(test[:trees], axis=0) - trees)
    everything = np.sign(2 * np.count_nonzero(test, axis=0) - n_trees)
    different = float(np.mean(np.abs(some - everything) / 2.0))
    return 100.0 * different / np.sqrt(1.0 - trees / n_trees), 100.0 * float(np.mean((some + 1) / 2.0))


def choices(records: Sequence[Record]) -> dict[str, Choice]:
    """Every rule over repetitions; under "infinite" the proxy itself."""
    sizes: dict[str, list[float]] = {}
    found: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        test = unpacked(record)[2]
        for rule, size in chosen_sizes(record).items():
            sizes.setdefault(rule, []).append(size)
            found.setdefault(rule, []).append(disagreement_and_error(test, size))
        all_wrong = np.mean(0.5 * (np.sign(2 * np.count_nonzero(test, axis=0) - test.shape[0]) + 1))
        sizes.setdefault("infinite", []).append(np.inf)
        found.setdefault("infinite", []).append((0.0, 100.0 * float(all_wrong)))
    return {rule: Choice(np.array(sizes[rule]), *np.array(found[rule]).T) for rule in sizes}


def law(records: Sequence[Record]) -> Law:
    """Measure the disagreement of random subsets with the proxy, and the rows' own sizes, against the law.

    The disagreement of T trees among M is that with infinitely many at 1 / (1/T - 1/M) trees: near 1/2 only the
    variance of their difference matters.
    """
    n_trees = unpacked(records[0])[2].shape[0]
    sizes = np.array([size for size in LAW_SIZES if size <= n_trees // 2])
    effective = 1.0 / (1.0 / sizes - 1.0 / n_trees)
    measured, density, tail = [], [], []
    for record in records:
        votes = np.count_nonzero(unpacked(record)[2], axis=0)
        minority, counts = np.unique(np.minimum(votes, n_trees - votes), return_counts=True)
        by_size = subset_majority_error(minority, np.full(minority.size, n_trees), int(sizes.max()))
        measured.append(by_size[(sizes - 1) // 2] @ counts / counts.sum())
        density.append(borderline_density(votes / n_trees))
        tail.append(row_size_tail(votes / n_trees, [1001])[0])
    mean, level = np.mean(measured, axis=0), float(np.mean(density))
    predicted = limiting_disagreement(1.0, np.floor(effective))
    by_record = np.mean(np.array(measured) / predicted, axis=1)
    spread = by_record - by_record.mean() / level * np.array(density)
    return Law(
        slope=float(np.polyfit(np.log(effective), np.log(mean), 1)[0]),
        disagreement_ratio=float(by_record.mean() / level),
        disagreement_ratio_se=float(spread.std(ddof=1) / level / np.sqrt(spread.size)),
        tail_ratio=float(np.mean(tail) / limiting_row_size_tail(level, [1001])[0]),
    )


TRIED = "nothing, for the rule is as published; few repetitions (spiral: a third of them)."
TRIED_OURS = (
    "nothing: there is nothing to tune. The target is the spread of the paper's plug-in from out-of-bag votes, which "
    "falls short where its own disagreement is above 1 %."
)


def claims(where: tuple[str, str], found: Mapping[str, Choice], measured: Law) -> list[Claim]:
    """List the targets for one method and problem."""
    name = ", ".join(where)
    made = []
    for rule in ("Test", "OOB", "ours"):
        value, se = mean_and_se(found[rule].disagreement)
        label = "ours from 50 trees" if rule == "ours" else rule
        tried = TRIED_OURS if rule == "ours" else TRIED
        made.append(Claim(f"{name}, {label}: disagreement (%)", value, se, low=0.7, high=1.3, tried=tried))
        printed = PAPER[where]["OOB" if rule == "ours" else rule]
        median = float(np.median(found[rule].sizes))
        measure = f"{name}, {label}: median size"
        made.append(Claim(measure, median, None, low=printed.low, high=printed.high, digits=0, tried=tried))
    ratio, se = measured.disagreement_ratio, measured.disagreement_ratio_se
    made += [
        Claim(
            f"{name}: slope of log disagreement in log size",
            measured.slope,
            None,
            low=-0.55,
            high=-0.45,
            digits=3,
            tried=TRIED,
        ),
        Claim(f"{name}: disagreement over the law's (eq. 14)", ratio, se, low=0.9, high=1.1, tried=TRIED),
        Claim(f"{name}: share of rows above size 1001 over the law's (eq. 13)", measured.tail_ratio, None),
    ]
    return made


def ban_claim(method: str, results: Mapping[tuple[str, str], Mapping[str, Choice]]) -> Claim:
    """How much worse BAN is: its disagreement over the out-of-bag rule's, mean over problems."""
    ratios = [
        found["BAN"].disagreement.mean() / found["OOB"].disagreement.mean()
        for (grown, _), found in results.items()
        if grown == method
    ]
    return Claim(f"{method}: BAN's disagreement over OOB's, mean over problems", float(np.mean(ratios)), None, low=1.5)


def size_table(method: str, results: Mapping[tuple[str, str], Mapping[str, Choice]]) -> str:
    """Tables 2 to 4 for one method: the paper's figures above ours."""
    lines = []
    for (grown, problem), found in results.items():
        if grown != method:
            continue
        printed = PAPER[grown, problem]
        cells = [f"{one.disagreement:.1f}; {one.median} ({one.low}-{one.high})" for one in printed.values()]
        lines.append([f"**{problem}**, paper", f"{PAPER_ERROR[grown, problem]:.1f}", *cells, "", "", ""])
        cells = [_shown(found[rule]) for rule in (*RULES, *OTHERS)]
        error, se = mean_and_se(found["infinite"].error)
        lines.append([f"{problem}, here", f"{error:.1f} ± {se:.1f}", *cells])
        excess = [f"{np.mean(found[rule].error - found['infinite'].error):+.2f}" for rule in (*RULES, *OTHERS)]
        lines.append([f"{problem}, error above the proxy's", "", *excess])
    return table([method, "error at ∞ (%)", *RULES, *OTHERS], lines)


def _shown(choice: Choice) -> str:
    value, se = mean_and_se(choice.disagreement)
    low, median, high = np.percentile(choice.sizes, [25, 50, 75])
    return f"{value:.2f} ± {se:.2f}; {median:.0f} ({low:.0f}-{high:.0f})"


def run_case(method: str, problem: str, options: Options) -> tuple[dict[str, Choice], Law]:
    """Grow the forests of one method on one problem and apply every rule."""
    setting = SMOKE if options.smoke else SETTINGS[problem]
    repetitions = max(options.repetitions // setting.one_in, 2)
    plans = [
        Plan(problem, setting.n_rows, setting.n_trees, None, setting.test_rows, options.seed, repetition)
        for repetition in range(repetitions)
    ]
    records = grow_all(options.cache, f"{method} mistakes", plans, METHODS[method], options.n_jobs)
    return choices(records), law(records)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 30, arguments)
    cases = [("bagging", "circle")] if options.smoke else list(PAPER)
    measured = {where: run_case(*where, options) for where in cases}
    results = {where: found for where, (found, _) in measured.items()}
    methods = dict.fromkeys(method for method, _ in cases)
    made = [claim for where, (found, fig_4) in measured.items() for claim in claims(where, found, fig_4)]
    made += [ban_claim(method, results) for method in methods]
    tables = [size_table(method, results) for method in methods]
    return conclude(__name__, options, made, tables)
