"""Where rows come from: training rows and their bags, and training rows that are passed as held out, or changed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import shortened
from ens_plugin.adapters.registry import find_library
from ens_plugin.adapters.trees import columns_outside
from ens_plugin.core.alike_rows import (
    are_own_labels,
    are_own_values,
)
from ens_plugin.core.bags import Bags, drawn_share_of_error, is_lower_where_drawn
from ens_plugin.core.sample import Sample, spread_rows
from ens_plugin.core.tally import AnyTally, ValueTally
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import BagError, DataMismatchError, EnsPluginError
from ens_plugin.findings import Finding, finding

__all__ = [
    "LIKE_TRAINING_ROWS",
    "UNKNOWN_ROWS",
    "changed_rows_share",
    "doubts_about_changed_rows",
    "judge_held_out_rows",
    "own_prediction_doubts",
    "training_bags",
    "unit_findings",
]

COMPARED_ROWS = 1000
# Drawing the bags of more cells takes seconds.
MOST_CELLS = 100_000_000
# Outputs that are held at once: 16 MB.
MOST_OUTPUTS = 2_000_000


def doubts_about_changed_rows(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> tuple[Finding, ...]:
    """Return a doubt about rows that members predict better where they drew the training row at the same position."""
    share = changed_rows_share(adapter, features, target)
    if share is None:
        return ()
    sentence = (
        "These rows seem to be the training rows, with values changed since: rounded, scaled or filled in. Members "
        f"that drew the training row at the same position have {100 * share:.0f} % of the error of the others. If "
        "they are, the error is far too low. Pass the values the model was trained on, not as held-out rows, or pass "
        "rows that were not used for training."
    )
    return (finding("changed-training-rows", sentence, share_of_error=share),)


def changed_rows_share(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> float | None:
    """Return the error of members that drew the row at the same position, as a share of the error of the others."""
    chosen = spread_rows(len(target), COMPARED_ROWS)
    own = target[chosen] if adapter.classes is None else target[chosen].astype(np.int64)
    in_bag = _drawn_positions(adapter, target, chosen, own)
    if in_bag is None:
        return None
    errors = _member_errors(adapter, features[chosen], own)
    return drawn_share_of_error(errors, in_bag) if is_lower_where_drawn(errors, in_bag) else None


def _drawn_positions(
    adapter: EnsembleAdapter, target: NDArray[Any], chosen: NDArray[np.intp], own: NDArray[Any]
) -> NDArray[np.bool_] | None:
    """Return which members drew the training rows at the `chosen` positions; None for another number of rows."""
    if adapter.loss_name is not None or target.ndim > 1:
        return None
    if target.size * adapter.n_members > MOST_CELLS:
        return None
    try:
        bags = adapter.distributed_bags(target.size, candidate=0).at(chosen, own)
    except EnsPluginError:  # another number of rows, or bags that do not follow from positions
        return None
    # The trees of one member may have a bag each.
    return bags.in_bag() if bags.n_members == adapter.n_members else None


def _member_errors(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> NDArray[np.float64]:
    """Return the errors of :func:`_errors`, of some members at a time: their outputs for many labels are large."""
    n_labels = 1 if adapter.classes is None else len(adapter.classes)
    at_once = max(MOST_OUTPUTS // (target.size * n_labels), 1)
    parts = (range(start, min(start + at_once, adapter.n_members)) for start in range(0, adapter.n_members, at_once))
    return np.concatenate([_errors(adapter, adapter.outputs(features, part), target) for part in parts])


def _errors(adapter: EnsembleAdapter, outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
    """Return the absolute error of each member about each row, 0 or 1 for labels, shape (n_members, n_rows)."""
    if adapter.classes is None:
        errors: NDArray[np.float64] = np.abs(np.asarray(outputs, dtype=np.float64) - target)
        return errors
    if outputs.ndim == 3:
        outputs = outputs.argmax(axis=2)
    elif adapter.output_kind == "scores":
        outputs = outputs > 0
    return np.asarray(outputs != target, dtype=np.float64)


UNKNOWN_ROWS = finding(
    "unknown-rows",
    "Nothing in this model shows whether its members were trained on these rows. If they were, the error is far too "
    "low.",
)
# Some moved columns, such as dates, are usual for later rows; several with many splits are not.
FEW_COLUMNS, LARGE_SHARE = 3, 0.25
SHOWN_COLUMNS = 3
LIKE_TRAINING_ROWS = finding(
    "like-training-rows",
    "These rows may be the ones the model was trained on, in another order or with others among them: every leaf of "
    "every tree holds at least as many of them as of its training rows. If they are, the members have fitted them, and "
    "every error here is far too low. Pass only rows that were not used for training.",
)

OWN_LABELS = finding(
    "predicted-target",
    "y seems to be what this model predicts, and not what was observed: the ensemble is right about nearly all rows on "
    "which its members are most divided. If y is predicted, the error is far too low. Pass the labels that were "
    "observed.",
)
OWN_VALUES = finding(
    "predicted-target",
    "y seems to be what this model predicts, or another version of it, and not what was observed: it is nearer to the "
    "ensemble's predictions than those of another such ensemble would be. If y is predicted, the error is far too low. "
    "Pass the values that were observed.",
)


def judge_held_out_rows(adapter: EnsembleAdapter, features: Any, labels: NDArray[Any]) -> tuple[Finding, ...]:
    """Return findings on held-out rows that may be training rows, or have columns in other units."""
    origin = adapter.verify_rows(features, labels)
    if origin == "training":
        raise _training_rows()
    units = unit_findings(adapter, features)
    of_origin = {"like_training": (LIKE_TRAINING_ROWS,), "unknown": (UNKNOWN_ROWS,)}.get(origin, ())
    return (*units, *of_origin) if origin == "unknown" else (*of_origin, *units)


def own_prediction_doubts(
    adapter: EnsembleAdapter, sample: Sample, tally: AnyTally, weight: FloatArray
) -> tuple[Finding, ...]:
    """Return a doubt about held-out targets that the model itself predicted, or another version of it."""
    if adapter.loss_name is not None:
        return ()
    if adapter.info.task == "regression":
        assert isinstance(tally, ValueTally)
        return (OWN_VALUES,) if are_own_values(tally, weight) else ()
    return (OWN_LABELS,) if adapter.n_members > 1 and are_own_labels(sample) else ()


def unit_findings(adapter: EnsembleAdapter, features: Any) -> tuple[Finding, ...]:
    """Return a doubt about columns outside of the members' splits where these matter, a note where they are few."""
    found = columns_outside(*adapter.column_splits(features))
    n_columns = len(found.columns)
    if n_columns == 0:
        return ()
    names, are = _named_columns(adapter, found.columns), "lies" if n_columns == 1 else "lie"
    numbers = {"n_columns": n_columns, "n_compared": found.n_compared}
    if n_columns >= min(FEW_COLUMNS, found.n_compared) and found.share >= LARGE_SHARE:
        other_units = (
            f"{n_columns} of the {found.n_compared} columns compared {are} outside of the values at which the members "
            f"split ({names}). These rows seem to have other units or another scale than the training rows. Pass them "
            "as the model's predict takes them."
        )
        return (finding("other-units", other_units, **numbers),)
    moved = (
        f"{names[0].upper()}{names[1:]} {are} outside of the values at which the members split, so that nearly all "
        "rows go the same way there. If the unit is another than that of the training rows, convert it. If the values "
        "have moved since training, members cannot follow them."
    )
    return (finding("moved-columns", moved, **numbers),)


