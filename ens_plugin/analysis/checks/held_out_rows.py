"""Checks that rows passed as held out are not training rows, and have the units of the training rows."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import JudgedByLoss, VerifiesRows
from ens_plugin.adapters.library import NativeInterface
from ens_plugin.adapters.registry import find_library
from ens_plugin.adapters.shared.labels import shortened
from ens_plugin.adapters.shared.trees.split_ranges import OutsideColumns, columns_outside
from ens_plugin.core.likeness.own_predictions import are_own_labels, are_own_values
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import AnyTally, ValueTally
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import DataMismatchError

__all__ = ["LIKE_TRAINING_ROWS", "UNKNOWN_ROWS", "judge_held_out_rows", "own_prediction_doubt"]

UNKNOWN_ROWS = (
    "Nothing in this model shows whether its members were trained on these rows. If they were, the error is far too "
    "low."
)
# Some moved columns, such as dates, are usual for later rows; several with many splits are not.
FEW_COLUMNS, LARGE_SHARE = 3, 0.25
SHOWN_COLUMNS = 3
LIKE_TRAINING_ROWS = (
    "These rows may be the ones the model was trained on, in another order or with others among them: every leaf of "
    "every tree holds at least as many of them as of its training rows. If they are, the members have fitted them, and "
    "every error here is far too low. Pass only rows that were not used for training."
)

OWN_LABELS = (
    "y seems to be what this model predicts, and not what was observed: the ensemble is right about nearly all rows on "
    "which its members are most divided. If y is predicted, the error is far too low. Pass the labels that were "
    "observed."
)
OWN_VALUES = (
    "y seems to be what this model predicts, or another version of it, and not what was observed: it is nearer to the "
    "ensemble's predictions than those of another such ensemble would be. If y is predicted, the error is far too low. "
    "Pass the values that were observed."
)


def judge_held_out_rows(
    adapter: EnsembleAdapter, features: Any, labels: NDArray[Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return doubts and warnings about held-out rows that may be training rows, or have columns in other units.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows
    labels : ndarray, shape (n_rows,)
        Target as the user gave it.

    Returns
    -------
    doubts, warnings : tuples of str

    Raises
    ------
    DataMismatchError
        If the members were trained on these rows, or on many of them.
    """
    if not isinstance(adapter, VerifiesRows):
        return (), (UNKNOWN_ROWS,)
    origin = adapter.verify_rows(features, labels)
    if origin == "training":
        raise _training_rows()
    doubts, warnings = _findings_on_units(adapter, columns_outside(*adapter.column_splits(features)))
    if origin == "like_training":
        return (LIKE_TRAINING_ROWS, *doubts), warnings
    return doubts, (*warnings, UNKNOWN_ROWS) if origin == "unknown" else warnings


def own_prediction_doubt(adapter: EnsembleAdapter, sample: Sample, tally: AnyTally, weight: FloatArray) -> str | None:
    """Return a doubt about held-out targets that the model itself predicted, or another version of it.

    Parameters
    ----------
    adapter : EnsembleAdapter
    sample : Sample
        The members' outputs for some of the rows.
    tally : SupportTally, MarginTally or ValueTally
        One entry for each row.
    weight : ndarray, shape (n_rows,)

    Returns
    -------
    str or None
    """
    if isinstance(adapter, JudgedByLoss):
        return None
    if adapter.info.task == "regression":
        assert isinstance(tally, ValueTally)
        return OWN_VALUES if are_own_values(tally, weight) else None
    return OWN_LABELS if adapter.n_members > 1 and are_own_labels(sample) else None


def _findings_on_units(adapter: EnsembleAdapter, found: OutsideColumns) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a doubt about columns outside of the members' splits where these matter, a warning where they are few."""
    n_columns = len(found.columns)
    if n_columns == 0:
        return (), ()
    names, are = _named_columns(adapter, found.columns), "lies" if n_columns == 1 else "lie"
    if n_columns >= min(FEW_COLUMNS, found.n_compared) and found.share >= LARGE_SHARE:
        doubt = (
            f"{n_columns} of the {found.n_compared} columns compared {are} outside of the values at which the members "
            f"split ({names}). These rows seem to have other units or another scale than the training rows. Pass them "
            "as the model's predict takes them."
        )
        return (doubt,), ()
    warning = (
        f"{names[0].upper()}{names[1:]} {are} outside of the values at which the members split, so that nearly all "
        "rows go the same way there. If the unit is another than that of the training rows, convert it. If the values "
        "have moved since training, members cannot follow them."
    )
    return (), (warning,)


def _named_columns(adapter: EnsembleAdapter, columns: tuple[int, ...]) -> str:
    library = find_library(adapter.model, NativeInterface) or NativeInterface
    names = library.feature_names(adapter.model)
    chosen = columns if names is None else [names[place] for place in columns]
    return f"column{'s' * (len(columns) > 1)} {shortened(chosen, SHOWN_COLUMNS)}"


def _training_rows() -> DataMismatchError:
    return DataMismatchError(
        "These rows, or many of them, are rows the model was trained on: its members have fitted them, and the error "
        'would be far too low. Leave out {data="holdout"}, with all training rows in training order, to judge each by '
        "its out-of-bag members. Or leave out the rows that were used for training, and pass the others; there is no "
        "other way where every member was trained on all rows, as with bootstrap=False."
    )
