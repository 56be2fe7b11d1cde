"""A cut has as many members as its own report recommends."""

from __future__ import annotations

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.analysis import AnalysisOptions
from ens_plugin.errors import TooFewMembersError
from ens_plugin.sizing.truncate import AnalysedModel, sufficient_cut


@pytest.mark.fast_cases("0")
@pytest.mark.parametrize("random_state", range(3))
def test_a_cut_passes_a_gate_that_wants_the_same_agreement(random_state: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(100, random_state=random_state).fit(X, y)
    report = ens_plugin.analyze(forest, X, y, criterion="agreement", confidence=0.98)
    assert report.recommended_size is not None
    options = AnalysisOptions(criterion="agreement", confidence=0.98)
    _, cut_report, checks = sufficient_cut(AnalysedModel(forest, report, X, y, options), report.recommended_size)
    assert cut_report.n_members < 100
    assert cut_report.recommendation.agreement is not None
    assert cut_report.recommendation.agreement >= 0.98
    assert all(check.passed for check in checks)
    # Without the members that are added, the gate would stop these.
    first = ens_plugin.analyze(ens_plugin.truncate(forest, report.recommended_size), X, y)
    assert first.recommendation.agreement is not None
    assert first.recommendation.agreement < 0.98


@pytest.mark.parametrize(("size", "most", "kept"), [(20, 12, 12), (20, 25, 20), (12, 12, 12)])
def test_no_more_members_than_allowed_are_kept_and_their_error_is_checked(size: int, most: int, kept: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    options = AnalysisOptions(criterion="agreement", confidence=0.97 if kept == size < most else 0.995)
    report = ens_plugin.analyze(forest, X, y, criterion="agreement", confidence=options.confidence)
    cut, cut_report, checks = sufficient_cut(AnalysedModel(forest, report, X, y, options), size, most=most)
    assert (len(cut.estimators_), cut_report.n_members) == (kept, kept)
    assert "error" in [check.name for check in checks]
    assert ("agreement" in [check.name for check in checks]) is (most > size)


def test_members_that_the_limits_allow_may_be_too_few_to_be_checked() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(40, random_state=0).fit(X, y)
    whole = AnalysedModel(forest, ens_plugin.analyze(forest, X, y), X, y, AnalysisOptions())
    with pytest.raises(
        TooFewMembersError, match=r"The 1 member that the limits allow cannot .*, or raise the limits\."
    ):
        sufficient_cut(whole, 20, most=1)
