"""Truncation of a trained ensemble to its first members."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ens_plugin.adapters.capabilities import Truncatable
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.shared.foreign_calls import model_errors
from ens_plugin.adapters.unwrap.outputs import first_members, output_count
from ens_plugin.adapters.unwrap.wrappers import replace_ensemble
from ens_plugin.core.validation import counted, shown, with_article
from ens_plugin.errors import InputError, UnsupportedModelError

__all__ = ["truncate"]


def truncate(model: Any, size: int) -> Any:
    """Return a trained ensemble cut to its first `size` members, without training; `model` is not changed.

    The result is a model of the same kind that predicts the average of those members, is saved and loaded
    by its library's own functions, and has its number of members in its parameters.  Scores that the library
    computed on all members (out-of-bag scores, the best score of early stopping) are left out.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`; for XGBoost, a model of one round.
    size : int
        Number of members to keep, from 1 to the number in `model`.

    Returns
    -------
    fitted ensemble
        Of a Pipeline, a Pipeline with copies of its other steps.  Of a search, its truncated
        ``best_estimator_``: scores and parameters of a search are those of ensembles of full size.  Of a
        :class:`ens_plugin.RightSizedClassifier` or regressor, or a :class:`ens_plugin.DynamicPruningClassifier`,
        its truncated ``estimator_``.  Of an MLflow pyfunc, the truncated model inside it.  Nothing in it
        is shared with `model`, except the models of :meth:`ens_plugin.CustomEnsemble.from_estimators`.

    Raises
    ------
    InputError
        If `size` is not a whole number from 1 to the number of members.
    NotFittedError
        If the model has not been fitted.
    UnsupportedModelError
        If no adapter accepts the model, its adapter cannot truncate, or its members depend on one another
        (XGBoost's trees of several rounds).

    Notes
    -----
    The members of every supported ensemble are exchangeable, so the first `size` are as good as any others.
    XGBoost's leaf values are float32: rescaled, they differ in the last bit from those of an ensemble trained smaller.
    An IsolationForest keeps its threshold, which `contamination` set from the scores of all members, so that another
    share of the rows may lie beyond it: ``small.offset_ = np.percentile(small.score_samples(X), 100 * contamination)``
    sets it anew.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> small = ens_plugin.truncate(forest, 40)
    >>> small, small.predict(X[:2]), len(forest.estimators_)
    (RandomForestClassifier(n_estimators=40, random_state=0), array([0, 0]), 100)
    """
    with model_errors(model):
        return replace_ensemble(model, lambda ensemble: _truncated(ensemble, size))


def _truncated(ensemble: Any, size: int) -> Any:
    if output_count(ensemble) > 1:
        return first_members(ensemble, size, truncate)
    adapter = find_adapter(ensemble)
    if isinstance(size, bool) or not isinstance(size, Integral):
        raise InputError(
            f"size must be a whole number of members, got {shown(size, 40)}; this ensemble has {adapter.n_members}."
        )
    if not 1 <= size <= adapter.n_members:
        raise InputError(
            f"size must lie between 1 and {adapter.n_members}, the members of this {type(ensemble).__name__}, got "
            f"{shown(size, 40)}. Truncation only removes members; for a larger ensemble, train more."
        )
    if not isinstance(adapter, Truncatable):
        raise UnsupportedModelError(
            f"{with_article(type(ensemble).__name__, 'A')} cannot be cut to fewer members: its adapter, "
            f"{type(adapter).__name__}, does not implement that. Train one with {counted(size, 'member')} instead. If "
            "the adapter is your own, derive it from ens_plugin.adapters.Truncatable too, which "
            "help(ens_plugin.adapters.Truncatable) describes."
        )
    return adapter.truncated(int(size))
