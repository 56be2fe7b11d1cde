"""Threads that apply a function to several items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from joblib import effective_n_jobs

__all__ = ["in_threads"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the result of `work` for every item, in order, from as many threads as joblib's context allows.

    joblib's own Parallel checks every 10 ms whether a thread has finished, a tenth of the time of an analysis.

    Parameters
    ----------
    work : callable
        Called from several threads.
    items : sequence

    Examples
    --------
    >>> from joblib import parallel_config
    >>> with parallel_config(n_jobs=2):
    ...     list(in_threads(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    n_threads = min(effective_n_jobs(None), len(items))
    if n_threads <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(work, items)
