"""Rules for when a row needs no further member of a fitted ensemble, and the queries expected to be saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.row_blocks import tally_rows
from ens_plugin.core.row_models.effective_votes import effective_votes, is_close
from ens_plugin.core.row_models.margins import fit_margins
from ens_plugin.core.row_models.mixture import fit_mixture
from ens_plugin.core.stopping.soft_votes import (
    RowPrior,
    duel_table,
    even_prior,
    lead_table,
    score_table,
    symmetric,
    vote_share_table,
)
from ens_plugin.core.stopping.votes import (
    StoppingTable,
    VotePrior,
    expected_stopping,
    learned_prior,
    stopping_table,
    uniform_prior,
)
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import TooFewMembersError
from ens_plugin.learners.pruning.member_queries import ReplayedRows, StoppingRule, codes, query_members

__all__ = ["OutOfBagOutputs", "expected_saving", "make_stopping_rule", "out_of_bag_outputs", "row_prior"]

REPLAYED_ROWS = 500
SEED = 0


@dataclass(frozen=True, eq=False)
class OutOfBagOutputs:
    """Members' outputs for at most 20 000 random rows that are out of bag or held out.

    Attributes
    ----------
    block : RowBlock
        Outputs, and which are out of bag or held out, at least two for each row.  Scores have a label axis.
    first, second : ndarray of int, shape (n_rows,)
        Codes of the two labels with most support, the lower code first.
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
    """Return the members' outputs for rows that they were not trained on.

    Parameters
    ----------
    adapter : EnsembleAdapter
        Of a classifier.
    X : rows in the form given to the ensemble
    features : the same rows, prepared
    y : array-like, shape (n_rows,)
        Labels of the rows, for the proof of the bags.
    data : {"oob", "holdout"}
        Training rows, in training order, or rows that no member was trained on.

    Raises
    ------
    BagError
        If it cannot be determined which training rows are out of bag.
    TooFewMembersError
        If no row has two members out of bag.
    """
    bags = adapter.bags(X, features, np.asarray(y)) if data == "oob" else None
    n_rows = features.shape[0]
    evidence = tally_rows(
        adapter,
        features,
        bags,
        np.zeros(n_rows, dtype=np.int64),
        np.ones(n_rows),
        with_path=False,
        rng=np.random.default_rng(SEED),
        progress=None,
    )
    return _usable(evidence.sample, adapter.n_members)


def _usable(sample: Sample, n_members: int) -> OutOfBagOutputs:
    block = sample.block
    usable = np.flatnonzero(block.counted.sum(axis=0) >= 2)
    if usable.size == 0:
        raise TooFewMembersError(
            f"No row is out of bag for two members (of {n_members}), so no distribution of votes can be fitted. "
            "Train more members. For an ensemble that votes or averages probabilities, rule='full' or 'infinite' "
            "needs no such rows."
        )
    block = sample.select(usable).block
    pair = np.sort(np.argsort(-block.support, axis=1, kind="stable")[:, :2], axis=1)
    return OutOfBagOutputs(block, pair[:, 0], pair[:, 1])


def row_prior(found: OutOfBagOutputs, kind: str) -> RowPrior:
    """Return the fitted distribution over rows of a member's mean output, for the two labels with most support.

    Parameters
    ----------
    found : OutOfBagOutputs
    kind : {"labels", "probabilities", "scores"}
    """
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


def make_stopping_rule(adapter: EnsembleAdapter, rule: str, confidence: float, prior: RowPrior | None) -> StoppingRule:
    """Return the stopping rule of a classifier: the votes, by checkpoint, at which a row needs no further member.

    Parameters
    ----------
    adapter : EnsembleAdapter
    rule : {"full", "infinite", "learned"}
    confidence : float
    prior : RowPrior or None
        Fitted to rows; "full" and "infinite" use only its spread, and only for scores.
    """
    assert adapter.classes is not None
    target = "infinite" if rule == "infinite" else "full"
    two = adapter.classes.size == 2
    n_members, together, kind = adapter.n_members, adapter.info.member_batch_size, adapter.output_kind
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
    adapter: EnsembleAdapter, table: StoppingRule, found: OutOfBagOutputs, prior: RowPrior
) -> tuple[float, float]:
    """Return how many members new rows need on average, and what share gets another label than the whole ensemble's.

    Both are exact, given the fitted distribution of votes, where members vote for one of two labels.  Else the rule
    is applied to members drawn with replacement from each row's own, for at most 500 rows.

    Parameters
    ----------
    adapter : EnsembleAdapter
    table : StoppingRule
    found : OutOfBagOutputs
    prior : RowPrior
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
    rng = np.random.default_rng(SEED)
    rows = rng.permutation(block.counted.shape[1])[:REPLAYED_ROWS]
    chosen = [rng.choice(np.flatnonzero(block.counted[:, row]), n_members) for row in rows]
    return np.asarray(block.outputs[np.stack(chosen, axis=1), rows])
