"""Davidson 2004: bounds for averages of bootstrapped models and the errata, and the paper's tables and figures.

Majority guesser: a share bootstrapped from n rows, T times, in each repetition; n = 20 to 500, T = 10 to 1000, shares
0.5 and 0.1. "sd of the models": the standard deviation of the T models in place of the true one, as a user has it.
Errata of the paper: section 8.2 leaves out the root of eq. 11; eq. 13 divides by the number of rows where the number
of models belongs, and is exceeded far more often than delta; its corrected form divides by sqrt(2 (T - 1) delta). The
bounds are on the distance to infinitely many bootstrap models, not to the posterior, which stays off by a share of
1/n at any T. Regions (delta = 0.05): naive Bayes on bootstrap samples of 100 simulated rows with ten Boolean
attributes, and of a tenth of the breast cancer data (joint scores of 30 normal attributes vary by orders of magnitude
from one bootstrap sample to the next, which is why so few of its rows are settled); settled where the regions of the
two joint scores are apart. T for 90 %: median of what `models_to_settle` gives for 100 models.

Belief network (section 8.3): the paper's Fig. 5 did not survive in the copy at hand, and its number of rows is not
stated; here it is the chest clinic of Lauritzen and Spiegelhalter (1988), eight Boolean variables. The structure is
known and the chances are learned, by each model as the most probable ones. A query asks for one variable where each
other one is known with a chance of 1/2. Under a uniform prior the optimal Bayes classifier is exact: it is the
network with the posterior means of its chances, so that one model with pseudo-counts of 1 does all that averaging
can.

Table 10 and its picture (Fig. 1, 4, 6 and 7): the chances that a democrat votes yes on 16 bills; the posterior is a
Beta distribution, and the divergence that of the models' shares in cells of 0.01 from it.

Tables 1 to 9: 30 random splits with the labels' shares kept, T = 100; data of KEEL, whose rows have no missing
values; trees grown by entropy to leaves of two rows or more; bagging by votes, boosting by `AdaBoostClassifier`;
numbers of crx are in five bins for naive Bayes, and its other columns are categories. Splits share rows, so that
standard errors are too small for other rows of the same kind. DECORATE (Tables 2, 5, 8 and 9) is not in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.naive_bayes import BernoulliNB, GaussianNB

from benchmarks.papers.belief_network import network_section
from benchmarks.papers.stable_learners import error_sections
from benchmarks.papers.vote_posterior import PAPER_MODELS, draw_posterior, posterior_section, vote_parameters
from benchmarks.shared.keel import missing_keel
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, mean_and_se
from ens_plugin.papers.model_averaging_2004 import (
    general_sd_bound,
    mean_bound,
    models_to_settle,
    published_sd_bound,
    sd_bound,
    settled_rows,
)

FloatArray = NDArray[np.float64]
Case = tuple[str, int, int, float]

DELTAS = (0.01, 0.05, 0.2)
MODELS = (10, 30, 100, 300, 1000)
ROWS = (20, 50, 100, 200, 500)
SHARES = (0.5, 0.1)
HOLDING = (
    "mean, eq. 11",
    "mean, eq. 11, sd of the models",
    "sd, corrected",
    "sd, corrected, sd of the models",
    "sd, any distribution",
)
PUBLISHED = "sd, as published (eq. 13)"
BLOCK = 1000

# Section 8.2: n, T, delta, and the standard deviation the paper gives.
EXAMPLE_ROWS, EXAMPLE_MODELS, EXAMPLE_DELTA, EXAMPLE_SD = 50, 250, 0.05, 0.057

REGION_MODELS = (25, 100, 400)
REGION_REFERENCE = 4000
REGION_SETS = 10

# Section 8.3: the paper's number of models and of sets of queries; Tables 1 to 9: its number of models.
N_NETWORKS, N_QUERY_SETS = 500, 100
N_MODELS, N_SPLITS = 100, 30
MANY_MODELS = 3000


def bootstrap_share(n_rows: int, share: float, n_models: int, repetitions: int, rng: np.random.Generator) -> FloatArray:
    """Draw the majority guesser's parameter from bootstrap samples, shape (repetitions, n_models)."""
    return np.asarray(rng.binomial(n_rows, share, size=(repetitions, n_models)) / n_rows)


