"""Mixins for adapters, one for each operation that only some kinds of ensemble support."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.shared.trees.row_origin import RowOrigin
from ens_plugin.core.validation import with_article
from ens_plugin.errors import BagError

if TYPE_CHECKING:
    from ens_plugin.adapters.base import EnsembleAdapter
    from ens_plugin.adapters.shared.distributed_bags import DistributedBags
    from ens_plugin.adapters.shared.draws import DrawCounts
    from ens_plugin.core.stopping import StoppingTable
    from ens_plugin.core.tallies.bags import Bags

__all__ = [
    "CombinesMembers",
    "CountsDraws",
    "Distributable",
    "HeldOutOnly",
    "JudgedByLoss",
    "ProvesWeights",
    "RowOrigin",
    "SettlesRows",
    "SumsValues",
    "Truncatable",
    "VerifiesRows",
    "distributed_bags",
]


class SettlesRows(ABC):
    """Mixin for adapters that sum the scores of two labels up to the member that settles a row, in compiled code."""

    @abstractmethod
    def settled_sums(self, features: Any, stops: StoppingTable) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
        """Return the sum of each row's scores, member by member until it settles the row, and the number of members.

        To the bit what :func:`~ens_plugin.learners.pruning.member_queries.query_members` finds from the outputs.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        stops : StoppingTable

        Returns
        -------
        sums, n_queries : ndarrays, shape (n_rows,); or None
            None where the compiled code is missing, or does not take these rows.
        """


class SumsValues(ABC):
    """Mixin for adapters that add up the members' outputs of each row, one number of each, in compiled code."""

    @abstractmethod
    def value_sums(self, features: Any, bags: Bags | None) -> NDArray[np.float64] | None:
        """Return sums over the members that count of each row, without their outputs.

        To the bit what :func:`~ens_plugin.core.tallies.margin_tally.score_sums` finds from the outputs.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        bags : Bags or None
            Of these rows; None for held-out rows, which are in no bag.

        Returns
        -------
        ndarray, shape (5, n_rows), or None
            None where the compiled code is missing or would not be faster, or members have several numbers.
        """


