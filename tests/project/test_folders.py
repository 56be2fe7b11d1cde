"""Packages state what is in them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = {folder: sorted((ROOT / folder).rglob("*.py")) for folder in ("adapters", "benchmarks")}
# Below their other name, which is a link, some versions of Python meet the modules of adapters again.
MODULES["ens_plugin"] = [
    path
    for path in sorted((ROOT / "ens_plugin").rglob("*.py"))
    if not path.is_relative_to(ROOT / "ens_plugin" / "adapters")
]


@pytest.mark.parametrize("folder", ["adapters", "benchmarks", "ens_plugin"])
def test_a_package_begins_with_a_line_about_what_is_in_it(folder: str) -> None:
    packages = [path for path in MODULES[folder] if path.name == "__init__.py"]
    folders = {path.parent for path in MODULES[folder]}
    assert folders == {path.parent for path in packages}
    texts = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for path in packages}
    first_lines = {
        path.parent.relative_to(ROOT).as_posix(): (text or "").splitlines()[:1] for path, text in texts.items()
    }
    assert [name for name, lines in first_lines.items() if not (lines and lines[0].endswith("."))] == []
