"""What files import, what packages state, which actions workflows run, and what the paper cites."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from inspect import ismodule
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from typing import Any

import pytest
import yaml

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


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps_of(path: Path) -> list[dict[str, Any]]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = content["jobs"].values() if "jobs" in content else [content["runs"]]
    return [step for job in jobs for step in job.get("steps", [])]


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.name)
def test_actions_are_named_by_their_commit(path: Path) -> None:
    used = [step["uses"] for step in steps_of(path) if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_checkout_keeps_no_credentials(path: Path) -> None:
    checkouts = [step for step in steps_of(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert [step for step in checkouts if step.get("with", {}).get("persist-credentials") is not False] == []


PAPER = Path(__file__).parents[2] / "paper"


def test_every_reference_is_cited_and_every_citation_has_one() -> None:
    cited = re.findall(r"@(\w+)", (PAPER / "paper.md").read_text(encoding="utf-8"))
    listed = re.findall(r"^@\w+\{(\w+),$", (PAPER / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(listed) == len({*listed}) > 10
    assert {*cited} == {*listed}
