"""Predictions that query members in turn until the others cannot change the label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import model_errors
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import inner_ensemble, unwrap
from ens_plugin.analysis.evidence import BLOCK_BYTES, tally_rows
from ens_plugin.analysis.steps import warn_of_steps
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.row_model import effective_votes, is_close
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock, count_members
from ens_plugin.core.validation import FloatArray, IntArray, shown
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError, UnsupportedModelError
from ens_plugin.papers.dynamic_pruning_2009.certificate import RunningVote, refuse_unproved
from ens_plugin.papers.dynamic_pruning_2009.stopping import (
    DuelTable,
    LeadTable,
    RowPrior,
    StoppingTable,
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
from ens_plugin.papers.members import prepared_rows
from ens_plugin.papers.wrong_votes import as_confidence, fit_mixture

__all__ = [
    "RULES",
    "OutOfBagOutputs",
    "PrunedEnsemble",
    "PrunedPrediction",
    "prune",
    "row_prior",
]

RULES = ("full", "infinite", "learned", "certified")
FEWEST_ROWS = 256


@dataclass(frozen=True, eq=False)
class PrunedPrediction:
    """Labels and mean outputs for rows, by the members that were queried for each.

    Attributes
    ----------
    labels : ndarray, shape (n_rows,)
    probabilities : ndarray, shape (n_rows, n_labels)
        Mean output of the members queried, highest for the label.  Coarser than the whole ensemble's: where the first
        five members agree, they may be the only ones queried, and the row has probability 1.
    n_queries : ndarray of int, shape (n_rows,)
        Members queried.  A row for which all were is not settled, and has the whole ensemble's label.
    """

    labels: NDArray[Any]
    probabilities: FloatArray
    n_queries: IntArray


@dataclass(frozen=True)
class Certificates:
    """Rule that settles a row when its label is proved to be the infinite ensemble's, by every output in turn.

    See :mod:`ens_plugin.core.certificate`; for votes on two labels, whose order does not matter, there are tables.
    """

    checkpoints: IntArray
    level: float


StoppingRule = StoppingTable | DuelTable | LeadTable | Certificates


@dataclass(frozen=True, eq=False)
class PrunedEnsemble:
    """Fitted ensemble that predicts by querying members until a row's label is nearly certain; :func:`prune` makes it.

    Attributes
    ----------
    model : fitted classifier
        The whole ensemble, not copied.
    n_members : int
        Members of the whole ensemble.
    rule : StoppingTable, DuelTable, LeadTable or Certificates
        Numbers of members after which rows may be settled, and what settles them.
    expected_queries, expected_disagreement : float or None
        Mean number of members that new rows will need, and share of them with another label than the whole
        ensemble's: exact for votes on two labels, given the fitted distribution of votes; None for others.
    """

    model: Any
    n_members: int
    rule: StoppingRule
    expected_queries: float | None
    expected_disagreement: float | None

    def query(self, X: Any) -> PrunedPrediction:
        """Return each row's label, the mean output of the members queried for the row, and their number.

        Members are queried in order.  At checkpoints, at growing distances, rows whose label is settled are dropped.

        Parameters
        ----------
        X : array-like, shape (n_rows, n_features)

        Raises
        ------
        EnsPluginError
            As :func:`ens_plugin.agreement`.
        """
        with model_errors(self.model):
            _, rows = unwrap(self.model, X, are_fresh=True)
            return _query(self._adapter, self._adapter.prepare(rows), self.rule)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row, shape (n_rows,); errors as for :meth:`query`."""
        return self.query(X).labels

    @cached_property
    def _adapter(self) -> EnsembleAdapter:
        return find_adapter(inner_ensemble(self.model))

    def __getstate__(self) -> dict[str, Any]:
        # The adapter may hold objects that cannot be pickled; it is made again from the model.
        return {name: value for name, value in vars(self).items() if name != "_adapter"}


