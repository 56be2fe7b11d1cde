"""Reports from counts and label codes in few bytes are those from float64 and int64, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import RidgeClassifier

from ens_plugin import CustomEnsemble, EnsembleReport, analyze

Array = NDArray[Any]

NARROWED = ("core.tally", "analysis.rows")
N_ROWS = 300
X, Y = make_classification(N_ROWS, 6, n_informative=4, n_classes=3, flip_y=0.2, random_state=0)
WEIGHT = np.random.default_rng(0).uniform(0.2, 2.0, N_ROWS)


def voters(n_members: int, n_rows: int) -> tuple[CustomEnsemble, Array]:
    """Members that vote, with their bags and the target."""
    rng = np.random.default_rng(n_members)
    target, chance = rng.integers(0, 2, n_rows), rng.beta(1.0, 3.0, n_rows)
    votes = np.where(rng.random((n_members, n_rows)) < chance, 1 - target, target)
    return CustomEnsemble(votes, rng.random((n_members, n_rows)) < 0.6, aggregation="vote"), target


def of_voters(n_members: int, n_rows: int = 200, **options: Any) -> EnsembleReport:
    ensemble, target = voters(n_members, n_rows)
    return analyze(ensemble, None, target, **options)


def of_held_out(n_members: int) -> EnsembleReport:
    ensemble, target = voters(n_members, 60)
    return analyze(ensemble, None, target, data="holdout")


def of_forest(**options: Any) -> EnsembleReport:
    return analyze(RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, Y > 0), X, Y > 0, **options)


def of_small_bags(**options: Any) -> EnsembleReport:
    model = BaggingClassifier(RidgeClassifier(), 30, max_samples=40, random_state=0).fit(X, Y)
    return analyze(model, X, Y, **options)


def of_values() -> EnsembleReport:
    return analyze(RandomForestRegressor(30, random_state=0).fit(X, X[:, 0] + Y), X, X[:, 0] + Y)


def of_scores() -> EnsembleReport:
    rng = np.random.default_rng(1)
    target = rng.integers(0, 2, 200)
    scores = rng.normal(2.0 * target - 1.0, 3.0, (260, 200))
    return analyze(CustomEnsemble(scores, rng.random((260, 200)) < 0.6, aggregation="mean_score"), None, target)


REPORTS: dict[str, Callable[[], EnsembleReport]] = {
    "255 voters": lambda: of_voters(255), "256 voters": lambda: of_voters(256), "700 voters": lambda: of_voters(700),
    "300 voters on held-out rows": lambda: of_held_out(300),
    "65535 voters on held-out rows": lambda: of_held_out(65_535),
    "65536 voters on held-out rows": lambda: of_held_out(65_536), "few voters": lambda: of_voters(7),
    "probabilities": of_forest, "probabilities, weights": lambda: of_forest(sample_weight=WEIGHT),
    "probabilities, a metric of labels": lambda: of_forest(metric="f1"),
    "probabilities, a ranking": lambda: of_forest(metric="roc_auc"), "votes on three labels": of_small_bags,
    "votes on three labels, groups": lambda: of_small_bags(groups=np.arange(N_ROWS) // 2), "scores": of_scores,
    "values": of_values,
}  # fmt: skip


@pytest.mark.slow_cases("metric of labels", "6553", "ranking", "weights", "groups")
@pytest.mark.parametrize("case", REPORTS)
def test_reports_do_not_depend_on_the_types_of_counts_and_codes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = contents(REPORTS[case]())
    widened: list[int] = []

    def widen(numbers: Array, largest: int) -> Array:
        widened.append(largest)
        return numbers.astype(np.int64 if numbers.dtype.kind in "iu" else np.float64)

    for module in NARROWED:
        monkeypatch.setattr(f"ens_plugin.{module}.in_few_bytes", widen)
    assert contents(REPORTS[case]()) == narrow
    assert widened


def contents(report: EnsembleReport) -> dict[str, Any]:
    found = report.to_dict()
    del found["created"]
    return found
