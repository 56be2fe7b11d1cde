"""Tables 2 to 6 and Fig. 4 to 6 of 2013 on its real data sets: sizes that reach 99 % agreement, and what they bring.

As the section "Paper 2013", on the 14 of the paper's real problems that KEEL has: two thirds of the rows train, one
third tests, at random in each repetition. Cells: disagreement with the infinite ensemble on test rows (%); median
size and quartiles; test error above that of the infinite ensemble (points). Test and OOB grow by Fig. 3 and plug in
the shares of votes (eq. 17) of test rows without their labels, or of out-of-bag rows. `ours`: one fit to the
out-of-bag votes of 50 trees. `agreement`: `ens_plugin.agreement` of the same 50 trees on the test rows without
labels, in the repetitions in which it states a size. Needed: the smallest size whose measured disagreement is at most
1 %. Where a size is outside the paper's quartiles, the last table but two has what the proxy, which is the truth for
our rows, measures at both sizes.

Repetitions: a third for banana, german, liver, magic, phoneme, pima, sonar and spam. The proxy of the infinite
ensemble has 1000 trees; heart 2000, german and pima 3000, liver and sonar 4000, phoneme and magic 800, banana 600,
spam 400 (the paper has 10 000, and 100 repetitions). Disagreement and error of a size are means over all subsets of the
proxy's M trees, the disagreement divided by sqrt(1 - T/M) for the T trees they share; sizes above 0.75 M are measured
there, and Fig. 3 cannot grow beyond M. The rows are KEEL's: breast and votes are only those without a missing value
(683 of 699, 232 of 435), spam has 4597 of 4601, and magic is 3000 random rows of 19 020. Words have a
column each, for the paper's trees split them by sets: with codes in order instead, bagging errs on 4.9 % of the test
rows of tic-tac-toe and needs 211 trees (6 repetitions of 500 trees).

Ranks (Fig. 5): of mean test errors, as in the paper; Nemenyi's test at 5 %. Sizes by confidence (Fig. 6): from
out-of-bag votes. Pruning: uniform prior, confidence 99 %; trees asked by a row; rows whose label is not that of all
those trees (%); test error (%). The paper's Tables 5 and 6 did not survive in the copy at hand.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import friedmanchisquare
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.papers.ensemble_size_2013 import CONFIDENCE, MAX_SHARE, Choice, Law, chosen_sizes, grown_size, law
from benchmarks.papers.ranks import average_ranks, nemenyi_distance
from benchmarks.papers.votes import METHODS, split, unpacked
from benchmarks.shared.forests import FEW, Plan, Record, grow_all
from benchmarks.shared.keel import keel_rows, missing_keel
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, mean_and_se, root_mean_square
from ens_plugin.errors import WeakEstimateWarning
from ens_plugin.papers.dynamic_pruning_2009.stopping import checkpoints, stopping_table, uniform_prior
from ens_plugin.papers.wrong_votes import subset_majority_error

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Where = tuple[str, str]  # the method and the problem

PAPERS_RULES = ("Test", "OOB", "BAN")
RULES = (*PAPERS_RULES, "ours", "agreement")
RANKED = ("∞", *PAPERS_RULES)
LAW_PROBLEMS = ("german", "heart", "phoneme", "pima")
ALPHA_PROBLEMS, ALPHAS = ("breast", "german", "ionosphere"), (0.9, 0.95, 0.98, 0.99, 0.995)
PRUNED_PROBLEMS, PRUNING_RULES, USUAL_SIZE = ("german", "heart", "liver", "pima", "sonar"), ("full", "infinite"), 101
MAX_FEATURES = {"random forest": "sqrt", "bagging": None}
TABLES = pd.read_csv(Path(__file__).with_name("tables_2013.csv")).set_index(["method", "problem"])
PAPER: dict[Where, dict[str, float]] = {
    (str(method), str(problem)): dict(zip(TABLES.columns, figures, strict=True))
    for (method, problem), figures in zip(TABLES.index, TABLES.to_numpy().tolist(), strict=True)
}


@dataclass(frozen=True)
class Setting:
    """The name in KEEL; unless `--full`, trees of the proxy, one in how many repetitions, and rows if not all."""

    data: str
    n_trees: int = 1000
    one_in: int = 1
    n_rows: int | None = None


SETTINGS = {
    "australian": Setting("australian"),
    "banana": Setting("banana", 600, 3),
    "breast": Setting("wisconsin"),
    "german": Setting("german", 3000, 3),
    "heart": Setting("heart", 2000),
    "ionosphere": Setting("ionosphere"),
    "liver": Setting("bupa", 4000, 3),
    "magic": Setting("magic", 800, 3, 3000),
    "phoneme": Setting("phoneme", 800, 3),
    "pima": Setting("pima", 3000, 3),
    "sonar": Setting("sonar", 4000, 3),
    "spam": Setting("spambase", 400, 3),
    "tic-tac-toe": Setting("tic-tac-toe"),
    "votes": Setting("housevotes"),
}
SMOKE_TREES = 301


@dataclass(frozen=True, eq=False)
class Curves:
    """Disagreement with the infinite ensemble and test error (%) at 1, 3, 5, ... trees, and its own test error."""

    disagreement: FloatArray
    error: FloatArray
    limit: float

    def at(self, size: float) -> tuple[float, float]:
        """Return disagreement and error of a size, of the largest one where it is larger; of the odd one below it."""
        place = int(min((size - 1) // 2, self.error.size - 1))
        return float(self.disagreement[place]), float(self.error[place])


@dataclass(frozen=True, eq=False)
class Case:
    """What was found for one method and problem."""

    records: Sequence[Record]
    choices: Mapping[str, Choice]
    curves: Curves
    needed: float


def curves(test: BoolArray) -> Curves:
    """Return the exact means over all subsets of the proxy's trees, by wrong votes of shape (n_trees, n_rows).

    The trees are among those of the proxy: the disagreement is divided as in the section on synthetic problems.
    """
    n_trees = test.shape[0]
    sizes = np.arange(1, int(MAX_SHARE * n_trees) + 1, 2)
    votes = np.count_nonzero(test, axis=0)
    minority, row = np.unique(np.minimum(votes, n_trees - votes), return_inverse=True)
    outvoted = subset_majority_error(minority, np.full(minority.size, n_trees), int(sizes[-1]))[:, row]
    wrong = np.where(2 * votes > n_trees, 1.0 - outvoted, outvoted)
    apart = outvoted.mean(axis=1) / np.sqrt(1.0 - sizes / n_trees)
    limit = np.mean((np.sign(2 * votes - n_trees) + 1) / 2.0)
    return Curves(100.0 * apart, 100.0 * wrong.mean(axis=1), 100.0 * float(limit))


def mean_curves(found: Sequence[Curves]) -> Curves:
    """Return the means over repetitions."""
    return Curves(
        np.mean([one.disagreement for one in found], axis=0),
        np.mean([one.error for one in found], axis=0),
        float(np.mean([one.limit for one in found])),
    )


def needed_size(measured: Curves) -> float:
    """Return the smallest odd size whose measured disagreement is at most 1 %; infinity beyond those measured."""
    enough = np.flatnonzero(measured.disagreement <= 100.0 * (1.0 - CONFIDENCE))
    return 2.0 * enough[0] + 1.0 if enough.size else np.inf


def package_size(method: str, plan: Plan) -> float:
    """Return the size by `ens_plugin.agreement` of the first 50 trees on the test rows; NaN where it states none."""
    features, y, others, _ = split(plan)
    forest = RandomForestClassifier(FEW, max_features=MAX_FEATURES[method], random_state=plan.forest_seed())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakEstimateWarning)
        size = ens_plugin.agreement(forest.fit(features, y), others).recommendation.size
    return np.nan if size is None else float(size)


def choose(method: str, plans: Sequence[Plan], records: Sequence[Record], found: Sequence[Curves]) -> dict[str, Choice]:
    """Return every rule's sizes over repetitions, those that it states, and what they bring."""
    sizes = [
        {**chosen_sizes(record), "agreement": package_size(method, plan)}
        for plan, record in zip(plans, records, strict=True)
    ]
    made = {}
    for rule in RULES:
        stated = [(float(own[rule]), one) for own, one in zip(sizes, found, strict=True) if np.isfinite(own[rule])]
        brought = np.array([one.at(size) for size, one in stated]).reshape(-1, 2)
        made[rule] = Choice(np.array([size for size, _ in stated]), *brought.T)
    return made


