"""What the rest of the package needs to know about a model library, beside its trained ensembles.

Each class here is optional.  An adapter for another library derives from those it can implement, next to
:class:`ens_plugin.adapters.base.EnsembleAdapter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ens_plugin.adapters.training import FitSite

__all__ = ["Library", "Trainable", "home_libraries"]


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
        Import name of the model library.
    """

    library: ClassVar[str]

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model`, fitted or not, is of a class of this library; must not raise."""
        return cls.library in home_libraries(model)


class Trainable(Library):
    """A library whose training is known: autologging watches it."""

    @classmethod
    @abstractmethod
    def fit_sites(cls) -> Sequence[FitSite]:
        """Return the functions that train models, for autologging to watch.

        Called once the library is imported.
        """
