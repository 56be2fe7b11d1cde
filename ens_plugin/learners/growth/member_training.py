"""Training of ensembles whose final size becomes known only during training."""

from __future__ import annotations

from typing import Any

from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.registry import find_library
from ens_plugin.adapters.shared.refusals import GROWABLE
from ens_plugin.adapters.training import Trainer
from ens_plugin.core.validation import with_article
from ens_plugin.errors import UnsupportedModelError
from ens_plugin.learners.tasks import refuse_class

__all__ = ["find_trainer"]


def find_trainer(estimator: Any) -> Trainer:
    """Return the function that trains this kind of ensemble to a size chosen during training.

    Raises
    ------
    UnsupportedModelError
        If its members are not all trained in the same way, or it is of a kind that cannot be grown.
    BagError
        If every member would be trained on every row.
    """
    refuse_class(estimator)
    library = find_library(estimator, Trainable)
    if library is None:
        raise UnsupportedModelError(
            f"{with_article(type(estimator).__name__, 'A')} cannot be grown. {GROWABLE}. Boosting cannot be grown: its "
            "members correct one another. For a search, grow its best_estimator_."
        )
    return library.trainer(estimator)
