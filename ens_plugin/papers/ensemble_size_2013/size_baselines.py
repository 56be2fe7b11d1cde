r"""Earlier rules for the size of an ensemble, for comparison: BAN, McNemar and (m-1)/m (2013 section 3).

The first two depend on an estimate of the error, which fluctuates with the members drawn; the third does
not depend on the data at all.  None of them estimates how far the labels still are from the infinite
ensemble's: see :mod:`ens_plugin.papers.ensemble_size_2013.vote_size`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri

from ens_plugin.core.validation import as_chance, as_count, as_probability
from ens_plugin.errors import InputError

__all__ = ["ban_size", "error_reduction", "mcnemar_size", "reduction_size"]

WINDOW = 5
BATCH = 20


def ban_size(error_path: ArrayLike) -> int | None:
    """Return the size chosen by the rule of Banfield et al. (2007), called BAN in the paper of 2013.

    Parameters
    ----------
    error_path : array-like of float, shape (n_members,)
        Out-of-bag error after 1, 2, ..., n_members members, as
        :meth:`ens_plugin.core.tallies.growth_path.PathTally.curve` returns it.

    Returns
    -------
    int or None
        The path is averaged over the last 5 sizes.  Starting with 20 members, batches of 20 are added
        while the lowest average decreases; the result is the size of the lowest average (the smallest of
        equal ones).  None if the last whole batch still decreased it: the ensemble is too small to stop.

    Raises
    ------
    InputError
        If the path is empty, not finite or outside [0, 1].

    Notes
    -----
    2013 section 3, reference [7].  The path follows one random order of members; with few rows the
    rule stops on a fluctuation of it (2013 section 4.2).

    Examples
    --------
    >>> ban_size([0.5 / size for size in range(1, 31)] + [0.02] * 30)
    30
    """
    path = as_probability(error_path, "error_path")
    smooth = _trailing_mean(path)
    best = math.inf
    for end in range(BATCH, path.size + 1, BATCH):
        lowest = float(smooth[end - BATCH : end].min())
        # Averages of equal errors differ by rounding.
        if lowest >= best - 1e-12:
            return int(np.argmax(smooth[: end - BATCH] <= best + 1e-12)) + 1
        best = lowest
    return None


def _trailing_mean(path: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, at each size, the mean of an error path over the last 5 sizes, or over all where there are fewer."""
    total = np.concatenate([np.zeros(1), np.cumsum(path)])
    size = np.arange(1, path.size + 1)
    first = np.maximum(size - WINDOW, 0)
    return np.asarray((total[size] - total[first]) / (size - first))


def mcnemar_size(wrong: ArrayLike, level: float = 0.05) -> int:
    r"""Return the smallest odd size whose errors do not differ from the whole ensemble's by McNemar's test.

    Parameters
    ----------
    wrong : array-like of bool, shape (n_members, n_rows)
        Whether each member is wrong about each validation row, members in the order they are added.
    level : float, default=0.05
        Level of the test, strictly between 0 and 1.

    Returns
    -------
    int
        With b rows that only the first t members' majority gets right and c rows that only all
        members' does, the smallest odd t with :math:`(|b - c| - 1)^2 / (b + c)` up to the
        chi-squared quantile (one degree of freedom, continuity correction); `n_members` if there is
        none.  Rows on which all of an even number of members are tied are left out.

    Raises
    ------
    InputError
        If `wrong` is not a non-empty two-dimensional array of zeros and ones, or `level` is out of
        range.

    Notes
    -----
    2013 section 3, reference [26] (Latinne et al. 2001).  With fewer rows the test is weaker and the size
    smaller.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> mcnemar_size(rng.random((101, 200)) < 0.3)
    27
    """
    votes = _as_votes(wrong)
    critical = float(chdtri(1, as_chance(level, "level")))
    n_members = votes.shape[0]
    sizes = np.arange(1, n_members + 1, 2)
    total = np.cumsum(votes, axis=0)
    decided = 2 * total[-1] != n_members
    all_wrong = 2 * total[-1, decided] > n_members
    some_wrong = 2 * total[sizes - 1][:, decided] > sizes[:, None]
    only_some_right = np.count_nonzero(~some_wrong & all_wrong, axis=1)
    only_all_right = np.count_nonzero(some_wrong & ~all_wrong, axis=1)
    differ = np.maximum(only_some_right + only_all_right, 1)
    statistic = np.maximum(np.abs(only_some_right - only_all_right) - 1, 0) ** 2 / differ
    alike = statistic <= critical
    return int(sizes[np.argmax(alike)]) if alike.any() else n_members


def error_reduction(n_members: int) -> float:
    r"""Return (m-1)/m, the share of bagging's whole error reduction that m members achieve.

    Parameters
    ----------
    n_members : int

    Returns
    -------
    float
        Mean share of the difference between one member's error and the infinite ensemble's.

    Raises
    ------
    InputError
        If `n_members` is below 1.

    Notes
    -----
    2013 section 3, reference [27] (Fumera et al. 2008).  Exact for squared loss, where the rest is
    one member's variance over m; a rule of thumb for votes.

    Examples
    --------
    >>> error_reduction(10)
    0.9
    """
    members = as_count(n_members, "n_members")
    return (members - 1) / members


def reduction_size(share: float) -> int:
    """Return the smallest number of members with a share of bagging's error reduction, by the (m-1)/m rule.

    Parameters
    ----------
    share : float
        Wanted share of the error reduction, strictly between 0 and 1.

    Returns
    -------
    int
        The same for every problem, which is the rule's weakness (2013 section 3).

    Raises
    ------
    InputError
        If `share` is out of range.

    Examples
    --------
    >>> reduction_size(0.99)
    100
    """
    wanted = as_chance(share, "share")
    # 1 / (1 - 0.99) is slightly above 100 in binary.
    return max(math.ceil(1.0 / (1.0 - wanted) - 1e-9), 2)


def _as_votes(wrong: ArrayLike) -> NDArray[np.int64]:
    votes = np.asarray(wrong)
    if votes.ndim != 2 or votes.size == 0:
        raise InputError(f"wrong must have shape (n_members, n_rows) with at least one of each, got {votes.shape}.")
    if not np.isin(votes, (0, 1)).all():
        raise InputError(
            "wrong must hold only zeros and ones (or False and True): whether each member is wrong about each row."
        )
    return votes.astype(np.int64)
