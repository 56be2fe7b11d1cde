"""The result of an analysis: curves, recommended sizes, bias and variance, and all of it as one report."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from ens_plugin.core.judged_rows import JudgedRows
from ens_plugin.core.validation import (
    MAX_SIZE,
    FloatArray,
    IntArray,
    counted,
    label_text,
    previous_odd_size,
    printable,
)
from ens_plugin.errors import InputError
from ens_plugin.findings import Finding, first_doubt, sentences

if TYPE_CHECKING:
    import pandas as pd


# What a recommended size has to be enough for.
Criterion = Literal["error", "probability", "agreement", "overlap", "metric"]
ZERO_ONE, SQUARED = "0-1 error", "mean squared error"
SHARES = (ZERO_ONE, "0-1 loss")  # the latter of a bias and a variance
FEWEST_ROWS = 30  # with fewer, a recommended size is too uncertain for a decision
RARE = 10.0  # times the disagreement that is allowed: rarer labels hardly move the mean agreement
OWN_LABEL = "1"  # what scikit-learn's scorers take as the positive label
# Of a metric that can be logged; the other values of a report have these names.
_LOGGED_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_OTHER_NAMES = {
    "agreement", "algorithmic_sd", "asymptotic_error", "bias", "error", "error_lower", "error_upper", "excess_error",
    "member_error", "member_variance", "n_members", "recommended_size", "size_capped",
}  # fmt: skip
LATER = "_later"  # where a report keeps the functions that compute its other parts


def brief(part: object, *names: str, always: str = "") -> str:
    """Return a part's class name with some attributes; those that are None are left out, except that of `always`."""
    found = {name: getattr(part, name) for name in names}
    shown = ", ".join(f"{name}={_short(value)}" for name, value in found.items() if value is not None or name == always)
    return f"{type(part).__name__}({shown})"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_short, value))})"
    return repr(printable(value, 40) if isinstance(value, str) else value)


@dataclass(frozen=True, repr=False)
class LabelBasis:
    """Number of rows and mean number of members that the estimates for one label are computed from.

    Attributes
    ----------
    label : str
    n_rows : int
        Number of rows of this label with positive weight.
    n_usable : int
        Number of rows of this label with positive weight and enough members for an estimate.
    mean_members : float
        Mean number of members that predict a usable row.
    weight_factor : float
        Mean factor by which the weights of the usable rows were multiplied so that the label keeps its share; 1
        without a correction.
    """

    label: str
    n_rows: int
    n_usable: int
    mean_members: float
    weight_factor: float = 1.0

    def __repr__(self) -> str:
        return brief(self, "label", "n_rows", "n_usable", "mean_members")


class RarestLabel(NamedTuple):
    """The label that the fewest rows have, and the share of the rows that have it."""

    label: str
    share: float


def rarest_label(labels: Sequence[LabelBasis]) -> RarestLabel | None:
    """Return the rarest of the labels that occur; None where there are no labels."""
    rarest = min((found for found in labels if found.n_rows), key=lambda found: found.n_rows, default=None)
    if rarest is None:
        return None
    return RarestLabel(rarest.label, rarest.n_rows / sum(found.n_rows for found in labels))


@dataclass(frozen=True, repr=False)
class LabelErrors:
    """Error of a classifier on the rows of one label, and the labels that are predicted there.

    Attributes
    ----------
    label : str
    error : float
        Expected share of wrong labels at the current size; NaN without rows.  The mean over all rows is the error of
        the report: the errors of all labels are multiplied by one factor.
    interval : tuple of float
        Of `error`, for rows like these; NaN without rows.
    recommended_error, asymptote : float
        Expected share of wrong labels at the recommended size and of the infinite ensemble; NaN with fewer than 30
        rows, where `error` is the share of rows whose out-of-bag label is wrong, times that factor.
    predicted : tuple of int
        Number of rows of this label by the label that their members predict together, in the order of the labels: one
        row of the confusion matrix.  An out-of-bag row is predicted by its out-of-bag members alone.
    """

    label: str
    error: float
    interval: tuple[float, float]
    recommended_error: float
    asymptote: float
    predicted: tuple[int, ...]

    def __repr__(self) -> str:
        return brief(self, "label", "n_rows", "error", "interval")

    @property
    def n_rows(self) -> int:
        """Return the number of rows of this label in the confusion matrix."""
        return sum(self.predicted)


