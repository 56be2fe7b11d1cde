"""The curve of a metric by the size of an ensemble, of labels or outputs: its values, doubts and recommended size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
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
    from ens_plugin.analysis.metric_curves.ranked_chances import rank_chances
    from ens_plugin.analysis.metric_curves.zero_probabilities import ZeroRows, expected_zeros

__all__ = [
    "LabelMetricCurve",
    "MatrixMetricCurve",
    "MetricChange",
    "Resampled",
    "TwoErrors",
    "ZeroRows",
    "estimate_own_loss",
    "expected_zeros",
    "label_metric_curve",
    "rank_chances",
    "typical_size",
    "with_metric_curve",
]

_HOME_OF = {
    "LabelMetricCurve": "ens_plugin.analysis.metric_curves.label_metric",
    "MatrixMetricCurve": "ens_plugin.analysis.metric_curves.label_metric",
    "MetricChange": "ens_plugin.analysis.metric_curves.metric_size",
    "Resampled": "ens_plugin.analysis.metric_curves.metric_resampling",
    "TwoErrors": "ens_plugin.analysis.metric_curves.label_metric",
    "ZeroRows": "ens_plugin.analysis.metric_curves.zero_probabilities",
    "estimate_own_loss": "ens_plugin.analysis.metric_curves.metric_curve",
    "expected_zeros": "ens_plugin.analysis.metric_curves.zero_probabilities",
    "label_metric_curve": "ens_plugin.analysis.metric_curves.label_metric",
    "rank_chances": "ens_plugin.analysis.metric_curves.ranked_chances",
    "typical_size": "ens_plugin.analysis.metric_curves.label_metric",
    "with_metric_curve": "ens_plugin.analysis.metric_curves.metric_curve",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
