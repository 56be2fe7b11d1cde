"""Groups of rows that belong together: their codes, weights, chances, and what they do not allow."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.analysis.evidence import Evidence
from ens_plugin.core.bags import Bags
from ens_plugin.core.comparison import row_losses
from ens_plugin.core.tally import AnyTally, ValueTally
from ens_plugin.core.validation import (
    FloatArray,
    IntArray,
    counted,
    refuse_lazy,
    shown,
    with_missing,
)
from ens_plugin.core.weights import (
    RowWeight,
    design_effect,
    represent,
    small_number_factor,
)
from ens_plugin.errors import InputError, TooFewMembersError, spelled
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import FEWEST_ROWS

__all__ = [
    "encode_groups",
    "group_chances",
    "group_doubts",
    "largest_group",
    "missing_weight",
    "reach_of_groups",
    "refuse_groups_in_bags",
    "with_groups",
    "with_reach",
]

FEWEST_GROUPS = 10
REFUSED_WEIGHT = 0.2
# Where fewer groups have two members, most usable ones have no more, from which the error was too low by a third.
MOST_LOST = 0.75
DOUBTED_WEIGHT = 0.05
HALVINGS = 60
LOOKED_AT = 10
# Advice to name groups; that every row is one of its own is no such advice.
ADVICE = re.compile(r"groups=(?!np\.arange)")
# Limits of chance, as of rows: the relative spread of the numbers of members, and its standard errors.
MOST_DISPERSION, MOST_DEVIATIONS = 1.25, 5.0


def encode_groups(groups: Any, n_rows: int) -> IntArray:
    """Return the group of each row as a number from 0, in the order of first appearance."""
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
    """
    assert weight.groups is not None
    total, groups = weight.total[usable], weight.groups[usable]
    if np.unique(groups).size < 2:
        raise TooFewMembersError(
            "Rows of only one group have out-of-bag members, from which the error on others cannot be estimated. "
            + _remedies(weight, usable)
        )
    losses = [row_losses(tally)]
    if isinstance(tally, ValueTally):
        losses.append(losses[0] + tally.variance)
    else:
        losses.append(tally.wrong_labels / np.maximum(tally.trials, 1.0))
    effect = max(design_effect(loss[usable], total, groups) for loss in losses)
    is_grouped = np.unique(groups).size < groups.size
    factor = small_number_factor(total, groups, level) if is_grouped else 1.0
    return replace(weight, design_effect=effect * factor if is_grouped else 1.0)


def refuse_groups_in_bags(weight: RowWeight, usable: NDArray[np.bool_], missing: float = 1.0) -> None:
    """Raise TooFewMembersError if too many groups have a row in nearly every bag."""
    if weight.groups is None:
        return
    lost = 1.0 - float(weight.total[usable].sum() / weight.total.sum())
    are_few = lost > MOST_LOST or np.unique(weight.groups[usable]).size < FEWEST_ROWS
    if lost > REFUSED_WEIGHT and (are_few or missing > REFUSED_WEIGHT):
        n_groups = np.unique(weight.groups).size
        left = np.unique(weight.groups[usable]).size
        reason = (
            f"Only {counted(left, 'is', 'are', of=f'{n_groups} groups')} out of bag for enough "
            f"members, and {100 * lost:.3g} % of the weight is on the others"
        )
        raise TooFewMembersError(
            f"{reason}: a bag holds a row of nearly every group like these. {_remedies(weight, usable)}",
            reason,
        )


def missing_weight(evidence: Evidence, n_members: int, needed: int) -> float:
    """Return the share of the weight on groups that are in nearly every bag, and that no usable groups represent."""
    if evidence.weight.groups is None:
        return 0.0
    trials = evidence.tally.trials
    found = represent(
        np.zeros(trials.size, dtype=np.int64), trials, evidence.weight.total,
        n_labels=1, n_members=n_members, needed=needed, chance=evidence.chance,
    )  # fmt: skip
    return float(found.missing[0])


