"""A cut has as many members as its own report finds enough."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.analysis import AnalysisOptions
from ens_plugin.sizing.truncate import AnalysedModel, sufficient_cut


@pytest.mark.fast_cases("0")
@pytest.mark.parametrize("random_state", range(3))
def test_a_cut_to_the_promised_size_has_the_agreement_by_its_own_report(random_state: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(100, random_state=random_state).fit(X, y)
    report = ens_plugin.analyze(forest, X, y, criterion="agreement", tolerance=0.02)
    assert report.recommended_size is not None
    options = AnalysisOptions(criterion="agreement", tolerance=0.02)
    _, cut_report, checks = sufficient_cut(AnalysedModel(forest, report, X, y, options), report.recommended_size)
    assert cut_report.n_members < 100
    assert cut_report.recommendation.agreement is not None
    assert cut_report.recommendation.agreement >= 0.98
    assert all(check.passed for check in checks)
    assert [check.name for check in checks] == ["enough", "error"]


def test_a_cut_that_is_not_enough_by_its_own_report_gets_more_members() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    options = AnalysisOptions(criterion="agreement", tolerance=0.02)
    report = ens_plugin.analyze(forest, X, y, criterion="agreement", tolerance=0.02)
    assert not ens_plugin.analyze(ens_plugin.truncate(forest, 5), X, y, criterion="agreement", tolerance=0.02).is_enough
    _, cut_report, _ = sufficient_cut(AnalysedModel(forest, report, X, y, options), 5)
    assert cut_report.n_members > 5
    assert cut_report.is_enough
