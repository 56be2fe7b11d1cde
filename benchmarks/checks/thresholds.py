"""Numbers with a name: whether any result changes when one of them is halved or doubled.

Each named number of the package is changed in memory, wherever it was imported, computed with or made a default, and
results that enter a function which reads it are computed again: hard data, and the cases of the golden results.
The first change of a result is stated by its kind: a verdict (a refusal, a doubt or a warning), the recommended size,
an interval, another estimate, or a text.  A number that changes nothing is to be removed, unless it bounds memory
or time, and its name or its comment says so.

The run may be cut off and started again: what is done is kept in a file, until a source of the package changes.
"""

from __future__ import annotations

import argparse
import ast
import csv
import hashlib
import inspect
import json
import math
import re
import signal
import sys
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, cast

import numpy as np

import ens_plugin
from benchmarks.checks.hard_cases import hard_cases
from benchmarks.shared.forests import DEFAULT_CACHE
from benchmarks.shared.markdown import table
from ens_plugin.errors import EnsPluginError

KEPT = DEFAULT_CACHE / "thresholds.json"
ROOT = Path(ens_plugin.__file__).parent
KINDS = ("verdict", "recommendation", "interval", "estimate", "text", "nothing")
# Sums in another order differ by less.
ROUNDING = 1e-6
BOUND = re.compile(
    r"(?<![a-z])(bytes|memory|cached?|blocks?|chunks?|at[ _]once|together|time|seconds?|s|batch|windows?|pieces?)"
    r"(?![a-z])",
    re.IGNORECASE,
)
# A number may be what ends a search.
SLOWER, PATIENCE_S = 20.0, 10.0
HARD_SHARE = 0.75
UNSTEADY = ("created", "versions", "seconds")
COLUMNS = ("constant", "file", "value", "bounds memory or time", "cases run", "halved", "doubled")

Code = tuple[str, int, str]
Binding = tuple[str, str]


class Constant(NamedTuple):
    """A number with a name at the top of a module."""

    module: str
    name: str
    value: float
    file: str
    line: int
    is_bound: bool

    @property
    def key(self) -> str:
        return f"{self.module}.{self.name}"


class Case(NamedTuple):
    """One result: its name, what computes it, and for golden ones the model it is of."""

    name: str
    compute: Callable[[], Any]
    model: str = ""


def altered(value: float, factor: float) -> float:
    """Return a number times a factor; whole numbers stay whole, at least one away, and shares between 0 and 1."""
    if isinstance(value, int):
        other = round(value * factor)
        return other if other != value else value + (1 if factor > 1 else -1) * (1 if value >= 0 else -1)
    if 0.0 < value < 1.0 <= value * factor:
        return (1.0 + value) / 2.0
    return value * factor


# The package's sources: where numbers are named, and what reads them.


