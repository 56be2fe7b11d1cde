"""Calls of MLflow: errors, its own messages, events and state."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ens_plugin.errors import EnsPluginError, TrackingError
from ens_plugin.report.text import printable

EMBEDDED_STORE = "sqlite:///mlflow.db"
OTHER_STORE = (
    f"use another store: `mlflow.set_tracking_uri({EMBEDDED_STORE!r})`, or on the command line "
    f"`--tracking-uri {EMBEDDED_STORE}`"
)
HIDDEN = "..."
URI_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>`]+")
PROBE_TIMEOUT_S = 10
PROGRESS_VARIABLE = "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"
QUIET = {PROGRESS_VARIABLE: "false", "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true"}
# The functions whose events MLflow's autologging logs.
FITS = ("fit", "fit_transform", "fit_predict", "train")

# All threads share the environment.  The last of their blocks removes what the first has set: removed earlier, a
# variable would be missing in the others, and a request of theirs that reads the environment would fail.
_LOCK = Lock()
_blocks: Counter[str] = Counter()


def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    found = find_spec(package)
    # A folder of that name in the working directory, as wandb makes one, is found as a package without a file.
    return found is not None and found.origin is not None


def require_mlflow() -> None:
    """Raise TrackingError unless MLflow is installed."""
    if not is_installed("mlflow"):
        raise TrackingError(
            "MLflow is not installed. Install it with: pip install 'ens-plugin[mlflow]', or without its server and "
            "pages: pip install 'ens-plugin[mlflow-skinny]'."
        )


def check_server(uri: str) -> None:
    """Raise TrackingError unless an HTTP tracking server responds, before any real call."""
    if not uri.startswith(("http://", "https://")) or "MLFLOW_HTTP_REQUEST_MAX_RETRIES" in os.environ:
        return
    status = _probe(uri)
    if status >= 500:
        raise TrackingError(
            f"The MLflow tracking server at {without_credentials(uri)} is running but fails with status {status}. "
            f"Read its log, or {OTHER_STORE}."
        )


def _probe(uri: str) -> int:
    """Return the HTTP status of one small request; with 401 and 403 the server is up, so it needs no credentials."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    retries = Retry(
        total=2, backoff_factor=0.5, status_forcelist=(500, 502, 503, 504), raise_on_status=False,
        respect_retry_after_header=False,
    )  # fmt: skip
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=retries))
        session.mount("https://", HTTPAdapter(max_retries=retries))
        try:
            small = "/api/2.0/mlflow/experiments/search?max_results=1"
            return session.get(uri.rstrip("/") + small, timeout=PROBE_TIMEOUT_S).status_code
        except requests.exceptions.SSLError:
            # The server is up; whether its certificate is accepted is for MLflow's own TLS settings.
            return 200
        except requests.exceptions.RequestException as error:
            raise TrackingError(_unreachable(uri, error)) from error


@contextmanager
def tracking_errors(uri: str) -> Iterator[None]:
    """Raise TrackingError in place of the errors of MLflow and of its connection inside the block."""
    import requests
    from mlflow.exceptions import MlflowException

    try:
        yield
    except EnsPluginError:
        raise
    except requests.exceptions.RequestException as error:
        raise TrackingError(_unreachable(uri, error)) from error
    except (MlflowException, OSError) as error:
        raise TrackingError(
            f"The MLflow tracking store {without_credentials(uri)} refused the call: {first_line(error, uri)}. "
            f"{_advice(error, uri)}"
        ) from error


def without_credentials(uri: str) -> str:
    """Return a URI without user, password and query, for logs and messages."""
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    hidden = f"{scheme}://{HIDDEN}"
    before, at, address = rest.rpartition("@")
    if at and re.search(r"[?#]", before):
        return hidden
    try:
        parts = urlsplit(f"{scheme}://{address}")
    except ValueError:  # brackets that enclose no address
        return hidden
    return f"{scheme}://{parts.netloc}{parts.path}"


def without_secrets(message: str, *uris: str) -> str:
    """Return a message without the credentials of `uris` and of every URI in it."""
    for uri in uris:
        shown = without_credentials(uri)
        if shown != uri:
            message = message.replace(uri, shown)
    return URI_IN_TEXT.sub(lambda found: without_credentials(found[0]), message)


