"""Settings every test relies on: no display, no outside MLflow, reproducible examples."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import settings
from tqdm import tqdm

from ens_plugin.adapters import EnsembleAdapter, registry
from ens_plugin.tracking import models as model_damage

# A developer's own tracking server or run must never receive what the tests log.
for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
    del os.environ[name]
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MPLBACKEND"] = "Agg"
# A test that fails by a refusal is of use only with all frames.
os.environ["ENS_PLUGIN_TRACEBACK"] = "full"
# Threads of OpenMP spin while they wait for each other.  Beside a second worker they wait for one that does not run,
# which took LightGBM a hundred times as long.  What they compute is the same.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Half the time of a Java that lives for a minute goes to its optimizing compiler and the threads of its collector.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for name in ("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(name, QUICK_JAVA)

# The thread that watches progress bars would stay for all tests that follow, and no model file be read in a fork.
tqdm.monitor_interval = 0

# Shared machines make deadlines a matter of luck; a fixed sequence makes a failure one that can be repeated.
# `make slow` tries all of Hypothesis' examples, `make test` the first of them.
settings.register_profile("all_examples", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("few_examples", settings.get_profile("all_examples"), max_examples=25)
settings.load_profile("few_examples")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for no doctests in the files of this folder: they have none, and the search takes seconds."""
    collectors = yield
    return [collector for collector in collectors if type(collector) is pytest.Module]


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Mark as slow the cases that ``slow_cases`` describes, and those that ``fast_cases`` does not name."""
    items = yield
    for item in items if isinstance(items, list) else []:
        texts = item.get_closest_marker("slow_cases")
        if texts is not None and any(text in item.callspec.id for text in texts.args):
            item.add_marker(pytest.mark.slow)
        mark = item.get_closest_marker("fast_cases")
        if mark is None:
            continue
        unknown = set(mark.args) - {other.callspec.id for other in items}
        if unknown:
            raise collector.CollectError(f"{item.originalname} has no cases {sorted(unknown)}")
        if item.callspec.id not in mark.args:
            item.add_marker(pytest.mark.slow)
    return items


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files of the tests marked ``long``: one that came last would leave the other worker idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(autouse=True)
def _experiment_of_one_test() -> Iterator[None]:
    """Unset the variable by which `mlflow.set_experiment` passes a test's experiment to child processes."""
    yield
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)


@pytest.fixture
def registered_adapters(monkeypatch: pytest.MonkeyPatch) -> list[type[EnsembleAdapter]]:
    """Return the list of registered adapters, empty at first; the earlier list is restored after the test."""
    monkeypatch.setattr(registry, "_registered", [])
    return registry._registered


@pytest.fixture(autouse=True)
def _idle_threads_left_out() -> Iterator[None]:
    """Count no thread of pytest-xdist, of an earlier test or of MLflow's artifacts when a model file is read.

    With another thread in the process, each pickle is read in a new interpreter, which takes seconds.  These threads
    only wait for work.
    """
    idle = set(threading.enumerate())

    def others() -> int:
        return sum(thread not in idle and "ArtifactRepo" not in thread.name for thread in threading.enumerate())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_damage, "_other_threads", others)
        yield


# The stores are made here and not beside the tests of tracking: a fixture that another folder imports is made again
# for that folder, and a server takes ten seconds.  MLflow is imported for the tests that use one.
@pytest.fixture(scope="session")
def embedded_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One database for all tests of a worker."""
    from tests.tracking.stores import embedded_store

    return embedded_store(tmp_path_factory.mktemp("embedded"))


@pytest.fixture(scope="session")
def server_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests of a worker, which takes ten seconds: `make test` uses none."""
    from tests.tracking.stores import served_store

    with served_store(tmp_path_factory.mktemp("server")) as uri:
        yield uri
