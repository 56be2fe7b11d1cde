"""When the vote over one question may stop: the majority answer is proved, whatever the samples still to come."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core import certificate
from ens_plugin.core.validation import as_count, as_numbers, shown
from ens_plugin.errors import InputError

MOST_SAMPLES = 1000


def is_settled(
    counts: Mapping[Any, int] | ArrayLike,
    level: float = 0.05,
    *,
    n_answers: int | None = None,
    max_samples: int | None = None,
) -> bool:
    """Return whether the answer with most votes so far is proved to be the one that infinitely many samples give most.

    It may be asked after every sample, and sampling may stop whenever one likes: the chance that it is ever true of
    another answer is at most `level`, for each question.

    Parameters
    ----------
    counts : mapping from answer to votes, such as a Counter, or array-like of int, shape (n_answers_so_far,)
    level : float, default=0.05
        Highest chance of a wrong answer for one question, in (0, 0.5).
    n_answers : int, optional
        How many answers are possible, such as 2 of yes or no, or 4 of a multiple choice.  By default any number, which
        takes some more samples than two.
    max_samples : int, optional
        The most samples that you will ever ask for about one question, at most 1000: 64 take about a seventh fewer
        than without an end.  By default there is no end.

    Returns
    -------
    bool

    Raises
    ------
    InputError
        If counts are no whole numbers from 0 on, more answers than `n_answers` have votes, there are more votes than
        `max_samples`, or an option is out of range.

    Notes
    -----
    Proof by betting, for samples that are exchangeable; see :mod:`ens_plugin.core.certificate`.  It needs more samples
    than rules without proof: at the same level and within 64 samples, adaptive consistency settles one in four
    questions wrongly where two answers are nearly as frequent.  No rule with proof takes less than about one and a half
    times as many as it does (``benchmarks/votes/stopping.py``).

    Examples
    --------
    >>> from collections import Counter
    >>> from ens_plugin.votes import is_settled
    >>> is_settled(Counter("aaab")), is_settled(Counter("a" * 12 + "b"))
    (False, True)
    """
    given = list(counts.values()) if isinstance(counts, Mapping) else counts
    if isinstance(given, Collection) and any(isinstance(count, str) for count in given):
        raise InputError(f"counts holds texts, such as {shown(given, 60)}; pass the votes: Counter(answers).")
    votes = as_numbers(list(given) if isinstance(given, Collection) else given, "counts")
    if votes.ndim != 1:
        raise InputError(f"counts has shape {votes.shape}; pass the votes for each answer to one question.")
    votes = votes[votes != 0]
    columns = 3 if n_answers is None else as_count(n_answers, "n_answers", 2)
    if n_answers is not None and votes.size > n_answers:
        raise InputError(
            f"{votes.size} answers have votes, and n_answers is {n_answers}; at most so many are possible."
        )
    end = None if max_samples is None else as_count(max_samples, "max_samples", largest=MOST_SAMPLES)
    if end is not None and votes.sum() > end:
        raise InputError(
            f"There are {votes.sum():.0f} votes, and max_samples is {end}. Pass the most you will ask for."
        )
    padded = np.concatenate([votes, np.zeros(max(columns - votes.size, 0))])
    return bool(certificate.is_settled(padded[None, :], level, end)[0])
