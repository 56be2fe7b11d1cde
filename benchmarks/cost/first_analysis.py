"""Processor time of the first analysis in a process; nothing of ens_plugin is imported before it."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

FIRST_ROWS, FIRST_TREES, N_FEATURES = 200, 100, 20


def compiled_environment() -> dict[str, str]:
    """Return the environment of a process that keeps compiled files, as an installation with pip does.

    With ``PYTHONDONTWRITEBYTECODE``, every process would compile the package anew. The first process may still do so.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure() -> tuple[float, float]:
    """Return the milliseconds of the first analysis, with what it imports, and of a second one.

    What the imports of scikit-learn left for the garbage collector is collected before.
    """
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier

    features, target = make_classification(FIRST_ROWS, N_FEATURES, random_state=0)
    forest = RandomForestClassifier(FIRST_TREES, random_state=0).fit(features, target)
    forest.predict_proba(features)

    def analyze() -> None:
        import ens_plugin

        ens_plugin.analyze(forest, features, target, n_jobs=1)

    gc.collect()
    return _milliseconds(analyze), _milliseconds(analyze)


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)
