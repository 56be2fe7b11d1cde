"""Predictions that ask members in turn until the others cannot change the label."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import no_adapter
from ens_plugin.adapters.registry import find_adapter, find_library, is_known, is_registered
from ens_plugin.adapters.sklearn.training import UnfittedLearnerError, check_fitted_columns, take_columns
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.analysis.arguments import encode_target
from ens_plugin.analysis.evidence import BLOCK_BYTES, tally_rows
from ens_plugin.analysis.steps import warn_of_steps
from ens_plugin.core.certificate import RATES, RunningVote
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.row_model import effective_votes, is_close
from ens_plugin.core.sample import Sample
from ens_plugin.core.stopping import (
    RowPrior,
    StoppingTable,
    VotePrior,
    certificate_table,
    checkpoints,
    duel_table,
    even_prior,
    expected_stopping,
    lead_table,
    learned_prior,
    score_table,
    stopping_table,
    symmetric,
    uniform_prior,
    vote_share_table,
)
from ens_plugin.core.tally import RowBlock, count_members
from ens_plugin.core.validation import FloatArray, IntArray, as_confidence, refuse_lazy, shown
from ens_plugin.core.votes import fit_mixture
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError, UnsupportedModelError
from ens_plugin.sizing.grow import known_task, refuse_class, refuse_scores

__all__ = [
    "DynamicPruningClassifier",
    "OutOfBagOutputs",
    "Totals",
    "codes",
    "mean_outputs",
    "out_of_bag_outputs",
    "query_members",
    "row_prior",
]

CACHE_BYTES = 1_000_000
FEWEST_ROWS = 256
# Up to this number of labels, counting votes label by label is faster than counting cells.
FEW_LABELS = 24


class StoppingRule(Protocol):
    """Protocol of a rule for when a row's label is certain enough to query no further member."""

    @property
    def checkpoints(self) -> IntArray:
        """Numbers of members after which rows can be settled, ascending; the last is the whole ensemble."""
        ...

    def settled(self, place: int, total: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows need no further member at checkpoint number `place`, shape (n_rows,)."""
        ...


class Members(Protocol):
    """Protocol of a source of members' outputs for rows; rows whose label is settled are dropped from it."""

    @property
    def together(self) -> int:
        """Number of members whose outputs together take little more time than those of one."""
        ...

    def outputs(self, members: range) -> NDArray[Any]:
        """Return the outputs of consecutive members for the rows not dropped yet."""
        ...

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        ...


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums of the queried members' outputs by row, and the number of members in each sum.

    Of two labels, `total` are the votes for the second, or its summed score less the first's; else votes, summed
    probabilities or summed scores by label.
    """

    total: FloatArray
    queries: IntArray


class QueriedRows:
    """Source of outputs that queries an adapter's members for prepared rows."""

    def __init__(self, adapter: EnsembleAdapter, features: Any) -> None:
        self.together = adapter.info.member_batch_size
        self._adapter = adapter
        self._features = features

    def outputs(self, members: range) -> NDArray[Any]:
        """Return the outputs of consecutive members for the rows not dropped yet."""
        return self._adapter.outputs(self._features, members)

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        features = self._features
        # For arrays, take is several times as fast as indexing.
        self._features = features.take(rows, axis=0) if isinstance(features, np.ndarray) else features[rows]


class ReplayedRows:
    """Source of outputs that were computed before, of all members for all rows."""

    def __init__(self, outputs: NDArray[Any]) -> None:
        self.together = outputs.shape[0]
        self._outputs = outputs

    def outputs(self, members: range) -> NDArray[Any]:
        """Return the outputs of consecutive members for the rows not dropped yet."""
        return self._outputs[members.start : members.stop]

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        self._outputs = self._outputs[:, rows]


@dataclass(frozen=True, eq=False)
class Certificates:
    """Rule that settles a row when its label is proved to be the infinite ensemble's, by every output in turn.

    See :mod:`ens_plugin.core.certificate`; for votes on two labels, whose order does not matter, there are tables.
    """

    checkpoints: IntArray
    level: float


class CertifiedRows:
    """Source of outputs that judges each of them, and the stopping rule of its rows."""

    def __init__(self, members: Members, rule: Certificates, n_rows: int, n_labels: int) -> None:
        self.together = members.together
        self.checkpoints = rule.checkpoints
        self._members = members
        self._vote = RunningVote(n_rows, n_labels, rule.level)

    def outputs(self, members: range) -> NDArray[Any]:
        """Return the outputs of consecutive members for the rows not dropped yet."""
        outputs = self._members.outputs(members)
        for one in outputs:
            self._vote.add(one)
        return outputs

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        self._members.keep(rows)
        self._vote.keep(rows)

    def settled(self, place: int, total: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows need no further member at a checkpoint; at the last one, all."""
        is_last = place == self.checkpoints.size - 1
        return np.ones(total.shape[0], dtype=bool) if is_last else self._vote.settled


def query_members(members: Members, n_rows: int, rule: StoppingRule | Certificates, n_labels: int, kind: str) -> Totals:
    """Query members block by block, each for the rows whose label is still uncertain, and return sums of outputs."""
    if isinstance(rule, Certificates):
        rows = CertifiedRows(members, rule, n_rows, n_labels)
        return _query_members(rows, n_rows, rows, n_labels, kind)
    return _query_members(members, n_rows, rule, n_labels, kind)


def _query_members(members: Members, n_rows: int, rule: StoppingRule, n_labels: int, kind: str) -> Totals:
    one_sum = n_labels == 2 and kind != "probabilities"
    found = np.zeros(n_rows if one_sum else (n_rows, n_labels))
    queries = np.zeros(n_rows, dtype=np.int64)
    # Memory by label where labels are counted one by one.
    total, left = found.copy(order="F" if kind == "labels" else "C"), np.arange(n_rows)
    begun = 0
    for place, checkpoint in enumerate(rule.checkpoints.tolist()):
        for part in _parts(begun, checkpoint, members.together, total, kind):
            _add(total, members.outputs(part), kind)
        begun = checkpoint
        settled = rule.settled(place, total)
        if not settled.any():
            continue
        done = left[settled]
        found[done], queries[done] = total[settled], checkpoint
        if done.size == left.size:
            break
        kept = np.flatnonzero(~settled)
        members.keep(kept)
        # Taking from the transpose keeps the memory order of the totals.
        total, left = total.T.take(kept, axis=-1).T, left.take(kept)
    return Totals(found, queries)


def query_rows(adapter: EnsembleAdapter, features: Any, rule: StoppingRule | Certificates) -> Totals:
    """Query an adapter's members for prepared rows, in blocks that fit into memory, and return the sums of outputs."""
    assert adapter.classes is not None
    n_rows, n_labels, kind = features.shape[0], int(adapter.classes.size), adapter.output_kind
    kept = RATES.size if isinstance(rule, Certificates) else adapter.info.member_batch_size
    height = max(BLOCK_BYTES // (8 * n_labels * kept), FEWEST_ROWS)
    parts = []
    for start in range(0, n_rows, height):
        block = features if height >= n_rows else features[start : start + height]
        parts.append(query_members(QueriedRows(adapter, block), block.shape[0], rule, n_labels, kind))
    if len(parts) == 1:
        return parts[0]
    return Totals(np.concatenate([part.total for part in parts]), np.concatenate([part.queries for part in parts]))


def codes(totals: Totals, kind: str) -> NDArray[np.intp]:
    """Return the position of each row's predicted label among the classes; of tied labels, the first."""
    if totals.total.ndim == 2:
        return np.asarray(totals.total.argmax(axis=1))
    threshold = totals.queries / 2.0 if kind == "labels" else 0.0
    return np.asarray(totals.total > threshold, dtype=np.intp)


def mean_outputs(totals: Totals, kind: str) -> FloatArray:
    """Return the mean output of the queried members, shape (n_rows, n_labels); votes as indicators."""
    if totals.total.ndim == 2:
        return np.asarray(totals.total / totals.queries[:, None])
    mean = totals.total / totals.queries
    first = 1.0 - mean if kind == "labels" else -mean / 2.0
    return np.column_stack([first, mean if kind == "labels" else mean / 2.0])


def _parts(begun: int, checkpoint: int, together: int, total: FloatArray, kind: str) -> Iterator[range]:
    """Return ranges of members from one checkpoint to the next whose outputs fit into the processor's cache."""
    bytes_of_member = len(total) if kind == "labels" else total.nbytes
    step = max(CACHE_BYTES // max(bytes_of_member, 1), together, 1)
    return (range(start, min(start + step, checkpoint)) for start in range(begun, checkpoint, step))


def _add(total: FloatArray, outputs: NDArray[Any], kind: str) -> None:
    """Add a block of members' outputs to the totals in place, member by member, the libraries' order of summation."""
    if kind == "labels" and total.ndim == 1:
        total += count_members(outputs)
        return
    if kind == "labels":
        _count(total, outputs)
        return
    if total.ndim == 1 and outputs.ndim == 3:
        outputs = outputs[:, :, 1] - outputs[:, :, 0]
    for one in outputs:
        total += one


def _count(total: FloatArray, votes: NDArray[Any]) -> None:
    n_rows, n_labels = total.shape
    if n_labels <= FEW_LABELS:
        for label in range(n_labels):
            total[:, label] += count_members(votes == label)
        return
    cells = votes + np.arange(0, n_rows * n_labels, n_labels)
    total += np.bincount(cells.ravel(), minlength=total.size).reshape(total.shape)


REPLAYED_ROWS = 500


@dataclass(frozen=True, eq=False)
class OutOfBagOutputs:
    """Members' outputs for at most 20 000 random rows that are out of bag or held out, of at least two members each.

    Scores have a label axis.  `first` and `second` are codes of the two labels with most support, the lower code first.
    """

    block: RowBlock
    first: NDArray[np.intp]
    second: NDArray[np.intp]

    @property
    def trials(self) -> FloatArray:
        """Number of out-of-bag members of each row, shape (n_rows,)."""
        return np.asarray(self.block.counted.sum(axis=0), dtype=np.float64)

    @property
    def is_hard(self) -> bool:
        """Whether the outputs are votes for one label."""
        return self.block.outputs.ndim == 2

    def support(self) -> FloatArray:
        """Return the summed support of the labels `first` and `second`, shape (2, n_rows)."""
        by_label = self.block.support
        rows = np.arange(self.first.size)
        return np.stack([by_label[rows, self.first], by_label[rows, self.second]])

    def lead(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (ddof 1) over members of the second label's support less the first's, by row."""
        rows = np.arange(self.first.size)
        outputs, counted, trials = self.block.outputs, self.block.counted, self.trials
        lead = (outputs[:, rows, self.second] - outputs[:, rows, self.first]) * counted
        mean = lead.sum(axis=0) / trials
        squares = (((lead - mean) * counted) ** 2).sum(axis=0)
        return mean, squares / (trials - 1.0)


def out_of_bag_outputs(adapter: EnsembleAdapter, X: Any, features: Any, y: ArrayLike, data: str) -> OutOfBagOutputs:
    """Return the members' outputs for rows that they were not trained on."""
    bags = adapter.bags(X, features, np.asarray(y)) if data == "oob" else None
    n_rows = features.shape[0]
    evidence = tally_rows(
        adapter,
        features,
        bags,
        np.zeros(n_rows, dtype=np.int64),
        np.ones(n_rows),
        rng=np.random.default_rng(0),
        progress=None,
    )
    return _usable(evidence.sample, adapter.n_members)


def _usable(sample: Sample, n_members: int) -> OutOfBagOutputs:
    block = sample.block
    usable = np.flatnonzero(block.counted.sum(axis=0) >= 2)
    if usable.size == 0:
        raise TooFewMembersError(
            f"No row is out of bag for two members (of {n_members}), so no distribution of votes can be fitted. "
            "Train more members. For an ensemble that votes or averages probabilities, the other rules need no such "
            "rows."
        )
    block = sample.select(usable).block
    pair = np.sort(np.argsort(-block.support, axis=1, kind="stable")[:, :2], axis=1)
    return OutOfBagOutputs(block, pair[:, 0], pair[:, 1])


def row_prior(found: OutOfBagOutputs, kind: str) -> RowPrior:
    """Return the fitted distribution over rows of a member's mean output, for the two labels with most support."""
    if kind == "scores":
        mean, variance = found.lead()
        model = fit_margins(mean, np.sqrt(variance), found.trials)
        return RowPrior(model.support, model.point_weights, _close_spread(mean, variance))
    first, second = found.support()
    worth = 1.0 if found.is_hard else _votes_per_member(found)
    mixture = fit_mixture(second, first + second, votes_per_member=worth)
    return RowPrior(mixture.support, mixture.weights, worth)


def _close_spread(mean: FloatArray, variance: FloatArray) -> float:
    """Return one member's standard deviation over all rows, or over the half closest to a tie if that is larger."""
    close = np.abs(mean) <= np.median(np.abs(mean))
    return float(np.sqrt(max(variance.mean(), variance[close].mean(), 1e-300)))


def _votes_per_member(found: OutOfBagOutputs) -> float:
    """Return how many hard votes one member's probabilities are worth, from the rows with a small lead."""
    mean, variance = found.lead()
    trials = found.trials
    # The square of a mean is too high by the variance of the mean.
    as_votes = found.support().sum(axis=0) / trials - mean**2 + variance / trials
    spreads, close = (trials * as_votes, trials * variance), is_close(mean)
    return effective_votes([float(s.sum()) for s in spreads], [float(s[close].sum()) for s in spreads])


def make_stopping_rule(
    adapter: EnsembleAdapter, rule: str, confidence: float, prior: RowPrior | None
) -> StoppingRule | Certificates:
    """Return the stopping rule of a classifier: the votes, by checkpoint, at which a row needs no further member."""
    assert adapter.classes is not None
    target = "infinite" if rule == "infinite" else "full"
    two = adapter.classes.size == 2
    n_members, together, kind = adapter.n_members, adapter.info.member_batch_size, adapter.output_kind
    if rule == "certified":
        level = 1.0 - as_confidence(confidence)
        if kind == "labels" and two:
            return certificate_table(n_members, level, together)
        return Certificates(checkpoints(n_members, together), level)
    if kind == "scores":
        assert prior is not None
        known = prior if rule == "learned" else None
        if two:
            return score_table(known, prior.spread, n_members, confidence, target=target, together=together)
        known = None if known is None else symmetric(known, 0.0)
        return lead_table(known, prior.spread, n_members, confidence, target=target, together=together)
    if kind == "labels" and two:
        votes = uniform_prior(n_members) if rule != "learned" else _vote_prior(prior, n_members)
        return stopping_table(votes, confidence, target=target, together=together)
    assumed = even_prior() if rule != "learned" or prior is None else prior
    if two:
        return vote_share_table(assumed, n_members, confidence, target=target, together=together)
    return duel_table(symmetric(assumed, 0.5), n_members, confidence, target=target, together=together)


def _vote_prior(prior: RowPrior | None, n_members: int) -> VotePrior:
    assert prior is not None
    return learned_prior(prior.support, prior.weights, n_members)


def expected_saving(
    adapter: EnsembleAdapter, table: StoppingRule | Certificates, found: OutOfBagOutputs, prior: RowPrior
) -> tuple[float, float]:
    """Return how many members new rows need on average, and what share gets another label than the whole ensemble's.

    Both are exact, given the fitted distribution of votes, where members vote for one of two labels.  Else the rule
    is applied to members drawn with replacement from each row's own, for at most 500 rows.
    """
    assert adapter.classes is not None
    kind, n_labels = adapter.output_kind, int(adapter.classes.size)
    if kind == "labels" and n_labels == 2:
        assert isinstance(table, StoppingTable)
        return expected_stopping(table, _vote_prior(prior, adapter.n_members))
    outputs = _redrawn(found.block, adapter.n_members)
    n_rows = outputs.shape[1]
    pruned = query_members(ReplayedRows(outputs), n_rows, table, n_labels, kind)
    whole = query_members(ReplayedRows(outputs), n_rows, _WholeEnsemble(adapter.n_members), n_labels, kind)
    return float(pruned.queries.mean()), float(np.mean(codes(pruned, kind) != codes(whole, kind)))


@dataclass(frozen=True)
class _WholeEnsemble:
    """Stopping rule that queries every member for every row."""

    n_members: int

    @property
    def checkpoints(self) -> NDArray[np.int64]:
        return np.array([self.n_members])

    def settled(self, place: int, total: NDArray[Any]) -> NDArray[np.bool_]:
        return np.ones(total.shape[0], dtype=bool)


def _redrawn(block: RowBlock, n_members: int) -> NDArray[Any]:
    """Return the outputs of `n_members` members for some rows, drawn with replacement from a row's out-of-bag ones."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(block.counted.shape[1])[:REPLAYED_ROWS]
    chosen = [rng.choice(np.flatnonzero(block.counted[:, row]), n_members) for row in rows]
    return np.asarray(block.outputs[np.stack(chosen, axis=1), rows])


RULES = ("full", "infinite", "learned", "certified")
DATA = ("oob", "holdout")
FORESTS = (RandomForestClassifier, ExtraTreesClassifier)


@dataclass(frozen=True, eq=False)
class PrunedPrediction:
    """Predictions for some rows, each from the members queried until its label was nearly certain.

    The probabilities, shape (n_rows, n_labels), are the mean output of the members that were queried.  A row for which
    all members were queried is not settled.
    """

    labels: NDArray[Any]
    probabilities: NDArray[np.float64]
    n_queries: NDArray[np.int64]


class DynamicPruningClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Classifier that predicts with an ensemble, but queries members only until a row's label is nearly certain.

    Members are queried in order.  At checkpoints, at growing distances, rows whose label is settled, hence
    unlikely to change, are dropped.  All other rows, those for which every member is queried, get the whole ensemble's
    label.

    Parameters
    ----------
    estimator : classifier
        An ensemble with an adapter in ens_plugin, also inside a Pipeline or a search, which is cloned and fitted; or
        a fitted one in ``sklearn.frozen.FrozenEstimator`` (scikit-learn 1.6 or newer), which is used unchanged.
    rule : {"learned", "full", "infinite", "certified"}, default="learned"
        When a row is settled.  "full" (2009): the whole ensemble's label is the current one with probability
        `confidence`, if all shares of votes are equally likely a priori.  "infinite" (2011): the same for the label
        of the infinite ensemble.  "learned": as "full", with the distribution of vote shares fitted to the
        training rows' out-of-bag votes; queries fewer members for the same agreement.  "certified": the label is
        proved to be the infinite ensemble's, whatever the distribution of votes: for each row, the chance that another
        one is settled is at most 1 - `confidence`.  Queries more members; not for ensembles that add raw scores.
    confidence : float, default=0.99
        Wanted probability that a settled row's label is final, strictly between 0.5 and 1.
    data : {"oob", "holdout"}, default="oob"
        Whether the rows given to `fit` are a frozen ensemble's training rows, in training order, or rows that it
        was not trained on.

    Attributes
    ----------
    estimator_ : fitted classifier
        The whole ensemble; a frozen one is not copied.
    classes_ : ndarray, shape (n_labels,)
    n_members_ : int
        Members of the whole ensemble.
    expected_queries_ : float or None
        Mean number of members that new rows will need.  None where rule is not "learned" and no row is out of bag for
        two members.
    expected_disagreement_ : float or None
        Expected share of new rows with another label than from the whole ensemble.
    n_features_in_ : int
        Where the fitted estimator has it.
    feature_names_in_ : ndarray of str
        Where the fitted estimator has it.

    Notes
    -----
    ``docs/explanations/pruning.md`` has the assumptions of each rule.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin import DynamicPruningClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> pruned = DynamicPruningClassifier(RandomForestClassifier(201, random_state=0)).fit(X, y)
    >>> bool(pruned.expected_queries_ < 40 and pruned.expected_disagreement_ < 0.01)
    True
    >>> pruned.query(X[:3]).labels.tolist()
    [0, 0, 0]
    """

    classes_: NDArray[Any]
    expected_queries_: float | None
    expected_disagreement_: float | None

    def __init__(self, estimator: Any, *, rule: str = "learned", confidence: float = 0.99, data: str = "oob") -> None:
        self.estimator = estimator
        self.rule = rule
        self.confidence = confidence
        self.data = data

    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> DynamicPruningClassifier:
        """Fit the ensemble, unless it is frozen, and compute the votes at which a row needs no further member.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)
        y : array-like, shape (n_rows,)
        **fit_params
            Passed to the ensemble's own ``fit``: `sample_weight`, for example.  With scikit-learn's metadata routing
            on, only the parameters that the ensemble requests.

        Returns
        -------
        DynamicPruningClassifier
            Itself.

        Raises
        ------
        InputError
            If a parameter is out of range, or y holds a single label.
        NotFittedError
            If a frozen ensemble is not fitted.
        UnsupportedModelError
            If there is no adapter for the ensemble, it is a regressor, or it adds raw scores, of which nothing can be
            certified.
        BagError
            If the rule needs out-of-bag rows and there are none, or bags cannot be proved.
        TooFewMembersError
            If the rule needs out-of-bag rows and none is out of bag for two members.
        DataMismatchError
            If rows contradict `data`, or y holds labels that a frozen ensemble was not trained on.
        """
        self._check_parameters()
        model = self._fitted(X, y, fit_params)
        ensemble, rows = unwrap(model, X)
        adapter = _classifier_adapter(ensemble)
        features = adapter.prepare(rows)
        adapter.check_members(features)
        if self.rule == "certified":
            refuse_scores(adapter)
        encode_target(adapter, y)
        found = self._out_of_bag_outputs(adapter, rows, features, y)
        if found is not None and self.data == "oob":
            warn_of_steps(model, X, y)
        prior = None if found is None else row_prior(found, adapter.output_kind)
        table = make_stopping_rule(adapter, self.rule, self.confidence, prior)
        saving = None if found is None or prior is None else expected_saving(adapter, table, found, prior)
        self._keep(model, adapter, table, saving)
        return self

    def query(self, X: Any) -> PrunedPrediction:
        """Return each row's label, the mean output of the members queried for the row, and their number.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)

        Raises
        ------
        NotFittedError
            If called before `fit`.
        InputError
            If X is not a table of values that the ensemble accepts.
        DataMismatchError
            If the columns are not the ones the ensemble was trained on.
        """
        totals, adapter = self._totals(X)
        return PrunedPrediction(
            self.classes_[codes(totals, adapter.output_kind)], _probabilities(totals, adapter), totals.queries
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row, shape (n_rows,); errors as for :meth:`query`."""
        totals, adapter = self._totals(X)
        return np.asarray(self.classes_[codes(totals, adapter.output_kind)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the mean output of the members queried, shape (n_rows, n_labels), highest for the label of `predict`.

        Coarser than the whole ensemble's, which is ``estimator_.predict_proba``: where the first five members agree,
        they may be the only ones queried, and the row gets probability 1.  Errors as for :meth:`query`.
        """
        return _probabilities(*self._totals(X))

    def count_queries(self, X: Any) -> NDArray[np.int64]:
        """Return how many members are queried for each row, shape (n_rows,); errors as for :meth:`query`."""
        return self._totals(X)[0].queries

    def get_metadata_routing(self) -> MetadataRouter:
        """Return scikit-learn's routing of metadata, from `fit` to the ensemble's own ``fit``."""
        return MetadataRouter(owner=type(self).__name__).add(
            estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit")
        )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def _more_tags(self) -> dict[str, Any]:
        # scikit-learn before 1.6 uses these tags in place of __sklearn_tags__.
        return {"allow_nan": self.estimator._get_tags()["allow_nan"]}

    def __getstate__(self) -> dict[str, Any]:
        # The adapter may hold objects that neither pickle nor skops can store; it is made again from the ensemble.
        state = dict(super().__getstate__())
        state.pop("_adapter", None)
        return state

    def _check_parameters(self) -> None:
        if not isinstance(self.rule, str) or self.rule not in RULES:
            raise InputError(f"rule must be one of {', '.join(RULES)}, got {shown(self.rule)}.")
        if not isinstance(self.data, str) or self.data not in DATA:
            raise InputError(f"data must be 'oob' or 'holdout', got {shown(self.data)}.")
        as_confidence(self.confidence)
        if self.data == "holdout" and _frozen_model(self.estimator) is None:
            raise InputError(
                "data='holdout' declares that the ensemble was not trained on the rows given to fit, but it would be "
                "fitted on them. Pass a fitted ensemble as sklearn.frozen.FrozenEstimator(ensemble), or leave "
                "data='oob'."
            )
        refuse_class(self.estimator)
        if known_task(self.estimator) == "regression":
            raise UnsupportedModelError(
                f"{type(self.estimator).__name__} is a regressor: its members have no label to settle. Pass a "
                "classifier."
            )

    def _fitted(self, X: Any, y: ArrayLike, fit_params: dict[str, Any]) -> Any:
        frozen = _frozen_model(self.estimator)
        if frozen is not None:
            return frozen
        if sklearn.get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        _refuse_before_training(self.estimator, self.rule)
        return clone(self.estimator).fit(X, y, **fit_params)

    def _out_of_bag_outputs(
        self, adapter: EnsembleAdapter, rows: Any, features: Any, y: ArrayLike
    ) -> OutOfBagOutputs | None:
        if self.data == "holdout" and _are_training_rows(adapter, features, y):
            raise DataMismatchError(
                "These are the rows the ensemble was trained on. Its members agree on them far more often than on "
                "new rows. Leave out data='holdout', or pass rows that were not used for training."
            )
        try:
            return out_of_bag_outputs(adapter, rows, features, y, self.data)
        except (BagError, TooFewMembersError):
            # The other rules learn no distribution of votes and need no rows; scores need their spread.
            if self.rule == "learned" or adapter.output_kind == "scores":
                raise
            return None

    def _keep(
        self,
        model: Any,
        adapter: EnsembleAdapter,
        table: StoppingRule | Certificates,
        saving: tuple[float, float] | None,
    ) -> None:
        self.estimator_ = model
        assert adapter.classes is not None
        self.classes_ = adapter.classes
        self.n_members_ = adapter.n_members
        self.expected_queries_, self.expected_disagreement_ = (None, None) if saving is None else saving
        self._table = table
        self._adapter = adapter
        take_columns(self, model)

    def _totals(self, X: Any) -> tuple[Totals, EnsembleAdapter]:
        if not hasattr(self, "estimator_"):
            raise UnfittedLearnerError(f"This {type(self).__name__} has not been fitted; call its fit(X, y) first.")
        refuse_lazy(X, "X")
        check_fitted_columns(self, X)
        ensemble, rows = unwrap(self.estimator_, X)
        if not hasattr(self, "_adapter"):
            self._adapter = find_adapter(ensemble)
        adapter = self._adapter
        return query_rows(adapter, adapter.prepare(rows), self._table), adapter


def _refuse_before_training(estimator: Any, rule: str) -> None:
    """Raise, before training, the errors about the ensemble that its class and parameters determine."""
    if missing := [name for name in ("fit", "get_params") if not hasattr(estimator, name)]:
        raise UnsupportedModelError(
            f"estimator is of type {type(estimator).__name__} without {' and '.join(missing)}, which cannot be "
            "copied and trained. Pass an ensemble such as RandomForestClassifier(100), or a trained one as "
            "sklearn.frozen.FrozenEstimator(ensemble)."
        )
    ensemble = estimator
    while isinstance(ensemble, Pipeline) and ensemble.steps:
        ensemble = ensemble.steps[-1][1]
    library, has_own_adapter = find_library(ensemble), is_registered(ensemble)
    # An adapter that a user registered may support boosted ensembles of a built-in library.
    if issubclass(library, EnsembleAdapter) or not has_own_adapter:
        library.refuse_boosting(ensemble)
    if has_own_adapter:
        return
    home = type(ensemble).__module__
    # A search holds its ensemble only once it is fitted.
    if home.startswith("sklearn.") and not home.startswith("sklearn.model_selection.") and not is_known(ensemble):
        raise UnsupportedModelError(no_adapter(ensemble))
    if rule == "learned" and isinstance(ensemble, FORESTS) and not ensemble.bootstrap:
        raise BagError(
            f"This {type(ensemble).__name__} has no bootstrap (bootstrap=False): every tree is trained on every "
            "row, so rule='learned' has no out-of-bag rows to learn from. Set bootstrap=True, or use rule='full', "
            "which needs none."
        )


def _frozen_model(estimator: Any) -> Any | None:
    """Return the fitted model in scikit-learn's FrozenEstimator, or None."""
    frozen = sys.modules.get("sklearn.frozen")
    return estimator.estimator if frozen is not None and isinstance(estimator, frozen.FrozenEstimator) else None


def _classifier_adapter(ensemble: Any) -> EnsembleAdapter:
    adapter = find_adapter(ensemble)
    if adapter.classes is None:
        raise UnsupportedModelError(
            f"This {type(ensemble).__name__} predicts values: its members have no label to settle. Pass a classifier."
        )
    if adapter.classes.size < 2:
        raise InputError(
            f"The ensemble was trained on one class only, {adapter.classes.tolist()[0]!r}, and every row "
            "gets it. Train it on rows of at least two classes."
        )
    return adapter


def _probabilities(totals: Totals, adapter: EnsembleAdapter) -> NDArray[np.float64]:
    mean = mean_outputs(totals, adapter.output_kind)
    return adapter.inverse_link(mean) if adapter.output_kind == "scores" else mean


def _are_training_rows(adapter: EnsembleAdapter, features: Any, y: ArrayLike) -> bool:
    return adapter.verify_rows(features, np.asarray(y)) == "training"
