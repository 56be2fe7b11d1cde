"""Suppression of MLflow's own output: progress bars, addresses of runs, messages of single checks."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_check_messages", "no_progress_bars"]

PROGRESS_VARIABLE = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
QUIET = {PROGRESS_VARIABLE: "false", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
CHECK_LOGGER = "mlflow.models.evaluation.validation"


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
    ours = {name: value for name, value in QUIET.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
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
