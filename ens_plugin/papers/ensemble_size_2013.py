r"""Hernandez-Lobato, Martinez-Munoz and Suarez 2013: how large a voting ensemble should be.

The number of votes until the label is that of the infinite ensemble, row by row and over rows (2013). ``probability``
is the probability that one member votes for a given label of two, or, equally well, that it is wrong: only the
distance from 1/2 matters.

Borderline rows, and the law of large ensembles: disagreement is proportional to size^(-1/2) (2013). In large
ensembles only rows whose vote probability is close to 1/2 can change their label. With f the density of that
probability over rows, everything is proportional to f(1/2) (2013 eq. 13, 14 and 16).

Earlier rules for the size of an ensemble, for comparison: BAN, McNemar and (m-1)/m (2013 section 3). The first two
depend on an estimate of the error, which fluctuates with the members drawn; the third does not depend on the data at
all. None of them estimates how far the labels still are from the infinite ensemble's: see
:func:`deconvolved_size`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, chdtri, ndtri
from sklearn.base import clone

from ens_plugin.adapters.library import TrainedModel, TrainingRows
from ens_plugin.analysis.analyze import analyze
from ens_plugin.core.error_curve import recommended_size
from ens_plugin.core.validation import (
    FloatArray,
    IntArray,
    as_chance,
    as_count,
    as_probability,
    as_sizes,
    as_values,
    as_weight,
)
from ens_plugin.errors import InputError, NotConvergedWarning, warn_user
from ens_plugin.papers.members import Members, held_out_members, out_of_bag_members, wrong_labels
from ens_plugin.papers.wrong_votes import as_confidence, fit_mixture
from ens_plugin.sizing.grow import MAX_SIZE, find_trainer
from ens_plugin.sizing.truncate import truncate

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "borderline_density",
    "grow",
    "limiting_disagreement",
    "limiting_row_size_tail",
    "path_curve",
    "row_size",
    "row_size_tail",
    "row_sizes",
    "sizes",
]

LARGEST_SIZE = 10**9


def row_size(probability: ArrayLike, confidence: float = 0.99, max_size: int = LARGEST_SIZE) -> FloatArray:
    r"""Return the smallest odd number of votes that gives each row the infinite ensemble's label, with a confidence.

    Parameters
    ----------
    probability : array-like of float, shape (n_rows,)
        Probability of one vote.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.
    max_size : int, default=10**9
        Largest size tried.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        :math:`T^*(\alpha, p)`, the smallest odd T with
        :math:`\alpha \le I_{\max(p, 1-p)}(\lfloor T/2 \rfloor + 1, T - \lfloor T/2 \rfloor)`
        (2013 eq. 10); infinity above `max_size`, as at p = 1/2.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], `confidence` outside (0.5, 1) or `max_size` below 1.

    Examples
    --------
    >>> row_size([0.0, 0.3, 0.55, 0.5])
    array([  1.,  31., 539.,  inf])
    """
    p = as_probability(probability, "probability")
    wanted = as_confidence(confidence)
    limit = (as_count(max_size, "max_size") - 1) // 2
    minority, index = np.unique(np.minimum(p, 1.0 - p), return_inverse=True)
    return _smallest_odd(minority, wanted, limit)[index]


def _smallest_odd(minority: FloatArray, wanted: float, limit: int) -> FloatArray:
    """Return, by vote probability, the smallest odd size whose majority is the likelier label as often as wanted."""
    enough: IntArray = np.zeros(minority.size, dtype=np.int64)
    settled = _settles(minority, enough, wanted)
    too_few: IntArray = np.full(minority.size, -1, dtype=np.int64)
    while not settled.all() and enough.max() < limit:
        too_few = np.where(settled, too_few, enough)
        enough = np.where(settled, enough, np.minimum(2 * enough + 1, limit))
        settled[~settled] = _settles(minority[~settled], enough[~settled], wanted)
    while np.any(open_ := settled & (enough - too_few > 1)):
        middle = (enough[open_] + too_few[open_]) // 2
        down = _settles(minority[open_], middle, wanted)
        enough[open_] = np.where(down, middle, enough[open_])
        too_few[open_] = np.where(down, too_few[open_], middle)
    return np.where(settled, 2.0 * enough + 1.0, np.inf)


def _settles(minority: FloatArray, k: NDArray[np.int64], wanted: float) -> NDArray[np.bool_]:
    return np.asarray(betaincc(k + 1.0, k + 1.0, minority) >= wanted)


def normal_row_size(probability: ArrayLike, confidence: float = 0.99) -> FloatArray:
    r"""Return an approximation of :func:`row_size` for vote probabilities close to 1/2.

    Parameters
    ----------
    probability : array-like of float, shape (n_rows,)
        Probability of one vote.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.

    Returns
    -------
    ndarray of float64, shape (n_rows,)
        :math:`\Phi^{-1}(\alpha)^2 \, p(1-p) / (p - 1/2)^2` (2013 eq. 12); not rounded, infinity at
        p = 1/2.

    Raises
    ------
    InputError
        If a probability is outside [0, 1] or `confidence` outside (0.5, 1).

    Examples
    --------
    >>> normal_row_size([0.3, 0.55]).round(1)
    array([ 28.4, 535.8])
    """
    p = as_probability(probability, "probability")
    quantile = float(ndtri(as_confidence(confidence)))
    distance = (p - 0.5) ** 2
    away = distance > 0
    return np.where(away, quantile**2 * p * (1.0 - p) / np.where(away, distance, 1.0), np.inf)


def row_size_tail(
    probability: ArrayLike, sizes: ArrayLike, confidence: float = 0.99, weight: ArrayLike | None = None
) -> FloatArray:
    r"""Return the share of rows that need more votes than each size for the infinite ensemble's label.

    Parameters
    ----------
    probability : array-like of float, shape (n_points,)
        Probability of one vote, of rows or of the points of a fitted distribution.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes, whole numbers or infinity.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.
    weight : array-like, shape (n_points,), optional

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`P(T^*(\alpha, p) > T)`, the left-hand side of 2013 eq. 13 and the dots of its Fig. 2.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], `confidence` outside (0.5, 1), a size below 1, or shapes
        differ.

    Examples
    --------
    >>> row_size_tail([0.1, 0.3, 0.45, 0.5], [1, 31, 1001])
    array([1.  , 0.5 , 0.25])
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    wanted = as_sizes(sizes)
    own = row_size(p, confidence)
    order = np.argsort(own)
    settled = np.concatenate([[0.0], np.cumsum(w[order])]) / w.sum()
    # At infinity all rows are settled but those with probability 1/2.
    finite = np.where(np.isinf(wanted), np.finfo(np.float64).max, wanted)
    return np.asarray(np.clip(1.0 - settled[np.searchsorted(own[order], finite, side="right")], 0.0, 1.0))


