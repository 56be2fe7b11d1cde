"""Base classes through which the package trains, stores, reads and predicts with the models of a library.

Each class here is optional.  An adapter for another library derives from those it can implement, next to
:class:`ens_plugin.adapters.base.EnsembleAdapter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ens_plugin.adapters.training import FitSite, Trainer

__all__ = [
    "FileReadable",
    "Flavor",
    "Library",
    "NamedEnsembles",
    "NativeInterface",
    "Storable",
    "Trainable",
    "home_libraries",
    "missing_parts",
]


def home_libraries(model: object) -> set[str]:
    """Return the top-level packages that define the class of a model and its parents.

    Examples
    --------
    >>> sorted(home_libraries(1))
    ['builtins']
    """
    return {base.__module__.partition(".")[0] for base in type(model).__mro__}


class Library(ABC):
    """Base class of model libraries, which names a library and recognises its models.

    Attributes
    ----------
    library : str
        Import name of the model library.  Autologging treats a fit that code of this package starts as a part of
        another fit, so programs that train models must not be in the same package.
    """

    library: ClassVar[str]

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model`, fitted or not, is of a class of this library; must not raise."""
        return cls.library in home_libraries(model)


class Trainable(Library):
    """A library whose fits autologging records, and whose ensembles :func:`ens_plugin.grow` trains.

    Attributes
    ----------
    library : str
        Import name of the model library, as of every library here.
    size_parameters : tuple of str
        Names of the parameters of an estimator that may be its number of members, tried in this order.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import Trainable, find_library
    >>> library = find_library(RandomForestRegressor(), Trainable)
    >>> library.library, library.size_parameters
    ('sklearn', ('n_estimators',))
    """

    size_parameters: ClassVar[tuple[str, ...]] = ("n_estimators",)

    @classmethod
    @abstractmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the functions that train models, whose calls autologging records.

        Called once the library is imported.
        """

    @classmethod
    @abstractmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains an ensemble and adds members until no larger size is requested.

        Where a library cannot add members, it is :func:`ens_plugin.adapters.training.retrain` with the name of the
        parameter that is the number of members.

        Parameters
        ----------
        estimator : object
            Unfitted; of a class that this library accepts.

        Raises
        ------
        UnsupportedModelError
            If `estimator` is no ensemble of members drawn alike, or members cannot be added to it.
        BagError
            If every member would be trained on every row.
        """

    @classmethod
    def refuse_boosting(cls, estimator: Any) -> None:
        """Raise UnsupportedModelError if the parameters of an unfitted estimator request boosting.

        Called before training by :class:`ens_plugin.DynamicPruningClassifier`.  Members that correct one another are
        not drawn alike.  By default nothing is refused.
        """


class NamedEnsembles(Trainable):
    """A library whose ensembles are recognised by the names of their classes, so that it need not be imported.

    Attributes
    ----------
    module : str
        Import name of the module that has the ensembles.
    ensembles : tuple of str
        Names of their classes.
    """

    module: ClassVar[str]
    ensembles: ClassVar[tuple[str, ...]]

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is one of the ensembles, or of a class derived from one."""
        return super().accepts(model) and any(parent.__name__ in cls.ensembles for parent in type(model).__mro__)

    @classmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the ``fit`` methods of the ensembles."""
        from ens_plugin.adapters.training import fit_methods

        module = import_module(cls.module)
        return fit_methods(*(getattr(module, name) for name in cls.ensembles))


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


class Storable(Library):
    """A library whose models MLflow logs, and whose models are checked for damage after reading a pickle.

    Attributes
    ----------
    flavor : Flavor or None
        None where MLflow logs its models as those of another library, such as scikit-learn.
    works_in_fork : bool
        Whether a pickle with models of this library can be read in a fork of a process that uses it; False by default.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import Storable, find_library
    >>> find_library(RandomForestRegressor(), Storable).flavor.module
    'mlflow.sklearn'
    """

    flavor: ClassVar[Flavor | None] = None
    works_in_fork: ClassVar[bool] = False

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return the damage that makes an object unsafe to predict with, or None; None by default.

        Parameters
        ----------
        held : object
            Object of any class; the method is called for every object that a model holds.
        """
        return None


class FileReadable(Storable):
    """A library with its own format of model files.

    Attributes
    ----------
    title : str
        Name of the library in messages.
    requirement : str
        What to install with pip where a file is found and the library is not.
    suffixes : tuple of str
        Endings of the names of the files in which MLflow stores its models.

    Examples
    --------
    >>> from ens_plugin.adapters import FileReadable
    >>> class MyLibrary(FileReadable):
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

    title: ClassVar[str]
    requirement: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def reads(cls, start: bytes) -> bool:
        """Return whether a file is a model file of this library, by its first 64 bytes or fewer."""

    @classmethod
    @abstractmethod
    def read(cls, content: bytes) -> Any:
        """Return the model that is read from the content of a file.

        Raises
        ------
        ImportError
            If the library is not installed.
        Exception
            Of any class, if the file is damaged.
        """

    @classmethod
    def find_file_damage(cls, content: bytes) -> str | None:
        """Return the damage that makes a file unsafe to read, or None; None by default.

        Called before :meth:`read`, for libraries that use the indices in a file without a check.
        """
        return None


class NativeInterface(Library):
    """A library whose models lack methods of scikit-learn's; subclasses override the methods of this class.

    Examples
    --------
    >>> from ens_plugin.adapters import NativeInterface
    >>> class MyLibrary(NativeInterface):
    ...     library = "mylibrary"
    ...
    ...     @classmethod
    ...     def predict(cls, model, rows):
    ...         return model.evaluate(rows)
    """

    @classmethod
    def predict(cls, model: Any, rows: Any) -> Any:
        """Return the predictions of a model for rows in the form a user passes them."""
        return model.predict(rows)

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


# Class attributes that a class must define.
_NAMES = ((Library, "library"), (FileReadable, "title"), (FileReadable, "requirement"))


def missing_parts(cls: type) -> list[str]:
    """Return the names of the methods and class attributes that a class lacks for its base classes.

    Examples
    --------
    >>> missing_parts(Trainable)
    ['fit_sites', 'trainer', 'library']
    """
    missing = sorted(getattr(cls, "__abstractmethods__", ()))
    return missing + [name for kind, name in _NAMES if issubclass(cls, kind) and not hasattr(cls, name)]
