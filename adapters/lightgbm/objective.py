"""The objective of a LightGBM forest, and the predictions that it gives from mean raw scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

__all__ = ["Objective", "read_objective"]

FloatArray = NDArray[np.float64]

_VALUES = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")
_LABELS = ("binary", "multiclass", "multiclassova")


@dataclass(frozen=True)
class Objective:
    """Objective that a LightGBM model was trained for, read from its text.

    Attributes
    ----------
    name : str
        LightGBM's own name, ``"custom"`` where the text has none.
    n_labels : int
        Number of labels; 0 unless the task is classification.
    sigmoid : float
        Factor of the raw score inside the logistic function.
    square_root : bool
        Whether square roots of the target were fitted (``reg_sqrt``).
    """

    name: str
    n_labels: int
    sigmoid: float
    square_root: bool

    @property
    def averages_values(self) -> bool:
        """Return whether a prediction is the mean of the members' values, without a link."""
        return self.name in _VALUES and not self.square_root

    @property
    def is_covered(self) -> bool:
        """Return whether an error curve can be estimated: for mean values, or labels chosen by mean scores."""
        return self.averages_values or self.n_labels > 0

    def inverse_link(self, mean_score: FloatArray) -> FloatArray:
        """Return the predictions for mean raw scores of shape (n_rows, n_labels), or for mean values."""
        if self.name == "binary":
            positive = expit(self.sigmoid * (mean_score[:, 1] - mean_score[:, 0]))
            return np.stack([1.0 - positive, positive], axis=1)
        if self.name == "multiclass":
            return np.asarray(softmax(mean_score, axis=1))
        if self.name == "multiclassova":
            return np.asarray(expit(self.sigmoid * mean_score))
        return mean_score


def read_objective(line: str | None) -> Objective:
    """Return the objective that a line of a model's text states.

    Examples
    --------
    >>> objective = read_objective("multiclassova num_class:3 sigmoid:1")
    >>> objective.name, objective.n_labels
    ('multiclassova', 3)
    """
    name, *options = (line or "custom").split()
    values = dict(option.split(":", 1) for option in options if ":" in option)
    n_labels = 0
    if name in _LABELS:
        n_labels = int(values.get("num_class", "2"))
    return Objective(name, n_labels, float(values.get("sigmoid", "1")), "sqrt" in options)
