"""The watchdog: it ends what makes no progress, and nothing else."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ens_plugin.tracking.watchdog import note_progress, uninterrupted, watched

SHORT_S = 0.3


def test_without_progress_it_gives_up(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(SHORT_S, tmp_path, given_up.set):
        assert given_up.wait(20 * SHORT_S)


def test_steps_and_growing_files_are_progress(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(5 * SHORT_S, tmp_path, given_up.set):
        for _ in range(6):
            note_progress()
            time.sleep(SHORT_S)
        for number in range(1, 7):
            (tmp_path / "download").write_bytes(b"x" * number)
            time.sleep(SHORT_S)
    assert not given_up.is_set()


def test_between_a_write_and_its_reading_back_it_waits(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(SHORT_S, tmp_path, given_up.set):
        with uninterrupted():
            assert not given_up.wait(5 * SHORT_S)
        assert given_up.wait(20 * SHORT_S)


def test_after_the_block_it_is_over(tmp_path: Path) -> None:
    given_up = threading.Event()
    with watched(SHORT_S, tmp_path, given_up.set):
        pass
    assert not given_up.wait(5 * SHORT_S)
