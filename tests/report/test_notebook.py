"""A notebook, executed and exported by nbconvert, as headless Chromium shows it in light and in dark.

``make screenshots`` runs this test and keeps the picture of the documentation.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.extras import NOTEBOOKS

CHROMIUM = pytest.importorskip("tests.tracking.chromium", reason="playwright is not installed: pip install playwright")
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "notebook.md").read_text(encoding="utf-8")
CELLS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
CARD = ".ens-card"
# Of each card that a page shows: its colours, its pictures and the texts that stick out of them.
SEEN = """cards => cards.map(card => {
    const style = getComputedStyle(card)
    const pictures = [...card.querySelectorAll(':scope > .pictures svg')].filter(picture => picture.clientWidth > 0)
    return {
        shown: style.display,
        paper: style.backgroundColor,
        ink: style.color,
        text: getComputedStyle(card.querySelector('svg text')).fill,
        height: Math.min(...pictures.map(picture => picture.getBoundingClientRect().height)),
        clipped: pictures.flatMap(picture => [...picture.querySelectorAll('text')].filter(text => {
            const [inner, outer] = [text.getBoundingClientRect(), picture.getBoundingClientRect()]
            return inner.left < outer.left - 1 || inner.right > outer.right + 1
        }).map(text => text.textContent)),
    }
})"""


def python_of_notebooks() -> str | None:
    """The interpreter that has nbconvert: this one, or that of ENS_PLUGIN_NOTEBOOK_PYTHON."""
    named = os.environ.get("ENS_PLUGIN_NOTEBOOK_PYTHON", sys.executable)
    code = f"import {', '.join(NOTEBOOKS)}"
    found = subprocess.run([named, "-c", code], capture_output=True, check=False).returncode == 0
    return named if found else None


PYTHON = python_of_notebooks()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(CHROMIUM.CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
    pytest.mark.skipif(
        PYTHON is None,
        reason=f"needs {', '.join(NOTEBOOKS)}: pip install {' '.join(NOTEBOOKS)}, or name an interpreter that has "
        "them in ENS_PLUGIN_NOTEBOOK_PYTHON",
    ),
]

# Executes the cells of the page in the interpreter of the notebooks, and exports the result once for each theme.
EXPORT = """
import re, sys, nbformat
from nbclient import NotebookClient
from nbconvert import HTMLExporter
cells, paths, directory = sys.argv[1], sys.argv[2], sys.argv[3]
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells.split("# %%\\n")])
setup = f"import sys; sys.path[:0] = {paths.split(':')!r}"
notebook.cells.insert(0, nbformat.v4.new_code_cell(setup))
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
del notebook.cells[0]
for template, theme in (("lab", "light"), ("lab", "dark"), ("classic", "light")):
    text, _ = HTMLExporter(template_name=template, theme=theme).from_notebook_node(notebook)
    open(f"{directory}/{template}_{theme}.html", "w", encoding="utf-8").write(text)
# What VS Code gives the page that shows its outputs.
for theme, paper in (("light", "#ffffff"), ("dark", "#1e1e1e")):
    body = f'<body class="vscode-{theme}" style="--vscode-editor-background: {paper}; background: {paper}">'
    with open(f"{directory}/vscode_{theme}.html", "w", encoding="utf-8") as page:
        page.write(re.sub("<body[^>]*>", body, text))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("notebook")
    paths = ":".join(path for path in sys.path if path)
    command = [PYTHON, "-c", EXPORT, "# %%\n".join(CELLS), paths, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with CHROMIUM.launch() as browser:
        yield browser


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("page", ["lab_light", "lab_dark", "classic_light", "vscode_light", "vscode_dark"])
def test_cards_are_legible_in_every_theme(browser: Any, exported: Path, page: str, system: str) -> None:
    with browser.new_context(viewport={"width": 1000, "height": 900}, color_scheme=system) as context:
        tab = context.new_page()
        tab.goto((exported / f"{page}.html").as_uri())
        cards = tab.locator(CARD).evaluate_all(SEEN)
        assert len(cards) == 2
        # The theme of JupyterLab or VS Code counts for more than the system's; a page without a theme has the system's.
        is_dark = (system if page == "classic_light" else page.partition("_")[2]) == "dark"
        for card in cards:
            assert card["shown"] == "block"
            assert (luminance(card["paper"]) < 0.2) == is_dark
            for colour in (card["ink"], card["text"]):
                assert contrast(colour, card["paper"]) > 7
            assert card["height"] > 180
            assert card["clipped"] == []
        assert tab.locator(f"{CARD} [id]").count() == 0, "ids of two outputs would be the same"
        assert not tab.locator(".ens-plain:visible").count()


def test_picture_of_the_documentation(browser: Any, exported: Path, tmp_path: Path) -> None:
    directory = Path(os.environ.get("ENS_PLUGIN_SCREENSHOTS", tmp_path))
    with browser.new_context(viewport={"width": 980, "height": 900}, color_scheme="light") as context:
        tab = context.new_page()
        tab.goto((exported / "lab_light.html").as_uri())
        tab.locator(CARD).first.screenshot(path=directory / "notebook.png")
        tab.locator(CARD).last.screenshot(path=directory / "comparison.png")
        tab.goto((exported / "lab_dark.html").as_uri())
        tab.locator(CARD).first.screenshot(path=directory / "notebook_dark.png")
    assert all(0 < picture.stat().st_size < 200_000 for picture in directory.glob("notebook*.png"))


def channels(colour: str) -> list[float]:
    return [float(number) / 255 for number in re.findall(r"[\d.]+", colour)[:3]]


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)
