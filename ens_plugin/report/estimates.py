"""Estimates in a report: the error curve, the recommended size, bias and variance, and the rows used."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np

from ens_plugin.core.estimates.tied_sizes import is_tied, previous_odd_size
from ens_plugin.core.validation import FloatArray, IntArray, counted, label_text
from ens_plugin.errors import InputError
from ens_plugin.report.basis import EstimateBasis, LabelBasis, LabelErrors
from ens_plugin.report.brief import brief

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = [
    "OWN_LABEL", "BiasVariance", "ErrorCurve", "EstimateBasis", "LabelBasis", "LabelErrors", "MetricBasis",
    "SizeRecommendation", "ZeroProbabilities",
]  # fmt: skip

OWN_LABEL = "1"  # what scikit-learn's scorers take as the positive label
# Of a metric that can be logged; the other values of a report have these names.
_LOGGED_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_OTHER_NAMES = {
    "agreement", "algorithmic_sd", "asymptotic_error", "bias", "error", "error_lower", "error_upper", "excess_error",
    "member_error", "member_variance", "n_members", "recommended_size", "size_capped",
}  # fmt: skip


@dataclass(frozen=True)
class ZeroProbabilities:
    """Rows whose own label all members give probability 0, where a log loss is infinite.

    Attributes
    ----------
    finite_from : int or None
        Smallest size from which on the log loss of as many rows as the report's is finite with probability `chance`,
        which is at least 0.9, or less where these rows move it by less than the tolerance.  The curve begins there.
        None where no size up to the largest considered is large enough: the curve then has the values that
        scikit-learn prints, which replaces 0 by 2.2e-16.
    chance : float
        At that size, or at the largest considered.
    share, share_at_most : float
        Expected share of such rows among fresh rows, at the ensemble's own size and at the largest considered.
    clipped : float
        What scikit-learn prints on fresh rows, in the mean, at the ensemble's own size.
    clipped_interval : tuple of two floats
        Data interval of `clipped`.
    """

    finite_from: int | None
    chance: float
    share: float
    share_at_most: float
    clipped: float
    clipped_interval: tuple[float, float]


@dataclass(frozen=True)
class MetricBasis:
    """Direction and range of the metric of a curve that is not the 0-1 or mean squared error, and its number of rows.

    Attributes
    ----------
    greater_is_better : bool
    lowest, highest : float
        Range of the values that the metric can have; infinite where it is not known.
    n_rows : int
        Number of rows that the metric was computed on.
    positive_label : str or None
        The label of two that was named as the one that the metric is about, as text; None where none was named.
    zeros : ZeroProbabilities or None
        Of a log loss of members some of which give a row's own label probability 0; None for others.
    """

    greater_is_better: bool
    lowest: float
    highest: float
    n_rows: int
    positive_label: str | None = None
    zeros: ZeroProbabilities | None = None

    @property
    def label(self) -> str:
        """The label that the metric is about if it is about one of two: 1, as of scikit-learn, where none was named."""
        return OWN_LABEL if self.positive_label is None else label_text(self.positive_label)


@dataclass(frozen=True, eq=False, repr=False)
class ErrorCurve:
    """Expected error of the ensemble as a function of its size, with a data interval.

    Attributes
    ----------
    sizes : ndarray of int64, shape (n_sizes,)
        Ensemble sizes, ascending.
    error : ndarray of float64, shape (n_sizes,)
        Expected error at each size, over seeds, given this training set; in the unit of `metric`
        (a share between 0 and 1 for the 0-1 error).
    lower, upper : ndarray of float64, shape (n_sizes,)
        Data interval at `interval_level`: where the error on fresh rows is expected to lie.
    asymptote : float
        Error of the infinite ensemble; NaN for estimators that end at a finite size
        (``"hypergeometric"`` and ``"path"``).
    asymptote_interval : tuple of two floats
        Data interval of `asymptote`.
    asymptote_raw : float
        The asymptote before it is cut at 0, which differs from `asymptote` only when the estimate
        of an error that cannot be negative is negative.
    estimator : str
        ``"deconvolved"``, ``"hypergeometric"``, ``"binomial"``, ``"path"``, ``"closed_form"``
        or ``"subset_average"`` (a metric that was requested).
    metric : str
        Name of the error, for axis labels: ``"0-1 error"``, ``"mean squared error"``, or the name
        of the scorer or callable given as `metric`.
    interval_level : float
        Level of all intervals, strictly between 0 and 1.
    check : float or None
        Largest absolute difference between the fitted distribution's error and the unbiased average
        over subsets of the members.  Where the curve is corrected by such averages (soft votes, more
        than two labels), the difference at the largest subset.  None where no such average exists.
    ties_to : float
        Even sizes up to this one have exactly the error of the odd size below, with ties counted as half
        an error: infinity for votes on two labels, 2 for votes on more, 0 where no two sizes are equal.
    even_shift : ndarray of float64, shape (n_sizes,), or None
        Error that the model's own rule for ties (the first label wins) adds at each even size; the entry of an
        odd size is that of the even size above.  None where ties count as half an error, or do not occur.
    metric_basis : MetricBasis or None
        Where a metric was requested.  Scores of scikit-learn keep their own sign, so that `error` is then the score.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> curve = report.error_curve
    >>> curve.metric, curve.at(1) > curve.at(50), bool(curve.lower[0] < curve.error[0] < curve.upper[0])
    ('0-1 error', True, True)
    >>> curve.to_frame().columns.tolist()
    ['size', 'error', 'lower', 'upper']
    """

    sizes: IntArray
    error: FloatArray
    lower: FloatArray
    upper: FloatArray
    asymptote: float
    asymptote_interval: tuple[float, float]
    asymptote_raw: float
    estimator: str
    metric: str
    interval_level: float
    check: float | None = None
    ties_to: float = 0.0
    even_shift: FloatArray | None = None
    metric_basis: MetricBasis | None = None

    def __repr__(self) -> str:
        first, last = int(self.sizes[0]), int(self.sizes[-1])
        found = brief(self, "metric", "estimator", "asymptote", "interval_level")
        return f"{found[:-1]}, {counted(self.sizes.size, 'size')} from {first} to {last})"

    @property
    def greater_is_better(self) -> bool:
        """Whether larger values of `metric` are better: so they are for scorers of scikit-learn only."""
        return self.metric_basis is not None and self.metric_basis.greater_is_better

    @property
    def key(self) -> str:
        """The name under which values of the curve are logged: that of a scorer, else ``"error"``.

        A scorer is logged as ``"error"`` too if other values of a report have its name, or MLflow refuses it.
        """
        is_free = self.metric not in _OTHER_NAMES and _LOGGED_NAME.fullmatch(self.metric) is not None
        return self.metric if self.greater_is_better and is_free else "error"

    def at(self, size: float) -> float:
        """Return the error at one size, interpolated linearly in 1/size between the tabulated sizes.

        Where votes tie (see `ties_to`), an even size has the error of the odd one below it, plus the error
        that the model's rule for ties adds (see `even_shift`).

        Parameters
        ----------
        size : int or ``math.inf``
            Ensemble size, at least the smallest tabulated one.

        Returns
        -------
        float

        Raises
        ------
        InputError
            If `size` is below the smallest tabulated size, or above the largest where the curve
            has no asymptote.

        Examples
        --------
        >>> import numpy as np
        >>> from ens_plugin import ErrorCurve
        >>> sizes, error = np.array([1, 3]), np.array([0.4, 0.2])
        >>> curve = ErrorCurve(sizes, error, error, error, 0.1, (0.1, 0.1), 0.1, "binomial",
        ...                    "0-1 error", 0.95)
        >>> round(curve.at(2), 3)
        0.25
        """
        return self._interpolate(self.error, self.asymptote, size)

    def reaches(self, size: float) -> bool:
        """Return whether the error at a size can be read off: from the smallest size to the largest, or to infinity."""
        return size >= int(self.sizes[0]) and (size <= int(self.sizes[-1]) or not math.isnan(self.asymptote))

    def interval_at(self, size: float) -> tuple[float, float]:
        """Return the data interval of the error at one size, interpolated as in :meth:`at`."""
        low, high = self.asymptote_interval
        return self._interpolate(self.lower, low, size), self._interpolate(self.upper, high, size)

    def _interpolate(self, values: FloatArray, limit: float, size: float) -> float:
        first, last = int(self.sizes[0]), int(self.sizes[-1])
        if not isinstance(size, Real):
            raise InputError(f"size must be a number of members or math.inf, got {size!r}.")
        if not size >= first:
            raise InputError(
                f"size={size} is below the smallest size of this curve, {first}; pass a size of at least {first}."
            )
        if not self.reaches(size):
            raise InputError(
                f"size={size} is above {last}, the largest size that estimator={self.estimator!r} reaches; use "
                "estimator='auto', which reaches every size and infinity."
            )
        shift = np.zeros(values.size) if self.even_shift is None else self.even_shift
        inverse, known = (
            1.0 / previous_odd_size(self.sizes, self.ties_to),
            values - shift * is_tied(self.sizes, self.ties_to),
        )
        if not math.isnan(limit):
            inverse, known = np.append(inverse, 0.0), np.append(known, limit)
        wanted = previous_odd_size([float(size)], self.ties_to)[0]
        found = float(np.interp(1.0 / wanted, inverse[::-1], known[::-1]))
        if self.even_shift is None:
            return found
        tabulated = np.flatnonzero(self.sizes == size)
        if tabulated.size:
            return float(values[tabulated[0]])
        if is_tied(size, self.ties_to):
            evens = np.append(1.0 / (self.sizes + self.sizes % 2.0), 0.0)
            found += float(np.interp(1.0 / size, evens[::-1], np.append(shift, 0.0)[::-1]))
        # Ends of an interval that were cut at the end of the range leave it by the shift.
        basis = self.metric_basis
        lowest, highest = (0.0, 1.0) if basis is None else (basis.lowest, basis.highest)
        return min(max(found, lowest), highest)

    def to_frame(self) -> pd.DataFrame:
        """Return the curve as a pandas DataFrame with columns size, error, lower, upper."""
        import pandas as pd

        return pd.DataFrame({"size": self.sizes, "error": self.error, "lower": self.lower, "upper": self.upper})

    def plot(self, ax: Axes | None = None, *, label: object = None) -> Axes:
        """Draw the curve with its interval and asymptote; see :func:`ens_plugin.report.plots.plot_error_curve`."""
        from ens_plugin.report.plots import plot_error_curve

        return plot_error_curve(self, label=label, ax=ax)


@dataclass(frozen=True, eq=False, repr=False)
class SizeRecommendation:
    """Recommended number of members of an ensemble, with its interval and its criterion.

    Attributes
    ----------
    size : int or None
        Smallest size that satisfies the criterion; None if it is above `max_size`, or not `is_known`: a size whose
        interval ends above 4 times its beginning is not stated.
    criterion : {"agreement", "excess_error", "probability", "metric"}
        Condition on `size`.  ``"agreement"``: the mean probability that an ensemble of that size
        predicts the same label as the infinite ensemble is at least `confidence`.  ``"excess_error"``: the
        error, 0-1 or mean squared, is at most ``1 + tolerance`` times that of the infinite ensemble.
        ``"probability"``: the mean Brier score of the probabilities is.  ``"metric"``: the metric differs from that
        of the infinite ensemble by at most `tolerance`, from `size` on.
    confidence : float or None
        The wanted agreement; None for the other criteria.
    tolerance : float or None
        The wanted relative excess, or distance of the metric; None for an agreement.
    agreement : float or None
        Agreement of the current size with the infinite ensemble; None for regression.
    interval : tuple of (int, int or None)
        Interval of the size at the report's `interval_level`, over samples of the rows and seeds of the members; an
        upper end of None is above `max_size`.  It holds where `has_interval`, even if no size is stated.
    reason : str
        Explanation of the size, one sentence.
    max_size : int
        Largest size considered.
    sizes : ndarray of int64, shape (n_sizes,)
        Sizes at which the criterion is tabulated.
    values : ndarray of float64, shape (n_sizes,)
        Agreement, or relative excess of the error or the Brier score, or distance of the metric, at `sizes`.
    of_metric : str or None
        Name of the metric, for the criterion ``"metric"``.
    is_absolute : bool or None
        Whether `tolerance` and `values` are differences in the unit of the metric; else they are relative to its
        value for the infinite ensemble.  None for the other criteria.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> found = report.recommendation
    >>> found.criterion, found.tolerance, found.interval[0] <= found.size
    ('probability', 0.005, True)
    """

    size: int | None
    criterion: Literal["agreement", "excess_error", "probability", "metric"]
    confidence: float | None
    tolerance: float | None
    agreement: float | None
    interval: tuple[int, int | None]
    reason: str
    max_size: int
    sizes: IntArray
    values: FloatArray
    of_metric: str | None = None
    is_absolute: bool | None = None

    def __repr__(self) -> str:
        names = ("size", "interval", "criterion", "confidence", "tolerance", "of_metric", "agreement", "max_size")
        return brief(self, *names, always="size")

    @property
    def is_known(self) -> bool:
        """Return whether a size is stated, or that it is above `max_size`.

        False where the infinite ensemble's error may be 0, and where the interval is too wide to tell a size.
        """
        return self.size is not None or (self.has_interval and self.interval[0] >= self.max_size)

    @property
    def has_interval(self) -> bool:
        """Return whether the interval holds the size; False where the infinite ensemble's error may be 0."""
        return self.size is not None or not np.isnan(self.values).all()


