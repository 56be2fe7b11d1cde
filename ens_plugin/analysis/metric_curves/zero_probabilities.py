"""What to think of a metric without a value at probability 0, such as the log loss, where probabilities are 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import InputError

__all__ = ["ZeroRows", "expected_zeros", "fit_counts", "refuse_no_value", "zero_probability_doubt"]

# Weights of equal probabilities mixed into the mean outputs, to check whether the metric has a value at 0.
PULLS = (1e-9, 1e-6)
NO_VALUE = 1e-4
# Rows count as rare whose label has a probability above 0 by so many members at most.
FEW = 5
SHAPES = np.geomspace(0.05, 20.0, 200)


def refuse_no_value(rows: MetricRows) -> None:
    """Raise InputError if some mean probabilities are 0, where the metric has no value, as a log loss has none.

    To find out, a small and a smaller share of the uniform distribution are mixed into the probabilities.  Of a metric
    with a value at 0, both mixtures have nearly the same value; a logarithm differs between them.
    """
    known = rows.known
    mean = rows.linked[known]
    if not rows.sample.block.n_labels or mean.ndim != 2 or mean.min() > 0 or mean.min() < 0:
        return
    little, more = (rows.linked_value((1.0 - pull) * mean + pull / mean.shape[1], known) for pull in PULLS)
    if abs(little - more) <= NO_VALUE * max(abs(more), 1e-12):
        return
    found = rows.linked_value(mean, known)
    remedy = (
        "Pass a function of your own that clips the probabilities (for example lambda y, p: log_loss(y, np.clip(p, "
        "0.01, 1)))"
        if rows.metric.greater_is_better
        else "Clip the probabilities in your metric (for example np.clip(p, 0.01, 1))"
    )
    raise InputError(
        f"metric {rows.metric.name!r} has no value of its own on these rows: some out-of-bag mean probabilities are 0, "
        f"and the metric is {found:.4g}, {little:.4g} or {more:.4g} if they are replaced by 0, "
        f"{PULLS[0] / mean.shape[1]:.0e} or {PULLS[1] / mean.shape[1]:.0e}. {remedy}, train members whose leaves are "
        "not pure (min_samples_leaf), or train more members."
    )


@dataclass(frozen=True)
class ZeroRows:
    """Rows whose label has probability 0 by all members of an ensemble, as far as they are to be expected.

    Attributes
    ----------
    expected : float
        Number of them among as many rows as there are, by as many members as these have.
    shape : float
        They become fewer by the power `shape` of the size.
    trials : float
        Members of a row.
    change : float
        By how much one of them moves the metric.
    n_few, n_rows : int
        Rows whose label has a probability above 0 by few members, and all rows.
    """

    expected: float
    shape: float
    trials: float
    change: float
    n_few: int
    n_rows: int

    def number(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected number of rows at each size; below that of a row's own members, the same as there."""
        share = np.minimum(self.trials / np.asarray(sizes, dtype=np.float64), 1.0)
        return np.asarray(self.expected * share**self.shape)

    def effect(self, sizes: ArrayLike) -> FloatArray:
        """Return by how much these rows move the metric at each size."""
        return np.asarray(self.number(sizes) * self.change)


def expected_zeros(rows: MetricRows) -> ZeroRows | None:
    """Return the rows with probability 0 to expect among fresh rows; None for other metrics than a log loss.

    No out-of-bag row has a probability of 0, or the log loss would be refused.  By how many members a row's label has a
    probability above 0 tells how often all members of an ensemble give 0.
    """
    known = rows.known
    if rows.losses != "log" or np.any(rows.own_probability[known] <= 0.0):
        return None
    expected, shape = fit_counts(rows.positive_members[known])
    surest = known[np.argmax(rows.own_probability[known])]
    output = rows.linked[known].copy()
    level = rows.linked_value(output, known)
    output[known == surest] = np.eye(output.shape[1])[(rows.sample.block.target[surest] + 1) % output.shape[1]]
    change = rows.linked_value(output, known) - level
    n_few = int(np.count_nonzero(rows.positive_members[known] <= FEW))
    return ZeroRows(expected, shape, float(np.median(rows.trials[known])), change, n_few, known.size)


def zero_probability_doubt(
    zeros: ZeroRows | None, size: int | None, limit: float, n_members: int, settings: ResolvedOptions
) -> tuple[str, ...]:
    """Return a doubt where fresh rows with probability 0 may move a log loss by more than its tolerance.

    Parameters
    ----------
    zeros : ZeroRows or None
        Of :func:`expected_zeros`.
    size : int or None
        The recommended one.  Where it is smaller than the ensemble, more rows have a probability of 0 at it.
    limit : float
        Metric of the infinite ensemble.
    n_members : int
    settings : ResolvedOptions
    """
    metric = settings.metric
    if metric is None or zeros is None:
        return ()
    fewest = n_members if size is None else min(size, n_members)
    effect = abs(float(zeros.effect(fewest)))
    tolerance = float(settings.metric_distances(limit))
    if effect <= tolerance:
        return ()
    share = float(zeros.number(fewest)) / zeros.n_rows
    return (
        f"On {zeros.n_few} of {zeros.n_rows} rows, {FEW} out-of-bag members or fewer give the row's label a "
        f"probability above 0. On about {100.0 * share:.1g} % of fresh rows, all of {fewest} members would give 0, and "
        f"these rows would move the {metric.name} by {effect:.2g}, where the tolerance is {tolerance:.2g}. "
        "Train members whose leaves are not pure (min_samples_leaf), train more members, or choose 'neg_brier_score'.",
    )


def fit_counts(positive: FloatArray) -> tuple[float, float]:
    """Return the expected number of rows with a count of 0, and the power by which it falls with the members.

    Parameters
    ----------
    positive : ndarray, shape (n_rows,)
        Number of a row's members by which its label has a probability above 0.

    Notes
    -----
    Near 0 the rows' chances are taken to have a density in proportion to a power a - 1 of them.  Counts k are then in
    proportion to Gamma(k + a)/k!, and as many rows with count 0 as are expected become fewer by the share of a row's
    members among all, to the power a.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> chance = rng.random(40000)
    >>> expected, power = fit_counts(rng.binomial(40, chance).astype(float))
    >>> bool(abs(expected * 0.4**power / np.sum((1.0 - chance) ** 100) - 1.0) < 0.15)
    True
    """
    few = positive[positive <= FEW]
    if few.size == 0:
        return 0.0, 1.0
    each = gammaln(few[:, None] + SHAPES) - gammaln(SHAPES)
    total = gammaln(FEW + 1.0 + SHAPES) - gammaln(1.0 + SHAPES) - gammaln(FEW + 1.0)
    best = int(np.argmax(each.sum(axis=0) - few.size * total))
    return float(few.size * np.exp(-total[best])), float(SHAPES[best])
