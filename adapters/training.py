"""Training of ensembles: the arguments of training functions, and training until no larger size is requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ens_plugin.adapters.shared.foreign_calls import refusals
from ens_plugin.errors import InputError

__all__ = [
    "LARGEST_SEED",
    "FitSite",
    "NextSize",
    "Reader",
    "TrainedModel",
    "Trainer",
    "TrainingData",
    "TrainingRows",
    "fit_methods",
    "fix_seed",
    "method_arguments",
    "retrain",
    "retrain_members",
]

LARGEST_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Training rows, target and weights of a model, as they were passed to the training function.

    A library whose adapter takes the rows in another form derives a class from this one.

    Attributes
    ----------
    X : array-like, DataFrame, sparse matrix or None
        None where the library has freed the rows.
    y : array-like or None
    sample_weight : array-like or None

    Examples
    --------
    >>> from ens_plugin.adapters import TrainingData
    >>> TrainingData([[1.0], [2.0]], [0.5, 0.7]).rows_for(model=None)
    [[1.0], [2.0]]
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
    >>> from ens_plugin.adapters import method_arguments
    >>> method_arguments({"self": None, "X": [[1.0]], "y": [2.0]}).y
    [2.0]
    """
    return TrainingData(arguments.get("X"), arguments.get("y"), arguments.get("sample_weight"))


class FitSite(NamedTuple):
    """An attribute of a class or module that holds a function which trains models.

    Attributes
    ----------
    owner : class or module
        The function of a class is a method that trains its first argument; that of a module returns the model.
    name : str
    read : callable
        Takes the arguments of a call by name, and returns the training data among them.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from ens_plugin.adapters import FitSite, method_arguments
    >>> FitSite(LinearRegression, "fit", method_arguments).name
    'fit'
    """

    owner: Any
    name: str
    read: Reader


def fit_methods(*classes: type, read: Reader = method_arguments) -> list[FitSite]:
    """Return the ``fit`` methods of some classes, each as an attribute of the class that defines it.

    Parents are included, because MLflow patches classes that only inherit ``fit``.

    Raises
    ------
    InputError
        If a class has no method ``fit``.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.adapters import fit_methods
    >>> [site.owner.__name__ for site in fit_methods(RandomForestClassifier)]
    ['BaseForest']
    """
    for cls in classes:
        if not hasattr(cls, "fit"):
            raise InputError(
                f"{cls.__name__} has no method fit. Return a FitSite of the method that trains it, as "
                f"FitSite({cls.__name__}, 'train', read), where read returns the TrainingData among its arguments."
            )
    owners = dict.fromkeys(owner for cls in classes for owner in cls.__mro__ if "fit" in vars(owner))
    return [FitSite(owner, "fit", read) for owner in owners]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows to train members on, with the largest number of members and a function that reports progress.

    Attributes
    ----------
    X : array-like, sparse matrix or data frame, shape (n_rows, n_features)
    y : array-like, shape (n_rows,)
    sample_weight : array-like, shape (n_rows,), or None
    max_size : int
        Most members that may be trained.
    batch : int or None
        Most members to train between two reports of progress, where a library can be interrupted.
    progress : callable
        ``progress(n_members)`` is called with the number of members trained so far.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from ens_plugin.adapters import TrainingRows
    >>> rows = TrainingRows([[0.0], [1.0]], [0.0, 2.0], None, max_size=100, batch=None, progress=print)
    >>> rows.fit(LinearRegression()).predict([[3.0]]).round(6).tolist()
    [6.0]
    """

    X: Any
    y: Any
    sample_weight: Any
    max_size: int
    batch: int | None
    progress: Callable[[int], None]

    def fit(self, model: Any, **options: Any) -> Any:
        """Return `model` fitted to the rows, with their weights if any; raise InputError if it refuses them."""
        weights = {} if self.sample_weight is None else {"sample_weight": self.sample_weight}
        with refusals():
            return model.fit(self.X, self.y, **weights, **options)


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A trained model, and its training rows in the form that :func:`ens_plugin.analyze` needs.

    Attributes
    ----------
    model : fitted ensemble
    X, y : array-like
    n_members : int
    trained_members : int
        Members trained in total, including those of smaller models that were discarded.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import TrainedModel
    >>> X, y = load_diabetes(return_X_y=True)
    >>> trained = TrainedModel(RandomForestRegressor(10).fit(X, y), X, y, n_members=10, trained_members=10)
    >>> trained.n_members
    10
    """

    model: Any
    X: Any
    y: Any
    n_members: int
    trained_members: int


NextSize = Callable[[TrainedModel], "int | None"]
# trainer(estimator, rows, first, next_size) trains `first` members, then up to the size that next_size returns, until
# that is None.  `estimator` is unfitted and is changed; the fitted model has the parameters of one that was trained at
# its final size at once.
Trainer = Callable[[Any, TrainingRows, int, NextSize], Any]


def fix_seed(estimator: Any) -> None:
    """Replace ``random_state``, where it is a generator or None, by a drawn seed, so that all fits draw alike.

    Parameters
    ----------
    estimator : estimator with ``random_state`` and ``set_params``
        Changed in place.
    """
    from sklearn.utils import check_random_state

    seed = estimator.random_state
    if not isinstance(seed, Integral):
        estimator.set_params(random_state=int(check_random_state(seed).randint(LARGEST_SEED)))


def retrain(
    parameter: str, model: Any, rows: TrainingRows, first: int, next_size: NextSize, analyzed: Any = None
) -> Any:
    """Return a model that is trained anew at each size, for libraries that cannot add members.

    ``functools.partial(retrain, "n_estimators")`` is a :data:`Trainer`: a function of the other arguments, for
    libraries that call their number of members ``n_estimators``.

    Parameters
    ----------
    parameter : str
        Name of the number of members among the parameters of `model`.
    model : estimator with ``set_params``
        Changed in place.
    rows : TrainingRows
    first : int
        Size of the first training.
    next_size : callable
    analyzed : array-like, optional
        The rows as :func:`ens_plugin.analyze` needs them; by default ``rows.X``.

    Returns
    -------
    fitted model

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import TrainingRows, retrain
    >>> rows = TrainingRows(*load_diabetes(return_X_y=True), None, max_size=20, batch=None, progress=lambda size: None)
    >>> twice = lambda trained: 2 * trained.n_members if trained.n_members < 20 else None
    >>> len(retrain("n_estimators", RandomForestRegressor(random_state=0), rows, 5, twice).estimators_)
    20
    """
    X = rows.X if analyzed is None else analyzed
    trained, wanted = 0, first
    while True:
        rows.fit(model.set_params(**{parameter: wanted}))
        rows.progress(wanted)
        trained += wanted
        larger = next_size(TrainedModel(model, X, rows.y, wanted, trained))
        if larger is None:
            return model
        wanted = larger


def retrain_members(estimator: Any, rows: TrainingRows, first: int, next_size: NextSize) -> Any:
    """Return an estimator that is trained anew, from one seed, at each size of its ``n_estimators``: a Trainer."""
    fix_seed(estimator)
    return retrain("n_estimators", estimator, rows, first, next_size)