def prune(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    rule: str = "learned",
    confidence: float = 0.99,
    data: str = "oob",
) -> PrunedEnsemble:
    """Return an ensemble that queries its members only until a row's label is nearly certain.

    Parameters
    ----------
    model : fitted classifier
        As for :func:`ens_plugin.analyze`.
    X, y : array-like
        The training rows, in training order, or held-out rows: how members vote on them is learned.
    rule : {"learned", "full", "infinite", "certified"}, default="learned"
        When a row is settled.  "full" (2009): the whole ensemble's label is the current one with probability
        `confidence`, if all shares of votes are equally likely a priori.  "infinite" (2011): the same for the label
        of the infinite ensemble.  "learned": as "full", with the distribution of vote shares fitted to the
        out-of-bag votes; queries fewer members for the same agreement.  "certified": the label is proved to be the
        infinite ensemble's, whatever the distribution of votes: for each row, the chance that another one is settled
        is at most 1 - `confidence`.  Queries more members; not for ensembles that add raw scores.
    confidence : float, default=0.99
        Strictly between 0.5 and 1.  But for "certified", it holds on average over rows and over the ensemble's seeds;
        all rows meet the same first members, so that a single ensemble may have more other labels than expected.
    data : {"oob", "holdout"}, default="oob"
        Whether the rows are the training rows, or rows that no member was trained on.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError for regressors, and with "certified" for raw scores;
        BagError and TooFewMembersError where no row is out of bag for two members, and the rule or raw scores need
        such rows.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers.dynamic_pruning_2009 import prune
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(201, random_state=0).fit(X, y)
    >>> pruned = prune(forest, X, y)
    >>> pruned.expected_queries < 40, pruned.expected_disagreement < 0.01, pruned.predict(X[:3]).tolist()
    (True, True, [0, 0, 0])
    """
    for name, value, known in (("rule", rule, RULES), ("data", data, ("oob", "holdout"))):
        if not isinstance(value, str) or value not in known:
            raise InputError(f"{name} must be one of {', '.join(known)}, got {shown(value)}.")
    wanted = as_confidence(confidence)
    with model_errors(model):
        adapter, rows, features, _ = prepared_rows(model, X, y, are_fresh=data == "holdout")
        if adapter.classes is None:
            raise UnsupportedModelError(
                f"This {type(adapter.model).__name__} predicts values: its members have no label to settle. Pass a "
                "classifier."
            )
        if rule == "certified":
            refuse_unproved(adapter.model, adapter.output_kind)
        found = None
        try:
            found = _out_of_bag_outputs(adapter, rows, features, y, data)
        except (BagError, TooFewMembersError):
            # The other rules learn no distribution of votes and need no rows; scores need their spread.
            if rule == "learned" or adapter.output_kind == "scores":
                raise
        if found is not None and data == "oob":
            warn_of_steps(model, X, y)
    prior = None if found is None else row_prior(found, adapter.output_kind)
    stopping = _stopping_rule(adapter, rule, wanted, prior)
    queries, disagreement = None, None
    if prior is not None and _votes_on_two(adapter):
        assert isinstance(stopping, StoppingTable)
        votes = learned_prior(prior.support, prior.weights, adapter.n_members)
        queries, disagreement = expected_stopping(stopping, votes)
    return PrunedEnsemble(model, adapter.n_members, stopping, queries, disagreement)


def _n_labels(adapter: EnsembleAdapter) -> int:
    assert adapter.classes is not None
    return int(adapter.classes.size)


def _votes_on_two(adapter: EnsembleAdapter) -> bool:
    return adapter.output_kind == "labels" and _n_labels(adapter) == 2


