"""The rows that a model is judged by: as its adapter takes them, checked, with the bags of training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.arguments import encode_target, evaluation_weights, row_weights, target_array
from ens_plugin.analysis.checks import is_sorted, near_copy_doubts
from ens_plugin.analysis.copies import RowLikeness, hash_rows, held_out_copies, refuse_copies, row_likeness
from ens_plugin.analysis.evidence import BlockReader
from ens_plugin.analysis.origin import doubts_about_changed_rows, judge_held_out_rows, training_bags
from ens_plugin.analysis.weights import reach_of_groups
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.sample import Sample, spread_rows
from ens_plugin.core.validation import FloatArray, counted, in_few_bytes, shown
from ens_plugin.errors import DataMismatchError, InputError
from ens_plugin.findings import Finding

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics import ResolvedMetric
    from ens_plugin.analysis.options import AnalysisOptions

__all__ = [
    "RowChoice",
    "Rows",
    "compare_rows_with_stored",
    "compare_with_stored",
    "outputs_of_some",
    "read_rows",
    "refuse_other_outputs",
]

COMPARED_ROWS = 1000

RowChoice = Callable[[EnsembleAdapter, Any, Bags], NDArray[np.intp] | None]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows as the adapter of a model takes them, checked, with their bags if the model was trained on them.

    Attributes
    ----------
    features : prepared rows, n_rows of them
    labels : ndarray, shape (n_rows,) or (n_rows, 1)
        y as the user gave it.
    target : ndarray, shape (n_rows,)
        Label codes, in the smallest unsigned integers that hold them, or values.  Codes are compared with each other
        and select entries of arrays; whoever computes with them converts them first.
    weight : ndarray of float64, shape (n_rows,)
        Weights in the evaluation.
    bags : Bags or None
        Of training rows: with groups, a row counts as drawn if any row of its group was.  None: held-out rows.
    proof : BagProof
        Of the bags as they were drawn.
    chances : ndarray of float64, shape (n_rows,), or None
        Chance of each training row to be left out of one bag, where they differ, are known and no groups are given.
    positions : ndarray of int, shape (n_rows,), or None
        Places of these rows among those given; None where they are all of them.
    is_sorted : bool
        Whether the target or a column of training rows is in order.
    table : ndarray of two dimensions, CSR matrix, DataFrame or None
        Training rows without groups, as far as they are a table.
    """

    adapter: EnsembleAdapter
    features: Any
    labels: NDArray[Any]
    target: NDArray[Any]
    weight: FloatArray
    likeness: RowLikeness
    bags: Bags | None = None
    proof: BagProof = field(default_factory=BagProof)
    chances: FloatArray | None = None
    positions: NDArray[np.intp] | None = None
    is_sorted: bool = False
    table: Any = None
    findings: tuple[Finding, ...] = ()

    @property
    def groups(self) -> NDArray[np.int64] | None:
        """The group of each row, shape (n_rows,); None where the user gave no groups."""
        return self.likeness.groups

    def choose(self, choose_rows: RowChoice | None) -> Rows:
        """Return the training rows whose places `choose_rows` returns; all rows if it is None or returns None."""
        if choose_rows is None or self.bags is None:
            return self
        chosen = choose_rows(self.adapter, self.features, self.bags)
        if chosen is None:
            return self
        return replace(
            self,
            features=self.features[chosen],
            labels=self.labels[chosen],
            target=self.target[chosen],
            weight=self.weight[chosen],
            likeness=self.likeness.take(chosen),
            bags=self.bags.take(chosen),
            chances=None if self.chances is None else self.chances[chosen],
            positions=chosen,
            table=None,
        )

    def without_features(self) -> Rows:
        """Return the rows without features and bags, which need most memory, once the members' outputs are read."""
        return replace(self, features=None, bags=None, table=None)

    def place(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the positions of some of these rows among those that the user gave."""
        return rows if self.positions is None else self.positions[rows]


def read_rows(
    adapter: EnsembleAdapter, X: Any, y: ArrayLike, options: AnalysisOptions, metric: ResolvedMetric | None
) -> Rows:
    """Return the rows as an adapter takes them, after every check that needs no outputs of all members.

    Of training rows, the bags are read and proved; of held-out rows, those that the model was trained on are refused.
    Outputs that the library stored are compared where groups are given, because they are of the bags without groups.
    """
    adapter.check_form()
    labels = target_array(y)
    target = _narrowed(encode_target(adapter, labels), adapter)
    weight = row_weights(evaluation_weights(adapter, labels, options.sample_weight), target.size, metric)
    _refuse_one_value(adapter, labels.reshape(-1)[weight > 0], target[weight > 0], metric)
    features = _prepared(adapter, X, target.size)
    hashed = hash_rows(features, X)
    table = None if hashed is None else hashed.table
    likeness = row_likeness(options.groups, hashed, target, options.data)
    adapter.check_members(features)
    rows = Rows(adapter, features, labels, target, weight, likeness)
    if options.data == "holdout":
        of_origin = judge_held_out_rows(adapter, features, labels)
        changed = doubts_about_changed_rows(adapter, features, target)
        copies = held_out_copies(hashed, target, weight) if options.groups is None else ()
        return replace(rows, findings=(*changed, *copies, *of_origin))
    del hashed
    given = None if options.sample_weight is None else weight
    rows = _with_bags(rows, training_bags(adapter, X, features, labels, target, given))
    if table is None or likeness.groups is not None:
        return rows
    return replace(rows, findings=near_copy_doubts(table, target), is_sorted=is_sorted(table, target), table=table)


def compare_rows_with_stored(adapter: EnsembleAdapter, features: Any, bags: Bags, target: NDArray[Any]) -> None:
    """Raise DataMismatchError if stored out-of-bag outputs differ from those computed before rows are grouped."""
    if adapter.stored_oob_outputs() is None:
        return
    sample = outputs_of_some(adapter, features, bags, target, COMPARED_ROWS)
    compare_with_stored(adapter, sample, sample.rows)


def outputs_of_some(adapter: EnsembleAdapter, features: Any, bags: Bags, target: NDArray[Any], most: int) -> Sample:
    """Return what all members predict for at most `most` rows, spread evenly over the training rows."""
    rows = spread_rows(target.size, most)
    everything, all_rows = slice(0, rows.size), np.arange(rows.size)
    reader = BlockReader(
        adapter, features[rows], bags.take(rows), target[rows], np.ones(rows.size), all_rows, with_path=False
    )
    return replace(reader.read(everything).sample, rows=rows)


def compare_with_stored(adapter: EnsembleAdapter, sample: Sample, rows: NDArray[np.intp]) -> None:
    """Raise an error if out-of-bag outputs that the library stored differ from those computed here."""
    if adapter.stored_oob_outputs() is not None:
        refuse_other_outputs(adapter, sample.mean_outputs(), np.asarray(sample.block.counted.any(axis=0)), rows)


def refuse_other_outputs(
    adapter: EnsembleAdapter, ours: FloatArray, known: NDArray[np.bool_], rows: NDArray[np.intp]
) -> None:
    """Refuse mean out-of-bag outputs that differ from those the library stored; accept them where it stored none."""
    stored = adapter.stored_oob_outputs()
    if stored is None:
        return
    theirs = np.asarray(stored, dtype=np.float64)[rows]
    known = known & np.isfinite(theirs.reshape(theirs.shape[0], -1)).all(axis=1)
    scale = max(float(np.abs(theirs[known]).max(initial=0.0)), 1e-12)
    differing = np.abs(ours - theirs).reshape(known.size, -1).max(axis=1) > 1e-4 * scale
    if np.any(differing & known):
        n_known = np.count_nonzero(known)
        raise DataMismatchError(
            f"{counted(np.count_nonzero(differing & known), 'has', 'have', of=f'{n_known} rows')} "
            "other out-of-bag outputs than the model stored at training. X and y must be the training rows in training "
            "order; for other rows pass {data='holdout'}."
        )


def _refuse_one_value(
    adapter: EnsembleAdapter, labels: NDArray[Any], target: NDArray[Any], metric: ResolvedMetric | None
) -> None:
    """Refuse rows with weight that have one label, or one value where the metric is the share of their spread."""
    if np.ptp(target) > 0:
        return
    value = shown(labels.tolist()[0])
    if adapter.classes is not None:
        raise InputError(
            # Estimator checks of scikit-learn look for the word "class".
            f"All rows with a positive sample_weight have the label {value}: the error of one class does not "
            "describe the others. Give rows of at least two classes some weight."
        )
    if metric is not None and metric.is_share:
        raise InputError(
            f"metric {metric.name!r} is the share of the spread of y that is explained, and y is {value} for all rows, "
            "without any spread. Use 'neg_mean_squared_error' or 'neg_mean_absolute_error'."
        )


def _narrowed(target: NDArray[Any], adapter: EnsembleAdapter) -> NDArray[Any]:
    """Return label codes in the smallest unsigned integers that hold them; values as they are."""
    return target if adapter.classes is None else in_few_bytes(target, adapter.classes.size - 1)


def _with_bags(rows: Rows, bags: Bags) -> Rows:
    """Return training rows with their bags, by group where groups are given; refuse copies of each other."""
    adapter, likeness, chances = rows.adapter, rows.likeness, None
    if likeness.groups is None:
        chances = adapter.left_out_chances()
    if likeness.repeats is not None and likeness.repeats.copied.any():
        repeats = replace(likeness.repeats, reach=reach_of_groups(bags))
        refuse_copies(repeats, rows.weight)
        likeness = replace(likeness, repeats=repeats)
    if likeness.groups is not None:
        compare_rows_with_stored(adapter, rows.features, bags, rows.target)
        bags = bags.by_group(likeness.groups)
    return replace(rows, bags=bags, likeness=likeness, proof=bags.proof, chances=chances)


def _prepared(adapter: EnsembleAdapter, X: Any, n_targets: int) -> Any:
    """Return rows as an adapter prepares them; refuse none, or another number than `n_targets`."""
    features = adapter.prepare(X)
    if features.shape[0] == 0:
        raise InputError("X has no rows; pass the rows to estimate the error on.")
    if features.shape[0] != n_targets:
        raise InputError(
            f"X has {counted(features.shape[0], 'row')} and y has {n_targets}; they must be the same rows."
        )
    return features
