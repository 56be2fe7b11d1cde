"""What MLflow says inside and after blocks that keep it quiet."""

from __future__ import annotations

import logging

import pytest

from ens_plugin.tracking.store import no_check_messages
from ens_plugin.tracking.store.mlflow_chatter import CHECK_LOGGER


def test_checks_are_told_again_after_blocks_that_overlap(caplog: pytest.LogCaptureFixture) -> None:
    """As those of two threads do."""
    logger = logging.getLogger(CHECK_LOGGER)
    with caplog.at_level(logging.INFO, CHECK_LOGGER):
        first, second = no_check_messages(), no_check_messages()
        with first:
            second.__enter__()
            logger.info("in both")
        logger.info("in the second")
        logger.warning("a warning")
        second.__exit__(None, None, None)
        logger.info("after both")
    assert caplog.messages == ["a warning", "after both"]
