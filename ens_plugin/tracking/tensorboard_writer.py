"""A writer of TensorBoard as a tracker: tensorboardX's, or PyTorch's."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ens_plugin.errors import EnsPluginWarning, InputError, warn_user
from ens_plugin.tracking.trackers import OpenTracker, ReportParts, imported, library_errors, used_prefixes, with_slash

ADVICE = "Check that the log directory can be written, or pass a SummaryWriter of another directory."


@contextmanager
def opened(writer: Any, parts: ReportParts) -> Iterator[OpenTracker]:
    """Yield `writer`, ready for a report; for None, a new writer in ``runs/``, which is closed afterwards."""
    with library_errors("TensorBoard", ADVICE):
        if writer is not None:
            yield _begun(writer, parts)
            writer.flush()
            return
        # Two directories of the same second would otherwise be one.
        model = re.sub(r"[^\w.-]", "_", str(parts.facts["model"]))
        own = _writer_class()(comment=f"_{model}-{secrets.token_hex(3)}")
        try:
            if len(parts.curve) == 3:
                # Only here: a writer has one layout, and that of a given writer is its owner's.
                own.add_custom_scalars({parts.prefix: {parts.key: ["Margin", list(parts.curve)]}})
            yield _begun(own, parts)
        finally:
            own.close()


def _writer_class() -> Any:
    library = "torch.utils.tensorboard" if find_spec("tensorboardX") is None else "tensorboardX"
    return imported(library, "tensorboard").SummaryWriter


def _begun(writer: Any, parts: ReportParts) -> OpenTracker:
    used = used_prefixes(writer)
    if parts.prefix in used:
        raise InputError(
            f"This writer of TensorBoard has a report under prefix={parts.prefix!r} already, and values of both would "
            f"be drawn as one curve. Pass another one, such as prefix='{parts.prefix}_2', or a writer of another "
            "directory."
        )
    used.add(parts.prefix)
    writer.add_text(f"{parts.prefix}/summary", parts.summary, 0)
    folder = str(getattr(writer, "logdir", None) or writer.get_logdir())
    return OpenTracker(TensorboardWriter(writer, parts.prefix, folder), folder)


class TensorboardWriter:
    """A writer of TensorBoard that receives the parts of one report."""

    def __init__(self, writer: Any, prefix: str, folder: str) -> None:
        self._writer, self._prefix, self._folder = writer, prefix, folder

    def log_figure(self, name: str, path: Path) -> None:
        """Log an image."""
        from PIL import Image

        with Image.open(path) as image:
            self._writer.add_image(name, np.asarray(image.convert("RGB")), 0, dataformats="HWC")

    def log_file(self, name: str, path: Path) -> None:
        """Copy a file into the directory of the event files; issue a warning where that is no local directory."""
        if "://" in self._folder:
            warn_user(
                f"{name} is not copied to TensorBoard's log directory, because that is no local folder. Write it with "
                "report.to_html(path) or report.to_json().",
                EnsPluginWarning,
            )
            return
        copy = Path(self._folder) / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)

    def log_curve(self, curve: Mapping[str, Mapping[int, float]]) -> None:
        """Log the values at each size, which is their step."""
        for name, values in curve.items():
            for size, value in values.items():
                self._writer.add_scalar(name, value, size)

    def log_scalars(self, scalars: Mapping[str, float]) -> None:
        """Log the scalars at step 0, in a section of their own."""
        for name, value in scalars.items():
            section = f"{self._prefix}.scalars"
            self._writer.add_scalar(with_slash(name, self._prefix).replace(self._prefix, section, 1), value, 0)
