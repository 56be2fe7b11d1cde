"""The standard deviation of a metric over seeds, against that of members drawn with known luck."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin import CustomEnsemble, EnsembleReport, analyze

Array = NDArray[Any]

N_MEMBERS, N_ROWS = 40, 150
SHARED, OWN = 0.3, 1.0
DISTANCE = 20.0


def drawn(rng: np.random.Generator, n_copies: int = 1, spread: float = SHARED) -> Array:
    """Return outputs with luck that all rows share and luck of each row's own, equal for its copies."""
    shared = rng.normal(0.0, spread, (N_MEMBERS, 1))
    return np.repeat(shared + rng.normal(0.0, OWN, (N_MEMBERS, N_ROWS)), n_copies, axis=1)


def level(y: Array, mean: Array) -> float:
    """Return a loss that rises by about 1 with the mean of all outputs, which are far above the target."""
    return float(np.mean((mean - y) ** 2)) / (2.0 * DISTANCE)


def deviation(n_copies: int = 1, holdout: bool = False, spread: float = SHARED, **options: Any) -> float:
    """Return the root of the mean of the variances that 20 analyses state."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        outputs = drawn(rng, n_copies, spread)
        in_bag = None if holdout else np.repeat(rng.random((N_MEMBERS, N_ROWS)) < 0.63, n_copies, axis=1)
        ensemble, y = CustomEnsemble(outputs, in_bag, aggregation="mean"), rng.normal(-DISTANCE, 1.0, N_ROWS * n_copies)
        report = analyze(ensemble, None, y, metric=level, data="holdout" if holdout else "oob", **options)
        found.append(report.algorithmic_sd**2)
    return float(np.sqrt(np.mean(found)))


@cache
def of_single_rows() -> float:
    return deviation()


def test_held_out_rows_count_their_own_luck() -> None:
    truth = np.sqrt((SHARED**2 + OWN**2 / N_ROWS) / N_MEMBERS)
    assert deviation(holdout=True) == pytest.approx(truth, rel=0.15)


def test_out_of_bag_rows_count_what_fresh_rows_share() -> None:
    """And 0.8 of their own luck, which is a fourteenth here."""
    truth = np.sqrt((SHARED**2 + 0.8 * OWN**2 / N_ROWS) / N_MEMBERS)
    assert of_single_rows() == pytest.approx(truth, rel=0.15)


def test_rows_of_a_group_count_as_one() -> None:
    """Four copies of each row are no luck that different rows share."""
    copies = deviation(n_copies=4, groups=np.repeat(np.arange(N_ROWS), 4))
    assert copies == pytest.approx(of_single_rows(), rel=0.1)


def seen(ensemble: CustomEnsemble, y: Array) -> EnsembleReport:
    return analyze(ensemble, None, y, data="holdout", metric="balanced_accuracy")


def test_votes_have_the_sd_of_their_probabilities_as_indicators() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_ROWS)
    votes = np.where(rng.random((N_MEMBERS, N_ROWS)) < 0.7, y, 1 - y)
    as_votes = seen(CustomEnsemble(votes, None, aggregation="vote"), y)
    as_means = seen(CustomEnsemble(np.eye(2)[votes], None, aggregation="mean_proba"), y)
    assert as_votes.algorithmic_sd > 0
    assert as_votes.algorithmic_sd == pytest.approx(as_means.algorithmic_sd, rel=1e-12)
    assert "the balanced_accuracy of 40 models has a standard deviation of 0." in " ".join(as_votes.details().split())


def test_three_members_do_not_show_it() -> None:
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(3, N_ROWS)), rng.normal(-DISTANCE, 1.0, N_ROWS)
    report = analyze(CustomEnsemble(outputs, None, aggregation="mean"), None, y, data="holdout", metric=level)
    assert np.isnan(report.algorithmic_sd)


@pytest.mark.slow
def test_interval_counts_the_members_that_happened_to_be_trained() -> None:
    """Of 2000 rows and 15 members, these move the metric three times as far as the rows do."""
    n_members, n_rows, held = 15, 2000, []
    limit = (DISTANCE**2 + 1.0) / (2.0 * DISTANCE)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        outputs = rng.normal(0.0, SHARED, (n_members, 1)) + rng.normal(0.0, OWN, (n_members, n_rows))
        y = rng.normal(-DISTANCE, 1.0, n_rows)
        report = analyze(CustomEnsemble(outputs, None, aggregation="mean"), None, y, data="holdout", metric=level)
        lower, upper = report.error_curve.asymptote_interval
        held.append(lower <= limit <= upper)
    assert np.mean(held) >= 0.85
