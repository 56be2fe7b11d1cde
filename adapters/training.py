"""What a library's training functions are, and what reaches a model through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["FitSite", "TrainingData", "fit_methods", "method_arguments"]


@dataclass(frozen=True, eq=False)
class TrainingData:
    """What a model was trained on, as it was passed to the training function.

    A library whose adapter takes other rows than its training function derives from this class.

    Attributes
    ----------
    X : array-like, DataFrame, sparse matrix or None
        None where the library has freed the rows.
    y : array-like or None
    sample_weight : array-like or None
    """

    X: Any
    y: Any
    sample_weight: Any = None

    def rows_for(self, model: Any) -> Any:
        """Return the rows in the form that the adapter of the trained `model` takes; X itself by default."""
        return self.X

    def table(self) -> Any:
        """Return the rows as a table of values, of which a digest is made; X itself by default."""
        return self.X


Reader = Callable[[Mapping[str, Any]], TrainingData]


def method_arguments(arguments: Mapping[str, Any]) -> TrainingData:
    """Return the training data among the arguments of an estimator's ``fit``.

    Parameters
    ----------
    arguments : mapping
        The arguments of the call by name.

    Examples
    --------
    >>> method_arguments({"self": None, "X": [[1.0]], "y": [2.0]}).y
    [2.0]
    """
    return TrainingData(arguments.get("X"), arguments.get("y"), arguments.get("sample_weight"))


class FitSite(NamedTuple):
    """An attribute that holds a function which trains models.

    Attributes
    ----------
    owner : class or module
        Of a class, the function is a method that trains its first argument; of a module, it returns the model.
    name : str
    read : callable
        Returns the training data among the arguments of a call, which it takes by name.
    """

    owner: Any
    name: str
    read: Reader


def fit_methods(*classes: type, read: Reader = method_arguments) -> list[FitSite]:
    """Return the ``fit`` methods of some classes, where they are defined.

    Parents are included, because MLflow patches classes that only inherit ``fit``.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> [site.owner.__name__ for site in fit_methods(RandomForestClassifier)]
    ['BaseForest']
    """
    owners = dict.fromkeys(owner for cls in classes for owner in cls.__mro__ if "fit" in vars(owner))
    return [FitSite(owner, "fit", read) for owner in owners]
