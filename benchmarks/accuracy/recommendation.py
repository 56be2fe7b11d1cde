"""The rule behind the recommended size: what each rule costs on fresh rows, and how many trees it keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import train_test_split

import ens_plugin
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude, table
from ens_plugin.report.result import SizeRecommendation

Array = NDArray[Any]

FIRST_TREES, ALL_TREES = 100, 2000
FRESH_ROWS = 4000
N_GROUPS = 20
# Probabilities of 0 and 1 have no logarithm.
LEAST = 1e-3
RANKING = ("AUC", "average precision")
ALLOWED = {"AUC": 0.005, "average precision": 0.005, "error": 0.02, "log loss": 0.02, "Brier": 0.02}
RULES = (
    "99 % agreement",
    "error within 1 %",
    "Brier within 2 %",
    "Brier within 1 %",
    "Brier within 0.5 %",
    "Brier within 0.25 %",
    "99 % agreement and Brier within 1 %",
)
CHOSEN = "Brier within 0.5 %"
TRIED = "other tolerances (rows of the table below); the larger of two sizes, by the agreement and by the Brier score."


class Outcome(NamedTuple):
    """What the cuts by all rules lose on one data set under one seed.

    Attributes
    ----------
    sizes : dict of str to int
        Trees kept by each rule.
    losses : dict of str to dict of str to float
        By rule and measure: how much worse than all trees, relative to them for losses, absolute for rankings.
    noise : dict of str to dict of str to float
        Standard error of each over the fresh rows, by a jackknife over groups of them.
    """

    sizes: dict[str, int]
    losses: dict[str, dict[str, float]]
    noise: dict[str, dict[str, float]]


def _real(loader: Any, change: Any = None) -> Any:
    def rows(seed: int) -> tuple[Array, Array, Array, Array]:
        features, labels = loader(return_X_y=True)
        if change is not None:
            features, labels = change(features, labels, np.random.default_rng(seed))
        found = train_test_split(features, labels, test_size=0.5, random_state=seed, stratify=labels)
        return found[0], found[2], found[1], found[3]

    return rows


def _made(n_rows: int, **options: Any) -> Any:
    def rows(seed: int) -> tuple[Array, Array, Array, Array]:
        features, labels = datasets.make_classification(n_rows + FRESH_ROWS, random_state=seed, **options)
        return features[:n_rows], labels[:n_rows], features[n_rows:], labels[n_rows:]

    return rows


def _gaussians(n_labels: int, spread: float) -> Any:
    def rows(seed: int) -> tuple[Array, Array, Array, Array]:
        rng = np.random.default_rng(seed)
        centres = np.random.default_rng(5).standard_normal((n_labels, 6)) * spread
        labels = rng.integers(0, n_labels, 1500 + FRESH_ROWS)
        features = centres[labels] + rng.standard_normal((labels.size, 6))
        return features[:1500], labels[:1500], features[1500:], labels[1500:]

    return rows


def _few_malignant(features: Array, labels: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    few = rng.permutation(np.flatnonzero(labels == 0))[:30]
    kept = np.concatenate([np.flatnonzero(labels == 1), few])
    return features[kept], labels[kept]


def _is_eight(features: Array, labels: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return features, (labels == 8).astype(int)


def _highest_tenth(features: Array, target: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return features, (target > np.quantile(target, 0.9)).astype(int)


def _above_median(features: Array, target: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    return features, (target > np.median(target)).astype(int)


DATA = {
    "breast cancer": _real(datasets.load_breast_cancer),
    "breast cancer, 30 malignant": _real(datasets.load_breast_cancer, _few_malignant),
    "digits": _real(datasets.load_digits),
    "digits, 8 against the rest": _real(datasets.load_digits, _is_eight),
    "wine": _real(datasets.load_wine),
    "diabetes, highest tenth": _real(datasets.load_diabetes, _highest_tenth),
    "diabetes, above the median": _real(datasets.load_diabetes, _above_median),
    "3 % positives": _made(2000, n_features=15, n_informative=8, weights=[0.97], flip_y=0.0, class_sep=0.8),
    "10 % positives, noisy": _made(1500, n_features=15, n_informative=6, weights=[0.9], flip_y=0.05),
    "30 % positives, very noisy": _made(1000, n_features=20, n_informative=5, weights=[0.7], flip_y=0.3),
    "1 % positives": _made(5000, n_features=10, n_informative=6, weights=[0.99], flip_y=0.0),
    "five labels, uneven": _made(
        1500, n_features=15, n_informative=8, n_classes=5, n_clusters_per_class=1, weights=[0.5, 0.25, 0.15, 0.07, 0.03]
    ),
    "12 Gaussians": _gaussians(12, 1.4),
    "26 Gaussians": _gaussians(26, 1.2),
}


def measured(probabilities: Array, labels: Array) -> Array:
    """Return every measure of some probabilities, in the order of ALLOWED; greater is worse."""
    truth = np.eye(probabilities.shape[1])[labels]
    columns = [1] if probabilities.shape[1] == 2 else range(probabilities.shape[1])
    present = [column for column in columns if 0 < truth[:, column].sum() < labels.size]
    rankings = [
        1.0 - np.mean([score(truth[:, column], probabilities[:, column]) for column in present])
        for score in (roc_auc_score, average_precision_score)
    ]
    of_truth = np.clip(probabilities, LEAST, 1.0)[np.arange(labels.size), labels]
    return np.array(
        [
            *rankings,
            np.mean(probabilities.argmax(axis=1) != labels),
            -np.log(of_truth).mean(),
            ((probabilities - truth) ** 2).sum(axis=1).mean(),
        ]
    )


def lost(cut: Array, whole: Array) -> Array:
    """Return how much worse a cut is: by the difference for rankings, relative to all trees for losses."""
    relative = cut / np.maximum(whole, 1e-12) - 1.0
    return np.where([name in RANKING for name in ALLOWED], cut - whole, relative)


def compared(cut: Array, whole: Array, labels: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return what a cut loses in every measure, and its standard error over the rows."""
    group = rng.permutation(labels.size) % N_GROUPS
    left_out = [
        lost(measured(cut[group != each], labels[group != each]), measured(whole[group != each], labels[group != each]))
        for each in range(N_GROUPS)
    ]
    noise = np.std(left_out, axis=0) * math.sqrt(N_GROUPS - 1)
    return lost(measured(cut, labels), measured(whole, labels)), noise


