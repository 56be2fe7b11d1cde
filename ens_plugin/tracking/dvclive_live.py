"""A Live of DVCLive as a tracker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ens_plugin.tracking.trackers import OpenTracker, ReportParts, imported, library_errors, with_slash

ADVICE = "Check that its directory can be written, or pass a Live of another directory."


def directory_of(prefix: str) -> str:
    """Return the directory of a report for which no Live was given; a Live empties the directory it is made for."""
    return f"dvclive-{prefix}"


@contextmanager
def opened(live: Any, parts: ReportParts) -> Iterator[OpenTracker]:
    """Yield `live`, ready for a report; for None, a new Live, which is ended afterwards."""
    library, failures = imported("dvclive", "dvclive"), imported("dvclive.error", "dvclive")
    dvc = imported("dvc.exceptions", "dvclive")
    with library_errors("DVCLive", ADVICE, failures.DvcLiveError, dvc.DvcException):
        if live is not None:
            yield _begun(live, parts)
            # Without a further step, which is the owner's to take.
            live.sync()
            return
        own = library.Live(directory_of(parts.prefix))
        try:
            yield _begun(own, parts)
        finally:
            own.end()


def _begun(live: Any, parts: ReportParts) -> OpenTracker:
    live.log_params({parts.prefix: dict(parts.facts)})
    return OpenTracker(DvcLive(live, parts), str(live.dir))


class DvcLive:
    """A Live of DVCLive that receives the parts of one report."""

    def __init__(self, live: Any, parts: ReportParts) -> None:
        self._live, self._parts = live, parts

    def log_figure(self, name: str, path: Path) -> None:
        """Log an image."""
        self._live.log_image(f"{name}{path.suffix}", path)

    def log_file(self, name: str, path: Path) -> None:
        """Copy a file into the directory of the Live, which is part of its experiment."""
        copy = Path(self._live.dir) / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)

    def log_curve(self, curve: Mapping[str, Mapping[int, float]]) -> None:
        """Log a plot with the size on its axis; the step of the Live is left to its owner."""
        lines = {name.removeprefix(f"{self._parts.prefix}/"): values for name, values in curve.items()}
        sizes = sorted({size for values in lines.values() for size in values})
        self._live.log_plot(
            f"{self._parts.prefix}/{self._parts.key}",
            [{"size": size, **{name: lines[name].get(size) for name in lines}} for size in sizes],
            x="size",
            y=list(lines),
            template="linear",
            title=f"{self._parts.facts['model']}: {self._parts.facts['metric']} by ensemble size",
            x_label="Ensemble size (members)",
            y_label=str(self._parts.facts["metric"]),
        )

    def log_scalars(self, scalars: Mapping[str, float]) -> None:
        """Write the scalars to the metrics, without a history by step."""
        for name, value in scalars.items():
            self._live.log_metric(with_slash(name, self._parts.prefix), value, plot=False)
