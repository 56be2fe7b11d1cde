"""Checks that rows passed as held out are not rows that the model was trained on."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import VerifiesRows
from ens_plugin.errors import DataMismatchError

__all__ = ["LIKE_TRAINING_ROWS", "UNKNOWN_ROWS", "judge_held_out_rows"]

UNKNOWN_ROWS = (
    "Nothing in this model shows whether its members were trained on these rows. If they were, the error is far too "
    "low."
)
LIKE_TRAINING_ROWS = (
    "These rows may be the ones the model was trained on, in another order: every leaf of every tree holds as many of "
    "them as of its training rows. If they are, the members have fitted them, and every error here is far too low."
)


def judge_held_out_rows(
    adapter: EnsembleAdapter, features: Any, labels: NDArray[Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return doubts and warnings about held-out rows that may be training rows; raise an error if they are.

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
    origin = adapter.verify_rows(features, labels) if isinstance(adapter, VerifiesRows) else "unknown"
    if origin == "like_training":
        return (LIKE_TRAINING_ROWS,), ()
    if origin != "training":
        return (), (UNKNOWN_ROWS,) if origin == "unknown" else ()
    raise DataMismatchError(
        "These rows, or many of them, are rows the model was trained on: its members have fitted them, and the error "
        'would be far too low. Leave out {data="holdout"}, with all training rows in training order, to judge each by '
        "its out-of-bag members, or pass rows that were not used for training."
    )
