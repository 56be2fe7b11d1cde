"""The guide to the gate shows what the gate prints."""

from __future__ import annotations

import re
from pathlib import Path

import mlflow
import pytest
import sklearn
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from tests.tracking.stores import MLFLOW_WARNINGS, embedded_store, tracking_to

pytestmark = [
    MLFLOW_WARNINGS,
    pytest.mark.slow,
    pytest.mark.skipif(
        tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
        reason="the guide shows figures of scikit-learn 1.9; other releases grow other forests",
    ),
]

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "gate.md").read_text(encoding="utf-8")
POLICY = re.findall(r"echo '(.*?)' > policy.toml", PAGE, flags=re.DOTALL)[0] + "\n"
SHOWN = {verdict: text for text, verdict in re.findall(r"```\n((PASS|FAIL): .*?)```", PAGE, flags=re.DOTALL)}


@pytest.mark.parametrize(
    ("verdict", "forest"),
    [
        ("PASS", RandomForestClassifier(500, random_state=0)),
        ("FAIL", RandomForestClassifier(20, max_depth=1, random_state=0)),
    ],
)
def test_a_decision_is_shown_as_it_is_printed(verdict: str, forest: RandomForestClassifier, tmp_path: Path) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    with tracking_to(embedded_store(tmp_path)):
        mlflow.set_experiment("tests")
        with mlflow.start_run():
            logged = mlflow.sklearn.log_model(forest.fit(X, y), name="model", serialization_format="cloudpickle")
            ens_plugin.log_report(ens_plugin.analyze(forest, X, y), model_id=logged.model_id)
        version = mlflow.register_model(logged.model_uri, "churn").version
        decision = ens_plugin.gate(f"models:/churn/{version}", tmp_path / "policy.toml", promote="champion")
    assert comparable(str(decision)) == comparable(SHOWN[verdict])


def comparable(printed: str) -> list[str]:
    """The lines without the numbers of versions and runs."""
    lines = printed.strip().splitlines()
    return [
        re.sub(r"version \d+ of", "version N of", re.sub(r"runs:/[^/]+/", "runs:/ID/", line))
        for line in lines
        if not line.startswith("Alias ")
    ]
