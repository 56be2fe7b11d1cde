"""Metrics that have no value on the rows, that warn, or that are relative to the shares of the labels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import get_scorer_names

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.errors import InputError
from tests.forests import diabetes, shallow


def pair(share: str, loss: str) -> Any:
    """A share and its loss, skipped where the release of scikit-learn is too old for the share."""
    is_known = share in get_scorer_names()
    return pytest.param(share, loss, marks=pytest.mark.skipif(not is_known, reason=f"this scikit-learn has no {share}"))


@pytest.mark.parametrize(
    ("share", "loss"), [pair("d2_log_loss_score", "neg_log_loss"), pair("d2_brier_score", "neg_brier_score")]
)
@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_share_of_a_loss_has_the_curve_of_the_loss(share: str, loss: str, weighted: bool) -> None:
    """They differ by the loss of the shares of the labels, which no member changes."""
    forest, X, y = shallow()
    weight = np.where(y == 1, 3.0, 1.0) if weighted else np.ones(y.size)
    shares = np.bincount(y, weights=weight) / weight.sum()
    spread = float(-shares @ np.log(shares)) if loss == "neg_log_loss" else float(1.0 - shares @ shares) / 2.0
    given: dict[str, Any] = {"sample_weight": weight}
    found, of_loss = (analyze(forest, X, y, metric=name, **given).error_curve for name in (share, loss))
    # Nine in ten rows give the changes below the largest subset, and their shares of the labels differ a little.
    np.testing.assert_allclose(found.error[2:], 1.0 + of_loss.error[2:] / spread, atol=2e-3)
    assert found.asymptote == pytest.approx(1.0 + of_loss.asymptote / spread, abs=2e-3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("metric", ["average_precision", "f1", "roc_auc", "balanced_accuracy", None])
def test_a_label_without_weight_is_refused(metric: str | None) -> None:
    forest, X, y = shallow()
    for kept in (0, 1):
        with pytest.raises(InputError, match=f"positive sample_weight have the label {kept}"):
            analyze(forest, X, y, metric=metric, sample_weight=np.where(y == kept, 1.0, 0.0))


@pytest.mark.parametrize("metric", ["r2", "explained_variance", "d2_absolute_error_score"])
def test_a_share_of_the_spread_of_a_constant_is_refused(metric: str) -> None:
    if metric not in get_scorer_names():
        pytest.skip(f"this scikit-learn has no {metric}")
    forest, X, y = diabetes()
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"the share of the spread of y that is explained, and y is 3.0"):
        analyze(forest, X + rng.normal(size=X.shape), np.full(y.size, 3.0), metric=metric, data="holdout")


def test_a_label_of_one_row_has_a_value_of_the_metric_and_a_doubt() -> None:
    """A bootstrap sample without that row divided by the spread of one label."""
    rng = np.random.default_rng(0)
    y = np.array([1, *np.zeros(39, dtype=int)])
    outputs = rng.random((20, 40))
    ensemble = CustomEnsemble(np.stack([1.0 - outputs, outputs], axis=2), None, aggregation="mean_proba")
    for metric in ("f1", "roc_auc"):
        report = analyze(ensemble, None, y, data="holdout", metric=metric)
        low, high = report.error_interval
        assert 0.0 <= low <= report.error <= high <= 1.0
        assert "has the label 1" in report.basis.doubts[0]


@pytest.mark.filterwarnings("error")
def test_r2_of_a_target_that_is_mostly_one_value_has_an_interval() -> None:
    """One in seven bootstrap samples of the rows has that value alone, and r2 has none there."""
    rng = np.random.default_rng(0)
    y = np.append([3.0, 4.0], np.zeros(58))
    ensemble = CustomEnsemble(0.5 * y + rng.normal(0.0, 0.2, (20, 60)), None, aggregation="mean")
    report = analyze(ensemble, None, y, data="holdout", metric="r2")
    low, high = report.error_interval
    assert -np.inf < low < report.error < high <= 1.0


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_few_effective_rows_are_too_few_for_a_decision_on_size() -> None:
    """Weights over 24 decades leave about as many rows as there are large weights."""
    forest, X, y = shallow()
    weight = 10.0 ** np.random.default_rng(0).uniform(-12.0, 12.0, y.size)
    report = analyze(forest, X, y, sample_weight=weight)
    assert report.n_rows > 100 > 30 > report.basis.n_effective
    assert not report.is_actionable
    assert f"{report.n_rows} rows, effectively {report.basis.n_effective:.3g}, are too few" in " ".join(
        report.summary().split()
    )
    assert analyze(forest, X, y, sample_weight=np.where(y == 1, 3.0, 1.0)).is_actionable


@pytest.mark.parametrize(("data", "inflation"), [("oob", 1.1), ("holdout", 1.0)])
def test_the_interval_allows_for_correlated_losses_out_of_bag(data: Any, inflation: float) -> None:
    """Of a mean of losses, the ends are 1.96 standard errors of the rows away, and a tenth more out of bag."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    outputs = np.clip(0.3 + 0.4 * y + rng.normal(0.0, 0.2, 400) + rng.normal(0.0, 0.02, (40, 400)), 0.0, 1.0)
    bags = None if data == "holdout" else np.arange(40)[:, None] % 2 == rng.integers(0, 2, 400)
    ensemble = CustomEnsemble(np.stack([1.0 - outputs, outputs], axis=2), bags, aggregation="mean_proba")
    report = analyze(ensemble, None, y, data=data, metric="neg_brier_score")
    low, high = report.error_interval
    expected = 2.0 * 1.96 * np.std((outputs.mean(axis=0) - y) ** 2) / np.sqrt(400)
    assert high - low == pytest.approx(inflation * expected, rel=0.04)


@pytest.mark.slow
def test_a_warning_of_scikit_learn_is_in_the_report_once() -> None:
    forest, X, y = shallow()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = analyze(forest, X, y, metric="top_k_accuracy")
    about = [text for text in report.warnings if "top_k_accuracy" in text and "scikit-learn warns" in text]
    assert len(about) == 1
    assert "will result in a perfect score" in about[0]
