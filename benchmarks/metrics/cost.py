"""What a metric costs: processor time of an analysis with it, against the default analysis of the same forest.

Forests with leaves of 5 rows or more, 20000 rows and 200 trees, one thread. Each repetition analyses the forest
without a metric, and then with each metric; the medians of the ratios are given.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

ROWS, TREES = 20_000, 200
DECOMPOSABLE = ("neg_brier_score", "neg_log_loss", "accuracy")
OTHERS = ("roc_auc", "average_precision", "f1")
OF_VALUES = ("neg_mean_absolute_error", "r2")


def cost_claims(times: int, *, smoke: bool) -> list[Claim]:
    """Return the median ratio of processor times for each metric, analysed `times` times in turn with the default."""
    rows, trees = (500, 20) if smoke else (ROWS, TREES)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, 10))
    score = features[:, 0] + features[:, 1] * features[:, 2] - 0.5 * features[:, 3]
    target = (score + 0.7 * rng.logistic(size=rows) > 0.8).astype(np.int64)
    # Out-of-bag probabilities of few rows and trees are 0 with small leaves, and the log loss is refused.
    options = {"min_samples_leaf": 60 if smoke else 5, "max_features": 0.5, "random_state": 0}
    forest = RandomForestClassifier(trees, **options).fit(features, target)
    values = score + rng.normal(size=rows)
    regressor = RandomForestRegressor(trees, **options).fit(features, values)
    ratios = {
        **_ratios(forest, features, target, (*DECOMPOSABLE, *OTHERS), times),
        **_ratios(regressor, features, values, OF_VALUES, times),
    }
    return [
        Claim(
            f"{name}: processor time at {rows} rows and {trees} trees, default analysis = 1", ratio,
            high=5.0 if name in OTHERS else 2.0, digits=1,
        )
        for name, ratio in ratios.items()
    ]  # fmt: skip


def _ratios(forest: Any, features: Any, target: Any, metrics: tuple[str, ...], times: int) -> dict[str, float]:
    _seconds(forest, features, target, None)
    found: dict[str, list[float]] = {name: [] for name in metrics}
    for _ in range(times):
        default = _seconds(forest, features, target, None)
        for name in metrics:
            found[name].append(_seconds(forest, features, target, name) / default)
    return {name: float(np.median(each)) for name, each in found.items()}


def _seconds(forest: Any, features: Any, target: Any, metric: str | None) -> float:
    started = time.process_time()
    ens_plugin.analyze(forest, features, target, metric=metric, n_jobs=1)
    return time.process_time() - started


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 5, arguments, smoke=1)
    return conclude(__name__, options, cost_claims(options.repetitions, smoke=options.smoke))