def plugin_size(votes: ArrayLike, trials: ArrayLike, confidence: float = 0.99, max_size: int = 20001) -> int | None:
    """Return the recommended size as published in 2013, with shares of votes in place of probabilities.

    Parameters
    ----------
    votes : array-like, shape (n_rows,)
        Votes of each row for one of the two labels, the same label for all rows.  No true label is
        needed, so test rows can be unlabelled.  Where the truth is known (out-of-bag or validation rows), wrong
        votes give the same size.
    trials : array-like, shape (n_rows,)
        Votes of each row for either label: its out-of-bag members for training rows, all members for
        test and validation rows.
    confidence : float, default=0.99
        Wanted mean agreement with the infinite ensemble, strictly between 0.5 and 1.
    max_size : int, default=20001

    Returns
    -------
    int or None
        Smallest odd size that satisfies 2013 eq. 17; None above `max_size`.

    Raises
    ------
    InputError
        If shapes differ, votes are not within 0 <= votes <= trials, or `confidence` or `max_size` is
        out of range.

    Notes
    -----
    Biased upwards while the rows have fewer votes than that size: use :func:`deconvolved_size`, or
    train more members until the ensemble is larger than its own recommendation (2013 Fig. 3).

    Examples
    --------
    >>> plugin_size([10, 80, 45], [100, 100, 100])
    353
    """
    k, n = _as_votes(votes, trials)
    wanted = as_confidence(confidence)
    return recommended_size(k / n, None, wanted, as_count(max_size, "max_size"))


