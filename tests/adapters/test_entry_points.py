"""Adapters of installed distributions: loaded when a model of their library arrives, and named when they are broken."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow.utils import import_hooks
from sklearn.ensemble import RandomForestRegressor

import ens_plugin
from ens_plugin import autolog
from ens_plugin.adapters import find_adapter, find_library, libraries
from ens_plugin.adapters import registry as entry_points
from ens_plugin.adapters.registry import is_known
from ens_plugin.errors import AdapterError, EnsPluginWarning, ModelLoadError
from ens_plugin.tracking.models import load_model
from tests.project.test_package import run_python
from tests.tracking.stores import MLFLOW_WARNINGS, new_store, tracking_to

pytestmark = MLFLOW_WARNINGS

X = np.random.default_rng(0).random((200, 3))
Y = X[:, 0] + np.random.default_rng(1).normal(0, 0.1, 200)
LIBRARY = """
from tests.adapters.toy_library import ToyForest

class Forest(ToyForest):
    def fit(self, X, y):
        return super().fit(X, y)
"""
ADAPTER = """
import tinylib
from ens_plugin.adapters import fit_methods
from tests.adapters.toy_library import ToyAdapter

class TinyAdapter(ToyAdapter):
    library = "tinylib"
    accepts = staticmethod(lambda model: isinstance(model, tinylib.Forest))
    fit_sites = staticmethod(lambda: fit_methods(tinylib.Forest))
"""
BUILT_IN = {"imblearn", "quantile_forest", "econml", "sklearn", "xgboost", "lightgbm"}
Install = Callable[..., None]


@pytest.fixture(autouse=True)
def without_leftovers() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("tinylib")]:
        del sys.modules[name]
    # MLflow takes a library that was imported once to be imported for ever.
    import_hooks._post_import_hooks.pop("tinylib", None)
    entry_points._entries.cache_clear()
    entry_points._loaded.clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts modules and a distribution's metadata on the path, as pip does."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(value: str, adapter: str, name: str = "tinylib", distribution: str = "tinylib-ens") -> None:
        (tmp_path / "tinylib.py").write_text(LIBRARY)
        (tmp_path / "tinylib_ens.py").write_text(adapter)
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[ens_plugin.adapters]\n{name} = {value}\n")
        importlib.invalidate_caches()
        entry_points._entries.cache_clear()
        entry_points._loaded.clear()

    return write


def tiny_forest() -> Any:
    return importlib.import_module("tinylib").Forest().fit(X, Y)


def test_it_is_loaded_when_a_model_of_its_library_arrives(install: Install) -> None:
    install("tinylib_ens:TinyAdapter", ADAPTER)
    ens_plugin.analyze(RandomForestRegressor(30, random_state=0).fit(X, Y), X, Y)
    assert "tinylib_ens" not in sys.modules
    model = tiny_forest()
    assert type(find_adapter(model)).__name__ == "TinyAdapter"
    assert is_known(model)
    assert ens_plugin.analyze(model, X, Y).model == "Forest"
    assert find_library(model).library == "tinylib"
    assert next(libraries()).library == "tinylib"


def test_several_adapters_for_one_library(install: Install) -> None:
    other = ADAPTER + "\nclass Other(TinyAdapter):\n    accepts = staticmethod(lambda model: False)\n"
    install("tinylib_ens:ADAPTERS", other + "ADAPTERS = (Other, TinyAdapter)\n")
    assert type(find_adapter(tiny_forest())).__name__ == "TinyAdapter"


def test_what_a_user_registers_comes_first(install: Install, registered_adapters: list[Any]) -> None:
    install("tinylib_ens:TinyAdapter", ADAPTER)
    model = tiny_forest()
    from tests.adapters.toy_library import ToyAdapter

    ens_plugin.register_adapter(ToyAdapter)
    assert type(find_adapter(model)) is ToyAdapter


BROKEN = {
    "import": ("tinylib_ens:TinyAdapter", "import no_such_module", "ModuleNotFoundError: No module named 'no_such_mod"),
    "any error": ("tinylib_ens:TinyAdapter", "1 / 0", "ZeroDivisionError: division by zero"),
    "no such name": ("tinylib_ens:Nothing", ADAPTER, "AttributeError: module 'tinylib_ens' has no attribute 'Nothing'"),
    "no adapter": ("tinylib_ens:fit_methods", ADAPTER, "is neither a subclass of ens_plugin.adapters.EnsembleAdapter"),
    "unfinished": (
        "tinylib_ens:A",
        "from ens_plugin.adapters import EnsembleAdapter as A",
        "EnsembleAdapter does not implement accepts, bags, describe, outputs, prepare",
    ),
    "another library": (
        "tinylib_ens:TinyAdapter",
        ADAPTER.replace('"tinylib"', '"other"'),
        "TinyAdapter.library is 'other', which must be the name of the entry point",
    ),
}


@pytest.mark.fast_cases("no adapter", "any error", "unfinished")
@pytest.mark.parametrize(("value", "adapter", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_one_is_named_with_its_distribution(value: str, adapter: str, reason: str, install: Install) -> None:
    install(value, adapter)
    model = tiny_forest()
    for find in (find_adapter, lambda model: find_library(model), find_adapter):
        with pytest.raises(AdapterError, match=r"The distribution tinylib-ens 1\.2 offers an adapter for t") as raised:
            find(model)
        assert reason in str(raised.value)
        assert f"Entry point 'tinylib' = {value!r}" in str(raised.value)
        assert isinstance(raised.value, ImportError)


def test_a_broken_one_harms_no_model_of_another_library(install: Install) -> None:
    install("tinylib_ens:TinyAdapter", "1 / 0")
    importlib.import_module("tinylib")
    forest = RandomForestRegressor(30, random_state=0).fit(X, Y)
    assert ens_plugin.analyze(forest, X, Y).n_members == 30
    assert {found.library for found in libraries()} <= BUILT_IN


def test_of_two_distributions_for_one_library_the_first_by_name_is_tried_first(install: Install) -> None:
    install("tinylib_ens:Second", ADAPTER + "class Second(TinyAdapter): pass\n", distribution="b-ens")
    adapter = ADAPTER + "class First(TinyAdapter): pass\nclass Second(TinyAdapter): pass\n"
    install("tinylib_ens:First", adapter, distribution="a-ens")
    assert type(find_adapter(tiny_forest())).__name__ == "First"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[mlflow.MlflowClient]:
    with tracking_to(new_store(tmp_path)):
        mlflow.create_experiment("tiny", artifact_location=(tmp_path / "artifacts").as_uri())
        mlflow.set_experiment("tiny")
        yield mlflow.MlflowClient()


@pytest.mark.fast_cases("False")
@pytest.mark.parametrize("is_imported", [True, False])
def test_autolog_without_an_import_of_the_adapter(
    is_imported: bool, install: Install, store: mlflow.MlflowClient
) -> None:
    install("tinylib_ens:TinyAdapter", ADAPTER)
    if is_imported:
        importlib.import_module("tinylib")
    autolog(log_artifacts=False, max_overhead=1e3)
    try:
        assert ("tinylib_ens" in sys.modules) == is_imported
        with mlflow.start_run() as run:
            model = tiny_forest()
    finally:
        autolog(disable=True)
    assert store.get_run(run.info.run_id).data.metrics["ens.rmse"] == ens_plugin.analyze(model, X, Y).rmse


def test_autolog_warns_of_a_broken_one_and_lets_the_import_be(
    install: Install, store: mlflow.MlflowClient, caplog: pytest.LogCaptureFixture
) -> None:
    install("tinylib_ens:TinyAdapter", "1 / 0")
    autolog(log_artifacts=False)
    try:
        tiny_forest()
    finally:
        autolog(disable=True)
    (message,) = [record.getMessage() for record in caplog.records if record.name == "ens_plugin.autolog"]
    assert message.startswith("Fits of tinylib get no reports: The distribution tinylib-ens 1.2 offers an adapter for")


WITH_FILES = f"""
import pickle
{ADAPTER}
class Readable(TinyAdapter):
    title, requirement = "Tiny", "tinylib"
    reads = staticmethod(lambda start: start.startswith(b"tiny"))
    read = staticmethod(lambda content: pickle.loads(content[4:]))
