"""The output and the picture in the README are those of its code."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import sklearn
from PIL import Image

pytestmark = pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the README shows figures of scikit-learn 1.9; other releases grow other forests",
)

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)
(SCRIPT,) = (code for language, code in BLOCKS if language == "python")


def test_the_readme_can_be_read_in_two_minutes() -> None:
    assert len(README.split()) <= 500


@pytest.mark.slow
def test_summary_is_what_the_script_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    printed = io.StringIO()
    monkeypatch.chdir(tmp_path)
    with redirect_stdout(printed):
        exec(SCRIPT, names)
    (shown,) = (text for _, text in BLOCKS if text.startswith("RandomForestClassifier,"))
    assert printed.getvalue().startswith(shown.rstrip("\n"))
    size = names["report"].recommended_size
    assert f"`truncate(forest, {size})`" in README
    front_page = (Path(__file__).parents[2] / "docs" / "index.md").read_text(encoding="utf-8")
    assert f"report.recommended_size  # {size}\n" in front_page
    assert [*tmp_path.iterdir()] == []


def test_picture_and_text_have_the_same_numbers() -> None:
    """The picture keeps what is written in it; its sizes and accuracies are those of the answers above it."""
    with Image.open(Path(__file__).parents[2] / "docs" / "images" / "error_curve.png") as picture:
        written = str(picture.info["Description"])
    (printed,) = (text for _, text in BLOCKS if text.startswith("RandomForestClassifier,"))
    now, size, cut, here = re.search(  # type: ignore[union-attr]
        r", (\d+) trees\n.*fewer: (\d+) give ([\d.]+ %) .*How good\? +([\d.]+ %) right", printed, re.DOTALL
    ).groups()
    assert f"recommended {size}: {cut}" in written
    assert f"current {now}: {here}" in written
