"""How a ranking of two labels depends on the size, by the chances of the rows to have the label that is ranked first.

How the ranking changes with the size depends on few rows.  Their labels are replaced by their means given the outputs.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from ens_plugin.analysis.metrics.rankings import Ranking
from ens_plugin.core.estimates.label_chances import LabelChances, chances_of_labels
from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["RankedChances", "rank_chances", "ranking_offset"]

LEAST_SCALE = 1e-9


@record
class RankedChances:
    """The chances of rows to have the label that is ranked first.

    Attributes
    ----------
    is_first : ndarray, shape (n_rows,)
        1 for rows with the label, else 0.
    chances : LabelChances
    weight : ndarray, shape (n_rows,)
        With which the chances were fitted.
    """

    is_first: FloatArray
    chances: LabelChances
    weight: FloatArray

    @property
    def chance(self) -> FloatArray:
        """Return the chance of each row, shape (n_rows,)."""
        return self.chances.second

    def refitted(self, counts: FloatArray) -> FloatArray:
        """Return the chances fitted to a bootstrap sample in which each row is so many times, by one Newton step."""
        residual = self.weight * (counts - 1.0) * (self.is_first - self.chance)
        step = self.chances.covariance @ (self.chances.columns.T @ residual)
        return np.asarray(expit(logit(self.chance) + self.chances.columns @ step), dtype=np.float64)


def rank_chances(output: FloatArray, trials: FloatArray, is_first: FloatArray, weight: FloatArray) -> RankedChances:
    """Fit the chance of rows to have the label that is ranked first.

    Parameters
    ----------
    output : ndarray, shape (n_rows,)
        Mean probability or score of this label over the members of each row.
    trials : ndarray, shape (n_rows,)
        Number of members.
    is_first : ndarray, shape (n_rows,)
        1 for rows with the label, else 0.
    weight : ndarray, shape (n_rows,)

    Examples
    --------
    >>> output = np.repeat([0.1, 0.5, 0.9], 200)
    >>> is_first = (np.arange(600) % 10 < 10 * output).astype(float)
    >>> rank_chances(output, np.full(600, 50.0), is_first, np.ones(600)).chance[::200].round(2)
    array([0.1, 0.5, 0.9])
    """
    # Kish's effective number of rows.
    effective = weight * weight.sum() / (weight @ weight)
    if output.min() >= 0.0 and output.max() <= 1.0:
        score = logit((output * trials + 0.5) / (trials + 1.0))
    else:
        score = 2.0 * output / max(float(np.sqrt(np.mean(output**2))), LEAST_SCALE)
    return RankedChances(is_first, chances_of_labels(score, is_first, effective), effective)


def ranking_offset(
    ranking: Ranking,
    mean: FloatArray,
    variance: FloatArray,
    trials: FloatArray,
    is_first: FloatArray,
    weight: FloatArray,
) -> float:
    """Return what is added to the size so that a ranking is a line in its inverse, as for normal scores.

    Parameters
    ----------
    ranking : Ranking
    mean, variance : ndarray, shape (n_rows,)
        Of the members' outputs for the label that is ranked first; the variance with divisor n - 1.
    trials : ndarray, shape (n_rows,)
        Number of members, at least two.
    is_first : ndarray, shape (n_rows,)
        1 for rows with the label, else 0.
    weight : ndarray, shape (n_rows,)

    Returns
    -------
    float
        Between 0 and the median of `trials`; 0 where the limits of the rows of one label do not differ.

    Examples
    --------
    >>> from ens_plugin.analysis.metrics.rankings import AREA, Ranking
    >>> rng = np.random.default_rng(0)
    >>> is_first = np.arange(20000) % 2.0
    >>> outputs = is_first + rng.normal(size=20000) + 2.0 * rng.normal(size=(50, 20000))
    >>> mean, variance = outputs.mean(axis=0), outputs.var(axis=0, ddof=1)
    >>> equal = np.full(20000, 50.0), is_first, np.ones(20000)
    >>> round(ranking_offset(Ranking(1, AREA), mean, variance, *equal), 1)  # 4 (3/4 - 1/8)
    2.5
    """
    means, of_limits, of_member = [], 0.0, 0.0
    for own in (weight * (1.0 - is_first), weight * is_first):
        share = own / own.sum()
        means.append(float(share @ mean))
        of_limits += float(share @ (mean - means[-1]) ** 2 - share @ (variance / trials)) / 2.0
        of_member += float(share @ variance) / 2.0
    if of_limits <= 0.0:
        return 0.0
    distance = (means[1] - means[0]) / np.sqrt(of_limits)
    factor = ranking.offset_factor(float(distance), float(weight @ is_first / weight.sum()))
    return float(np.clip(factor * of_member / of_limits, 0.0, np.median(trials)))
