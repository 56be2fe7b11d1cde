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
FIRST_SCRIPT, AFTER_IT = (code for language, code in BLOCKS if language == "python")


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], set[str], str]:
    """The names that the two scripts define, the files that they leave behind, and what the first one prints."""
    names: dict[str, Any] = {}
    printed = io.StringIO()
    directory = tmp_path_factory.mktemp("first")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(directory)
        exec(FIRST_SCRIPT + AFTER_IT, names)
    return names, {path.name for path in directory.iterdir()}, printed.getvalue()


Run = tuple[dict[str, Any], set[str], str]


@pytest.mark.slow
def test_values_beside_the_lines_of_the_scripts(first_run: Run) -> None:
    shown = re.findall(r"^(report\S*)  # (\d+|\(.*\))$", AFTER_IT, flags=re.MULTILINE)
    assert len(shown) == 2
    for expression, value in shown:
        assert eval(expression, first_run[0]) == eval(value)
    size = first_run[0]["report"].recommended_size
    assert len(first_run[0]["small"].estimators_) == size
    assert f"with its first {size} trees" in AFTER_IT


@pytest.mark.slow
def test_git_ignores_what_the_scripts_leave_behind(first_run: Run) -> None:
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert first_run[1]
    assert first_run[1] <= set(ignored)


@pytest.mark.slow
def test_summary_is_what_the_first_script_prints(first_run: Run) -> None:
    (shown,) = (text for _, text in BLOCKS if text.startswith("RandomForestClassifier:"))
    assert first_run[2].startswith(shown.rstrip("\n"))


def test_picture_and_text_have_the_same_numbers() -> None:
    """The picture keeps what is written in it; its size and errors are those of the summary below."""
    with Image.open(Path(__file__).parents[2] / "docs" / "images" / "error_curve.png") as picture:
        written = str(picture.info["Description"])
    (printed,) = (text for _, text in BLOCKS if text.startswith("RandomForestClassifier:"))
    for words, mark in (("recommended", "recommended"), ("this model", "current")):
        size, accuracy = re.search(rf"(\d+) trees \({words}\) +([\d.]+) %", printed).groups()  # type: ignore[union-attr]
        assert f"{mark} {size}: {100 - float(accuracy):.2f} %" in written
