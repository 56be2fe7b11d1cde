"""The steps from rows of two labels to the errors of each: rows that count for both, and what their chances do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.analysis import metric_curves
from ens_plugin.analysis.estimates import row_models
from ens_plugin.core.intervals import ErrorDraws
from ens_plugin.core.row_model import row_means
from tests.forests import Array

MODULE: Any = metric_curves


@dataclass
class Case:
    """What the errors of both labels are computed from, with the members' probabilities of the second label."""

    original: Any
    rows: Any
    found: Any
    settings: Any
    result: tuple[ErrorDraws, ErrorDraws]
    second: Array
    y: Array
    weight: Array


@pytest.fixture(scope="module")
def case() -> Case:
    rng = np.random.default_rng(0)
    y, weight = (rng.random(300) < 0.3).astype(int), rng.choice([0.5, 1.0, 4.0], 300)
    chance = np.where(y == 1, rng.beta(3.0, 2.0, 300), rng.beta(1.5, 4.0, 300))
    second = rng.beta(2.0 * chance, 2.0 * (1.0 - chance), (20, 300))
    kept: list[Any] = []
    original = MODULE._by_chances

    def recorded(rows: Any, found: Any, settings: Any, **options: Any) -> Any:
        kept.extend([original, rows, found, settings, original(rows, found, settings, **options)])
        return kept[-1]

    ensemble = CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MODULE, "_by_chances", recorded)
        analyze(ensemble, None, y, metric="f1", data="holdout", sample_weight=weight)
    return Case(*kept, second, y, weight)


def test_all_rows_count_as_rows_of_each_label_by_their_chances(case: Case) -> None:
    parts = MODULE._both_labels(case.rows, case.found)
    for code, (part, chance) in enumerate(zip(parts, (1.0 - case.found.second, case.found.second), strict=True)):
        wrong = case.second if code == 0 else 1.0 - case.second
        np.testing.assert_allclose(part.tally.wrong, wrong.sum(axis=0), rtol=1e-9)
        np.testing.assert_allclose(part.tally.squares, (wrong**2).sum(axis=0), rtol=1e-9)
        np.testing.assert_array_equal(part.tally.wrong_labels, (wrong > 0.5).sum(axis=0))
        np.testing.assert_array_equal(part.sample.block.target, code)
        expected = case.weight * chance
        for found, rows in ((part.weight.total, slice(None)), (part.sample.weight, part.sample.rows)):
            np.testing.assert_allclose(found / found.sum(), (expected / expected.sum())[rows], rtol=1e-9)


def test_chances_are_fitted_to_the_log_odds_of_the_support(case: Case) -> None:
    support = case.second.sum(axis=0)
    np.testing.assert_allclose(case.found.columns[:, 1], logit((support + 0.5) / 21.0), rtol=1e-9)


def test_slopes_are_the_derivatives_of_the_weighted_error_less_its_limit(case: Case) -> None:
    """By differences of the sum of chance times error, with the errors of the row model as they are."""
    rows = MODULE._as_label(case.rows, 1)
    sizes = np.array([1.0, 11.0, 101.0, np.inf])
    slopes = MODULE._slopes_by_coefficient(rows, case.found, sizes, has_scores=False)
    model = row_models(rows.tally, rows.weight, None, None, rows.sample, False)[0]
    wrong = row_means(model, model.error_by_point(sizes))
    coefficients = np.linalg.lstsq(case.found.columns, logit(case.found.second))[0]

    def summed(at: Array) -> Array:
        chance = expit(case.found.columns @ at)
        return np.asarray((wrong - wrong[-1]) @ (rows.weight.total * chance)[rows.sample.rows])

    for place, step in enumerate(1e-5 * np.eye(coefficients.size)):
        change = (summed(coefficients + step) - summed(coefficients - step)) / 2e-5
        np.testing.assert_allclose(slopes[place], change, rtol=1e-4, atol=1e-4)


def test_draws_have_the_uncertainty_of_the_chances(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws without it differ by the slopes times normal coefficients, over the weight of each label's rows."""
    settings = case.settings
    without = np.zeros((case.found.columns.shape[1], case.result[0].sizes.size))
    slopes = MODULE._slopes_by_coefficient(
        MODULE._as_label(case.rows, 1), case.found, case.result[1].sizes, has_scores=False
    )
    monkeypatch.setattr(MODULE, "_slopes_by_coefficient", lambda *_, **__: without)
    plain = case.original(case.rows, case.found, settings, has_scores=False, is_even=True)
    added = [drawn.draws - alone.draws for drawn, alone in zip(case.result, plain, strict=True)]
    totals = [float(part.weight.total.sum()) for part in MODULE._both_labels(case.rows, case.found)]
    np.testing.assert_allclose(added[0] * totals[0], added[1] * totals[1], atol=1e-9)
    expected = np.sqrt(np.einsum("is,ij,js->s", slopes, case.found.covariance, slopes))
    np.testing.assert_allclose((added[1] * totals[1]).std(axis=0), expected, rtol=0.15, atol=1e-9)


def test_draws_of_the_labels_own_rows_are_in_orders_of_their_own(case: Case) -> None:
    """Both come from one seed, which would make errors of different rows move together."""
    own = MODULE._by_own_rows(case.rows, case.settings, has_scores=False, is_even=True)
    given = [
        MODULE.draw_label_errors(case.rows.part(case.y == code), case.settings, has_scores=False).draws[:, 0]
        for code in (0, 1)
    ]
    found = [each.draws[:, 0] for each in own.errors]
    for ours, theirs in zip(found, given, strict=True):
        np.testing.assert_allclose(np.sort(ours), np.sort(theirs), rtol=1e-12)
    assert np.mean(found[1] == given[1]) < 0.1
    assert abs(np.corrcoef(found)[0, 1]) < 0.2
    assert own.weights == pytest.approx([case.weight[case.y == code].sum() for code in (0, 1)])


def test_a_limit_replaces_the_limit_and_leaves_the_changes() -> None:
    sizes = np.array([1.0, 11.0, np.inf])
    change = ErrorDraws(sizes, np.array([0.3, 0.25, 0.2]), np.array([[0.32, 0.28, 0.22], [0.1, 0.04, 0.01]]))
    limit = ErrorDraws(sizes, np.array([0.5, 0.5, 0.1]), np.array([[0.6, 0.6, 0.12], [0.5, 0.5, 0.0]]))
    found = MODULE._with_limit(change, limit)
    np.testing.assert_allclose(found.error, [0.2, 0.15, 0.1])
    np.testing.assert_allclose(found.draws, [[0.22, 0.18, 0.12], [0.09, 0.03, 0.0]])
