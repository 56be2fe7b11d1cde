"""The rows of an analysis, read and checked, and where they come from: training rows with their bags, or held out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import shortened
from ens_plugin.adapters.registry import find_library
from ens_plugin.adapters.trees import columns_outside
from ens_plugin.analysis.arguments import encode_target, evaluation_weights, row_weights, target_array
from ens_plugin.analysis.checks import AlikeRows, is_sorted
from ens_plugin.analysis.copies import RowLikeness, hash_rows, held_out_copies, row_likeness
from ens_plugin.analysis.evidence import BlockReader
from ens_plugin.core.alike_rows import (
    are_own_labels,
    are_own_values,
)
from ens_plugin.core.bags import BagProof, Bags, drawn_share_of_error, is_lower_where_drawn
from ens_plugin.core.sample import Sample, spread_rows
from ens_plugin.core.tally import Tally, ValueTally
from ens_plugin.core.validation import CELLS_AT_ONCE, FloatArray, counted, in_few_bytes, shown
from ens_plugin.errors import BagError, DataMismatchError, EnsPluginError, InputError
from ens_plugin.findings import Finding, finding

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics import ResolvedMetric
    from ens_plugin.analysis.options import AnalysisOptions


COMPARED_ROWS = 1000


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
    cell_bags : Bags or None
        Of training rows among which there are copies: a row counts as drawn if any row of equal features was.
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
    cell_bags: Bags | None = None
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

    def take(self, chosen: NDArray[np.intp]) -> Rows:
        """Return some of the training rows, by their places, ascending; these rows themselves if all are chosen."""
        if chosen.size == self.target.size:
            return self
        return replace(
            self,
            features=self.features[chosen],
            labels=self.labels[chosen],
            target=self.target[chosen],
            weight=self.weight[chosen],
            likeness=self.likeness.take(chosen),
            bags=None if self.bags is None else self.bags.take(chosen),
            cell_bags=None if self.cell_bags is None else self.cell_bags.take(chosen),
            chances=None if self.chances is None else self.chances[chosen],
            positions=chosen,
            table=None,
        )

    def without_features(self) -> Rows:
        """Return the rows without features and bags, which need most memory, once the members' outputs are read."""
        return replace(self, features=None, bags=None, cell_bags=None, table=None)

    def alike(self) -> AlikeRows | None:
        """Return what tells which training rows may belong together; None where the user gave groups."""
        repeats = self.likeness.repeats
        if self.bags is None or repeats is None:
            return None
        bags = self.bags if self.positions is None else None
        return AlikeRows(repeats.copied, self.cell_bags, bags, self.table, self.is_sorted)

    def place(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the positions of some of these rows among those that the user gave."""
        return rows if self.positions is None else self.positions[rows]


def read_rows(
    adapter: EnsembleAdapter, X: Any, y: ArrayLike, options: AnalysisOptions, metric: ResolvedMetric | None
) -> Rows:
    """Return the rows as an adapter takes them, after every check that needs no outputs of all members."""
    # Of training rows, the bags are read and proved; of held-out rows, those that the model was trained on are refused.
    # Outputs that the library stored are compared where groups are given, because they are of the bags without groups.
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
    return replace(rows, is_sorted=is_sorted(table, target), table=table)


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
    reader = BlockReader(adapter, features[rows], bags.take(rows), target[rows], np.ones(rows.size), all_rows)
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
            "order; for other rows pass data='holdout'."
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
    """Return training rows with their bags, by group where groups are given, and by cell where rows are copied."""
    adapter, likeness, chances = rows.adapter, rows.likeness, None
    cell_bags = likeness.cell_bags(bags)
    if likeness.groups is None:
        chances = adapter.left_out_chances()
    if likeness.groups is not None:
        compare_rows_with_stored(adapter, rows.features, bags, rows.target)
        bags = bags.by_group(likeness.groups)
    return replace(rows, bags=bags, cell_bags=cell_bags, proof=bags.proof, chances=chances)


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


# Drawing the bags of more cells takes seconds.
MOST_CELLS = 100_000_000


def doubts_about_changed_rows(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> tuple[Finding, ...]:
    """Return a doubt about rows that members predict better where they drew the training row at the same position."""
    share = changed_rows_share(adapter, features, target)
    if share is None:
        return ()
    sentence = (
        "These rows seem to be the training rows, with values changed since: rounded, scaled or filled in. Members "
        f"that drew the training row at the same position have {100 * share:.0f} % of the error of the others. If "
        "they are, the error is far too low. Pass the values the model was trained on, not as held-out rows, or pass "
        "rows that were not used for training."
    )
    return (finding("changed-training-rows", sentence, share_of_error=share),)


def changed_rows_share(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> float | None:
    """Return the error of members that drew the row at the same position, as a share of the error of the others."""
    chosen = spread_rows(len(target), COMPARED_ROWS)
    own = target[chosen] if adapter.classes is None else target[chosen].astype(np.int64)
    in_bag = _drawn_positions(adapter, target, chosen, own)
    if in_bag is None:
        return None
    errors = _member_errors(adapter, features[chosen], own)
    return drawn_share_of_error(errors, in_bag) if is_lower_where_drawn(errors, in_bag) else None


def _drawn_positions(
    adapter: EnsembleAdapter, target: NDArray[Any], chosen: NDArray[np.intp], own: NDArray[Any]
) -> NDArray[np.bool_] | None:
    """Return which members drew the training rows at the `chosen` positions; None for another number of rows."""
    if adapter.loss_name is not None or target.ndim > 1:
        return None
    if target.size * adapter.n_members > MOST_CELLS:
        return None
    try:
        bags = adapter.bags_by_position(target.size)(chosen, own)
    except EnsPluginError:  # another number of rows, or bags that do not follow from positions
        return None
    # The trees of one member may have a bag each.
    return bags.in_bag() if bags.n_members == adapter.n_members else None


def _member_errors(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> NDArray[np.float64]:
    """Return the errors of :func:`_errors`, of some members at a time: their outputs for many labels are large."""
    n_labels = 1 if adapter.classes is None else len(adapter.classes)
    at_once = max(CELLS_AT_ONCE // (target.size * n_labels), 1)
    parts = (range(start, min(start + at_once, adapter.n_members)) for start in range(0, adapter.n_members, at_once))
    return np.concatenate([_errors(adapter, adapter.outputs(features, part), target) for part in parts])


def _errors(adapter: EnsembleAdapter, outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
    """Return the absolute error of each member about each row, 0 or 1 for labels, shape (n_members, n_rows)."""
    if adapter.classes is None:
        errors: NDArray[np.float64] = np.abs(np.asarray(outputs, dtype=np.float64) - target)
        return errors
    if outputs.ndim == 3:
        outputs = outputs.argmax(axis=2)
    elif adapter.output_kind == "scores":
        outputs = outputs > 0
    return np.asarray(outputs != target, dtype=np.float64)


UNKNOWN_ROWS = finding(
    "unknown-rows",
    "Nothing in this model shows whether its members were trained on these rows. If they were, the error is far too "
    "low.",
)
# Some moved columns, such as dates, are usual for later rows; several with many splits are not.
FEW_COLUMNS, LARGE_SHARE = 3, 0.25
SHOWN_COLUMNS = 3
LIKE_TRAINING_ROWS = finding(
    "like-training-rows",
    "These rows may be the ones the model was trained on, in another order or with others among them: every leaf of "
    "every tree holds at least as many of them as of its training rows. If they are, the members have fitted them, and "
    "every error here is far too low. Pass only rows that were not used for training.",
)

OWN_LABELS = finding(
    "predicted-target",
    "y seems to be what this model predicts, and not what was observed: the ensemble is right about nearly all rows on "
    "which its members are most divided. If y is predicted, the error is far too low. Pass the labels that were "
    "observed.",
)
OWN_VALUES = finding(
    "predicted-target",
    "y seems to be what this model predicts, or another version of it, and not what was observed: it is nearer to the "
    "ensemble's predictions than those of another such ensemble would be. If y is predicted, the error is far too low. "
    "Pass the values that were observed.",
)


def judge_held_out_rows(adapter: EnsembleAdapter, features: Any, labels: NDArray[Any]) -> tuple[Finding, ...]:
    """Return findings on held-out rows that may be training rows, or have columns in other units."""
    origin = adapter.verify_rows(features, labels)
    if origin == "training":
        raise _training_rows()
    units = unit_findings(adapter, features)
    of_origin = {"like_training": (LIKE_TRAINING_ROWS,), "unknown": (UNKNOWN_ROWS,)}.get(origin, ())
    return (*units, *of_origin) if origin == "unknown" else (*of_origin, *units)


def own_prediction_doubts(
    adapter: EnsembleAdapter, sample: Sample, tally: Tally, weight: FloatArray
) -> tuple[Finding, ...]:
    """Return a doubt about held-out targets that the model itself predicted, or another version of it."""
    if adapter.loss_name is not None:
        return ()
    if adapter.info.task == "regression":
        assert isinstance(tally, ValueTally)
        return (OWN_VALUES,) if are_own_values(tally, weight) else ()
    return (OWN_LABELS,) if adapter.n_members > 1 and are_own_labels(sample) else ()


def unit_findings(adapter: EnsembleAdapter, features: Any) -> tuple[Finding, ...]:
    """Return a doubt about columns outside of the members' splits where these matter, a note where they are few."""
    found = columns_outside(*adapter.column_splits(features))
    n_columns = len(found.columns)
    if n_columns == 0:
        return ()
    names, are = _named_columns(adapter, found.columns), "lies" if n_columns == 1 else "lie"
    numbers = {"n_columns": n_columns, "n_compared": found.n_compared}
    if n_columns >= min(FEW_COLUMNS, found.n_compared) and found.share >= LARGE_SHARE:
        other_units = (
            f"{n_columns} of the {found.n_compared} columns compared {are} outside of the values at which the members "
            f"split ({names}). These rows seem to have other units or another scale than the training rows. Pass them "
            "as the model's predict takes them."
        )
        return (finding("other-units", other_units, **numbers),)
    moved = (
        f"{names[0].upper()}{names[1:]} {are} outside of the values at which the members split, so that nearly all "
        "rows go the same way there. If the unit is another than that of the training rows, convert it. If the values "
        "have moved since training, members cannot follow them."
    )
    return (finding("moved-columns", moved, **numbers),)


def _named_columns(adapter: EnsembleAdapter, columns: tuple[int, ...]) -> str:
    names = find_library(adapter.model).feature_names(adapter.model)
    chosen = columns if names is None else [names[place] for place in columns]
    return f"column{'s' * (len(columns) > 1)} {shortened(chosen, SHOWN_COLUMNS)}"


def _training_rows() -> DataMismatchError:
    return DataMismatchError(
        "These rows, or many of them, are rows the model was trained on: its members have fitted them, and the error "
        'would be far too low. Leave out data="holdout", with all training rows in training order, to judge each by '
        "its out-of-bag members. Or leave out the rows that were used for training, and pass the others; there is no "
        "other way where every member was trained on all rows, as with bootstrap=False."
    )


_CHANGED = (
    "These are the training rows with values changed since: rounded, scaled, filled in, or with columns swapped. Pass "
    "X and y as they were passed to fit."
)
_MOVED = "These are training rows in another order, or not all of them. Pass X and y as they were passed to fit."


def training_bags(
    adapter: EnsembleAdapter,
    X: Any,
    features: Any,
    labels: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[np.float64] | None = None,
) -> Bags:
    """Return the bags of training rows; where the rows are refused, the error begins with the cause, if one is found.

    Weights of the evaluation are tried as those of training too, where bags cannot be proved without.
    """
    try:
        return adapter.bags(X, features, labels)
    except (BagError, DataMismatchError) as error:
        weighted = None if weight is None else _weighted_bags(adapter, X, features, labels, weight)
        if weighted is not None:
            return weighted
        if isinstance(error, BagError):
            raise
        cause = _cause(adapter, X, features, labels, target)
        if cause is None:
            raise
        raise DataMismatchError(f"{cause} Evidence: {error}") from error


def _weighted_bags(
    adapter: EnsembleAdapter, X: Any, features: Any, labels: NDArray[Any], weight: NDArray[np.float64]
) -> Bags | None:
    """Return the bags that the weights prove; None where they prove none."""
    weighted = adapter.with_training_weight(features, weight)
    if weighted is None:
        return None
    try:
        return adapter.bags(X, weighted, labels)
    except (BagError, DataMismatchError):
        return None


def _cause(adapter: EnsembleAdapter, X: Any, features: Any, labels: NDArray[Any], target: NDArray[Any]) -> str | None:
    """Return why the rows are refused; None where it is their number or the target, or nothing is found."""
    if not _are_refused_without_target(adapter, X, features):
        return None
    try:
        if changed_rows_share(adapter, features, target) is not None:
            return _CHANGED
        is_known = adapter.verify_rows(features, labels) == "training"
    except EnsPluginError:
        return None
    return _MOVED if is_known else None


def _are_refused_without_target(adapter: EnsembleAdapter, X: Any, features: Any) -> bool:
    """Return whether the rows are refused for their features alone, and not for their number."""
    try:
        adapter.bags_by_position(features.shape[0])
    except EnsPluginError:  # another number of rows, or bags that do not follow from positions
        return False
    try:
        adapter.bags(X, features, None)
    except DataMismatchError:
        return True
    return False
