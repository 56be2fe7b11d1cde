"""Compiled functions of the outputs, votes, labels and bags of members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin._kernel import native
from ens_plugin._kernel.forest import address, mask_of, neighbours, whole_numbers

__all__ = [
    "block_pairs",
    "class_margin_sums",
    "drawn_bits",
    "label_places",
    "margin_sums",
    "move_labels",
    "move_values",
    "product_bits",
    "pure_labels",
    "subset_votes",
    "value_sums",
    "vote_pairs",
]

FloatArray = NDArray[np.float64]


def value_sums(scores: FloatArray, counted: NDArray[np.bool_]) -> FloatArray:
    """Return sums over members of the scores of the second of two labels, which are finite, shape (4, n_rows).

    They are the number of members that count; sum of their scores, and of squared deviations from the mean; members
    with a positive score.
    """
    return _sums(scores[:, :, None], counted, None)


def margin_sums(supports: FloatArray, counted: NDArray[np.bool_], target: NDArray[Any]) -> FloatArray:
    """Return sums over members of the margins of the true label, shape (4, n_rows).

    Number of members that count; sum of their margins against the strongest rival, and of squared deviations from the
    mean; members whose label is wrong.  The supports, shape (n_members, n_rows, n_labels), are finite.
    """
    return _sums(supports, counted, _labels(target, *supports.shape[1:]))


def class_margin_sums(
    values: FloatArray, leaves: NDArray[np.uint8], bits: NDArray[np.uint8], target: NDArray[Any]
) -> FloatArray:
    """Return :func:`margin_sums` where each label has trees, and bags, of its own.

    For each row, the trees of all labels out of whose bags it is form members in their order, as many as the label with
    the fewest has; they have the places of that label's trees.  `values`, shape (n_labels, n_trees, n_leaves), are the
    finite support of the label by leaf, and `leaves`, shape (n_labels, n_trees, n_rows), those that rows reach.
    `bits`, shape (n_labels * n_trees, ceil(n_rows / 8)), are the rows in the bag of each tree, as ``np.packbits`` packs
    them, the trees of one label after those of another.
    """
    if np.asarray(leaves).dtype != np.uint8 or np.asarray(bits).dtype != np.uint8:
        raise ValueError("leaves and bits are arrays of uint8")
    own, reached, bags = neighbours(values, np.float64), neighbours(leaves, np.uint8), np.asarray(bits)
    if own.ndim != 3 or reached.ndim != 3 or own.shape[:2] != reached.shape[:2]:
        raise ValueError(f"values of shape {own.shape} are not those of leaves of shape {reached.shape}")
    n_labels, n_trees, n_rows = reached.shape
    labels = _labels(target, n_rows, n_labels)
    if bags.shape != (n_labels * n_trees, -(-n_rows // 8)):
        raise ValueError(f"the bits of {n_labels * n_trees} bags of {n_rows} rows have shape {bags.shape}")
    # The bits of some rows among more need no copy.
    if bags.strides[1] != 1 or bags.strides[0] < bags.shape[1]:
        bags = np.ascontiguousarray(bags)
    if reached.max(initial=0) >= max(own.shape[2], 1) or (reached.size and not own.size):
        raise ValueError(f"leaves up to {reached.max(initial=0)} have {own.shape[2]} values")
    sums = np.empty((4, n_rows))
    native.tally_classes(
        address(own), address(reached), address(bags), (n_labels, n_trees, n_rows, own.shape[2], bags.strides[0]),
        address(labels), address(sums),
    )  # fmt: skip
    return sums


def _labels(target: NDArray[Any], n_rows: int, n_labels: int) -> NDArray[np.int64]:
    """Return the labels of all rows; raise ValueError for any that is none."""
    # A copy, so that no other thread changes labels that were looked at.
    labels = np.array(target, np.int64)
    if n_labels < 2 or labels.shape != (n_rows,) or (labels < 0).any() or (labels >= n_labels).any():
        raise ValueError(f"the target of {n_rows} rows is not one of at least two labels each")
    return labels


def _sums(outputs: FloatArray, counted: NDArray[np.bool_], target: NDArray[np.int64] | None) -> FloatArray:
    mask = mask_of(counted)
    if outputs.dtype != np.float64 or mask.shape != outputs.shape[:2]:
        raise ValueError("the outputs are of float64, and each has an entry in the mask")
    # The kernel steps by whole numbers, as records do not, and reads a member's scores as neighbours.
    are_read = outputs.flags.aligned and not any(step % outputs.itemsize for step in outputs.strides)
    if not are_read or (target is None and outputs.strides[1] != outputs.itemsize):
        outputs = neighbours(outputs, np.float64)
    n_members, n_rows, n_labels = outputs.shape
    by_member, by_row, by_label = (int(step) // outputs.itemsize for step in outputs.strides)
    sums = np.empty((4, n_rows))
    native.tally(
        address(outputs), address(mask), (n_members, n_rows, n_labels), (by_member, by_row, by_label),
        address(target), address(sums),
    )  # fmt: skip
    return sums


# So that the number of all votes and twice the rank of a slot fit into 31 bits together.
MOST_MEMBERS, MOST_SLOTS = 32_765, 2**16


def subset_votes(
    votes: NDArray[np.uint16], target: NDArray[np.integer], n_slots: int, places: NDArray[np.integer]
) -> NDArray[np.float64]:
    """Return how many subsets elect a wrong slot, shape (n_rows,).

    Votes are the slots that members vote for, of which the first wins ties; the target is -1 where no slot is right.
    `places`, shape (n_subsets, size), are the members of each subset.
    """
    own, chosen = neighbours(votes, np.uint16), np.array(places, np.int64, order="C")
    n_members, n_rows = own.shape
    given = np.asarray(votes)
    is_slot = given.min(initial=0) >= 0 and given.max(initial=0) < min(n_slots, MOST_SLOTS)
    if not 0 < n_members <= MOST_MEMBERS or n_slots > MOST_SLOTS or not is_slot:
        raise ValueError(f"the votes are not for {n_slots} slots")
    is_member = chosen.min(initial=0) >= 0 and chosen.max(initial=0) < n_members
    if chosen.ndim != 2 or chosen.shape[1] > n_members or not is_member:
        raise ValueError(f"the subsets are not of {n_members} members")
    if np.shape(target) != (n_rows,):
        raise ValueError(f"the target has shape {np.shape(target)} for {n_rows} rows")
    base = 1 << int(n_slots - 1).bit_length()
    slot = np.asarray(target, np.int64)
    of_true = np.where((slot >= 0) & (slot < n_slots), base - 1 - slot, base).astype(np.int32)
    counts = np.zeros(n_rows, np.int32)
    native.elect(
        address(own), address(chosen), address(of_true), (n_members, n_rows, n_slots, *chosen.shape), base,
        address(counts),
    )  # fmt: skip
    return counts.astype(np.float64)


Voters = tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.float32]]


def vote_pairs(first: Voters, second: Voters | None = None) -> tuple[NDArray[np.float64], float]:
    """Return sums over pairs of rows of their covariances times their members less one and their slopes; the freedom.

    As :func:`ens_plugin.core.pair_covariance.sum_pairs` of votes of -1, 0 and 1, whether they count, and slopes in
    single precision.  Votes that do not count may be anything.
    """
    one = _checked(first)
    places = tuple(map(address, one))
    other, other_places = one, places
    if second is not None:
        other = _checked(second)
        other_places = tuple(map(address, other))
    n_members = one[0].shape[0]
    if other[0].shape[0] != n_members:
        raise ValueError(f"the votes are of {n_members} and {other[0].shape[0]} members")
    sums = np.zeros((2, other[2].size))
    freedom = native.pair_votes(
        places, one[2].size, other_places, other[2].size, n_members, second is None,
        address(sums),
    )  # fmt: skip
    return sums, freedom


def block_pairs(
    votes: NDArray[np.int8] | NDArray[np.bool_],
    counted: NDArray[np.bool_],
    slopes: NDArray[np.float32],
    blocks: Sequence[NDArray[np.int64]],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return what :func:`vote_pairs` does of the rows of each of several blocks, which need not be copied.

    The slopes and the sums, shape (2, n_chosen), are of the rows of all blocks, one block after the other; the freedoms
    are by block.  No row is in two blocks.
    """
    if votes.dtype not in (np.bool_, np.int8):
        raise ValueError(f"votes are booleans or of eight bits, not {votes.dtype}")
    mask = mask_of(counted)
    own = mask_of(votes).view(np.int8) if votes.dtype == np.bool_ else neighbours(votes, np.int8)
    chosen = np.concatenate([np.zeros(0, np.int64), *blocks])
    factors = neighbours(slopes, np.float32)
    if own.ndim != 2 or mask.shape != own.shape or factors.shape != chosen.shape:
        raise ValueError(f"the votes, those that count and the slopes have shapes {own.shape}, {mask.shape} and "
                         f"{factors.shape}")  # fmt: skip
    n_members, n_rows = own.shape
    if chosen.dtype != np.int64 or (chosen.size and not 0 <= chosen.min() <= chosen.max() < n_rows):
        raise ValueError(f"the blocks are not of {n_rows} rows")
    place = np.full(n_rows, -1, np.int64)
    place[chosen] = np.arange(chosen.size)
    if np.count_nonzero(place >= 0) != chosen.size:
        raise ValueError("a row is in two blocks")
    starts = np.cumsum([0, *(rows.size for rows in blocks)], dtype=np.int64)
    sums, freedoms = np.zeros((2, chosen.size)), np.zeros(len(blocks), np.int64)
    native.block_pairs(
        address(own), address(mask), n_members, n_rows, address(chosen), address(starts), len(blocks),
        address(factors), address(place), address(sums), address(freedoms),
    )  # fmt: skip
    return sums, freedoms


