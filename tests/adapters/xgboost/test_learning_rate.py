"""The warning of a learning rate below 1, which a booster that was loaded from a file does not know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ens_plugin

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
VALUES = 50.0 + X[:, 0] + RNG.normal(size=300)
LABELS = (VALUES > 50.0).astype(int)
TREES: dict[str, Any] = {"n_estimators": 1, "num_parallel_tree": 30, "subsample": 0.6, "random_state": 0, "n_jobs": 1}


def warned(model: Any, y: Any) -> list[str]:
    report = ens_plugin.analyze(model, X, y, data="holdout")
    return [text for text in report.warnings if "learning_rate" in text]


@pytest.fixture(autouse=True)
def held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the training rows pass as held out: only the warnings matter here."""
    monkeypatch.setattr("ens_plugin.analysis.rows.judge_held_out_rows", lambda *_: ())


@pytest.mark.parametrize(
    ("parameters", "rate"), [({}, "0.3"), ({"learning_rate": 0.5}, "0.5"), ({"learning_rate": 1.0}, None)]
)
def test_a_rate_below_one_is_warned_of_where_the_booster_keeps_it(
    parameters: dict[str, Any], rate: str | None, tmp_path: Path
) -> None:
    for kind, y in ((xgboost.XGBRegressor, VALUES), (xgboost.XGBClassifier, LABELS)):
        model = kind(**TREES, **parameters).fit(X, y)
        texts = warned(model, y)
        assert len(texts) == (rate is not None)
        assert all(f"learning_rate={rate}. In a single round" in text for text in texts)
        model.save_model(tmp_path / "trees.json")
        assert warned(xgboost.Booster(model_file=tmp_path / "trees.json"), y) == []
