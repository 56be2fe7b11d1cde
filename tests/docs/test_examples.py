"""The examples of the reference can be copied from their page and run there: each imports all it uses."""

from __future__ import annotations

import builtins
import doctest
import importlib
import re
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
NAMES = [
    name
    for page in ("api.md", "adapters.md")
    for summary in re.findall(r"autosummary::(.*?)```", (REFERENCE / page).read_text(encoding="utf-8"), re.DOTALL)
    for name in re.findall(r"^ +([\w.]+)$", summary, re.MULTILINE)
]


def documented(name: str) -> Any:
    """The object of this name in the package, in a module of it or in a module of such a one."""
    module, _, attribute = f"ens_plugin.{name}".rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError:
        return getattr(documented(module.removeprefix("ens_plugin.")), attribute)


def examples(name: str) -> list[doctest.DocTest]:
    """The examples on the page of a name, those of its methods too, each with an empty namespace."""
    found = doctest.DocTestFinder().find(documented(name), name, module=False, globs={})
    return [test for test in found if test.examples]


def unknown_names(table: symtable.SymbolTable, known: set[str]) -> Iterator[str]:
    """The names that code uses, in functions and classes too, and that are neither built in nor known."""
    outer = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (outer or symbol.is_global()) and symbol.get_name() not in known:
            yield symbol.get_name()
    for child in table.get_children():
        yield from unknown_names(child, known)


def test_an_example_imports_every_name_it_uses() -> None:
    """This looks at the lines that are not run, too."""
    unknown = {}
    for test in (test for name in NAMES for test in examples(name)):
        table = symtable.symtable("".join(example.source for example in test.examples), test.name, "exec")
        bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        if found := {*unknown_names(table, {*bound, *vars(builtins)})}:
            unknown[test.name] = found
    assert len(NAMES) > 100
    assert unknown == {}
