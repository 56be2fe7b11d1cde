"""Mahajan et al. 2017: losses of a fitted ensemble at every size, from its members' out-of-bag probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from ens_plugin.core.validation import BoolArray, FloatArray, as_sizes, counted
from ens_plugin.errors import EnsPluginWarning, InputError, UnsupportedModelError, warn_user
from ens_plugin.papers.members import label_probabilities, out_of_bag_members
from ens_plugin.papers.score_tables_2017.score_tables import (
    MAX_LOG_SPREAD,
    MAX_MIXED_SPREAD,
    ScoreTables,
    load_score_tables,
)
from ens_plugin.papers.score_tables_2017.scores import (
    EDGE,
    MATCHED_GROUPS,
    BiasVarianceCurve,
    NormalScores,
    ScoreRows,
    check_loss,
    fit_matched_scores,
    fit_normal_pair,
    fit_normal_scores,
    linearized_scores,
    loss_curve,
    loss_variance,
    score_bias_variance,
    score_of,
    shrink_beta_probabilities,
    shrink_rows,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "closed_form_bias_variance",
    "score_components",
    "score_errors",
    "score_variances",
]

FEW_MEMBERS = 11
WIDEST = MAX_MIXED_SPREAD - 1e-3
SIZES = (1, 3, 5, 11, 21, 51, 101, 201, 501, 1001)


def score_errors(
    model: Any,
    X: Any,
    y: ArrayLike,
    sizes: ArrayLike = SIZES,
    *,
    loss: str = "zero_one",
    aggregation: str = "mean_proba",
) -> pd.DataFrame:
    """Return an ensemble's estimated loss at each size, by the tables of Mahajan et al. (2017) and variants of them.

    Parameters
    ----------
    model : fitted classifier
        Its members have probabilities; of two labels, or of any number for the log loss.
    X, y : array-like
        The training rows, in training order.
    sizes : array-like of int or inf, shape (n_sizes,)
    loss : {"zero_one", "log", "squared"}
    aggregation : {"mean_proba", "mean_score", "vote"}
        What the ensemble averages; "mean_score" averages the members' log odds, kept within 13.8.

    Returns
    -------
    DataFrame
        One row for each size, with the column size and one for each fit of the rows:

        - normal: each row's log odds, uncorrected (Algorithm 1)
        - normal_pair: a mixture of two normals in place of one (section A.3); not for the 0-1 loss of "mean_proba"
        - plug_in: the same, with the normal matched to mean and variance of the probabilities
        - shrunken: plug_in without the noise of few members (not in the paper); for "mean_score", normal without it.
          The one to use, unless a warning names another
        - shrunken_beta: beta probabilities in place of normal scores (section A.3), without the noise of few members

        For "mean_score" there are normal, normal_pair and shrunken only.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`; UnsupportedModelError unless members have probabilities of two labels, or of
        any number of labels for the log loss.

    Warns
    -----
    EnsPluginWarning
        If the tables do not reach some of the rows, so that part of a loss is a limit of the tables; it says which
        column to trust.

    Notes
    -----
    With three or more labels, the log loss of the mean probability needs the probability of the true label only, and
    that of the mean score is linearised (section A.1).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import score_tables_2017
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> found = score_tables_2017.score_errors(forest, X, y, sizes=[1, 11, 101])
    >>> list(found.columns)
    ['size', 'normal', 'plug_in', 'shrunken', 'shrunken_beta']
    """
    found = _by_fit(loss_curve, model, X, y, sizes, loss, aggregation)
    found.attrs["loss"] = loss  # for the figures
    return found


def score_variances(
    model: Any,
    X: Any,
    y: ArrayLike,
    sizes: ArrayLike = SIZES,
    *,
    loss: str = "zero_one",
    aggregation: str = "mean_proba",
) -> pd.DataFrame:
    r"""Return S² at each size: how much a row's loss varies over ensembles of other seeds (2017 section 4.4).

    Parameters, errors, warnings and columns are those of :func:`score_errors`.

    Returns
    -------
    DataFrame
        One row for each size.

    Notes
    -----
    With :math:`G(x, y) = E_r L(y, p_r(x))`, the expected loss of one row,

    .. math:: S^2 = E_{(x,y)} E_r (L(y, p_r(x)) - G(x, y))^2 = E_{(x,y)} E_r L^2(y, p_r(x)) - E_{(x,y)} G^2(x, y).

    The paper takes it for the variance of the error, as if the losses of different rows were independent: the mean loss
    of n rows would then have the variance :math:`S^2 / n` over ensembles.  All rows share the members, so that this is
    an approximation.  Nearest to simulations of forests are plug_in and shrunken, within about a tenth for the 0-1 and
    the squared loss.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import score_tables_2017
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> found = score_tables_2017.score_variances(forest, X, y, sizes=[1, 11, 101])
    >>> bool((found.shrunken_beta.diff().dropna() < 0).all())
    True
    """
    return _by_fit(loss_variance, model, X, y, sizes, loss, aggregation)


def score_components(
    model: Any,
    X: Any,
    y: ArrayLike,
    sizes: ArrayLike = SIZES,
    *,
    loss: str = "log",
    aggregation: str = "mean_proba",
) -> pd.DataFrame:
    r"""Return the bias and the variance of an ensemble's loss at each size, over its seeds (2017 section 5).

    Parameters
    ----------
    model, X, y, sizes
        See :func:`score_errors`; of two labels.
    loss : {"log", "squared"}
    aggregation : {"mean_proba", "mean_score"}

    Returns
    -------
    DataFrame
        One row for each size and each fit of :func:`score_errors`, with the columns size, fit, bias and variance.
        Bias and variance have the expected loss as their sum.  For the squared loss there is the fit closed_form as
        well: normal, by the closed forms of section A.2 in place of the tables.

    Raises
    ------
    EnsPluginError
        As :func:`score_errors`; InputError for the 0-1 loss, and UnsupportedModelError for three or more labels.

    Warns
    -----
    EnsPluginWarning
        As :func:`score_errors`.

    Notes
    -----
    Log loss: :math:`\bar p \propto \exp E\log p`, bias :math:`-\log\bar p`, variance :math:`-\log Z`,
    :math:`Z = e^{E\log p} + e^{E\log(1-p)}`.  Squared loss: :math:`\bar p = E\,p`, bias
    :math:`2(1-\bar p)^2`, variance :math:`2\,\mathrm{Var}\,p`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers import score_tables_2017
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0).fit(X, y)
    >>> found = score_tables_2017.score_components(forest, X, y, sizes=[1, 101], loss="squared")
    >>> found[found.fit == "shrunken_beta"].variance.is_monotonic_decreasing
    True
    """
    import pandas as pd

    if loss == "zero_one":
        raise InputError("loss must be 'log' or 'squared': 2017 has no bias and variance for the 0-1 loss.")
    wanted, evidence, fits = _fitted(model, X, y, sizes, loss, aggregation, most_labels=2)
    parts = []
    for name, rows in fits.items():
        curve = score_bias_variance(rows, wanted, load_score_tables(), loss=loss, aggregation=aggregation)
        parts.append(_as_frame(curve, name))
    if loss == "squared":
        normal = fit_normal_scores(evidence.scores, evidence.used)
        parts.append(_as_frame(closed_form_bias_variance(normal, wanted, aggregation=aggregation), "closed_form"))
    return pd.concat(parts, ignore_index=True)


def _as_frame(curve: BiasVarianceCurve, fit: str) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({"size": curve.sizes, "fit": fit, "bias": curve.bias, "variance": curve.variance})


def _by_fit(
    curve: Callable[..., FloatArray], model: Any, X: Any, y: ArrayLike, sizes: ArrayLike, loss: str, aggregation: str
) -> pd.DataFrame:
    """Return a curve over sizes for each fit of an ensemble's rows."""
    import pandas as pd

    most_labels = np.inf if loss == "log" else 2
    wanted, _, fits = _fitted(model, X, y, sizes, loss, aggregation, most_labels)
    tables = load_score_tables()
    found = {name: curve(rows, wanted, tables, loss=loss, aggregation=aggregation) for name, rows in fits.items()}
    return pd.DataFrame({"size": wanted, **found})


def _fitted(
    model: Any, X: Any, y: ArrayLike, sizes: ArrayLike, loss: str, aggregation: str, most_labels: float
) -> tuple[FloatArray, _Evidence, dict[str, ScoreRows]]:
    """Return the sizes, what members say of the rows, and the distributions fitted to it; warn where tables end."""
    check_loss(loss, aggregation)
    wanted = as_sizes(sizes)
    evidence = _evidence(model, X, y, aggregation, most_labels)
    fits = _fits(evidence, loss, aggregation, load_score_tables())
    _warn_of_limits(evidence, fits, wanted, loss)
    return wanted, evidence, fits


@dataclass(frozen=True, eq=False)
class _Evidence:
    """Members' probabilities of the true label, their log odds of it, and which of them are out of bag."""

    probability: FloatArray
    scores: FloatArray
    used: BoolArray


def _evidence(model: Any, X: Any, y: ArrayLike, aggregation: str, most_labels: float) -> _Evidence:
    members = out_of_bag_members(model, X, y).with_trials(2)
    if members.output_kind != "probabilities" or not 2 <= members.n_labels <= most_labels:
        raise UnsupportedModelError(
            "The tables of 2017 need members with probabilities of two labels, or of any number of labels for the log "
            f"loss; this ensemble's members have {members.output_kind}, and there are {members.n_labels or 'no'} "
            "labels. Use ens_plugin.analyze instead."
        )
    by_label = label_probabilities(members.outputs, members)
    codes = members.target.astype(np.intp)
    truth: FloatArray = np.asarray(by_label[:, np.arange(codes.size), codes], dtype=np.float64)
    if members.n_labels == 2 or aggregation != "mean_score":
        return _Evidence(truth, score_of(truth), members.is_oob)
    scores = linearized_scores(np.log(np.maximum(by_label, EDGE)), codes, members.is_oob)
    return _Evidence(truth, scores, members.is_oob)


def _fits(evidence: _Evidence, loss: str, aggregation: str, tables: ScoreTables) -> dict[str, ScoreRows]:
    normal = fit_normal_scores(evidence.scores, evidence.used)
    trials = evidence.used.sum(axis=0)
    if aggregation == "mean_score":
        return {
            "normal": normal,
            "normal_pair": fit_normal_pair(evidence.scores, evidence.used),
            "shrunken": shrink_rows(normal, trials),
        }
    matched = fit_matched_scores(evidence.probability, tables, evidence.used)
    variance = np.minimum(normal.variance, MAX_LOG_SPREAD**2)
    # The sign of a mean of probabilities has no table for pairs, and would need a Fourier transform for each row.
    has_pairs = (loss, aggregation) != ("zero_one", "mean_proba")
    return {
        "normal": NormalScores(normal.mean, variance, normal.weight),
        **({"normal_pair": fit_normal_pair(evidence.scores, evidence.used)} if has_pairs else {}),
        "plug_in": matched,
        "shrunken": shrink_rows(matched, trials, MATCHED_GROUPS),
        "shrunken_beta": shrink_beta_probabilities(evidence.probability, evidence.used),
    }


def _warn_of_limits(evidence: _Evidence, fits: dict[str, ScoreRows], sizes: FloatArray, loss: str) -> None:
    """Warn of rows that the tables do not reach, and say which column to trust."""
    doubts: list[str] = []
    if "plug_in" not in fits:
        doubts += _doubts_of_scores(evidence)
    elif loss == "log":
        doubts += _doubts_of_hopeless_rows(evidence)
        if sizes.min() < FEW_MEMBERS:
            doubts += _doubts_of_few_members(evidence, fits["plug_in"])
    if doubts:
        warn_user(" ".join(doubts), EnsPluginWarning)


def _doubts_of_scores(evidence: _Evidence) -> list[str]:
    certain = evidence.used & (np.abs(evidence.probability - 0.5) >= 0.5 - EDGE)
    if not certain.any():
        return []
    return [
        f"{certain.sum() / evidence.used.sum():.1%} of the members' probabilities are 0 or 1, and their log odds are "
        "taken as 13.8: all columns depend on this limit, and none is to be trusted. Use aggregation='mean_proba', or "
        "members with larger leaves."
    ]


def _doubts_of_hopeless_rows(evidence: _Evidence) -> list[str]:
    n_rows = evidence.probability.shape[1]
    hopeless = int(np.count_nonzero(np.mean(evidence.probability, axis=0, where=evidence.used) <= EDGE))
    if not hopeless:
        return []
    return [
        f"{hopeless} of {counted(n_rows, 'row')} got no probability of the true label from any member out of bag. The "
        "tables end there: all columns but shrunken_beta have a loss of about 13.8 for each such row, "
        f"{-np.log(EDGE) * hopeless / n_rows:.3f} of their values. Trust shrunken_beta, which draws such rows towards "
        "the others, or train more members."
    ]


def _doubts_of_few_members(evidence: _Evidence, matched: ScoreRows) -> list[str]:
    doubts = []
    if np.any(evidence.used & (evidence.probability <= 0.0)):
        doubts.append(
            "Some members give the true label a probability of 0, whose logarithm is not finite: losses of fewer than "
            f"about {FEW_MEMBERS} members are too low in all columns."
        )
    wide = isinstance(matched, NormalScores) and np.count_nonzero(matched.spread > WIDEST)
    if wide:
        doubts.append(
            f"{counted(int(wide), 'row varies', 'rows vary')} more over members than scores with a spread of "
            f"{MAX_MIXED_SPREAD:g}, where the tables of plug_in and shrunken end: there the losses of few members are "
            "too low. Trust shrunken_beta."
        )
    return doubts


LAMBDA, DELTA = 0.703, 0.937


def closed_form_bias_variance(
    rows: NormalScores, sizes: ArrayLike, *, aggregation: str = "mean_proba"
) -> BiasVarianceCurve:
    r"""Return bias and variance of the squared loss at each size, by the closed forms of 2017 section A.2.

    Parameters
    ----------
    rows : NormalScores
        Mean :math:`\mu` and variance :math:`\sigma^2` of each row's log odds of the true label.
    sizes : array-like, shape (n_sizes,)
        Whole numbers of at least 1, or infinity.
    aggregation : {"mean_proba", "mean_score"}

    Returns
    -------
    BiasVarianceCurve
        Means over rows.

    Raises
    ------
    InputError
        If a size or the aggregation is not allowed.

    Notes
    -----
    With s the logistic function, :math:`\kappa(\sigma^2) = (1 + \pi\sigma^2/8)^{-1/2}`,
    :math:`\rho(\sigma^2) = (1 + \lambda^2\sigma^2)^{-1/2}`, :math:`\lambda = 0.703` and :math:`\delta = 0.937`, one
    member has

    .. math:: \bar p = s(\kappa\mu), \quad B = 2 (1 - \bar p)^2, \quad
              V = 2 (s^2(\rho\mu + \delta(1 - \rho)) - \bar p^2).

    The mean probability of K members has the bias B and the variance V/K; their mean score has the B and V of one
    member with :math:`\sigma^2/K`.  They are approximations, of the logistic function and of its square by normal
    distribution functions: up to 0.06 from the tables in one member's bias and up to 0.04 in its variance.  A variance
    below 0 counts as 0.

    Examples
    --------
    >>> from ens_plugin.papers.score_tables_2017.scores import fit_normal_scores
    >>> rows = fit_normal_scores([[0.0, 1.0], [2.0, 1.0]])
    >>> closed_form_bias_variance(rows, [1, 4]).variance.round(4)
    array([0.0684, 0.0171])
    """
    wanted = as_sizes(sizes)
    if aggregation not in ("mean_proba", "mean_score"):
        raise InputError(f"aggregation must be 'mean_proba' or 'mean_score', got {aggregation!r}.")
    share = rows.weight / rows.weight.sum()
    if aggregation == "mean_score":
        parts = [_of_one_member(rows.mean, rows.variance / size) for size in wanted]
    else:
        bias, variance = _of_one_member(rows.mean, rows.variance)
        parts = [(bias, variance / size) for size in wanted]
    means = np.array([[bias @ share, variance @ share] for bias, variance in parts])
    return BiasVarianceCurve(wanted, means[:, 0], means[:, 1], "squared")


def _of_one_member(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    kappa = 1.0 / np.sqrt(1.0 + np.pi * variance / 8.0)
    rho = 1.0 / np.sqrt(1.0 + LAMBDA**2 * variance)
    expected = expit(kappa * mean)
    square = expit(rho * mean + DELTA * (1.0 - rho)) ** 2
    return 2.0 * (1.0 - expected) ** 2, 2.0 * np.maximum(square - expected**2, 0.0)
