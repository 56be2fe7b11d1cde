"""A lock that a thread holds at a fork is free in the child, and still held in the parent."""

from __future__ import annotations

import os
import warnings

import pytest

from ens_plugin.tracking.settings import LOCKS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_lock_that_is_held_at_a_fork_is_free_in_the_child() -> None:
    with LOCKS.analysis, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            os._exit(0 if LOCKS.analysis.acquire(blocking=False) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not LOCKS.analysis.acquire(blocking=False)