def _unreachable(uri: str, error: Exception) -> str:
    return (
        f"The MLflow tracking server at {without_credentials(uri)} cannot be reached ({first_line(error, uri)}). "
        f"Start it (`mlflow server`), correct MLFLOW_TRACKING_URI, or {OTHER_STORE}."
    )


def _advice(error: Exception, uri: str) -> str:
    if getattr(error, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":
        is_default = uri == EMBEDDED_STORE and "MLFLOW_TRACKING_URI" not in os.environ
        which = " (MLFLOW_TRACKING_URI is not set, so this is the file mlflow.db in the present folder)"
        return (
            "Check the name, version or run id, and that the tracking URI is the one it was logged to"
            f"{which if is_default else ''}."
        )
    return f"Check the run, the experiment and your permissions there, or {OTHER_STORE}."


def first_line(error: Exception, *uris: str) -> str:
    """Return the first line of an error's message, or its type, without the full stop and without credentials."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    return printable(without_secrets(line, *uris), 300)


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep MLflow from printing progress bars, and addresses of runs with credentials, inside the block."""
    with _LOCK:
        ours = [name for name in QUIET if _blocks[name] or name not in os.environ]
        for name in ours:
            os.environ.setdefault(name, QUIET[name])
        _blocks.update(ours)
    try:
        yield
    finally:
        with _LOCK:
            _blocks.subtract(ours)
            for name in ours:
                if not _blocks[name]:
                    os.environ.pop(name, None)


class FitEvents:
    """Event logger that calls functions before and after each fit that MLflow's autologging handles."""

    def __init__(self, before: Callable[[], None], after: Callable[[], None], failed: Callable[[], None]) -> None:
        from mlflow.utils.autologging_utils.events import AutologgingEventLogger

        slot: Any = AutologgingEventLogger  # MLflow has no types here
        self._slot = slot
        self._work = {
            "log_patch_function_start": before,  # when MLflow has neither a run nor a model for the fit yet
            "log_patch_function_success": after,  # when MLflow has logged the fit
            "log_patch_function_error": after,  # when MLflow failed to log a fit that succeeded
            "log_original_function_error": failed,  # when the fit itself raised
        }
        self._chained = self._slot.get_logger()
        # MLflow makes a new default logger at each request; only one that was set stays the same.
        self._had_default = self._chained is not self._slot.get_logger()
        self._slot.set_logger(self)

    def is_current(self) -> bool:
        """Return whether MLflow still uses this event logger; another one may have been set since."""
        return self._slot.get_logger() is self

    def stop(self) -> None:
        """Restore the previous logger, unless another one has been set since."""
        if self.is_current():
            self._slot.set_logger(None if self._had_default else self._chained)

    def __getattr__(self, name: str) -> Any:
        log, work = getattr(self._chained, name), self._work.get(name)
        if work is None:
            return log

        def log_and_work(session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
            try:
                log(session, patch_obj, function_name, *call)
            finally:
                if function_name in FITS:
                    work()

        return log_and_work


class MlflowState(NamedTuple):
    """The MLflow run that is open in a thread, and the run that was closed last in it."""

    active_run: str | None
    is_users: bool
    last_run: str | None


def state_of_thread() -> MlflowState:
    """Return the open run of the calling thread, and its last run."""
    import mlflow
    from mlflow.tracking import fluent
    from mlflow.utils.mlflow_tags import MLFLOW_AUTOLOGGING

    run = mlflow.active_run()
    # The public last_active_run() sends a request to the server.
    last = getattr(fluent, "_last_active_run_id", None)
    return MlflowState(
        active_run=None if run is None else str(run.info.run_id),
        is_users=run is not None and MLFLOW_AUTOLOGGING not in run.data.tags,
        last_run=None if last is None else last.get(),
    )


def autologging_is_suspended() -> bool:
    """Return whether MLflow's ``disable_autologging()`` is in force, as around its cross-validation."""
    from mlflow.utils import autologging_utils

    return bool(getattr(autologging_utils, "_AUTOLOGGING_GLOBALLY_DISABLED", False))
