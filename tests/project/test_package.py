from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import ens_plugin

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.mark.slow
def test_a_plain_analysis_loads_nothing_for_metrics_judged_models_and_json(tmp_path: Path) -> None:
    code = """
import sys
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
import ens_plugin
X, y = load_breast_cancer(return_X_y=True)
report = ens_plugin.analyze(RandomForestClassifier(100, random_state=0).fit(X, y), X, y)
parts = ("analysis.judged", "analysis.metric_curves", "report.serialization", "report.html", "spark")
found = lambda: sorted(part for part in parts if f"ens_plugin.{part}" in sys.modules)
print(found())
ens_plugin.analyze(RandomForestClassifier(100, random_state=0).fit(X, y), X, y, metric="roc_auc")
report.to_json()
print(found())
"""
    before, after = run_python(code, tmp_path).splitlines()
    assert before == "[]"
    assert after == "['analysis.metric_curves', 'report.serialization']"


def test_libraries_and_models_of_this_package_are_known_without_any_model_library(tmp_path: Path) -> None:
    code = """
import sys
for name in ("econml", "imblearn", "lightgbm", "pyspark", "quantile_forest", "sksurv", "xgboost", "ydf"):
    sys.modules[name] = None
import ens_plugin
from ens_plugin.adapters import libraries
from ens_plugin.adapters.registry import is_known
print({cls.library for cls in libraries()} == {"lightgbm", "xgboost"})
print(is_known(ens_plugin.RightSizedClassifier()))
"""
    assert run_python(code, tmp_path).split() == ["True", "False"]


def test_public_names_come_from_where_they_are_defined() -> None:
    for name in sorted({*ens_plugin.__all__} - {"__version__", "errors"}):
        assert getattr(ens_plugin, name).__name__ == name


@pytest.mark.slow
def test_dir_lists_the_public_names_alone_before_and_after_their_first_use(tmp_path: Path) -> None:
    listed = "dir(ens_plugin) == sorted(ens_plugin.__all__)"
    code = f"import ens_plugin; before = {listed}; ens_plugin.EnsembleReport; print(before, {listed})"
    assert run_python(code, tmp_path) == "True True"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'ens_plugin' has no attribute 'no_such_name'"):
        ens_plugin.no_such_name  # noqa: B018


def git(*arguments: str, directory: Path) -> None:
    identity = ["-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def version_of(directory: Path) -> str:
    """Return the version that a build of this directory would have."""
    # Git looks for a repository in the directories above, too.
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(directory.parent)}
    command = [sys.executable, "-W", "ignore", "-m", "setuptools_scm"]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """A repository with the files that decide the version, whose last commit has the tag v7.8.9."""
    repository = tmp_path / "repository"
    repository.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitattributes", ".git_archival.txt"):
        shutil.copy(ROOT / name, repository)
    git("init", "--quiet", directory=repository)
    git("add", ".", directory=repository)
    git("commit", "--quiet", "--message", "first", directory=repository)
    git("tag", "v7.8.9", directory=repository)
    return repository


def test_version_is_that_of_the_installed_distribution() -> None:
    assert ens_plugin.__version__ == metadata.version("ens-plugin")
    assert re.match(r"\d+\.\d+", ens_plugin.__version__)


@pytest.mark.slow
def test_version_is_that_of_the_tag(tagged: Path) -> None:
    assert version_of(tagged) == "7.8.9"


@pytest.mark.slow
def test_version_after_a_tag_is_a_development_version_of_the_next_one(tagged: Path) -> None:
    git("commit", "--quiet", "--allow-empty", "--message", "second", directory=tagged)
    assert version_of(tagged).startswith("7.8.10.dev1+g")


@pytest.mark.slow
def test_version_in_an_archive_of_a_tag(tagged: Path, tmp_path: Path) -> None:
    git("archive", "--prefix=unpacked/", "--output", str(tmp_path / "archive.tar"), "v7.8.9", directory=tagged)
    with tarfile.open(tmp_path / "archive.tar") as archive:
        archive.extractall(tmp_path, filter="data")
    assert version_of(tmp_path / "unpacked") == "7.8.9"


@pytest.mark.slow
def test_version_in_a_shallow_clone_without_the_tag_is_below_every_release(tagged: Path, tmp_path: Path) -> None:
    git("commit", "--quiet", "--allow-empty", "--message", "second", directory=tagged)
    git("clone", "--quiet", "--depth", "1", "--no-tags", tagged.as_uri(), "shallow", directory=tmp_path)
    assert version_of(tmp_path / "shallow").startswith("0.0.1.dev")


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
    sources = [path for path in files if "__pycache__" not in path.parts]
    return {path.relative_to(ROOT).as_posix() for path in sources}


def packed_files(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


@pytest.mark.slow
def test_wheel_holds_the_whole_package_and_no_other_module(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    packed = packed_files(wheel)
    assert packed == source_files()
    assert {"ens_plugin/py.typed", "ens_plugin/adapters/contract.py"} <= packed
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.slow
def test_sdist_holds_the_adapters_inside_the_package(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert source_files() <= names
    assert not any(name.startswith("adapters/") for name in names)


ANALYSIS = """
import ens_plugin
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
X, y = load_wine(return_X_y=True)
report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
"""
SHOWN = "print(ens_plugin.__file__, report.error_curve.error.tolist(), sep='\\n')"


@pytest.mark.slow
def test_the_wheel_analyses_as_the_source_does(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path)
    file, error = run_python(ANALYSIS + SHOWN, tmp_path).splitlines()
    assert Path(file).is_relative_to(tmp_path)
    found: dict[str, Any] = {}
    exec(ANALYSIS, found)
    assert error == str(found["report"].error_curve.error.tolist())
