"""The function that asks an ensemble, without labels, whether a larger one would decide or list the same."""

from __future__ import annotations

from typing import Any

from ens_plugin.adapters.members import model_errors
from ens_plugin.analysis.arguments import DEFAULT_TOLERANCE, granted_threads
from ens_plugin.analysis.lists import list_options, ranking_agreement
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.analysis.unlabelled import Agreement, agreement_on
from ens_plugin.errors import InputError, ends_at_caller


@ends_at_caller
def agreement(
    model: Any,
    X: Any,
    *,
    top: int | None = None,
    within: float | str | None = None,
    label: object = None,
    tolerance: float | None = None,
    max_size: int = AnalysisOptions.max_size,
    interval_level: float = AnalysisOptions.interval_level,
    random_state: int | None = AnalysisOptions.random_state,
    n_jobs: int | None = None,
) -> Agreement:
    r"""Return how often a trained ensemble decides as infinitely many members would, on rows without labels.

    It is about labels; with `top`, about the list of the rows with the largest values; with `within`, about the values.
    Of labels the rows must be ones that no member was trained on.  Nothing is said about whether the labels, the list
    or the values are right: :func:`ens_plugin.analyze` estimates errors, from rows with labels.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`, but no CustomEnsemble of arrays; without `top` and `within` a classifier.
        With them also EconML's CausalForest, CausalIVForest and CausalForestDML, by the effect of their one treatment.
    X : array-like of shape (n_rows, n_features)
        Rows without labels; at least two, better a thousand.  For lists and values they may be training rows.
    top : int, optional
        Length of a list: the rows with the largest values, or the largest probability of a label.
    within : float or str, optional
        A distance of values in their unit or, as ``"5 %"``, in their standard deviation over rows.
    label : label, optional
        The label whose probability `top` and `within` are about: by default the last of two, and of an IsolationForest
        that of anomalies.
    tolerance : float, optional
        Share that may differ, below 0.5: of labels from those of the infinite ensemble, 0.01 by default, of lists and
        values from those of another ensemble of the same size, 0.05 by default.  A row is undecided where the chance of
        another label is larger, or where its chance to be on the list is between this and 1 less this.
    max_size : int, default=20001
        Largest size to consider.
    interval_level : float, default=0.95
        Level of the interval of the size, over other rows like these and other members.
    random_state : int or None, default=0
        Seed of the subsets and draws behind the interval.
    n_jobs : int or None, default=None
        Threads, joblib's convention.  The result does not depend on it.

    Returns
    -------
    Agreement

    Raises
    ------
    DataMismatchError
        If X has other columns than the model was trained on, or is recognised as its training rows.
    InputError
        If X has fewer than two rows or values that the model does not take, or an option is out of range.
    UnsupportedModelError
        If the model predicts several outputs or by boosting, labels are asked of one that predicts values, or it is
        not supported.
    TooFewMembersError
        If the ensemble has one member, or of lists and values fewer than eight.

    Notes
    -----
    What infinitely many members would predict is drawn for each row as in an analysis of rows with labels; the label
    that one member, drawn at random for each row, predicts stands for the true one (``docs/methods/size.md``).  Of
    more than 6000 rows, so many random ones are drawn.

    A row with mean margin m, of standard deviation s over members, needs :math:`\Phi^{-1}(\alpha)^2 s^2 / m^2` members
    (Hernández-Lobato, Martínez-Muñoz, Suárez 2013, eq. 12, where the margin is that of votes on two labels).  It is
    undecided if these are more than the present ones.

    Members agree more about rows they were trained on, so that the agreement of training rows would be too high.
    Without labels they are recognised by the thresholds of trees, which lie between training rows, and by how they fill
    the leaves.  Their share among other rows is estimated where the bags can be drawn again without the training rows
    (scikit-learn's forests and Bagging*): no member that drew a row more often than the row's leaf holds draws of its
    label can have been trained on it (``docs/methods/held-out-rows.md``).  From 10 % on the result has a doubt, and a
    half or more are refused.  In ``analyze(unlabelled=)`` rows are compared with the training rows instead.

    The overlap of lists is estimated from the covariance of the members' values, and from what disjoint groups of them
    have in common (``docs/methods/lists.md``).  Rows that tie at the end of a list are listed at random.  Of more than
    10 000 rows whose place is open, so many random ones stand for all.

    References
    ----------
    Hernández-Lobato, D., Martínez-Muñoz, G., Suárez, A. (2013). How large should ensembles of classifiers be?
    Pattern Recognition 46, 1323-1336.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:300], y[:300])
    >>> ens_plugin.agreement(forest, X[300:]).agreement > 0.97
    True
    >>> calls = ens_plugin.agreement(forest, X[300:], top=40)
    >>> 0.5 < calls.overlap < calls.overlap_at(1000)
    True
    """
    if top is not None or within is not None:
        shared = list_options(tolerance, max_size, interval_level)
        with model_errors(model), granted_threads(n_jobs):
            return ranking_agreement(model, X, shared, top=top, within=within, label=label)
    if label is not None:
        raise InputError("label is the label whose probability ranks the rows. Pass top or within too.")
    options = AnalysisOptions(
        criterion="agreement",
        tolerance=DEFAULT_TOLERANCE if tolerance is None else tolerance,
        max_size=max_size,
        interval_level=interval_level,
        random_state=random_state,
    )
    with model_errors(model), granted_threads(n_jobs):
        return agreement_on(model, X, options)