def plans_of(problem: str, options: Options) -> list[Plan]:
    """Return one plan for each repetition: two thirds of the rows train, the others test."""
    setting = SETTINGS[problem]
    n_rows = keel_rows(setting.data)[1].size
    repetitions, n_trees = max(options.repetitions // setting.one_in, 2), setting.n_trees
    if setting.n_rows is not None:
        n_rows = setting.n_rows
    if options.smoke:
        n_trees = SMOKE_TREES
    train = round(2 * n_rows / 3)
    return [
        Plan(setting.data, train, n_trees, None, n_rows - train, options.seed, repetition)
        for repetition in range(repetitions)
    ]


def run_case(method: str, problem: str, options: Options) -> Case:
    """Grow the forests of one method on one problem and apply every rule."""
    plans = plans_of(problem, options)
    records = grow_all(options.cache, f"{method} mistakes", plans, METHODS[method], options.n_jobs)
    by_record = [curves(unpacked(record)[2]) for record in records]
    measured = mean_curves(by_record)
    return Case(records, choose(method, plans, records, by_record), measured, needed_size(measured))


def pruned(votes: BoolArray, rule: str) -> tuple[float, float, float]:
    """Return the trees asked by a row, the rows (%) with another label than the whole ensemble's, and the error (%).

    The votes are wrong ones, of shape (n_trees, n_rows), in the order in which trees are asked.
    """
    bounds = stopping_table(uniform_prior(votes.shape[0]), checkpoints(votes.shape[0]), CONFIDENCE, rule)
    totals = np.cumsum(votes, axis=0)[bounds.checkpoints - 1]
    settled = np.array([bounds.settled(place, total) for place, total in enumerate(totals)])
    first = settled.argmax(axis=0)
    asked = bounds.checkpoints[first]
    is_wrong = 2 * totals[first, np.arange(first.size)] > asked
    whole = 2 * totals[-1] > votes.shape[0]
    return float(asked.mean()), 100.0 * float(np.mean(is_wrong != whole)), 100.0 * float(np.mean(is_wrong))


TRIED = "nothing, for the rule is as published; see the table of the sizes that differ, and the few repetitions."
TRIED_OURS = "nothing: there is nothing to tune."
TRIED_RANKS = "nothing: 14 of the paper's 25 problems, whose own figures on these 14 are in the table of ranks."


def claims(method: str, cases: Mapping[str, Case]) -> list[Claim]:
    """List the targets for one method, over problems."""
    made = []
    for rule in ("Test", "OOB", "ours"):
        tried = TRIED_OURS if rule == "ours" else TRIED
        value, se = mean_and_se(np.array([case.choices[rule].disagreement.mean() for case in cases.values()]))
        measure = f"{method}, {rule}: disagreement, mean over problems (%)"
        made.append(Claim(measure, value, se, low=0.8, high=1.2, tried=tried))
        off = [
            np.log2(np.median(case.choices[rule].sizes) / case.needed)
            for case in cases.values()
            if np.isfinite(case.needed)
        ]
        measure = f"{method}, {rule}: rms of log2 of the median size over the one needed"
        made.append(Claim(measure, root_mean_square(off), high=0.5, tried=tried))
    for rule in ("Test", "OOB"):
        inside = [is_as_printed(method, problem, rule, case) for problem, case in cases.items()]
        measure = f"{method}, {rule}: problems whose median size is within the paper's quartiles (%)"
        made.append(Claim(measure, 100.0 * float(np.mean(inside)), low=75.0, digits=0, tried=TRIED))
    ratios = [
        case.choices["BAN"].disagreement.mean() / case.choices["OOB"].disagreement.mean() for case in cases.values()
    ]
    measure = f"{method}: BAN's disagreement over OOB's, mean over problems"
    made.append(Claim(measure, float(np.mean(ratios)), low=1.5, tried=TRIED))
    ranks = dict(zip(RANKED, average_ranks(own_errors(cases, RANKED)), strict=True))
    measure = f"{method}: BAN's average rank less OOB's, over the critical difference"
    value = (ranks["BAN"] - ranks["OOB"]) / nemenyi_distance(len(RANKED), len(cases))
    return [*made, Claim(measure, float(value), low=1.0, tried=TRIED_RANKS)]


def law_claims(where: Where, measured: Law) -> list[Claim]:
    """List the targets for Fig. 4."""
    name = ", ".join(where)
    measure = f"{name}: disagreement over the law's (eq. 14)"
    ratio, se = measured.disagreement_ratio, measured.disagreement_ratio_se
    return [
        Claim(f"{name}: slope of log disagreement in log size", measured.slope, None, -0.55, -0.45, 3, TRIED_OURS),
        Claim(measure, ratio, se, low=0.9, high=1.1, tried=TRIED_OURS),
    ]


def is_as_printed(method: str, problem: str, rule: str, case: Case) -> bool:
    """Whether the median size is within the paper's quartiles."""
    printed = PAPER[method, problem]
    return bool(printed[f"low {rule}"] <= np.median(case.choices[rule].sizes) <= printed[f"high {rule}"])


def own_errors(cases: Mapping[str, Case], rules: Sequence[str]) -> FloatArray:
    """Return the mean test errors (%) of rules, shape (n_problems, n_rules)."""
    return np.array(
        [
            [case.curves.limit if rule == "∞" else case.choices[rule].error.mean() for rule in rules]
            for case in cases.values()
        ]
    )


def printed_errors(method: str, problems: Sequence[str]) -> FloatArray:
    """Return the paper's mean test errors (%) of its rules, shape (n_problems, 4)."""
    return np.array([[PAPER[method, problem][f"error {rule}"] for rule in RANKED] for problem in problems])


def size_table(method: str, cases: Mapping[str, Case]) -> str:
    """Tables 2 to 4 for one method: the paper's figures above ours."""
    lines = []
    for problem, case in cases.items():
        printed = PAPER[method, problem]
        cells = [
            f"{printed[f'disagreement {rule}']:.1f}; {printed[f'median {rule}']:.0f} ({printed[f'low {rule}']:.0f}-"
            f"{printed[f'high {rule}']:.0f}); {printed[f'error {rule}'] - printed['error ∞']:+.2f}"
            for rule in PAPERS_RULES
        ]
        lines.append([f"**{problem}**, paper", f"{printed['error ∞']:.1f}", *cells, "", "", ""])
        cells = [_shown(case, rule) for rule in RULES]
        lines.append([f"{problem}, here", f"{case.curves.limit:.1f}", *cells, _shown_size(case.needed)])
    return table([method, "error at ∞ (%)", *PAPERS_RULES, "ours", "`agreement`", "needed"], lines)


def _shown(case: Case, rule: str) -> str:
    choice = case.choices[rule]
    n_stated, n_all = choice.sizes.size, len(case.records)
    if not n_stated:
        return f"none of {n_all}"
    low, median, high = np.percentile(choice.sizes, [25, 50, 75])
    excess = np.mean(choice.error) - case.curves.limit
    shown = f"{choice.disagreement.mean():.2f}; {median:.0f} ({low:.0f}-{high:.0f}); {excess:+.2f}"
    return shown if n_stated == n_all else f"{shown}, {n_stated} of {n_all}"


def _shown_size(size: float) -> str:
    return f"{size:.0f}" if np.isfinite(size) else "more"


def differences(cases: Mapping[Where, Case]) -> list[list[str]]:
    """List the sizes outside the paper's quartiles, and what the proxy says about the paper's and about ours."""
    lines = []
    for (method, problem), case in cases.items():
        printed = PAPER[method, problem]
        for rule in ("Test", "OOB"):
            if is_as_printed(method, problem, rule, case):
                continue
            theirs, own = printed[f"median {rule}"], float(np.median(case.choices[rule].sizes))
            apart = [case.curves.at(size)[0] for size in (theirs, own)]
            nearer = ("paper's", "ours")[int(np.argmin(np.abs(np.log(apart))))]
            sizes = [f"{size:.0f}: {value:.2f}" for size, value in zip((theirs, own), apart, strict=True)]
            lines.append([f"{method}, {problem}, {rule}", *sizes, _shown_size(case.needed), nearer])
    return lines


def rank_table(method: str, cases: Mapping[str, Case]) -> str:
    """Fig. 5 for one method: average ranks of the test errors, and which are further apart than the test allows."""
    every = [problem for own, problem in PAPER if own == method]
    lines = [
        rank_row(f"paper, {len(every)} problems", RANKED, printed_errors(method, every)),
        rank_row(f"paper, these {len(cases)}", RANKED, printed_errors(method, list(cases))),
        rank_row("here", RANKED, own_errors(cases, RANKED)),
        rank_row("here, with ours", (*RANKED, "ours"), own_errors(cases, (*RANKED, "ours"))),
    ]
    header = [f"{method}, average rank", *RANKED, "ours", "Friedman's p", "critical difference", "further apart"]
    return table(header, lines)


def rank_row(name: str, rules: Sequence[str], errors: FloatArray) -> list[str]:
    """Return one line of the table of ranks for errors of shape (n_problems, n_rules)."""
    ranks = average_ranks(errors)
    distance = nemenyi_distance(len(rules), errors.shape[0])
    shown = [f"{rank:.2f}" for rank in ranks] + [""] * (len(RANKED) + 1 - len(rules))
    apart = ", ".join(f"{one}-{other}" for one, other in pairs_apart(rules, ranks, distance))
    p_value = float(friedmanchisquare(*errors.T).pvalue)
    return [name, *shown, f"{p_value:.1g}", f"{distance:.2f}", apart or "none"]


def pairs_apart(rules: Sequence[str], ranks: FloatArray, distance: float) -> list[tuple[str, str]]:
    """Return the pairs of rules whose average ranks are further apart than the critical difference."""
    by_rule = dict(zip(rules, ranks, strict=True))
    return [
        (one, other)
        for one, other in combinations(rules, 2)
        if abs(float(by_rule[one]) - float(by_rule[other])) > distance
    ]


def alpha_table(cases: Mapping[Where, Case]) -> str:
    """Fig. 6: median size from out-of-bag votes, disagreement and test error for several confidences."""
    lines = []
    for (method, problem), case in cases.items():
        if problem not in ALPHA_PROBLEMS:
            continue
        cells = []
        for alpha in ALPHAS:
            sizes = [grown_size(*unpacked(record)[:2], alpha) for record in case.records]
            apart, error = np.mean([case.curves.at(size) for size in sizes], axis=0)
            cells.append(f"{np.median(sizes):.0f}; {apart:.1f}; {error:.2f}")
        lines.append([f"{method}, {problem}", *cells, f"{case.curves.limit:.2f}"])
    return table(["size; disagreement; error (%)", *(f"alpha = {alpha:.1%}" for alpha in ALPHAS), "error at ∞"], lines)


def pruning_table(cases: Mapping[Where, Case]) -> str:
    """What Tables 5 and 6 compare: pruned forests of the size from out-of-bag votes, and of 101 trees."""
    lines = []
    for (method, problem), case in cases.items():
        if method != "random forest" or problem not in PRUNED_PROBLEMS:
            continue
        for kind, sizes in (("T*", case.choices["OOB"].sizes), ("101", np.full(len(case.records), USUAL_SIZE))):
            tests = [unpacked(record)[2][: int(size)] for record, size in zip(case.records, sizes, strict=True)]
            whole = 100.0 * float(np.mean([np.mean(2 * test.sum(axis=0) > test.shape[0]) for test in tests]))
            found = [np.mean([pruned(test, rule) for test in tests], axis=0) for rule in PRUNING_RULES]
            cells = [f"{asked:.0f}; {others:.2f}; {error:.2f}" for asked, others, error in found]
            lines.append(
                [f"{problem}, {kind}", f"{np.mean([test.shape[0] for test in tests]):.0f}", f"{whole:.2f}", *cells]
            )
    return table(["random forest", "trees", "error (%)", "[16], the whole ensemble", "[17], the infinite one"], lines)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 9, arguments)
    without_data = missing_keel()
    problems = [] if without_data else ["breast", "german", "votes"] if options.smoke else list(SETTINGS)
    cases = {(method, problem): run_case(method, problem, options) for method in METHODS for problem in problems}
    by_method = {
        method: {problem: case for (own, problem), case in cases.items() if own == method}
        for method in METHODS
        if problems
    }
    made = [claim for method, found in by_method.items() for claim in claims(method, found)]
    for where, case in cases.items():
        if where[1] in LAW_PROBLEMS:
            made += law_claims(where, law(case.records))
    tables = [size_table(*one) for one in by_method.items()]
    tables += [rank_table(*one) for one in by_method.items()]
    if cases:
        found = differences(cases)
        share = 100.0 * float(np.mean([line[-1] == "ours" for line in found]))
        made.append(
            Claim(f"sizes outside the paper's quartiles ({len(found)}): ours nearer to 1 % (%)", share, digits=0)
        )
        tables.append(table(["outside the quartiles", "paper", "here", "needed", "nearer to 1 %"], found))
        tables += [alpha_table(cases), pruning_table(cases)]
    return conclude(__name__, options, made, tables, without_data)
