from __future__ import annotations

import time

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.cost.stages import REST, STAGES, clocked
from tests.extras import imported


def busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_stages_leave_out_what_they_call() -> None:
    with clocked() as clock, clock.stage("outer"):
        busy(0.01)
        with clock.stage("inner"):
            busy(0.03)
    assert clock.seconds["inner"] >= 0.03
    assert clock.seconds["outer"] >= 0.01
    total = sum(clock.seconds.values())
    assert total - clock.seconds["inner"] - clock.seconds["outer"] == clock.seconds[REST]


def test_analysis_is_timed_and_then_as_before() -> None:
    rng = np.random.default_rng(0)
    features, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    forest = RandomForestClassifier(20, random_state=0).fit(features, y)
    plain = ens_plugin.analyze(forest, features, y, n_jobs=1)
    original = RandomForestClassifier.fit, type(forest.estimators_[0]).apply
    with clocked() as clock:
        timed = ens_plugin.analyze(forest, features, y, n_jobs=1)
    assert set(clock.seconds) <= {*STAGES, REST}
    assert {"reading the model", "finding leaves", "tally", "row model and its draws"} <= set(clock.seconds)
    assert (RandomForestClassifier.fit, type(forest.estimators_[0]).apply) == original
    assert timed.to_dict()["error_curve"] == plain.to_dict()["error_curve"]


def test_exponent_of_a_power() -> None:
    imported("lightgbm")
    imported("xgboost")
    from benchmarks.cost.profile import exponent

    sizes = [1, 10, 100]
    assert abs(exponent(sizes, [0.5 * size**1.5 for size in sizes]) - 1.5) < 1e-12
