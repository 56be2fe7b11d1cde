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

References
----------
Ville, J. (1939). Étude critique de la notion de collectif. Gauthier-Villars.

Waudby-Smith, I., Ramdas, A. (2024). Estimating means of bounded random variables by betting. Journal of the Royal
Statistical Society B 86, 1-27.
"""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import BoolArray, FloatArray, as_numbers, check_finite
from ens_plugin.errors import InputError

# The best rate for a share p of two labels' votes is 2 p - 1.  Unanimous votes take the highest, which has more weight.
RATES = np.geomspace(0.06, 0.98, 12)
WEIGHTS = np.append(np.full(RATES.size - 1, 0.9 / RATES.size), 0.1 + 0.9 / RATES.size)


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


def is_settled(counts: ArrayLike, level: float) -> BoolArray:
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
    votes, needed = _as_counts(counts), -np.log(as_level(level))
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
