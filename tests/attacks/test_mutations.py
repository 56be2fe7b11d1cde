from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.attacks.mutations import ROOT, files_testing, mutated, mutations_of


@pytest.mark.parametrize(
    ("line", "kind", "after"),
    [
        ("x = a < b", "comparison", "x = a <= b"),
        ("x = (a)  not in(b)", "comparison", "x = (a)  in(b)"),
        ("x = a is  not b", "comparison", "x = a is b"),
        ("x = a + b", "arithmetic", "x = a - b"),
        ("x = (a) / (b)", "arithmetic", "x = (a) * (b)"),
        ("x = a and b and c", "and, or", "x = a or b and c"),
        ("x = not (a)", "not", "x = (a)"),
        ("x = f(True)", "truth value", "x = f(False)"),
        ("x = a[0.5]", "constant", "x = a[1.5]"),
        ("x = np.minimum(a, b)", "min, max", "x = np.maximum(a, b)"),
        ("def f(a): return float(a)", "conversion", "def f(a): return (a)"),
        ("def f(a): return np.asarray(a, int)", "conversion", "def f(a): return (a)"),
        ("x = 'é', a == b", "comparison", "x = 'é', a != b"),
    ],
)
def test_each_kind_of_mutation(line: str, kind: str, after: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(f"{line}\n", encoding="utf-8")
    (mutation,) = mutations_of(file)
    assert mutation.kind == kind
    assert mutated(mutation, file.read_bytes()).decode() == f"{after}\n"


@pytest.mark.parametrize(
    "text",
    ['"""1 + 1"""', "x: Literal[1]", "raise ValueError(f'{a + 1}')", "if TYPE_CHECKING:\n    x = 1", "x = f'{a + 1}'"],
)
def test_what_is_not_calculated_with_stays(text: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    assert mutations_of(file) == []


@pytest.mark.parametrize("name", ["ens_plugin/core/error_curve.py", "adapters/members.py"])
def test_every_mutation_changes_the_meaning_and_keeps_the_syntax(name: str) -> None:
    file = ROOT / name
    whole = ast.dump(ast.parse(file.read_bytes()))
    trees = [ast.dump(ast.parse(mutated(mutation, file.read_bytes()))) for mutation in mutations_of(file)]
    assert trees
    assert whole not in trees
    assert len(set(trees)) == len(trees)


def test_the_tests_of_a_module_are_its_mirror_and_those_that_import_from_its_package() -> None:
    found = [
        file.relative_to(ROOT / "tests").as_posix() for file in files_testing(ROOT / "ens_plugin/sizing/truncate.py")
    ]
    assert found[0] == "sizing/test_truncate.py"
    assert "registry/rightsizing/test_rightsizing.py" in found
    assert "core/test_bags.py" not in found


def test_the_tests_of_a_module_may_be_a_folder() -> None:
    found = [
        file.relative_to(ROOT / "tests").as_posix() for file in files_testing(ROOT / "ens_plugin/analysis/curves.py")
    ]
    assert found[0].startswith("analysis/curves/")
    assert "analysis/test_analyze.py" in found