def deconvolved_size(
    votes: ArrayLike, trials: ArrayLike, confidence: float = 0.99, max_size: int = 20001
) -> int | None:
    """Return the recommended size from a fitted distribution of the rows' vote probabilities; few members suffice.

    Parameters
    ----------
    votes, trials, confidence, max_size
        As for :func:`plugin_size`.

    Returns
    -------
    int or None
        Smallest odd size whose agreement (2013 eq. 15), with the density f estimated by
        :func:`ens_plugin.core.votes.fit_mixture`, reaches `confidence`; None above `max_size`.

    Raises
    ------
    InputError
        As :func:`plugin_size`.

    Warns
    -----
    WeakEstimateWarning
        If there are fewer than 30 rows.

    Notes
    -----
    Wrong votes, where the truth is known, usually have a smoother distribution than votes for one
    label, whose shares are mostly near 0 or 1: prefer wrong votes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> wrong = rng.binomial(20, rng.beta(1, 4, size=2000))
    >>> few = np.full(2000, 20)
    >>> deconvolved_size(wrong, few), plugin_size(wrong, few)
    (413, None)
    """
    k, n = _as_votes(votes, trials)
    wanted = as_confidence(confidence)
    largest = as_count(max_size, "max_size")
    mixture = fit_mixture(k, n)
    return recommended_size(mixture.support, mixture.weights, wanted, largest)


def _as_votes(votes: ArrayLike, trials: ArrayLike) -> tuple[FloatArray, FloatArray]:
    k = as_values(votes, "votes")
    n = as_values(trials, "trials", k.size)
    if n.min() <= 0:
        raise InputError("trials must be positive for every row; leave out rows that no member votes on.")
    if k.min() < 0 or np.any(k > n):
        raise InputError("votes must lie between 0 and trials for every row.")
    return k, n


# The integral of the normal distribution function from minus infinity to 0 (2013 eq. 14).
HALF_LINE = 1.0 / math.sqrt(2.0 * math.pi)


