"""A run of MLflow as a tracker, and the description of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ens_plugin.tracking.logging.curve_points import SCALAR_STEP

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["DESCRIPTION_LIMIT", "MlflowRun", "merge_description"]

DESCRIPTION_TAG = "mlflow.note.content"
BLOCK_LIMIT = 4000
DESCRIPTION_LIMIT = 8000  # of MLflow's tag values: longer ones are cut, end marker included
ANY_BLOCK = re.compile(r"<!-- ens_plugin:(?P<prefix>\S+) begin -->.*?<!-- ens_plugin:(?P=prefix) end -->", re.DOTALL)


class MlflowRun:
    """A run of MLflow that receives the parts of one report; it may have ended.

    Parameters
    ----------
    client : MlflowClient
    run : Run
    folder : str
        Directory of the figures and files inside the run's artifacts.
    timestamp : int
        Time of all points, in ms since 1970.
    model_id : str or None
        LoggedModel that the scalars are linked to.
    """

    def __init__(self, client: MlflowClient, run: Run, folder: str, timestamp: int, model_id: str | None) -> None:
        self._client, self._run, self._folder = client, run, folder
        self._timestamp, self._model_id = timestamp, model_id
        self._directory: Path | None = None

    def log_figure(self, name: str, path: Path) -> None:
        """Record the folder of a figure; :meth:`log_curve` sends all its files."""
        self._directory = path.parent

    def log_file(self, name: str, path: Path) -> None:
        """Record the folder of a file; :meth:`log_curve` sends all its files."""
        self._directory = path.parent

    def log_curve(self, curve: Mapping[str, Mapping[int, float]]) -> None:
        """Log the figures and files in one call, as some stores send them in parallel; then the values by step."""
        run_id = self._run.info.run_id
        if self._directory is not None:
            self._client.log_artifacts(run_id, str(self._directory), self._folder)
        self._log_metrics(self._not_yet_logged(curve), None)

    def log_scalars(self, scalars: Mapping[str, float]) -> None:
        """Log the scalars at a step that MLflow does not copy to other models, linked to their own."""
        points = {name: {SCALAR_STEP: value} for name, value in scalars.items()}
        # A scalar is linked to a model only by logging it, again if need be.
        self._log_metrics(points if self._model_id else self._not_yet_logged(points), self._model_id)

    def describe(self, summary: str, prefix: str) -> None:
        """Write a summary into the run's description, as far as no person has written one."""
        current = self._run.data.tags.get(DESCRIPTION_TAG, "")
        merged = merge_description(current, summary, prefix)
        if merged != current:
            self._client.set_tag(self._run.info.run_id, DESCRIPTION_TAG, merged)

    def _not_yet_logged(self, points: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
        """Return points that the run lacks: older database stores refuse a point twice, the file store doubles it."""
        known = {
            (key, metric.step)
            for key in set(points) & set(self._run.data.metrics)
            for metric in self._client.get_metric_history(self._run.info.run_id, key)
            if metric.timestamp == self._timestamp
        }
        return {
            key: {step: value for step, value in values.items() if (key, step) not in known}
            for key, values in points.items()
        }

    def _log_metrics(self, points: Mapping[str, Mapping[int, float]], model_id: str | None) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(key, value, self._timestamp, step, model_id=model_id)
            for key, values in points.items()
            for step, value in values.items()
        ]
        self._client.log_batch(self._run.info.run_id, metrics=metrics)


def merge_description(current: str, summary: str, prefix: str) -> str:
    """Return a run's description with `summary` added; text that a person wrote stays unchanged.

    Parameters
    ----------
    current : str
        The present description; may be empty.
    summary : str
        Markdown; cut at 4000 characters.
    prefix : str
        The report's prefix; each prefix owns one block.

    Returns
    -------
    str
        `current` with this prefix's block replaced, or added if `current` consists of such blocks only;
        otherwise `current` itself.

    Examples
    --------
    >>> print(merge_description("", "12 members", "ens"))
    <!-- ens_plugin:ens begin -->
    12 members
    <!-- ens_plugin:ens end -->
    >>> merge_description("My own note", "12 members", "ens")
    'My own note'
    """
    block = _block(summary, prefix)
    own = next((found for found in ANY_BLOCK.finditer(current) if found["prefix"] == prefix), None)
    if own is not None:
        merged = current[: own.start()] + block + current[own.end() :]
    elif not ANY_BLOCK.sub("", current).strip():
        merged = f"{current.rstrip()}\n\n{block}".lstrip()
    else:
        return current
    return merged if len(merged) <= DESCRIPTION_LIMIT else current


def _block(summary: str, prefix: str) -> str:
    # A marker inside the summary would end the block early when it is next replaced.
    text = summary.replace("<!--", "<! --").strip()
    if len(text) > BLOCK_LIMIT:
        text = text[: BLOCK_LIMIT - 4] + " ..."
    return f"<!-- ens_plugin:{prefix} begin -->\n{text}\n<!-- ens_plugin:{prefix} end -->"
