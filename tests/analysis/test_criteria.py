"""The size in every respect; which of them are required, and kept, is tested in ``test_promise``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import ens_plugin
from ens_plugin.errors import InputError
from tests.forests import cancer, diabetes


def by_name(report: ens_plugin.EnsembleReport) -> dict[str, ens_plugin.SizeRecommendation]:
    return {found.criterion: found for found in report.criteria}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"criterion": "agreement"}, 0.01),
        ({"criterion": "agreement", "tolerance": 0.05}, 0.05),
        ({"criterion": "error", "tolerance": 0.05}, 0.01),
        ({"tolerance": 0.05}, 0.01),
    ],
)
def test_a_tolerance_is_of_labels_where_the_agreement_was_named(options: dict[str, Any], expected: float) -> None:
    report = ens_plugin.analyze(*cancer(), **options)
    assert by_name(report)["agreement"].tolerance == expected
    assert by_name(report)["agreement"].limit == 1.0


def test_values_have_the_error_alone() -> None:
    forest, X, y = diabetes()
    report = ens_plugin.analyze(forest, X, y)
    assert [found.criterion for found in report.criteria] == ["error"]
    assert report.recommendation is report.criteria[0]
    for criterion in ("agreement", "probability"):
        with pytest.raises(InputError, match="predicts values"):
            ens_plugin.analyze(forest, X, y, criterion=criterion)


@pytest.mark.parametrize("criterion", ["accuracy", None, 3, ["agreement"]])
def test_an_unknown_criterion_is_refused_with_the_known_ones(criterion: Any) -> None:
    with pytest.raises(InputError, match="'auto', 'agreement', 'error', 'probability'"):
        ens_plugin.analyze(*cancer(), criterion=criterion)


def test_copies_of_rows_that_are_grouped_leave_the_interval_of_the_size_as_it_is() -> None:
    """Without groups, four copies of each row would halve it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    # Of some rows members differ by far, so that rows and not members limit what is known.
    spread = np.where(rng.random(300) < 0.3, 0.4, 0.02)
    second = np.clip(0.3 + 0.4 * y + rng.normal(0.0, 0.05, 300) + spread * rng.normal(size=(200, 300)), 0.0, 1.0)

    def width(n_copies: int, groups: Any) -> float:
        own, target = np.repeat(second, n_copies, axis=1), np.repeat(y, n_copies)
        ensemble = ens_plugin.CustomEnsemble(np.stack([1.0 - own, own], axis=2), None, aggregation="mean_proba")
        found = by_name(ens_plugin.analyze(ensemble, None, target, data="holdout", groups=groups, tolerance=0.0005))[
            "probability"
        ]
        return math.log(found.interval[1] / found.interval[0])

    assert width(4, np.repeat(np.arange(300), 4)) == pytest.approx(width(1, None), rel=0.2)
    assert width(4, None) < 0.7 * width(1, None)


def test_an_agreement_warns_of_a_rare_label() -> None:
    X, y = make_classification(600, weights=[0.96], flip_y=0.0, random_state=0)
    forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    warning = "hardly depends on it"
    assert any(warning in text for text in ens_plugin.analyze(forest, X, y, criterion="agreement").warnings)
    assert not any(warning in text for text in ens_plugin.analyze(forest, X, y).warnings)
    assert not any(warning in text for text in ens_plugin.analyze(*cancer(), criterion="agreement").warnings)
    # A label of 13 % of the rows is more than ten times as frequent as the disagreement of 1 %.
    X, y = make_classification(600, weights=[0.87], flip_y=0.0, random_state=0)
    forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    assert not any(warning in text for text in ens_plugin.analyze(forest, X, y, criterion="agreement").warnings)


@pytest.mark.parametrize(("gap", "n_members"), [(2.0, 100), (4.0, 50), (20.0, 50)])
def test_separated_labels_take_no_more_members_than_there_are(gap: float, n_members: int) -> None:
    """1 % of an error of rounding would take thousands; 0.2 points of accuracy take few."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 150)
    X = 0.3 * rng.standard_normal((300, 5)) + gap * y[:, None]
    forest = ExtraTreesClassifier(n_members, bootstrap=True, random_state=1).fit(X, y)
    report = ens_plugin.analyze(forest, X, y)
    assert report.error_curve.asymptote < 0.5 / 300
    found = by_name(report)
    assert found["error"].tolerance >= 0.002
    # A quarter for two labels as frequent.
    assert found["probability"].tolerance == pytest.approx(max(0.0005, 0.01 * found["probability"].limit))
    assert report.is_enough
    assert report.recommended_size <= n_members


def test_a_size_is_promised_however_wide_its_interval() -> None:
    """Of 200 rows with an error of about .2, the need is known to a factor of ten, and the bound is a number."""
    X, y = make_classification(200, 8, flip_y=0.3, random_state=0)
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(X, y)
    found = ens_plugin.analyze(forest, X, y, criterion="error", tolerance=0.01).recommendation
    low, high = found.interval
    assert high is None or high > 4 * low
    assert found.size is None or low <= found.size <= (high or 20_001)
    default = ens_plugin.analyze(forest, X, y, criterion="error")
    assert default.recommended_size is not None
    assert default.is_actionable
    assert default.metrics()["recommended_size"] == default.recommended_size
