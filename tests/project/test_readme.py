"""The output and the picture in the README are those of its code."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import sklearn
from PIL import Image

pytestmark = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the README shows figures of scikit-learn 1.9; other releases grow other forests",
)

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
(SHOWN,) = (text for _, text in BLOCKS if text.startswith("RandomForestClassifier"))
(SCRIPT,) = (code for language, code in BLOCKS if language == "python")


def test_the_readme_can_be_read_in_two_minutes() -> None:
    assert len(README.split()) <= 500


@pytest.mark.slow
def test_summary_is_what_the_script_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.StringIO()
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(printed):
        exec(SCRIPT, {})
    assert printed.getvalue().startswith(SHOWN.rstrip("\n"))
    size = re.search(r"truncate\(model, (\d+)\)", SHOWN)
    assert size is not None
    assert f"`truncate(forest, {size[1]})`" in README
    front_page = (Path(__file__).parents[2] / "docs" / "index.md").read_text(encoding="utf-8")
    assert f"report.recommended_size  # {size[1]}\n" in front_page
    assert [*tmp_path.iterdir()] == []


def test_picture_and_text_have_the_same_numbers() -> None:
    """The picture keeps what is written in it; its size and errors are those of the summary below."""
    with Image.open(Path(__file__).parents[2] / "docs" / "images" / "error_curve.png") as picture:
        written = str(picture.info["Description"])
    sizes = {
        "recommended": r"fewer: (\d+) give ([\d.]+) %",
        "current": r"(\d+) trees\n(?:.|\n)*?How good\? +([\d.]+) %",
    }
    for mark, words in sizes.items():
        found = re.search(words, SHOWN)
        assert found is not None, f"the README does not show the {mark} size"
        size, accuracy = found.groups()
        assert f"{mark} {size}: {accuracy} %" in written
