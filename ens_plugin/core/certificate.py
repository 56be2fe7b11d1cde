r"""Proof, from the votes of some members, that a row's label is that of the infinite ensemble.

The members' outputs for a row are exchangeable: given the distribution that infinitely many of them have, they are
independent draws of it.  The infinite ensemble predicts the label m of the highest mean, where a vote counts as
probability 1.  Nothing is assumed about the distribution.

**Wealth.**  Against each label m, a capital of 1 is bet on the labels that lead the others so far.  One more member,
with outputs x, multiplies the part of it that is bet at the rate b, 0 < b < 1, by

.. math:: 1 + b d, \qquad d = \bar x_L - x_m,

where the mean is over the leaders L, all labels but m with the highest sum before this member.  If no label has a
higher mean than m, the mean of d, which lies in [-1, 1], is at most 0 whatever L is.  So the wealth is a nonnegative
supermartingale, and so is its mean over several rates.  By Ville's inequality it ever reaches 1/level with a chance of
at most `level`, however often one looks.  Label m is then excluded.

**Settled.**  A row is settled when all labels but the one that leads are excluded.  That is wrong only if m is among
the excluded, whichever label leads, so the chance that a wrong label is ever settled is at most `level`.  There is one
wealth against m, not one for each label that may win in its place: the chances of K - 1 wrong winners add up, so that
wealths of their own would have to share the level.  Where several labels have the highest mean, none of them is wrong.

**From counts alone.**  The wealth of votes on two labels depends on the counts only.  With more labels it depends on
which label led when.  Let label i have a votes, m have v, and each of the others at most c.  Each vote for m multiplies
the wealth by 1 - b, and no other vote makes it smaller.  The votes that bring i from c + 1 to a find i the only leader,
and each multiplies it by 1 + b.  In any order, the wealth is therefore at least that of a - c - 1 votes against v,
which is smallest where m is the runner-up.  It does not depend on the number of labels: others may still get a first
vote.

**With a known end.**  Of at most n votes, a wrong label has at most the chance of n even tosses to reach the counts
that settle: with a smaller share of the votes, or fewer of them, it is smaller.  That chance is summed exactly, and is
below Ville's bound, which holds for ever.  So the level is raised until the chance is the wanted one.

References
----------
Ville, J. (1939). Étude critique de la notion de collectif. Gauthier-Villars.

Waudby-Smith, I., Ramdas, A. (2024). Estimating means of bounded random variables by betting. Journal of the Royal
Statistical Society B 86, 1-27.
"""

from __future__ import annotations

from functools import cache
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import BoolArray, FloatArray, as_numbers, check_finite
from ens_plugin.errors import InputError

# The best rate for a share p of two labels' votes is 2 p - 1.  Unanimous votes take the highest, which has more weight.
RATES = np.geomspace(0.06, 0.98, 12)
WEIGHTS = np.append(np.full(RATES.size - 1, 0.9 / RATES.size), 0.1 + 0.9 / RATES.size)

# The raised level is below the first and found to this part of the wanted one.
HIGHEST_LEVEL, LEVEL_STEP = 0.5, 0.01


def as_level(value: float) -> float:
    """Return a level strictly between 0 and 1/2 as a float, or raise InputError."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0.0 < value < 0.5:
        raise InputError(f"level must lie strictly between 0 and 0.5, got {value!r}.")
    return float(value)


def log_wealth(ahead: ArrayLike, behind: ArrayLike) -> FloatArray:
    """Return the logarithm of the wealth after so many votes for one of two labels and for the other."""
    votes, against = np.asarray(ahead)[..., None], np.asarray(behind)[..., None]
    by_rate = votes * np.log1p(RATES) + against * np.log1p(-RATES) + np.log(WEIGHTS)
    return np.asarray(np.logaddexp.reduce(by_rate, axis=-1))


@cache
def level_with_end(level: float, n_votes: int) -> float:
    """Return the level at which the wealth of at most so many votes is wrong with a chance of at most `level`."""
    ahead = np.arange(n_votes + 1)
    wealth = np.full((n_votes, n_votes + 1), -np.inf)
    for n in range(1, n_votes + 1):
        wealth[n - 1, : n + 1] = log_wealth(ahead[: n + 1], n - ahead[: n + 1])

    def chance(raised: float) -> float:
        """Return the chance that even tosses ever settle one of two labels."""
        open_counts, settled = np.eye(1, n_votes + 1)[0], 0.0
        for is_reached in wealth >= -np.log(raised):
            open_counts = (open_counts + np.append(0.0, open_counts[:-1])) / 2.0
            settled += float(open_counts[is_reached].sum())
            open_counts[is_reached] = 0.0
        return settled

    low, high = level, HIGHEST_LEVEL
    while high - low > LEVEL_STEP * level:
        middle = (low + high) / 2.0
        low, high = (middle, high) if chance(middle) <= level else (low, middle)
    return low


def is_settled(counts: ArrayLike, level: float, n_votes: int | None = None) -> BoolArray:
    """Return for which rows the label with most votes is proved to be that of infinitely many members.

    It may be called after every vote, and counting may stop whenever one likes: for each row, the chance that another
    label than the infinite ensemble's is ever settled is at most `level`.

    Parameters
    ----------
    counts : array-like of int, shape (n_rows, n_labels)
        Votes for each label so far.  With two columns, no vote may go to a third label; with three or more, labels
        without a column may still come.
    level : float
        Highest chance of a wrong label for one row, in (0, 0.5).
    n_votes : int, optional
        The most votes there will ever be for a row.  By default there is no end.

    Returns
    -------
    ndarray of bool, shape (n_rows,)

    Raises
    ------
    InputError
        If counts are not whole numbers from 0 on, in at least two columns, or the level is out of range.

    Examples
    --------
    >>> from ens_plugin.core.certificate import is_settled
    >>> is_settled([[6, 0], [9, 0], [40, 10], [300, 290]], 0.01).tolist()
    [False, True, True, False]
    """
    votes, allowed = _as_counts(counts), as_level(level)
    needed = -np.log(allowed if n_votes is None else level_with_end(allowed, n_votes))
    if votes.shape[1] == 2:
        return np.asarray(log_wealth(votes.max(axis=1), votes.min(axis=1)) >= needed)
    third, runner_up, leader = np.sort(votes, axis=1)[:, -3:].T
    return np.asarray(log_wealth(np.maximum(leader - third - 1.0, 0.0), runner_up) >= needed)


def _as_counts(counts: ArrayLike) -> FloatArray:
    array = as_numbers(counts, "counts")
    if array.ndim != 2 or array.shape[1] < 2:
        raise InputError(f"counts must have a row for each row and at least two columns, got shape {array.shape}.")
    check_finite(array, "counts")
    if np.any(array < 0) or np.any(array != np.floor(array)):
        raise InputError("counts must be whole numbers of votes, from 0 on.")
    return array
