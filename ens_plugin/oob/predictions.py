"""Predictions of training rows by the members that did not see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.custom import CustomEnsemble, EstimatorEnsemble
from ens_plugin.adapters.members import in_threads, model_errors
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.analysis.analyze import UNCHECKED_ROWS, proof_notes, with_member_findings
from ens_plugin.analysis.arguments import encode_target, granted_threads, target_array
from ens_plugin.analysis.checks import (
    AlikeRows,
    alike_findings,
    compared_number,
    is_sorted,
    unequal_bag_doubts,
)
from ens_plugin.analysis.copies import HashedRows, hash_rows, identical_rows, row_likeness
from ens_plugin.analysis.evidence import block_rows, label_count, row_blocks
from ens_plugin.analysis.metrics import ResolvedMetric, resolve_metric
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.analysis.rows import compare_rows_with_stored, outputs_of_some, read_rows, refuse_other_outputs
from ens_plugin.analysis.steps import cross_fitting_explained, step_findings, warn_of_steps
from ens_plugin.analysis.weights import MOST_MISSING_OF_LABEL, encode_groups, refuse_groups_in_bags
from ens_plugin.core.bags import Bags
from ens_plugin.core.tally import RowBlock, both_scores, count_members, label_support, sum_over_members
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray, counted, printable
from ens_plugin.core.weights import RowWeight
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginWarning,
    InputError,
    TooFewMembersError,
    UnsupportedModelError,
    WeakEstimateWarning,
    ends_at_caller,
    warn_user,
)
from ens_plugin.findings import Finding, finding
from ens_plugin.report.text import first_rows


class MeanOutputs(NamedTuple):
    """Mean outputs of rows, by label for a classifier, and the number of members that count; 0 for rows without any."""

    mean: FloatArray
    trials: FloatArray


def refuse_other_prediction(adapter: EnsembleAdapter) -> None:
    """Raise UnsupportedModelError where the model's own ``predict`` returns other numbers than its adapter combines."""
    sentence = adapter.other_prediction()
    if sentence is not None:
        raise UnsupportedModelError(f"This function returns what the model's own predict would. {sentence}")


def _of_the_mean(adapter: EnsembleAdapter) -> tuple[Finding, ...]:
    """Return a note where the model's own ``predict`` returns other numbers than its adapter combines; else none."""
    sentence = adapter.other_prediction()
    return () if sentence is None else (finding("mean-only", f"Every figure is of the members' mean. {sentence}"),)


def _refuse_other_than_means(adapter: EnsembleAdapter) -> None:
    """Raise UnsupportedModelError for an ensemble that does not predict the mean of its members."""
    if adapter.offers("combined"):
        raise UnsupportedModelError(
            "This function takes the mean of each row's out-of-bag members, and "
            f"this {type(adapter.model).__name__} does not predict means. Pass the forest itself for its "
            "mean; ens_plugin.analyze and ens_plugin.oob_predictions take both."
        )


def mean_outputs(adapter: EnsembleAdapter, features: Any, bags: Bags | None) -> MeanOutputs:
    """Return the mean output of each row's out-of-bag members, or of all members where `bags` is None."""
    n_rows = features.shape[0]
    height = block_rows(adapter, n_rows)
    blocks = [slice(start, min(start + height, n_rows)) for start in range(0, n_rows, height)]
    sums = [summed_outputs(adapter, features, bags, rows) for rows in blocks]
    total, trials = (np.concatenate(parts) for parts in zip(*sums, strict=True))
    return MeanOutputs(total / np.maximum(trials, 1.0).reshape(-1, *(1,) * (total.ndim - 1)), trials)


def summed_outputs(
    adapter: EnsembleAdapter, features: Any, bags: Bags | None, rows: slice
) -> tuple[FloatArray, FloatArray]:
    """Return the outputs of a block of rows summed over the members that count, and the number of these."""
    block = _outputs_of(adapter, features, bags, rows)
    return _sum_of(block, block.counted), count_members(block.counted)