"""


def test_a_file_of_its_own_format_is_read_without_an_import(install: Install, tmp_path: Path) -> None:
    install("tinylib_ens:Readable", WITH_FILES)
    path = tmp_path / "model.tiny"
    path.write_bytes(b"tiny" + pickle.dumps(tiny_forest()))
    del sys.modules["tinylib"]
    np.testing.assert_array_equal(load_model(path).predict(X), tiny_forest().predict(X))
    assert next(libraries()).title == "Tiny"


def test_a_file_that_nothing_reads_names_the_broken_ones(install: Install, tmp_path: Path) -> None:
    install("tinylib_ens:Readable", "1 / 0")
    path = tmp_path / "model.tiny"
    path.write_bytes(b"tiny?")
    with pytest.warns(EnsPluginWarning, match="tinylib-ens"), pytest.raises(ModelLoadError, match="could not be read"):
        load_model(path)


def test_pickles_load_no_adapter(install: Install, tmp_path: Path) -> None:
    install("tinylib_ens:TinyAdapter", ADAPTER)
    path = tmp_path / "forest.pkl"
    path.write_bytes(pickle.dumps(RandomForestRegressor(5, random_state=0).fit(X, Y)))
    load_model(path)
    assert "tinylib_ens" not in sys.modules


def test_import_reads_no_entry_points(tmp_path: Path) -> None:
    assert run_python("import sys, ens_plugin; print('importlib.metadata' in sys.modules)", tmp_path) == "False"