def misses(draws: FloatArray, n_rows: int, share: float, delta: float) -> dict[str, NDArray[np.bool_]]:
    """Whether each bound is exceeded, by repetition."""
    n_models = draws.shape[1]
    variance = share * (1.0 - share)
    sd = np.sqrt(variance / n_rows)
    kurtosis = (1.0 - 6.0 * variance) / (n_rows * variance)
    own = draws.std(axis=1, ddof=1)
    mean_off, sd_off = np.abs(draws.mean(axis=1) - share), np.abs(own - sd)
    return {
        HOLDING[0]: mean_off > mean_bound(sd, n_models, delta),
        HOLDING[1]: mean_off > mean_bound(own, n_models, delta),
        HOLDING[2]: sd_off > sd_bound(sd, n_models, delta),
        HOLDING[3]: sd_off > sd_bound(own, n_models, delta),
        HOLDING[4]: sd_off > general_sd_bound(sd, n_models, delta, kurtosis),
        PUBLISHED: sd_off > published_sd_bound(sd, n_models, n_rows, delta),
    }


def exceedance(repetitions: int, seed: int) -> dict[Case, float]:
    """Share of repetitions that exceed each bound, by (bound, models, rows, delta); the worse of the two shares."""
    found: dict[Case, float] = {}
    for n_rows in ROWS:
        for number, share in enumerate(SHARES):
            counts: dict[Case, int] = {}
            for start in range(0, repetitions, BLOCK):
                rng = np.random.default_rng([seed, n_rows, number, start])
                draws = bootstrap_share(n_rows, share, max(MODELS), min(BLOCK, repetitions - start), rng)
                _count(counts, draws, n_rows, share)
            for case, count in counts.items():
                found[case] = max(found.get(case, 0.0), count / repetitions)
    return found


def _count(counts: dict[Case, int], draws: FloatArray, n_rows: int, share: float) -> None:
    for n_models in MODELS:
        for delta in DELTAS:
            for bound, missed in misses(draws[:, :n_models], n_rows, share, delta).items():
                case = (bound, n_models, n_rows, delta)
                counts[case] = counts.get(case, 0) + int(np.count_nonzero(missed))


def bound_claims(found: Mapping[Case, float]) -> list[Claim]:
    """Every bound that should hold, at every chance: the worst over models, rows and shares."""
    made = []
    for bound in HOLDING:
        for delta in DELTAS:
            worst = max(value for case, value in found.items() if case[0] == bound and case[3] == delta)
            measure = f"{bound}, delta = {delta:g}: largest share of repetitions above the bound"
            made.append(Claim(measure, worst, None, high=delta, digits=4))
    return made


def published_table(found: Mapping[Case, float]) -> str:
    """How often the published bound on the standard deviation is exceeded, by rows and chance, over models."""
    lines = []
    for n_rows in ROWS:
        cells = []
        for delta in DELTAS:
            values = [value for case, value in found.items() if case[0] == PUBLISHED and case[2:] == (n_rows, delta)]
            cells.append(f"{100 * min(values):.0f} to {100 * max(values):.0f}")
        lines.append([f"n = {n_rows}", *cells])
    return table(["eq. 13 exceeded (%), T = 10 to 1000", *(f"delta = {delta:g}" for delta in DELTAS)], lines)


def errata_table(repetitions: int, seed: int) -> str:
    """Tabulate the printed bounds and how often they are exceeded (section 8.2)."""
    rng = np.random.default_rng([seed, EXAMPLE_ROWS])
    draws = bootstrap_share(EXAMPLE_ROWS, 0.5, EXAMPLE_MODELS, repetitions, rng)
    sd = float(np.sqrt(0.25 / EXAMPLE_ROWS))
    mean_off, sd_off = np.abs(draws.mean(axis=1) - 0.5), np.abs(draws.std(axis=1, ddof=1) - sd)
    t_delta = EXAMPLE_MODELS * EXAMPLE_DELTA
    given = (EXAMPLE_MODELS, EXAMPLE_DELTA)
    published = (EXAMPLE_MODELS, EXAMPLE_ROWS, EXAMPLE_DELTA)
    lines = [
        ("mean: printed 0.057 / 12.5 (the root is missing)", EXAMPLE_SD / t_delta, mean_off, "3.3"),
        ("mean: eq. 11 with the paper's 0.057", float(mean_bound(EXAMPLE_SD, *given)), mean_off, ""),
        ("mean: eq. 11 with the bootstrap's sd 0.0707", float(mean_bound(sd, *given)), mean_off, ""),
        ("sd: printed, eq. 13 with 0.057", float(published_sd_bound(EXAMPLE_SD, *published)), sd_off, "3.8"),
        ("sd: corrected, with 0.0707", float(sd_bound(sd, *given)), sd_off, ""),
    ]
    cells = [
        [name, f"{bound:.5f}", paper, _percent(np.mean(off > bound), repetitions)] for name, bound, off, paper in lines
    ]
    return table(["section 8.2: n = 50, T = 250, delta = 0.05", "bound", "exceeded, paper (%)", "here (%)"], cells)


