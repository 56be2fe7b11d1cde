"""A progress bar for work that takes longer than a reader of a terminal waits in peace."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["DELAY_S", "progress_bar"]

Item = TypeVar("Item")

DELAY_S = 2.0


def progress_bar(items: Iterable[Item], total: int, what: str | None = None) -> Iterable[Item]:
    """Return an iterable with a progress bar on stderr, which is shown after two seconds and on a terminal only."""
    # A program without a console has no stderr.
    if sys.stderr is None or not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, delay=DELAY_S, file=sys.stderr, leave=False)
