"""The losses of rows under one ensemble, by which it is compared with others row by row."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class JudgedRows(NamedTuple):
    """The losses of all rows under one ensemble.

    Attributes
    ----------
    losses : ndarray, shape (n_rows,)
        0-1 error of the row's out-of-bag members, combined, or squared error at the ensemble's own size; NaN
        without enough members.
    seed_variance : float
        Variance, over seeds, of the error estimated from these rows, without the part that is independent between rows:
        the part common to rows of one seed, and the noise of extrapolating from fewer members to the ensemble's size.
    shift : float
        Error of all members minus the mean loss, which is that of each row's out-of-bag members; 0 for held-out rows.
    row_factor : float
        Bound on the variance of a mean of the losses, in variances of a mean of as many independent ones.
    digest : str
        Of the targets in their order: equal where two ensembles were judged by the same rows.
    """

    losses: NDArray[np.floating[Any]]
    seed_variance: float
    shift: float
    row_factor: float = 1.0
    digest: str = ""


def write_judged_rows(judged: JudgedRows, path: Path) -> None:
    """Write the losses of rows to a file; seven digits of each are kept."""
    losses = judged.losses
    few = losses if losses.dtype == np.float16 else losses.astype(np.float32)
    numbers = np.array([judged.seed_variance, judged.shift, judged.row_factor])
    np.savez_compressed(path, losses=few, numbers=numbers, digest=np.array(judged.digest))


def read_judged_rows(file: Path | BytesIO) -> JudgedRows:
    """Return the losses of rows that :func:`write_judged_rows` wrote; nothing in the file can run code."""
    with np.load(file, allow_pickle=False) as found:
        seed_variance, shift, row_factor = map(float, found["numbers"])
        return JudgedRows(found["losses"], seed_variance, shift, row_factor, str(found["digest"]))


def judged_by_both(candidate: JudgedRows, baseline: JudgedRows) -> NDArray[np.bool_]:
    """Return whether members of both ensembles predict each row, shape (n_rows,)."""
    return np.asarray(np.isfinite(candidate.losses) & np.isfinite(baseline.losses))
