"""Bags: the rows that each member was trained on, one bit per row and member."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["BagProof", "Bags"]


@dataclass(frozen=True)
class BagProof:
    """What a comparison with the trained members proved: that the rows, or the target, are those of the training.

    Attributes
    ----------
    rows : bool
        Whether other rows than the training rows, in training order, would have been detected.
    target : bool
        Whether another target would have been detected.

    Examples
    --------
    >>> from ens_plugin.adapters import BagProof, Bags
    >>> bags = Bags.from_mask([[True, False, True]]).with_proof(BagProof(target=False))
    >>> bags.proof.rows, bags.proof.target
    (True, False)
    """

    rows: bool = True
    target: bool = True


@dataclass(frozen=True, eq=False)
class Bags:
    """In-bag indicators of every member, packed eight rows to the byte.

    Attributes
    ----------
    bits : ndarray of uint8, shape (n_members, ceil(n_rows / 8))
        ``np.packbits`` of each member's in-bag indicator.
    n_rows : int
        Number of training rows.
    proof : BagProof
        By default nothing is proved; :meth:`with_proof` states what was.

    Examples
    --------
    Two members were trained on rows 0 and 2, and on rows 1 and 2, of four:

    >>> from ens_plugin.adapters import Bags
    >>> bags = Bags.from_indices([[0, 2, 2], [1, 2]], n_rows=4)
    >>> bags.in_bag().astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 1, 0]]
    """

    bits: NDArray[np.uint8]
    n_rows: int
    proof: BagProof = BagProof(rows=False, target=False)

    @classmethod
    def from_indices(cls, members: Iterable[ArrayLike], n_rows: int) -> Bags:
        """Return the bags packed from the training rows that each member drew, reading one member at a time.

        Parameters
        ----------
        members : iterable of array-like of int
            Rows of each member, in any order, repeated or not.  One member at a time is in memory.
        n_rows : int
            Number of training rows.
        """
        packed = []
        for rows in members:
            in_bag = np.zeros(n_rows, dtype=bool)
            in_bag[np.asarray(rows, dtype=np.intp)] = True
            packed.append(np.packbits(in_bag))
        return cls(np.stack(packed), n_rows)

    @classmethod
    def from_mask(cls, in_bag: ArrayLike) -> Bags:
        """Return the bags packed from a boolean array of shape (n_members, n_rows), True where in bag."""
        mask = np.asarray(in_bag, dtype=bool)
        return cls(np.packbits(mask, axis=1), mask.shape[1])

    @classmethod
    def stack(cls, parts: Iterable[Bags], n_members: int, n_rows: int) -> Bags:
        """Return the bags of several groups of members on the same rows as one, reading one part at a time."""
        bits = np.empty((n_members, -(-n_rows // 8)), dtype=np.uint8)
        start = 0
        for part in parts:
            bits[start : start + part.n_members] = part.bits
            start += part.n_members
        return cls(bits, n_rows)

    def with_proof(self, proof: BagProof) -> Bags:
        """Return the same bags with another proof."""
        return replace(self, proof=proof)

    def take(self, rows: NDArray[np.intp]) -> Bags:
        """Return the bags restricted to some of the rows, by position, unpacking one member at a time."""
        bits = np.stack([np.packbits(self.member(index)[rows]) for index in range(self.n_members)])
        return Bags(bits, int(rows.size), self.proof)

    def part(self, rows: slice) -> Bags:
        """Return the bags of a contiguous block of rows that starts at a whole byte, without copying them."""
        return Bags(self.bits[:, rows.start // 8 : -(-rows.stop // 8)], rows.stop - rows.start, self.proof)

    def by_group(self, groups: NDArray[np.integer]) -> Bags:
        """Return bags in which a row is in bag if any row of its group is, unpacking one member at a time.

        Parameters
        ----------
        groups : ndarray of int, shape (n_rows,)
            Group of each row, numbered from 0.

        Examples
        --------
        >>> import numpy as np
        >>> from ens_plugin.adapters import Bags
        >>> Bags.from_mask([[True, False, False, False]]).by_group(np.array([0, 1, 0, 1])).in_bag().tolist()
        [[True, False, True, False]]
        """
        bits = np.empty_like(self.bits)
        for index in range(self.n_members):
            drawn = np.zeros(int(groups.max()) + 1, dtype=bool)
            drawn[groups[self.member(index)]] = True
            bits[index] = np.packbits(drawn[groups])
        return Bags(bits, self.n_rows, self.proof)

    def at(self, rows: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return the in-bag indicators of any rows, by position, shape (n_members, len(rows)).

        Examples
        --------
        >>> import numpy as np
        >>> from ens_plugin.adapters import Bags
        >>> Bags.from_mask([[True, False, True]]).at(np.array([2, 1])).tolist()
        [[True, False]]
        """
        bit = np.right_shift(np.uint8(128), (rows & 7).astype(np.uint8))
        drawn = self.bits.take(rows >> 3, axis=1)
        drawn &= bit
        return np.asarray(drawn != 0)

    @property
    def n_members(self) -> int:
        """Return the number of members."""
        return int(self.bits.shape[0])

    def in_bag(self, rows: slice | None = None) -> NDArray[np.bool_]:
        """Return the in-bag indicators of a contiguous block of rows, as booleans of shape (n_members, rows)."""
        start, stop, _ = (rows or slice(None)).indices(self.n_rows)
        first_byte = start // 8
        unpacked = np.unpackbits(self.bits[:, first_byte : -(-stop // 8)], axis=1)
        return unpacked[:, start - 8 * first_byte : stop - 8 * first_byte].view(np.bool_)

    def member(self, index: int) -> NDArray[np.bool_]:
        """Return the in-bag indicator of one member, shape (n_rows,)."""
        return np.unpackbits(self.bits[index], count=self.n_rows).view(np.bool_)
