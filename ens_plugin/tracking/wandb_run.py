"""A run of Weights & Biases as a tracker."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ens_plugin.errors import InputError, TrackingError
from ens_plugin.tracking.connection import PROBE_TIMEOUT_S, without_credentials
from ens_plugin.tracking.trackers import OpenTracker, ReportParts, imported, library_errors, with_slash

ADVICE = "Log in with `wandb login`, check the connection, or set WANDB_MODE=offline and run `wandb sync` later."


def active_run() -> Any:
    """Return the run that ``wandb.init`` opened in this process; None where none is open. Imports nothing."""
    return getattr(sys.modules.get("wandb"), "run", None)


def prefixes_of(run: Any) -> Collection[str]:
    """Return the names in a run's configuration, where each of its reports has an entry by its prefix."""
    return set(run.config.keys())


@contextmanager
def opened(run: Any, parts: ReportParts) -> Iterator[OpenTracker]:
    """Yield `run`, else the active run, ready for a report; without either, a new run, which is finished afterwards."""
    wandb = imported("wandb", "wandb")
    with library_errors("Weights & Biases", ADVICE, wandb.errors.Error):
        given = active_run() if run is None else run
        if given is not None:
            yield _begun(given, parts, wandb)
            return
        _check_server(wandb)
        own = wandb.init()
        try:
            yield _begun(own, parts, wandb)
        except BaseException:
            own.finish(exit_code=1)
            raise
        own.finish()


def _check_server(wandb: Any) -> None:
    """Raise TrackingError if no server responds, within seconds; wandb itself would try for a minute and a half."""
    import requests

    settings = wandb.setup().settings
    if settings.mode != "online" or any(getattr(settings, name, None) for name in ("http_proxy", "https_proxy")):
        return
    try:
        requests.get(settings.base_url, timeout=PROBE_TIMEOUT_S)
    except requests.exceptions.SSLError:
        # The server is up; whether its certificate is accepted is for wandb's own settings.
        return
    except requests.exceptions.RequestException as error:
        raise TrackingError(
            f"The server of Weights & Biases at {without_credentials(str(settings.base_url))} cannot be reached "
            f"({type(error).__name__}). {ADVICE}"
        ) from error


def _begun(run: Any, parts: ReportParts, wandb: Any) -> OpenTracker:
    """Describe the axis of the curve and what the report is about; raise wandb's UsageError if the run is finished."""
    if parts.prefix in prefixes_of(run):
        raise InputError(
            f"The run {run.id} of Weights & Biases has {parts.prefix!r} in its configuration already, as after a "
            "report under this prefix, and two reports would be drawn as one curve. Pass another one, such as "
            f"prefix='{parts.prefix}_2'."
        )
    size = f"{parts.prefix}/size"
    run.define_metric(size, hidden=True, summary="none")
    for name in parts.curve:
        run.define_metric(name, step_metric=size)
    run.config.update({parts.prefix: dict(parts.facts)})
    return OpenTracker(WandbRun(run, parts.prefix, wandb), str(run.id))


class WandbRun:
    """A run of Weights & Biases that receives the parts of one report."""

    def __init__(self, run: Any, prefix: str, wandb: Any) -> None:
        self._run, self._prefix, self._wandb = run, prefix, wandb
        self._lines: Collection[str] = ()

    def log_figure(self, name: str, path: Path) -> None:
        """Log an image."""
        self._run.log({name: self._wandb.Image(str(path))})

    def log_file(self, name: str, path: Path) -> None:
        """Copy a file to the run's files; an HTML page is shown among the charts too."""
        copy = Path(self._run.dir) / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        # Saved from its own folder, wandb would keep a link to a file that is removed after this call.
        shutil.copyfile(path, copy)
        self._run.save(str(copy), base_path=self._run.dir, policy="now")
        if path.suffix == ".html":
            page = self._wandb.Html(path.read_text(encoding="utf-8"), inject=False)
            self._run.log({name.removesuffix(".html"): page})

    def log_curve(self, curve: Mapping[str, Mapping[int, float]]) -> None:
        """Log a row for each size."""
        self._lines = curve.keys()
        for size in sorted({size for values in curve.values() for size in values}):
            row = {name: values[size] for name, values in curve.items() if size in values}
            self._run.log({f"{self._prefix}/size": size, **row})

    def log_scalars(self, scalars: Mapping[str, float]) -> None:
        """Write the scalars to the run's summary, in place of the last values of the curve."""
        values = {with_slash(name, self._prefix): value for name, value in scalars.items()}
        self._run.summary.update(values)
        for name in set(self._lines) - set(values):
            # It would be the value at the largest size, under the name of that at the current one.
            del self._run.summary[name]
