"""A build of ens-plugin-walk whose kernel cannot be imported: a warning, and the library's own leaves."""

from __future__ import annotations

import importlib
import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.errors import EnsPluginWarning

PACKAGE = "ens_plugin_walk"
SOURCE = Path(__file__).parents[2] / "walk" / PACKAGE


@pytest.fixture(params=[None, b"", b"no library of any machine"], ids=["missing", "empty", "garbage"])
def broken_walk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the package with a kernel that is not there or holds these bytes, and forget one imported before."""
    package = tmp_path / PACKAGE
    package.mkdir()
    for path in SOURCE.glob("*.py"):
        shutil.copy(path, package)
    if request.param is not None:
        (package / f"_kernel{EXTENSION_SUFFIXES[0]}").write_bytes(request.param)
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    with pytest.raises(ImportError):
        importlib.import_module(PACKAGE)


@pytest.mark.usefixtures("broken_walk")
def test_a_kernel_that_cannot_be_imported_changes_no_figure_and_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_wine(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    with pytest.warns(
        EnsPluginWarning, match=r"finds no leaves \(.*the library finds the leaves.*\. Install it again: pip"
    ):
        found = ens_plugin.analyze(forest, X, y)
    monkeypatch.setattr("ens_plugin.adapters.walk_package.is_installed", lambda: False)
    expected = ens_plugin.analyze(forest, X, y)
    assert found.metrics() == expected.metrics()
    np.testing.assert_array_equal(found.error_curve.error, expected.error_curve.error)
