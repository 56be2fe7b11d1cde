from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path

import pytest

from ens_plugin.adapters.members import installed_version


def test_versions_are_those_of_the_metadata() -> None:
    names = {found.metadata["Name"] for found in distributions() if found.metadata["Name"]}
    wanted = sorted(names & {"numpy", "scipy", "scikit-learn", "ens-plugin", "pytest", "joblib"})
    assert "numpy" in wanted
    assert {name: installed_version(name) for name in wanted} == {name: version(name) for name in wanted}


def test_version_of_a_distribution_without_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An egg's metadata stand in another file."""
    folder = tmp_path / "an_old_package.egg-info"
    folder.mkdir()
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: an-old-package\nVersion: 1.2.3\n\nVersion: 9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert installed_version("an-old-package") == "1.2.3"


def test_distribution_that_is_not_installed() -> None:
    with pytest.raises(PackageNotFoundError):
        installed_version("a-distribution-that-nobody-made")
