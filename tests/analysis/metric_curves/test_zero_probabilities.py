"""Rows to which all members give probability 0: how many to expect, and the doubt about a log loss."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.analysis.metric_curves import fit_counts
from tests.forests import Array


def zero_rows(positive: Array, share: float) -> float:
    """The rows to expect with a count of 0 among all members, of which a row has a share."""
    expected, power = fit_counts(positive)
    return expected * share**power


@pytest.mark.parametrize("power", [0.3, 1.0, 2.0])
def test_expected_zeros_are_those_of_the_chances(power: float) -> None:
    """Of rows whose chances have a density that is a power of them, at 40 of 100 members."""
    rng = np.random.default_rng(0)
    chance = rng.beta(power, 1.0, 200_000)
    found = zero_rows(rng.binomial(40, chance).astype(float), 0.4)
    assert found == pytest.approx(float(np.sum((1.0 - chance) ** 100)), rel=0.15)


def test_no_rows_near_0_lead_to_no_zeros() -> None:
    assert zero_rows(np.full(100, 30.0), 0.4) == 0.0


def members(n_low: int) -> tuple[CustomEnsemble, Array]:
    """40 members; two of them give a probability above 0 to the label of each of `n_low` rows."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    own = rng.uniform(0.2, 0.9, (40, 400))
    own[2:, :n_low] = 0.0
    second = np.where(y == 1, own, 1.0 - own)
    return CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba"), y


def test_rows_near_0_are_a_doubt_about_the_log_loss() -> None:
    ensemble, y = members(4)
    report = analyze(ensemble, None, y, metric="neg_log_loss", data="holdout")
    assert any("On 4 of 400 rows, 5 out-of-bag members or fewer" in doubt for doubt in report.basis.doubts)
    assert "do not rely on these figures" in report.summary()
    assert not analyze(ensemble, None, y, metric="neg_brier_score", data="holdout").basis.doubts
    assert not analyze(members(0)[0], None, y, metric="neg_log_loss", data="holdout").basis.doubts


def test_the_rows_to_expect_are_those_of_all_members_not_of_those_out_of_bag() -> None:
    """Of 40 members, 10 to 20 are out of bag for a row; all of them give 0 to fewer rows than these do."""
    ensemble, y = members(30)
    own = np.where(y == 1, ensemble.outputs[:, :, 1], ensemble.outputs[:, :, 0])
    rng = np.random.default_rng(1)
    is_oob = rng.random(own.shape) < 0.35
    is_oob[0] = True
    again = CustomEnsemble(ensemble.outputs, ~is_oob, aggregation="mean_proba")
    report = analyze(again, None, y, metric="neg_log_loss")
    trials = is_oob.sum(axis=0)
    rows = zero_rows(((own > 0) & is_oob).sum(axis=0).astype(float), float(np.median(trials)) / 40.0)
    share = f"On about {100.0 * rows / 400:.1g} % of fresh rows"
    assert any(share in doubt for doubt in report.basis.doubts), report.basis.doubts
    halved = zero_rows(((own > 0) & is_oob).sum(axis=0).astype(float), float(np.median(trials)) / 80.0)
    assert f"{100.0 * halved / 400:.1g}" != f"{100.0 * rows / 400:.1g}"
