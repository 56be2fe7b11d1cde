"""The result of an analysis: one frozen, typed, serialisable object."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Literal

from ens_plugin.errors import InputError
from ens_plugin.report.estimates import BiasVariance, ErrorCurve, EstimateBasis, SizeRecommendation

__all__ = ["FEWEST_ROWS", "LONGEST_REPORT", "EnsembleReport"]

# On fewer rows, no recommended size is precise enough to act on.
FEWEST_ROWS = 30
SCHEMA_VERSION = 1
# In characters; a report on 100 000 sizes has 17 million.
LONGEST_REPORT = 20_000_000


@dataclass(frozen=True, eq=False, repr=False)
class EnsembleReport:
    """Everything that :func:`ens_plugin.analyze` estimated about one trained ensemble.

    Attributes
    ----------
    task : {"classification", "regression"}
    model : str
        Class name of the analysed ensemble, wrappers removed.
    n_members : int
        Members in the trained ensemble: its current size.
    n_rows : int
        Rows that entered the estimates.
    rows_without_oob : int
        Rows left out because too few members were out of bag for them.
    mean_oob_members : float
        Mean number of out-of-bag members of a row (all members for held-out data).
    aggregation : {"vote", "mean_proba", "mean_score", "mean"}
        Rule by which the model's own ``predict`` combines its members.
    bags : {"recorded", "proved", "given", "holdout"}
        How the bags are known: which rows a member was trained on.
    data : {"oob", "holdout"}
    error_curve : ErrorCurve
    recommendation : SizeRecommendation
    bias_variance : BiasVariance
    algorithmic_sd : float
        Standard deviation, over seeds, of the 0-1 error or mean squared error at the current size: on these rows if
        they are held out, on fresh rows without end otherwise.  NaN where the curve is of a user's own metric.
    algorithmic_sd_is_bound : bool
        True in reports of earlier versions on out-of-bag rows, where `algorithmic_sd` was an upper bound.
    warnings : tuple of str
        What a reader should know before relying on the numbers.
    created : str
        UTC time of the analysis, ISO 8601.
    versions : dict of str to str
        Versions of ens_plugin and of the libraries that computed the report.
    basis : EstimateBasis
        What the figures rest on, and the reasons not to rely on them.

    Notes
    -----
    Serialise with :meth:`to_json`, read back with :meth:`from_json`; the round trip is exact.
    """

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

    def __repr__(self) -> str:
        found = self.metrics()
        shown = [f"{name}={found[name]:.4g}" for name in ("error", "asymptotic_error") if name in found]
        return (
            f"EnsembleReport({self.model}, {', '.join([f'n_members={self.n_members}', *shown])}, "
            f"recommended_size={self.recommended_size})"
        )

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"

    @property
    def recommended_size(self) -> int | None:
        """The recommended number of members; None when above the largest size considered."""
        return self.recommendation.size

    @property
    def is_actionable(self) -> bool:
        """Whether a decision on size can rest on this report: rows enough, a known size and no doubts."""
        return self.recommendation.is_known and self.n_rows >= FEWEST_ROWS and not self.basis.doubts

    @property
    def error(self) -> float:
        """Expected error at the current size; NaN if the curve stops below it."""
        return self.error_curve.at(self.n_members) if self.error_curve.reaches(self.n_members) else math.nan

    @property
    def error_interval(self) -> tuple[float, float]:
        """Data interval of :attr:`error`; NaNs if the curve stops below the current size."""
        if not self.error_curve.reaches(self.n_members):
            return math.nan, math.nan
        return self.error_curve.interval_at(self.n_members)

    def metrics(self) -> dict[str, float]:
        """Return a flat dictionary of the scalars that MLflow gets, without a prefix.

        Returns
        -------
        dict of str to float
            Keys such as ``"error"``, ``"asymptotic_error"``, ``"recommended_size"``.  Values that
            this report does not define (``"agreement"`` for regression, the asymptote of the path
            estimator) are left out.  ``"recommended_size"`` is `max_size` when the recommendation
            lies above it, and ``"size_capped"`` is then 1; both are left out where it is not known.
        """
        lower, upper = self.error_interval
        recommended = self.recommendation.size
        values: dict[str, float | None] = {
            "error": self.error,
            "error_lower": lower,
            "error_upper": upper,
            "asymptotic_error": self.error_curve.asymptote,
            "excess_error": self.error - self.error_curve.asymptote,
            "algorithmic_sd": self.algorithmic_sd,
            "n_members": float(self.n_members),
            "recommended_size": float(self.recommendation.max_size if recommended is None else recommended),
            "size_capped": float(recommended is None),
            "agreement": self.recommendation.agreement,
            "member_error": self.bias_variance.member_error,
            "member_variance": self.bias_variance.member_variance,
            "bias": self.bias_variance.bias,
        }
        if not self.recommendation.is_known:
            values["recommended_size"] = values["size_capped"] = None
        return {key: float(value) for key, value in values.items() if value is not None and not math.isnan(value)}

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as plain Python objects that ``json`` can write (NaN as None)."""
        from ens_plugin.report.serialization import report_to_dict

        return report_to_dict(self)

    def to_json(self) -> str:
        """Return the whole report as JSON text; floats keep every bit."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> EnsembleReport:
        """Return the report that :meth:`to_json` wrote.

        Raises
        ------
        InputError
            If the text is longer than any report, not JSON, not a report of a known schema version, or one whose
            numbers no analysis finds.
        """
        from ens_plugin.report.serialization import report_from_dict

        if isinstance(text, (str, bytes, bytearray)) and len(text) > LONGEST_REPORT:
            raise InputError(
                f"This text has {len(text)} characters, and a report has at most {LONGEST_REPORT}; "
                "analyse the model again, with fewer `sizes`."
            )
        try:
            content = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(
                f"This is not JSON ({str(error)[:200]}); pass the text of a report.json written by to_json()."
            ) from error
        return report_from_dict(content)

    def to_html(self, path: str | Path) -> Path:
        """Write the report as one self-contained HTML page and return its path."""
        from ens_plugin.report.html import write_page

        return write_page(self, path)

    def summary(self) -> str:
        """Return a plain-text summary, at most 80 columns wide."""
        from ens_plugin.report.text import summarize

        return summarize(self)
