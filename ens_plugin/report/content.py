"""The fields of a report, and the scalars computed from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ens_plugin.core.validation import counted
from ens_plugin.report.estimates import BiasVariance, ErrorCurve, EstimateBasis, LabelErrors, SizeRecommendation

__all__ = ["FEWEST_ROWS", "ReportContent"]

# With fewer rows, a recommended size is too uncertain for a decision.
FEWEST_ROWS = 30


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
    algorithmic_sd_is_bound: bool
    warnings: tuple[str, ...] = ()
    created: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    basis: EstimateBasis = field(default_factory=EstimateBasis)
    criteria: tuple[SizeRecommendation, ...] = ()
    label_errors: tuple[LabelErrors, ...] = ()
    outputs: Mapping[str, ReportContent] = field(default_factory=dict)
    model_id: str | None = None
    fingerprint: tuple[str, ...] = ()

    @property
    def recommended_size(self) -> int | None:
        """Return the recommended number of members; None if above the largest size considered, or not estimated."""
        return self.recommendation.size

    @property
    def is_actionable(self) -> bool:
        """Return whether the report supports a decision on size: 30 rows or more, a recommended size and no doubts."""
        return self.recommendation.is_known and self.has_enough_rows and not self.basis.doubts

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
    def size_ratio(self) -> float | None:
        """Return n_members over the recommended size, at most `max_size`; None if no size could be estimated."""
        if not self.recommendation.is_known:
            return None
        return self.n_members / (self.recommended_size or self.recommendation.max_size)

    @property
    def error(self) -> float:
        """Return the expected error at the current size; NaN if the curve ends below that size."""
        return self.error_curve.at(self.n_members) if self.error_curve.reaches(self.n_members) else math.nan

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
        return self.error_curve.metric == "mean squared error"

    def _rmse_metrics(self) -> dict[str, float]:
        if not self.is_squared:
            return {}
        squares = dict(zip(("rmse", "rmse_lower", "rmse_upper"), (self.error, *self.error_interval), strict=True))
        squares["asymptotic_rmse"] = self.error_curve.asymptote
        return {name: math.sqrt(max(value, 0.0)) for name, value in squares.items()}

    def metrics(self) -> dict[str, float]:
        """Return the scalars of the report that are logged to MLflow, by name without a prefix.

        Returns
        -------
        dict of str to float
            Keys such as ``"error"``, ``"asymptotic_error"``, ``"recommended_size"``.  A curve of a scorer of
            scikit-learn has its name in place of "error": ``"roc_auc"``, ``"roc_auc_lower"``, ``"roc_auc_upper"``,
            ``"asymptotic_roc_auc"``, and ``"roc_auc_shortfall"``, by how much the infinite ensemble's is greater, in
            place of ``"excess_error"``.  Values that
            this report does not define (``"agreement"`` for regression, the asymptote of the path
            estimator) are missing.  A mean squared error has its root beside it: ``"rmse"``, ``"rmse_lower"``,
            ``"rmse_upper"``, ``"asymptotic_rmse"``.  ``"recommended_size"`` is `max_size` when the recommendation
            is above it, and ``"size_capped"`` is then 1; without a recommendation both are missing.
        """
        lower, upper = self.error_interval
        recommended = self.recommendation.size
        key, limit, is_score = self.error_curve.key, self.error_curve.asymptote, self.error_curve.greater_is_better
        values: dict[str, float | None] = {
            key: self.error,
            f"{key}_lower": lower,
            f"{key}_upper": upper,
            f"asymptotic_{key}": limit,
            **({f"{key}_shortfall": limit - self.error} if is_score else {"excess_error": self.error - limit}),
            "algorithmic_sd": self.algorithmic_sd,
            "n_members": float(self.n_members),
            "recommended_size": float(self.recommendation.max_size if recommended is None else recommended),
            "size_capped": float(recommended is None),
            "agreement": self.recommendation.agreement,
            "member_error": self.bias_variance.member_error,
            "member_variance": self.bias_variance.member_variance,
            "bias": self.bias_variance.bias,
            **self._rmse_metrics(),
        }
        if not self.recommendation.is_known:
            values["recommended_size"] = values["size_capped"] = None
        return {key: float(value) for key, value in values.items() if value is not None and not math.isnan(value)}
