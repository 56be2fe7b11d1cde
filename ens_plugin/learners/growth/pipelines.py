"""Separation of a pipeline's steps, so that the last one can be trained repeatedly on the same transformed rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.pipeline import Pipeline

from ens_plugin.adapters.sklearn.estimator_checks import refusals
from ens_plugin.core.validation import with_article
from ens_plugin.errors import UnsupportedModelError

__all__ = ["Steps", "split_pipeline"]


@dataclass
class Steps:
    """Preprocessing steps before an ensemble, in no pipeline, in one, or in several nested ones.

    Attributes
    ----------
    pipelines : list of Pipeline
        Unfitted pipelines, the outermost first; each one's last step is the next pipeline or the ensemble.
    """

    pipelines: list[Pipeline]

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Fit the steps, and return the transformed rows that the ensemble is trained on."""
        for pipeline in self.pipelines:
            earlier = pipeline[:-1]
            if earlier.steps:
                with refusals():
                    X = earlier.fit_transform(X, y)
                # A pipeline with a memory fits copies of its steps.
                pipeline.steps[:-1] = earlier.steps
        return X

    def around(self, ensemble: Any) -> Any:
        """Return the fitted pipeline that ends in the ensemble; the ensemble itself where there was no pipeline."""
        for pipeline in reversed(self.pipelines):
            pipeline.steps[-1] = (pipeline.steps[-1][0], ensemble)
            ensemble = pipeline
        return ensemble


def split_pipeline(estimator: Any) -> tuple[Any, Steps]:
    """Return the unfitted ensemble at the end of a pipeline, and the steps before it, neither of them copied.

    Raises
    ------
    UnsupportedModelError
        If a step before the last has no ``transform`` (a resampler, for example).

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> forest, steps = split_pipeline(make_pipeline(StandardScaler(), RandomForestRegressor()))
    >>> forest, len(steps.pipelines)
    (RandomForestRegressor(), 1)
    """
    pipelines = []
    while isinstance(estimator, Pipeline):
        _check_steps(estimator)
        pipelines.append(estimator)
        estimator = estimator.steps[-1][1]
    return estimator, Steps(pipelines)


def _check_steps(pipeline: Pipeline) -> None:
    for name, step in pipeline.steps[:-1]:
        if step is not None and step != "passthrough" and not hasattr(step, "transform"):
            raise UnsupportedModelError(
                f"Step {name!r} of the pipeline, {with_article(type(step).__name__)}, has no transform: the ensemble "
                "would not be trained on the rows of X, one for one. Apply this step first, and grow the steps after "
                "it."
            )
