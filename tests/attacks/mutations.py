"""One place of the package changed at a time; counts the changes that the tests of its module do not notice.

Run by hand: ``python -m tests.attacks.mutations --mutants 60 --seed 0``. The tests have to pass before.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutation", "files_testing", "mutated", "mutations_of", "run"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("ens_plugin", "adapters")
COPIED = (*SOURCES, "tests", "benchmarks", "examples", "docs", "README.md", "pyproject.toml")
FAST = "not slow and not spark and not browser and not server"

OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is",
    "in": "not in", "not in": "in", "+": "-", "-": "+", "*": "/", "/": "*", "and": "or", "or": "and",
}  # fmt: skip
OPPOSITES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
CONVERSIONS = {"int", "float", "bool", "str", "tuple", "list", "sorted", "asarray", "ascontiguousarray", "abs"}
# Type hints, messages and lists of names hold no arithmetic.
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list"}
SKIPPED_NODES = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)
GAP = re.compile(rb"[()\s\\]*(?P<operator>\S.*?)[()\s\\]*", re.DOTALL)

Position = tuple[int, int]


@dataclass(frozen=True)
class Mutation:
    """Bytes of a file from `start` to `end`, each a line (from 1) and a column (from 0), and what replaces them."""

    file: Path
    kind: str
    start: Position
    end: Position
    before: str
    after: str


@dataclass(frozen=True)
class Trial:
    """A mutation and its outcome.

    A test failed ("killed"), or does so without the mutation ("fails anyway"); all passed ("survived"); there was none
    ("no tests"), or not enough time ("unfinished").
    """

    mutation: Mutation
    outcome: str


def start_of(node: ast.expr) -> Position:
    return node.lineno, node.col_offset


def end_of(node: ast.expr) -> Position:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def text_between(lines: list[bytes], start: Position, end: Position) -> bytes:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    inner = lines[start[0] : end[0] - 1]
    return b"".join([lines[start[0] - 1][start[1] :], *inner, lines[end[0] - 1][: end[1]]])


def nodes_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one that are calculated with."""
    for field, value in ast.iter_fields(node):
        if field in SKIPPED_FIELDS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, SKIPPED_NODES) and not is_for_types(child):
                yield child
                yield from nodes_of(child)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def mutations_of(file: Path) -> list[Mutation]:
    """All mutations of a file, in its order."""
    content = file.read_bytes()
    lines = content.splitlines(keepends=True)
    found: list[Mutation] = []

    def replace(kind: str, start: Position, end: Position, change: Callable[[str], str | None]) -> None:
        before = text_between(lines, start, end).decode()
        after = change(before)
        if after is not None and after != before:
            found.append(Mutation(file, kind, start, end, before, after))

    for node in nodes_of(ast.parse(content)):
        match node:
            case ast.Compare(left, [_], [right]):
                replace("comparison", end_of(left), start_of(right), other_operator)
            case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right):
                replace("arithmetic", end_of(left), start_of(right), other_operator)
            case ast.BoolOp(_, [left, right, *_]):
                replace("and, or", end_of(left), start_of(right), other_operator)
            case ast.UnaryOp(ast.Not(), operand):
                replace("not", start_of(node), start_of(operand), lambda text: text.replace("not", "", 1).lstrip())
            case ast.Constant(bool(value)):
                replace("truth value", start_of(node), end_of(node), lambda _, value=value: str(not value))
            case ast.Constant(int(value) | float(value)):
                replace("constant", start_of(node), end_of(node), lambda _, value=value: repr(value + 1))
            case ast.Call(ast.Name(name) | ast.Attribute(_, name) as function) if name in OPPOSITES:
                replace("min, max", start_of(function), end_of(function), lambda text: opposite(text))
            case ast.Return(ast.Call(ast.Name(name) | ast.Attribute(ast.Name("np"), name), [argument, *_]) as call) if (
                name in CONVERSIONS
            ):
                whole = text_between(lines, start_of(argument), end_of(argument)).decode()
                replace("conversion", start_of(call), end_of(call), lambda _, whole=whole: f"({whole})")
            case _:
                pass
    return found


def other_operator(gap: str) -> str | None:
    """The text between two operands with the other operator, or None where a comment stands between them."""
    found = GAP.fullmatch(gap.encode())
    operator = "" if found is None else " ".join(found["operator"].decode().split())
    if operator not in OPERATORS:
        return None
    assert found is not None
    first, last = found.span("operator")
    return gap.encode()[:first].decode() + OPERATORS[operator] + gap.encode()[last:].decode()