def _checked(voters: Voters) -> Voters:
    """Return the arrays of rows in the types and the order that compiled code reads."""
    votes, counted, slopes = voters
    own, mask = neighbours(votes, np.int8), mask_of(counted)
    factors = neighbours(slopes, np.float32)
    if own.ndim != 2 or mask.shape != own.shape or factors.shape != own.shape[1:]:
        raise ValueError(f"the votes, those that count and the slopes have shapes {own.shape}, {mask.shape} and "
                         f"{factors.shape}")  # fmt: skip
    return own, mask, factors


LARGEST_LABEL = np.iinfo(np.int8).max


def label_places(labels: NDArray[np.uint8], counted: NDArray[np.bool_], factors: ArrayLike) -> NDArray[np.float64]:
    """Return the sum over the members that count of a row of one more than their label times their factor.

    It is added up in the order of the members.
    """
    own, mask = neighbours(labels, np.uint8), neighbours(counted, np.bool_)
    numbers = neighbours(factors, np.float64)
    if own.ndim != 2 or mask.shape != own.shape or numbers.shape != own.shape[:1]:
        raise ValueError(f"labels, those that count and factors have shapes {own.shape}, {mask.shape}, {numbers.shape}")
    places = np.empty(own.shape[1])
    n_members, n_rows = own.shape
    native.place(address(own), address(mask), n_members, n_rows, address(numbers), address(places))
    return places


