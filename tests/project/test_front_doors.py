"""Tests import public names, or names of a room's files, wherever they can."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from pkgutil import iter_modules, walk_packages

import pytest

import ens_plugin

TESTS = Path(__file__).parents[1]
PACKAGES = sorted(found.name for found in walk_packages(ens_plugin.__path__, "ens_plugin.") if found.ispkg)
LARGEST_SHARE = Fraction(1, 3)


def inner_modules(file: Path) -> Iterator[str]:
    """The modules inside a package of a room that a test file imports, or imports from."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if is_inner(name.name))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if is_inner(node.module):
                yield node.module
            elif node.module in PACKAGES:
                exported = getattr(import_module(node.module), "__all__", ())
                yield from (f"{node.module}.{name.name}" for name in node.names if name.name not in exported)


def is_inner(module: str) -> bool:
    return module.startswith("ens_plugin.") and module.count(".") > 2 and module not in PACKAGES


def test_at_most_a_third_of_the_files_import_from_inside_a_package_of_a_room() -> None:
    files = sorted(TESTS.rglob("test_*.py"))
    inside = [file.relative_to(TESTS).as_posix() for file in files if any(inner_modules(file))]
    assert len(inside) <= LARGEST_SHARE * len(files), inside


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_defined_and_hides_no_module(package: str) -> None:
    module = import_module(package)
    names = getattr(module, "__all__", [])
    assert len(names) == len(set(names))
    # A name that is loaded at its first use would be hidden by a module of that name which is imported before.
    for found in iter_modules(module.__path__):
        if found.name in names:
            import_module(f"{package}.{found.name}")
    assert [name for name in names if ismodule(getattr(module, name))] == []
