"""Parts of a report that are computed when they are first read."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, analyze
from ens_plugin.findings import finding
from ens_plugin.report.result import LATER, Later, changed, with_findings

PARTS = {"algorithmic_sd", "criteria", "judged_rows", "label_errors"}


@pytest.fixture
def report() -> EnsembleReport:
    X, y = load_breast_cancer(return_X_y=True)
    return analyze(RandomForestClassifier(30, random_state=0).fit(X[::3], y[::3]), X[::3], y[::3])


def test_a_part_is_computed_once_when_it_is_read(report: EnsembleReport) -> None:
    assert set(vars(report)[LATER]) == PARTS
    first = report.label_errors
    assert [own.label for own in first] == ["0", "1"]
    assert report.label_errors is first
    assert set(vars(report)[LATER]) == PARTS - {"label_errors"}


def test_a_change_computes_nothing_and_gives_the_same_values(report: EnsembleReport) -> None:
    note = finding("few-rows", "A note.", n_effective=190.0)
    other = with_findings(changed(report, model="Renamed"), (note,))
    assert set(vars(other)[LATER]) == set(vars(report)[LATER]) == PARTS
    assert other.to_json() == changed(with_findings(report, (note,)), model="Renamed").to_json()
    assert replace(other, model=report.model, basis=report.basis).to_json() == report.to_json()


def test_a_part_that_is_given_is_not_computed() -> None:
    def fail() -> None:
        raise AssertionError("It was computed.")

    X, y = load_breast_cancer(return_X_y=True)
    report = analyze(RandomForestClassifier(30, random_state=0).fit(X[::3], y[::3]), X[::3], y[::3])
    assert changed(changed(report, judged_rows=Later(fail)), judged_rows=None).judged_rows is None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda own: pickle.loads(pickle.dumps(own))])
def test_copies_hold_values_alone(report: EnsembleReport, copied: object) -> None:
    assert callable(copied)
    other = copied(report)
    assert LATER not in vars(other)
    assert other.to_json() == report.to_json()
