"""The training rows of a fitted model, and the bags of its members, proved on these rows once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.custom.ensemble import CustomEnsemble, EstimatorEnsemble
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.analysis import UNCHECKED_ROWS, UNPROVED_TARGET
from ens_plugin.analysis.checks.member_losses import compared_number
from ens_plugin.analysis.checks.supervised_steps import cross_fitting_explained, doubts_about_transformed_rows
from ens_plugin.analysis.metrics.resolution import resolve_metric
from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.analysis.model_rows import compare_rows_with_stored, outputs_of_some, read_rows
from ens_plugin.analysis.one_output import with_member_findings
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.analysis.rows.groups import refuse_groups_in_bags
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.tallies.row_weight import RowWeight
from ens_plugin.core.validation import BoolArray, FloatArray, counted, printable
from ens_plugin.errors import InputError, TooFewMembersError
from ens_plugin.oob.mean_outputs import refuse_other_than_means

__all__ = ["TrainingRows", "left_out_cautions", "read_training_rows", "usable_rows"]

# Shares of weight, and of the weight of one label, on rows that are in every bag.
MOST_MISSING = 0.2
MOST_MISSING_OF_LABEL = 0.25


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows that a model was trained on, as its adapter takes them, and which rows each member was trained on.

    Attributes
    ----------
    adapter : EnsembleAdapter
    inner : object
        X as it reaches the ensemble, through the steps of a pipeline.
    features : prepared rows, n_rows of them
    labels : ndarray, shape (n_rows,)
        y as the user gave it.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    weight : ndarray of float64, shape (n_rows,)
    groups : ndarray of int64, shape (n_rows,), or None
    bags : Bags
        With groups, a row counts as drawn if any row of its group was.
    metric : ResolvedMetric or None
    doubts : tuple of str
        As in a report: about rows that are nearly copies of each other or belong together with those before and after
        them, about bags of unequal size, and about steps that were fitted to the target.
    """

    adapter: EnsembleAdapter
    inner: Any
    features: Any
    labels: NDArray[Any]
    target: NDArray[Any]
    weight: FloatArray
    groups: NDArray[np.int64] | None
    bags: Bags
    metric: ResolvedMetric | None
    doubts: tuple[str, ...]

    def cautions(self) -> tuple[str, ...]:
        """Return what casts doubt on these rows, and what the model does not prove of them."""
        if not self.bags.proof.rows:
            return (*self.doubts, UNCHECKED_ROWS)
        return self.doubts if self.bags.proof.target else (*self.doubts, UNPROVED_TARGET)


def read_training_rows(
    model: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, groups: Any, metric: Metric | None = None
) -> TrainingRows:
    """Return the training rows with the members' bags, after the checks of :func:`ens_plugin.analyze`.

    Raises
    ------
    EnsPluginError
        One of its kinds, as :func:`ens_plugin.analyze`; InputError also for an ensemble of arrays, which cannot
        predict other rows.
    """
    ensemble, inner = unwrap(model, X)
    adapter = find_adapter(ensemble)
    refuse_other_than_means(adapter)
    if isinstance(ensemble, CustomEnsemble) and not isinstance(ensemble, EstimatorEnsemble):
        raise InputError(
            "This CustomEnsemble was made of arrays, so its members cannot predict changed or new rows. Make it of "
            "fitted models: CustomEnsemble.from_estimators(models, row_indices)."
        )
    options, resolved = AnalysisOptions(sample_weight=sample_weight, groups=groups), resolve_metric(metric, adapter, y)
    with cross_fitting_explained(model):
        rows = read_rows(adapter, inner, y, options, resolved)
    assert rows.bags is not None
    if rows.groups is None:
        compare_rows_with_stored(adapter, rows.features, rows.bags, rows.target)
    number = compared_number(adapter)
    rows = with_member_findings(rows, outputs_of_some(adapter, rows.features, rows.bags, rows.target, number))
    assert rows.bags is not None
    labels, features = rows.labels.reshape(-1), rows.features
    findings = (*doubts_about_transformed_rows(model, rows.target.size), *rows.doubts, *rows.warnings)
    return TrainingRows(
        adapter, inner, features, labels, rows.target, rows.weight, rows.groups, rows.bags, resolved, findings
    )


def usable_rows(rows: TrainingRows, chosen: NDArray[np.intp], trials: NDArray[Any]) -> BoolArray:
    """Return which of the `chosen` rows have weight and an out-of-bag member; raise an error if too few do.

    Parameters
    ----------
    rows : TrainingRows
    chosen : ndarray of int, shape (n_chosen,)
        Positions among the training rows.
    trials : ndarray, shape (n_chosen,)
        Their out-of-bag members.

    Raises
    ------
    TooFewMembersError
        If the others have more than a fifth of the weight, or more than a quarter of that of one label.
    """
    weight, has_members = rows.weight[chosen], np.asarray(trials > 0)
    if rows.groups is not None:
        refuse_groups_in_bags(RowWeight(weight, groups=rows.groups[chosen]), has_members)
    _refuse_missing(weight, has_members, MOST_MISSING, "rows")
    classes = rows.adapter.classes
    for code in () if classes is None else np.unique(rows.target[chosen][weight > 0]):
        own = rows.target[chosen] == code
        assert classes is not None
        _refuse_missing(
            weight[own], has_members[own], MOST_MISSING_OF_LABEL, f"rows of label {printable(str(classes[code]), 40)}"
        )
    return has_members & (weight > 0)


def left_out_cautions(n_left_out: int, n_rows: int) -> tuple[str, ...]:
    """Return a warning about rows that no member can predict, if they may move a mean by more than chance does.

    A mean of losses between 0 and 1 over n rows has a standard error of at most 1 / (2 sqrt(n)), and a share s of rows
    moves it by at most s.

    Examples
    --------
    >>> left_out_cautions(2, 4000), left_out_cautions(40, 4000)
    ((), ('40 of 4000 rows were left out, being in the bag of every member.',))
    """
    if n_left_out <= np.sqrt(n_rows) / 2.0:
        return ()
    return (f"{n_left_out} of {counted(n_rows, 'row was', 'rows were')} left out, being in the bag of every member.",)


def _refuse_missing(weight: FloatArray, has_members: BoolArray, most: float, what: str) -> None:
    missing = 1.0 - float(weight[has_members].sum() / weight.sum())
    if missing > most:
        raise TooFewMembersError(
            f"{counted(np.count_nonzero(~has_members), f'of {weight.size} {what} is', f'of {weight.size} {what} are')} "
            f"in the bag of every member, with {100 * missing:.3g} % of their weight, so that no member can predict "
            "them. Train more members, or leave more rows out of each bag (smaller max_samples, bagging_fraction or "
            "subsample)."
        )
