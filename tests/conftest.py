"""Settings every test relies on: no display, no outside MLflow, reproducible examples."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

from ens_plugin.tracking.store import model_damage

# A developer's own tracking server or run must never receive what the tests log.
for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
    del os.environ[name]
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MPLBACKEND"] = "Agg"

# Shared machines make deadlines a matter of luck; a fixed sequence makes a failure one that can be repeated.
settings.register_profile("ens_plugin", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ens_plugin")


@pytest.fixture(autouse=True)
def _experiment_of_one_test() -> Iterator[None]:
    """`mlflow.set_experiment` sets a variable for child processes, which must not meet another test's experiment."""
    yield
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)


@pytest.fixture(autouse=True)
def _idle_threads_left_out() -> Iterator[None]:
    """Count no thread of pytest-xdist or of an earlier test, beside which each pickle would start an interpreter."""
    idle = threading.active_count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_damage, "_other_threads", lambda: max(0, threading.active_count() - idle))
        yield
