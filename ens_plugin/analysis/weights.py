"""What each row counts: groups of rows that belong together, and usable rows weighted to represent all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.evidence import Evidence, label_count
from ens_plugin.core.bags import Bags
from ens_plugin.core.comparison import row_losses
from ens_plugin.core.tally import LabelTally, ValueTally
from ens_plugin.core.validation import (
    STANDARD_ERRORS,
    FloatArray,
    IntArray,
    counted,
    printable,
    refuse_lazy,
    rounded_up,
    shown,
    with_missing,
)
from ens_plugin.core.weights import (
    MOST_DISPERSION,
    Representation,
    RowWeight,
    design_effect,
    represent,
    small_number_factor,
)
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import FEWEST_ROWS, LabelBasis

FEWEST_GROUPS = 10
REFUSED_WEIGHT = 0.2
# Where fewer groups have two members, most usable ones have no more, from which the error was too low by a third.
MOST_LOST = 0.75
DOUBTED_WEIGHT = 0.05
HALVINGS = 60
LOOKED_AT = 10
# The checks whose findings advise to name groups.
ADVISING = frozenset({"copies", "neighbouring-rows", "subjects"})


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


def with_groups(
    weight: RowWeight, tally: LabelTally | ValueTally, usable: NDArray[np.bool_], level: float
) -> RowWeight:
    """Return the weights with the design effect of their groups, by which groups of rows raise a variance."""
    # It is the larger one of the effects on the ensemble's loss and on one member's loss, raised where groups are few.
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
        losses.append(tally.wrong_members / np.maximum(tally.trials, 1.0))
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
    most = MOST_DISPERSION * expected.sum() + STANDARD_ERRORS * np.sqrt((expected + 2.0 * expected**2).sum())
    return q[groups] if np.square(own - n_members * q).sum() <= most else None


def _remedies(weight: RowWeight, usable: NDArray[np.bool_]) -> str:
    """Return how to get members that were trained on no row of the groups without usable rows."""
    assert weight.groups is not None
    left_out = weight.groups if usable.all() else weight.groups[~usable]
    size = float(np.median(np.bincount(weight.groups)[left_out]))
    return (
        "For the model as it is, pass rows of other groups, with their groups, as held out (data='holdout'). To "
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
    first = next((place for place, found in enumerate(findings) if found.code in ADVISING), None)
    if first is None:
        return findings
    longer = findings[first].with_sentence(f"{findings[first]} {reach_of_groups(bags)}")
    return (*findings[:first], longer, *findings[first + 1 :])


def reach_of_groups(bags: Bags) -> str:
    """Return a sentence on the groups that can be judged out of bag, and on what to do about larger ones."""
    size = largest_group(bags)
    otherwise = (
        "pass rows of other groups, with their groups, as held out (data='holdout'), or train each member on rows of "
        "whole groups (CustomEnsemble.from_estimators)."
    )
    if size < 2:
        return (
            "With this model's bags, groups of rows cannot be judged out of bag, because hardly a member left out all "
            f"rows of a group, unless the bags hold whole groups. Otherwise {otherwise}"
        )
    return (
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
            f"The figures are of the smaller groups. {_remedies(weight, usable)}"
        )
        found.append(finding("large-groups", sentence, missing_weight=lost))
    return tuple(found)


# A label that is out of bag less often than others needs this mean number of members of a row, by members needed, or
# this number of them on its usable rows in sum.
LEAST_MEMBERS = {1: 3.0, 2: 4.0}
LEAST_IN_SUM = 20.0
# More members than so many times those there are, are no remedy.
MOST_TIMES = 20.0
# Shares of weight on rows that no usable row represents.
MOST_MISSING = 0.03
REFUSED_MISSING = 0.10
MOST_MISSING_OF_LABEL = 0.25
MOST_MISSING_BY_LABEL = 0.005
# Largest mean change of the weights that is ignored for a metric, which takes no weights.
MOST_CHANGE = 0.03
# Factors nearer to 1 than this are written 1.000.
LEAST_CHANGE = 5e-4
# So few rows would not estimate the error of their label even if all were usable.
HANDFUL = 5
MOST_LABELS_NAMED = 6
# Raw scores of a rare label with fewer rows than this depend on single rows.
FEWEST_SCORED = 60
LARGEST_RARE_SHARE = 0.15
BY_WEIGHT = (
    "The bags were drawn by the weights of the training (sample_weight or class_weight). In the error all rows count "
    "alike; pass sample_weight to the analysis if they should not."
)
LARGE_WEIGHTS = (
    "Where bags are drawn by weight, as scikit-learn 1.9 and later draws them by class_weight and by the sample_weight "
    "of fit, rows of large weight are in nearly every bag."
)
LARGE_GROUPS = (
    "Rows of large groups have few out-of-bag members, because a member counts for a row only if its bag holds no row "
    "of the same group."
)
OTHER_REMEDIES = (
    "train with class_weight='balanced_subsample', which weights the rows inside each bag; train without weights, and "
    "pass them as sample_weight to the analysis; or pass held-out rows with data='holdout'."
)
REMEDIES = (
    "Do one of these: leave more rows out of each bag, with a smaller max_samples; train more members; "
    f"{OTHER_REMEDIES}"
)


@dataclass(frozen=True, eq=False)
class RowShares:
    """The tallied rows, weighted to represent all rows.

    Attributes
    ----------
    is_even : bool
        Whether no weight had to be changed.
    change : float
        Mean relative change of a usable row's weight.
    unevenness : str
        A sentence on how often the rows of each label are left out; empty where `is_even`.
    """

    evidence: Evidence
    is_even: bool
    change: float = 0.0
    labels: tuple[LabelBasis, ...] = ()
    findings: tuple[Finding, ...] = ()
    unevenness: str = ""


def row_shares(adapter: EnsembleAdapter, evidence: Evidence, usable: NDArray[np.bool_], needed: int) -> RowShares:
    """Return the usable rows, weighted to represent all rows; raise an error if too few are left for that."""
    n_labels = max(label_count(adapter), 1)
    names = [""] if adapter.classes is None else [printable(str(name), 40) for name in adapter.classes]
    trials, weight, rows = evidence.tally.trials, evidence.weight.total, evidence.weight.rows
    label = np.zeros(trials.size, dtype=np.int64) if evidence.label is None else evidence.label
    found = represent(
        label, trials, weight,
        n_labels=n_labels, n_members=adapter.n_members, needed=needed, rows=rows, chance=evidence.chance,
    )  # fmt: skip
    why = LARGE_WEIGHTS if evidence.weight.groups is None else LARGE_GROUPS
    refuse = partial(_refuse_label, found, names, needed, adapter.n_members, why)
    handfuls = _refuse_scarce_labels(found, names, needed, refuse) if adapter.classes is not None else ()
    # Weight missing because of groups is checked by missing_weight.
    doubts = _missing_weight(found) if evidence.weight.groups is None else ()
    if adapter.classes is not None:
        _refuse_partial_labels(found, refuse)
    factors = found.mean_factor(label, (trials >= needed) & (weight > 0), weight)
    labels = () if adapter.classes is None else tuple(_label_basis(found, names, factors))
    notes = handfuls
    if adapter.info.aggregation == "mean_score" and trials.min() < adapter.n_members:
        notes += _few_scored_rows(labels)
    if found.is_even:
        return RowShares(evidence, True, 0.0, labels, (*doubts, *notes))
    unevenness = _unevenness(found, names)
    change = float(np.average(np.abs(found.factor[usable] - 1.0), weights=weight[usable]))
    measures = _measures(labels, change)
    if measures or not found.looks_even:
        said = [unevenness, *measures]
        if evidence.chance is not None and evidence.weight.groups is None and not np.ptp(evidence.weight.total):
            said.append(BY_WEIGHT)
        notes = (finding("unevenly-drawn-rows", " ".join(said), mean_change=change), *notes)
    return RowShares(_weighed(evidence, found.factor), False, change, labels, (*doubts, *notes), unevenness)


def refuse_unweighable(shares: RowShares, *, unweighted_metric: str | None) -> None:
    """Raise InputError if the metric cannot take the weights of rows that are out of bag unevenly."""
    if shares.is_even:
        return
    if unweighted_metric is not None and shares.change > MOST_CHANGE:
        raise InputError(
            f"{shares.unevenness} The metric {unweighted_metric!r} takes no weights: its function has no parameter "
            f"sample_weight. {REMEDIES}"
        )


def _weighed(evidence: Evidence, factor: FloatArray) -> Evidence:
    weight, sample = evidence.weight, evidence.sample
    squares = None if weight.squares is None else weight.squares * factor**2
    more = evidence.metric_sample
    return replace(
        evidence,
        weight=replace(weight, total=weight.total * factor, squares=squares),
        sample=replace(sample, weight=sample.weight * factor[sample.rows]),
        metric_sample=None if more is None else replace(more, weight=more.weight * factor[more.rows]),
    )


def _refuse_scarce_labels(
    found: Representation, names: list[str], needed: int, refuse: Callable[[int], NoReturn]
) -> tuple[Finding, ...]:
    """Raise an error for labels with too few members or rows; return notes on labels of few rows, left out."""
    is_scarce = found.is_scarce & (found.members < LEAST_MEMBERS[needed])
    is_scarce &= found.n_usable * found.usable_members < LEAST_IN_SUM
    is_scarce |= (found.n_rows > 0) & (found.n_usable == 0)
    is_handful = (found.n_rows < HANDFUL) & (found.weight <= MOST_MISSING_BY_LABEL)
    for label in np.flatnonzero(is_scarce & ~is_handful):
        refuse(int(label))
    return tuple(_handful(found, names, int(label)) for label in np.flatnonzero(is_scarce & is_handful))


def _handful(found: Representation, names: list[str], label: int) -> Finding:
    n_rows, share = round(found.n_rows[label]), float(found.weight[label])
    return finding(
        "handful-of-label",
        f"Label {names[label]!r} has {counted(n_rows, 'row, which has', 'rows, which have')} "
        f"{found.members[label]:.2g} out-of-bag members on average: its error cannot be estimated "
        f"({100 * share:.2g} % of weight).",
        n_rows=n_rows,
        share=share,
    )


def _few_scored_rows(labels: tuple[LabelBasis, ...]) -> tuple[Finding, ...]:
    """Return a note on a rare label whose few rows determine the raw scores of all rows."""
    usable = [basis for basis in labels if basis.n_usable]
    rarest = min(usable, key=lambda basis: basis.n_usable)
    if rarest.n_usable >= FEWEST_SCORED or rarest.n_usable > LARGEST_RARE_SHARE * sum(each.n_usable for each in usable):
        return ()
    sentence = (
        f"Only {counted(rarest.n_usable, 'row has', 'rows have')} label {rarest.label!r}, and with raw scores a "
        "single one of them can decide the label of many others. Out-of-bag rows estimate the average error of models "
        "trained on as many rows; this model's own error may lie outside the interval. Check it on held-out rows."
    )
    return (finding("few-scored-rows", sentence, n_rows=rarest.n_usable),)


def _refuse_partial_labels(found: Representation, refuse: Callable[[int], NoReturn]) -> None:
    """Raise TooFewMembersError if much of a label's weight lies on rows that no usable row represents."""
    missing = found.missing * found.weight
    for label in np.flatnonzero((found.missing > MOST_MISSING_OF_LABEL) & (missing > MOST_MISSING_BY_LABEL)):
        refuse(int(label))


