"""Searches without folds, by out-of-bag error at infinity, against five-fold cross-validation.

12 settings drawn at random of 3 parameters of random forests (max_features, min_samples_leaf, max_depth), 100 trees
each. Without folds: `GridSearchCV(..., scoring=make_oob_scorer(), cv=OneFold())`; with folds: `cv=5`, accuracy or
mean squared error. Both in one process, without the last fit. The test error of a setting is the mean over 3 forests
of other seeds, trained on all training rows, on 4000 fresh rows or on the other half of real data. The error of the
choice is compared with those of the best setting and of the median one. Rank correlations are Spearman's, of the
scores with minus the test errors, 0 where all scores are equal. If the estimate cost nothing, the ratio of the
seconds would be about four: five fits, each on four fifths of the rows.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import joblib
import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV, ParameterSampler
from tqdm import tqdm

from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import FORMULAS, REAL_DATA, friedman1
from benchmarks.shared.results import Claim, conclude, mean_and_se
from ens_plugin.errors import EnsPluginWarning
from ens_plugin.oob.search import OneFold, make_oob_scorer

FloatArray = NDArray[np.float64]
Array = NDArray[Any]
Sample = tuple[Array, Array]

N_SETTINGS, N_TREES, TEST_ROWS, TRUTH_FORESTS, FOLDS = 12, 100, 4000, 3, 5
SPACE = {
    "max_features": [1, "sqrt", 0.3, 0.6, 1.0],
    "min_samples_leaf": [1, 2, 5, 10, 20],
    "max_depth": [2, 4, 8, 16, None],
}


def unbalanced(*shares: float) -> Callable[[int, np.random.Generator], Sample]:
    """Labels in these shares; one problem for each draw."""

    def sample(n_rows: int, rng: np.random.Generator) -> Sample:
        X, y = make_classification(
            n_rows, 12, n_informative=6, n_classes=len(shares), weights=list(shares), flip_y=0.03, class_sep=0.8,
            random_state=int(rng.integers(2**31)),
        )  # fmt: skip
        return np.asarray(X), np.asarray(y)

    return sample


GENERATED: dict[str, Callable[[int, np.random.Generator], Sample]] = {
    "twonorm": FORMULAS["twonorm"].sample,
    "noisy logistic": FORMULAS["noisy logistic"].sample,
    "hard/easy mixture": FORMULAS["hard/easy mixture"].sample,
    "1 in 10": unbalanced(0.9, 0.1),
    "1 in 25": unbalanced(0.96, 0.04),
    "70, 25 and 5 %": unbalanced(0.7, 0.25, 0.05),
    "friedman1": friedman1,
}
# Of real data, half of the rows; the others are for the test.
TRAINING_ROWS = {
    "breast cancer": 284, "digits": 898, "diabetes": 221, "twonorm": 300, "noisy logistic": 500,
    "hard/easy mixture": 500, "1 in 10": 600, "1 in 25": 1000, "70, 25 and 5 %": 600, "friedman1": 300,
}  # fmt: skip


class Problem(NamedTuple):
    """Rows to search on, rows to test on, and the settings to choose from."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    settings: list[dict[str, Any]]
    forest: Any


class Comparison(NamedTuple):
    """Results of the two searches of one problem.

    Attributes
    ----------
    seconds : ndarray, shape (2,)
        Out of bag, by folds.
    correlation : ndarray, shape (2,)
        Spearman's, of the scores with the test errors.
    chosen : ndarray, shape (2,)
        Test error of the chosen setting.
    best, middle : float
        Test error of the best setting, and of the median one.
    """

    seconds: FloatArray
    correlation: FloatArray
    chosen: FloatArray
    best: float
    middle: float


def problem_of(name: str, seed: int, repetition: int, is_smoke: bool) -> Problem:
    rng = np.random.default_rng([seed, repetition, list(TRAINING_ROWS).index(name)])
    n_rows = 100 if is_smoke else TRAINING_ROWS[name]
    if name in REAL_DATA:
        X, y = REAL_DATA[name](return_X_y=True)
        order = rng.permutation(len(y))
        X, y = X[order], y[order]
    else:
        X, y = GENERATED[name](n_rows + (200 if is_smoke else TEST_ROWS), rng)
    kind = RandomForestRegressor if name in ("diabetes", "friedman1") else RandomForestClassifier
    settings = list(ParameterSampler(SPACE, 3 if is_smoke else N_SETTINGS, random_state=int(rng.integers(2**31))))
    forest = kind(10 if is_smoke else N_TREES, random_state=int(rng.integers(2**31)))
    return Problem(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], settings, forest)


def compare(name: str, seed: int, repetition: int, is_smoke: bool) -> Comparison:
    problem = problem_of(name, seed, repetition, is_smoke)
    by_folds = "neg_mean_squared_error" if isinstance(problem.forest, RandomForestRegressor) else "accuracy"
    searches = [
        searched(problem, scoring=make_oob_scorer(), cv=OneFold()),
        searched(problem, scoring=by_folds, cv=FOLDS),
    ]
    truth = true_errors(problem, 1 if is_smoke else TRUTH_FORESTS)
    scores = [scores for scores, _ in searches]
    return Comparison(
        seconds=np.array([seconds for _, seconds in searches]),
        correlation=np.array([rank_correlation(own, -truth) for own in scores]),
        chosen=np.array([truth[np.argmax(own)] for own in scores]),
        best=float(truth.min()),
        middle=float(np.median(truth)),
    )