def group_chances(groups: IntArray, trials: FloatArray, n_members: int) -> FloatArray | None:
    r"""Return the chance of each row's group to be out of one bag, by the size of the group.

    Where rows are drawn alike, a group of s rows is left out with a chance of about :math:`e^{-\lambda s}`.  Lambda is
    the likeliest one, at which :math:`\sum_g s_g (M q_g - n_g) / (1 - q_g) = 0`.
    """
    size = np.bincount(groups).astype(np.float64)
    own = np.zeros(size.size)
    own[groups] = trials

    def chance(rate: float) -> FloatArray:
        return np.clip(np.exp(-rate * size), 1e-300, 1.0 - 1e-12)

    low, high = 1e-6, 50.0
    for _ in range(HALVINGS):
        middle = np.sqrt(low * high)
        q = chance(middle)
        low, high = (middle, high) if size @ ((n_members * q - own) / (1.0 - q)) > 0 else (low, middle)
    q = chance(low)
    expected = n_members * q * (1.0 - q)
    most = MOST_DISPERSION * expected.sum() + MOST_DEVIATIONS * np.sqrt((expected + 2.0 * expected**2).sum())
    return q[groups] if np.square(own - n_members * q).sum() <= most else None


def _remedies(weight: RowWeight, usable: NDArray[np.bool_]) -> str:
    """Return how to get members that were trained on no row of the groups without usable rows."""
    assert weight.groups is not None
    left_out = weight.groups if usable.all() else weight.groups[~usable]
    size = float(np.median(np.bincount(weight.groups)[left_out]))
    return (
        "For the model as it is, pass rows of other groups, with their groups, as held out ({data='holdout'}). To "
        "judge groups without such rows, draw whole groups for each member (train the members yourself and pass "
        f"CustomEnsemble.from_estimators), or train on smaller bags: with groups of {size:.3g} rows, about "
        f"{1.0 / max(size, 1.0):.2g} of the rows for each member (max_samples of scikit-learn, bagging_fraction of "
        "LightGBM, subsample of XGBoost)."
    )


def largest_group(bags: Bags) -> int:
    """Return the size up to which two members or more left out a quarter of the groups of rows; 0 for none."""
    chosen = range(0, bags.n_members, max(bags.n_members // LOOKED_AT, 1))
    left_out = 1.0 - float(np.mean([bags.member(member).mean() for member in chosen]))
    if bags.n_members * left_out < 1.0:
        return 0
    # One member on average is two or more for a quarter of the groups.
    return int(np.log(bags.n_members) / -np.log(min(left_out, 1.0 - 1e-9)))


def with_reach(findings: tuple[Finding, ...], bags: Bags) -> tuple[Finding, ...]:
    """Return findings, the first of which that advises to name groups states for which ones this model allows that."""
    first = next((place for place, found in enumerate(findings) if ADVICE.search(found.sentence)), None)
    if first is None:
        return findings
    longer = findings[first].with_sentence(f"{findings[first]} {reach_of_groups(bags)}")
    return (*findings[:first], longer, *findings[first + 1 :])


def reach_of_groups(bags: Bags) -> str:
    """Return a sentence on the groups that can be judged out of bag, and on what to do about larger ones."""
    size = largest_group(bags)
    otherwise = (
        "pass rows of other groups, with their groups, as held out ({data='holdout'}), or train each member on rows of "
        "whole groups (CustomEnsemble.from_estimators)."
    )
    if size < 2:
        return spelled(
            "With this model's bags, groups of rows cannot be judged out of bag, because hardly a member left out all "
            f"rows of a group, unless the bags hold whole groups. Otherwise {otherwise}"
        )
    return spelled(
        f"With this model's bags, groups= works for groups of up to {size} rows, or where the bags hold whole groups. "
        f"Otherwise {otherwise}"
    )


def group_doubts(weight: RowWeight, usable: NDArray[np.bool_], missing: float) -> tuple[Finding, ...]:
    """Return doubts about estimates from groups: too few groups, or large ones that no usable rows represent."""
    if weight.groups is None:
        return ()
    found: list[Finding] = []
    n_groups = np.unique(weight.groups[usable]).size
    if n_groups < FEWEST_GROUPS:
        sentence = (
            f"Only {counted(n_groups, 'group')} of rows: too few to estimate how much groups differ. Pass more groups."
        )
        found.append(finding("few-groups", sentence, n_groups=n_groups))
    sizes = np.bincount(weight.groups)[weight.groups]
    lost = 1.0 - float(weight.total[usable].sum() / weight.total.sum())
    if min(missing, lost) > DOUBTED_WEIGHT:
        sentence = (
            f"Rows with {100 * lost:.3g} % of the weight have too few members whose bags hold no row of their group; "
            f"their groups have {sizes[~usable].mean():.3g} rows on average, the others {sizes[usable].mean():.3g}. "
            f"The figures are of the smaller groups. {spelled(_remedies(weight, usable))}"
        )
        found.append(finding("large-groups", sentence, missing_weight=lost))
    return tuple(found)