def _refuse_label(
    found: Representation, names: list[str], needed: int, n_members: int, why: str, label: int
) -> NoReturn:
    others = np.arange(found.n_rows.size) != label
    n_rows = found.n_rows * others
    of_others = float(found.members @ n_rows / max(n_rows.sum(), 1.0))
    reason = (
        f"Of the {counted(round(found.n_rows[label]), 'row')} of label {names[label]!r}, "
        f"{counted(round(found.n_usable[label]), 'has', 'have')} enough out-of-bag members to estimate the label's "
        f"error: a row of the label has {found.members[label]:.3g} on average, and a row of the other labels "
        f"{of_others:.3g}. The label has {100 * found.weight[label]:.3g} % of the weight, so the error on the other "
        "labels alone would mislead"
    )
    raise TooFewMembersError(f"{reason}. {why} {_remedies_of_label(found, needed, n_members, label)}", reason)


def _remedies_of_label(found: Representation, needed: int, n_members: int, label: int) -> str:
    """Return what to do about a label whose rows have too few members, with the numbers that would do."""
    n_rows, chance = float(found.n_rows[label]), float(found.left_out[label])
    named = []
    if 0.0 < chance < 1.0:
        smaller = np.arange(99.0, 0.0, -1.0)
        would_do = _is_enough(n_rows, chance ** (smaller / 100.0), n_members, needed)
        if would_do.any():
            share = smaller[np.argmax(would_do)]
            named.append(f"draw at most {share:.0f} % as many rows into each bag as now (max_samples)")
        more = n_members * np.geomspace(1.0, MOST_TIMES, 400)
        would_do = _is_enough(n_rows, chance, more, needed)
        if would_do.any():
            named.append(f"train about {rounded_up(more[np.argmax(would_do)])} members in place of {n_members}")
    if not named:
        return REMEDIES
    return f"Do one of these: {'; '.join(named)}; {OTHER_REMEDIES}"


