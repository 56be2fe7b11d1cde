from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import ens_plugin

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ["sklearn", "mlflow", "matplotlib", "pandas", "xgboost", "lightgbm", "pyspark", "joblib", "numpy"]


def run_python(code: str, directory: Path) -> str:
    """Run `code` in a fresh interpreter that has not imported what this one has; return what it prints."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_loads_no_heavy_library(tmp_path: Path) -> None:
    code = f"import sys, ens_plugin; print(set({HEAVY}) & set(sys.modules))"
    assert run_python(code, tmp_path) == "set()"


def test_import_of_report_loads_no_renderer_and_no_tracker(tmp_path: Path) -> None:
    heavy = sorted({*HEAVY} - {"numpy"})
    code = f"import sys; from ens_plugin import EnsembleReport; print(set({heavy}) & set(sys.modules))"
    assert run_python(code, tmp_path) == "set()"


def test_import_of_an_analysis_loads_no_page_and_no_figures(tmp_path: Path) -> None:
    folders = ("ens_plugin.report.html", "ens_plugin.report.plots")
    code = f"import sys, ens_plugin; ens_plugin.analyze; print([n for n in sys.modules if n.startswith({folders})])"
    assert run_python(code, tmp_path) == "[]"


@pytest.mark.parametrize("name", ens_plugin.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(ens_plugin, name) is not None


def test_public_names_come_from_where_they_are_defined() -> None:
    for name in sorted({*ens_plugin.__all__} - {"__version__", "errors"}):
        assert getattr(ens_plugin, name).__name__ == name


def test_public_names_are_unique() -> None:
    assert len(ens_plugin.__all__) == len(set(ens_plugin.__all__))


def test_dir_lists_the_public_names_alone_before_and_after_their_first_use(tmp_path: Path) -> None:
    listed = "dir(ens_plugin) == sorted(ens_plugin.__all__)"
    code = f"import ens_plugin; before = {listed}; ens_plugin.EnsembleReport; print(before, {listed})"
    assert run_python(code, tmp_path) == "True True"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ens_plugin' has no attribute 'no_such_name'"):
        ens_plugin.no_such_name  # noqa: B018


def test_version_is_the_one_in_pyproject() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.+)"$', text, flags=re.MULTILINE) == [ens_plugin.__version__]


def test_adapters_directory_is_a_relative_link() -> None:
    link = ROOT / "ens_plugin" / "adapters"
    assert link.is_symlink()
    assert link.readlink() == Path("../adapters")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist and, from it, the wheel, as a release would; give the directory of both."""
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def source_files() -> set[str]:
    package = ROOT / "ens_plugin"
    directories = [package, package / "adapters"]
    files = [path for directory in directories for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}


def test_wheel_holds_the_whole_package_and_no_other_module(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    packed = {name for name in names if ".dist-info/" not in name}
    assert packed == source_files()
    assert {"ens_plugin/py.typed", "ens_plugin/adapters/base.py"} <= packed


def test_sdist_holds_the_adapters_inside_the_package(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert source_files() <= names
