"""The parts of a report in the form in which trackers receive them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ens_plugin.tracking.trackers.protocol import Tracker

__all__ = ["ReportParts", "log_parts", "with_slash"]

FIGURE = ".png"


class ReportParts(NamedTuple):
    """The parts of a report, complete before the first call to a tracker.

    Attributes
    ----------
    prefix : str
        Start of all names.
    scalars : mapping of str to float
        ``<prefix>.<name>``.
    curve : mapping of str to mapping of int to float
        Value by size, for each of the lines ``<prefix>/<name>``.
    directory : Path or None
        Folder of the rendered figures and files; None where none are logged.
    facts : mapping of str to str or int
        What the report is about: the model, the data, the metric.
    summary : str
        Markdown.
    """

    prefix: str
    scalars: Mapping[str, float]
    curve: Mapping[str, Mapping[int, float]]
    directory: Path | None
    facts: Mapping[str, str | int]
    summary: str

    @property
    def key(self) -> str:
        """The name of the curve without prefix: ``"error"``, or that of a scorer."""
        return next(iter(self.curve), f"{self.prefix}/error").removeprefix(f"{self.prefix}/")


def log_parts(tracker: Tracker, parts: ReportParts) -> None:
    """Log the figures, files, curve and scalars of a report, in this order.

    Parameters
    ----------
    tracker : Tracker
    parts : ReportParts
    """
    for path in sorted(parts.directory.iterdir()) if parts.directory is not None else ():
        if path.suffix == FIGURE:
            tracker.log_figure(f"{parts.prefix}/{path.stem}", path)
    for path in sorted(parts.directory.iterdir()) if parts.directory is not None else ():
        if path.suffix != FIGURE:
            tracker.log_file(f"{parts.prefix}/{path.name}", path)
    tracker.log_curve(parts.curve)
    tracker.log_scalars(parts.scalars)


def with_slash(name: str, prefix: str) -> str:
    """Return the name of a scalar with a slash in place of the dot after its prefix.

    Examples
    --------
    >>> with_slash("forest.a.error", "forest.a")
    'forest.a/error'
    """
    return f"{prefix}/{name.removeprefix(f'{prefix}.')}"
