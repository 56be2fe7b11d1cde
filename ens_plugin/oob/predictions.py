"""What the out-of-bag members of each training row predict for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.shared.foreign_calls import model_errors
from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.analysis.arguments import granted_threads
from ens_plugin.analysis.build_report import UNCHECKED_ROWS
from ens_plugin.analysis.checks.member_losses import compared_number
from ens_plugin.analysis.checks.near_copies import near_copy_doubts
from ens_plugin.analysis.checks.row_order import is_sorted, order_findings
from ens_plugin.analysis.checks.supervised_steps import cross_fitting_explained, doubts_about_transformed_rows
from ens_plugin.analysis.checks.unequal_bags import unequal_bag_doubts
from ens_plugin.analysis.model_rows import outputs_of_some
from ens_plugin.analysis.row_blocks import row_blocks
from ens_plugin.analysis.rows.groups import encode_groups
from ens_plugin.analysis.rows.hashes import HashedRows, hash_rows
from ens_plugin.analysis.rows.repeats import find_repeats, identical_rows, refuse_copies
from ens_plugin.analysis.rows.stored_outputs import refuse_other_outputs
from ens_plugin.analysis.rows.targets import encode_target, target_array
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.validation import FloatArray, IntArray, counted
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginWarning,
    InputError,
    TooFewMembersError,
    WeakEstimateWarning,
)
from ens_plugin.oob.mean_outputs import refuse_other_than_means, summed_outputs
from ens_plugin.report.tables import first_rows
from ens_plugin.user_warnings import warn_user

__all__ = ["OobPredictions", "oob_predictions"]


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


def oob_predictions(
    model: Any, X: Any, y: ArrayLike | None = None, *, groups: ArrayLike | None = None, n_jobs: int | None = None
) -> OobPredictions:
    """Return what each training row is predicted to be by the members that were not trained on it.

    The outputs of a row's out-of-bag members are combined as the model's own ``predict_proba`` or ``predict``
    combines those of all members: votes become shares of votes, probabilities and values are averaged, and mean
    scores go through the library's inverse link.  Where scikit-learn stores the same
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
        trained on the row.  If an earlier step of the pipeline learned much about the target.  With y, also where
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
    with model_errors(model), _remedies_explained(), cross_fitting_explained(model):
        ensemble, rows = unwrap(model, X)
        adapter = find_adapter(ensemble)
        refuse_other_than_means(adapter)
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
    for doubt in doubts_about_transformed_rows(model, n_members.size):
        warn_user(doubt, WeakEstimateWarning)
    index = X.index if isinstance(X, pd.DataFrame) else None
    return OobPredictions(values, n_members, adapter.classes, index)


@contextmanager
def _remedies_explained() -> Iterator[None]:
    """Add to an error that recommends ``data='holdout'`` that the model's own ``predict`` predicts such rows."""
    try:
        yield
    except (BagError, DataMismatchError) as error:
        if "holdout" not in error.template:
            raise
        raise type(error)(
            f"{error.template} ({{data='holdout'}} belongs to an analysis. Rows that the model was not trained on are "
            "predicted by its own predict.)"
        ) from error


def _read(
    adapter: EnsembleAdapter, features: Any, bags: Bags, group: NDArray[np.int64] | None
) -> tuple[FloatArray, IntArray]:
    """Return values and numbers of members, after the rows were compared with what the library stored."""
    if not bags.proof.rows:
        warn_user(UNCHECKED_ROWS, EnsPluginWarning)
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
        total, n_members = summed_outputs(adapter, features, bags, rows)
        values = adapter.inverse_link(adapter.mean_of_sum(total, np.maximum(n_members, 1.0)))
        known = (n_members > 0).reshape(-1, *(1,) * (values.ndim - 1))
        return np.where(known, values, np.nan), n_members.astype(np.int64)

    parts = list(in_threads(read, row_blocks(adapter, features.shape[0])))
    return np.concatenate([values for values, _ in parts]), np.concatenate([count for _, count in parts])


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
    """Warn where an analysis would doubt an error from these predictions, or refuse to estimate it."""
    try:
        # An analysis doubts copies that are not sure.
        refuse_copies(replace(find_repeats(table, target), is_sure=True), np.ones(target.size))
    except InputError as error:
        # An analysis refuses an error that would be wrong; these predictions are what was requested.
        warn_user(str(error), WeakEstimateWarning)
        return
    values = None if table is None else table.table
    sample = outputs_of_some(adapter, features, bags, target, compared_number(adapter))
    in_order = order_findings(adapter, sample, bags, sorted_rows=is_sorted(values, target))
    near_copies = () if table is None else near_copy_doubts(values, target)
    for doubts in (near_copies, unequal_bag_doubts(adapter, sample), *in_order):
        for doubt in doubts:
            warn_user(doubt, WeakEstimateWarning)
