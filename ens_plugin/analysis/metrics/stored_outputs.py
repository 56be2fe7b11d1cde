"""Estimators whose input is their output, by which scikit-learn's scorers score mean outputs of an ensemble."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ens_plugin.errors import InputError

__all__ = ["LabelOutputs", "ProbabilityOutputs", "ScoreOutputs", "ValueOutputs"]


class ValueOutputs(RegressorMixin, BaseEstimator):
    """Regressor that predicts the values it gets."""

    def fit(self, X: Any, y: Any = None) -> ValueOutputs:
        """Return the estimator as it is."""
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return X, shape (n_rows,)."""
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True


class LabelOutputs(ClassifierMixin, BaseEstimator):
    """Classifier that gets mean outputs of shape (n_rows, n_labels), and predicts the label with the largest.

    Parameters
    ----------
    classes : ndarray, shape (n_labels,)
    """

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    @property
    def classes_(self) -> Any:
        """Return the labels in the order of the columns."""
        return self.classes

    def fit(self, X: Any, y: Any = None) -> LabelOutputs:
        """Return the estimator as it is."""
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the label of the largest output of each row, the first one of equal ones."""
        return np.asarray(self.classes[np.argmax(X, axis=1)])

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Raise InputError: the outputs are shares of votes."""
        raise InputError(
            "the metric needs probabilities, and the members of this ensemble predict labels only, whose shares are no "
            "probabilities. Use a metric of labels, 'balanced_accuracy' or 'matthews_corrcoef' for example, or members "
            "with probabilities. To score the shares of votes on purpose, pass a function (y, mean_output) -> float."
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True


class ProbabilityOutputs(LabelOutputs):
    """Classifier whose rows are mean probabilities, which it predicts as they are, for scorers."""

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return X, shape (n_rows, n_labels)."""
        return X


class ScoreOutputs(LabelOutputs):
    """Classifier that gets mean raw scores, which no inverse link turns into probabilities."""

    def decision_function(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the scores; of two labels, by how much the second's is larger, shape (n_rows,)."""
        return np.asarray(X[:, 1] - X[:, 0]) if X.shape[1] == 2 else X

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Raise InputError: the outputs are scores."""
        raise InputError(
            "the metric needs probabilities, and this ensemble averages raw scores, which are none. Use a metric of "
            "rankings or labels, such as 'roc_auc' or 'balanced_accuracy'."
        )
