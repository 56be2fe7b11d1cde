"""Training rows with changed values, passed as held out: a doubt, wherever the bags follow from positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import BaggingRegressor, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin.core.bags import drawn_share_of_error, is_lower_where_drawn

pytestmark = pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")

Array = NDArray[Any]
N_ROWS, N_MEMBERS = 200, 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N_ROWS, 5))
SCORE = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * RNG.normal(size=2 * N_ROWS)
LABELS = np.digitize(SCORE, [-0.5, 0.5])
TRAIN, FRESH = slice(0, N_ROWS), slice(N_ROWS, None)
DOUBT = "seem to be the training rows, with values changed since"


def lightgbm_model() -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(
        boosting_type="rf", n_estimators=N_MEMBERS, subsample=0.5, subsample_freq=1, min_child_samples=3, verbose=-1
    )
    return model.fit(X[TRAIN], SCORE[TRAIN])


MODELS: dict[str, Callable[[], Any]] = {
    "forest of labels": lambda: RandomForestClassifier(N_MEMBERS, random_state=0).fit(X[TRAIN], LABELS[TRAIN]),
    "extra trees": lambda: ExtraTreesClassifier(N_MEMBERS, bootstrap=True, random_state=0).fit(X[TRAIN], LABELS[TRAIN]),
    "forest of values": lambda: RandomForestRegressor(N_MEMBERS, random_state=0).fit(X[TRAIN], SCORE[TRAIN]),
    "bagging": lambda: BaggingRegressor(n_estimators=N_MEMBERS, random_state=0).fit(X[TRAIN], SCORE[TRAIN]),
    "lightgbm": lightgbm_model,
}


def doubts(model: Any, rows: Array, part: slice) -> tuple[str, ...]:
    y = LABELS if hasattr(model, "classes_") else SCORE
    return ens_plugin.analyze(model, rows, y[part], data="holdout").basis.doubts


@pytest.mark.parametrize("name", MODELS)
def test_rounded_training_rows_are_doubted_and_as_many_fresh_rows_are_not(name: str) -> None:
    model = MODELS[name]()
    assert DOUBT in doubts(model, X[TRAIN].round(1), TRAIN)[0]
    assert not any(DOUBT in doubt for doubt in doubts(model, X[FRESH], FRESH))


def test_differences_by_chance_are_not_taken_for_changed_rows() -> None:
    """Errors of any size and members of any quality, where the bags are independent of them."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        in_bag = rng.random((25, 80)) < rng.uniform(0.2, 0.9)
        errors = rng.standard_cauchy((25, 80)) ** 2 * rng.random((25, 1)) if seed % 2 else rng.random((25, 80)) < 0.1
        assert not is_lower_where_drawn(errors.astype(float), in_bag)


def test_share_is_that_of_rows_with_both_kinds_of_members() -> None:
    """Each row counts relative to its mean error; a row that all members drew, and one without errors, not at all."""
    errors = np.array([[1.0, 5.0, 20.0, 0.0], [3.0, 7.0, 60.0, 0.0]])
    in_bag = np.array([[True, True, False, True], [False, True, True, False]])
    assert drawn_share_of_error(errors, in_bag) == pytest.approx((0.5 + 1.5) / (1.5 + 0.5))