def _is_enough(
    n_rows: float, chance: FloatArray | float, n_members: FloatArray | float, needed: int
) -> NDArray[np.bool_]:
    """Return whether the expected members of a label's rows are enough, by its rows' chance to be left out of a bag."""
    mean = np.asarray(n_members * chance)
    # A row of a single member is usable only where one is enough.
    usable = mean * (1.0 - (1.0 - chance) ** (n_members - 1.0)) if needed > 1 else mean
    return np.asarray((n_rows * usable >= LEAST_IN_SUM) | (mean >= LEAST_MEMBERS[needed]))


def _missing_weight(found: Representation) -> tuple[Finding, ...]:
    """Return a doubt, or raise an error, if much of the weight lies on rows that no usable row represents."""
    missing = float(found.missing @ found.weight)
    if missing <= MOST_MISSING:
        return ()
    n_rows, n_dropped = found.n_rows.sum(), (found.n_rows - found.n_usable).sum()
    reason = (
        f"{counted(round(n_dropped), 'has', 'have', of=f'{round(n_rows)} rows')} too few "
        f"out-of-bag members to be judged by, and {100 * missing:.3g} % of the weight lies on rows that are in nearly "
        f"every bag and that no others represent. More than {100 * MOST_MISSING:g} % leaves the error in doubt"
    )
    sentence = f"{reason}. {LARGE_WEIGHTS} {REMEDIES}"
    if missing > REFUSED_MISSING:
        raise TooFewMembersError(sentence, reason)
    return (finding("missing-weight", sentence, missing_weight=missing),)


