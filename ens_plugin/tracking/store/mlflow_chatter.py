"""Suppression of MLflow's own output: progress bars, addresses of runs, messages of single checks."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

__all__ = ["no_check_messages", "no_progress_bars"]

PROGRESS_VARIABLE = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
QUIET = {PROGRESS_VARIABLE: "false", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
CHECK_LOGGER = "mlflow.models.evaluation.validation"

# All threads share the environment.  The last of their blocks removes what the first has set: removed earlier, a
# variable would be missing in the others, and a request of theirs that reads the environment would fail.
_LOCK = Lock()
_blocks: Counter[str] = Counter()


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep MLflow from printing progress bars of artifacts, and addresses of runs with credentials, inside the block.

    Environment variables that the user has set stay as they are.

    Examples
    --------
    >>> with no_progress_bars():
    ...     os.environ[PROGRESS_VARIABLE]
    'false'
    """
    with _LOCK:
        ours = [name for name in QUIET if _blocks[name] or name not in os.environ]
        for name in ours:
            os.environ.setdefault(name, QUIET[name])
        _blocks.update(ours)
    try:
        yield
    finally:
        with _LOCK:
            _blocks.subtract(ours)
            for name in ours:
                if not _blocks[name]:
                    os.environ.pop(name, None)


@contextmanager
def no_check_messages() -> Iterator[None]:
    """Keep MLflow from logging each single check of a metric at level INFO inside the block."""
    logger = logging.getLogger(CHECK_LOGGER)

    # A filter and not a level, because blocks of several threads may end in any order.
    def is_news(record: logging.LogRecord) -> bool:
        return record.levelno > logging.INFO

    logger.addFilter(is_news)
    try:
        yield
    finally:
        logger.removeFilter(is_news)