def _percent(share: Any, repetitions: int) -> str:
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / repetitions):.1f}"


def joint_scores(kind: str, n_models: int, rng: np.random.Generator) -> FloatArray:
    """Log joint scores of naive Bayes models on bootstrap samples, shape (n_models, n_rows, n_labels)."""
    features, y, test = _data(kind, rng)
    learner = BernoulliNB() if kind == "Boolean attributes" else GaussianNB()
    scores: list[FloatArray] = []
    while len(scores) < n_models:
        rows = rng.integers(y.size, size=y.size)
        if np.unique(y[rows]).size == 2:
            scores.append(learner.fit(features[rows], y[rows]).predict_joint_log_proba(test))
    return np.asarray(scores)


def _data(kind: str, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.int64], FloatArray]:
    """Training rows, their labels, and test rows: 100 and 400 with ten Boolean attributes, or a tenth and the rest."""
    if kind == "Boolean attributes":
        chance = rng.uniform(0.2, 0.8, size=(2, 10))
        y = rng.integers(2, size=500)
        features = (rng.random((500, 10)) < chance[y]).astype(np.float64)
        return features[:100], y[:100], features[100:]
    features, y = load_breast_cancer(return_X_y=True)
    order = rng.permutation(y.size)
    some, rest = order[: y.size // 10], order[y.size // 10 :]
    return features[some], y[some], features[rest]


def region_sections(n_sets: int, reference: int, seed: int) -> tuple[list[Claim], str]:
    """Settled labels of naive Bayes against those of many more models."""
    made, lines = [], []
    for number, kind in enumerate(("Boolean attributes", "breast cancer")):
        settled: dict[int, list[float]] = {}
        wrong: dict[int, list[float]] = {}
        needed = []
        for repetition in range(n_sets):
            rng = np.random.default_rng([seed, number, repetition])
            scores = joint_scores(kind, reference, rng)
            labels = _labels(scores)
            needed.append(models_to_settle(scores[: REGION_MODELS[1]], 0.9) or np.inf)
            for n_models in REGION_MODELS:
                done = settled_rows(scores[:n_models])
                differ = _labels(scores[:n_models]) != labels
                settled.setdefault(n_models, []).append(float(done.mean()))
                wrong.setdefault(n_models, []).append(float(np.sum(done & differ) / max(int(done.sum()), 1)))
        for n_models in REGION_MODELS:
            value, se = mean_and_se(wrong[n_models])
            measure = f"{kind}, T = {n_models}: settled labels that differ from {reference} models'"
            made.append(Claim(measure, value, se, high=0.05, digits=4))
        cells = [f"{100 * np.mean(settled[n_models]):.1f}" for n_models in REGION_MODELS]
        lines.append([kind, *cells, f"{np.median(needed):.0f}"])
    header = ["rows settled (%), naive Bayes", *(f"T = {n_models}" for n_models in REGION_MODELS), "T for 90 %"]
    return made, table(header, lines)


def _labels(scores: FloatArray) -> NDArray[np.int64]:
    relative = np.exp(scores - scores.max(axis=(0, 2))[None, :, None])
    return np.asarray(np.argmax(relative.sum(axis=0), axis=1))


def paper_sections(options: Options) -> tuple[list[Claim], list[str]]:
    """Measure what the paper tabulates and draws; the picture is written unless this is a smoke run."""
    repetitions, n_models = (2, 20) if options.smoke else (N_QUERY_SETS, N_NETWORKS)
    claims, network = network_section(repetitions, n_models, options.seed)
    if missing := missing_keel():
        return claims, [network, f"Table 10 and the tables of errors need data: {missing}."]
    posterior, table_10 = posterior_section(30 if options.smoke else MANY_MODELS, options.seed)
    n_splits, n_models = (2, 5) if options.smoke else (N_SPLITS, N_MODELS)
    errors, tables = error_sections(n_splits, n_models, options.seed)
    if not options.smoke:
        draw_posterior(vote_parameters(PAPER_MODELS, options.seed))
    return [*claims, *posterior, *errors], [network, table_10, *tables]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 10_000, arguments, smoke=100)
    found = exceedance(options.repetitions, options.seed)
    n_sets, reference = (2, 500) if options.smoke else (REGION_SETS, REGION_REFERENCE)
    regions, region_table = region_sections(n_sets, reference, options.seed)
    claims, tables = paper_sections(options)
    errata = errata_table(options.repetitions, options.seed)
    return conclude(
        __name__,
        options,
        bound_claims(found) + regions + claims,
        [errata, published_table(found), region_table, *tables],
    )