def _query(adapter: EnsembleAdapter, features: Any, rule: StoppingRule) -> PrunedPrediction:
    """Query an adapter's members for prepared rows, in blocks of rows that fit into memory."""
    n_rows, most = features.shape[0], int(np.diff(rule.checkpoints, prepend=0).max())
    height = max(BLOCK_BYTES // (8 * _n_labels(adapter) * most), FEWEST_ROWS)
    blocks = [features] if height >= n_rows else [features[at : at + height] for at in range(0, n_rows, height)]
    totals, queries = zip(*(_query_block(adapter, block, rule) for block in blocks), strict=True)
    return _prediction(adapter, np.concatenate(totals), np.concatenate(queries))


def _query_block(adapter: EnsembleAdapter, features: Any, rule: StoppingRule) -> tuple[FloatArray, IntArray]:
    """Return the sums of the queried members' outputs by row, and the number of members in each sum.

    Of two labels, the sums are the votes for the second, or its score less the first's; else votes, probabilities or
    scores by label.
    """
    n_rows, n_labels = features.shape[0], _n_labels(adapter)
    is_one_sum = n_labels == 2 and adapter.output_kind != "probabilities"
    found = np.zeros(n_rows if is_one_sum else (n_rows, n_labels))
    queries, left, total = np.zeros(n_rows, dtype=np.int64), np.arange(n_rows), found.copy()
    vote = RunningVote(n_rows, n_labels, rule.level) if isinstance(rule, Certificates) else None
    begun = 0
    for place, checkpoint in enumerate(rule.checkpoints.tolist()):
        outputs = adapter.outputs(features, range(begun, checkpoint))
        _add(total, outputs, adapter.output_kind)
        begun = checkpoint
        if vote is not None:
            for one in outputs:
                vote.add(one)
        if checkpoint == adapter.n_members:
            settled = np.ones(left.size, dtype=bool)
        elif vote is not None:
            settled = vote.settled
        else:
            assert not isinstance(rule, Certificates)
            settled = rule.settled(place, total)
        done, kept = left[settled], np.flatnonzero(~settled)
        found[done], queries[done] = total[settled], checkpoint
        if kept.size == 0:
            break
        if done.size:
            # For arrays, take is several times as fast as indexing.
            features = features.take(kept, axis=0) if isinstance(features, np.ndarray) else features[kept]
            total, left = total.take(kept, axis=0), left.take(kept)
            if vote is not None:
                vote.keep(kept)
    return found, queries


def _add(total: FloatArray, outputs: NDArray[Any], kind: str) -> None:
    """Add a block of members' outputs to the totals in place, member by member, the libraries' order of summation."""
    if kind == "labels" and total.ndim == 1:
        total += count_members(outputs)
    elif kind == "labels":
        for label in range(total.shape[1]):
            total[:, label] += count_members(outputs == label)
    else:
        for one in outputs:
            total += one[:, 1] - one[:, 0] if one.ndim > total.ndim else one


def _prediction(adapter: EnsembleAdapter, total: FloatArray, queries: IntArray) -> PrunedPrediction:
    """Return labels, of tied ones the first, and mean outputs, with votes as indicators."""
    mean = total / (queries if total.ndim == 1 else queries[:, None])
    if total.ndim == 1:
        codes = np.asarray(mean > (0.5 if adapter.output_kind == "labels" else 0.0), dtype=np.intp)
        mean = np.column_stack([1.0 - mean, mean] if adapter.output_kind == "labels" else [-mean / 2.0, mean / 2.0])
    else:
        codes = total.argmax(axis=1)
    assert adapter.classes is not None
    probabilities = adapter.inverse_link(mean) if adapter.output_kind == "scores" else mean
    return PrunedPrediction(adapter.classes[codes], probabilities, queries)


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


def _out_of_bag_outputs(adapter: EnsembleAdapter, X: Any, features: Any, y: ArrayLike, data: str) -> OutOfBagOutputs:
    target = np.asarray(y)
    if data == "holdout" and adapter.verify_rows(features, target) == "training":
        raise DataMismatchError(
            "These are the rows the ensemble was trained on. Its members agree on them far more often than on "
            "new rows. Leave out data='holdout', or pass rows that were not used for training."
        )
    bags = adapter.bags(X, features, target) if data == "oob" else None
    n_rows, rng = features.shape[0], np.random.default_rng(0)
    no_target, weight = np.zeros(n_rows, dtype=np.int64), np.ones(n_rows)
    evidence = tally_rows(adapter, features, bags, no_target, weight, rng=rng, progress=None)
    return _of_sample(evidence.sample, adapter.n_members)


def _of_sample(sample: Sample, n_members: int) -> OutOfBagOutputs:
    usable = np.flatnonzero(sample.block.counted.sum(axis=0) >= 2)
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
    is_hard = found.block.outputs.ndim == 2
    worth = 1.0 if is_hard else _votes_per_member(found)
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


def _stopping_rule(adapter: EnsembleAdapter, rule: str, confidence: float, prior: RowPrior | None) -> StoppingRule:
    """Return what settles a row at each checkpoint, by the rule's name and the kind of the members' outputs."""
    schedule = checkpoints(adapter.n_members, adapter.info.member_batch_size)
    target, learned = "infinite" if rule == "infinite" else "full", prior if rule == "learned" else None
    is_pair = _n_labels(adapter) == 2
    if rule == "certified":
        level = 1.0 - confidence
        return certificate_table(schedule, level) if _votes_on_two(adapter) else Certificates(schedule, level)
    if adapter.output_kind == "scores":
        assert prior is not None
        if is_pair:
            return score_table(learned, prior.spread, schedule, confidence, target)
        mirrored = None if learned is None else symmetric(learned, 0.0)
        return lead_table(mirrored, prior.spread, schedule, confidence, target)
    if _votes_on_two(adapter):
        n_members = adapter.n_members
        even = uniform_prior(n_members)
        votes = even if learned is None else learned_prior(learned.support, learned.weights, n_members)
        return stopping_table(votes, schedule, confidence, target)
    assumed = even_prior() if learned is None else learned
    if is_pair:
        return vote_share_table(assumed, schedule, confidence, target)
    return duel_table(symmetric(assumed, 0.5), schedule, confidence, target)
