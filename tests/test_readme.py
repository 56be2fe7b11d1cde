"""What the README shows is what comes out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import sklearn
from PIL import Image

from examples.digits_error_curve import draw

pytestmark = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the README shows figures of scikit-learn 1.9; other releases grow other forests",
)

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
FIRST_SCRIPT = next(code for language, code in BLOCKS if language == "python")


def test_values_beside_the_lines_of_the_first_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(FIRST_SCRIPT.replace("report.error_curve.plot()\n", ""), names)
    shown = re.findall(r"^(report\S*)  # (\d+|\(.*\))$", FIRST_SCRIPT, flags=re.MULTILINE)
    assert len(shown) == 2
    for expression, value in shown:
        assert eval(expression, names) == eval(value)


def test_git_ignores_what_the_first_script_leaves_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(FIRST_SCRIPT.replace("report.error_curve.plot()\n", ""), {})
    ignored = (Path(__file__).parents[1] / ".gitignore").read_text(encoding="utf-8").splitlines()
    left = {path.name for path in tmp_path.iterdir()}
    assert left
    assert left <= set(ignored)


def test_summary_at_the_top_is_that_of_its_example(tmp_path: Path) -> None:
    summary = draw(str(tmp_path / "curve.png")).summary()
    (printed,) = (text for _, text in BLOCKS if text.startswith("RandomForestClassifier:"))
    assert summary.startswith(printed.rstrip("\n"))


def test_picture_and_text_say_the_same_numbers() -> None:
    """The picture keeps what is written in it; its size and errors are those of the summary below."""
    with Image.open(Path(__file__).parents[1] / "docs" / "images" / "error_curve.png") as picture:
        written = str(picture.info["Description"])
    (printed,) = (text for _, text in BLOCKS if text.startswith("RandomForestClassifier:"))
    for words, mark in (("recommended", "recommended"), ("this ensemble", "current")):
        size, error = re.search(rf"(\d+) members \({words}\) +([\d.]+ %)", printed).groups()  # type: ignore[union-attr]
        assert f"{mark} {size}: {error}" in written
