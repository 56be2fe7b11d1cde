"""The contract of an adapter: what it tells of an ensemble, and what it may offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.members import DrawCounts, in_threads
from ens_plugin.adapters.trees import RowOrigin
from ens_plugin.core.bags import Bags
from ens_plugin.core.training_rows import LeafDraws
from ens_plugin.core.validation import IntArray, counted
from ens_plugin.errors import UnsupportedModelError
from ens_plugin.findings import Finding

Task = Literal["classification", "regression"]
Aggregation = Literal["vote", "mean_proba", "mean_score", "mean", "quantile"]
OutputKind = Literal["labels", "probabilities", "scores", "values"]
Provenance = Literal["recorded", "proved", "given", "unknown"]

# Members whose bags one thread draws at a time: few, because their draws are in memory together.
DRAWN_TOGETHER = 4


@dataclass(frozen=True, eq=False)
class EnsembleInfo:
    """Properties of a trained ensemble: its task, labels, members, and how its members are combined.

    Attributes
    ----------
    task : {"classification", "regression"}
    classes : ndarray of shape (n_labels,) or None
        The labels, in the order of the outputs' label axis; None for regression.
    n_members : int
    aggregation : {"vote", "mean_proba", "mean_score", "mean", "quantile"}
        How the model's own ``predict`` combines its members.
    output_kind : {"labels", "probabilities", "scores", "values"}
        Kind of output that :meth:`EnsembleAdapter.outputs` returns.  ``"labels"`` is allowed under ``"mean_proba"``
        where every member predicts one label with probability 1 for any row: vote and mean are then the same rule.
    bag_provenance : {"recorded", "proved", "given", "unknown"}
        Source of the bags: stored by the library, as rows or as seeds; recomputed, and checked against counts that
        the trained members store; given by the user; none, so that only held-out rows can be analysed.
    is_row_independent : bool
        Whether the outputs for a row are the same, to the bit, whatever rows are predicted in the same call.  True
        of trees; not of matrix products, whose rounding depends on their number of rows.
    member_batch_size : int
        Number of members that predict together in hardly more time than one alone.
    distributions : tuple of str
        Names of the installed distributions whose versions a report states.
    n_outputs : int
        Number of columns of y that the ensemble was trained on.  Of more than one, bags can be read, and nothing is
        estimated.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.adapters import find_adapter
    >>> X, y = load_iris(return_X_y=True)
    >>> info = find_adapter(RandomForestClassifier(10, random_state=0).fit(X, y)).info
    >>> info.task, info.n_members, info.aggregation, info.bag_provenance
    ('classification', 10, 'mean_proba', 'recorded')
    """

    task: Task
    classes: NDArray[Any] | None
    n_members: int
    aggregation: Aggregation
    output_kind: OutputKind
    bag_provenance: Provenance
    is_row_independent: bool = False
    member_batch_size: int = 1
    distributions: tuple[str, ...] = ()
    n_outputs: int = 1


class EnsembleAdapter(ABC):
    """Base class of adapters, which read the outputs and the bags of one kind of trained ensemble.

    To support another library, subclass this, write the five methods :meth:`accepts`, :meth:`describe`,
    :meth:`prepare`, :meth:`outputs` and :meth:`bags`, and call :func:`ens_plugin.register_adapter`.

    An adapter never guesses: for what is neither stored nor proved, it raises an error of :mod:`ens_plugin.errors`
    that states what was found and what to do instead.  It never modifies the model.

    Parameters
    ----------
    model : object
        The fitted ensemble, wrappers removed.

    Attributes
    ----------
    model : object
    info : EnsembleInfo

    Notes
    -----
    All other methods are optional, and an adapter overrides those that its kind of ensemble needs or supports.  They
    are called in this order:

    ==============================  ===================================================================
    Before the members predict
    ---------------------------------------------------------------------------------------------------
    :meth:`check_form`              refuses ensembles that no error curve describes
    :meth:`encode_target`           targets that are neither labels nor numbers, such as censored times
    :meth:`target_weights`          weights that follow from the target
    :meth:`check_members`           refuses members that are not drawn alike
    :meth:`with_training_weight`    bags whose proof needs the weights of training
    :meth:`left_out_chances`        rows that are drawn by weight
    :meth:`verify_rows`             refuses training rows that are passed as held-out rows
    :meth:`bags_by_position`        recognises training rows whose values were changed since
    :meth:`leaf_draws`              recognises some training rows among rows without labels
    :meth:`column_splits`           warns of held-out columns in other units
    :meth:`block`                   members that have another bag for each of their trees
    After the members predicted
    ---------------------------------------------------------------------------------------------------
    :meth:`mean_of_sum`             the division as the library rounds it
    :meth:`stored_oob_outputs`      a comparison with what the library computed at training
    :meth:`inverse_link`            the way from mean scores to what is predicted
    :meth:`combined`                members whose mean is not what is predicted
    :meth:`other_prediction`        a ``predict`` that returns another number than the figures are of
    :meth:`loss`                    a loss of the ensemble's own, with its :attr:`loss_name`
    :meth:`cautions`                warnings that every report contains
    :meth:`doubts`                  members that are no draws of one learner
    For other functions
    ---------------------------------------------------------------------------------------------------
    :meth:`truncated`               :func:`ens_plugin.truncate`, ``ens-plugin rightsize``
    :meth:`draw_counts`             :func:`ens_plugin.training_variance`
    :meth:`portable`                processes and machines that get the model
    :meth:`listed_label`            the label that lists of rows are of, unless another one is named
    :meth:`importances`             :func:`ens_plugin.importance_agreement`
    :meth:`are_training_outputs`    refuses training rows that are passed to :func:`ens_plugin.spark.analyze`
    ==============================  ===================================================================

    By default most of them return what fits most ensembles.  Where nothing does (:meth:`truncated`,
    :meth:`draw_counts`, :meth:`bags_by_position`, :meth:`loss`), they raise UnsupportedModelError, with what to do
    instead.  :meth:`offers` tells whether an adapter has a method of its own.

    Examples
    --------
    The adapter of a forest of scikit-learn; the documentation's page on adapters has a complete one.

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.adapters import find_adapter
    >>> X, y = load_diabetes(return_X_y=True)
    >>> adapter = find_adapter(RandomForestRegressor(10, random_state=0).fit(X, y))
    >>> rows = adapter.prepare(X)
    >>> adapter.outputs(rows).shape, adapter.bags(X, rows, y).in_bag().shape
    ((10, 442), (10, 442))
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.info = self.describe()

    @classmethod
    @abstractmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is of a class that this adapter reads; must not raise."""

    @abstractmethod
    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble; called once, when the adapter is made.

        Raises
        ------
        NotFittedError
            If the model has not been fitted.
        UnsupportedModelError
            If this form of the model is not covered (several outputs, for example).
        """

    @property
    def classes(self) -> NDArray[Any] | None:
        """Return the labels, shape (n_labels,); None for regression."""
        return self.info.classes

    @property
    def n_members(self) -> int:
        """Return the number of members."""
        return self.info.n_members

    @property
    def output_kind(self) -> OutputKind:
        """Return the kind of output that :meth:`outputs` returns, as in :class:`EnsembleInfo`."""
        return self.info.output_kind

    def offers(self, name: str) -> bool:
        """Return whether this adapter overrides an optional method.

        Parameters
        ----------
        name : str
            Name of a method of EnsembleAdapter.
        """
        return getattr(type(self), name) is not getattr(EnsembleAdapter, name)

    def check_form(self) -> None:  # noqa: B027  (for most adapters, the class is enough)
        """Raise UnsupportedModelError if no error curve describes the ensemble, whatever its rows.

        Called before the rows of an analysis are prepared, not where only the bags are wanted.
        """

    def encode_target(self, y: NDArray[Any]) -> NDArray[Any] | None:
        """Return the target as label codes or values if it has a form of the library's own; else None, as by default.

        For libraries whose targets are neither labels nor numbers, such as the censored times of survival analysis.
        Metrics get the target as the user gave it.

        Parameters
        ----------
        y : ndarray of shape (n_rows,), at least one row

        Returns
        -------
        ndarray of shape (n_rows,), or None
            Positions in ``classes``, or finite values for regression.

        Raises
        ------
        InputError
            If `y` is not a target of this kind of model.
        """
        return None

    def target_weights(self, y: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return weights that the evaluation gives rows because of their target, or None, the default, for equal ones.

        They multiply those that the user passes.  For censored targets, inverse probabilities of observing them.

        Parameters
        ----------
        y : ndarray of shape (n_rows,)
        """
        return None

    @abstractmethod
    def prepare(self, X: Any) -> Any:
        """Return X in the form in which the library's own ``predict`` passes it to the members.

        The result is sliced by rows (``prepared[slice]``, ``prepared[indices]``) and has ``.shape``.

        Raises
        ------
        DataMismatchError
            If the columns are not the ones the model was trained on.
        """

    def check_members(self, features: Any) -> None:  # noqa: B027  (for most adapters, the class is enough)
        """Raise UnsupportedModelError if the model is not the mean of members that are drawn alike.

        Called before an analysis, not where only the bags are wanted.
        """

    @abstractmethod
    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bag of each member: which training rows it was trained on, packed as bits.

        ``Bags.proof`` states what was compared with the model.  Where bags cannot be known at all, this always raises
        BagError, and :meth:`describe` returns ``bag_provenance="unknown"``: such ensembles are judged on held-out rows.

        Parameters
        ----------
        X : the training rows as the user gave them, in training order
        features : the same rows, prepared
        y : array-like of shape (n_rows,) or None
            Training target, where a check needs it.

        Raises
        ------
        BagError
            If the bags cannot be determined (no bootstrap, for example).  The message ends with what to do instead,
            such as 'Pass data="holdout" with rows no member was trained on.'
        DataMismatchError
            If these are not the training rows, in training order, as far as this can be checked.  The message has the
            words "not the rows the model was trained on" or, for another target, "not the target the model was
            trained on", which the page of frequent questions explains.

        Notes
        -----
        Bags are taken as unproved, and a report warns of it, until :meth:`Bags.with_proof` states what was compared.
        """

    def with_training_weight(self, features: Any, weight: NDArray[np.float64]) -> Any:
        """Return prepared rows with the weights of training, for :meth:`bags`; by default None.

        Called where :meth:`bags` refuses the rows without weights.  None where weights would prove nothing.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        weight : ndarray of float64, shape (n_rows,)
        """
        return None

    def left_out_chances(self) -> NDArray[np.float64] | None:
        """Return each training row's chance to be out of a bag, shape (n_rows,); None where all are equal.

        For libraries that draw rows by weight.  Where it is None, as by default, the observed frequencies are used.
        """
        return None

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether prepared rows are training rows, as far as the model shows it; by default ``"unknown"``.

        Called for rows that are passed as held-out rows, and for rows without labels.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        y : array-like of shape (n_rows,), or None
            Labels or values; None where they are not known, so that the features alone decide.

        Returns
        -------
        {"training", "like_training", "fresh", "unknown"}
            Training rows, in training order or any other; rows that may be training rows; rows that are not; undecided.
        """
        return "unknown"

    def leaf_draws(self, features: Any) -> LeafDraws | None:
        """Return how often members drew training rows, and the most that they can have drawn given rows; else None.

        For ensembles of labels whose bags are known without the training rows.  None, the default, where they are not.

        Parameters
        ----------
        features : prepared rows
        """
        return None

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

    @abstractmethod
    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the members' outputs for one block of prepared rows.

        :func:`outputs_by_member` computes them with a function that predicts with one member.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        members : range, optional
            At least one member, in steps of 1; all by default.
        wanted : ndarray of bool, shape (n_members, n_rows), optional
            True for outputs that will be read, given with all members only.  The others may have any finite value.

        Returns
        -------
        ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
            By `output_kind`: label codes into `classes`, integer; probabilities or raw scores of every label, float64
            (raw scores of two labels may be the score of ``classes[1]`` alone, without a label axis); values, float64.
        """

    def block(self, features: Any, bags: Bags | None, rows: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the members' outputs for a block of prepared rows, and for which of these each is out of bag.

        Override it where the trees of one member have different bags, so that a member differs from row to row.

        Parameters
        ----------
        features : the block's prepared rows
        bags : Bags or None
            Of all rows; None for held-out rows, which are in no bag.
        rows : slice
            Positions of the block among all rows.

        Returns
        -------
        outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        counted : ndarray of bool, shape (n_members, n_rows)
            True where the row is held out, or out of the member's bag.
        """
        if bags is None:
            outputs = self.outputs(features)
            return outputs, np.ones(outputs.shape[:2], dtype=bool)
        is_oob = ~bags.in_bag(rows)
        return self.outputs(features, wanted=is_oob), is_oob

    def mean_of_sum(self, total: NDArray[np.float64], n_members: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean of summed outputs, divided as the library does it: by default, by the number of members.

        Parameters
        ----------
        total : ndarray, shape (n_rows, n_labels) or (n_rows,)
            Outputs summed over the members that count, votes as indicators.
        n_members : ndarray, shape (n_rows,)
            How many count; at least 1.
        """
        return np.asarray(total / n_members.reshape(-1, *(1,) * (total.ndim - 1)))

    def stored_oob_outputs(self) -> NDArray[Any] | None:
        """Return the mean out-of-bag outputs that the library stored at training, in training order, or None.

        Shape (n_rows, n_labels) or (n_rows,); rows without out-of-bag members may have any value.
        """
        return None

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities or values for mean member outputs; by default the outputs themselves."""
        return mean_output

    def combined(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what members predict together, shape (n_rows,); by default their mean.

        Overridden for ensembles of values that do not predict the mean, which need a :meth:`loss` too.

        Parameters
        ----------
        outputs : ndarray, shape (n_members, n_rows)
            Of at least one member; NaN for rows that have fewer members.  Such a row gets NaN.
        """
        return np.asarray(outputs.mean(axis=0))

    def other_prediction(self) -> str | None:
        """Return what the model's own ``predict`` returns where figures are of another number, and the way to both.

        None, the default, where it returns what :meth:`combined` or the mean of the members, through
        :meth:`inverse_link`, does.  Functions that return predictions refuse the model with this sentence.
        """
        return None

    @property
    def loss_name(self) -> str | None:
        """Return the name for reports of the loss by which the ensemble is judged, such as ``"1 - C"``.

        None, the default, for the 0-1 loss or the squared error.  Another loss takes their place wherever no metric is
        requested.  The ensemble's task is then ``"regression"``, and :meth:`encode_target` returns the values that
        would be predicted without any loss.
        """
        return None

    def loss(self, target: NDArray[Any], prediction: NDArray[np.float64]) -> float:
        """Return the loss that :attr:`loss_name` names, lower is better.

        A method with a third parameter ``sample_weight=None`` takes weights of the rows.

        Parameters
        ----------
        target : ndarray, shape (n_rows,)
            As the user gave it.
        prediction : ndarray, shape (n_rows,)
            What the members predict together, as :meth:`combined` returns it.

        Raises
        ------
        UnsupportedModelError
            By default.
        """
        raise self._not_offered("loss", "is judged by no loss of its own", "Pass a metric.")

    def cautions(self, data: str) -> tuple[Finding | str, ...]:
        """Return the warnings that every report on ``"oob"`` or ``"holdout"`` rows, or ``"list"``, must contain.

        With a finding ``"grouped-trees"`` and its number `n_trees`, all texts call a member a group of so many trees.
        """
        return ()

    def doubts(self) -> tuple[Finding | str, ...]:
        """Return what casts doubt on the members as draws of one learner, so that no figure is to be relied on."""
        return ()

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
            If no smaller model can be made, and by default.
        """
        instead = f"Train one with {counted(size, 'member')} instead."
        raise self._not_offered("truncated", "cannot be cut to fewer members", instead)

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each training row.

        The arguments are those of :meth:`bags`, which implementations call first, for its checks.

        Raises
        ------
        BagError
            If these numbers cannot be determined.
        UnsupportedModelError
            By default.
        """
        raise self._not_offered(
            "draw_counts",
            "does not tell how often each member drew each training row, from which the variance over training sets "
            "is estimated",
            "Pass an ensemble of scikit-learn, LightGBM or XGBoost, or "
            "ens_plugin.CustomEnsemble.from_estimators(models, row_indices).",
        )

    def listed_label(self) -> int:
        """Return the position of the label, of two, by whose probability rows are listed; the last one by default."""
        return 1

    def importances(self) -> NDArray[np.float64]:
        """Return the importances of the columns by impurity in each member, shape (n_members, n_features).

        Raises
        ------
        UnsupportedModelError
            If their mean is not what the library takes for that of the ensemble, and by default.
        """
        instead = "Pass it to ens_plugin.oob_permutation_importance, whose result has agreement(top=...)."
        raise self._not_offered("importances", "has no importances by impurity that are means over members", instead)

    def portable(self) -> Any:
        """Return the picklable object from which another process makes this adapter; the model by default.

        Raises
        ------
        UnsupportedModelError
            If no other process can use the model.
        """
        return self.model

    def bags_by_position(self, n_rows: int) -> Callable[[IntArray, NDArray[Any]], Bags]:
        """Return a function of positions of training rows, and their target, that returns their bags without a proof.

        Members that are better about rows at the positions they drew show training rows whose values have changed.

        Parameters
        ----------
        n_rows : int
            Training rows.

        Raises
        ------
        BagError
            If the bags do not follow from positions, or not of so many rows.
        UnsupportedModelError
            By default.
        """
        raise self._not_offered(
            "bags_by_position",
            "has no bags that follow from a row's position alone",
            "Pass the training rows, in training order.",
        )

    def are_training_outputs(self, outputs: NDArray[Any], target: NDArray[Any]) -> bool:
        """Return whether outputs of all members show that the predicted rows are training rows, in any order.

        Called for the sampled rows of a Spark DataFrame.  False, as by default, where the model does not show it.

        Parameters
        ----------
        outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
            As of :meth:`outputs`.
        target : ndarray, shape (n_rows,)
            Label codes or values.
        """
        return False

    def _not_offered(self, name: str, what: str, instead: str) -> UnsupportedModelError:
        """Return the error of an optional method that an adapter does not have."""
        model, own = type(self.model).__name__, type(self).__name__
        return UnsupportedModelError(
            f"This {model} {what}: its adapter, {own}, does not implement {name}. {instead} If the adapter is your "
            f"own, implement that method, which help(ens_plugin.adapters.EnsembleAdapter.{name}) describes."
        )


def outputs_by_member(
    predict: Callable[[int, Any], NDArray[Any]],
    members: range,
    features: Any,
    wanted: NDArray[np.bool_] | None = None,
) -> NDArray[Any]:
    """Return the outputs of members that predict one after the other.

    Parameters
    ----------
    predict : callable
        ``predict(member, rows)`` returns the outputs of one member for some of the prepared rows.
    members : range
    features : prepared rows, n_rows of them
    wanted : ndarray of bool, shape (len(members), n_rows), optional
        True for outputs to compute; the others are zero.

    Returns
    -------
    ndarray, shape (len(members), n_rows) or (len(members), n_rows, n_labels)

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters import outputs_by_member
    >>> outputs_by_member(lambda member, rows: member + rows[:, 0], range(2), np.array([[0.0], [10.0]])).tolist()
    [[0.0, 10.0], [1.0, 11.0]]
    """
    outputs: NDArray[Any] | None = None
    for place, member in enumerate(members):
        rows = slice(None) if wanted is None else _wanted_rows(wanted[place])
        values = predict(member, _take_rows(features, rows))
        if outputs is None:
            outputs = np.zeros((len(members), features.shape[0], *values.shape[1:]), dtype=values.dtype)
        outputs[place, rows] = values
    assert outputs is not None
    return outputs


def draw_bags(draw: Callable[[int], ArrayLike], n_members: int, n_rows: int) -> Bags:
    """Return the bags of all members, drawn in as many threads as joblib's context allows.

    Parameters
    ----------
    draw : callable
        ``draw(member)`` returns the rows that a member was trained on; called from several threads.
    n_members, n_rows : int

    Examples
    --------
    >>> from ens_plugin.adapters import draw_bags
    >>> bags = draw_bags(lambda member: [member, member + 1], n_members=2, n_rows=4)
    >>> bags.in_bag().astype(int).tolist()
    [[1, 1, 0, 0], [0, 1, 1, 0]]
    """
    starts = range(0, n_members, DRAWN_TOGETHER)
    chunks = [range(start, min(start + DRAWN_TOGETHER, n_members)) for start in starts]
    parts = in_threads(lambda chunk: Bags.from_indices(map(draw, chunk), n_rows), chunks)
    return Bags.stack(parts, n_members, n_rows)


def _wanted_rows(wanted: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the positions of the rows to predict: at least one, because many members refuse an empty table."""
    rows = np.flatnonzero(wanted)
    return rows if rows.size else np.zeros(1, dtype=np.intp)


def _take_rows(features: Any, rows: slice | NDArray[np.intp]) -> Any:
    """Return the prepared rows at the given positions."""
    # On arrays, take is three times as fast as an index.
    if isinstance(features, np.ndarray) and not isinstance(rows, slice):
        return features.take(rows, axis=0)
    return features[rows]
