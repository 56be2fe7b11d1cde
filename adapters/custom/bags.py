"""Bags that a user gives as a mask, or as the rows of each member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.shared.draws import DrawCounts, DrawRule, counts_from_bags, counts_of_rows
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.validation import as_array, counted, with_article
from ens_plugin.errors import DataMismatchError, InputError
from ens_plugin.records import record

__all__ = ["GivenBags", "check_in_bag"]

MAX_ROWS = 2**40


@record
class GivenBags:
    """Bags of all members as a user gave them, after the checks of :func:`check_in_bag`.

    Attributes
    ----------
    rows : ndarray of bool, shape (n_members, n_rows), or list of n_members ndarray of int
    name : str
        Name of the user's argument, for messages.
    """

    rows: NDArray[np.bool_] | list[NDArray[np.intp]]
    name: str

    def pack(self, n_rows: int) -> Bags:
        """Return the bags of `n_rows` training rows, packed as bits.

        Raises
        ------
        DataMismatchError
            If the bags are those of another number of rows.
        """
        if isinstance(self.rows, np.ndarray):
            if self.rows.shape[1] != n_rows:
                raise DataMismatchError(
                    f"X has {counted(n_rows, 'row')}, but {self.name} has {counted(self.rows.shape[1], 'column')}; "
                    "pass the exact training rows in training order."
                )
            return Bags.from_mask(self.rows)
        last = max(int(rows.max()) for rows in self.rows)
        if last >= n_rows:
            raise DataMismatchError(
                f"X has {counted(n_rows, 'row')}, but {self.name} goes up to row {last}; pass the exact training rows "
                "in training order."
            )
        return Bags.from_indices(self.rows, n_rows)

    def counts(self, n_rows: int) -> DrawCounts:
        """Return how often each member drew each row: for a mask, 0 or 1.

        Where no index array holds a row twice, the rows are taken to have been drawn without replacement.

        Raises
        ------
        DataMismatchError
            If the bags are those of another number of rows.
        """
        bags = self.pack(n_rows)
        if isinstance(self.rows, np.ndarray):
            return counts_from_bags(bags, "unknown")
        repeats = any(np.unique(rows).size < rows.size for rows in self.rows)
        rule: DrawRule = "with_replacement" if repeats else "without_replacement"
        return counts_of_rows(self.rows, len(self.rows), n_rows, rule)

    def drawn(self, member: int) -> NDArray[np.intp]:
        """Return the rows of a member, in ascending order where the user gave a mask."""
        rows = self.rows[member]
        return np.flatnonzero(rows) if isinstance(self.rows, np.ndarray) else np.asarray(rows)

    def first(self, n_members: int) -> GivenBags:
        """Return a copy of the bags of the first `n_members` members."""
        return replace(self, rows=self.rows[:n_members].copy())


def check_in_bag(
    in_bag: ArrayLike | Sequence[ArrayLike] | None, n_members: int, n_rows: int | None, name: str = "in_bag"
) -> GivenBags | None:
    """Return the bags that a user gave, after checking them; None stays None.

    Parameters
    ----------
    in_bag : array-like of bool, shape (n_members, n_rows), or sequence of n_members index arrays, or None
    n_members : int
    n_rows : int or None
        Number of training rows, where it is available already.
    name : str
        Name of the argument, for messages.

    Raises
    ------
    InputError
        If `in_bag` has none of these forms, or another number of members or rows.
    """
    if in_bag is None:
        return None
    mask = _as_mask(in_bag)
    if mask is not None:
        return GivenBags(_checked_mask(mask, n_members, n_rows, name), name)
    members = _as_sequence(in_bag, name)
    if len(members) != n_members:
        raise InputError(
            f"{name} has {counted(len(members), 'index array')} for {counted(n_members, 'member')}; give one per "
            "member."
        )
    rows = [_checked_rows(member, index, n_rows, name) for index, member in enumerate(members)]
    if _is_integer_mask(rows, n_rows):
        raise InputError(
            f"{name} holds only 0 and 1, one per row: if it is a mask, pass it as bool ({name}.astype(bool))."
        )
    return GivenBags(rows, name)


def _as_mask(in_bag: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.bool_] | None:
    try:
        array = np.asarray(in_bag)
    except Exception:  # index arrays of different lengths, or what a user's class raises
        return None
    return array if array.dtype == np.bool_ and array.ndim else None


def _checked_mask(mask: NDArray[np.bool_], n_members: int, n_rows: int | None, name: str) -> NDArray[np.bool_]:
    expected = (n_members, mask.shape[-1] if n_rows is None else n_rows)
    if mask.ndim != 2 or mask.shape != expected:
        wanted = f"({n_members}, {'n_rows' if n_rows is None else n_rows})"
        raise InputError(f"{name} has shape {mask.shape}; pass a mask of these members and rows, of shape {wanted}.")
    return mask.copy()


def _as_sequence(in_bag: ArrayLike | Sequence[ArrayLike], name: str) -> list[ArrayLike]:
    has_no_length = isinstance(in_bag, np.ndarray) and in_bag.ndim == 0
    if has_no_length or not isinstance(in_bag, (Sequence, np.ndarray)) or isinstance(in_bag, (str, bytes)):
        raise InputError(
            f"{name} must be a mask of bool or one index array per member, got {with_article(type(in_bag).__name__)}."
        )
    return list(in_bag)


def _checked_rows(rows: ArrayLike, member: int, n_rows: int | None, name: str) -> NDArray[np.intp]:
    array = as_array(rows, f"{name}[{member}]")
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name}[{member}] must be a non-empty list of row positions, got shape {array.shape} and dtype "
            f"{array.dtype}."
        )
    if array.min() < 0 or array.max() >= (MAX_ROWS if n_rows is None else n_rows):
        bound = f" and below {MAX_ROWS if n_rows is None else n_rows}"
        raise InputError(
            f"{name}[{member}] must hold row positions from 0 on{bound}, got {array.min()} to {array.max()}."
        )
    return array.astype(np.intp, copy=True)


def _is_integer_mask(members: list[NDArray[np.intp]], n_rows: int | None) -> bool:
    length = len(members[0]) if n_rows is None else n_rows
    return length > 2 and all(len(rows) == length and rows.max() <= 1 for rows in members)