class Package:
    """The modules of the package, imported, with where each number is bound and which functions read it."""

    def __init__(self) -> None:
        self.trees: dict[str, ast.Module] = {}
        self.digest = hashlib.sha256()
        for path in sorted([*ROOT.rglob("*.py"), *(ROOT / "adapters").rglob("*.py")]):
            module = ".".join(("ens_plugin", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
            if ".papers" in module or module == "ens_plugin.__main__":
                continue
            # A module that is imported later would take an altered number over.
            with suppress(ImportError):
                import_module(module)
                text = path.read_text(encoding="utf-8")
                self.digest.update(text.encode())
                self.trees[module] = ast.parse(text)

    @cached_property
    def constants(self) -> list[Constant]:
        """The named numbers, file by file."""
        found = []
        for module, tree in self.trees.items():
            path = Path(_file(module))
            lines = path.read_text(encoding="utf-8").splitlines()
            for name, value, line in _assignments(tree):
                if name.isupper() and _is_number(value):
                    number = getattr(sys.modules[module], name)
                    file = str(path.relative_to(ROOT.parent))
                    found.append(Constant(module, name, number, file, line, _says_bound(name, lines, line)))
        return found

    @cached_property
    def importers(self) -> dict[Binding, list[Binding]]:
        """Where a name of a module is imported under which name, at the top of a module."""
        found = defaultdict(list)
        for module, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        found[node.module, alias.name].append((module, alias.asname or alias.name))
        return found

    @cached_property
    def computed(self) -> dict[Binding, list[tuple[str, ast.expr]]]:
        """What is computed from a name at the top of its module, and how."""
        found = defaultdict(list)
        for module, tree in self.trees.items():
            for other, expression, _ in _assignments(tree):
                for name in _names(expression) - {other}:
                    found[module, name].append((other, expression))
        return found

    @cached_property
    def defaults(self) -> dict[Binding, list[tuple[Any, str]]]:
        """Functions, and the names of their parameters, whose default is a name of a module."""
        found = defaultdict(list)
        for module, tree in self.trees.items():
            for qualname, node in _functions(tree):
                for parameter, default in _given_defaults(node.args):
                    if isinstance(default, ast.Name):
                        function: Any = reduce(getattr, qualname.split("."), cast(Any, sys.modules[module]))
                        found[module, default.id].append((inspect.unwrap(function), parameter))
        return found

    def altered_bindings(self, module: str, name: str, value: Any) -> Iterator[tuple[Binding, Any]]:
        """Yield each name that holds a number, or is computed from it where it is imported, with its altered value."""
        yield (module, name), value
        for importer, alias in self.importers.get((module, name), ()):
            yield from self.altered_bindings(importer, alias, value)
        for other, expression in self.computed.get((module, name), ()):
            code = compile(ast.Expression(expression), module, "eval")
            derived = eval(code, {**vars(sys.modules[module]), name: value})
            if isinstance(derived, int | float | np.ndarray):
                yield from self.altered_bindings(module, other, derived)

    @cached_property
    def codes(self) -> dict[str, list[tuple[str, CodeType]]]:
        """The functions by each name that they use, with their modules."""
        found = defaultdict(list)
        for module, tree in self.trees.items():
            for code in _nested(compile(tree, _file(module), "exec")):
                for name in code.co_names:
                    found[name].append((module, code))
        return found

    def readers(self, constant: Constant) -> set[Code]:
        """Return the functions that read a number by any of its names, as an attribute, or as a default."""
        found = set()
        home = constant.module.rpartition(".")[2]
        for _, code in self.codes.get(constant.name, ()):
            if any(name.rpartition(".")[2] == home for name in code.co_names):
                found.add(_id(code))
        for (module, name), _ in self.altered_bindings(constant.module, constant.name, constant.value):
            found |= {_id(code) for user, code in self.codes.get(name, ()) if user == module}
            found |= {_id(function.__code__) for function, _ in self.defaults.get((module, name), ())}
        return found


def _file(module: str) -> str:
    return str(sys.modules[module].__file__)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr, int]]:
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    yield target.id, node.value, node.lineno


def _given_defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    for parameter, default in zip(with_default, arguments.defaults, strict=True):
        yield parameter.arg, default
    for parameter, optional in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield parameter.arg, optional


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _says_bound(name: str, lines: list[str], line: int) -> bool:
    """Return whether the name of a number, its line or the comment above says that it bounds memory or time."""
    start = line - 1
    while start > 0 and lines[start - 1].startswith("#"):
        start -= 1
    comments = [text.partition("#")[2] for text in lines[start:line]]
    return BOUND.search(" ".join([name, *comments])) is not None