@dataclass(frozen=True, repr=False)
class BiasVariance:
    """Bias and variance of an ensemble over seeds, given this training set, not over training sets.

    :func:`ens_plugin.training_variance` estimates the variance of the ensemble's predictions over training sets.

    0-1 error (Domingos 2000): the main prediction is the infinite ensemble's label; `bias` is the
    error of that label, `member_variance` the probability that one member's label differs from it.
    Squared loss: `bias` is the infinite ensemble's mean squared error (noise included), and
    `member_error` = `bias` + `member_variance`.

    Attributes
    ----------
    member_error : float
        Expected error of a single member.
    member_variance : float
        Variance of a single member around the infinite ensemble, over seeds, given this training set.
    ensemble_error : float
        Expected error at the current size.
    asymptotic_error : float
        Error of the infinite ensemble.
    bias : float
        Equal to `asymptotic_error` for the losses above: bias over seeds, given this training set, which contains
        the noise and the variance over training sets.
    loss : str
        ``"0-1 error"`` or ``"squared loss"``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> parts = report.bias_variance
    >>> parts.loss, parts.bias == parts.asymptotic_error, parts.member_error > parts.ensemble_error
    ('0-1 error', True, True)
    """

    member_error: float
    member_variance: float
    ensemble_error: float
    asymptotic_error: float
    bias: float
    loss: str

    def __repr__(self) -> str:
        return brief(self, *(field.name for field in fields(self)))
