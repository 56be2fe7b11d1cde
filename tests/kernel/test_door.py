"""The one door to the compiled part: what is found where it is missing, broken or not wanted."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import _kernel
from ens_plugin.errors import EnsPluginWarning
from tests.extras import needs_kernel


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which the compiled part is looked for in place of its own."""
    monkeypatch.setattr(_kernel, "__path__", [str(tmp_path)])
    monkeypatch.delenv("ENS_PLUGIN_PURE", raising=False)
    for name in [name for name in sys.modules if name.startswith("ens_plugin._kernel.")]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    _kernel._is_importable.cache_clear()
    yield tmp_path
    _kernel._is_importable.cache_clear()


@pytest.mark.parametrize("content", [b"", b"no library of any machine"], ids=["empty", "garbage"])
def test_one_that_cannot_be_imported_changes_no_figure_and_is_warned_of_once(folder: Path, content: bytes) -> None:
    X, y = load_wine(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    assert not _kernel.is_used()
    expected = ens_plugin.analyze(forest, X, y)
    (folder / f"native{EXTENSION_SUFFIXES[0]}").write_bytes(content)
    importlib.invalidate_caches()
    _kernel._is_importable.cache_clear()
    with pytest.warns(
        EnsPluginWarning, match=r"cannot be imported \(.*changes no figure\. Install it again: pip"
    ) as caught:
        found = ens_plugin.analyze(forest, X, y)
    assert sum("compiled part" in str(warning.message) for warning in caught) == 1
    assert {warning.filename for warning in caught} == {__file__}
    assert found.versions["compiled search"] == "no"
    assert found.metrics() == expected.metrics()
    np.testing.assert_array_equal(found.error_curve.error, expected.error_curve.error)


@pytest.mark.usefixtures("folder")
def test_nothing_is_said_where_it_is_missing() -> None:
    assert not _kernel.is_used()


@needs_kernel
def test_an_environment_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _kernel.is_used()
    monkeypatch.setenv("ENS_PLUGIN_PURE", "1")
    assert not _kernel.is_used()