@dataclass(frozen=True, repr=False)
class EstimateBasis:
    """What the estimates of a report are computed from: numbers of rows, labels and groups, and findings on them.

    Attributes
    ----------
    labels : tuple of LabelBasis
        One entry for each label of a classifier; empty for regression.
    usable_weight : float
        Share of the weight on rows that have enough members for an estimate.
    n_effective : float
        Effective number of rows: Kish's for uneven weights, at most the number of distinct rows or groups.
    n_distinct : int or None
        Number of different rows among those used; None where it was not counted.
    n_repeated : int
        Rows whose features and target occur in the data more than once.
    n_groups : int or None
        Number of groups of dependent rows; None where no groups were given.
    baseline_error : float
        Error, 0-1 or mean squared, of always predicting the commonest label, or the mean; NaN where it is not known.
    n_unlabelled : int or None
        Number of other rows, without labels, that the agreement is from; None where it is from the rows with labels.
    findings : tuple of Finding
        Doubts, which are reasons not to rely on the figures, and notes.  The headline states the first doubt; the gate
        and ``rightsize`` refuse a report that has any.
    """

    labels: tuple[LabelBasis, ...] = ()
    usable_weight: float = 1.0
    n_effective: float = math.nan
    n_distinct: int | None = None
    n_repeated: int = 0
    n_groups: int | None = None
    baseline_error: float = math.nan
    n_unlabelled: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the sentences of all doubts."""
        return sentences(self.findings, "doubt")

    def __repr__(self) -> str:
        found = brief(self, "n_effective", "usable_weight", "n_distinct", "n_repeated", "n_groups")
        return f"{found[:-1]}, {counted(len(self.labels), 'label')}, {counted(len(self.doubts), 'doubt')})"


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
        Error of the infinite ensemble; NaN for the path of the members, which ends at a finite
        size.
    asymptote_interval : tuple of two floats
        Data interval of `asymptote`.
    asymptote_raw : float
        The asymptote before it is cut at 0, which differs from `asymptote` only when the estimate
        of an error that cannot be negative is negative.
    estimator : str
        ``"deconvolved"``, ``"path"``, ``"closed_form"`` or ``"subset_average"`` (a metric that was requested).
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

        Where votes tie (see `ties_to`), an even size has the error of the odd one below it.

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
        >>> curve = ErrorCurve(sizes, error, error, error, 0.1, (0.1, 0.1), 0.1, "deconvolved",
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
            raise InputError(f"size={size} is above {last}, where this curve ends; pass a size of at most {last}.")
        inverse, known = 1.0 / previous_odd_size(self.sizes, self.ties_to), values
        if not math.isnan(limit):
            inverse, known = np.append(inverse, 0.0), np.append(known, limit)
        wanted = previous_odd_size([float(size)], self.ties_to)[0]
        return float(np.interp(1.0 / wanted, inverse[::-1], known[::-1]))

    def to_frame(self) -> pd.DataFrame:
        """Return the curve as a pandas DataFrame with columns size, error, lower, upper."""
        import pandas as pd

        return pd.DataFrame({"size": self.sizes, "error": self.error, "lower": self.lower, "upper": self.upper})


@dataclass(frozen=True, eq=False, repr=False)
class SizeRecommendation:
    """Recommended number of members of an ensemble in one respect, with what each size loses.

    Attributes
    ----------
    size : int or None
        A promise: the smallest size at which the upper bound of the loss against infinitely many members, one-sided at
        95 %, is at most `tolerance`.  None if it is above `max_size`.
    criterion : {"error", "probability", "agreement", "overlap", "metric"}
        What is lost: of the error, 0-1 or mean squared; of the mean Brier score of the probabilities; of the labels,
        which are others than those of the infinite ensemble; of a list or of close values, which are others than those
        of another ensemble of the same size; of the metric.
    tolerance : float
        Loss that is allowed, in the unit of the quantity.
    loss : float
        Estimated loss of the current size, in that unit; NaN where the limit of a metric is not known.
    limit : float
        The quantity of the infinite ensemble; 1 for an agreement.
    agreement : float or None
        Agreement of the current size with the infinite ensemble; None for regression.
    interval : tuple of (int, int or None)
        Interval, at the report's `interval_level`, of the size that is needed for the loss itself to be within the
        tolerance, over samples of the rows and seeds of the members; an upper end of None is above `max_size`.
    reason : str
        Explanation of the size, one sentence.
    max_size : int
        Largest size considered.
    is_required : bool
        Whether the recommended size of the report has to be enough in this respect.
    sizes : ndarray of int64, shape (n_sizes,)
        Sizes at which the loss is tabulated.
    losses : ndarray of float64, shape (n_sizes,)
        Estimated loss at `sizes`.
    of_metric : str or None
        Name of the metric, for the criterion ``"metric"``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> found = report.recommendation
    >>> found.is_enough, found.loss <= found.tolerance, found.interval[0] <= found.size
    (True, True, True)
    """

    size: int | None
    criterion: Criterion
    tolerance: float
    loss: float
    limit: float
    agreement: float | None
    interval: tuple[int, int | None]
    reason: str
    max_size: int
    is_required: bool
    sizes: IntArray
    losses: FloatArray
    of_metric: str | None = None

    def __repr__(self) -> str:
        names = ("size", "interval", "criterion", "tolerance", "loss", "of_metric", "agreement", "max_size")
        return brief(self, *names, always="size")

    @property
    def is_enough(self) -> bool:
        """Return whether the estimated loss of the current size is within the tolerance."""
        return self.loss <= self.tolerance

    def loss_at(self, size: float) -> float:
        """Return the estimated loss at a size, interpolated linearly in 1/size; 0 at infinity."""
        return float(
            np.interp(1.0 / size, 1.0 / np.append(np.inf, self.sizes[::-1]), np.append(0.0, self.losses[::-1]))
        )


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


@dataclass(frozen=True, repr=False)
class LinearCost:
    """What an ensemble costs as a linear function of its number of members: so many bytes, or seconds.

    Attributes
    ----------
    fixed : float
        Beside the members.
    per_member : float
    spread : float
        Half the distance between the quartiles of repeated measurements of the whole ensemble, relative to their
        median; 0 for what is the same each time.
    """

    fixed: float
    per_member: float
    spread: float = 0.0

    def __repr__(self) -> str:
        return brief(self, *(field.name for field in fields(self)))

    def at(self, size: float) -> float:
        """Return the cost of an ensemble of `size` members."""
        return self.fixed + self.per_member * size

    def largest_size(self, limit: float) -> int:
        """Return the largest number of members that cost no more than `limit`; 0 where one costs more."""
        if self.at(1) > limit:
            return 0
        if not self.per_member:
            return MAX_SIZE
        size = min(int((limit - self.fixed) / self.per_member), MAX_SIZE)
        # The division rounds a limit that is the cost of a whole number of members up or down.
        return max(near for near in (size - 1, size, size + 1) if self.at(near) <= limit)


@dataclass(frozen=True, repr=False)
class Costs:
    """Bytes and times of a trained ensemble, measured by :func:`ens_plugin.measure_costs`, for every size.

    Attributes
    ----------
    n_members : int
        Of the ensemble that was measured.
    bytes : LinearCost
        Of the pickled model.  ``joblib.dump`` without ``compress`` writes about 80 a tree more.
    latency : LinearCost
        Seconds that the model's own ``predict`` takes for a request of one row: medians.
    row_seconds : LinearCost
        Seconds per row where `batch_rows` rows are predicted at once: medians.
    batch_rows : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> costs = ens_plugin.measure_costs(RandomForestClassifier(50, random_state=0).fit(X, y), X)
    >>> costs.n_members, costs.bytes.at(100) > costs.bytes.at(50), costs.latency.at(50) > 0
    (50, True, True)
    """

    n_members: int
    bytes: LinearCost
    latency: LinearCost
    row_seconds: LinearCost
    batch_rows: int

    def __repr__(self) -> str:
        return brief(self, *(field.name for field in fields(self)))

    def largest_size(self, max_bytes: float | None, max_latency: float | None) -> int:
        """Return the largest number of members within both limits, None for no limit; 0 where one has too much."""
        limits = (self.bytes, max_bytes), (self.latency, max_latency)
        return min((cost.largest_size(limit) for cost, limit in limits if limit is not None), default=MAX_SIZE)


@dataclass(frozen=True, eq=False)
class ModelProof:
    """What an analysed model and each of its members predict for a few rows, by which a stored copy is recognised.

    Attributes
    ----------
    positions : tuple of int
        Places of these rows among those that were analysed, ascending.
    labels : tuple of str
        Predicted labels as text; empty for values.
    outputs : tuple of float
        For each row, its predicted value, or a weighted sum of its probabilities.
    members : tuple of float
        For each member, a weighted sum of all that it predicts for these rows.
    rows : rows as they were passed, or None
        Kept in memory only: a report that is read from JSON has none.
    """

    positions: tuple[int, ...]
    labels: tuple[str, ...]
    outputs: tuple[float, ...]
    members: tuple[float, ...]
    rows: Any = field(default=None, repr=False)


def measure_of(metric: str, error: float) -> float:
    """Return the everyday measure of an error: 1 less a share, the root of a squared error, or a metric as it is."""
    # An error below 0, which a correction can give, is none.
    if metric in SHARES:
        return 1.0 - (0.0 if error < 0.0 else error)
    return math.sqrt(0.0 if error < 0.0 else error) if metric == SQUARED else error


@dataclass(frozen=True, eq=False, repr=False)
class ReportContent:
    """The fields of an :class:`ens_plugin.EnsembleReport`, and the scalars that are computed from them."""

    task: Literal["classification", "regression"]
    model: str
    n_members: int
    n_rows: int
    rows_without_oob: int
    mean_oob_members: float
    aggregation: str
    bags: str
    data: Literal["oob", "holdout"]
    error_curve: ErrorCurve
    recommendation: SizeRecommendation
    bias_variance: BiasVariance
    algorithmic_sd: float
    created: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    basis: EstimateBasis = field(default_factory=EstimateBasis)
    criteria: tuple[SizeRecommendation, ...] = field(default_factory=tuple)
    label_errors: tuple[LabelErrors, ...] = field(default_factory=tuple)
    outputs: Mapping[str, ReportContent] = field(default_factory=dict)
    proof: ModelProof | None = None
    judged_rows: JudgedRows | None = field(default_factory=lambda: None)
    costs: Costs | None = None

    # Types are checked by the fields.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return a part that is computed now, because it is read for the first time (:class:`Later`)."""
            later = vars(self).get(LATER, {})
            compute = later.get(name)
            if compute is None:
                if name in vars(self):  # another thread was first
                    return vars(self)[name]
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            found = vars(self)[name] = compute()
            # What it was computed from is not needed any more.
            later.pop(name, None)
            return found

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what a reader has to know beside the numbers, in the order in which it was found."""
        return self.basis.findings

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the sentences of all notes, which change no decision."""
        return sentences(self.findings, "note")

    @property
    def recommended_size(self) -> int | None:
        """Return the recommended number of members; None if above the largest size considered."""
        return self.recommendation.size

    @property
    def is_actionable(self) -> bool:
        """Return whether the report supports a decision on size: 30 rows or more and no doubts."""
        return not self.undecided

    @property
    def undecided(self) -> str:
        """Return why no decision on size may rest on the report: too few rows, or its first doubt; empty if one may."""
        if not self.has_enough_rows:
            return f"{self.too_few_rows_text} to decide on a size; {FEWEST_ROWS} are needed."
        return "" if self.doubt is None else self.doubt.sentence

    @property
    def doubt(self) -> Finding | None:
        """Return the doubt that the headline states in place of any figure; None where there is none."""
        return first_doubt(self.findings)

    @property
    def is_enough(self) -> bool:
        """Return whether the current size is enough: its estimated loss is within the tolerance in every respect."""
        found = [each for each in self.criteria if each.is_required] or [self.recommendation]
        return all(each.is_enough for each in found)

    @property
    def can_be_cut(self) -> bool:
        """Return whether the recommended size is worth cutting to: half of the members or fewer."""
        size = self.recommendation.size
        return size is not None and (
            # To cut less is not worth the work, unless the present size is too small by its parity.
            2.0 * size <= self.n_members or (size < self.n_members and not self.is_enough)
        )

    @property
    def size_name(self) -> str:
        """Return the word for the recommended size in a chart, which is "guessed" where no decision may rest on it."""
        return "recommended" if self.is_actionable else "guessed"

    @property
    def has_enough_rows(self) -> bool:
        """Return whether there are at least 30 rows, or with uneven weights an effective number of 30 (Kish)."""
        return self.n_rows >= FEWEST_ROWS and not self._weighs_few

    @property
    def too_few_rows_text(self) -> str:
        """Return the number of rows in words, with the statement that they are too few."""
        return f"{self.rows_text} {'is' if self.n_rows == 1 else 'are'} too few"

    @property
    def rows_text(self) -> str:
        """Return the number of rows in words, with the effective number where uneven weights leave too few."""
        return counted(self.n_rows, "row") + (f", effectively {self.basis.n_effective:.3g}," * self._weighs_few)

    @property
    def _weighs_few(self) -> bool:
        is_weighted = self.basis.n_groups is None and self.n_rows >= FEWEST_ROWS
        return is_weighted and self.basis.n_effective < FEWEST_ROWS

    @property
    def size_ratio(self) -> float:
        """Return n_members over the recommended size, at most `max_size`."""
        return self.n_members / (self.recommended_size or self.recommendation.max_size)

    @property
    def error(self) -> float:
        """Return the expected error at the current size; NaN if the curve ends below that size."""
        return self.error_curve.at(self.n_members) if self.error_curve.reaches(self.n_members) else math.nan

    @property
    def accuracy(self) -> float:
        """Return the expected accuracy at the current size, 1 less the 0-1 error; NaN for other errors."""
        return 1.0 - self.error if self.error_curve.metric == ZERO_ONE else math.nan

    @property
    def error_interval(self) -> tuple[float, float]:
        """Return the data interval of :attr:`error`; NaNs if the curve ends below the current size."""
        if not self.error_curve.reaches(self.n_members):
            return math.nan, math.nan
        return self.error_curve.interval_at(self.n_members)

    @property
    def rmse(self) -> float:
        """Return the root of the mean squared error at the current size, in the target's unit; NaN for other errors."""
        return math.sqrt(max(self.error, 0.0)) if self.is_squared else math.nan

    @property
    def is_squared(self) -> bool:
        """Return whether the error is the mean squared error, of which the root is shown too."""
        return self.error_curve.metric == SQUARED

    @property
    def measure_key(self) -> str:
        """The name under which the everyday measure is logged: accuracy, rmse, a scorer's name, or error."""
        if self.error_curve.metric == ZERO_ONE:
            return "accuracy"
        return "rmse" if self.is_squared else self.error_curve.key

    def measured(self, error: float, interval: tuple[float, float]) -> tuple[float, float, float]:
        """Return an error and the ends of its interval, from the lower one on, as values of the everyday measure."""
        value, *ends = (measure_of(self.error_curve.metric, each) for each in (error, *interval))
        # The lower end of an error is the upper end of an accuracy; sorting would move a NaN.
        lower, upper = ends[::-1] if self.error_curve.metric == ZERO_ONE else ends
        return value, lower, upper

    def metrics(self) -> dict[str, float]:
        """Return the scalars of the report that are logged to MLflow, by name without a prefix.

        Returns
        -------
        dict of str to float
            Each is one that a person compares over runs: ``"accuracy"``, ``"accuracy_lower"``, ``"accuracy_upper"``
            and ``"asymptotic_accuracy"``, that of infinitely many members; of values ``"rmse"`` in place of
            "accuracy", and with a metric its name, or ``"error"`` where it has no name that can be logged.
            ``"recommended_size"``, `max_size` where the recommendation is above it, ``"n_members"``, ``"agreement"``,
            ``"bias"`` and ``"member_variance"``.  Values that this report does not define (``"agreement"`` for
            regression) are missing.  ``"megabytes"`` and ``"latency_ms"`` are there where the report keeps measured
            costs.
        """
        recommended, curve, costs = self.recommendation.size, self.error_curve, self.costs
        limit, *_ = self.measured(curve.asymptote, curve.asymptote_interval)
        values: dict[str, float | None] = {
            **_named(self.measure_key, *self.measured(self.error, self.error_interval), limit),
            "recommended_size": float(self.recommendation.max_size if recommended is None else recommended),
            "n_members": float(self.n_members),
            "agreement": self.recommendation.agreement,
            "bias": self.bias_variance.bias,
            "member_variance": self.bias_variance.member_variance,
        }
        if costs is not None:
            values["megabytes"] = costs.bytes.at(self.n_members) / 1e6
            values["latency_ms"] = 1e3 * costs.latency.at(self.n_members)
        return _known(values)

    def scalars(self) -> dict[str, float]:
        """Return every scalar that a policy of the gate may name: those of :meth:`metrics`, and further ones."""
        # `"error"` with its ends, `"asymptotic_error"` and `"excess_error"` of an error; of a score the shortfall
        # against infinitely many members; `"algorithmic_sd"`, `"member_error"` and `"size_capped"`, which is 1 where
        # the recommended size is above `max_size`.
        lower, upper = self.error_interval
        key, limit, is_score = self.error_curve.key, self.error_curve.asymptote, self.error_curve.greater_is_better
        further: dict[str, float | None] = {
            **_named(key, self.error, lower, upper, limit),
            **({f"{key}_shortfall": limit - self.error} if is_score else {"excess_error": self.error - limit}),
            "algorithmic_sd": self.algorithmic_sd,
            "size_capped": float(self.recommendation.size is None),
            "member_error": self.bias_variance.member_error,
        }
        return {**_known(further), **self.metrics()}