def _label_basis(found: Representation, names: list[str], factors: FloatArray) -> list[LabelBasis]:
    return [
        LabelBasis(
            label=name,
            n_rows=round(found.n_rows[label]),
            n_usable=round(found.n_usable[label]),
            mean_members=float(found.usable_members[label]),
            weight_factor=float(factors[label]),
        )
        for label, name in enumerate(names)
    ]


def _unevenness(found: Representation, names: list[str]) -> str:
    if len(names) == 1 or not np.ptp(found.members):
        return "The bags do not leave out all rows equally often."
    low, high = int(np.argmin(found.members)), int(np.argmax(found.members))
    return (
        f"The bags do not leave out all rows equally often: a row of label {names[low]!r} has "
        f"{found.members[low]:.3g} out-of-bag members on average, one of label {names[high]!r} "
        f"{found.members[high]:.3g}."
    )


def _measures(labels: tuple[LabelBasis, ...], change: float) -> list[str]:
    """Return a sentence on what was done about rows that are left out unevenly; none where that changed nothing."""
    changed = [basis for basis in labels if abs(basis.weight_factor - 1.0) >= LEAST_CHANGE]
    if not changed and change < LEAST_CHANGE:
        return []
    return [f"Rows were therefore weighted to represent all{_by_label(changed)}."]


def _by_label(labels: list[LabelBasis]) -> str:
    if not labels:
        return ""
    chosen = sorted(labels, key=lambda basis: -abs(basis.weight_factor - 1.0))[:MOST_LABELS_NAMED]
    words = [
        f"{basis.label!r} {basis.n_usable} of {basis.n_rows} rows, weight times {basis.weight_factor:.3f}"
        for basis in chosen
    ]
    more = f"; and {counted(len(labels) - len(chosen), 'label')} that changed less" if len(labels) > len(chosen) else ""
    return f" (by label: {'; '.join(words)}{more})"
