"""What the gate advises where a requirement on the report fails."""

from __future__ import annotations

import pytest

from ens_plugin.registry.policy import Bound, Requirement, report_remedies, report_remedy

SCALARS = {"error": 0.07, "error_upper": 0.09, "roc_auc": 0.91, "roc_auc_lower": 0.85, "size_ratio": 0.3}


@pytest.mark.parametrize(
    ("name", "bound", "threshold", "advice"),
    [
        ("agreement", "min", 0.99, "Train more members"),
        ("size_ratio", "max", 0.2, "Cut the model"),
        ("megabytes", "max", 50.0, "Cut the model"),
        ("latency_ms", "max", 2.0, "Cut the model"),
        ("error", "max", 0.05, "Train a better model"),
        ("error_upper", "max", 0.08, "Analyse more rows"),
        ("error_upper", "max", 0.05, "Train a better model"),
        ("roc_auc_lower", "min", 0.9, "Analyse more rows"),
        ("roc_auc_lower", "min", 0.95, "Train a better model"),
    ],
)
def test_the_advice_fits_what_failed(name: str, bound: Bound, threshold: float, advice: str) -> None:
    found = report_remedy(Requirement("report", name, bound, threshold), SCALARS)
    assert found is not None
    assert advice in found


def test_no_advice_where_no_single_one_is_right() -> None:
    assert report_remedy(Requirement("report", "bias", "max", 0.1), SCALARS) is None
    assert report_remedy(Requirement("report", "agreement", "max", 0.1), SCALARS) is None


@pytest.mark.parametrize("name", ["r2", "r2_lower", "asymptotic_r2"])
def test_advice_for_a_score_names_a_scalar_that_its_report_has(name: str) -> None:
    scalars = {"r2": 0.7, "r2_lower": 0.6, "asymptotic_r2": 0.72, "r2_shortfall": 0.02}
    found = report_remedy(Requirement("report", name, "min", 0.9), scalars)
    assert found is not None
    assert "asymptotic_r2" in found
    assert "excess_error" not in found


def test_more_and_fewer_members_are_not_advised_together() -> None:
    agreement = Requirement("report", "agreement", "min", 0.99)
    ratio = Requirement("report", "size_ratio", "max", 0.2)
    error = Requirement("report", "error", "max", 0.05)
    assert report_remedies([agreement, agreement], SCALARS) == [report_remedy(agreement, SCALARS)]
    better, neither = report_remedies([agreement, error, ratio], SCALARS)
    assert better == report_remedy(error, SCALARS)
    assert "no size of this model" in neither
