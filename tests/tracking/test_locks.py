"""A lock that a thread holds at a fork is free in the child, and still held in the parent."""

from __future__ import annotations

import os
import threading
import warnings

import pytest

from ens_plugin.tracking.uploads import renew_in_child

_lock = threading.Lock()
renew_in_child(globals(), "_lock", threading.Lock)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_lock_that_is_held_at_a_fork_is_free_in_the_child() -> None:
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            os._exit(0 if _lock.acquire(blocking=False) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not _lock.acquire(blocking=False)
