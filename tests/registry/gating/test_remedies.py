"""What the gate advises where a requirement on the report fails."""

from __future__ import annotations

import pytest

from ens_plugin.registry.policy import Bound, Requirement, report_remedies

SCALARS = {"error": 0.07, "error_upper": 0.09, "excess_error": 0.004, "size_ratio": 0.3}


@pytest.mark.parametrize(
    ("name", "bound", "advice"),
    [
        ("agreement", "min", "Train more members"),
        ("size_ratio", "max", "Cut the model"),
        ("megabytes", "max", "Cut the model"),
        ("latency_ms", "max", "Cut the model"),
        ("error", "max", "Train a better model"),
        ("error_upper", "max", "would lower the error by no more than 0.004."),
        ("roc_auc_lower", "min", "analyse more rows"),
    ],
)
def test_the_advice_fits_what_failed(name: str, bound: Bound, advice: str) -> None:
    (found,) = report_remedies([Requirement("report", name, bound, 0.5)], SCALARS)
    assert advice in found


def test_more_and_fewer_members_are_not_advised_together() -> None:
    agreement = Requirement("report", "agreement", "min", 0.99)
    ratio = Requirement("report", "size_ratio", "max", 0.2)
    error = Requirement("report", "error", "max", 0.05)
    assert len(report_remedies([agreement, agreement], SCALARS)) == 1
    better, neither = report_remedies([agreement, error, ratio], SCALARS)
    assert [better] == report_remedies([error], SCALARS)
    assert "no size of this model" in neither
