"""What the figures of a report rest on: rows and members by label, distinct rows, and whether that is enough."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["EstimateBasis", "LabelBasis"]


@dataclass(frozen=True)
class LabelBasis:
    """Rows and members behind the figures, for one label.

    Attributes
    ----------
    label : str
    n_rows : int
        Rows of this label that were given, with weight.
    n_usable : int
        Those among them that have enough members to be judged by.
    mean_members : float
        Mean number of members that predict a usable row.
    weight_factor : float
        Mean factor by which the weights of the usable rows were multiplied so that the label keeps its share; 1 where
        nothing was corrected.
    """

    label: str
    n_rows: int
    n_usable: int
    mean_members: float
    weight_factor: float = 1.0


@dataclass(frozen=True)
class EstimateBasis:
    """What the estimates of a report rest on.

    Attributes
    ----------
    labels : tuple of LabelBasis
        One entry for each label of a classifier; empty for regression.
    usable_weight : float
        Share of the given weight on rows that have enough members to be judged by.
    n_effective : float
        Effective number of rows: Kish's for uneven weights, and no more than the distinct rows or groups.
    n_distinct : int or None
        Different rows among those used; None where it was not counted.
    n_repeated : int
        Rows whose features and target stand in the data more than once.
    n_groups : int or None
        Groups of rows that were named as belonging together.
    doubts : tuple of str
        Reasons not to rely on the figures, each a sentence.  The headline states the first; the gate and
        ``rightsize`` act on no report that has one.
    """

    labels: tuple[LabelBasis, ...] = ()
    usable_weight: float = 1.0
    n_effective: float = math.nan
    n_distinct: int | None = None
    n_repeated: int = 0
    n_groups: int | None = None
    doubts: tuple[str, ...] = ()