def opposite(function: str) -> str:
    head, dot, name = function.rpartition(".")
    return head + dot + OPPOSITES[name]


def mutated(mutation: Mutation, content: bytes) -> bytes:
    """The content of the mutation's file with the mutation."""
    lines = content.splitlines(keepends=True)
    (first, left), (last, right) = mutation.start, mutation.end
    changed = lines[first - 1][:left] + mutation.after.encode() + lines[last - 1][right:]
    return b"".join([*lines[: first - 1], changed, *lines[last:]])


def files_testing(source: Path, root: Path = ROOT) -> list[Path]:
    """The test files of a module: its mirror, a file or a folder, then others beside it and those that import from it.

    Where the tests have no folder of its package, it is the next one above that they have.
    """
    inner = source.relative_to(root)
    place = Path(*inner.parts[1:]) if inner.parts[0] == "ens_plugin" else inner
    folder = next(above for above in (root / "tests" / place).parents if above.is_dir())
    mirror = [*folder.glob(f"test_{source.stem}.py"), *sorted(folder.glob(f"test_{source.stem}_*.py"))]
    files = [*mirror, *sorted((folder / source.stem).rglob("test_*.py")), *sorted(folder.glob("test_*.py"))]
    if place.parent.parts:
        package = re.escape(".".join(["ens_plugin", *place.parent.parts]))
        users = re.compile(rf"^\s*(from|import) {package}(\.{source.stem})?( |$)", re.MULTILINE)
        files += [file for file in sorted((root / "tests").rglob("test_*.py")) if users.search(file.read_text("utf-8"))]
    return list(dict.fromkeys(files))


def outcome_of(mutation: Mutation, copy: Path, seconds: float) -> str:
    """Run the tests of the mutated module in the copy, which is as before afterwards."""
    target = copy / mutation.file.relative_to(ROOT)
    original = target.read_bytes()
    target.write_bytes(mutated(mutation, original))
    try:
        done = run_tests([target, *files_testing(target, copy)], copy, seconds)
    except subprocess.TimeoutExpired:
        return "unfinished"
    finally:
        target.write_bytes(original)
    if done.returncode in (0, 5):
        return "no tests" if done.returncode else "survived"
    failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    is_green = run_tests(failed[:1], copy, seconds).returncode == 0 if failed else True
    return "killed" if is_green else "fails anyway"


def run_tests(files: Sequence[Path | str], copy: Path, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run tests in the copy until the first that fails."""
    # The package in the working directory comes before an installed one.
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", "-m", FAST]
    return subprocess.run(
        [*command, *map(str, files)],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def run(n_mutants: int, seed: int, seconds: float, report: Callable[[Trial], None]) -> list[Trial]:
    """Try mutations drawn at random, all with the same chance, one at a time in a copy of the package."""
    found = sorted(file for folder in SOURCES for file in (ROOT / folder).rglob("*.py"))
    # Below its other name, which is a link, some versions of Python meet the folder of adapters again.
    files = [file for file in found if not file.is_relative_to(ROOT / "ens_plugin" / "adapters")]
    drawn = random.Random(seed).sample([mutation for file in files for mutation in mutations_of(file)], n_mutants)
    trials = []
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory).resolve()
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, symlinks=True)
            else:
                shutil.copy2(ROOT / name, copy / name)
        for mutation in drawn:
            trials.append(Trial(mutation, outcome_of(mutation, copy, seconds)))
            report(trials[-1])
    return trials


def main() -> None:
    """Try the mutations, print each, and print the counts by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="for the tests of one mutation")
    options = parser.parse_args()

    def show(trial: Trial) -> None:
        mutation = trial.mutation
        place = f"{mutation.file.relative_to(ROOT)}:{mutation.start[0]}:{mutation.start[1]}"
        change = f"{' '.join(mutation.before.split())} -> {' '.join(mutation.after.split())}"
        print(f"{trial.outcome:10} {mutation.kind:12} {place:60} {change}", flush=True)

    trials = run(options.mutants, options.seed, options.seconds, show)
    by_kind: dict[str, Counter[str]] = {}
    for trial in trials:
        by_kind.setdefault(trial.mutation.kind, Counter())[trial.outcome] += 1
    for kind, outcomes in sorted(by_kind.items()):
        print(f"{kind:12} " + ", ".join(f"{outcome} {n}" for outcome, n in sorted(outcomes.items())))
    print(f"{len(trials)} mutations: {dict(Counter(trial.outcome for trial in trials))}")


if __name__ == "__main__":
    main()
