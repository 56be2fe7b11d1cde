"""How many of some rows without labels are training rows of an ensemble, by the bags of its members alone.

A member that drew a training row holds it, as often as it drew it, in the leaf that the row reaches, under the row's
label.  So a row can be training row j only if no member drew j more often than the row's leaf holds draws of its
label: where a member predicts another label from a pure leaf, not at all.  A row that was not trained on hardly ever
meets all of these limits for any j (``docs/methods/held-out-rows.md``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, betaincinv

from ens_plugin.core.sample import spread_rows
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray

# Fresh rows may be from a part of the table whose records are by so much likelier to be in it.
LIKELIER = 3.0
# A limit that no number of draws exceeds.
UNLIMITED = 255
# Numbers of draws, one byte each, that are kept: a few members tell as much of many rows as many members of few.
MOST_DRAWS = 100_000_000
# Rows that are compared, some seconds for a million training rows.
MOST_COMPARED = 1_000
# A row tells something if a row that was not trained on meets its limits with at most this chance.  Twice as much would
# let similar fresh rows match, half as much would leave few rows of tables with clear labels.
LARGEST_CHANCE = 0.01
# How many times likelier a match is from a training row, at most: similar rows match more often than by chance, so that
# a single match is no proof.
LARGEST_RATIO = 1e4
# Bound on the chance that rows which were not trained on are recognised, of single sets of rows.
RECOGNISED_CHANCE = 1e-3
SHARES = np.array([0.03, 0.15, 0.5])
CHANCES_DRAWN = 20
# A fresh row so near to a training row that all trees put both into the same leaves is like it in every respect.  Where
# rows have others that share this part of what their leaves tell, such rows are expected; measured on tables of one
# column, of few values and of repeated measurements, where the part is .97 or more, and on six others, where it is .7.
NEARLY_ALL, MOST_NEAR, NEAR_COMPARED = 0.9, 0.2, 100


@dataclass(frozen=True, eq=False)
class LeafDraws:
    """How often members drew training rows, and how often they can have drawn the row that other rows may be.

    Attributes
    ----------
    draws : ndarray of uint8, shape (n_members, n_training_rows)
    limits : ndarray of uint8, shape (n_members, n_rows)
        The most draws of one training row that the row's leaf can hold, under the label that the ensemble predicts;
        `UNLIMITED` where that is not known.
    held : ndarray of uint8, shape (n_members, n_rows)
        The same, if the leaf held draws of that label only.
    leaves : ndarray of int, shape (n_members, n_rows)
        The leaf that each row reaches.
    """

    draws: NDArray[np.uint8]
    limits: NDArray[np.uint8]
    held: NDArray[np.uint8]
    leaves: NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class TrainingShare:
    """The estimated share of training rows among some rows.

    Attributes
    ----------
    share, upper : float
        Estimate, and the upper end of its 95 % interval; 0 where chance explains all matches.
    rows : ndarray of int64
        Positions of rows that are training rows, the surest first.
    """

    share: float
    upper: float
    rows: IntArray


def estimate_training_share(found: LeafDraws) -> TrainingShare:
    r"""Return the share of training rows among some rows, and those that are recognised.

    Let :math:`P` be the chance that a row's limits are met by draws independent of it, and c the number of n training
    rows that meet them.  The row is :math:`c / (n P)` times as likely under "one of the training rows" as under "none
    of them".  The mean over some shares of the product over rows bounds the chance of an error (Ville's inequality).

    Members agree about rows that they were trained on, so that fewer training rows tell something than others.  A row
    that tells something and matches none therefore counts as the chance p with which it would tell something if it
    were a training row, and the share is :math:`M / (M + \sum p)` for M matches.
    """
    chance = _log_shares_within(found.draws)
    log_chance = _log_chance(chance, found.limits) + np.log(found.draws.shape[1])
    telling = np.flatnonzero(_are_telling(log_chance))
    telling = telling[spread_rows(telling.size, MOST_COMPARED)]
    counts = np.array([_count_within(found.draws, found.limits[:, row], chance) for row in telling], dtype=np.float64)
    ratio = np.minimum(counts * np.exp(-np.maximum(log_chance[telling], -700.0)), LARGEST_RATIO)
    is_clear = bool(telling.size) and _evidence(ratio) >= 1.0 / RECOGNISED_CHANCE
    if not is_clear or _expected_near(found, telling, chance) > MOST_NEAR:
        return TrainingShare(0.0, 0.0, np.zeros(0, dtype=np.int64))
    matched = counts > 0
    others = float(sum(_chance_to_tell(found, chance, row) for row in telling[~matched]))
    n_matched = int(matched.sum())
    upper = float(betaincinv(n_matched + 1.0, max(others, 1e-9), 0.975))
    order = np.argsort(log_chance[telling[matched]], kind="stable")
    return TrainingShare(n_matched / (n_matched + others), upper, telling[matched][order].astype(np.int64))


def _expected_near(found: LeafDraws, telling: NDArray[np.intp], chance: FloatArray) -> float:
    """Return how many training rows are expected to share nearly all leaves with a row, by rows among each other."""
    some = telling[spread_rows(telling.size, NEAR_COMPARED)]
    n_near = 0
    for row in some:
        told = -chance[np.arange(len(chance)), found.limits[:, row]]
        shared = told @ (found.leaves == found.leaves[:, [row]])
        n_near += bool((np.delete(shared, row) >= NEARLY_ALL * told.sum()).any())
    n_rows = found.limits.shape[1]
    return float(n_near / some.size * found.draws.shape[1] / n_rows)


def share_of_equal_rows(rows: NDArray[np.uint64], trained: NDArray[np.uint64]) -> TrainingShare:
    """Return the share of training rows among some rows, by hashes of their values and of those of the training."""
    # Rows of few values are equal by nature: as often as a training row equals another one, a fresh row equals one too.
    values, counts = np.unique(trained, return_counts=True)
    is_equal = np.isin(rows, values)
    by_nature = float(counts[counts > 1].sum() / trained.size)
    # Fresh rows may be from a part of the table whose rows are by so much likelier to be equal.  Where no training rows
    # are, one might be.
    odds = LIKELIER * by_nature / max(1.0 - by_nature, 1.0 / trained.size) + 1.0 / trained.size
    n_equal = int(is_equal.sum())
    if not n_equal or bdtrc(n_equal - 1, rows.size, odds / (1.0 + odds)) >= RECOGNISED_CHANCE:
        return TrainingShare(0.0, 0.0, np.zeros(0, dtype=np.int64))
    share, upper = (
        max((own - by_nature) / max(1.0 - by_nature, 1.0 / trained.size), 0.0)
        for own in (n_equal / rows.size, float(betaincinv(n_equal + 1.0, max(rows.size - n_equal, 1e-9), 0.975)))
    )
    single = np.isin(rows, values[counts == 1])
    return TrainingShare(share, upper, np.flatnonzero(single if single.any() else is_equal).astype(np.int64))


def _evidence(ratio: FloatArray) -> float:
    """Return how many times likelier the ratios of rows are with some training rows than without, at most 1e300."""
    logs = np.log1p(np.outer(SHARES, ratio - 1.0)).sum(axis=1)
    return float(np.exp(np.minimum(logs, 690.0)).mean())


def _log_shares_within(draws: NDArray[np.uint8]) -> FloatArray:
    """Return the log of the share of training rows that a member drew so often or less, shape (n_members, 256)."""
    counts = np.stack([np.bincount(own, minlength=UNLIMITED + 1) for own in draws])
    return np.asarray(np.log(np.maximum(np.cumsum(counts, axis=1) / draws.shape[1], 1e-300)))


def _log_chance(chance: FloatArray, limits: NDArray[np.uint8]) -> FloatArray:
    """Return the logarithm of the chance that draws independent of a row meet its limits, shape (n_rows,)."""
    return np.asarray(np.take_along_axis(chance, limits.astype(np.intp), axis=1).sum(axis=0))


def _count_within(draws: NDArray[np.uint8], limits: NDArray[np.uint8], chance: FloatArray) -> int:
    """Return how many training rows meet a row's limits; the members that most training rows do not meet first."""
    own = chance[np.arange(limits.size), limits]
    order = np.argsort(own, kind="stable")
    left = np.arange(draws.shape[1])
    for member in order[own[order] < 0.0]:
        left = left[draws[member].take(left) <= limits[member]]
        if not left.size:
            return 0
    return int(left.size)


def _chance_to_tell(found: LeafDraws, chance: FloatArray, row: int) -> float:
    """Return the chance that a row would tell something if members agreed about it as about a training row."""
    some = spread_rows(found.draws.shape[1], CHANCES_DRAWN)
    drawn = found.draws[:, some]
    agreed = np.where(drawn > 0, np.maximum(found.held[:, [row]], drawn), found.limits[:, [row]]).astype(np.uint8)
    logs = _log_chance(chance, agreed) + np.log(found.draws.shape[1])
    return float(np.mean(_are_telling(logs)))


def _are_telling(log_chance: FloatArray) -> BoolArray:
    return np.asarray(log_chance <= np.log(LARGEST_CHANCE))
