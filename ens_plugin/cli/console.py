"""What the command line prints and writes, and MLflow's server for its demo."""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import TextIO, TypeVar

import click

from ens_plugin.errors import EnsPluginWarning, InputError
from ens_plugin.files import write_whole
from ens_plugin.report.text import WIDTH
from ens_plugin.tracking.connection import (
    EMBEDDED_STORE,
    no_progress_bars,
    require_mlflow,
    without_credentials,
    without_secrets,
)

Command = TypeVar("Command", bound=Callable[..., object])

# Exit codes: a demand is not met; there is no result.
NOT_MET, NO_RESULT = 1, 2
SHARE = click.FloatRange(min=0.0, max=1.0)


def _creatable(_: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    if value is None:
        return value
    if not os.path.isdir(value.parent):
        raise click.BadParameter(f"there is no directory {str(value.parent)!r}. Create it first.", param=parameter)
    try:
        value.lstat()
    except FileNotFoundError:
        return value
    except OSError as error:
        raise click.BadParameter(
            f"{str(value)!r} cannot be written: {error.strerror}. Choose another path.", param=parameter
        ) from error
    return value


def output_option(name: str, text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds an option with the path of a file to write, in a folder that exists."""
    kind = click.Path(dir_okay=False, writable=True, path_type=Path)
    destination = f"{name.strip('-')}_path"
    return click.option(name, destination, type=kind, callback=_creatable, metavar="PATH", help=text)


def notice(message: str) -> None:
    """Print a message on stderr as one line."""
    click.echo(message, err=True)


def paragraph(message: str) -> None:
    """Print a message on stderr in lines of at most 80 columns, without breaking addresses, paths and figures."""
    lines = message.replace(" %", "\xa0%").splitlines()
    filled = [textwrap.fill(line, WIDTH, break_long_words=False, break_on_hyphens=False) for line in lines]
    notice("\n".join(filled).replace("\xa0", " "))


def show_refusal(error: click.ClickException) -> None:
    """Print an error of click as click does, usage first, but with the message in lines of 80 columns."""
    shown = StringIO()
    error.show(shown)
    for line in without_secrets(shown.getvalue()).splitlines():
        (paragraph if line.startswith("Error: ") else notice)(line)


@contextmanager
def only_results_on_stdout() -> Iterator[None]:
    """Redirect what models and libraries print inside the block to stderr, and print warnings without their source."""
    with redirect_stdout(sys.stderr), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", EnsPluginWarning)
        yield


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Suppress what MLflow prints and what it and its database log inside the block, except errors."""
    before = logging.root.manager.disable
    # The levels of single loggers would not last: setting up a database configures them again.
    logging.disable(logging.WARNING)
    try:
        with no_progress_bars(), _no_prints(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(mlflow|alembic|sqlalchemy|pydantic)\b")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _no_prints() -> Iterator[None]:
    """Suppress what MLflow prints to stderr inside the block; it logs to the same stream, so errors get another one."""
    require_mlflow()
    from mlflow.utils import logging_utils

    errors = logging.StreamHandler()
    errors.setFormatter(logging.Formatter(logging_utils.LOGGING_LINE_FORMAT, logging_utils.LOGGING_DATETIME_FORMAT))
    errors.setLevel(logging.ERROR)
    logger = logging.getLogger("mlflow")
    logger.addHandler(errors)
    logging_utils.disable_logging()  # type: ignore[no-untyped-call]  # MLflow has no types here
    try:
        yield
    finally:
        logging_utils.enable_logging()  # type: ignore[no-untyped-call]  # MLflow has no types here
        logger.removeHandler(errors)


def write_text(path: Path, text: str) -> None:
    """Write a text to a file, completely or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes to a file, completely or not at all."""
    try:
        write_whole(path, content)
    except OSError as error:
        raise InputError(f"{str(path)!r} cannot be written: {error.strerror or error}. Choose another path.") from error


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
    line: str | None = None,
) -> None:  # fmt: skip
    paragraph(f"Warning: {message}")


def use_store(uri: str | None) -> str:
    """Set MLflow's tracking URI to `uri`, else keep a configured one, else use ``sqlite:///mlflow.db``."""
    require_mlflow()
    import mlflow

    if uri is not None:
        mlflow.set_tracking_uri(uri)
    elif not mlflow.is_tracking_uri_set() and not any(Path("mlruns").glob("*/meta.yaml")):  # type: ignore[no-untyped-call]
        # Early releases of MLflow 3 default to the file store, which later ones refuse.
        mlflow.set_tracking_uri(EMBEDDED_STORE)
    return str(mlflow.get_tracking_uri())


def browse_hint(uri: str, experiment_id: str) -> str:
    """Return the command and the address that open an experiment in the browser, without credentials."""
    uri = without_credentials(uri)
    page = f"#/experiments/{experiment_id}/runs"
    if uri.startswith(("http://", "https://")):
        return f"Open {uri.rstrip('/')}/{page}"
    if uri.startswith("databricks"):
        return f"Open experiment {experiment_id} in your Databricks workspace."
    # mlflow-skinny lacks Flask, on which the server runs.
    missing = "" if find_spec("flask") is not None else "First pip install 'ens-plugin[mlflow]', for MLflow's server\n"
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri]
    # list2cmdline uses double quotes, which cmd.exe and PowerShell understand.
    shown = subprocess.list2cmdline(command) if sys.platform == "win32" else shlex.join(command)
    return f"{missing}Run   {shown}\nOpen  http://127.0.0.1:5000/{page}"
