"""Samples until a vote is settled: a rule with proof, the rule of adaptive consistency, and the best rule with proof.

Questions with two answers, asked at most 64 times. All figures are exact sums over the orders of the votes, for 400
questions of each kind. The bound is for all rules that settle an even question on either answer with the chance of the
level, as every proof does, also for those that know the distribution of the questions. Beta is the rule of
adaptive consistency (Aggarwal et al. 2023).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betainc, expit

from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.core.certificate import is_settled

Array = NDArray[np.float64]
# Whether votes for one answer and for the other settle a question, shape (MOST + 1, MOST + 1).
Rule = NDArray[np.bool_]

MOST, LEVEL = 64, 0.05
FIRST, SECOND = np.indices((MOST + 1, MOST + 1))
KINDS: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "mostly right": lambda rng, n: rng.beta(3.0, 1.5, n),
    "any share": lambda rng, n: rng.random(n),
    "easy": lambda rng, n: rng.beta(8.0, 1.0, n),
    "two heaps": lambda rng, n: np.where(rng.random(n) < 0.75, rng.beta(9.0, 1.5, n), rng.beta(2.0, 4.0, n)),
    "logistic": lambda rng, n: expit(rng.normal(2.0, 1.5, n)),
}


def by_beta() -> Rule:
    return np.asarray(betainc(np.minimum(FIRST, SECOND) + 1.0, np.maximum(FIRST, SECOND) + 1.0, 0.5) >= 1.0 - LEVEL)


def by_proof(end: int | None) -> Rule:
    return is_settled(np.stack([FIRST.ravel(), SECOND.ravel()], axis=1), LEVEL, end).reshape(FIRST.shape)


def asked(rule: Rule, share: Array) -> tuple[float, float]:
    """Return the mean samples, and the chance to settle on the answer of the smaller share; of even ones the second."""
    here = np.zeros((MOST + 1, share.size))
    here[0], samples, wrong = 1.0, 0.0, 0.0
    for n in range(MOST + 1):
        votes = np.arange(n + 1)
        is_over = rule[votes, n - votes]
        for vote in votes[is_over]:
            wrong += float((here[vote] * ((2 * vote > n) != (share >= 0.5))).mean())
        here[votes[is_over]] = 0.0
        if n < MOST:
            samples += float(here.sum(axis=0).mean())
            here = here * (1.0 - share) + np.vstack([np.zeros(share.size), here[:-1] * share])
    return samples, wrong


def least_samples(share: Array) -> float:
    """Return a lower bound of the mean samples of all rules whose chance to settle an even question is at most 2 LEVEL.

    With a price on that chance, the rule of least cost is found by going back from the last sample. Its cost, less the
    price of 2 LEVEL, is at most what any such rule takes, at every price (weak duality).
    """
    # Of one order of so many votes, over the questions.
    chance = np.exp(FIRST[..., None] * np.log(share) + SECOND[..., None] * np.log1p(-share)).mean(axis=-1)

    def bound(log_price: float) -> float:
        cost, price = np.zeros((MOST + 2, MOST + 2)), float(np.exp(log_price))
        for n in range(MOST - 1, -1, -1):
            first = np.arange(n + 1)
            going_on = chance[first, n - first] + cost[first + 1, n - first] + cost[first, n - first + 1]
            cost[first, n - first] = np.minimum(price * 0.5**n, going_on)
        return float(cost[0, 0] - price * 2.0 * LEVEL)

    return -float(minimize_scalar(lambda log_price: -bound(log_price), bounds=(-5.0, 12.0), method="bounded").fun)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 1, arguments)
    n_questions = 20 if options.smoke else 400
    lines, ratios = [], []
    for kind, draw in list(KINDS.items())[: 1 if options.smoke else None]:
        share = np.clip(draw(np.random.default_rng(options.seed), n_questions), 1e-9, 1.0 - 1e-9)
        rules = [asked(rule, share) for rule in (by_beta(), by_proof(MOST), by_proof(None))]
        least = least_samples(share)
        ratios.append([samples / rules[0][0] for samples in (rules[1][0], rules[2][0], least)])
        lines.append([kind, *(f"{samples:.1f}, {100.0 * wrong:.1f}" for samples, wrong in rules), f"{least:.1f}"])
    ended, endless, least = np.mean(ratios, axis=0)
    at_half = asked(by_beta(), np.array([0.5]))[1]
    tried = "no rule with proof takes less than the bound, even if it knows the kind of the questions"
    return conclude(
        __name__,
        options,
        [
            Claim("samples with proof and a known end, over those of Beta", float(ended), high=1.3, tried=tried),
            Claim("samples with proof, over those of Beta", float(endless)),
            Claim("least samples of any rule with proof, over those of Beta", float(least)),
            Claim("even questions that Beta settles on a given answer, at level 5 (%)", 100.0 * at_half, digits=1),
        ],
        [table(["samples, wrong (%): kind", "Beta", "proof, end known", "proof", "bound of proofs"], lines)],
    )
