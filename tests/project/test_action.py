"""The GitHub Action and the GitLab job work as documented, as far as they can be run without their platforms."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import joblib
import pytest
import yaml
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
LINK = "https://github.com/someone/something/actions/runs/1/artifacts/2?a=1&b=2"


class Job(NamedTuple):
    """How a run of the action ended, and what it reported to the platform."""

    code: int
    outputs: dict[str, str]
    summary: str
    stderr: str


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("a $(touch pwned) 'path")
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    joblib.dump(RandomForestClassifier(120, random_state=0).fit(X, y), directory / "model.joblib")
    X.assign(label=y).to_csv(directory / "train.csv", index=False)
    return directory


def run_action(
    workshop: Path, tmp_path: Path, environment: Mapping[str, str] = MappingProxyType({}), **given: str
) -> Job:
    """Run the steps as the platform would: inputs into variables, outputs from files."""
    inputs = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
    inputs |= {"model": "model.joblib", "data": "train.csv", "target": "label", "python": sys.executable}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    known = {f"inputs.{name}": value for name, value in inputs.items()}
    known["github.action_path"] = str(ROOT)
    code, errors = 0, ""
    for step in ACTION["runs"]["steps"]:
        condition = re.fullmatch(r"(\S+) != ''", step["if"]) if "if" in step else None
        if condition and not known.get(condition[1]):
            continue
        if code:
            break
        if "uses" in step:
            assert Path(_filled(step["with"]["path"], known)).read_bytes().startswith(b"\x89PNG")
            known[f"steps.{step['id']}.outputs.artifact-url"] = LINK
            continue
        written = tmp_path / f"output-{step['name']}"
        written.write_text("", encoding="utf-8")
        variables = {name: _filled(value, known) for name, value in step["env"].items()}
        platform = {"RUNNER_TEMP": str(tmp_path), "GITHUB_OUTPUT": str(written)}
        platform["GITHUB_STEP_SUMMARY"] = str(tmp_path / "step-summary.md")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment, **platform, **variables},
            cwd=workshop,
            capture_output=True,
            text=True,
            check=False,
        )
        code, errors = done.returncode, errors + done.stderr
        for line in written.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            known[f"steps.{step.get('id')}.outputs.{name}"] = value
    summary = tmp_path / "step-summary.md"
    outputs = {name: _filled(entry["value"], known) for name, entry in ACTION["outputs"].items()}
    return Job(code, outputs, summary.read_text(encoding="utf-8") if summary.exists() else "", errors)


def _filled(template: str, known: dict[str, str]) -> str:
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: known.get(found[1], ""), str(template))


def test_no_input_is_pasted_into_a_script() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", "")


def test_a_model_that_meets_the_demands_passes_with_a_summary(workshop: Path, tmp_path: Path) -> None:
    job = run_action(workshop, tmp_path, metric="roc_auc", max_size_ratio="20", min_agreement="0.5")
    assert job.code == 0, job.stderr
    assert job.outputs["passed"] == "true"
    assert job.outputs["n-members"] == "120"
    assert 5 < int(job.outputs["recommended-size"]) < 120
    assert Path(job.outputs["json"]).is_file()
    assert "| size | latency |" in job.summary
    assert job.summary.rstrip().endswith(f"(<{LINK}>)")


@pytest.mark.slow
def test_the_metric_is_about_the_positive_label(workshop: Path, tmp_path: Path) -> None:
    job = run_action(workshop, tmp_path, metric="recall", positive_label="0", measure="false")
    assert job.code == 0, job.stderr
    assert run_action(workshop, tmp_path, metric="recall", positive_label="2", measure="false").code == 2


@pytest.mark.slow
def test_a_model_that_is_too_large_fails_and_still_has_its_summary(workshop: Path, tmp_path: Path) -> None:
    job = run_action(workshop, tmp_path, criterion="agreement", max_size_ratio="1.1", measure="false")
    assert job.code == 1
    assert job.outputs["passed"] == "false"
    assert job.summary.startswith("**FAILED: 120 trees: ")
    assert "pickled" not in job.summary


@pytest.mark.slow
def test_what_cannot_be_told_fails_with_the_reason(workshop: Path, tmp_path: Path) -> None:
    job = run_action(workshop, tmp_path, target="no such column")
    assert job.code == 2
    assert "no such column" in job.stderr
    heading, _, *message = job.summary.splitlines()
    assert heading == "**The size of the model could not be recommended.**"
    assert message[0].startswith("    Error: There is no target column 'no such column' in the data.")
    assert all(line.startswith("    ") for line in message)
    assert job.outputs["passed"] == ""


def test_requirements_of_the_model_are_installed_first_when_named(workshop: Path, tmp_path: Path) -> None:
    """pip is replaced by a program that writes down what it is to install, before a Python without ens-plugin."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/calls"\n[ "$1" = -m ]\n', encoding="utf-8")
    python.chmod(0o755)
    run_action(workshop, tmp_path, python=str(python), requirements="model requirements.txt")
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert calls[0] == f"-m pip install --quiet --requirement {workshop}/model requirements.txt"
    assert calls[2] == f"-m pip install --quiet {ROOT}[mlflow-skinny]"
    (tmp_path / "calls").unlink()
    run_action(workshop, tmp_path, python=str(python))
    assert "--requirement" not in (tmp_path / "calls").read_text(encoding="utf-8")


