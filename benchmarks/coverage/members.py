"""Ensembles whose members are few, or differ from each other: how often the intervals hold the true error.

Ensembles whose members are few, or differ from each other: how often the intervals hold the error of fresh members.

Members that differ: 30 members predict 300 held-out rows with independent normal errors, whose scale is lognormal
over members with the logarithmic standard deviation stated; the rows have noise of their own. The truth is the
expected error of one fresh member on fresh rows, by its formula. Few members: hard votes of 3 to 20 members on 200
held-out rows that are wrong with a chance drawn from Beta(1, 3); the truth is the error of infinitely many members on
fresh rows. The intervals are those of 95 %; standard errors are binomial, or those over repetitions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import ens_plugin
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se

Array = NDArray[Any]

N_ROWS, N_MEMBERS = 300, 30
SPREADS = (0.0, 0.3, 0.6)
FEW_MEMBERS = (3, 5, 10, 20)
N_LABELLED = 200


def one_member_is_held(spread: float, seed: int) -> bool:
    """Return whether the interval at one member holds the expected error of a fresh member."""
    rng = np.random.default_rng([seed, int(10 * spread)])
    scale = np.exp(spread * rng.normal(size=(N_MEMBERS, 1)))
    outputs = scale * rng.normal(size=(N_MEMBERS, N_ROWS))
    ensemble = ens_plugin.CustomEnsemble(outputs, None, aggregation="mean")
    report = ens_plugin.analyze(ensemble, None, rng.normal(size=N_ROWS), data="holdout", max_size=100)
    low, high = report.error_curve.lower[0], report.error_curve.upper[0]
    return bool(low <= 1.0 + math.exp(2.0 * spread**2) <= high)


def few_votes(n_members: int, seed: int) -> tuple[float, bool]:
    """Return the estimated error at infinity less the true one, and whether the interval holds it."""
    rng = np.random.default_rng([seed, n_members])
    chance = rng.beta(1.0, 3.0, N_LABELLED)
    y = rng.integers(0, 2, N_LABELLED)
    votes = np.where(rng.random((n_members, N_LABELLED)) < chance, 1 - y, y)
    ensemble = ens_plugin.CustomEnsemble(votes, None, aggregation="vote", classes=np.array([0, 1]))
    curve = ens_plugin.analyze(ensemble, None, y, data="holdout", max_size=1001).error_curve
    truth = 0.125
    low, high = curve.asymptote_interval
    return curve.asymptote - truth, bool(low <= truth <= high)


def shares(held: Array) -> tuple[float, float]:
    share = 100.0 * float(np.mean(held))
    return share, percent_se(share, held.size)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 150, arguments)
    return conclude(__name__, options, [*_of_scales(options), *_of_few(options)])


def _of_scales(options: Options) -> list[Claim]:
    claims = []
    for spread in SPREADS:
        seeds = range(options.seed, options.seed + options.repetitions)
        held = Parallel(n_jobs=options.n_jobs)(delayed(one_member_is_held)(spread, seed) for seed in seeds)
        claims.append(
            Claim(f"scale with sd {spread:g}: error of one member held (%)", *shares(np.array(held)), 90.0, digits=0)
        )
    return claims


def _of_few(options: Options) -> list[Claim]:
    claims = []
    for n_members in FEW_MEMBERS:
        seeds = range(options.seed, options.seed + options.repetitions)
        found = np.array(Parallel(n_jobs=options.n_jobs)(delayed(few_votes)(n_members, seed) for seed in seeds))
        bias = 100.0 * found[:, 0]
        spread = float(bias.std(ddof=1)) / math.sqrt(bias.size)
        claims.append(Claim(f"{n_members} votes a row: bias at infinity (points)", float(bias.mean()), spread))
        claims.append(
            Claim(f"{n_members} votes a row: error at infinity held (%)", *shares(found[:, 1]), 90.0, digits=0)
        )
    return claims
