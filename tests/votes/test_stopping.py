"""When a vote over one question may stop."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ens_plugin.core import certificate
from ens_plugin.errors import InputError
from ens_plugin.votes import is_settled


def test_counts_may_be_a_counter_or_an_array() -> None:
    assert is_settled(Counter("a" * 20)) is is_settled([20]) is is_settled(np.array([0, 20, 0])) is True
    assert is_settled({}) is False
    assert is_settled(Counter("a" * 20).values()) is True


def test_two_possible_answers_take_fewer_samples() -> None:
    def needed(n_answers: int | None) -> int:
        return next(count for count in range(1, 100) if is_settled([count], 0.05, n_answers=n_answers))

    assert needed(2) < needed(None) == needed(4)


def test_it_is_the_proof_of_the_core() -> None:
    for votes in ([5, 1], [12, 3], [40, 30], [9, 0]):
        assert is_settled(votes, 0.05, n_answers=2) == certificate.is_settled([votes], 0.05)[0]
        assert is_settled(votes, 0.05) == certificate.is_settled([[*votes, 0]], 0.05)[0]


def test_a_known_end_takes_fewer_samples() -> None:
    votes = next([n, 2] for n in range(2, 100) if is_settled([n, 2], max_samples=64))
    assert not is_settled(votes)


@pytest.mark.parametrize("shares", [(0.4, 0.35, 0.25), (0.5, 0.5), (0.3, *[0.07] * 10)])
def test_a_wrong_answer_is_rarely_ever_settled(shares: tuple[float, ...]) -> None:
    rng, level, wrong = np.random.default_rng(0), 0.1, 0
    for _ in range(300):
        votes = np.zeros(len(shares), dtype=int)
        for answer in rng.choice(len(shares), size=150, p=shares):
            votes[answer] += 1
            if is_settled(votes, level):
                wrong += shares[int(votes.argmax())] < max(shares)
                break
    assert wrong <= 300 * level


@pytest.mark.parametrize(
    ("counts", "options", "message"),
    [
        ([1, -1], {}, "whole numbers"), ([1.5], {}, "whole numbers"), ([[1, 2]], {}, "shape"),
        ([1, 2, 3], {"n_answers": 2}, "at most"), ([1, 2], {"n_answers": 1}, "at least 2"),
        ([1, 2], {"level": 0.7}, "level"), (["42", "7"], {}, "texts"),
        ([40, 30], {"max_samples": 64}, "70 votes, and max_samples is 64"), ([1], {"max_samples": 0}, "at least 1"),
        ([1], {"max_samples": 2000}, "at most 1000"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused(counts: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        is_settled(counts, **options)
