"""A server of H2O for the tests, started at its first use in a process, and stopped by H2O when the process ends."""

from __future__ import annotations

import shutil
from functools import cache
from typing import Any

import pytest

from tests.extras import imported

__all__ = ["connected"]


@cache
def connected() -> Any:
    """Return the module h2o, connected to a server; skip the test with a printed reason without it, or without Java."""
    h2o = imported("h2o")
    if shutil.which("java") is None:
        pytest.skip("needs Java, which H2O's server runs on: apt-get install default-jre-headless")
    from h2o.backend import H2OLocalServer

    h2o.no_progress()
    server = H2OLocalServer.start(nthreads=1, max_mem_size=1 << 30, port="54400+", verbose=False)
    h2o.connect(server=server, verbose=False)
    return h2o
