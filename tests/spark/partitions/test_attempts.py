"""Draws of bags are tried in turn until the sums over all rows prove one; no Spark is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters import find_adapter
from ens_plugin.errors import BagError, DataMismatchError, InputError
from ens_plugin.spark import analysis
from ens_plugin.spark.columns import RowCounts
from ens_plugin.spark.partition import Part, Plan, Problems, merge_parts, read_partition
from tests.extras import lightgbm, xgboost
from tests.spark.cases import N_TRAINED, in_order, trained_on
from tests.spark.partitions.parts import as_sent, batch, plan_of, rows_of

COUNTS = RowCounts(N_TRAINED, N_TRAINED, {})


def booster_without_tree_method(path: Path) -> Any:
    """Rows of `approx` are drawn elsewhere than those of `hist`, which is tried first."""
    X, y, _ = in_order(trained_on("values"))
    model = xgboost.XGBRFRegressor(n_estimators=25, max_depth=6, tree_method="approx", random_state=0, n_jobs=1).fit(
        X, y
    )
    model.save_model(path / "forest.json")
    booster = xgboost.Booster(model_file=path / "forest.json")
    booster.set_param({"subsample": 0.8, "reg_lambda": 1e-5})
    return booster


def proved(model: Any, frame: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Part | Exception, list[int]]:
    """What comes of three partitions, and which draws were looked at."""
    attempts = []

    def gather(rows: Any, content: bytes, plan: Plan, counts: RowCounts) -> Part:
        attempts.append(plan.candidate)
        thirds = np.array_split(np.arange(len(frame)), 3)
        return merge_parts([read_partition([batch(rows.iloc[own])], content, plan) for own in thirds], 100)

    monkeypatch.setattr(analysis, "gather", gather)
    adapter = find_adapter(model)
    plan = plan_of("values", n_trained=len(frame))
    try:
        return analysis._proved(frame, as_sent(model, adapter), plan, adapter, COUNTS)[0], attempts
    except (BagError, DataMismatchError) as error:
        return error, attempts


def test_draw_that_the_sums_prove_is_taken_after_others_were_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booster, frame = booster_without_tree_method(tmp_path), rows_of("values", oob=True)
    part, attempts = proved(booster, frame, monkeypatch)
    assert isinstance(part, Part)
    assert attempts == list(range(len(attempts)))
    from ens_plugin.adapters.xgboost.bags import MAX_PROOFS

    assert 1 < len(attempts) <= MAX_PROOFS
    X, y, _ = in_order(frame)
    adapter = find_adapter(booster)
    is_oob = ~adapter.bags(X, adapter.prepare(X), y).in_bag()
    assert part.kept is not None
    kept = np.unpackbits(part.kept.counted, axis=0, count=25).astype(bool)
    np.testing.assert_array_equal(kept, is_oob[:, part.kept.row])


def test_where_no_draw_is_proved_the_first_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    booster, frame = booster_without_tree_method(tmp_path), rows_of("values", oob=True)
    other = frame.assign(row=(frame["row"] + 1) % len(frame))
    refusals: list[Exception] = []
    kind: Any = type(find_adapter(booster))
    row_bags = kind.distributed_bags

    def watched(self: Any, n_rows: int, candidate: int) -> Any:
        found = row_bags(self, n_rows, candidate)
        prove = found.prove

        def proving(sums: Any) -> Any:
            try:
                return prove(sums)
            except (BagError, DataMismatchError) as error:
                refusals.append(error)
                raise

        found.prove = proving
        return found

    monkeypatch.setattr(kind, "distributed_bags", watched)
    error, attempts = proved(booster, other, monkeypatch)
    assert attempts == list(range(len(attempts)))
    assert len(attempts) == len(refusals) > 1
    assert error is refusals[0]


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
