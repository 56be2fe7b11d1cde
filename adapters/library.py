"""What the rest of the package needs to know about a model library, beside its trained ensembles.

Each class here is optional.  An adapter for another library derives from those it can implement, next to
:class:`ens_plugin.adapters.base.EnsembleAdapter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.training import FitSite, Trainer

__all__ = ["FileReadable", "Flavor", "Library", "NativeInterface", "Storable", "Trainable", "home_libraries"]


def home_libraries(model: object) -> set[str]:
    """Return the top-level packages that define the class of a model and its parents.

    Examples
    --------
    >>> sorted(home_libraries(1))
    ['builtins']
    """
    return {base.__module__.partition(".")[0] for base in type(model).__mro__}


class Library(ABC):
    """What the classes of this module share: whose models they are about.

    Class attributes
    ----------------
    library : str
        Import name of the model library.  Autologging takes fits that code below this name starts for parts of another
        fit, so it is not the name of a package that programs which train models are in, too.
    """

    library: ClassVar[str]

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model`, fitted or not, is of a class of this library; must not raise."""
        return cls.library in home_libraries(model)


class Trainable(Library):
    """A library whose training is known: autologging watches it, and :func:`ens_plugin.grow` adds members.

    Class attributes
    ----------------
    size_parameters : tuple of str
        Names of the parameters of an estimator that may be its number of members, tried in this order.
    """

    size_parameters: ClassVar[tuple[str, ...]] = ("n_estimators",)

    @classmethod
    @abstractmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the functions that train models, for autologging to watch.

        Called once the library is imported.
        """

    @classmethod
    @abstractmethod
    def trainer(cls, estimator: Any) -> Trainer:
        """Return the function that trains an ensemble to a size that is not known beforehand.

        Where a library cannot add members, it is :func:`ens_plugin.adapters.training.retrain` with the name of the
        parameter that is the number of members.

        Parameters
        ----------
        estimator : object
            Unfitted; of a class that this library accepts.

        Raises
        ------
        UnsupportedModelError
            If it is no ensemble of members drawn alike, or of a kind that cannot be grown.
        BagError
            If every member would be trained on every row.
        """

    @classmethod
    def refuse_boosting(cls, estimator: Any) -> None:
        """Raise UnsupportedModelError if the parameters of an unfitted estimator request boosting.

        Called before training by :class:`ens_plugin.DynamicPruningClassifier`.  Members that correct one another are
        not drawn alike.  By default nothing is refused.
        """


class Flavor(NamedTuple):
    """How MLflow logs the models of a library.

    Attributes
    ----------
    name : str
        In the file ``MLmodel``.
    module : str
        Import name of the module that has ``save_model``, ``"mlflow.sklearn"`` for example.
    model_argument : str
        Name of the model among the arguments of ``save_model``.
    options : callable
        Takes the flavours in the file ``MLmodel`` of a model; returns further arguments of ``save_model`` that give
        another model the same properties.
    """

    name: str
    module: str
    model_argument: str
    options: Callable[[Mapping[str, Any]], dict[str, Any]] = lambda flavors: {}


class Storable(Library):
    """A library whose models MLflow logs, and that are checked for damage after they were read from a pickle.

    Class attributes
    ----------------
    flavor : Flavor or None
        None where MLflow logs its models as those of another library, such as scikit-learn.
    works_in_fork : bool
        Whether a pickle with models of this library can be read in a fork of a process that uses it; False by default.
    """

    flavor: ClassVar[Flavor | None] = None
    works_in_fork: ClassVar[bool] = False

    @classmethod
    def find_damage(cls, held: Any) -> str | None:
        """Return what makes an object unsafe to predict with, or None; by default nothing.

        Parameters
        ----------
        held : object
            Of whatever class: called for every object that a model holds.
        """
        return None


class FileReadable(Storable):
    """A library with model files of its own.

    Class attributes
    ----------------
    title : str
        Name of the library in messages.
    requirement : str
        What to install with pip where a file is found and the library is not.
    suffixes : tuple of str
        Of the files in which MLflow stores its models.
    """

    title: ClassVar[str]
    requirement: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    @abstractmethod
    def reads(cls, start: bytes) -> bool:
        """Return whether a file that starts with these 64 bytes, or fewer, is one of this library."""

    @classmethod
    @abstractmethod
    def read(cls, content: bytes) -> Any:
        """Return the model in a file.

        Raises
        ------
        ImportError
            If the library is not installed.
        Exception
            If the file is damaged, of whatever class.
        """

    @classmethod
    def find_file_damage(cls, content: bytes) -> str | None:
        """Return what makes a file unsafe to read, or None; by default nothing.

        Called before :meth:`read`, for libraries that follow the indices in a file unchecked.
        """
        return None


class NativeInterface(Library):
    """A library whose models lack what scikit-learn's have; every method does what scikit-learn's models do."""

    @classmethod
    def predict(cls, model: Any, rows: Any) -> Any:
        """Return what the model predicts for rows as a user has them."""
        return model.predict(rows)

    @classmethod
    def labels(cls, model: Any, rows: Any) -> NDArray[Any]:
        """Return the label that a classifier gives to each row, or its position, shape (n_rows,)."""
        return np.asarray(cls.predict(model, rows))

    @classmethod
    def feature_names(cls, model: Any) -> list[str] | None:
        """Return the names of the features that the model was trained on; None if it was trained without names."""
        names = getattr(model, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    @classmethod
    def n_features(cls, model: Any) -> int | None:
        """Return the number of features that the model was trained on; None where it is not known."""
        return getattr(model, "n_features_in_", None)
