"""Connection to an MLflow tracking store: a quick check, and its errors as TrackingError."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from ens_plugin.errors import EnsPluginError, TrackingError
from ens_plugin.tracking.store.waiting import patience

__all__ = ["EMBEDDED_STORE", "check_server", "tracking_errors", "without_credentials", "without_secrets"]

EMBEDDED_STORE = "sqlite:///mlflow.db"
RETRIES_VARIABLE = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
HIDDEN = "..."
QUERY = re.compile(r"[?#]")
URI_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>`]+")
PROBE_TIMEOUT_S = 10
PROBE_PATH = "/api/2.0/mlflow/experiments/search?max_results=1"


def check_server(uri: str) -> None:
    """Raise TrackingError unless an HTTP tracking server responds, before any real call.

    MLflow's client retries a failing request for about four minutes.  This check makes at most
    three attempts within seconds.  It is skipped for stores that are not HTTP servers, and where
    the user has set ``MLFLOW_HTTP_REQUEST_MAX_RETRIES``.

    Parameters
    ----------
    uri : str
        Tracking URI, as ``mlflow.get_tracking_uri()`` returns it.

    Raises
    ------
    TrackingError
        If there is no response from `uri`, or a server error (status 500 and above).

    Examples
    --------
    >>> check_server("sqlite:///mlflow.db")
    """
    if not uri.startswith(("http://", "https://")) or RETRIES_VARIABLE in os.environ:
        return
    status = _probe(uri)
    if status >= 500:
        raise TrackingError(
            f"The MLflow tracking server at {without_credentials(uri)} is running but fails with status {status}. "
            f"Read its log, or use another store: {_other_store()}."
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
            with patience():
                return session.get(uri.rstrip("/") + PROBE_PATH, timeout=PROBE_TIMEOUT_S).status_code
        except requests.exceptions.SSLError:
            # The server is up; whether its certificate is accepted is for MLflow's own TLS settings.
            return 200
        except requests.exceptions.RequestException as error:
            raise TrackingError(_unreachable(uri, error)) from error


@contextmanager
def tracking_errors(uri: str) -> Iterator[None]:
    """Raise TrackingError in place of the errors of MLflow and of its connection inside the block.

    Parameters
    ----------
    uri : str
        Tracking URI, for the message.

    Raises
    ------
    TrackingError
        Instead of ``MlflowException``, ``requests`` errors and operating system errors.

    Examples
    --------
    >>> with tracking_errors("http://127.0.0.1:5000"):  # doctest: +ELLIPSIS
    ...     raise ConnectionResetError("connection reset")
    Traceback (most recent call last):
        ...
    ens_plugin.errors.TrackingError: ...
    """
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
            f"The MLflow tracking store {without_credentials(uri)} refused the call: {_first_line(error, uri)}. "
            f"{_advice(error, uri)}"
        ) from error


def without_credentials(uri: str) -> str:
    """Return a URI without user, password and query, for logs and messages.

    A password may hold any character, so whatever is before the last ``@`` is left out; where that may be part of a
    query, nothing but the scheme is shown.

    Examples
    --------
    >>> without_credentials("https://me:p@ss/word@mlflow.example:5000/team?token=abc")
    'https://mlflow.example:5000/team'
    >>> without_credentials("sqlite:///mlflow.db"), without_credentials("models:/churn@champion")
    ('sqlite:///mlflow.db', 'models:/churn@champion')
    """
    scheme, found, rest = uri.partition("://")
    if not found:
        return uri
    hidden = f"{scheme}://{HIDDEN}"
    before, at, address = rest.rpartition("@")
    if at and QUERY.search(before) is not None:
        return hidden
    try:
        parts = urlsplit(f"{scheme}://{address}")
    except ValueError:  # brackets that enclose no address
        return hidden
    return f"{scheme}://{parts.netloc}{parts.path}"


def without_secrets(message: str, *uris: str) -> str:
    """Return a message without the credentials of `uris` and of every URI in it.

    Examples
    --------
    >>> without_secrets("request to http://me:secret@127.0.0.1/api?token=abc failed")
    'request to http://127.0.0.1/api failed'
    """
    for uri in uris:
        shown = without_credentials(uri)
        if shown != uri:
            message = message.replace(uri, shown)
    return URI_IN_TEXT.sub(lambda found: without_credentials(found[0]), message)


def _unreachable(uri: str, error: Exception) -> str:
    return (
        f"The MLflow tracking server at {without_credentials(uri)} cannot be reached ({_first_line(error, uri)}). "
        f"Start it (`mlflow server`), correct MLFLOW_TRACKING_URI, or use another store: {_other_store()}."
    )


def _advice(error: Exception, uri: str) -> str:
    if getattr(error, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":
        is_default = uri == EMBEDDED_STORE and "MLFLOW_TRACKING_URI" not in os.environ
        which = " (MLFLOW_TRACKING_URI is not set, so this is the file mlflow.db in the present folder)"
        return (
            "Check the name, version or run id, and that the tracking URI is the one it was logged to"
            f"{which if is_default else ''}."
        )
    return f"Check the run, the experiment and your permissions there, or use another store: {_other_store()}."


def _other_store() -> str:
    return f"`mlflow.set_tracking_uri({EMBEDDED_STORE!r})`, or on the command line `--tracking-uri {EMBEDDED_STORE}`"


def _first_line(error: Exception, uri: str) -> str:
    line = without_secrets((str(error).strip() or type(error).__name__).splitlines()[0].rstrip("."), uri)
    return line if len(line) <= 300 else line[:297] + "..."