def searched(problem: Problem, **options: Any) -> tuple[FloatArray, float]:
    """Scores of the settings, and the seconds of the search without the last fit."""
    grid = [{name: [value] for name, value in setting.items()} for setting in problem.settings]
    search = GridSearchCV(problem.forest, grid, refit=False, error_score="raise", **options)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        # A rare label may be missing in a fold, and a report may doubt its error; the figures show what comes of it.
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        warnings.simplefilter("ignore", EnsPluginWarning)
        search.fit(problem.X, problem.y)
    return np.asarray(search.cv_results_["mean_test_score"]), time.perf_counter() - begun


def true_errors(problem: Problem, n_forests: int) -> FloatArray:
    """Mean test error of each setting over forests of other seeds."""
    errors = np.empty((len(problem.settings), n_forests))
    for place, setting in enumerate(problem.settings):
        for seed in range(n_forests):
            forest = clone(problem.forest).set_params(**setting, random_state=seed).fit(problem.X, problem.y)
            predicted = forest.predict(problem.X_test)
            is_label = isinstance(forest, RandomForestClassifier)
            errors[place, seed] = np.mean(
                predicted != problem.y_test if is_label else (predicted - problem.y_test) ** 2
            )
    return np.asarray(errors.mean(axis=1))


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's correlation; 0 where all settings of one side are equal."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


def claims(results: dict[str, list[Comparison]]) -> list[Claim]:
    """List the targets, over all data sets and repetitions."""
    found = [one for records in results.values() for one in records]
    ratio = np.array([one.seconds[1] / one.seconds[0] for one in found])
    correlation = np.array([one.correlation for one in found])
    # Relative to the range from the best to the median setting, so that data sets can be averaged.
    excess = np.array([(one.chosen - one.best) / max(one.middle - one.best, 1e-12 + 0.01 * one.best) for one in found])
    gain, gain_se = mean_and_se(correlation[:, 0] - correlation[:, 1])
    loss, loss_se = mean_and_se(excess[:, 0] - excess[:, 1])
    return [
        Claim("seconds of five folds over seconds without folds, median", float(np.median(ratio)), low=2.0),
        Claim("rank correlation with the test error, without folds, mean", *mean_and_se(correlation[:, 0])),
        Claim("rank correlation with the test error, five folds, mean", *mean_and_se(correlation[:, 1])),
        Claim("rank correlation, without folds less five folds, mean", gain, gain_se, low=-0.05),
        Claim("test error of the choice above the best, of best to median, without folds", *mean_and_se(excess[:, 0])),
        Claim("test error of the choice above the best, of best to median, five folds", *mean_and_se(excess[:, 1])),
        Claim("test error of the choice above the best, without folds less five folds", loss, loss_se, high=0.1),
    ]


def results_table(results: dict[str, list[Comparison]]) -> str:
    """One line for each data set; out of bag first, then by folds."""
    rows = []
    for name, found in results.items():
        seconds = np.median([one.seconds for one in found], axis=0)
        correlation = np.mean([one.correlation for one in found], axis=0)
        chosen = np.mean([one.chosen for one in found], axis=0)
        best, middle = np.mean([[one.best, one.middle] for one in found], axis=0)
        shown = shown_error(name)
        rows.append(
            [
                name,
                f"{seconds[0]:.1f}; {seconds[1]:.1f}",
                f"{np.median([one.seconds[1] / one.seconds[0] for one in found]):.1f}",
                f"{correlation[0]:.2f}; {correlation[1]:.2f}",
                f"{shown(chosen[0])}; {shown(chosen[1])}",
                f"{shown(best)}; {shown(middle)}",
            ]
        )
    header = [
        "without folds; five folds", "seconds", "ratio", "rank correlation", "test error of the choice",
        "best; median setting",
    ]  # fmt: skip
    return table(header, rows)


def shown_error(name: str) -> Callable[[float], str]:
    if name in ("diabetes", "friedman1"):
        return lambda error: f"{error:.4g}"
    return lambda error: f"{100 * error:.2f} %"


def run(options: Options) -> dict[str, list[Comparison]]:
    """Compare on every data set, with progress on stderr."""
    results = {}
    for name in ["1 in 10", "friedman1"] if options.smoke else TRAINING_ROWS:
        results[name] = compared(name, options)
    return results


def compared(name: str, options: Options) -> list[Comparison]:
    """Compare on one data set, once for each repetition."""
    repetitions = range(options.repetitions)
    calls = (joblib.delayed(compare)(name, options.seed, repetition, options.smoke) for repetition in repetitions)
    found = joblib.Parallel(n_jobs=options.n_jobs, return_as="generator")(calls)
    return list(tqdm(found, desc=name, total=len(repetitions), file=sys.stderr, mininterval=5))


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 10, arguments)
    results = run(options)
    return conclude(__name__, options, claims(results), [results_table(results)])