def move_labels(labels: NDArray[np.uint8], counted: NDArray[np.bool_], order: NDArray[Any]) -> None:
    """Overwrite labels below 128, and which of them count, with those of the rows in another order.

    Both arrays are in C order; `order` is the row whose labels each row gets.
    """
    if order.dtype.kind not in "iu":
        raise ValueError(f"an order is of whole numbers, not of {order.dtype}")
    places = neighbours(order, np.int64)
    if labels.ndim != 2 or counted.shape != labels.shape or places.shape != labels.shape[1:]:
        raise ValueError(
            f"labels, those that count and the order have shapes {labels.shape}, {counted.shape}, {places.shape}"
        )
    is_in_place = all(own.flags.c_contiguous and own.flags.writeable for own in (labels, counted))
    if labels.dtype != np.uint8 or counted.dtype != np.bool_ or not is_in_place:
        raise ValueError("labels of another type or order cannot be moved in their place")
    if labels.max(initial=0) > LARGEST_LABEL:
        raise ValueError(f"labels above {LARGEST_LABEL} cannot be moved beside whether they count")
    if places.size and not 0 <= places.min() <= places.max() < places.size:
        raise ValueError(f"the order is not one of {places.size} rows")
    n_members, n_rows = labels.shape
    native.move_labels(address(labels), address(counted), n_members, n_rows, address(places))