def sums_by_group(
    adapter: EnsembleAdapter, features: Any, bags: Bags, group: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the outputs of rows summed over the members that count in each group of members, and their numbers.

    `group` has the number of each member's group; the arrays have shape (n_groups, n_rows, ...).
    """
    n_rows, masks = features.shape[0], [group[:, None] == own for own in range(int(group.max()) + 1)]
    height = block_rows(adapter, n_rows)
    totals, trials = [], []
    for start in range(0, n_rows, height):
        block = _outputs_of(adapter, features, bags, slice(start, min(start + height, n_rows)))
        totals.append(np.stack([_sum_of(block, block.counted & mask) for mask in masks]))
        trials.append(np.stack([count_members(block.counted & mask) for mask in masks]))
    return np.concatenate(totals, axis=1), np.concatenate(trials, axis=1)


def _outputs_of(adapter: EnsembleAdapter, features: Any, bags: Bags | None, rows: slice) -> RowBlock:
    outputs, counted = adapter.block(features[rows], bags, rows)
    if adapter.output_kind == "scores" and outputs.ndim == 2:
        outputs = both_scores(outputs)
    # The target takes no part in the support for each label.
    return RowBlock(outputs, counted, np.zeros(counted.shape[1], dtype=np.int64), label_count(adapter))


def _sum_of(block: RowBlock, counted: BoolArray) -> FloatArray:
    return label_support(block, counted) if block.n_labels else sum_over_members(block.outputs, counted)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows that a model was trained on, as its adapter takes them, and which rows each member was trained on."""

    adapter: EnsembleAdapter
    inner: Any  # X as it reaches the ensemble, through the steps of a pipeline
    features: Any  # prepared rows
    labels: NDArray[Any]  # y as the user gave it
    target: NDArray[Any]  # label codes or values
    weight: FloatArray
    groups: NDArray[np.int64] | None
    bags: Bags  # with groups, a row counts as drawn if any row of its group was
    metric: ResolvedMetric | None
    findings: tuple[Finding, ...]  # as in a report


def read_training_rows(
    model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, groups: Any, metric: Metric | None = None
) -> TrainingRows:
    """Return the training rows with the members' bags, after the checks of :func:`ens_plugin.analyze`."""
    ensemble, inner = unwrap(model, X)
    adapter = find_adapter(ensemble)
    _refuse_other_than_means(adapter)
    if isinstance(ensemble, CustomEnsemble) and not isinstance(ensemble, EstimatorEnsemble):
        raise InputError(
            "This CustomEnsemble was made of arrays, so its members cannot predict changed or new rows. Make it of "
            "fitted models: CustomEnsemble.from_estimators(models, row_indices)."
        )
    options, resolved = AnalysisOptions(sample_weight=sample_weight, groups=groups), resolve_metric(metric, adapter, y)
    with cross_fitting_explained(model, X, y):
        rows = read_rows(adapter, inner, y, options, resolved)
    assert rows.bags is not None
    if rows.groups is None:
        compare_rows_with_stored(adapter, rows.features, rows.bags, rows.target)
    number = compared_number(adapter)
    rows = with_member_findings(rows, outputs_of_some(adapter, rows.features, rows.bags, rows.target, number))
    assert rows.bags is not None
    labels, features = rows.labels.reshape(-1), rows.features
    findings = (
        *step_findings(model, X, y),
        *rows.findings,
        *proof_notes(rows.bags.proof),
        *_of_the_mean(adapter),
    )
    return TrainingRows(
        adapter, inner, features, labels, rows.target, rows.weight, rows.groups, rows.bags, resolved, findings
    )


def usable_rows(rows: TrainingRows, chosen: NDArray[np.intp], trials: NDArray[Any]) -> BoolArray:
    """Return which of the `chosen` rows have weight and an out-of-bag member; raise an error if too few do."""
    weight, has_members = rows.weight[chosen], np.asarray(trials > 0)
    if rows.groups is not None:
        refuse_groups_in_bags(RowWeight(weight, groups=rows.groups[chosen]), has_members)
    _refuse_missing(weight, has_members, 0.2, "rows")
    classes = rows.adapter.classes
    for code in () if classes is None else np.unique(rows.target[chosen][weight > 0]):
        own = rows.target[chosen] == code
        assert classes is not None
        _refuse_missing(
            weight[own], has_members[own], MOST_MISSING_OF_LABEL, f"rows of label {printable(str(classes[code]), 40)}"
        )
    return has_members & (weight > 0)


def left_out_notes(n_left_out: int, n_rows: int) -> tuple[Finding, ...]:
    """Return a note on rows that no member can predict, if they may move a mean by more than chance does."""
    # A mean of losses between 0 and 1 over n rows has a standard error of at most 1 / (2 sqrt(n)), and a share s of
    # rows moves it by at most s.
    if n_left_out <= np.sqrt(n_rows) / 2.0:
        return ()
    sentence = f"{n_left_out} of {counted(n_rows, 'row was', 'rows were')} left out, being in the bag of every member."
    return (finding("dropped-rows", sentence, n_dropped=n_left_out),)


def _refuse_missing(weight: FloatArray, has_members: BoolArray, most: float, what: str) -> None:
    missing = 1.0 - float(weight[has_members].sum() / weight.sum())
    if missing > most:
        raise TooFewMembersError(
            f"{counted(np.count_nonzero(~has_members), f'of {weight.size} {what} is', f'of {weight.size} {what} are')} "
            f"in the bag of every member, with {100 * missing:.3g} % of their weight, so that no member can predict "
            "them. Train more members, or leave more rows out of each bag (smaller max_samples, bagging_fraction or "
            "subsample)."
        )


@dataclass(frozen=True, eq=False, repr=False)
class OobPredictions:
    """What the out-of-bag members of each training row predict for it, together.

    Attributes
    ----------
    values : ndarray of float64, shape (n_rows, n_labels) or (n_rows,)
        Classification: what the model's own ``predict_proba`` returns, with the labels in the order of `classes`
        (the mean scores of a :class:`ens_plugin.CustomEnsemble` that averages scores).  Regression: the predicted
        value, in the unit of the target.  NaN for rows without out-of-bag members.
    n_members : ndarray of int64, shape (n_rows,)
        Out-of-bag members of each row.
    classes : ndarray of shape (n_labels,) or None
        The labels; None for regression.
    index : pandas Index or None
        Index of the rows, where they came as a DataFrame.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> found = ens_plugin.oob_predictions(forest, X, y)
    >>> found.to_frame().columns.tolist()
    ['label', 'value_0', 'value_1', 'value_2', 'n_members']
    """

    values: FloatArray
    n_members: IntArray
    classes: NDArray[Any] | None = None
    index: pd.Index[Any] | None = None

    def __repr__(self) -> str:
        """Return the first rows as text."""
        return first_rows("OobPredictions", self.to_frame())

    @property
    def labels(self) -> NDArray[Any]:
        """The predicted label of each row, shape (n_rows,); the first label wins ties.

        Rows without out-of-bag members have the label None; the array then holds objects.

        Raises
        ------
        InputError
            If the model predicts values.
        """
        if self.classes is None:
            raise InputError("This model predicts values and has no labels; its predictions are in `values`.")
        known = self.n_members > 0
        labels: NDArray[Any] = self.classes[np.where(known[:, None], self.values, 0.0).argmax(axis=1)]
        if known.all():
            return labels
        some: NDArray[Any] = labels.astype(object)
        some[~known] = None
        return some

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one line for each row, in the order of the rows.

        Returns
        -------
        DataFrame, shape (n_rows, n_labels + 2) or (n_rows, 2)
            Classification: `label`, a column `value_<label>` for each label, `n_members`.  Regression: `value`,
            `n_members`.  The index is that of the DataFrame the rows came in, if they did.
        """
        columns: dict[str, Any] = {}
        if self.classes is None:
            columns["value"] = self.values
        else:
            columns["label"] = self.labels
            columns.update({f"value_{label}": self.values[:, code] for code, label in enumerate(self.classes)})
        columns["n_members"] = self.n_members
        return pd.DataFrame(columns, index=self.index)


@ends_at_caller
def oob_predictions(
    model: Any, X: Any, y: ArrayLike | None = None, *, groups: ArrayLike | None = None, n_jobs: int | None = None
) -> OobPredictions:
    """Return what each training row is predicted to be by the members that were not trained on it.

    The outputs of a row's out-of-bag members are combined as the model's own ``predict_proba`` or ``predict``
    combines those of all members: votes become shares of votes, probabilities and values are averaged, and mean
    scores go through the library's inverse link.  Of a quantile forest pass ``quantile_at(forest, 0.5)``, unless its
    ``default_quantiles`` is "mean".  Where scikit-learn stores the same
    (``oob_decision_function_``, ``oob_prediction_``), trees and nearest neighbours give its very bits.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`; its bags must be known.
    X : array-like of shape (n_rows, n_features)
        Exactly the training rows, in training order.  None for a CustomEnsemble of arrays.
    y : array-like of shape (n_rows,), optional
        The training target.  It takes no part in the predictions; with it, the check that these are the training rows
        is sharper, and copies among them are noticed.  Forests of LightGBM whose bags depend on the label need it.
    groups : array-like of shape (n_rows,), or "identical", optional
        Rows that belong together.  A member then counts as out of bag for a row only if its bag has no row of the
        group.  ``"identical"`` puts rows with the same features and target into one group.
    n_jobs : int or None, default=None
        Threads, joblib's convention.  The result does not depend on it.

    Returns
    -------
    OobPredictions

    Raises
    ------
    BagError
        If the bags cannot be known, or there are none (no bootstrap).
    DataMismatchError
        If these are not the training rows in training order, as far as this can be checked.
    TooFewMembersError
        If no row is out of bag for any member.
    EnsPluginError
        Another of its kinds in :mod:`ens_plugin.errors`, as :func:`ens_plugin.analyze`.

    Warns
    -----
    WeakEstimateWarning
        If a quarter of the rows or more look like copies of each other: a member that was trained on a copy was
        trained on the row.  If an earlier step of the pipeline has seen the target.  With y, also where
        :func:`ens_plugin.analyze` doubts the rows: nearly copies, rows that belong together with those before and after
        them, bags of unequal size.
    EnsPluginWarning
        If nothing in the model shows whether these are its training rows.

    Notes
    -----
    A row that is out of bag for m of n members is predicted by an ensemble of m members, about 0.37 n after a
    bootstrap, so an error computed from these predictions is that of a smaller ensemble.
    :func:`ens_plugin.analyze` estimates the error at each size.  Breiman (2001), section 3.1, has the predictions.

    References
    ----------
    Breiman, L. (2001). Random forests. Machine Learning 45, 5-32.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> found = ens_plugin.oob_predictions(forest, X, y)
    >>> found.values.shape, found.labels[:3].tolist(), bool(found.n_members.min() > 10)
    ((150, 3), [0, 0, 0], True)
    """
    with model_errors(model), _remedies_explained(), cross_fitting_explained(model, X, y):
        ensemble, rows = unwrap(model, X)
        adapter = find_adapter(ensemble)
        refuse_other_prediction(adapter)
        labels = None if y is None else target_array(y)
        target = None if labels is None else encode_target(adapter, labels)
        features = adapter.prepare(rows)
        _check_row_count(features, target)
        adapter.check_members(features)
        with granted_threads(n_jobs):
            group = _group_codes(groups, features, rows, target)
            bags = adapter.bags(rows, features, labels)
            values, n_members = _read(adapter, features, bags, group)
            if groups is None and target is not None:
                _warn_of_doubts(adapter, features, bags, hash_rows(features, rows), target)
    warn_of_steps(model, X, y)
    index = X.index if isinstance(X, pd.DataFrame) else None
    return OobPredictions(values, n_members, adapter.classes, index)


@contextmanager
def _remedies_explained() -> Iterator[None]:
    """Add to an error that recommends ``data='holdout'`` that the model's own ``predict`` predicts such rows."""
    try:
        yield
    except (BagError, DataMismatchError) as error:
        if "holdout" not in str(error):
            raise
        raise type(error)(
            f"{error} (data='holdout' belongs to an analysis. Rows that the model was not trained on are "
            "predicted by its own predict.)"
        ) from error


def _read(
    adapter: EnsembleAdapter, features: Any, bags: Bags, group: NDArray[np.int64] | None
) -> tuple[FloatArray, IntArray]:
    """Return values and numbers of members, after the rows were compared with what the library stored."""
    if not bags.proof.rows:
        warn_user(UNCHECKED_ROWS.sentence, EnsPluginWarning)
    if group is None or adapter.stored_oob_outputs() is not None:
        values, n_members = _combined_outputs(adapter, features, bags)
        # Before grouping: the library stored the means of the bags as they were drawn.
        refuse_other_outputs(adapter, values, n_members > 0, np.arange(n_members.size))
    if group is not None:
        values, n_members = _combined_outputs(adapter, features, bags.by_group(group))
    if not n_members.any():
        raise TooFewMembersError(
            f"No row is out of bag for any member (of {counted(adapter.n_members, 'member')}), so there is "
            "nothing to predict them with. Train more members, or on smaller bags (max_samples of scikit-learn, "
            "bagging_fraction of LightGBM, subsample of XGBoost)"
            + ("." if group is None else ", or pass smaller groups: a bag holds a row of every group.")
        )
    return values, n_members


def _combined_outputs(adapter: EnsembleAdapter, features: Any, bags: Bags) -> tuple[FloatArray, IntArray]:
    def read(rows: slice) -> tuple[FloatArray, IntArray]:
        """Return what the members that count predict together for a block of rows, and how many they are."""
        if adapter.offers("combined"):
            return _combined_by_row(adapter, features, bags, rows)
        total, n_members = summed_outputs(adapter, features, bags, rows)
        values = adapter.inverse_link(adapter.mean_of_sum(total, np.maximum(n_members, 1.0)))
        known = (n_members > 0).reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(known, values, np.nan), n_members.astype(np.int64)

    parts = list(in_threads(read, row_blocks(adapter, features.shape[0])))
    return np.concatenate([values for values, _ in parts]), np.concatenate([count for _, count in parts])


def _combined_by_row(adapter: EnsembleAdapter, features: Any, bags: Bags, rows: slice) -> tuple[FloatArray, IntArray]:
    """Return what the members that count predict together where that is no mean, row by row, and how many they are."""
    outputs, counted = adapter.block(features[rows], bags, rows)
    found = [
        adapter.combined(own[is_counted, None])[0] if is_counted.any() else np.nan
        for own, is_counted in zip(outputs.T, counted.T, strict=True)
    ]
    return np.array(found, dtype=np.float64), count_members(counted).astype(np.int64)


def _check_row_count(features: Any, target: NDArray[Any] | None) -> None:
    n_rows = features.shape[0]
    if n_rows == 0:
        raise InputError("X has no rows; pass the rows that the model was trained on.")
    if target is not None and target.size != n_rows:
        raise InputError(f"X has {counted(n_rows, 'row')} and y has {target.size}; they must be the same rows.")


def _group_codes(
    groups: ArrayLike | None, features: Any, rows: Any, target: NDArray[Any] | None
) -> NDArray[np.int64] | None:
    if groups is None:
        return None
    if not (isinstance(groups, str) and groups == "identical"):
        return encode_groups(groups, features.shape[0])
    if target is None:
        raise InputError("groups='identical' compares features and target; pass y.")
    return identical_rows(hash_rows(features, rows), target)


def _warn_of_doubts(
    adapter: EnsembleAdapter, features: Any, bags: Bags, table: HashedRows | None, target: NDArray[Any]
) -> None:
    """Warn where an analysis would doubt an error from these predictions."""
    likeness = row_likeness(None, table, target, "oob")
    assert likeness.repeats is not None
    values = None if table is None else table.table
    sample = outputs_of_some(adapter, features, bags, target, compared_number(adapter))
    rows = AlikeRows(likeness.repeats.copied, likeness.cell_bags(bags), bags, values, is_sorted(values, target))
    for found in (*unequal_bag_doubts(adapter, sample), *alike_findings(adapter, sample, rows)):
        warn_user(found.sentence, WeakEstimateWarning)
