"""The size where different rows are few, and the error of even sizes where one label is rare.

Sizes: 500 rows, 100 trees; the reference is by 2000 other trees on 20 000 fresh rows. Even sizes: 1000 training rows,
4000 held-out rows on which both errors are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se

Array = NDArray[Any]

N_ROWS = 500
MEMBERS = 100
CONFIDENCE, MAX_SIZE = 0.99, 20001
EVEN_MEMBERS = 10
RARE = 0.15


def binary(n_features: int) -> Callable[[int, np.random.Generator], tuple[Array, Array]]:
    """Return a sampler of binary features with additive log odds."""
    effects = np.array([1.0, -0.8, 0.6, 0.5, -0.4])[:n_features]

    def sample(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        features = rng.integers(0, 2, (n_rows, n_features)).astype(np.float64)
        return features, (rng.random(n_rows) < expit(features @ effects - 0.3)).astype(np.int64)

    return sample


def whole_number(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Sample one feature of 20 values."""
    features = rng.integers(0, 20, (n_rows, 1)).astype(np.float64)
    return features, (rng.random(n_rows) < expit(1.2 * np.sin(features[:, 0] / 3))).astype(np.int64)


CELLS = {
    "three binary features": binary(3),
    "five binary features": binary(5),
    "one feature of 20 values": whole_number,
}


def reference_size(features: Array, y: Array, fresh: Array, n_trees: int, seed: int) -> float:
    """Return the size by the mean and spread of many other trees in the fresh rows' cells; may be infinite."""
    forest = RandomForestClassifier(n_trees, random_state=seed).fit(features, y)
    rows, counts = np.unique(fresh, axis=0, return_counts=True)
    leads = np.stack([np.diff(tree.predict_proba(rows), axis=1)[:, 0] for tree in forest.estimators_])
    ratio = np.abs(leads.mean(axis=0)) / np.maximum(leads.std(axis=0), 1e-12)
    sizes = np.arange(1, MAX_SIZE + 1, 2)
    agreement = ndtr(ratio * np.sqrt(sizes)[:, None]) @ counts / counts.sum()
    return float(sizes[np.argmax(agreement >= CONFIDENCE)]) if agreement[-1] >= CONFIDENCE else math.inf


def size_coverage(name: str, options: Options) -> tuple[Claim, list[str]]:
    """Count how often the interval of the size holds the reference."""
    covered, factors, open_ended = 0, [], 0
    n_trees = 200 if options.smoke else 2000
    for repetition in range(options.repetitions):
        rng = np.random.default_rng([options.seed, repetition])
        features, y = CELLS[name](N_ROWS, rng)
        fresh, _ = CELLS[name](20_000, rng)
        forest = RandomForestClassifier(MEMBERS, random_state=repetition).fit(features, y)
        report = ens_plugin.analyze(
            forest, features, y, criterion="agreement", tolerance=1.0 - CONFIDENCE, max_size=MAX_SIZE
        )
        low, high = report.recommendation.interval
        covered += low <= reference_size(features, y, fresh, n_trees, 10_000 + repetition) <= (high or math.inf)
        factors.append(math.sqrt((high or MAX_SIZE) / low))
        open_ended += high is None
    share = 100.0 * covered / options.repetitions
    error = percent_se(share, options.repetitions)
    claim = Claim(f"{name}: 95 % interval of the size holds it (%)", share, error, 88, digits=0)
    return claim, [name, f"{share:.0f}", f"{np.median(factors):.1f}", f"{100 * open_ended / options.repetitions:.0f}"]


def even_bias(options: Options) -> Claim:
    """Return the mean of the reported error of ten trees less that of `predict`, where the second label is rare."""
    differences = []
    for repetition in range(options.repetitions):
        rng = np.random.default_rng([options.seed, 1, repetition])
        features, y = _rare(1000, rng)
        fresh, truth = _rare(4000, rng)
        forest = RandomForestClassifier(EVEN_MEMBERS, random_state=repetition).fit(features, y)
        error = ens_plugin.analyze(forest, fresh, truth, data="holdout").error
        differences.append(100 * (error - np.mean(forest.predict(fresh) != truth)))
    spread = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    bias = float(np.mean(differences))
    return Claim(
        f"{EVEN_MEMBERS} trees, rare second label: reported error less that of predict (points)",
        bias,
        spread,
        -0.1,
        0.1,
    )


def _rare(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    features = rng.standard_normal((n_rows, 6))
    y = (rng.random(n_rows) < expit(1.5 * features[:, 0] + features[:, 1] - 2.5)).astype(np.int64)
    return features, y


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 60, arguments)
    found = [size_coverage(name, options) for name in (list(CELLS)[:1] if options.smoke else CELLS)]
    header = ["features", "covered (%)", "interval: factor each way", "no upper end (%)"]
    return conclude(
        __name__,
        options,
        [*(claim for claim, _ in found), even_bias(options)],
        [table(header, [row for _, row in found])],
    )
