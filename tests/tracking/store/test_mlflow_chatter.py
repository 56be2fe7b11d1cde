"""What MLflow prints and logs inside and after blocks that keep it quiet."""

from __future__ import annotations

import logging
import os

import pytest

from ens_plugin.tracking.connection import CHECK_LOGGER, PROGRESS_VARIABLE, no_check_messages, no_progress_bars


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


def test_the_last_of_two_blocks_removes_what_the_first_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROGRESS_VARIABLE, raising=False)
    first, second = no_progress_bars(), no_progress_bars()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ[PROGRESS_VARIABLE] == "false"
    second.__exit__(None, None, None)
    assert PROGRESS_VARIABLE not in os.environ


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRESS_VARIABLE, "true")
    with no_progress_bars():
        assert os.environ[PROGRESS_VARIABLE] == "true"
    assert os.environ[PROGRESS_VARIABLE] == "true"