@pytest.mark.fast_cases("$(touch pwned)")
@pytest.mark.parametrize("text", ["$(touch pwned)", "'; touch pwned; '", "--help", "`touch pwned`"])
def test_inputs_are_data(text: str, workshop: Path, tmp_path: Path) -> None:
    job = run_action(workshop, tmp_path, model=text)
    assert job.code == 2
    assert not list(workshop.glob("pwned")) + list(tmp_path.rglob("pwned"))


HOSTILE = (
    "numpy.py", "ens_plugin/__init__.py", "pip/__init__.py", "json.py", "sys.py", "site.py", "sitecustomize.py",
    "usercustomize.py", "click.py", "mlflow/__init__.py", "runpy.py", "encodings/__init__.py",
)  # fmt: skip


@pytest.fixture
def hostile(workshop: Path, tmp_path: Path) -> Path:
    """Return a workspace where each module that Python may look for leaves a trace when it is run."""
    workspace = tmp_path / "workspace"
    for name in HOSTILE:
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(f"open({str(tmp_path / 'pwned')!r}, 'a').write({name!r})\n", encoding="utf-8")
    for name in ("model.joblib", "train.csv"):
        (workspace / name).symlink_to(workshop / name)
    return workspace


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["{root}:.", *(pytest.param(path, marks=pytest.mark.slow) for path in ("", ".", "{root}:"))]
)
def test_no_module_is_imported_from_the_workspace(path: str, hostile: Path, tmp_path: Path) -> None:
    environment = {"PYTHONPATH": path.format(root=ROOT)}
    job = run_action(hostile, tmp_path, environment, measure="false")
    assert not (tmp_path / "pwned").exists()
    assert job.code == 0, job.stderr
    assert job.outputs["n-members"] == "120"


def test_installing_imports_nothing_from_the_workspace(hostile: Path, tmp_path: Path) -> None:
    """Where ens-plugin is missing, pip is run; a Python that has neither fails, and runs nothing of the workspace."""
    venv.create(tmp_path / "bare", with_pip=False)
    job = run_action(hostile, tmp_path, {"PYTHONPATH": ""}, python=str(tmp_path / "bare" / "bin" / "python"))
    assert not (tmp_path / "pwned").exists()
    assert job.code == 1
    assert "No module named pip" in job.stderr


@pytest.mark.slow
def test_a_python_of_the_workspace_is_found(hostile: Path, tmp_path: Path) -> None:
    (hostile / "bin").mkdir()
    (hostile / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (hostile / "bin" / "python").chmod(0o755)
    job = run_action(hostile, tmp_path, python="bin/python", measure="false")
    assert job.code == 0, job.stderr


@pytest.mark.slow
def test_what_an_earlier_step_left_is_no_answer(workshop: Path, tmp_path: Path) -> None:
    assert run_action(workshop, tmp_path, measure="false").outputs["passed"] == "true"
    assert run_action(workshop, tmp_path, model="there is none").outputs["passed"] == ""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.filterwarnings(r"ignore:::mlflow(\..*)?")
def test_a_store_in_the_workspace_is_found(hostile: Path, tmp_path: Path) -> None:
    import mlflow

    from tests.tracking.stores import embedded_store, tracking_to

    with tracking_to(embedded_store(hostile)):
        mlflow.set_experiment("tests")
        mlflow.sklearn.log_model(
            joblib.load(hostile / "model.joblib"), name="forest", registered_model_name="m", pip_requirements=[],
            serialization_format="cloudpickle",
        )  # fmt: skip
    job = run_action(hostile, tmp_path, {"MLFLOW_TRACKING_URI": ""}, model="models:/m/1", measure="false")
    assert job.code == 0, job.stderr
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("given", ["", "sqlite:///mlflow.db"])
def test_a_store_relative_to_the_workspace_is_made_absolute(given: str, tmp_path: Path) -> None:
    """Python is replaced by a program that writes down where it is to track."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mlflow.db").touch()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$MLFLOW_TRACKING_URI" > "{tmp_path}/store"\n', encoding="utf-8")
    python.chmod(0o755)
    run_action(tmp_path / "work", tmp_path, {"MLFLOW_TRACKING_URI": given}, python=str(python))
    assert (tmp_path / "store").read_text(encoding="utf-8") == f"sqlite:///{tmp_path}/work/mlflow.db\n"


def test_the_documents_name_every_input_and_output() -> None:
    text = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert f"`{name}`" in text


def test_the_example_workflow_gives_inputs_that_there_are() -> None:
    workflow = yaml.safe_load((ROOT / "examples" / "ci" / "github.yml").read_text(encoding="utf-8"))
    given = workflow["jobs"]["recommend"]["steps"][-1]["with"]
    required = {name for name, entry in ACTION["inputs"].items() if entry.get("required")}
    assert required <= set(given) <= set(ACTION["inputs"])


@pytest.mark.slow
def test_the_gitlab_job_runs(workshop: Path, tmp_path: Path) -> None:
    job: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "ci" / "gitlab.yml").read_text(encoding="utf-8"))
    job = job["recommend-size"]
    for name in ("model.joblib", "train.csv"):
        (tmp_path / name).symlink_to(workshop / name)
    variables = {name: str(value) for name, value in job["variables"].items()}
    command = "\n".join(job["script"][2:]).replace("python -m", f"{sys.executable} -m")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    for name in job["artifacts"]["paths"]:
        assert (tmp_path / name).stat().st_size > 0
