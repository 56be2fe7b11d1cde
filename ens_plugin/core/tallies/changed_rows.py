"""Recognition of training rows that were changed since, by the members that drew them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import BoolArray

__all__ = ["drawn_share_of_error", "is_lower_where_drawn"]

FloatArray = NDArray[np.float64]

# Rows and standard errors from which a difference is not chance, and the largest share of the error that shows it.
FEWEST_ROWS = 30
FEWEST_ERRORS = 6.0
LARGEST_SHARE = 0.8


def drawn_share_of_error(errors: FloatArray, in_bag: BoolArray) -> float:
    """Return the error of the members that drew a row, over that of the members that did not, on average over rows.

    Each row's errors are divided by their mean, so that no row outweighs the others.

    Parameters
    ----------
    errors : ndarray of float, shape (n_members, n_rows)
        Error of each member about each row, at least 0.
    in_bag : ndarray of bool, shape (n_members, n_rows)
        Whether the member drew the training row at the same position.

    Returns
    -------
    float
        NaN where no row has errors and both kinds of members.

    Examples
    --------
    >>> drawn_share_of_error(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([[True, False], [False, True]]))
    0.0
    """
    drawn, left_out = _relative_errors(errors, in_bag)
    return float(drawn.sum() / left_out.sum()) if left_out.any() else np.nan


def is_lower_where_drawn(errors: FloatArray, in_bag: BoolArray) -> bool:
    """Return whether members err less about the rows at the positions they drew than chance explains.

    About rows that the members were not trained on, the bags hold no information: for every row, the expected
    difference between members that drew its position and members that did not is 0.

    Parameters
    ----------
    errors : ndarray of float, shape (n_members, n_rows)
        Error of each member about each row, at least 0.
    in_bag : ndarray of bool, shape (n_members, n_rows)
        Whether the member drew the training row at the same position.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> in_bag, errors = rng.random((20, 200)) < 0.6, rng.random((20, 200))
    >>> is_lower_where_drawn(errors, in_bag), is_lower_where_drawn(np.where(in_bag, 0.5 * errors, errors), in_bag)
    (False, True)
    """
    drawn, left_out = _relative_errors(errors, in_bag)
    differences = left_out - drawn
    if differences.size < FEWEST_ROWS:
        return False
    standard_error = float(differences.std(ddof=1)) / np.sqrt(differences.size)
    is_clear = float(differences.mean()) > FEWEST_ERRORS * standard_error
    return bool(is_clear and drawn_share_of_error(errors, in_bag) <= LARGEST_SHARE)


def _relative_errors(errors: FloatArray, in_bag: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return each row's mean error of the members that drew it, and of the others, both over that of all members.

    Rows without errors, or with members of one kind only, are left out.
    """
    mean = errors.mean(axis=0)
    chosen = in_bag.any(axis=0) & ~in_bag.all(axis=0) & (mean > 0.0)
    relative, in_bag = errors[:, chosen] / mean[chosen], in_bag[:, chosen]
    n_drawn, drawn = in_bag.sum(axis=0), (relative * in_bag).sum(axis=0)
    return drawn / n_drawn, (relative.sum(axis=0) - drawn) / (len(errors) - n_drawn)
