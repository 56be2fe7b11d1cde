"""Processor time of the first analysis in a process; nothing of ens_plugin is imported before it."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["FIRST_ROWS", "FIRST_TREES", "measure"]

FIRST_ROWS, FIRST_TREES, N_FEATURES = 200, 100, 20


def measure() -> tuple[float, float]:
    """Return the milliseconds of the first analysis, with what it imports, and of a second one."""
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    features, target = make_classification(FIRST_ROWS, N_FEATURES, random_state=0)
    forest = RandomForestClassifier(FIRST_TREES, random_state=0).fit(features, target)
    forest.predict_proba(features)

    def analyze() -> None:
        import ens_plugin

        ens_plugin.analyze(forest, features, target, n_jobs=1)

    return _milliseconds(analyze), _milliseconds(analyze)


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)
