"""Skewed scores and many labels: the error from few members against that of many others.

The first members of models of 600, analysed from their training rows. Bias: against the other members on the same
rows, so without the luck of the rows. Coverage: of the error on 10000 fresh rows. A bias may be as large as half of
the interval's half-width, or half a point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBRFClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import unwrap

Array = NDArray[Any]
Problem = Callable[[int, np.random.Generator], tuple[Array, Array]]

POOL = 600
FRESH_ROWS = 10_000
SCORE_MEMBERS = (30, 60, 240)
LABEL_MEMBERS = (8, 30, 100)
TOLERANCE = 0.5
TRIED = (
    "a variance of members that follows the mean margin, and an interval that allows for the members by a jackknife "
    "over groups of them. What is left is how the error of this training set on fresh rows differs from that of others "
    "of its size, which out-of-bag rows do not show: the bias against other members on the same rows is small."
)
SMOKE_ROWS = 400


class Cell(NamedTuple):
    """One problem, a model of many members, and how many of these are analysed."""

    name: str
    problem: Problem
    model: Callable[[int, int], Any]
    n_rows: int
    members: Sequence[int]


class Outcome(NamedTuple):
    """One analysis of the first members against the others, in points.

    Attributes
    ----------
    bias_now, bias_limit : float
        Estimate less the error of the other members on the same rows.
    half_width : float
        Of the interval at infinity.
    covers_now, covers_limit : bool
        Whether the intervals hold the error on fresh rows.
    """

    bias_now: float
    bias_limit: float
    half_width: float
    covers_now: bool
    covers_limit: bool


def rare(share: float) -> Problem:
    """Draw positives, few and shifted in four of eight normal features."""

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        target = (rng.random(n_rows) < share).astype(np.int64)
        features = rng.standard_normal((n_rows, 8))
        features[target == 1, :3] += 1.3
        features[target == 1, 3] *= 2.0
        return features, target

    return draw


def gaussians(n_labels: int) -> Problem:
    """Draw one normal cloud for each label, around centres that are the same for every data set."""
    n_features = max(4, n_labels // 4)
    centres = np.random.default_rng(7 + n_labels).standard_normal((n_labels, n_features)) * np.sqrt(2.0)

    def draw(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
        target = rng.integers(0, n_labels, n_rows)
        return centres[target] + rng.standard_normal((n_rows, n_features)), target

    return draw


def cells() -> Iterator[Cell]:
    """List the problems with their models."""
    for share, n_rows in ((0.01, 3000), (0.03, 2000), (0.10, 2000)):
        name = f"{100 * share:.0f} % positives"
        yield Cell(f"LightGBM, {name}", rare(share), _lightgbm, n_rows, SCORE_MEMBERS)
        yield Cell(f"XGBoost, {name}", rare(share), _xgboost, n_rows, SCORE_MEMBERS)
    for n_labels, n_rows, depth in ((12, 800, 5), (30, 1500, 7)):
        problem = gaussians(n_labels)
        yield Cell(f"{n_labels} labels, hard votes", problem, _forest(None), n_rows, LABEL_MEMBERS)
        yield Cell(f"{n_labels} labels, depth {depth}", problem, _forest(depth), n_rows, LABEL_MEMBERS)


def _lightgbm(size: int, seed: int) -> Any:
    return LGBMClassifier(
        boosting_type="rf", n_estimators=size, bagging_freq=1, bagging_fraction=0.632, feature_fraction=0.6,
        random_state=seed, n_jobs=1, verbose=-1,
    )  # fmt: skip


def _xgboost(size: int, seed: int) -> Any:
    return XGBRFClassifier(
        n_estimators=size, subsample=0.632, colsample_bynode=0.6, max_depth=6, tree_method="hist", random_state=seed,
        n_jobs=1,
    )  # fmt: skip


def _forest(max_depth: int | None) -> Callable[[int, int], Any]:
    return lambda size, seed: RandomForestClassifier(size, max_depth=max_depth, random_state=seed)


def outcomes(cell: Cell, pool: int, seed: int, options: Options) -> list[Outcome]:
    """Train on one data set, and analyse the first members of the model, as many as the cell names."""
    rng = np.random.default_rng([seed, cell.n_rows])
    n_rows = SMOKE_ROWS if options.smoke else cell.n_rows
    features, target = cell.problem(n_rows, rng)
    fresh, fresh_target = cell.problem(FRESH_ROWS // (10 if options.smoke else 1), rng)
    model = cell.model(pool, seed).fit(features, target)
    adapter = find_adapter(unwrap(model, features)[0])
    rows = adapter.prepare(features)
    out_of_bag = ~adapter.bags(features, rows, target).in_bag()
    outputs, codes = adapter.outputs(rows), target
    of_fresh = adapter.outputs(adapter.prepare(fresh))
    found = []
    for size in (size for size in cell.members if size < pool):
        part = ens_plugin.truncate(model, size)
        curve = ens_plugin.analyze(part, features, target).error_curve
        others = slice(size, None)
        limit = _error(outputs[others], out_of_bag[others], codes)
        now = np.mean([_subset_error(outputs[others], out_of_bag[others], codes, size, rng) for _ in range(10)])
        blocks = [of_fresh[start : start + size] for start in range(0, pool - size + 1, size)]
        fresh_now = np.mean([_error(block, None, fresh_target) for block in blocks])
        fresh_limit = _error(of_fresh, None, fresh_target)
        lower, upper = curve.asymptote_interval
        low, high = curve.interval_at(size)
        # Where the others have too few out-of-bag members for such subsets, the bias at the current size is unknown.
        known = size <= np.median(out_of_bag[others].sum(axis=0))
        found.append(
            Outcome(
                100.0 * (curve.at(size) - float(now)) if known else float("nan"),
                100.0 * (curve.asymptote - limit),
                50.0 * (upper - lower),
                bool(low <= fresh_now <= high),
                bool(lower <= fresh_limit <= upper),
            )
        )
    return found


def _error(outputs: Array, counts: Array | None, target: Array) -> float:
    """0-1 error of the mean of the members that count."""
    mask = np.ones(outputs.shape[:2], dtype=bool) if counts is None else counts
    if outputs.ndim == 3:
        label = np.einsum("tik,ti->ik", outputs, mask).argmax(axis=1)
    elif np.issubdtype(outputs.dtype, np.floating):
        label = (np.where(mask, outputs, 0.0).sum(axis=0) > 0).astype(np.int64)
    else:
        labels = range(int(outputs.max()) + 1)
        label = np.stack([((outputs == code) & mask).sum(axis=0) for code in labels], axis=1).argmax(axis=1)
    return float(np.mean(label != target))


def _subset_error(outputs: Array, counts: Array, target: Array, size: int, rng: np.random.Generator) -> float:
    """Error of a random subset of `size` members for each row."""
    order = rng.permutation(outputs.shape[0])
    mask = counts[order]
    mask &= np.cumsum(mask, axis=0) <= size
    return _error(outputs[order], mask, target)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments, smoke=2)
    pool = 40 if options.smoke else POOL
    claims, rows = [], []
    for cell in cells():
        found = [outcomes(cell, pool, options.seed + seed, options) for seed in range(options.repetitions)]
        for place in range(len(found[0])):
            part = [analyses[place] for analyses in found]
            values = np.array([[one.bias_now, one.bias_limit, one.half_width] for one in part])
            error = values.std(axis=0, ddof=1) / np.sqrt(len(part))
            allowed = max(TOLERANCE, values[:, 2].mean() / 2.0)
            name = f"{cell.name}, {cell.members[place]} members"
            covered = [
                100.0 * float(np.mean([getattr(one, at) for one in part])) for at in ("covers_now", "covers_limit")
            ]
            share = covered[1] / 100.0
            spread = 100.0 * math.sqrt(max(share * (1.0 - share), 0.01) / len(part))
            claims.append(Claim(f"{name}: bias at infinity (points)", values[:, 1].mean(), error[1], -allowed, allowed))
            claims.append(
                Claim(f"{name}: coverage at infinity (%)", covered[1], spread, low=90.0, digits=0, tried=TRIED)
            )
            now = "" if np.isnan(values[:, 0]).all() else f"{values[:, 0].mean():+.2f} ± {error[0]:.2f}"
            limit, width = f"{values[:, 1].mean():+.2f} ± {error[1]:.2f}", f"{values[:, 2].mean():.2f}"
            rows.append([name, now, limit, width, f"{covered[0]:.0f}", f"{covered[1]:.0f}"])
    header = ["model", "bias now", "bias at ∞", "half-width at ∞", "coverage now (%)", "coverage at ∞ (%)"]
    return conclude(__name__, options, claims, [table(header, rows)])
