"""The pages of the site: short guides, paths that exist, examples that run, names that are all there."""

from __future__ import annotations

import ast
import builtins
import doctest
import os
import re
import subprocess
import symtable
import sys
from pathlib import Path

import pytest

from tests.docs.test_examples import unknown_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = ("_build", "gallery", "generated", "tutorials")  # by the build
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if not set(path.relative_to(DOCS).parts) & set(WRITTEN)]
GUIDES = sorted((DOCS / "how-to").glob("*.md"))
SOURCES = [
    path
    for folder in ("ens_plugin", "adapters", "benchmarks", "examples", "tests", "docs", ".github")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".md", ".j2", ".rst", ".yml", ".toml"} and not set(path.parts) & {*WRITTEN, ".venv"}
]
AT_THE_TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", "action.yml")]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", GUIDES, ids=lambda path: path.stem)
def test_a_guide_has_at_most_350_words(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    words = [word for word in prose.split() if re.search(r"\w", word)]
    assert len(words) <= 350


@pytest.mark.parametrize("page", sorted((DOCS / "methods").glob("*.md")), ids=lambda path: path.stem)
def test_a_page_of_methods_has_at_most_1500_words(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) <= 1500


READERS_OWN = {
    *("X", "y", "X_new", "X_held_out", "y_held_out", "test", "rows", "features"),
    *("forest", "model", "pipeline_model", "report", "session", "spark", "run"),
}
WITHOUT_THE_READER = ("agreement", "budget", "gate", "groups", "grow", "metrics", "notebook", "oob", "size",
                      "uncertainty")  # fmt: skip


def code_of(page: Path) -> str:
    """The Python blocks of a page, one below the other."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md", *GUIDES], ids=lambda path: path.stem)
def test_a_guide_defines_every_name_that_is_not_the_readers_own(page: Path) -> None:
    table = symtable.symtable(code_of(page), page.stem, "exec")
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    unknown = {*unknown_names(table, {*bound, *vars(builtins)})}
    assert unknown - (set() if page.stem in WITHOUT_THE_READER else READERS_OWN) == set()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITHOUT_THE_READER)
def test_the_code_of_a_guide_runs_from_top_to_bottom(name: str, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "MPLBACKEND": "agg",
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "PYTHONPATH": str(ROOT),
    }
    code = code_of(DOCS / "how-to" / f"{name}.md")
    command = [sys.executable, "-W", "ignore", "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=name_of)
def test_commands_are_at_most_80_columns_wide(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)[^\n]*\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    commands = re.compile(r"ens-plugin|pip |export |make |python |\s+--")
    lines = [line for kind, block in blocks if kind in {"", "sh"} for line in block.splitlines()]
    assert [line for line in lines if len(line) > 80 and commands.match(line)] == []


def test_every_page_that_is_named_exists() -> None:
    named = {
        (name_of(path), found)
        for path in (*SOURCES, *AT_THE_TOP)
        for found in re.findall(r"\bdocs/[\w./-]+\.(?:md|png|py)\b", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    assert [pair for pair in sorted(named) if not (ROOT / pair[1]).exists()] == []


def test_no_message_names_a_page() -> None:
    texts = [
        (path, text)
        for folder in ("ens_plugin", "adapters")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for text in texts_beside_docstrings(path)
    ]
    texts += [(path, path.read_text(encoding="utf-8")) for path in (ROOT / "ens_plugin").rglob("*.j2")]
    assert len(texts) > 1000
    # An installed package has no pages.
    assert [(name_of(path), text) for path, text in texts if re.search(r"\bdocs/|\.md\b", text)] == []


def texts_beside_docstrings(path: Path) -> list[str]:
    """The string constants of a module that are no statement of their own, those within f-strings included."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_every_relative_link_of_the_readme_leads_somewhere() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if not link.startswith("http")]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.parametrize(
    "page", [path for path in PAGES if ">>>" in path.read_text(encoding="utf-8")], ids=lambda path: path.stem
)
def test_the_examples_of_a_page_run(page: Path) -> None:
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testfile(str(page), module_relative=False, optionflags=options).failed == 0


def test_the_papers_have_the_same_titles_on_the_pages_of_methods_and_in_the_citation() -> None:
    titles = re.findall(
        r"^- \*\*\d{4}\*\* .*, \*(.*?)\*\.?$", (DOCS / "methods" / "index.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    references = (ROOT / "CITATION.cff").read_text(encoding="utf-8").partition("references:")[2]
    cited = re.findall(r"^    title: (.*)$", references, re.MULTILINE)
    assert len(titles) == 5
    assert [title.lower() for title in titles] == [title.lower() for title in cited]


def test_the_index_for_language_models_has_every_page_with_its_title_and_a_line() -> None:
    lines = re.findall(r"^- \[(.*)\]\((.*)\): .+\.$", (DOCS / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    titles = {
        page.relative_to(DOCS).as_posix(): re.findall(r"^# (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)[0]
        for page in PAGES
    }
    assert len(lines) == len(PAGES)
    assert {address: title for title, address in lines} == {
        address: title.replace("`", "") for address, title in titles.items()
    }
