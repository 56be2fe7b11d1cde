"""Targets that are the ensemble's own predictions: what they have in common with no measured target."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr

from ens_plugin.core.likeness.equal_outputs import leads
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import ValueTally
from ens_plugin.core.validation import FloatArray

__all__ = ["are_own_labels", "are_own_values", "end_at_a_tie"]

LOOKED_AT = 5_000
COMPARED_ROWS = (30, 60, 120, 240)
LARGEST_CHANCE = 1e-5
# The logarithm of a density of leads falls at most so many times as fast below a tie as above it.
STEEPER = 2.0
# Losses that are left, of those expected, because the density may fall in other ways; and the least number of next
# rows, relative to the closest ones, where the density does not fall from a tie.
LEAST_LOST, LEAST_LEVEL = 0.6, 0.5
# The closest rows are at most this part of all, so that the leads of most are larger.
FARTHEST = 8
# Squared error beyond that of the finite size, relative to the variance of a member, that measured values leave at
# least; and the squared error, in units of that of the finite size, that other ensembles' predictions do not exceed.
LEAST_BEYOND, LARGEST_OF_OTHERS = 0.02, 3.0


def are_own_labels(sample: Sample) -> bool:
    """Return whether the targets of rows are the labels that this ensemble predicts.

    Parameters
    ----------
    sample : Sample
        Of a classifier's rows, none of which its members were trained on.
    """
    rows = sample.random_rows(LOOKED_AT)
    rows = rows[sample.weight[rows] > 0]
    leading, lead, _ = leads(sample, rows)
    return end_at_a_tie(lead, leading == sample.block.target[rows])


def end_at_a_tie(lead: FloatArray, is_right: NDArray[np.bool_]) -> bool:
    r"""Return whether rows with close votes are right so often that labels must follow from the votes.

    Parameters
    ----------
    lead : ndarray, shape (n_rows,)
        Mean margin of the leading label over the second one, at least 0.
    is_right : ndarray of bool, shape (n_rows,)
        Whether the leading label is the target.

    Notes
    -----
    Measured labels know nothing of the votes: the density of the true label's lead, negative where it loses, passes
    smoothly through 0.  That of predicted labels ends there.  Of the rows with the smallest leads, half lose if the
    density is level.  If it rises, it is followed from the next rows, whose leads are up to twice as large, to those
    that lose, as an exponential and twice as steep.  Where it falls, nothing is concluded.  The rows are too often
    right where so few losses have a chance below :math:`10^{-5}`, with six losses for ten expected ones.

    Examples
    --------
    >>> margin = np.random.default_rng(0).normal(0.5, 0.5, 2000)
    >>> end_at_a_tie(np.abs(margin), margin > 0), end_at_a_tie(np.abs(margin), np.ones(2000, dtype=bool))
    (False, True)
    """
    order = np.argsort(lead, kind="stable")
    lead, right = lead[order], is_right[order]
    for n_rows in COMPARED_ROWS:
        if FARTHEST * n_rows > lead.size:
            return False
        closest, next_ones = lead <= lead[n_rows - 1], (lead > lead[n_rows - 1]) & (lead <= 2.0 * lead[n_rows - 1])
        n_near, near, far = int(closest.sum()), int(right[closest].sum()), int(right[next_ones].sum())
        if far < LEAST_LEVEL * near:
            continue
        odds = min(near / max(far, 1), 1.0) ** STEEPER
        if bdtr(n_near - near, n_near, LEAST_LOST * odds / (1.0 + odds)) < LARGEST_CHANCE:
            return True
    return False


def are_own_values(tally: ValueTally, weight: FloatArray) -> bool:
    r"""Return whether the targets of rows are the values that this ensemble, or another of its kind, predicts.

    Parameters
    ----------
    tally : ValueTally
        Of rows that no member was trained on.
    weight : ndarray, shape (n_rows,)

    Notes
    -----
    The mean of B members differs from that of another such ensemble by about :math:`S^2 / B` in square, S² being the
    variance over members.  Measured values differ from it by the error of the infinite ensemble besides, which is
    hardly ever below 2 % of S².

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> mean, size = rng.normal(size=200), np.full(200, 100.0)
    >>> tally = ValueTally(size, mean, np.ones(200), mean + 0.1 * rng.normal(size=200))
    >>> are_own_values(tally, np.ones(200))
    True
    """
    used = (tally.trials >= 2) & (weight > 0)
    of_size = float(weight[used] @ (tally.variance[used] / tally.trials[used]))
    found = float(weight[used] @ (tally.mean[used] - tally.target[used]) ** 2)
    if np.count_nonzero(used) < min(COMPARED_ROWS) or of_size <= 0.0:
        return False
    return found < of_size * min(1.0 + LEAST_BEYOND * float(tally.trials[used].mean()), LARGEST_OF_OTHERS)
