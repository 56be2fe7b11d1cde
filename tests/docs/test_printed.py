"""Guides show what their examples print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """Return the text of a page of docs, with each line break as a space."""
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the guide shows figures of scikit-learn 1.9; other releases grow other forests",
)
def test_the_guide_to_metrics_shows_what_its_example_prints(tmp_path: Path) -> None:
    script = ROOT / "examples" / "reports" / "metrics.py"
    printed = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    guide = (ROOT / "docs" / "how-to" / "metrics.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```\n(RandomForestClassifier,.*?)```", guide, flags=re.DOTALL)
    assert printed.startswith(shown)
    infinite = re.findall(r"infinitely many trees +([\d.]+)", printed)[0]
    assert f"asymptote  # {infinite}," in guide
    size = re.findall(r"truncate\(model, (\d+)\)", printed)[0]
    assert f"# ({size}, 'metric')" in guide
    namespace: dict[str, Any] = {}
    by_area, by_precision = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)[:2]
    exec(by_area, namespace)
    assert f"recommended_size  # {namespace['report'].recommended_size}" in by_area
    exec(by_precision, namespace)
    assert str(namespace["report"]) == printed.partition("The first ")[0].rstrip("\n")


@pytest.mark.slow
def test_a_metric_that_is_not_recognised_is_evaluated_up_to_about_900_times() -> None:
    X, y = make_classification(3000, random_state=0)
    forest = RandomForestClassifier(100, max_samples=1 / 3, random_state=0).fit(X, y)
    n_calls = 0

    def cost(y: Any, p: Any) -> float:
        nonlocal n_calls
        n_calls += 1
        return float(np.where(y == 1, 3 * p[:, 0] ** 2, p[:, 1] ** 2).mean())

    ens_plugin.analyze(forest, X, y, metric=cost)
    assert 800 <= n_calls <= 950
    for name in ("how-to/metrics.md", "faq.md"):
        assert "evaluated up to about 900 times" in page(name)


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the guide shows figures of scikit-learn 1.9; other releases grow other forests",
)
def test_the_guide_to_uncertainty_states_what_its_example_prints(tmp_path: Path) -> None:
    script = ROOT / "examples" / "oob" / "prediction_intervals.py"
    printed = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    ((inside, total),) = re.findall(r"(\d+) of (\d+) new targets lie in their 95 % intervals", printed)
    assert f"{inside} of the {total} new targets lie in their 95 % intervals" in page("how-to/uncertainty.md")
