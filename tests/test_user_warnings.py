"""Warnings point at the line of the user that led to them."""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin.errors import EnsPluginWarning
from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier
from ens_plugin.papers.wrong_votes import fit_mixture

X, Y = (part[::20] for part in load_breast_cancer(return_X_y=True))


def analyze_few_rows() -> None:
    ens_plugin.analyze(RandomForestClassifier(20, random_state=0).fit(X, Y), X, Y)  # here


def fit_few_counts() -> None:
    fit_mixture([1, 2, 1], [4, 4, 4])  # here


def grow_on_few_rows() -> None:
    ens_plugin.grow(RandomForestClassifier(random_state=0), X, Y)  # here


def grow_within_a_pipeline() -> None:
    make_pipeline(StandardScaler(), ens_plugin.RightSizedClassifier(random_state=0)).fit(X, Y)  # here


def average_until_settled() -> None:
    model = BootstrapModelAveragingClassifier(n_estimators="auto", max_n_estimators=3, random_state=0)
    model.fit(X, Y)  # here


@pytest.mark.parametrize(
    "call",
    [analyze_few_rows, fit_few_counts, grow_on_few_rows, grow_within_a_pipeline, average_until_settled],
    ids=lambda call: call.__name__,
)
def test_a_warning_points_at_the_users_line(call: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    ours = [warning for warning in caught if issubclass(warning.category, EnsPluginWarning)]
    assert ours
    for warning in ours:
        assert warning.filename == __file__
        assert linecache.getline(warning.filename, warning.lineno).rstrip().endswith("# here")
