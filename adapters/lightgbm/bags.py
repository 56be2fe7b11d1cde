"""The bags of a LightGBM forest, drawn again from its seed.

LightGBM draws rows in blocks of 1024.  Each block has a linear congruential generator of its own,
``x -> 214013 x + 2531011`` modulo 2**32, which starts at ``bagging_seed + block`` and is never
seeded again.  Each row takes one draw, ``(x >> 16) & 0x7fff``, and is in the bag if that is below the
fraction times 32768.  As the generator is linear, any round can be drawn without those before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import BagError

__all__ = ["BAGGING", "Sampling", "bag_sizes", "draw_rounds", "draw_rows", "positive_rows", "read_sampling"]

UIntArray = NDArray[np.uint32]

# Parameters that give each tree a bag of its own, for the messages that recommend them.
BAGGING = (
    "bagging_freq=1 and bagging_fraction=0.632, which LGBMClassifier and LGBMRegressor call subsample_freq and "
    "subsample"
)

BLOCK_ROWS = 1024
RESOLUTION = 32768
MULTIPLIER, INCREMENT = 214013, 2531011
DRAWN_TOGETHER = 8
_BITS_SET = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)


@dataclass(frozen=True)
class Sampling:
    """Parameters with which a LightGBM forest drew its bags.

    Attributes
    ----------
    seed : int
        ``bagging_seed``.
    frequency : int
        Iterations that share one bag.
    fractions : tuple of float
        Share of the rows in a bag; with balanced bagging, that of the negative and that of the positive rows.
    """

    seed: int
    frequency: int
    fractions: tuple[float, ...]

    @property
    def is_balanced(self) -> bool:
        """Return whether positive and negative rows are drawn with different fractions."""
        return len(self.fractions) == 2

    def limits(self) -> list[tuple[int, ...]]:
        """Return possible limits below which a draw puts a row in bag, likeliest first: the stored fraction is rounded.

        Examples
        --------
        >>> Sampling(3, 1, (0.610352,)).limits()
        [(20001,), (20000,)]
        """
        first, *others = (_limits(fraction) for fraction in self.fractions)
        combined: list[tuple[int, ...]] = [(limit,) for limit in first]
        for choices in others:
            combined = [(*chosen, limit) for chosen in combined for limit in choices]
        return combined


def read_sampling(parameters: dict[str, str] | None) -> Sampling:
    """Return how a model drew its bags, as read from its training parameters.

    Raises
    ------
    BagError
        If the model has no bags, drew them in a way that cannot be repeated, or lacks the parameters.
    """
    if parameters is None:
        raise BagError(
            "The model text has no parameters section, so the seed of its bags is lost. Keep the Booster pickled, or "
            'save it with save_model of LightGBM 4 or newer; or pass {data="holdout"} with rows the model was not '
            "trained on."
        )
    _refuse_other_sampling(parameters)
    frequency = int(parameters["bagging_freq"])
    fractions: tuple[float, ...] = (float(parameters["bagging_fraction"]),)
    if parameters["objective"] == "binary":
        by_label = tuple(float(parameters.get(f"{sign}_bagging_fraction", "1")) for sign in ("neg", "pos"))
        fractions = by_label if min(by_label) < 1 else fractions
    if frequency <= 0 or min(fractions) >= 1:
        raise BagError(
            f"This forest was trained without bagging (bagging_freq={frequency}, bagging_fraction="
            f"{parameters['bagging_fraction']}): every tree was trained on every row, so no row is out of bag. Pass "
            '{data="holdout"} with rows the model was not trained on, or refit with '
            f"{BAGGING}."
        )
    return Sampling(int(parameters["bagging_seed"]), frequency, fractions)


def positive_rows(sampling: Sampling, target: NDArray[Any] | None) -> NDArray[np.bool_] | None:
    """Return which rows have the positive label, if bagging was balanced; else None.

    Raises
    ------
    BagError
        If bagging was balanced and there is no target.
    """
    if not sampling.is_balanced:
        return None
    if target is None:
        raise BagError(
            "This forest drew positive and negative rows with fractions of their own (pos_bagging_fraction, "
            "neg_bagging_fraction), so its bags depend on y; pass y."
        )
    return np.asarray(target > 0)


def _refuse_other_sampling(parameters: dict[str, str]) -> None:
    reasons = {
        "it was trained with data_sample_strategy='goss', which chooses rows by their gradients": (
            parameters.get("data_sample_strategy") == "goss"
        ),
        "it was trained with bagging_by_query=True, and the sizes of the queries are not in the model": (
            parameters.get("bagging_by_query", "0") != "0"
        ),
        f"it was trained on {parameters.get('num_machines')} machines, each of which drew from its own rows": (
            parameters.get("num_machines", "1") != "1"
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise BagError(
                f"Which rows the trees of this forest were trained on cannot be recomputed: {reason}. Pass "
                '{data="holdout"} with rows the model was not trained on, or refit with plain bagging on one machine.'
            )


def draw_rounds(seed: int, limit: int | NDArray[np.integer], n_rounds: int, n_rows: int) -> Bags:
    """Return the bags of the first bagging rounds, drawn in as many threads as joblib's context allows.

    Parameters
    ----------
    seed : int
        ``bagging_seed``.
    limit : int, or ndarray of int of shape (n_rows,)
        Number that a row's draw must stay below for the row to be in the bag, 1 to 32768.
    n_rounds, n_rows : int

    Returns
    -------
    Bags
        One bag for each round.

    Examples
    --------
    >>> draw_rounds(3, 16384, 2, 6).in_bag().astype(int).tolist()
    [[1, 1, 1, 1, 1, 0], [0, 0, 0, 1, 1, 0]]
    """
    draw = _drawer(seed, limit, n_rounds, n_rows)
    chunks = [range(start, min(start + DRAWN_TOGETHER, n_rounds)) for start in range(0, n_rounds, DRAWN_TOGETHER)]
    parts = in_threads(lambda chunk: np.stack([draw(index) for index in chunk]), chunks)
    bits = np.concatenate(list(parts))
    # After a bag with every row, LightGBM draws no more.
    complete = bag_sizes(Bags(bits, n_rows)) == n_rows
    if complete.any():
        bits[complete.argmax() :] = np.packbits(np.ones(n_rows, dtype=bool))
    return Bags(bits, n_rows)


def draw_rows(
    seed: int,
    limit: int | NDArray[np.integer],
    n_rounds: int,
    n_rows: int,
    rows: NDArray[np.int64],
    n_drawn: int | None = None,
) -> NDArray[np.bool_]:
    """Return the bags of the first bagging rounds for some of the rows alone, at any positions.

    Parameters
    ----------
    seed, n_rounds, n_rows
        As for :func:`draw_rounds`.
    limit : int, or ndarray of int of shape (len(rows),)
        As for :func:`draw_rounds`, of these rows.
    rows : ndarray of int64
        Positions.
    n_drawn : int, optional
        Rounds drawn before a bag held every row, that one included; all by default.

    Returns
    -------
    ndarray of bool, shape (n_rounds, len(rows))

    Examples
    --------
    >>> draw_rows(3, 16384, 2, 6, np.array([4, 3])).astype(int).tolist()
    [[1, 1], [1, 1]]
    """
    block, place = rows // BLOCK_ROWS, rows % BLOCK_ROWS
    factors, terms = _jumps(BLOCK_ROWS)
    # All blocks take as many draws a round as they have rows.
    last = -(-n_rows // BLOCK_ROWS) - 1
    step = np.where(block == last, n_rows - BLOCK_ROWS * last, BLOCK_ROWS)
    highest = ((np.asarray(limit, dtype=np.uint64) << np.uint64(17)) - np.uint64(1)).astype(np.uint32)
    state = ((seed + block) % 2**32).astype(np.uint32)
    in_bag = np.ones((n_rounds, rows.size), dtype=bool)
    for index in range(n_rounds if n_drawn is None else n_drawn):
        drawn = state * factors[place + 1] + terms[place + 1]
        drawn <<= np.uint32(1)
        np.less_equal(drawn, highest, out=in_bag[index])
        state = state * factors[step] + terms[step]
    return in_bag


def bag_sizes(bags: Bags) -> NDArray[np.int64]:
    """Return the number of rows in each member's bag, shape (n_members,)."""
    return np.array([_BITS_SET.take(bits).sum(dtype=np.int64) for bits in bags.bits])


