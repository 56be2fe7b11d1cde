"""Out-of-bag outputs that a library stored at training, compared with those computed here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import DataMismatchError

__all__ = ["compare_with_stored", "refuse_other_outputs"]


def compare_with_stored(adapter: EnsembleAdapter, sample: Sample, rows: NDArray[np.intp]) -> None:
    """Raise an error if out-of-bag outputs that the library stored differ from those computed here.

    Parameters
    ----------
    adapter : EnsembleAdapter
    sample : Sample
    rows : ndarray of int, shape (n_sampled,)
        Positions of the sampled rows among the training rows.

    Raises
    ------
    DataMismatchError
        If they differ for some rows.
    """
    if adapter.stored_oob_outputs() is not None:
        refuse_other_outputs(adapter, sample.mean_outputs(), np.asarray(sample.block.counted.any(axis=0)), rows)


def refuse_other_outputs(
    adapter: EnsembleAdapter, ours: FloatArray, known: NDArray[np.bool_], rows: NDArray[np.intp]
) -> None:
    """Refuse mean out-of-bag outputs that differ from those the library stored; accept them where it stored none.

    Parameters
    ----------
    adapter : EnsembleAdapter
    ours : ndarray, shape (n_rows, n_labels) or (n_rows,)
        Mean outputs before any inverse link, which only libraries that store none have.
    known : ndarray of bool, shape (n_rows,)
        Rows with out-of-bag members.
    rows : ndarray of int, shape (n_rows,)
        Positions of the rows among the training rows.

    Raises
    ------
    DataMismatchError
        If some differ.
    """
    stored = adapter.stored_oob_outputs()
    if stored is None:
        return
    theirs = np.asarray(stored, dtype=np.float64)[rows]
    known = known & np.isfinite(theirs.reshape(theirs.shape[0], -1)).all(axis=1)
    scale = max(float(np.abs(theirs[known]).max(initial=0.0)), 1e-12)
    differing = np.abs(ours - theirs).reshape(known.size, -1).max(axis=1) > 1e-4 * scale
    if np.any(differing & known):
        n_known = np.count_nonzero(known)
        raise DataMismatchError(
            f"{counted(np.count_nonzero(differing & known), 'has', 'have', of=f'{n_known} rows')} "
            "other out-of-bag outputs than the model stored at training. X and y must be the training rows in training "
            "order; for other rows pass {data='holdout'}."
        )
