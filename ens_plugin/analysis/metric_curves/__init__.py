"""The curve of a metric by the size of an ensemble, of labels or outputs: its values, doubts and recommended size."""

from __future__ import annotations

from ens_plugin.analysis.metric_curves.label_metric import (
    LabelMetricCurve,
    MatrixMetricCurve,
    TwoErrors,
    label_metric_curve,
    typical_size,
)
from ens_plugin.analysis.metric_curves.metric_curve import estimate_own_loss, with_metric_curve
from ens_plugin.analysis.metric_curves.metric_resampling import Resampled
from ens_plugin.analysis.metric_curves.metric_size import MetricChange
from ens_plugin.analysis.metric_curves.ranked_chances import ranked_chances
from ens_plugin.analysis.metric_curves.two_errors import two_errors
from ens_plugin.analysis.metric_curves.zero_probabilities import zero_rows

__all__ = [
    "LabelMetricCurve",
    "MatrixMetricCurve",
    "MetricChange",
    "Resampled",
    "TwoErrors",
    "estimate_own_loss",
    "label_metric_curve",
    "ranked_chances",
    "two_errors",
    "typical_size",
    "with_metric_curve",
    "zero_rows",
]
