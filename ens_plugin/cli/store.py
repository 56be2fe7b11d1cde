"""The tracking store of the command line, and how to open its experiments in a browser."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from ens_plugin.tracking.store.connection import EMBEDDED_STORE, without_credentials

__all__ = ["browse_hint", "use_store"]


def use_store(uri: str | None) -> str:
    """Set MLflow's tracking URI to `uri`, else keep a configured one, else use ``sqlite:///mlflow.db``.

    Returns
    -------
    str
        The tracking URI now in use.
    """
    import mlflow

    if uri is not None:
        mlflow.set_tracking_uri(uri)
    elif not mlflow.is_tracking_uri_set() and not _has_file_store():  # type: ignore[no-untyped-call]
        # Early releases of MLflow 3 default to the file store, which later ones refuse.
        mlflow.set_tracking_uri(EMBEDDED_STORE)
    return str(mlflow.get_tracking_uri())


def _has_file_store() -> bool:
    return any(Path("mlruns").glob("*/meta.yaml"))


def browse_hint(uri: str, experiment_id: str) -> str:
    """Return the command and the address that open an experiment in the browser, without credentials.

    Where MLflow is installed without its server, what to install comes first.
    """
    uri = without_credentials(uri)
    page = f"#/experiments/{experiment_id}/runs"
    if uri.startswith(("http://", "https://")):
        return f"Open {uri.rstrip('/')}/{page}"
    if uri.startswith("databricks"):
        return f"Open experiment {experiment_id} in your Databricks workspace."
    return (
        f"{_missing_server()}Run   {_as_argument(_mlflow_command())} ui --backend-store-uri {_as_argument(uri)}\n"
        f"Open  http://127.0.0.1:5000/{page}"
    )


def _as_argument(text: str) -> str:
    # list2cmdline uses double quotes, which cmd.exe and PowerShell understand.
    return subprocess.list2cmdline([text]) if sys.platform == "win32" else shlex.quote(text)


def _missing_server() -> str:
    # mlflow-skinny has the command `mlflow ui`, and lacks Flask, on which the server runs.
    return "" if find_spec("flask") is not None else "First pip install 'ens-plugin[mlflow]', for MLflow's server\n"


def _mlflow_command() -> str:
    """Return ``mlflow`` if that command is this environment's, otherwise the path to it."""
    beside = Path(sys.executable).parent / "mlflow"
    on_path = shutil.which("mlflow")
    if not beside.exists() or (on_path is not None and Path(on_path).resolve() == beside.resolve()):
        return "mlflow"
    here = Path.cwd()
    return str(beside.relative_to(here)) if beside.is_relative_to(here) else str(beside)
