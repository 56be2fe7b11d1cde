"""What the estimates of a report rest on: rows, labels and groups; and the errors by label."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ens_plugin.core.validation import counted
from ens_plugin.report.brief import brief

__all__ = ["EstimateBasis", "LabelBasis", "LabelErrors"]


@dataclass(frozen=True, repr=False)
class LabelBasis:
    """Number of rows and mean number of members that the estimates for one label are computed from.

    Attributes
    ----------
    label : str
    n_rows : int
        Number of rows of this label with positive weight.
    n_usable : int
        Number of rows of this label with positive weight and enough members for an estimate.
    mean_members : float
        Mean number of members that predict a usable row.
    weight_factor : float
        Mean factor by which the weights of the usable rows were multiplied so that the label keeps its share; 1
        without a correction.
    """

    label: str
    n_rows: int
    n_usable: int
    mean_members: float
    weight_factor: float = 1.0

    def __repr__(self) -> str:
        return brief(self, "label", "n_rows", "n_usable", "mean_members")


@dataclass(frozen=True, repr=False)
class LabelErrors:
    """Error of a classifier on the rows of one label, and the labels that are predicted there.

    Attributes
    ----------
    label : str
    error : float
        Expected share of wrong labels at the current size; NaN without rows.  The mean over all rows is the error of
        the report: the errors of all labels are multiplied by one factor.
    interval : tuple of float
        Of `error`, for rows like these; NaN without rows.
    recommended_error, asymptote : float
        Expected share of wrong labels at the recommended size and of the infinite ensemble; NaN with fewer than 30
        rows, where `error` is the share of rows whose out-of-bag label is wrong, times that factor.
    predicted : tuple of int
        Number of rows of this label by the label that their members predict together, in the order of the labels: one
        row of the confusion matrix.  An out-of-bag row is predicted by its out-of-bag members alone.
    """

    label: str
    error: float
    interval: tuple[float, float]
    recommended_error: float
    asymptote: float
    predicted: tuple[int, ...]

    def __repr__(self) -> str:
        return brief(self, "label", "n_rows", "error", "interval")

    @property
    def n_rows(self) -> int:
        """Return the number of rows of this label in the confusion matrix."""
        return sum(self.predicted)


@dataclass(frozen=True, repr=False)
class EstimateBasis:
    """Numbers of rows, labels and groups that the estimates of a report are computed from, and doubts about them.

    Attributes
    ----------
    labels : tuple of LabelBasis
        One entry for each label of a classifier; empty for regression.
    usable_weight : float
        Share of the weight on rows that have enough members for an estimate.
    n_effective : float
        Effective number of rows: Kish's for uneven weights, at most the number of distinct rows or groups.
    n_distinct : int or None
        Number of different rows among those used; None where it was not counted.
    n_repeated : int
        Rows whose features and target occur in the data more than once.
    n_groups : int or None
        Number of groups of dependent rows; None where no groups were given.
    doubts : tuple of str
        Reasons not to rely on the figures, each a sentence.  The headline states the first; the gate and
        ``rightsize`` refuse a report that has any.
    """

    labels: tuple[LabelBasis, ...] = ()
    usable_weight: float = 1.0
    n_effective: float = math.nan
    n_distinct: int | None = None
    n_repeated: int = 0
    n_groups: int | None = None
    doubts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        found = brief(self, "n_effective", "usable_weight", "n_distinct", "n_repeated", "n_groups")
        return f"{found[:-1]}, {counted(len(self.labels), 'label')}, {counted(len(self.doubts), 'doubt')})"