class SumsMargins(ABC):
    """Mixin for adapters that add up the members' margins of each row, by several numbers of each, in compiled code."""

    @abstractmethod
    def margin_sums(self, features: Any, bags: Bags | None, target: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """Return sums over the members that count of each row, without their outputs.

        To the bit what :func:`~ens_plugin.core.tallies.margin_tally.margin_sums` finds from what `block` returns.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        bags : Bags or None
            Of these rows; None for held-out rows, which are in no bag.
        target : ndarray of int, shape (n_rows,)

        Returns
        -------
        ndarray, shape (7, n_rows), or None
            None where the compiled code is missing or would not be faster, or members have one number.
        """


class VerifiesRows(ABC):
    """Mixin for adapters that recognise training rows which are passed as held-out rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import find_adapter
    >>> X, y = load_diabetes(return_X_y=True)
    >>> adapter = find_adapter(RandomForestRegressor(10, random_state=0).fit(X, y))
    >>> adapter.verify_rows(adapter.prepare(X), y)
    'training'
    """

    @abstractmethod
    def verify_rows(self, features: Any, y: ArrayLike) -> RowOrigin:
        """Return whether prepared rows are training rows, as far as the model shows it.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        y : array-like, shape (n_rows,)
            Labels or values.

        Returns
        -------
        {"training", "like_training", "fresh", "unknown"}
            Training rows, in training order or any other; rows that may be training rows; rows that are not; undecided.
        """

    def column_splits(self, features: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and columns with the numerical thresholds at which members split them.

        A held-out column whose values lie outside of nearly all its thresholds is named in the report.  Without
        thresholds, as by default, no column is compared.

        Parameters
        ----------
        features : prepared rows

        Returns
        -------
        table : ndarray, sparse matrix or DataFrame of shape (n_rows, n_features)
        splits : iterable of (int, ndarray)
            Positions of columns, each with its thresholds.
        """
        return features, ()

    def are_training_outputs(self, outputs: NDArray[Any], target: NDArray[Any]) -> bool:
        """Return whether outputs of all members show that the predicted rows are training rows, in any order.

        Called for a sample of held-out rows of a cluster.  False where the model does not show it.

        Parameters
        ----------
        outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
            As of :meth:`ens_plugin.adapters.base.EnsembleAdapter.outputs`.
        target : ndarray, shape (n_rows,)
            Label codes or values.
        """
        return False


class CountsDraws(ABC):
    """Mixin for adapters that count how often members drew rows, for :func:`ens_plugin.training_variance`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import find_adapter
    >>> X, y = load_diabetes(return_X_y=True)
    >>> adapter = find_adapter(RandomForestRegressor(10, random_state=0).fit(X, y))
    >>> draws = adapter.draw_counts(X, adapter.prepare(X), y)
    >>> draws.rule, int(draws.counts[0].sum())
    ('with_replacement', 442)
    """

    @abstractmethod
    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each training row.

        The arguments are those of :meth:`ens_plugin.adapters.base.EnsembleAdapter.bags`, which implementations call
        first, for its checks.

        Raises
        ------
        BagError
            If these numbers cannot be determined.
        """

    def left_out_chances(self) -> NDArray[np.float64] | None:
        """Return each training row's chance to be out of a bag, shape (n_rows,); None where all are equal.

        For libraries that draw rows by weight.  Where it is None, the observed frequencies are used instead.
        """
        return None


class ProvesWeights(ABC):
    """Mixin of adapters whose proof of the bags depends on the weights that the model was trained with."""

    @abstractmethod
    def with_training_weight(self, features: Any, weight: NDArray[np.float64]) -> Any:
        """Return prepared rows with the weights of training, for :meth:`EnsembleAdapter.bags`.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        weight : ndarray of float64, shape (n_rows,)
        """


class Distributable(ABC):
    """Mixin for adapters that compute bags from row positions, for ``ens_plugin.spark.analyze(..., data="oob")``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import find_adapter
    >>> X, y = load_diabetes(return_X_y=True)
    >>> adapter = find_adapter(RandomForestRegressor(10, random_state=0).fit(X, y))
    >>> bags = adapter.distributed_bags(n_rows=442, candidate=0)
    >>> bags.at(np.array([440, 441]), y[440:]).in_bag().shape
    (10, 2)
    """

    @abstractmethod
    def distributed_bags(self, n_rows: int, candidate: int) -> DistributedBags:
        """Return bags that each machine of a cluster computes from the positions of its training rows.

        Parameters
        ----------
        n_rows : int
            Training rows.
        candidate : int
            Index of the draw to use where several are possible, the likeliest first.

        Raises
        ------
        BagError
            If the bags do not follow from row positions, or at most `candidate` draws are possible.
        """


class Truncatable(ABC):
    """Mixin for adapters that make smaller models, for :func:`ens_plugin.truncate` and ``ens-plugin rightsize``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import find_adapter
    >>> X, y = load_diabetes(return_X_y=True)
    >>> adapter = find_adapter(RandomForestRegressor(10, random_state=0).fit(X, y))
    >>> len(adapter.truncated(4).estimators_)
    4
    """

    @abstractmethod
    def truncated(self, size: int) -> Any:
        """Return a model of the same kind that holds the first `size` members and averages them.

        The new model shares nothing with the old one that its library may change later, keeps the parameters but for
        the number of members, and drops results that were measured on all members.

        Parameters
        ----------
        size : int
            From 1 to `n_members`.

        Raises
        ------
        UnsupportedModelError
            If no smaller model can be made.
        """


class HeldOutOnly(ABC):
    """Mixin for adapters of models whose bags cannot be determined: they are judged on held-out rows only.

    It stands before EnsembleAdapter among the base classes, and implements ``bags``; ``describe`` returns
    ``bag_provenance="unknown"``.

    Attributes
    ----------
    no_bags : str
        Why the bags are not known, in a sentence that begins the message of the error.

    Examples
    --------
    >>> from ens_plugin.adapters import HeldOutOnly
    >>> class WithoutBags(HeldOutOnly):
    ...     no_bags = "MyLibrary keeps no record of which rows its trees were trained on."
    >>> WithoutBags().bags(X=None, features=None, y=None)
    Traceback (most recent call last):
    ens_plugin.errors.BagError: MyLibrary keeps no record of which rows its trees were trained on. ...
    """

    no_bags: ClassVar[str]

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Raise BagError, with the reason and what to do instead."""
        raise BagError(f'{self.no_bags} Pass {{data="holdout"}} with rows no member was trained on.')


class JudgedByLoss(ABC):
    """Mixin for adapters of ensembles whose predictions are judged by a loss of their own.

    It takes the place of the 0-1 and the squared error wherever no metric is requested.  The ensemble's task is
    ``"regression"``, and ``encode_target`` returns the values that would be predicted without any loss.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters import JudgedByLoss
    >>> class ByAbsoluteError(JudgedByLoss):
    ...     loss_name = "mean absolute error"
    ...
    ...     def loss(self, target, prediction):
    ...         return float(np.abs(target - prediction).mean())
    >>> ByAbsoluteError().loss(np.array([1.0, 2.0]), np.array([1.5, 2.5]))
    0.5
    """

    @property
    @abstractmethod
    def loss_name(self) -> str:
        """Return the name of the loss, such as ``"1 - C"``, for reports."""

    @abstractmethod
    def loss(self, target: NDArray[Any], prediction: NDArray[np.float64]) -> float:
        """Return the loss, lower is better.

        A method with a third parameter ``sample_weight=None`` takes weights of the rows.

        Parameters
        ----------
        target : ndarray, shape (n_rows,)
            As the user gave it.
        prediction : ndarray, shape (n_rows,)
            What the members predict together: their mean, unless the adapter `CombinesMembers`.
        """


class CombinesMembers(JudgedByLoss):
    """Mixin for adapters of ensembles that do not predict the mean of their members' values.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters import CombinesMembers
    >>> class OfMedians(CombinesMembers):
    ...     loss_name = "mean absolute error"
    ...
    ...     def loss(self, target, prediction):
    ...         return float(np.abs(target - prediction).mean())
    ...
    ...     def combined(self, outputs):
    ...         return np.nanmedian(outputs, axis=0)
    >>> OfMedians().combined(np.array([[1.0], [2.0], [9.0]])).tolist()
    [2.0]
    """

    @abstractmethod
    def combined(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what members predict together, shape (n_rows,).

        Parameters
        ----------
        outputs : ndarray, shape (n_members, n_rows)
            Of at least one member; NaN for rows that have fewer members.  Such a row gets NaN.
        """


def distributed_bags(adapter: EnsembleAdapter, n_rows: int, candidate: int) -> DistributedBags:
    """Return bags that a cluster computes from row positions; raise BagError if `adapter` is no Distributable.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import distributed_bags, find_adapter
    >>> forest = RandomForestRegressor(10, random_state=0).fit(*load_diabetes(return_X_y=True))
    >>> bags = distributed_bags(find_adapter(forest), n_rows=442, candidate=0)
    >>> bags.at(np.array([440, 441]), np.zeros(2)).in_bag().shape
    (10, 2)
    """
    if isinstance(adapter, Distributable):
        return adapter.distributed_bags(n_rows, candidate)
    raise BagError(
        f"The bags of {with_article(type(adapter.model).__name__)} do not follow from a row's position alone, so its "
        'rows cannot be spread over a cluster. Pass {data="holdout"} with rows no member was trained on, or analyze '
        "the training rows on one machine with ens_plugin.analyze."
    )
