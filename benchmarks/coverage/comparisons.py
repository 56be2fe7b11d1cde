"""Differences of two ensembles on the same out-of-bag rows: how often the intervals hold, and how wide they are.

Two forests of 60 trees on the same 300 rows, which are drawn anew for each pair, compared on these rows as the gate
does. The truth is the difference of both forests' errors on 4000 fresh rows. Held: the 95 % interval holds it. The
ratio is the mean squared error of the estimated difference over the mean squared half-width / 1.96 of the interval: 1
where the interval is as wide as it must be, less where it is wider. Standard errors of shares are binomial.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import Sample, friedman1, hard_easy_mixture, noisy_logistic
from benchmarks.shared.results import Claim, conclude
from ens_plugin.analysis import analyze_rows
from ens_plugin.registry.evidence import compare_pairs
from ens_plugin.tracking.digest import Measurement

Array = NDArray[Any]

N_TREES, N_ROWS, N_FRESH = 60, 300, 4000


class Pair(NamedTuple):
    """Two settings of a forest, and how rows are drawn.

    Attributes
    ----------
    draw : callable
    kind : type
        Of the forests.
    baseline, candidate : dict
        Settings.
    """

    draw: Callable[[int, np.random.Generator], Sample | tuple[Array, Array]]
    kind: Any
    baseline: dict[str, Any]
    candidate: dict[str, Any]


PAIRS = {
    "labels, noisy logistic: full trees and depth 3": Pair(
        noisy_logistic, RandomForestClassifier, {}, {"max_depth": 3}
    ),
    "labels, noisy logistic: all features": Pair(noisy_logistic, RandomForestClassifier, {}, {"max_features": None}),
    "labels, hard/easy mixture: full trees and depth 3": Pair(
        hard_easy_mixture, RandomForestClassifier, {}, {"max_depth": 3}
    ),
    "values, Friedman 1: full trees and depth 4": Pair(friedman1, RandomForestRegressor, {}, {"max_depth": 4}),
    "values, Friedman 1: a third of the features": Pair(friedman1, RandomForestRegressor, {}, {"max_features": 1 / 3}),
    "values, Friedman 1: full trees and leaves of 20": Pair(
        friedman1, RandomForestRegressor, {}, {"min_samples_leaf": 20}
    ),
}


def compared(name: str, seed: int) -> tuple[float, float, float, float]:
    """Return the true difference, its estimate, and the ends of the interval."""
    pair = PAIRS[name]
    rng = np.random.default_rng([seed, *name.encode()])
    X, y = pair.draw(N_ROWS, rng)
    fresh, target = pair.draw(N_FRESH, rng)
    errors, measured = [], []
    for settings in (pair.candidate, pair.baseline):
        model = pair.kind(N_TREES, random_state=int(rng.integers(2**31)), **settings).fit(X, y)
        wrong = model.predict(fresh) - target
        errors.append(float(np.mean(wrong != 0 if y.dtype.kind == "i" else wrong**2)))
        report, judged = analyze_rows(model, X, y, data="oob")
        measured.append(Measurement(report, judged, ""))
    found = compare_pairs(*measured).increase
    return errors[0] - errors[1], found.estimate, found.lower, found.upper


def outcomes(options: Options, name: str) -> tuple[list[Claim], list[str]]:
    jobs = (delayed(compared)(name, options.seed + index) for index in range(options.repetitions))
    found = np.array(Parallel(n_jobs=options.n_jobs)(jobs))
    truth, estimate, lower, upper = found.T
    held = float(np.mean((lower <= truth) & (truth <= upper)))
    spread = 100.0 * math.sqrt(max(held * (1.0 - held), 0.01) / len(found))
    variance = float(np.mean(((upper - lower) / (2.0 * 1.96)) ** 2))
    ratio = float(np.mean((estimate - truth) ** 2)) / variance
    bias, bias_spread = float(np.mean(estimate - truth)), float(np.std(estimate - truth) / math.sqrt(len(found)))
    claims = [Claim(f"{name}: held (%)", 100.0 * held, spread, low=90.0, digits=0)]
    return claims, [
        name,
        f"{truth.mean():.4f}",
        f"{bias:+.4f} ± {bias_spread:.4f}",
        f"{100 * held:.0f}",
        f"{ratio:.2f}",
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 40, arguments)
    found = [outcomes(options, name) for name in (list(PAIRS)[::5] if options.smoke else PAIRS)]
    claims = [claim for some, _ in found for claim in some]
    header = ["pair", "true difference", "bias", "held (%)", "squared error / variance"]
    return conclude(__name__, options, claims, [table(header, [row for _, row in found])])