def _named(key: str, here: float, lower: float, upper: float, limit: float) -> dict[str, float]:
    return {key: here, f"{key}_lower": lower, f"{key}_upper": upper, f"asymptotic_{key}": limit}


def _known(values: Mapping[str, float | None]) -> dict[str, float]:
    return {key: float(value) for key, value in values.items() if value is not None and not math.isnan(value)}


ReportKind = TypeVar("ReportKind", bound=ReportContent)


class Later(NamedTuple):
    """A part of a report that is computed when it is first read, written or pickled."""

    compute: Callable[[], Any]


def changed(report: ReportKind, **parts: Any) -> ReportKind:
    """Return a report with other parts, and without computing those that are still to be computed."""
    # A part that is given as Later is computed when it is read; its field has a factory for its default, as a default
    # itself would be found in its place.
    new = object.__new__(type(report))
    later = {name: compute for name, compute in vars(report).get(LATER, {}).items() if name not in parts}
    known = {name: value for name, value in (vars(report) | parts).items() if not isinstance(value, Later)}
    later |= {name: value.compute for name, value in parts.items() if isinstance(value, Later)}
    vars(new).update(known | {LATER: later})
    return new


def with_findings(report: ReportKind, findings: Iterable[Finding]) -> ReportKind:
    """Return a report, and those of its outputs, with further findings after its own."""
    further = tuple(findings)
    if not further:
        return report
    outputs = {name: with_findings(part, further) for name, part in report.outputs.items()}
    basis = replace(report.basis, findings=(*report.findings, *further))
    return changed(report, basis=basis, outputs=outputs)


def worst_output(outputs: Mapping[str, ReportContent]) -> str:
    """Return the name of the output with the largest error, or the lowest score; the first of several."""
    # Squared errors of targets in different units are compared as shares of the error of always predicting the mean.

    def badness(report: ReportContent) -> float:
        basis = report.error_curve.metric_basis
        if basis is not None and basis.greater_is_better:
            return -report.error
        if report.is_squared and report.basis.baseline_error > 0.0:
            return report.error / report.basis.baseline_error
        return report.error

    return max(outputs, key=lambda name: badness(outputs[name]))