def _names(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _nested(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _nested(inner)


def _id(code: CodeType) -> Code:
    return code.co_filename, code.co_firstlineno, code.co_name


@contextmanager
def changed(package: Package, constant: Constant, value: float) -> Iterator[None]:
    """Alter a number, wherever it is bound, for the time of the block."""
    kept: list[tuple[Any, str, Any]] = []
    bindings = list(package.altered_bindings(constant.module, constant.name, value))
    defaults = [(found, other) for binding, other in bindings for found in package.defaults.get(binding, ())]
    try:
        for (module, name), other in bindings:
            kept.append((sys.modules[module], name, vars(sys.modules[module])[name]))
            setattr(sys.modules[module], name, other)
        for (function, parameter), other in defaults:
            for attribute, given in _with_default(function, parameter, other).items():
                kept.append((function, attribute, getattr(function, attribute)))
                setattr(function, attribute, given)
        yield
    finally:
        for holder, name, before in reversed(kept):
            setattr(holder, name, before)


def _with_default(function: Any, parameter: str, value: Any) -> dict[str, Any]:
    if parameter in (function.__kwdefaults__ or {}):
        return {"__kwdefaults__": {**function.__kwdefaults__, parameter: value}}
    code, given = function.__code__, list(function.__defaults__)
    given[code.co_varnames.index(parameter) - code.co_argcount] = value
    return {"__defaults__": tuple(given)}


# Results, and how two of them differ.


def outcome(compute: Callable[[], Any], limit_s: float = math.inf) -> dict[str, Any]:
    """Return the content of a result, or its refusal, by path; what takes longer than the limit is given up."""
    _forget()
    try:
        with _time_limit(limit_s), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(_leaves(compute(), ""))
    except EnsPluginError as error:
        return {"refusal": f"{type(error).__name__}: {_without_numbers(str(error))}"}
    except Exception as error:  # another value of a number may break anything, which is a result
        return {"refusal": f"{type(error).__name__}, which is no error of the package"}


def _forget() -> None:
    """Clear what the package's functions remember."""
    for name in [name for name in sys.modules if name.startswith("ens_plugin.")]:
        for value in list(vars(sys.modules[name]).values()):
            if hasattr(value, "cache_clear") and getattr(value, "__module__", "") == name:
                value.cache_clear()


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    if not math.isfinite(seconds) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, ens_plugin.EnsembleReport):
        yield f"{path}.text", str(value)
        yield from _leaves(json.loads(value.to_json()), path)
    elif isinstance(value, dict):
        for name, part in value.items():
            if name not in UNSTEADY:
                yield from _leaves(part, f"{path}.{name}")
    elif isinstance(value, list | tuple) and not all(isinstance(part, int | float) for part in value):
        for index, part in enumerate(value):
            yield from _leaves(part, f"{path}.{index}")
    elif is_dataclass(value):
        yield from _leaves({field.name: getattr(value, field.name) for field in fields(value)}, path)
    elif isinstance(value, str) and re.search("warning|doubt|caution", path):
        yield path, _without_numbers(value)
    elif isinstance(value, str):
        yield path or ".text", value
    elif isinstance(value, int | float | list | tuple | np.ndarray):
        yield path, np.asarray(value)
    else:
        yield path, str(type(value))


def _without_numbers(text: str) -> str:
    return re.sub(r"\d[\d.,]*(e-?\d+)?", "#", text)


def kind_of_change(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the kind of the gravest difference of two results."""
    paths = [path for path in {*before, *after} if not _same(before.get(path), after.get(path))]
    return min((_kind(path) for path in paths), key=KINDS.index, default="nothing")


def _kind(path: str) -> str:
    if re.search("refusal|warning|doubt|caution", path):
        return "verdict"
    if path.endswith("recommendation.size"):
        return "recommendation"
    if re.search("interval|lower|upper", path):
        return "interval"
    return "text" if re.search(r"text$|reason$", path) else "estimate"


def _same(before: Any, after: Any) -> bool:
    if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray) or before.dtype.kind not in "fi":
        return bool(np.array_equal(before, after))
    if before.shape != after.shape:
        return False
    return bool(np.allclose(before, after, rtol=ROUNDING, atol=ROUNDING * 1e-3, equal_nan=True))


# Cases, and which numbers they reach.


def all_cases(golden_step: int) -> list[Case]:
    """Return the hard data, and each so-manieth golden case; none of them where the step is 0."""
    found = [Case(name, compute) for name, compute in hard_cases()]
    if golden_step > 0:
        golden = list(import_module("tests.golden").results())[::golden_step]
        found += [Case(f"golden: {name}", compute, name.partition(" {")[0]) for name, compute in golden]
    return found


def entered_by(compute: Callable[[], Any]) -> tuple[set[Code], float, bool]:
    """Return the functions that a result enters, its seconds, and whether it is refused."""
    entered: dict[int, CodeType] = {}

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            entered[id(frame.f_code)] = frame.f_code

    start = time.perf_counter()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        found = outcome(compute)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {_id(code) for code in entered.values()}, time.perf_counter() - start, "refusal" in found


class Trial:
    """A run over numbers and cases, what of it is done, and where that is kept."""

    def __init__(self, package: Package, cases: list[Case], constants: list[Constant], path: Path, end: float) -> None:
        self.package, self.constants, self.path, self.end = package, constants, path, end
        self.cases = {case.name: case for case in cases}
        self.reached: dict[str, dict[str, Any]] = {}
        self.found: dict[str, dict[str, Any]] = {}
        self._before: dict[str, tuple[dict[str, Any], float]] = {}
        self._unsteady: set[str] = set()
        if path.exists():
            kept = json.loads(path.read_text())
            if kept["sources"] == package.digest.hexdigest():
                self.reached, self.found = kept["reached"], kept["found"]

    def keep(self) -> None:
        """Write what is done."""
        done = {"sources": self.package.digest.hexdigest(), "reached": self.reached, "found": self.found}
        self.path.write_text(json.dumps(done))

    def is_over(self) -> bool:
        return time.monotonic() > self.end

    def trace(self) -> None:
        """Compute every result once, to know which numbers it reaches and what it costs."""
        readers = {constant.key: self.package.readers(constant) for constant in self.package.constants}
        for index, case in enumerate(self.cases.values()):
            if case.name in self.reached or self.is_over():
                continue
            entered, seconds, is_refused = entered_by(case.compute)
            reached = [key for key, codes in readers.items() if codes & entered]
            self.reached[case.name] = {"reached": reached, "seconds": seconds, "refused": is_refused}
            if index % 50 == 0:
                self.keep()
        self.keep()

    def run(self, most: int) -> None:
        """Try each number on at most so many cases."""
        for constant in self.constants:
            if constant.key in self.found or self.is_over():
                continue
            cases = self.chosen(constant.key, most)
            found: dict[str, Any] = {"cases": len(cases)}
            for name, factor in (("halved", 0.5), ("doubled", 2.0)):
                found[name] = self.first_change(constant, altered(constant.value, factor), cases)
            self.found[constant.key] = found
            self.keep()

    def chosen(self, key: str, most: int) -> list[Case]:
        """Return cases that reach a number, cheapest first: a draw of the hard data, and golden ones of all models."""
        reaching = [name for name in self.cases if key in self.reached.get(name, {}).get("reached", ())]
        reaching.sort(key=lambda name: float(self.reached[name]["seconds"]))
        golden = self.of_all_models([name for name in reaching if self.cases[name].model])
        # The cheapest are alike, and the slowest cost as much as all others.
        hard = [name for name in reaching if not self.cases[name].model]
        affordable = hard[: max(most, len(hard) * 9 // 10)]
        hard = [affordable[place] for place in np.random.default_rng([*key.encode()]).permutation(len(affordable))]
        n_hard = max(round(HARD_SHARE * most), most - len(golden))
        names = hard[:n_hard] + golden[: most - min(n_hard, len(hard))]
        return [self.cases[name] for name in sorted(names, key=reaching.index)]

    def of_all_models(self, names: list[str]) -> list[str]:
        """Return names of cases, each model once before any again, and refused ones last."""
        taken: Counter[str] = Counter()
        ranked = []
        for place, name in enumerate(names):
            ranked.append((self.reached[name]["refused"], taken[self.cases[name].model], place, name))
            taken[self.cases[name].model] += 1
        return [name for *_, name in sorted(ranked)]

    def first_change(self, constant: Constant, value: float, cases: list[Case]) -> str:
        """Return the kind of the first change of a result, and the name of its case."""
        for case in cases:
            if case.name in self._unsteady:
                continue
            before, seconds = self.before(case)
            with changed(self.package, constant, value):
                after = outcome(case.compute, SLOWER * seconds + PATIENCE_S)
            kind = kind_of_change(before, after)
            if kind == "nothing":
                continue
            if kind_of_change(before, outcome(case.compute)) != "nothing":
                self._unsteady.add(case.name)
                print(f"left out, because it differs from run to run: {case.name}", file=sys.stderr)
                continue
            return f"{kind} ({case.name})"
        return "nothing"

    def before(self, case: Case) -> tuple[dict[str, Any], float]:
        """Return the unaltered result of a case, and its seconds."""
        if case.name not in self._before:
            start = time.perf_counter()
            found = outcome(case.compute)
            self._before[case.name] = found, time.perf_counter() - start
        return self._before[case.name]

    def rows(self) -> list[list[str]]:
        """Return the table: a line for each number that was tried."""
        return [
            [
                constant.name,
                f"{constant.file}:{constant.line}",
                f"{constant.value:g}",
                "yes" if constant.is_bound else "",
                str(found["cases"]),
                found["halved"],
                found["doubled"],
            ]
            for constant in self.constants
            if (found := self.found.get(constant.key)) is not None
        ]


def summary(rows: list[list[str]]) -> str:
    """Return how many numbers change what at most, by room."""
    by_room: dict[str, Counter[str]] = defaultdict(Counter)
    for _, file, _, is_bound, n_cases, *found in rows:
        parts = Path(file).parts
        kind = min((text.partition(" (")[0] for text in found), key=KINDS.index)
        if kind == "nothing":
            kind = "in no case" if n_cases == "0" else "memory or time" if is_bound else kind
        by_room[parts[1] if len(parts) > 2 else parts[-1]][kind] += 1
    kinds = [*KINDS[:-1], "memory or time", "nothing", "in no case"]
    lines = [[room, str(found.total()), *(str(found[kind]) for kind in kinds)] for room, found in by_room.items()]
    return table(["room", "numbers", *kinds], lines)


def _write(path: Path, rows: list[list[str]]) -> None:
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    path.with_suffix(".md").write_text(table(list(COLUMNS), rows) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> str:
    """Try all numbers as far as the time allows, write the table, and return the summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checks.thresholds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="hard data only, at most four cases for each number")
    parser.add_argument("--minutes", type=float, default=60.0, help="when to stop (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=24, help="most cases for each number (default: %(default)s)")
    parser.add_argument("--golden-step", type=int, default=1, help="each so-manieth golden case (default: all)")
    parser.add_argument("--only", default="", help="a part of the names of the numbers to try, such as core.alike_rows")
    parser.add_argument("--state", type=Path, default=KEPT, help="what is done (default: %(default)s)")
    parser.add_argument("--table", type=Path, default=KEPT, help="the table, as .csv and .md (default: %(default)s)")
    options = parser.parse_args(arguments)
    end = time.monotonic() + 60.0 * options.minutes
    options.state.parent.mkdir(parents=True, exist_ok=True)
    package = Package()
    constants = [constant for constant in package.constants if options.only in constant.key]
    trial = Trial(package, all_cases(0 if options.quick else options.golden_step), constants, options.state, end)
    trial.trace()
    trial.run(min(options.cases, 4) if options.quick else options.cases)
    rows = trial.rows()
    _write(options.table, rows)
    about = (
        f"{len(rows)} of {len(constants)} numbers tried on {len(trial.reached)} cases; each in the table "
        f"{options.table.with_suffix('.md')}."
    )
    return "\n\n".join(["## Named numbers", (__doc__ or "").partition("\n")[0], about, summary(rows)])


if __name__ == "__main__":
    print(main())
