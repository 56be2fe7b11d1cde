"""Labels that are rare or many: the curve is right within its interval, or there is a reason in the report."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import ens_plugin
from ens_plugin import CustomEnsemble


def votes_on_many_labels(n_members: int, seed: int) -> tuple[CustomEnsemble, NDArray[np.int64], float]:
    """Votes of bagged members on 30 labels, and the error of infinitely many."""
    rng = np.random.default_rng(seed)
    n_rows = 1500
    target = rng.integers(0, 30, n_rows)
    rows = np.arange(n_rows)
    shares = 0.35 * rng.dirichlet(np.full(30, 0.7), n_rows)
    right = 0.65 * rng.beta(2.5, 1.5, n_rows)
    shares[rows, target] += right
    shares[rows, (target + rng.integers(1, 3, n_rows)) % 30] += 0.65 - right
    reached = np.cumsum(shares, axis=1)
    draws = rng.random((n_members, n_rows, 1))
    votes = np.minimum(np.sum(reached < draws, axis=2), 29)
    in_bag = rng.random((n_members, n_rows)) < 0.632
    ensemble = CustomEnsemble(votes, in_bag, aggregation="vote", classes=list(range(30)))
    return ensemble, target, float(np.mean(np.argmax(shares, axis=1) != target))


@pytest.mark.parametrize(
    "n_members", [8, *(pytest.param(n_members, marks=pytest.mark.slow) for n_members in (30, 100))]
)
def test_many_labels_are_within_the_interval_and_few_members_are_loud(n_members: int) -> None:
    ensemble, target, truth = votes_on_many_labels(n_members, 1)
    report = ens_plugin.analyze(ensemble, None, target)
    lower, upper = report.error_curve.asymptote_interval
    assert lower <= truth <= upper
    if n_members == 8:
        assert upper - lower > 0.2


def test_widened_interval_is_that_of_the_subsets_where_they_reach() -> None:
    ensemble, target, _ = votes_on_many_labels(8, 2)
    curve = ens_plugin.analyze(ensemble, None, target).error_curve
    (lower, upper), (_, limit) = curve.interval_at(1), curve.asymptote_interval
    assert upper - lower < 0.1
    assert limit - curve.asymptote > curve.check
    assert curve.asymptote - curve.asymptote_interval[0] > min(curve.check, curve.asymptote)


def test_the_interval_allows_for_an_error_of_the_correction_for_noisy_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    """With eight members the correction is a large part of the error, and it errs by about a fifth."""
    ensemble, target, _ = votes_on_many_labels(8, 3)
    widths = []
    for relative_error in (None, 0.0):
        if relative_error is not None:
            monkeypatch.setattr("ens_plugin.analysis.labels.MODEL_ERROR", relative_error)
        low, high = ens_plugin.analyze(ensemble, None, target).error_curve.asymptote_interval
        widths.append(high - low)
    assert widths[0] > 1.03 * widths[1]
