"""Training rows passed as held out, which are refused, and fresh rows, which are not.

Section 14 of the methods. Fresh rows: 100 to 1000 training rows and 20 to 200 others of the same problem, ensembles
of 100 members; refused as training rows. Shuffled: so many training rows in random order, 100 fully grown trees. A
part: 200 rows, of which that share are training rows and the others are fresh, in random order; forests of 200 trees
on 600 rows of the noisy logistic problem or two thirds of bundled data. The standard errors are binomial.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import circle, noisy_logistic, twonorm
from benchmarks.shared.results import Claim, conclude
from ens_plugin.errors import EnsPluginError

Array = NDArray[Any]
Rows = tuple[Array, Array]
Grow = Callable[[Rows, int], Any]

N_TREES = 100
N_PASSED = 200
PARTS = (0.2, 0.4, 0.6, 0.8)


def few_values(n_rows: int, rng: np.random.Generator) -> Rows:
    X = rng.integers(0, 4, (n_rows, 4)).astype(np.float64)
    return X, np.asarray(X[:, 0] + X[:, 1] > 3, dtype=np.int64)


def one_column(n_rows: int, rng: np.random.Generator) -> Rows:
    X = rng.normal(size=(n_rows, 1))
    return X, np.asarray(np.sin(3.0 * X[:, 0]) > 0, dtype=np.int64)


def measured_again(n_rows: int, rng: np.random.Generator) -> Rows:
    """Draw rows of subjects that do not change from draw to draw, measured with a small error."""
    subjects = np.random.default_rng(1).normal(size=(60, 4))
    subject = rng.integers(0, 60, n_rows)
    return subjects[subject] + 0.02 * rng.normal(size=(n_rows, 4)), np.asarray(subject % 2, dtype=np.int64)


PROBLEMS: dict[str, Callable[[int, np.random.Generator], Rows]] = {
    "twonorm": twonorm,
    "circle": circle,
    "noisy logistic": noisy_logistic,
    "four columns of four values": few_values,
    "one column": one_column,
    "repeated measurements": measured_again,
}


def forest(kind: Any, rows: Rows, seed: int) -> Any:
    return kind(N_TREES, bootstrap=True, random_state=seed).fit(*rows)


def neighbours(rows: Rows, seed: int) -> Any:
    return BaggingClassifier(KNeighborsClassifier(1), N_TREES, random_state=seed).fit(*rows)


LEARNERS: dict[str, Grow] = {
    "random forest": partial(forest, RandomForestClassifier),
    "extra trees": partial(forest, ExtraTreesClassifier),
    "bagged nearest neighbours": neighbours,
}
SHUFFLED: dict[str, tuple[Any, int]] = {
    "breast cancer, 300 rows": (load_breast_cancer, 300),
    "breast cancer, 100 rows": (load_breast_cancer, 100),
    "iris, 100 rows": (load_iris, 100),
}
SOURCES: dict[str, Callable[[], Rows] | None] = {
    "ten real columns": None,
    "breast cancer": partial(load_breast_cancer, return_X_y=True),
    "digits": partial(load_digits, return_X_y=True),
}


def is_refused(model: Any, X: Array, y: Array) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ens_plugin.analyze(model, X, y, data="holdout")
        except EnsPluginError as error:
            return "rows the model was trained on" in str(error)
    return False


def fresh_rows(problem: str, learner: str, seed: int) -> bool:
    rng = np.random.default_rng([seed, *problem.encode(), *learner.encode()])
    n_rows, n_fresh = int(10 ** rng.uniform(2.0, 3.0)), int(20 * 10 ** rng.uniform(0.0, 1.0))
    rows, fresh = PROBLEMS[problem](n_rows, rng), PROBLEMS[problem](n_fresh, rng)
    return is_refused(LEARNERS[learner](rows, seed), *fresh)


def shuffled_rows(load: Any, n_rows: int, seed: int) -> bool:
    rng = np.random.default_rng([seed, n_rows])
    X, y = load(return_X_y=True)
    chosen = rng.permutation(y.size)[: max(n_rows, 2 * y.size // 3)]
    model = RandomForestClassifier(N_TREES, random_state=seed).fit(X[chosen], y[chosen])
    some = rng.permutation(chosen)[:n_rows]
    return is_refused(model, X[some], y[some])


def part_of_rows(source: str, part: float, seed: int) -> bool:
    rng = np.random.default_rng([seed, int(100 * part)])
    load = SOURCES[source]
    X, y = noisy_logistic(900, rng) if load is None else load()
    order = rng.permutation(y.size)
    trained, others = order[: 2 * y.size // 3], order[2 * y.size // 3 :]
    model = RandomForestClassifier(200, random_state=seed).fit(X[trained], y[trained])
    n_trained = int(part * N_PASSED)
    passed = rng.permutation(np.append(rng.permutation(trained)[:n_trained], others[: N_PASSED - n_trained]))
    return is_refused(model, X[passed], y[passed])


def refused(options: Options, check: Callable[..., bool], cases: list[tuple[Any, ...]]) -> int:
    return int(sum(Parallel(n_jobs=options.n_jobs)(delayed(check)(*case) for case in cases)))


def fresh_section(options: Options) -> tuple[list[Claim], str]:
    lines, n_refused, n_samples = [], 0, 0
    for problem in list(PROBLEMS)[:1] if options.smoke else PROBLEMS:
        counts = []
        for learner in LEARNERS:
            cases = [(problem, learner, options.seed + index) for index in range(options.repetitions)]
            counts.append(refused(options, fresh_rows, cases))
            n_samples += len(cases)
        n_refused += sum(counts)
        lines.append([problem, *(f"{count} of {options.repetitions}" for count in counts)])
    claim = Claim(f"{n_samples} samples of fresh rows: refused as training rows", n_refused, None, high=0.0, digits=0)
    return [claim], table(["fresh rows that were refused", *LEARNERS], lines)


def shuffled_section(options: Options) -> list[Claim]:
    claims = []
    for name, (load, n_rows) in SHUFFLED.items():
        cases = [(load, n_rows, options.seed + index) for index in range(options.repetitions)]
        share = refused(options, shuffled_rows, cases) / len(cases)
        spread = 100.0 * math.sqrt(share * (1.0 - share) / len(cases))
        claims.append(Claim(f"{name} of the training, shuffled: refused (%)", 100.0 * share, spread, digits=0))
    return claims


def part_section(options: Options) -> str:
    lines = []
    repetitions = max(options.repetitions // 2, 1)
    for source in list(SOURCES)[:1] if options.smoke else SOURCES:
        counts = [
            refused(options, part_of_rows, [(source, part, options.seed + index) for index in range(repetitions)])
            for part in PARTS
        ]
        lines.append([source, *(f"{count} of {repetitions}" for count in counts)])
    return table(["refused, by the share of training rows", *(f"{100 * part:g} %" for part in PARTS)], lines)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 12, arguments)
    claims, text = fresh_section(options)
    claims = [*claims, *shuffled_section(options)]
    return conclude(__name__, options, claims, [text, part_section(options)])
