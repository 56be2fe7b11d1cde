"""Which rows each member was trained on, and whether rows are those of the training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from ens_plugin.core.validation import PART_ROWS, BoolArray, FloatArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


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


# The limits are strict because fresh rows match more often than by chance: members that drew a similar row are right.
FEWEST_INFORMATIVE = 8
MOST_COMPARED = 100
LARGEST_CHANCE = 1e-4
# Rows that match a training row more often than not are not compared.
EVEN_CHANCE = 0.5
MOST_LEFT_OUT = 0.75
# Rows and standard errors from which a difference is not chance, and the largest share of the error of changed rows.
FEWEST_COMPARED = 30
FEWEST_STANDARD_ERRORS = 6.0
LARGEST_SHARE = 0.8


def may_be_known(wrong: BoolArray, left_out: float, n_trained: int) -> bool:
    """Return whether :func:`match_training_rows` could find a match, decided without bags."""
    # It could not if more members are wrong about a row than can have left out a training row, nor with fewer than
    # eight informative rows. For bags of less than a quarter of the rows the result is False: members that drew no row
    # similar to a fresh one are wrong about it, and it would match. `left_out` is the share of the training rows that
    # one bag leaves out.
    n_members, counts = wrong.shape[0], wrong.sum(axis=0)
    mean = n_members * left_out
    if left_out > MOST_LEFT_OUT or are_wrong_too_often(wrong, left_out):
        return False
    # The chance is smallest for equal numbers, because C(m, w) is convex in m.
    least = n_trained * chance_to_match(counts, np.array([int(mean)]), n_members)
    return bool(np.count_nonzero(_are_informative(counts, least, mean)) >= FEWEST_INFORMATIVE)


def are_wrong_too_often(wrong: BoolArray, left_out: float) -> bool:
    """Return whether, about some row, more members are wrong than can have left out a training row."""
    # `left_out` is the share of the training rows that one bag leaves out.
    mean = wrong.shape[0] * left_out
    return bool(wrong.sum(axis=0).max() > mean + FEWEST_STANDARD_ERRORS * np.sqrt(mean * (1.0 - left_out)))


def match_training_rows(wrong: BoolArray, bags: Bags) -> bool:
    """Return whether every row matches a training row of its own that all members wrong about the row left out."""
    # Training rows do, in any order and number, if members are right about the rows in their bags (fully grown trees).
    # What else has to hold, so that fresh rows hardly ever do, is in `docs/methods/held-out-rows.md`.
    counts, left_out = wrong.sum(axis=0), _left_out(bags)
    chance = chance_to_match(counts, left_out, bags.n_members)
    doubtful = np.flatnonzero(chance < EVEN_CHANCE)
    compared = doubtful[np.argsort(-counts[doubtful], kind="stable")[:MOST_COMPARED]]
    if (
        np.count_nonzero(_are_informative(counts[compared], chance[compared], float(left_out.mean())))
        < FEWEST_INFORMATIVE
    ):
        return False
    from scipy.sparse.csgraph import maximum_bipartite_matching

    match = maximum_bipartite_matching(_matches(wrong[:, compared], bags), perm_type="column")
    return bool((match >= 0).all())


def chance_to_match(counts: NDArray[np.integer], left_out: NDArray[np.integer], n_members: int) -> NDArray[np.float64]:
    r"""Return a bound on the chance that members picked at random have all left out the same training row.

    It is :math:`\min(1, \sum_j \binom{m_j}{w} / \binom{M}{w})` for w of M members (`counts`, by row), of which
    :math:`m_j` (`left_out`) left out training row j.
    """
    picked, place = np.unique(counts, return_inverse=True)
    available, rows = np.unique(left_out, return_counts=True)
    possible = available[:, None] >= picked
    log_share = _log_choose(np.where(possible, available[:, None], picked), picked) - _log_choose(
        np.full_like(picked, n_members), picked
    )
    chance = rows @ np.where(possible, np.exp(log_share), 0.0)
    return np.asarray(np.minimum(chance, 1.0)[place])


def drawn_share_of_error(errors: FloatArray, in_bag: BoolArray) -> float:
    """Return the error of the members that drew a row, over that of the members that did not, on average over rows."""
    # Each row's errors are divided by their mean, so that no row outweighs the others. NaN where no row has errors and
    # both kinds of members.
    drawn, left_out = _relative_errors(errors, in_bag)
    return float(drawn.sum() / left_out.sum()) if left_out.any() else np.nan


def is_lower_where_drawn(errors: FloatArray, in_bag: BoolArray) -> bool:
    """Return whether members err less about the rows at the positions they drew than chance explains."""
    # About rows that the members were not trained on, the bags hold no information: for every row, the expected
    # difference between members that drew its position and members that did not is 0.
    drawn, left_out = _relative_errors(errors, in_bag)
    differences = left_out - drawn
    if differences.size < FEWEST_COMPARED:
        return False
    standard_error = float(differences.std(ddof=1)) / np.sqrt(differences.size)
    is_clear = float(differences.mean()) > FEWEST_STANDARD_ERRORS * standard_error
    return bool(is_clear and drawn_share_of_error(errors, in_bag) <= LARGEST_SHARE)


def _are_informative(counts: NDArray[np.integer], chance: NDArray[np.float64], left_out: float) -> BoolArray:
    """Return which rows would hardly match by chance; `left_out` is the mean number of members that left out a row."""
    return np.asarray((chance < LARGEST_CHANCE) & (counts >= left_out / 2))


def _log_choose(n: NDArray[np.integer], k: NDArray[np.integer]) -> NDArray[np.float64]:
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _left_out(bags: Bags) -> NDArray[np.int64]:
    """Return the number of members that left out each training row, shape (n_training_rows,)."""
    counts = np.full(bags.n_rows, bags.n_members, dtype=np.int64)
    for member in range(bags.n_members):
        counts -= bags.member(member)
    return counts


def _matches(wrong: BoolArray, bags: Bags) -> csr_matrix:
    """Return which training rows were left out by all members wrong about a row, shape (n_rows, n_training_rows)."""
    from scipy.sparse import csr_matrix, hstack

    parts = []
    for start in range(0, bags.n_rows, PART_ROWS):
        in_bag = bags.in_bag(slice(start, min(start + PART_ROWS, bags.n_rows))).astype(np.float32)
        parts.append(csr_matrix(wrong.T.astype(np.float32) @ in_bag == 0.0))
    return csr_matrix(hstack(parts))


def _relative_errors(errors: FloatArray, in_bag: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return each row's mean error of the members that drew it, and of the others, both over that of all members."""
    # Rows without errors, or with members of one kind only, are left out.
    mean = errors.mean(axis=0)
    chosen = in_bag.any(axis=0) & ~in_bag.all(axis=0) & (mean > 0.0)
    relative, in_bag = errors[:, chosen] / mean[chosen], in_bag[:, chosen]
    n_drawn, drawn = in_bag.sum(axis=0), (relative * in_bag).sum(axis=0)
    return drawn / n_drawn, (relative.sum(axis=0) - drawn) / (len(errors) - n_drawn)
