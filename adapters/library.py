"""The contract of a library: training, storing and loading its models, and reading its files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.members import GROWABLE, refusals
from ens_plugin.errors import InputError, UnsupportedModelError

LARGEST_SEED = np.iinfo(np.int32).max


def home_libraries(model: object) -> set[str]:
    """Return the top-level packages that define the class of a model and its parents."""
    return {base.__module__.partition(".")[0] for base in type(model).__mro__}


class Flavor(NamedTuple):
    """Names and options with which MLflow saves the models of a library.

    Attributes
    ----------
    name : str
        Key of the flavour in the file ``MLmodel``.
    module : str
        Import name of the module that has ``save_model``, ``"mlflow.sklearn"`` for example.
    model_argument : str
        Name of the model among the arguments of ``save_model``.
    options : callable
        Takes the flavours in the file ``MLmodel`` of a model; returns further arguments of ``save_model`` that give
        another model the same properties.

    Examples
    --------
    >>> from ens_plugin.adapters import Flavor
    >>> Flavor("sklearn", "mlflow.sklearn", "sk_model").model_argument
    'sk_model'
    """

    name: str
    module: str
    model_argument: str
    options: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda flavors: {}


class Library:
    """Base class of model libraries: how one trains models, stores them and reads its files, and what these lack.

    Only :attr:`library` must be defined.  The methods have defaults that fit models with the interface of scikit-learn,
    without training, and files without a format of their own.  An adapter of another library derives from this class
    next to :class:`ens_plugin.adapters.contract.EnsembleAdapter`.

    Attributes
    ----------
    library : str
        Import name of the model library.  Autologging treats a fit that code of this package starts as a part of
        another fit, so programs that train models must not be in the same package.
    flavor : Flavor or None
        How MLflow saves its models; None where MLflow logs them as those of another library, such as scikit-learn.
    works_in_fork : bool
        Whether a pickle with models of this library can be read in a fork of a process that uses it; False by default.
    title : str
        Name of the library in messages; needed with :meth:`reads`.
    requirement : str
        What to install with pip where a file is found and the library is not; needed with :meth:`reads`.
    suffixes : tuple of str
        Endings of the names of the files in which MLflow stores its models.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import Library, find_library
    >>> found = find_library(RandomForestRegressor())
    >>> found.library, found.flavor.module
    ('sklearn', 'mlflow.sklearn')

    A library with a format of its own:

    >>> class MyLibrary(Library):
    ...     library, title, requirement = "mylibrary", "MyLibrary", "mylibrary>=1.0"
    ...
    ...     @classmethod
    ...     def reads(cls, start):
    ...         return start.startswith(b"my model")
    ...
    ...     @classmethod
    ...     def read(cls, content):
    ...         import mylibrary
    ...
    ...         return mylibrary.loads(content)
    >>> MyLibrary.reads(b"my model, version 2")
    True
    """

    library: ClassVar[str]
    flavor: ClassVar[Flavor | None] = None
    works_in_fork: ClassVar[bool] = False
    title: ClassVar[str]
    requirement: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model`, fitted or not, is of a class of this library; must not raise."""
        return cls.library in home_libraries(model)

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the functions that train models, whose calls autologging records; none by default.

        Called once the library is imported.
        """
        return ()

    @classmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains an ensemble and adds members until no larger size is requested.

        Where a library cannot add members, it is :func:`ens_plugin.adapters.library.retrain` with the name of the
        parameter that is the number of members.

        Parameters
        ----------
        estimator : object
            Unfitted; of a class that this library accepts.

        Raises
        ------
        UnsupportedModelError
            If `estimator` is no ensemble of members drawn alike, or members cannot be added to it; by default.
        BagError
            If every member would be trained on every row.
        """
        raise UnsupportedModelError(
            f"This {type(estimator).__name__} cannot be grown. {GROWABLE}. Boosting cannot be grown: its "
            "members correct one another. For a search, grow its best_estimator_."
        )

    @classmethod
    def refuse_boosting(cls, estimator: Any) -> None:
        """Raise UnsupportedModelError if the parameters of an unfitted estimator request boosting.

        Members that correct one another are not drawn alike.  By default nothing is refused.
        """

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return the damage that makes an object unsafe to predict with, or None; None by default.

        Parameters
        ----------
        held : object
            Object of any class; the method is called for every object that a model holds.
        """
        return None

    @classmethod
    def reads(cls, start: bytes) -> bool:
        """Return whether a file is a model file of this library, by its first 64 bytes or fewer; False by default."""
        return False

    @classmethod
    def read(cls, content: bytes) -> Any:
        """Return the model that is read from the content of a file that this library :meth:`reads`.

        Raises
        ------
        ImportError
            If the library is not installed.
        Exception
            Of any class, if the file is damaged.
        """
        raise UnsupportedModelError(f"{cls.__name__} reads no files; pickle the model, or implement read and reads.")

    @classmethod
    def predict(cls, model: Any, rows: Any) -> Any:
        """Return the predictions of a model for rows in the form a user passes them."""
        return model.predict(rows)

    @classmethod
    def predict_proba(cls, model: Any, rows: Any) -> Any:
        """Return the probabilities that a classifier predicts for rows in the form a user passes them."""
        return model.predict_proba(rows)

    @classmethod
    def labels(cls, model: Any, rows: Any) -> NDArray[Any]:
        """Return the label that a classifier predicts for each row, or its position, shape (n_rows,)."""
        return np.asarray(cls.predict(model, rows))

    @classmethod
    def feature_names(cls, model: Any) -> list[str] | None:
        """Return the names of the features that the model was trained on; None if it was trained without names."""
        names = getattr(model, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @classmethod
    def n_features(cls, model: Any) -> int | None:
        """Return the number of features that the model was trained on; None where it is not stored."""
        return getattr(model, "n_features_in_", None)

    @classmethod
    def with_categories(cls, model: Any, table: Any) -> Any:
        """Return a table whose columns of categories are those that the model was trained on.

        Files such as csv do not state which columns are categories.  By default the table is returned as it is.

        Parameters
        ----------
        model : fitted model
        table : DataFrame, shape (n_rows, n_features)
            Its columns are the features in training order.
        """
        return table


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
    """Replace ``random_state``, where it is a generator or None, by a drawn seed, so that all fits draw alike."""
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