def borderline_density(probability: ArrayLike, weight: ArrayLike | None = None, width: float = 0.1) -> float:
    """Return the density at 1/2 of the rows' vote probability: the share of rows in a window, over its width.

    Parameters
    ----------
    probability : array-like of float, shape (n_points,)
        Probability of one vote, or of a wrong vote: f(1/2) is the same.  Shares of many votes, or the
        points of a fitted distribution.
    weight : array-like, shape (n_points,), optional
    width : float, default=0.1
        Width of the window around 1/2, strictly between 0 and 1.  Shares of M votes are blurred by
        0.5 / sqrt(M); the window should be wider.

    Returns
    -------
    float
        f(1/2) of 2013 eq. 13, 14 and 16; a point on the window's edge counts half.

    Raises
    ------
    InputError
        If a probability is outside [0, 1], shapes differ, or `width` is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import beta
    >>> round(borderline_density(beta.ppf((np.arange(10_000) + 0.5) / 10_000, 2, 2), width=0.05), 3)
    1.5
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    window = as_chance(width, "width")
    beyond = np.abs(p - 0.5) - window / 2.0
    # Shares such as 0.45 are not exact in binary: a point within rounding of the edge is taken to be on it.
    inside = np.where(np.abs(beyond) < 1e-12, 0.5, beyond < 0)
    return float(inside @ w / w.sum() / window)


def limiting_row_size_tail(density: float, sizes: ArrayLike, confidence: float = 0.99) -> FloatArray:
    r"""Return the share of rows that need more votes than each size for the infinite ensemble's label, for large sizes.

    Parameters
    ----------
    density : float
        f(1/2), as from :func:`borderline_density`.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes T, whole numbers or infinity.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`f(1/2) \, \Phi^{-1}(\alpha) / \sqrt{T}` (2013 eq. 13).

    Raises
    ------
    InputError
        If `density` is negative or not finite, a size below 1, or `confidence` outside (0.5, 1).

    Examples
    --------
    >>> limiting_row_size_tail(1.5, [10_000]).round(4)
    array([0.0349])
    """
    quantile = float(ndtri(as_confidence(confidence)))
    return np.asarray(_as_density(density) * quantile / np.sqrt(as_sizes(sizes)))


def limiting_disagreement(density: float, sizes: ArrayLike) -> FloatArray:
    r"""Return the share of rows on which an ensemble differs from the infinite one, for large sizes.

    Parameters
    ----------
    density : float
        f(1/2), as from :func:`borderline_density`.
    sizes : array-like, shape (n_sizes,)
        Ensemble sizes T, whole numbers or infinity.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
        :math:`f(1/2) / \sqrt{2 \pi T}` (2013 eq. 14 and 18, where the integral is
        :math:`1/\sqrt{2\pi}`).

    Raises
    ------
    InputError
        If `density` is negative or not finite, or a size is below 1.

    Examples
    --------
    >>> limiting_disagreement(1.5, [1001]).round(4)
    array([0.0189])
    """
    return np.asarray(_as_density(density) * HALF_LINE / np.sqrt(as_sizes(sizes)))


def borderline_size(density: float, confidence: float = 0.99) -> float:
    r"""Return the recommended size from the density at 1/2 alone, for a confidence close to 1.

    Parameters
    ----------
    density : float
        f(1/2), as from :func:`borderline_density`.
    confidence : float, default=0.99
        Wanted mean agreement with the infinite ensemble, strictly between 0.5 and 1.

    Returns
    -------
    float
        :math:`(f(1/2) / (\sqrt{2 \pi} (1 - \alpha)))^2` (2013 eq. 16); not rounded.

    Raises
    ------
    InputError
        If `density` is negative or not finite, or `confidence` outside (0.5, 1).

    Examples
    --------
    >>> round(borderline_size(0.5), 1)
    397.9
    """
    return (_as_density(density) * HALF_LINE / (1.0 - as_confidence(confidence))) ** 2


def _as_density(density: float) -> float:
    if not math.isfinite(density) or density < 0:
        raise InputError(f"density must be a finite number of at least 0, got {density!r}.")
    return float(density)


WINDOW = 5
BATCH = 20


def ban_size(error_path: ArrayLike) -> int | None:
    """Return the size chosen by the rule of Banfield et al. (2007), called BAN in the paper of 2013.

    Parameters
    ----------
    error_path : array-like of float, shape (n_members,)
        Out-of-bag error after 1, 2, ..., n_members members, as
        :func:`path_curve` returns it.

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
    votes = _as_wrong_votes(wrong)
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


def _as_wrong_votes(wrong: ArrayLike) -> NDArray[np.int64]:
    votes = np.asarray(wrong)
    if votes.ndim != 2 or votes.size == 0:
        raise InputError(f"wrong must have shape (n_members, n_rows) with at least one of each, got {votes.shape}.")
    if not np.isin(votes, (0, 1)).all():
        raise InputError(
            "wrong must hold only zeros and ones (or False and True): whether each member is wrong about each row."
        )
    return votes.astype(np.int64)


