"""Every example runs as a user would run it: as a script, in a directory of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras import INSTALL

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    pytest.param(path, marks=[pytest.mark.spark] * (path.stem == "spark"), id=path.stem)
    for path in sorted((ROOT / "examples").glob("*/*.py"))
    if path.parent.name != "tutorials"  # run by the build of the site, as the gallery is
]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("script", EXAMPLES)
def test_an_example_runs_and_prints_something(script: Path, tmp_path: Path) -> None:
    for library in ("imblearn", "lightgbm", "xgboost"):
        if script.stem.startswith(library):
            pytest.importorskip(library, reason=f"{library} is not installed: {INSTALL[library]}")
    if script.stem == "deep_ensemble":
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
    if script.stem == "spark":
        pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ens-plugin[spark]'")
        if shutil.which("java") is None:
            pytest.skip("needs Java 17 or newer: apt install default-jre-headless")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
