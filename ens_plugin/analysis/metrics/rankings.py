"""Rankings of the rows by their outputs for a label: the area under the ROC curve and the average precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["AREA", "PRECISION", "Ranking"]

# Distances between two normal distributions at which the average precision is integrated.
FARTHEST, N_POINTS = 8.0, 801
STEP = 0.05

# The metric of the rows, as a function of their weights.
OfWeights = Callable[[FloatArray], float]
# Returns, for the scores of the rows, the expected metric as a function of the rows' chances to have the label that is
# ranked first, and of their weights.
Expected = Callable[[FloatArray], Callable[[FloatArray, FloatArray], float]]
# Returns the metric of two normal distributions with variance 1, from their distance and the share of the first label.
OfNormal = Callable[[float, float], float]


class RankingKind(NamedTuple):
    """A way to judge a ranking.

    Attributes
    ----------
    of_label : callable
        ``of_label(label, target, output)`` returns the metric as a function of the weights.
    expected : Expected
    of_normal : OfNormal
    """

    of_label: Callable[[int, NDArray[Any], FloatArray], OfWeights]
    expected: Expected
    of_normal: OfNormal


@record
class Ranking:
    """A metric that is a multiple of a ranking of two labels, up to a constant.

    Attributes
    ----------
    label : int
        Code of the label that is ranked first.
    kind : RankingKind
    scale : float
    """

    label: int
    kind: RankingKind
    scale: float = 1.0

    def scaled(self, factor: float) -> Ranking:
        """Return a multiple of the metric."""
        return replace(self, scale=factor * self.scale)

    def expected(self, output: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
        """Return the expected metric, up to the constant, as a function of the rows' chances and weights.

        Parameters
        ----------
        output : ndarray, shape (n_rows, 2)
        """
        value = self.kind.expected(output[:, self.label])
        return lambda chance, weight: self.scale * value(chance, weight)

    def offset_factor(self, distance: float, share: float) -> float:
        r"""Return how many k are added to the size so that the metric is a line in its inverse, for normal scores.

        Parameters
        ----------
        distance : float
            Between the means of both labels' limits, in standard deviations of the limits of one label.
        share : float
            Of the rows with the label.

        Notes
        -----
        With k the variance of a member in that of the limits, B members have the distance :math:`d/\sqrt{1 + k/B}`.
        The metric m(d) is then :math:`m - \tfrac12 m' d\,(k/B)\,(1 - c\,k/B)` up to :math:`B^{-3}`, with
        :math:`c = \tfrac34 + \tfrac14 d\,m''/m'`: a line in :math:`1/(B + ck)`.
        For the area it is :math:`\tfrac34 - \tfrac18 d^2`.

        Examples
        --------
        >>> round(Ranking(1, AREA).offset_factor(1.0, 0.5), 3)
        0.625
        """
        below, here, above = (self.kind.of_normal(distance + step, share) for step in (-STEP, 0.0, STEP))
        slope, curvature = (above - below) / (2.0 * STEP), (above - 2.0 * here + below) / STEP**2
        return 0.75 + distance * curvature / (4.0 * slope) if slope > 0.0 else 0.0


def _area(label: int, target: NDArray[Any], output: FloatArray) -> OfWeights:
    """Return the area under the ROC curve of a label against the others; equal outputs count half."""
    order, starts = _ranked(output[:, label])
    positive = (target == label)[order]

    def area(weight: FloatArray) -> float:
        ranked = weight[order]
        own = np.add.reduceat(ranked * positive, starts)
        other = np.add.reduceat(ranked * ~positive, starts)
        above = np.cumsum(own) - own / 2.0
        return float(other @ above / (own.sum() * other.sum()))

    return area


def _average_precision(label: int, target: NDArray[Any], output: FloatArray) -> OfWeights:
    order, starts = _ranked(output[:, label])
    positive = (target == label)[order]

    def precision(weight: FloatArray) -> float:
        ranked = weight[order]
        own = np.add.reduceat(ranked * positive, starts)
        found, total = np.cumsum(own), np.cumsum(np.add.reduceat(ranked, starts))
        return float(own @ (found / np.where(total > 0, total, 1.0)) / found[-1])

    return precision


def _expected_area(score: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
    """Return the expected area for chances of the rows to have a label, without the pair of each row with itself."""
    order, starts = _ranked(score)

    def area(chance: FloatArray, weight: FloatArray) -> float:
        ranked, own_chance = weight[order], chance[order]
        own, other = ranked * own_chance, ranked * (1.0 - own_chance)
        own_tied, other_tied = np.add.reduceat(own, starts), np.add.reduceat(other, starts)
        above = np.cumsum(own_tied) - own_tied / 2.0
        itself = own @ other
        return float((other_tied @ above - itself / 2.0) / (own.sum() * other.sum() - itself))

    return area


def _expected_precision(score: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
    """Return the expected average precision for chances of the rows to have a label.

    Where a row has the label, it counts in full among the rows found, not by its chance.
    """
    order, starts = _ranked(score)
    group = np.cumsum(np.bincount(starts, minlength=order.size)) - 1

    def precision(chance: FloatArray, weight: FloatArray) -> float:
        ranked, own_chance = weight[order], chance[order]
        own = ranked * own_chance
        found, total = (np.cumsum(np.add.reduceat(each, starts))[group] for each in (own, ranked))
        sure = (found + ranked * (1.0 - own_chance)) / np.where(total > 0, total, 1.0)
        return float(own @ sure / own.sum())

    return precision


def _ranked(score: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of descending scores, and where each group of equal ones starts."""
    order = np.argsort(-score, kind="stable")
    return order, np.flatnonzero(np.diff(score[order], prepend=np.inf))


def _normal_area(distance: float, share: float) -> float:
    return float(ndtr(distance / np.sqrt(2.0)))


def _normal_precision(distance: float, share: float) -> float:
    threshold = np.linspace(-FARTHEST, FARTHEST + max(distance, 0.0), N_POINTS)
    apart = threshold - distance
    found, other = share * ndtr(-apart), (1.0 - share) * ndtr(-threshold)
    density = np.exp(-0.5 * apart**2) / np.sqrt(2.0 * np.pi)
    return float(density @ (found / (found + other))) * float(threshold[1] - threshold[0])


AREA = RankingKind(_area, _expected_area, _normal_area)
PRECISION = RankingKind(_average_precision, _expected_precision, _normal_precision)