def move_values(
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    outputs: NDArray[np.float64],
    filled: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None = None,
) -> None:
    """Copy each row's values that are taken, in order, to its outputs that are filled; the others are any number.

    A row has at least as many values taken as outputs filled, and its outputs are next to each other.  With `leaves`,
    those of each member that each row reaches, `values` have shape (n_members, n_leaves).
    """
    source = neighbours(values, np.float64)
    own: list[NDArray[Any]] = [mask_of(mask) for mask in (taken, filled)]
    own.append(source if leaves is None else neighbours(leaves, np.uint8))
    width = outputs.itemsize
    if outputs.dtype != np.float64 or outputs.ndim != 2 or any(one.shape != outputs.shape for one in own):
        raise ValueError("values, masks and outputs of float64 have one shape")
    if not outputs.size:  # whose steps are 0
        return
    if outputs.strides[1] != width or outputs.strides[0] % width or not outputs.flags.behaved:
        raise ValueError("the rows of an output are not next to each other")
    n_members, n_rows = outputs.shape
    n_leaves = 0 if leaves is None else source.shape[1]
    if leaves is not None and (source.shape[0] != n_members or own[2].max(initial=0) >= n_leaves):
        raise ValueError("the values of leaves are not of each leaf of each member")
    n_short = native.serve(
        address(source), 0 if leaves is None else address(own[2]), address(own[0]), address(own[1]),
        n_members, n_rows, n_leaves, outputs.strides[0] // width, address(outputs),
    )  # fmt: skip
    if n_short:
        raise ValueError(f"{n_short} of {n_rows} rows have fewer values taken than outputs filled")


def pure_labels(
    values: NDArray[np.float64], left: NDArray[Any], dtype: type[np.uint8] | type[np.uint16]
) -> NDArray[Any] | None:
    """Return the label of each leaf of a tree, by node, if each has one of probability 1, else None.

    `values`, shape (n_nodes, n_labels), are probabilities; `left` is the first child, negative for leaves.  Nodes that
    are no leaves have 0.
    """
    own, links = neighbours(values, np.float64), whole_numbers(left)
    if own.ndim != 2 or links.shape != own.shape[:1]:
        raise ValueError(f"probabilities of shape {own.shape} belong to {links.shape} nodes")
    if not 1 <= own.shape[1] <= np.iinfo(dtype).max + 1:
        raise ValueError(f"{np.dtype(dtype)} does not number {own.shape[1]} labels")
    labels = np.empty(own.shape[0], dtype)
    columns = (address(links), links.strides[0], links.itemsize)
    is_pure = native.label(address(own), columns, own.shape[0], own.shape[1], address(labels), labels.itemsize)
    return labels if is_pure else None


MOST_ROWS = 2**31


def drawn_bits(seeds: ArrayLike, n_rows: int, n_draws: int) -> NDArray[np.uint8]:
    """Return which rows ``numpy.random.RandomState(seed).randint(0, n_rows, n_draws)`` draws with each seed.

    NumPy guarantees that these numbers never change.  Seeds are below 2 ** 32, and rows at most 2 ** 31; the bits,
    shape (n_members, ceil(n_rows / 8)), are as ``np.packbits`` packs them.
    """
    own = np.asarray(seeds)
    if own.ndim != 1 or own.dtype.kind not in "iu" or (own < 0).any() or (own > 2**32 - 1).any():
        raise ValueError("seeds are integers from 0 to 2 ** 32 - 1")
    if not 1 <= n_rows <= MOST_ROWS or n_draws < 0:
        raise ValueError(f"{n_draws} rows of {n_rows} cannot be drawn")
    states = neighbours(own, np.uint32)
    bits = np.zeros((own.size, -(-n_rows // 8)), np.uint8)
    native.draw(address(states), own.size, n_rows, n_draws, address(bits))
    return bits


def product_bits(words: ArrayLike, powers: ArrayLike, highest: int) -> NDArray[np.uint8]:
    """Return which products of words and powers, modulo 2 ** 63, are at most a bound.

    With the powers of 16807 these are the rows that XGBoost's congruential generator draws.  Words and powers are
    uint64; the bits, shape (n_words, ceil(n_rows / 8)), are as ``np.packbits`` packs them.
    """
    factors, own = np.asarray(words), np.asarray(powers)
    if any(values.ndim != 1 or values.dtype != np.uint64 for values in (factors, own)):
        raise ValueError("words and powers are arrays of uint64 with one axis")
    if not 0 <= highest < 2**63:
        raise ValueError(f"{highest} is no bound for products modulo 2 ** 63")
    factors, own = neighbours(factors, np.uint64), neighbours(own, np.uint64)
    bits = np.empty((factors.size, -(-own.size // 8)), np.uint8)
    native.products(address(factors), factors.size, address(own), own.size, highest, address(bits))
    return bits
