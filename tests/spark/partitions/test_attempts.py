"""What the driver refuses, and how models take their rows; no Spark is needed."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.errors import InputError
from ens_plugin.spark import analysis
from ens_plugin.spark.columns import RowCounts
from ens_plugin.spark.partition import Problems
from tests.extras import lightgbm, xgboost
from tests.spark.cases import N_TRAINED, in_order, trained_on

COUNTS = RowCounts(N_TRAINED, N_TRAINED, {})


@pytest.mark.parametrize("error", ["DataMismatchError", "BagError", "InputError"])
def test_refusals_of_executors_keep_their_class(error: str) -> None:
    with pytest.raises(getattr(analysis.errors, error), match="the reason") as caught:
        analysis._refuse_problems(Problems(refusals=((error, "the reason"),)), COUNTS)
    assert type(caught.value).__name__ == error


def test_two_rows_of_one_number_are_enough_to_be_refused() -> None:
    row = np.arange(40)
    analysis._refuse_repeated_rows(row, "row")
    with pytest.raises(InputError, match="'row' has 1 row number that several rows share"):
        analysis._refuse_repeated_rows(np.where(row == 39, 0, row), "row")


def test_models_that_know_names_take_frames() -> None:
    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    X, y, _ = in_order(trained_on("votes"))
    named = pd.DataFrame(X, columns=[f"name{index}" for index in range(X.shape[1])])
    forest = RandomForestClassifier(2, random_state=0)
    assert analysis._takes_names(forest.fit(named, y), forest)
    assert not analysis._takes_names(forest.fit(X, y), forest)
    boosted = xgboost.XGBRFClassifier(n_estimators=2, n_jobs=1).fit(named, y)
    for model in (boosted, boosted.get_booster()):
        assert analysis._takes_names(model, model)
    assert not analysis._takes_names(None, xgboost.XGBRFClassifier(n_estimators=2, n_jobs=1).fit(X, y).get_booster())
    light = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1)
    assert analysis._takes_names(None, light.fit(named, y).booster_)
    assert not analysis._takes_names(None, light.fit(X, y).booster_)