def _named_columns(adapter: EnsembleAdapter, columns: tuple[int, ...]) -> str:
    names = find_library(adapter.model).feature_names(adapter.model)
    chosen = columns if names is None else [names[place] for place in columns]
    return f"column{'s' * (len(columns) > 1)} {shortened(chosen, SHOWN_COLUMNS)}"


def _training_rows() -> DataMismatchError:
    return DataMismatchError(
        "These rows, or many of them, are rows the model was trained on: its members have fitted them, and the error "
        'would be far too low. Leave out {data="holdout"}, with all training rows in training order, to judge each by '
        "its out-of-bag members. Or leave out the rows that were used for training, and pass the others; there is no "
        "other way where every member was trained on all rows, as with bootstrap=False."
    )


_CHANGED = (
    "Found: these rows seem to be the training rows, in training order, with values changed since: rounded, scaled, "
    "filled in, or columns swapped. Pass the columns and values as they were at training."
)
_MOVED = (
    "Found: X seems to hold training rows, but in another order or not all of them. Pass all of them, X and y in the "
    "order of the training."
)


def training_bags(
    adapter: EnsembleAdapter,
    X: Any,
    features: Any,
    labels: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[np.float64] | None = None,
) -> Bags:
    """Return the bags of training rows; where the rows are refused, the error also names the cause, if one is found.

    Weights of the evaluation are tried as those of training too, where bags cannot be proved without.
    """
    try:
        return adapter.bags(X, features, labels)
    except (BagError, DataMismatchError) as error:
        weighted = None if weight is None else _weighted_bags(adapter, X, features, labels, weight)
        if weighted is not None:
            return weighted
        if isinstance(error, BagError):
            raise
        cause = _cause(adapter, X, features, labels, target)
        if cause is None:
            raise
        raise DataMismatchError(f"{error.template} {cause}") from error


def _weighted_bags(
    adapter: EnsembleAdapter, X: Any, features: Any, labels: NDArray[Any], weight: NDArray[np.float64]
) -> Bags | None:
    """Return the bags that the weights prove; None where they prove none."""
    weighted = adapter.with_training_weight(features, weight)
    if weighted is None:
        return None
    try:
        return adapter.bags(X, weighted, labels)
    except (BagError, DataMismatchError):
        return None


def _cause(adapter: EnsembleAdapter, X: Any, features: Any, labels: NDArray[Any], target: NDArray[Any]) -> str | None:
    """Return why the rows are refused; None where it is their number or the target, or nothing is found."""
    if not _are_refused_without_target(adapter, X, features):
        return None
    try:
        if changed_rows_share(adapter, features, target) is not None:
            return _CHANGED
        is_known = adapter.verify_rows(features, labels) == "training"
    except EnsPluginError:
        return None
    return _MOVED if is_known else None


def _are_refused_without_target(adapter: EnsembleAdapter, X: Any, features: Any) -> bool:
    """Return whether the rows are refused for their features alone, and not for their number."""
    try:
        adapter.distributed_bags(features.shape[0], candidate=0)
    except EnsPluginError:  # another number of rows, or bags that do not follow from positions
        return False
    try:
        adapter.bags(X, features, None)
    except DataMismatchError:
        return True
    return False