def sizes(
    model: Any,
    X: Any,
    y: ArrayLike,
    X_validation: Any = None,
    y_validation: ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    max_size: int = 20001,
) -> pd.Series:
    """Return the sizes recommended by each rule of Hernandez-Lobato et al. (2013) and by this package's.

    Parameters
    ----------
    model : fitted classifier of two labels
        The sizes are those of majority votes of its members' labels, whatever the model itself averages.
    X, y : array-like
        The training rows, in training order.
    X_validation, y_validation : array-like, optional
        Held-out rows for McNemar's rule, which cannot use out-of-bag rows; both or neither.
    confidence : float, default=0.99
        Wanted mean agreement with the infinite ensemble, strictly between 0.5 and 1; for "error_reduction", the
        wanted share of it.
    max_size : int, default=20001

    Returns
    -------
    Series
        Size by rule: "plug_in", the paper's (eq. 17), misleading where rows have few out-of-bag votes; "deconvolved",
        this package's, the one to use; "borderline", eq. 16, for large ensembles with many votes; "ban" (Banfield et
        al. 2007) and "mcnemar" (Latinne et al. 2001), with validation rows, where the error and not the labels settle,
        too small for labels; "error_reduction" (Fumera et al. 2008), the same for all data. NaN where a rule has none
        up to `max_size` or `n_members`.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError for regressors and for more than two labels; InputError
        for one of `X_validation` and `y_validation` without the other.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import ensemble_size_2013
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:400], y[:400])
    >>> found = ensemble_size_2013.sizes(forest, X[:400], y[:400], X[400:], y[400:])
    >>> list(found.index)
    ['plug_in', 'deconvolved', 'borderline', 'ban', 'mcnemar', 'error_reduction']
    """
    import pandas as pd

    if (X_validation is None) != (y_validation is None):
        raise InputError(
            "X_validation and y_validation belong together. Pass both for McNemar's rule, or neither to leave it out."
        )
    members = out_of_bag_members(model, X, y).with_trials(1)
    is_wrong = wrong_labels(members)
    trials, wrong = members.is_oob.sum(axis=0), (is_wrong & members.is_oob).sum(axis=0)
    found: dict[str, float | None] = {
        "plug_in": plugin_size(wrong, trials, confidence, max_size),
        "deconvolved": deconvolved_size(wrong, trials, confidence, max_size),
        "borderline": borderline_size(borderline_density(wrong / trials), confidence),
        "ban": ban_size(_error_of_votes(members)),
    }
    if X_validation is not None and y_validation is not None:
        found["mcnemar"] = mcnemar_size(wrong_labels(held_out_members(model, X_validation, y_validation)))
    found["error_reduction"] = reduction_size(confidence)
    return pd.Series({rule: math.nan if size is None else float(size) for rule, size in found.items()}, name="size")


def row_sizes(model: Any, X: Any, y: ArrayLike, *, confidence: float = 0.99) -> pd.DataFrame:
    """Return, for each training row, the number of votes that give the infinite ensemble's label, with a confidence.

    Parameters
    ----------
    model : fitted classifier of two labels
    X, y : array-like
        The training rows, in training order.
    confidence : float, default=0.99
        Wanted probability of the infinite ensemble's label, strictly between 0.5 and 1.

    Returns
    -------
    DataFrame
        One row for each training row with an out-of-bag member, with the columns probability, the share of its
        out-of-bag members that are wrong, and size (2013 eq. 10), infinite where no size settles it.  The index is the
        position of the row among the training rows.

    Raises
    ------
    EnsPluginError
        As :func:`sizes`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import ensemble_size_2013
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> bool(ensemble_size_2013.row_sizes(forest, X, y)["size"].median() == 1)
    True
    """
    import pandas as pd

    members = out_of_bag_members(model, X, y)
    rows = np.flatnonzero(members.is_oob.any(axis=0))
    members = members.with_trials(1)
    share = (wrong_labels(members) & members.is_oob).sum(axis=0) / members.is_oob.sum(axis=0)
    found = pd.DataFrame({"probability": share, "size": row_size(share, confidence)}, index=rows)
    found.attrs["confidence"] = confidence  # for the figures
    return found


FIRST_SIZE = 100


