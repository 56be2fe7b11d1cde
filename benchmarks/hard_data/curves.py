"""Curves without corners: how much they move with random_state, how they bend, and what an analysis takes.

One model for each problem (300 trees), analysed under as many values of random_state as repetitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

SIZES = np.unique((np.geomspace(1, 2001, 45).astype(np.int64) - 1) // 2 * 2 + 1)
FLAT = 1e-3
SMOKE_ROWS = 150
TRIED = (
    "a law in 1/B with two terms, fitted with the covariance of disjoint subsets, in place of a spline through them. "
    "Where trees are shallow, the fitted distribution and the subsets still differ by more than that law can follow."
)


class Case(NamedTuple):
    """One problem: its rows, and how to train on them."""

    name: str
    load: Callable[[], tuple[Array, Array]]
    model: Any


class Curves(NamedTuple):
    """Results of many values of random_state for one trained model.

    Attributes
    ----------
    sd : ndarray, shape (n_sizes,)
        Standard deviation of the error at each size, in points.
    bends : list of int
        How often each curve's second differences in log B change sign.
    seconds : float
        Processor time of one analysis, median.
    """

    sd: Array
    bends: list[int]
    seconds: float


def gaussians(
    n_rows: int = 1000, n_labels: int = 12, n_features: int = 5, *, spread: float = 1.6
) -> tuple[Array, Array]:
    """Draw normal clouds of unit covariance, one for each label, around random centres."""
    rng = np.random.default_rng(3)
    centres = rng.standard_normal((n_labels, n_features)) * spread
    target = rng.integers(0, n_labels, n_rows)
    return centres[target] + rng.standard_normal((n_rows, n_features)), target


def ordered_labels(n_rows: int = 1600) -> tuple[Array, Array]:
    """Seven ordered labels of unequal shares under much noise: like the grades of wines, which do not ship."""
    rng = np.random.default_rng(4)
    features = rng.standard_normal((n_rows, 11))
    signal = features[:, :4] @ [1.0, 0.7, 0.5, 0.3] + np.sin(features[:, 4])
    score = signal + 1.3 * rng.standard_normal(n_rows)
    return features, np.searchsorted(np.quantile(score, [0.006, 0.05, 0.4, 0.8, 0.965, 0.995]), score)


def cases(n_trees: int) -> Iterator[Case]:
    """List the problems with their models."""
    yield Case("digits", lambda: datasets.load_digits(return_X_y=True), _forest(n_trees))
    yield Case("wine", lambda: datasets.load_wine(return_X_y=True), _forest(n_trees))
    yield Case("seven ordered labels, depth 5", ordered_labels, _forest(n_trees, max_depth=5))
    yield Case("12 Gaussians", gaussians, _forest(n_trees))
    stump = DecisionTreeClassifier(max_depth=1)
    bagging = BaggingClassifier(stump, n_trees, random_state=0)
    yield Case("stumps, breast cancer", lambda: datasets.load_breast_cancer(return_X_y=True), bagging)


def _forest(n_trees: int, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n_trees, random_state=0, **options)


def bends(error: Array, sizes: Array) -> int:
    """Return how often slopes in log B change from rising to falling or back, without changes that are almost 0."""
    slopes = np.diff(error) / np.diff(np.log(sizes))
    turns = np.diff(slopes)
    signs = np.sign(turns[np.abs(turns) > FLAT * np.abs(slopes).max()])
    return int(np.count_nonzero(np.diff(signs)))


def measure(case: Case, options: Options) -> Curves:
    """Train once and analyse under many values of random_state."""
    features, target = case.load()
    if options.smoke:
        features, target = features[-SMOKE_ROWS:], target[-SMOKE_ROWS:]
    model = case.model.fit(features, target)
    found, seconds = [], []
    for random_state in range(options.repetitions):
        start = time.process_time()
        report = ens_plugin.analyze(model, features, target, random_state=random_state)
        seconds.append(time.process_time() - start)
        found.append([100.0 * report.error_curve.at(size) for size in SIZES])
    curves = np.array(found)
    return Curves(curves.std(axis=0, ddof=1), [bends(curve, SIZES) for curve in curves], float(np.median(seconds)))


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 50, arguments, smoke=3)
    claims, rows = [], []
    for case in cases(20 if options.smoke else 300):
        curves = measure(case, options)
        worst = int(curves.sd.argmax())
        claims += [
            Claim(
                f"{case.name}: largest sd of the curve over random_state (points)",
                curves.sd[worst],
                None,
                high=0.05,
                digits=3,
                tried=TRIED,
            ),
            Claim(
                f"{case.name}: most changes of sign of second differences in log B",
                max(curves.bends),
                None,
                high=1,
                digits=0,
                tried=TRIED,
            ),
        ]
        shown = [f"{curves.sd[np.searchsorted(SIZES, size)]:.3f}" for size in (3, 9, 25, 101)]
        rows.append([case.name, *shown, f"{SIZES[worst]}", f"{curves.seconds:.2f}"])
    header = ["sd (points) at size", "3", "9", "25", "101", "largest at", "seconds of an analysis"]
    return conclude(__name__, options, claims, [table(header, rows)])
