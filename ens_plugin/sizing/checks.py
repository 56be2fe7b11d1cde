"""Checks of an ensemble cut to its recommended size, against the report on the whole ensemble."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.uncertainty.cut_comparison import agreement_interval, interval_over_seeds
from ens_plugin.errors import InputError
from ens_plugin.report.estimates import SizeRecommendation
from ens_plugin.report.quantities import error_text, interval_text, level_text, members_text
from ens_plugin.report.result import EnsembleReport
from ens_plugin.sizing.predictions import labels

__all__ = ["Check", "cut_checks", "is_met"]


@dataclass(frozen=True)
class Check:
    """One requirement on an ensemble, and whether the ensemble satisfies it.

    Attributes
    ----------
    name : str
    passed : bool
    value, limit : float or None
        Measured value and the limit on it; None where the requirement has no number.
    sentence : str
    """

    name: str
    passed: bool
    value: float | None
    limit: float | None
    sentence: str

    @property
    def text(self) -> str:
        """Return the sentence of the check, with "Passed" or "FAILED" before it."""
        return f"{'Passed' if self.passed else 'FAILED'}: {self.sentence}"


def is_met(found: SizeRecommendation, size: int) -> bool:
    """Return whether a number of members meets the criterion of a recommendation, also of one that states no size."""
    if found.size is not None:
        return found.size <= size
    value = float(np.interp(size, found.sizes, found.values))
    if found.confidence is not None:
        return bool(value >= found.confidence)
    return bool(value <= (found.tolerance or 0.0))


def cut_checks(
    model: Any, cut: Any, X: Any, report: EnsembleReport, cut_report: EnsembleReport, sample_weight: ArrayLike | None
) -> tuple[Check, ...]:
    """Return checks whether a cut ensemble has the agreement and the error that the report on the whole one estimated.

    Parameters
    ----------
    model, cut : fitted models
        The whole ensemble, and the ensemble of its first members.
    X : array-like, shape (n_rows, n_features)
        Rows to predict with both.
    report, cut_report : EnsembleReport
        Reports on `model` and on `cut`, on the same rows.
    sample_weight : array-like, shape (n_rows,), or None

    Returns
    -------
    tuple of Check
        ``"agreement"`` (where an agreement is wanted): on held-out rows, the labels of both ensembles agree not
        significantly less often than wanted; on out-of-bag rows, `cut_report` recommends no more members than the
        cut ensemble has. ``"error"``: the error of `cut_report` is in the interval of the curve of `report`, widened
        by the variation over seeds.

    Notes
    -----
    On training rows the labels of both ensembles are not compared: most members were trained on a row, and predict
    its own label whatever their number.

    Raises
    ------
    InputError
        If the curve of `report` ends below the size of `cut`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> small = ens_plugin.truncate(forest, 40)
    >>> whole, cut = (ens_plugin.analyze(model, X, y, confidence=0.99) for model in (forest, small))
    >>> [check.passed for check in cut_checks(forest, small, X, whole, cut, None)]
    [True, True]
    """
    confidence = report.recommendation.confidence
    error = _error_check(report, cut_report)
    if confidence is None:
        return (error,)
    if report.data == "oob":
        return _estimated_agreement_check(cut_report, confidence), error
    return _agreement_check(labels(model, X), labels(cut, X), report, cut_report, confidence, sample_weight), error


def _estimated_agreement_check(cut_report: EnsembleReport, wanted: float) -> Check:
    found, size = cut_report.recommendation.agreement or 0.0, cut_report.recommended_size
    sentence = (
        f"{members_text(cut_report.n_members)} and infinitely many give the same label on {100 * found:.2f} % "
        f"of rows, by the out-of-bag report on the cut ensemble; at least {100 * wanted:g} % is wanted."
    )
    is_enough = found >= wanted if size is None else size <= cut_report.n_members
    return Check("agreement", is_enough, found, wanted, sentence)


def _agreement_check(
    whole: ArrayLike, cut: ArrayLike, report: EnsembleReport, cut_report: EnsembleReport, wanted: float,
    sample_weight: ArrayLike | None,
) -> Check:  # fmt: skip
    share, _, upper = agreement_interval(whole, cut, sample_weight, report.error_curve.interval_level)
    sentence = (
        f"{members_text(cut_report.n_members)} and all {report.n_members} give the same label on {100 * share:.2f} % "
        f"of these rows. On fresh rows, a share of up to {100 * upper:.2f} % is plausible; at least "
        f"{100 * wanted:g} % is wanted."
    )
    return Check("agreement", upper >= wanted, share, wanted, sentence)


def _error_check(report: EnsembleReport, cut_report: EnsembleReport) -> Check:
    curve, size, found = report.error_curve, cut_report.n_members, cut_report.error
    expected = curve.at(size) if curve.reaches(size) else math.nan
    if math.isnan(expected) or math.isnan(found):
        raise InputError(
            f"The error of {members_text(size)} cannot be compared: a curve of estimator={curve.estimator!r} ends "
            "below that size. Use another estimator; 'auto' reaches every size."
        )
    level = curve.interval_level
    # The deviation over seeds is not known for every metric.
    seed_sd = 0.0 if math.isnan(cut_report.algorithmic_sd) else cut_report.algorithmic_sd
    lower, upper = interval_over_seeds(expected, curve.interval_at(size), seed_sd, level)
    least = -math.inf if curve.metric_basis is not None else 0.0
    sentence = (
        f"{members_text(size)}: {curve.metric} {error_text(found, curve.metric)}; the whole ensemble's curve has "
        f"{error_text(expected, curve.metric)}, {level_text(level)} interval "
        f"{interval_text((max(lower, least), upper), curve.metric)}."
    )
    return Check("error", lower <= found <= upper, found, lower if found < lower else upper, sentence)