def grow(
    estimator: Any, X: Any, y: ArrayLike, *, confidence: float = 0.99, max_size: int = MAX_SIZE
) -> tuple[Any, dict[int, int | None]]:
    """Train an ensemble until it is as large as its own recommended size, by the paper's algorithm (2013 Fig. 3).

    100 members are trained, then as many as the estimate from out-of-bag rows recommends, at most twice the present
    number, until it recommends no more; members beyond the last estimate are left out.  :func:`ens_plugin.grow`
    trains no more than two ensembles for the same agreement.

    Parameters
    ----------
    estimator : unfitted classifier
        As for :func:`ens_plugin.grow`, but no Pipeline.
    X, y : array-like
    confidence : float, default=0.99
        Wanted mean agreement with the infinite ensemble, strictly between 0.5 and 1.
    max_size : int, default=5001

    Returns
    -------
    model : fitted classifier
    history : dict of {int: int or None}
        Recommended size by number of members; None above 20001.  It is that of ``ens_plugin.analyze(model, X, y,
        criterion="agreement", tolerance=1 - confidence)``: the shares of votes that the paper takes for probabilities
        recommend far too many members from a small ensemble.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.grow` and :func:`ens_plugin.analyze`.

    Warns
    -----
    NotConvergedWarning
        If more than `max_size` members are recommended.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import ensemble_size_2013
    >>> X, y = load_iris(return_X_y=True)
    >>> forest, history = ensemble_size_2013.grow(RandomForestClassifier(random_state=0), X, y, confidence=0.95)
    >>> max(history), len(forest.estimators_) == history[100]
    (100, True)
    """
    tolerance, limit = 1.0 - as_confidence(confidence), as_count(max_size, "max_size")
    history: dict[int, int | None] = {}

    def next_size(trained: TrainedModel) -> int | None:
        size = trained.n_members
        report = analyze(trained.model, trained.X, trained.y, criterion="agreement", tolerance=tolerance)
        history[size] = wanted = report.recommended_size
        following = min(limit if wanted is None else wanted, 2 * size, limit)
        return following if following > size else None

    rows = TrainingRows(X, y, None, limit, None, lambda n_members: None)
    model = find_trainer(estimator)(clone(estimator), rows, min(FIRST_SIZE, limit), next_size)
    size, wanted = list(history.items())[-1]
    if wanted is None or wanted > size:
        warn_user(
            f"Not converged: stopped at max_size={limit}, and {wanted or 'more than 20001'} members are recommended. "
            "Raise max_size, or lower confidence.",
            NotConvergedWarning,
        )
        return model, history
    return (truncate(model, wanted) if wanted < size else model), history


def path_curve(model: Any, X: Any, y: ArrayLike) -> pd.DataFrame:
    """Return the out-of-bag error of the first 1, 2, ... members of one fitted ensemble, in the order of training.

    Other tools draw this curve.  After T members each row is judged by its out-of-bag members among the first T, about
    37 % of them after a bootstrap: it is the error of a smaller ensemble, along one noisy path.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`.
    X, y : array-like
        The training rows, in training order.

    Returns
    -------
    DataFrame
        One row for each size, with the columns size, and error, 0-1 or mean squared, over the rows with an out-of-bag
        member; NaN while there is none.  The first of tied labels wins, as in the model's own ``predict``.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import ensemble_size_2013
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, oob_score=True, random_state=0).fit(X, y)
    >>> path = ensemble_size_2013.path_curve(forest, X, y)
    >>> len(path), bool(np.isclose(1 - path["error"].iloc[-1], forest.oob_score_))
    (100, True)
    """
    import pandas as pd

    error = _error_path(out_of_bag_members(model, X, y))
    return pd.DataFrame({"size": np.arange(1, error.size + 1), "error": error})


def _error_of_votes(members: Members) -> FloatArray:
    """Return the error of votes of the first 1, 2, ... members, from the first size with an out-of-bag row on."""
    wrong = wrong_labels(members).astype(np.int64)
    path = _error_path(replace(members, outputs=wrong, target=np.zeros_like(wrong[0]), output_kind="labels"))
    return path[~np.isnan(path)]


def _error_path(members: Members) -> FloatArray:
    """Return the out-of-bag error of the first 1, 2, ... members; NaN while every row is in bag."""
    is_vote = members.outputs.ndim == 2 and members.classes is not None and members.output_kind != "scores"
    shape = (members.target.size, members.n_labels) if is_vote else members.outputs.shape[1:]
    total, trials = np.zeros(shape), np.zeros(members.target.size)
    path = np.full(members.outputs.shape[0], np.nan)
    for place, (output, is_oob) in enumerate(zip(members.outputs, members.is_oob, strict=True)):
        rows = np.flatnonzero(is_oob)
        if is_vote:
            total[rows, output[rows]] += 1.0
        else:
            total[rows] += output[rows]
        trials += is_oob
        if (known := trials > 0).any():
            path[place] = _path_loss(total[known], trials[known], members.target[known], members.classes is None)
    return path


def _path_loss(total: FloatArray, trials: FloatArray, target: NDArray[Any], is_value: bool) -> float:
    """Return the mean loss of rows from the sums of their members' outputs."""
    if is_value:
        return float(np.mean(np.square(total / trials - target)))
    label = total.argmax(axis=1) if total.ndim == 2 else total > 0.0
    return float(np.mean(label != target))
