"""The rows that imbalanced-learn's samplers kept, and the check that they follow from the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError

__all__ = ["check_sample", "sampled_rows"]

IntArray = NDArray[np.integer[Any]]


def sampled_rows(sampler: Any, n_rows: int) -> IntArray:
    """Return the positions of the rows that a fitted sampler kept, in its order, repeated or not.

    Parameters
    ----------
    sampler : fitted sampler with ``sample_indices_``
    n_rows : int
        Rows that it chose from.

    Raises
    ------
    DataMismatchError
        If it kept rows beyond `n_rows`.
    """
    kept = np.asarray(sampler.sample_indices_)
    if kept.size and kept.max() >= n_rows:
        raise DataMismatchError(
            f"X has {counted(n_rows, 'row')}, but the model was trained on at least {kept.max() + 1}. Pass the exact "
            'training rows in training order, or {data="holdout"} for rows the model was not trained on.'
        )
    return kept


def check_sample(sampler: Any, codes: NDArray[Any], member: int) -> None:
    """Raise DataMismatchError unless a random sampler draws from these labels, by its seed, the rows that it kept.

    Parameters
    ----------
    sampler : fitted RandomUnderSampler
    codes : ndarray, shape (n_rows,)
        Label codes of the rows that it chose from.
    member : int
        Position of the member, for the message.
    """
    again = clone(sampler)
    try:
        again.fit_resample(np.arange(codes.size)[:, None], codes)
        is_same = np.array_equal(again.sample_indices_, sampler.sample_indices_)
    except ValueError:  # fewer rows of a label than were drawn, for example
        is_same = False
    if not is_same:
        raise DataMismatchError(
            f"y is not the target the model was trained on: from these {codes.size} labels, the sampler of member "
            f"{member} draws other rows than at training. X and y must be the exact training rows in training order; "
            'for rows the model was not trained on pass {data="holdout"}.'
        )