def sizes_by_rule(forest: RandomForestClassifier, features: Array, labels: Array) -> dict[str, int]:
    """Return how many trees each rule recommends, from the out-of-bag rows of the first trees."""
    reports = {
        share: ens_plugin.analyze(forest, features, labels, tolerance=share / 100.0) for share in (2.0, 1.0, 0.5, 0.25)
    }

    def size(share: float, criterion: str) -> int:
        found: SizeRecommendation | None = next(
            (each for each in reports[share].criteria if each.criterion == criterion), None
        )
        return ALL_TREES if found is None or found.size is None else min(found.size, ALL_TREES)

    agreement = size(1.0, "agreement")
    return {
        "99 % agreement": agreement,
        "error within 1 %": size(1.0, "excess_error"),
        **{f"Brier within {share:g} %": size(share, "probability") for share in reports},
        "99 % agreement and Brier within 1 %": max(agreement, size(1.0, "probability")),
    }


def outcome(problem: str, seed: int, n_trees: int) -> Outcome:
    """Train, cut by every rule, and compare on fresh rows with all trees."""
    features, labels, fresh, fresh_labels = DATA[problem](seed)
    forest = RandomForestClassifier(FIRST_TREES, random_state=seed, warm_start=True).fit(features, labels)
    sizes = {rule: min(size, n_trees) for rule, size in sizes_by_rule(forest, features, labels).items()}
    forest.set_params(n_estimators=n_trees).fit(features, labels)
    codes = np.searchsorted(forest.classes_, fresh_labels)
    rows, total, kept = np.float32(fresh), np.zeros((codes.size, forest.classes_.size)), {}
    for number, tree in enumerate(forest.estimators_, start=1):
        total += tree.predict_proba(rows)
        if number in sizes.values() or number == n_trees:
            kept[number] = total / number
    found = {size: compared(part, kept[n_trees], codes, np.random.default_rng(0)) for size, part in kept.items()}
    losses, noise = (
        {rule: dict(zip(ALLOWED, found[size][which], strict=True)) for rule, size in sizes.items()} for which in (0, 1)
    )
    return Outcome(sizes, losses, noise)


def is_kept(found: Outcome, rule: str) -> bool:
    """Whether a cut loses no more in any measure than allowed, give or take two standard errors over the fresh rows."""
    return all(loss <= ALLOWED[name] + 2.0 * found.noise[rule][name] for name, loss in found.losses[rule].items())


def rule_row(rule: str, found: Sequence[Outcome]) -> list[str]:
    """Return what a rule keeps and loses over all data sets and seeds."""
    sizes = np.array([each.sizes[rule] for each in found])
    worst = {name: max(each.losses[rule][name] for each in found) for name in ALLOWED}
    kept = 100.0 * np.mean([is_kept(each, rule) for each in found])
    return [
        rule,
        f"{np.exp(np.mean(np.log(sizes))):.0f}",
        f"{sizes.min()} to {sizes.max()}",
        f"{kept:.0f}",
        *(f"{worst[name]:.3f}" if name in RANKING else f"{100 * worst[name]:.1f} %" for name in ALLOWED),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.accuracy.recommendation", __doc__, 10, arguments)
    problems = list(DATA)[4:5] if options.smoke else list(DATA)
    n_trees = 110 if options.smoke else ALL_TREES
    plans = [(problem, options.seed + index) for problem in problems for index in range(options.repetitions)]
    done = Parallel(n_jobs=options.n_jobs)(delayed(outcome)(problem, seed, n_trees) for problem, seed in plans)
    by_problem = {
        problem: [each for (name, _), each in zip(plans, done, strict=True) if name == problem] for problem in problems
    }
    kept = np.array([is_kept(each, CHOSEN) for each in done])
    claims = [
        Claim(
            f"{CHOSEN}: cuts that keep every measure (%)",
            100.0 * float(kept.mean()),
            100.0 * float(kept.std() / math.sqrt(kept.size)),
            95,
            digits=1,
            tried=TRIED,
        )
    ]
    sizes = [
        [problem, *(f"{np.median([each.sizes[rule] for each in found]):.0f}" for rule in RULES)]
        for problem, found in by_problem.items()
    ]
    return conclude(
        "benchmarks.accuracy.recommendation",
        options,
        [
            "## The rule behind the recommended size",
            __doc__ or "",
            f"Fully grown random forests. The size comes from the out-of-bag rows of the first {FIRST_TREES} trees, "
            f"and the cut is compared on fresh rows with {n_trees} trees that begin with the same ones. A cut keeps a "
            f"measure that is at most 2 % worse (rankings: 0.005), give or take two standard errors over fresh rows. "
            f"Log loss with probabilities of at least {LEAST:g}; AUC and average precision are means over labels.",
        ],
        claims,
        [
            table(
                ["rule", "trees (geometric mean)", "range", "kept (%)", *(f"worst {name}" for name in ALLOWED)],
                [rule_row(rule, done) for rule in RULES],
            ),
            table(["median trees", *RULES], sizes),
        ],
    )


if __name__ == "__main__":
    print(main())