def _drawer(
    seed: int, limit: int | NDArray[np.integer], n_rounds: int, n_rows: int
) -> Callable[[int], NDArray[np.uint8]]:
    n_blocks = -(-n_rows // BLOCK_ROWS)
    states = _states(seed, n_rounds, n_blocks, n_rows - BLOCK_ROWS * (n_blocks - 1))
    factors, terms = (table[1:] for table in _jumps(BLOCK_ROWS))
    # The lowest 15 of the upper 16 bits, shifted to the top; the bits below are too few to reach the next number.
    highest = (np.asarray(limit, dtype=np.uint64) << np.uint64(17)) - np.uint64(1)
    highest = highest.astype(np.uint32)

    def draw(index: int) -> NDArray[np.uint8]:
        drawn = (states[index][:, None] * factors + terms).reshape(-1)[:n_rows]
        drawn <<= np.uint32(1)
        return np.packbits(drawn <= highest)

    return draw


def _states(seed: int, n_rounds: int, n_blocks: int, last_rows: int) -> UIntArray:
    """Return the state of every block's generator before each round, shape (n_rounds, n_blocks)."""
    factors, terms = _jumps(BLOCK_ROWS)
    step = np.full(n_blocks, BLOCK_ROWS)
    step[-1] = last_rows
    states = np.empty((n_rounds, n_blocks), dtype=np.uint32)
    state = ((seed + np.arange(n_blocks, dtype=np.int64)) % 2**32).astype(np.uint32)
    for index in range(n_rounds):
        states[index] = state
        state = state * factors[step] + terms[step]
    return states


def _jumps(n_steps: int) -> tuple[UIntArray, UIntArray]:
    """Return the factors and terms that advance a generator's state by 0, 1, ..., `n_steps` draws at once."""
    factors, terms = [1], [0]
    for _ in range(n_steps):
        factors.append(factors[-1] * MULTIPLIER % 2**32)
        terms.append((terms[-1] * MULTIPLIER + INCREMENT) % 2**32)
    return np.array(factors, dtype=np.uint32), np.array(terms, dtype=np.uint32)


def _limits(fraction: float) -> list[int]:
    nominal = _limit(fraction)
    if fraction >= 1:
        return [nominal]
    half = 0.5 * 10.0 ** (np.floor(np.log10(fraction)) - 5)
    others = range(_limit(fraction - half), min(_limit(fraction + half), RESOLUTION) + 1)
    return [nominal, *(limit for limit in others if limit != nominal)]


def _limit(fraction: float) -> int:
    return max(int(np.ceil(fraction * RESOLUTION)), 1)
