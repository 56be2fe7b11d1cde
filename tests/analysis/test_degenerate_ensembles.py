"""Members that agree, that are always wrong, that toss coins, and few of them or of rows: answers are defined."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.errors import TooFewMembersError, WeakEstimateWarning
from tests.forests import PROBLEMS, Array


def zero_one(y: Array, mean: Array) -> float:
    return float(np.mean(mean.argmax(axis=1) != y))


class TestDegenerate:
    def test_members_that_are_never_wrong(self) -> None:
        target = np.arange(100) % 2
        report = analyze(
            CustomEnsemble(np.tile(target, (10, 1)), None, aggregation="vote"), None, target, data="holdout"
        )
        assert report.error == report.error_curve.asymptote == 0.0
        assert report.recommended_size == 1
        assert report.recommendation.interval == (1, 1)
        assert report.error_interval == pytest.approx((0.0, 0.037), abs=5e-4)
        assert report.algorithmic_sd == 0.0

    @pytest.mark.parametrize("n_labels", [2, pytest.param(4, marks=pytest.mark.slow)])
    def test_coin_flips_have_no_size(self, n_labels: int) -> None:
        rng = np.random.default_rng(0)
        votes, target = rng.integers(0, n_labels, (2000, 300)), rng.integers(0, n_labels, 300)
        ensemble = CustomEnsemble(votes, None, aggregation="vote")
        report = analyze(ensemble, None, target, data="holdout", criterion="agreement", max_size=501)
        assert report.recommended_size is None
        low, high = report.recommendation.interval
        assert high is None
        assert low <= 501
        assert report.summary()

    def test_negative_asymptote_is_zero_with_a_word(self) -> None:
        rng = np.random.default_rng(2)
        values = rng.normal(size=(5, 40))
        values -= values.mean(axis=0)
        report = analyze(CustomEnsemble(values, None, aggregation="mean"), None, np.zeros(40), data="holdout")
        assert report.error_curve.asymptote == 0.0
        assert report.error_curve.asymptote_raw < 0
        assert any("reported as 0" in caution for caution in report.warnings)
        # The loss against a limit of 0 is that of the variance of one member, and so much of that of y is allowed: 0.
        assert report.recommendation.tolerance == 0.0
        assert report.recommended_size is None
        assert "takes more than 20001 members" in report.recommendation.reason
        assert report.scalars()["size_capped"] == 1.0
        assert not report.is_enough

    @pytest.mark.parametrize("n_labels", [2, pytest.param(3, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("metric", [None, zero_one])
    def test_members_that_agree_have_no_curve_even_where_hard_rows_have_fewer(self, n_labels: int, metric: Any) -> None:
        rng = np.random.default_rng(0)
        n_members, n_rows = 60, 1000
        target, hard = rng.integers(0, 2, n_rows), np.arange(n_rows) < 0.09 * n_rows
        wrong = np.where(hard, 1 - target, target)
        outputs = np.full((n_rows, n_labels), 0.2)
        outputs[:, 2:] = 0.0
        outputs[np.arange(n_rows), wrong] = 0.8
        in_bag = rng.random((n_members, n_rows)) >= np.where(hard, 0.12, 0.4)
        ensemble = CustomEnsemble(np.repeat(outputs[None], n_members, axis=0), in_bag, aggregation="mean_proba")
        answered = (~in_bag).sum(axis=0) >= 2
        report = analyze(ensemble, None, target, metric=metric)
        assert (~in_bag[:, hard]).sum(axis=0).min() < 5
        np.testing.assert_allclose(report.error_curve.error, hard[answered].mean(), atol=0.003)
        assert report.error_curve.asymptote == pytest.approx(hard[answered].mean(), abs=0.003)

    def test_few_rows_warn_and_say_so_in_the_report(self) -> None:
        rng = np.random.default_rng(0)
        votes, target = rng.integers(0, 2, (30, 10)), np.arange(10) % 2
        with pytest.warns(WeakEstimateWarning, match="10 rows"):
            report = analyze(CustomEnsemble(votes, None, aggregation="vote"), None, target, data="holdout")
        assert any("10 rows" in caution for caution in report.warnings)

    @pytest.mark.slow
    def test_no_warning_on_ordinary_data(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for problem in PROBLEMS.values():
                assert analyze(*problem()).warnings == ()

    def test_rows_without_members_are_counted_not_scored(self) -> None:
        rng = np.random.default_rng(0)
        target = rng.integers(0, 2, 120)
        votes = np.where(rng.random((15, 120)) < 0.2, 1 - target, target)
        in_bag = rng.random((15, 120)) < 0.5
        in_bag[:, 0] = True
        ensemble = CustomEnsemble(votes, in_bag, aggregation="vote")
        part = CustomEnsemble(votes[:, 1:], in_bag[:, 1:], aggregation="vote")
        report, without = analyze(ensemble, None, target), analyze(part, None, target[1:])
        assert (report.n_rows, report.rows_without_oob) == (119, 1)
        assert report.metrics() == pytest.approx(without.metrics(), rel=1e-9)
        # One of 120 rows cannot move the error out of its interval.
        assert not any("left out" in caution for caution in report.warnings)
        assert report.scalars() == pytest.approx(without.scalars(), rel=1e-9)
        in_bag[:, :11] = True
        many = analyze(CustomEnsemble(votes, in_bag, aggregation="vote"), None, target)
        assert any("11 rows were left out" in caution for caution in many.warnings)
        in_bag[:, :20] = True
        with pytest.raises(TooFewMembersError, match="20 of 120 rows"):
            analyze(CustomEnsemble(votes, in_bag, aggregation="vote"), None, target)

    @pytest.mark.filterwarnings("error")
    @pytest.mark.parametrize("n_members", [2, 3, 5, 8])
    @pytest.mark.parametrize("kind", ["vote", "many", "proba", "mean"])
    def test_few_members_either_answer_or_refuse(self, kind: str, n_members: int) -> None:
        rng = np.random.default_rng(n_members)
        in_bag = rng.random((n_members, 80)) < 0.4
        target = rng.integers(0, 4 if kind == "many" else 2, 80)
        if kind == "mean":
            ensemble = CustomEnsemble(rng.normal(size=(n_members, 80)), in_bag, aggregation="mean")
        elif kind == "proba":
            probabilities = rng.dirichlet([1.0, 1.0], (n_members, 80))
            ensemble = CustomEnsemble(probabilities, in_bag, aggregation="mean_proba")
        else:
            votes = np.where(
                rng.random((n_members, 80)) < 0.6, target, rng.integers(0, target.max() + 1, (n_members, 80))
            )
            ensemble = CustomEnsemble(votes, in_bag, aggregation="vote", classes=np.unique(target))
        try:
            report = analyze(ensemble, None, target)
        except TooFewMembersError:
            assert n_members <= 3
        else:
            # metrics() leaves NaN out, so the parts themselves are checked.
            parts, curve = report.bias_variance, report.error_curve
            scalars = [
                report.algorithmic_sd, curve.asymptote, *curve.asymptote_interval, parts.bias, parts.member_variance,
            ]  # fmt: skip
            assert np.isfinite([*scalars, *curve.error, *curve.lower, *curve.upper]).all()
