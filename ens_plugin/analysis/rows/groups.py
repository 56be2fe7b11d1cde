"""Groups of rows given by the user: their codes, design effect and checks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.core import uncertainty
from ens_plugin.core.tallies.row_groups import design_effect, small_number_factor
from ens_plugin.core.tallies.tally import AnyTally, ValueTally
from ens_plugin.core.validation import IntArray, counted, refuse_lazy, shown, with_missing
from ens_plugin.errors import InputError, TooFewMembersError, spelled

if TYPE_CHECKING:
    from ens_plugin.core.tallies.row_weight import RowWeight

__all__ = ["encode_groups", "group_doubts", "refuse_groups_in_bags", "with_groups"]

FEWEST_GROUPS = 10
REFUSED_WEIGHT = 0.2
DOUBTED_WEIGHT = 0.05


def encode_groups(groups: Any, n_rows: int) -> IntArray:
    """Return the group of each row as a number from 0, in the order of first appearance.

    Parameters
    ----------
    groups : array-like of shape (n_rows,)
    n_rows : int

    Raises
    ------
    InputError
        If there is not one group for each row, one is missing, or all rows are of one group.

    Examples
    --------
    >>> encode_groups(["anna", "ben", "anna"], 3).tolist()
    [0, 1, 0]
    """
    refuse_lazy(groups, "groups")
    if isinstance(groups, (str, bytes)) or not hasattr(groups, "__len__"):
        raise InputError(
            f"groups must hold one group for each row, or be 'identical' or None, got {shown(groups, 40)}."
        )
    try:
        labels = groups if isinstance(groups, (pd.Series, pd.Index, pd.Categorical)) else _as_column(groups)
        codes = np.asarray(pd.factorize(labels)[0], dtype=np.int64)
    except Exception as error:  # a user's class may raise anything where it is compared
        raise InputError(
            f"groups cannot be read as one group for each row ({shown(error)}); pass a list of numbers or texts."
        ) from error
    if codes.size != n_rows:
        raise InputError(
            f"groups has {counted(codes.size, 'entry', 'entries')} and there are {counted(n_rows, 'row')}; give one "
            "group for each row."
        )
    missing = np.count_nonzero(codes < 0)
    if missing:
        raise InputError(
            f"groups holds {counted(missing, 'missing value')} (NaN or None); give these rows a group each of their "
            "own if they belong to none."
        )
    if codes.max() == 0:
        raise InputError(
            "groups holds a single group, from which the error on other groups cannot be estimated. Leave groups out "
            "if the rows are independent."
        )
    return codes


def _as_column(groups: Any) -> NDArray[Any]:
    column = with_missing(np.asarray(groups), groups)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise ValueError(f"it has shape {column.shape}")
    return column


def with_groups(weight: RowWeight, tally: AnyTally, usable: NDArray[np.bool_], level: float) -> RowWeight:
    """Return the weights with the design effect of their groups, by which groups of rows raise a variance.

    It is the larger one of the effects on the ensemble's loss and on one member's loss, raised where groups are few.

    Parameters
    ----------
    weight : RowWeight
        With groups; of all rows.
    tally : SupportTally, MarginTally or ValueTally
        One entry for each row.
    usable : ndarray of bool, shape (n_rows,)
        Rows that enter the estimates.
    level : float
        Level of the intervals.
    """
    assert weight.groups is not None
    total, groups = weight.total[usable], weight.groups[usable]
    if np.unique(groups).size < 2:
        raise TooFewMembersError(
            "Rows of only one group have out-of-bag members, from which the error on others cannot be estimated. "
            + _remedies(weight, usable)
        )
    losses = [uncertainty.row_losses(tally)]
    if isinstance(tally, ValueTally):
        losses.append(losses[0] + tally.variance)
    else:
        losses.append(tally.wrong_labels / np.maximum(tally.trials, 1.0))
    effect = max(design_effect(loss[usable], total, groups) for loss in losses)
    is_grouped = np.unique(groups).size < groups.size
    factor = small_number_factor(total, groups, level) if is_grouped else 1.0
    return replace(weight, design_effect=effect * factor if is_grouped else 1.0)


def refuse_groups_in_bags(weight: RowWeight, usable: NDArray[np.bool_]) -> None:
    """Raise TooFewMembersError if too many groups have a row in nearly every bag.

    Parameters
    ----------
    weight : RowWeight
        With groups; of all rows.
    usable : ndarray of bool, shape (n_rows,)
        Rows that enough members predict.

    Raises
    ------
    TooFewMembersError
        If rows that are not usable have more than a fifth of the weight.
    """
    if weight.groups is None:
        return
    lost = 1.0 - float(weight.total[usable].sum() / weight.total.sum())
    if lost > REFUSED_WEIGHT:
        n_groups = np.unique(weight.groups).size
        left = np.unique(weight.groups[usable]).size
        finding = (
            f"Only {counted(left, 'is', 'are', of=f'{n_groups} groups')} out of bag for enough "
            f"members, and {100 * lost:.3g} % of the weight is on the others"
        )
        raise TooFewMembersError(
            f"{finding}: a bag holds a row of nearly every group like these. {_remedies(weight, usable)}",
            finding,
        )


def _remedies(weight: RowWeight, usable: NDArray[np.bool_]) -> str:
    """Return how to get members that were trained on no row of the groups without usable rows."""
    assert weight.groups is not None
    left_out = weight.groups if usable.all() else weight.groups[~usable]
    size = float(np.median(np.bincount(weight.groups)[left_out]))
    return (
        f"Train on smaller bags (with groups of {size:.3g} rows, about {1.0 / size:.2g} of the rows for each member: "
        "max_samples of scikit-learn, bagging_fraction of LightGBM, subsample of XGBoost), or draw whole groups "
        "(train the members yourself and pass CustomEnsemble.from_estimators), or pass rows of other groups with "
        "{data='holdout'}."
    )


def group_doubts(weight: RowWeight, usable: NDArray[np.bool_]) -> list[str]:
    """Return doubts about estimates from groups: too few groups, or large ones without usable rows."""
    if weight.groups is None:
        return []
    found = []
    n_groups = np.unique(weight.groups[usable]).size
    if n_groups < FEWEST_GROUPS:
        found.append(
            f"Only {counted(n_groups, 'group')} of rows: too few to estimate how much groups differ. Pass more groups."
        )
    lost = 1.0 - float(weight.total[usable].sum() / weight.total.sum())
    sizes = np.bincount(weight.groups)[weight.groups]
    if lost > DOUBTED_WEIGHT:
        found.append(
            f"Rows with {100 * lost:.3g} % of the weight have too few members whose bags hold no row of their group; "
            f"their groups have {sizes[~usable].mean():.3g} rows on average, the others {sizes[usable].mean():.3g}. "
            f"The figures are of the smaller groups. {spelled(_remedies(weight, usable))}"
        )
    return found
