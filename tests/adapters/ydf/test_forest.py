"""YDF's random forests on held-out rows, against its own predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import ens_plugin
from ens_plugin.errors import BagError, DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.extras import imported

ydf = imported("ydf")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def table(seed: int, n_rows: int = 300) -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_rows, 4))
    frame = pd.DataFrame(values, columns=list("abcd")).assign(kind=rng.choice(list("xyz"), n_rows))
    return frame, values[:, 0] + (frame["kind"] == "x") + rng.normal(size=n_rows)


F, VALUES = table(0)
LABELS = np.where(VALUES > 0, "yes", "no")
THREE = np.array(["low", "middle", "high"])[np.digitize(VALUES, [-0.5, 1.0])]


def trained(y: Any, **options: Any) -> Any:
    ydf.verbose(0)
    # An odd number: no tied votes, which YDF decides in its own way.
    return ydf.RandomForestLearner(label="y", num_trees=31, **options).train(F.assign(y=y))


def own_prediction(model: Any, X: Any) -> Any:
    found = model.predict(X)
    is_binary = model.task() == ydf.Task.CLASSIFICATION and found.ndim == 1
    return np.stack([1 - found, found], axis=1) if is_binary else found


def own_labels(model: Any, X: Any) -> Any:
    # YDF 0.8 has no predict_class.
    return np.array(model.label_classes())[own_prediction(model, X).argmax(axis=1)]


@pytest.mark.parametrize(
    ("y", "options"),
    [
        (LABELS, {"winner_take_all": True}),
        (LABELS, {"winner_take_all": False}),
        (THREE, {"winner_take_all": True}),
        (THREE, {"winner_take_all": False, "max_depth": 3}),
        (VALUES, {"task": 2}),
    ],
    ids=["votes", "probabilities", "three labels, votes", "three labels", "values"],
)
def test_the_contract(y: Any, options: dict[str, Any]) -> None:
    if "task" in options:
        options = {"task": ydf.Task.REGRESSION}
    # Single precision.
    assert len(check_adapter(trained(y, **options), F, y, predict=own_prediction, tolerance=1e-5)) == 12


def test_training_rows_are_refused() -> None:
    with pytest.raises(BagError, match=r"YDF keeps no record .*Pass data=\"holdout\""):
        ens_plugin.analyze(trained(LABELS), F, LABELS)


@pytest.mark.parametrize("kind", [str, int])
def test_the_error_on_held_out_rows_is_that_of_its_own_labels(kind: Any) -> None:
    fresh, values = table(1)
    y, labels = (VALUES > 0).astype(int), (values > 0).astype(int)
    model = trained(y.astype(kind))
    report = ens_plugin.analyze(model, fresh, labels.astype(kind), data="holdout")
    wrong = own_labels(model, fresh).astype(int) != labels
    assert report.error_interval[0] < wrong.mean() < report.error_interval[1]


def test_other_columns_and_models_are_refused() -> None:
    model = trained(LABELS)
    with pytest.raises(DataMismatchError, match=r"lacks columns .*'kind'"):
        ens_plugin.analyze(model, F.drop(columns="kind"), LABELS, data="holdout")
    with pytest.raises(DataMismatchError, match="4 columns, but the forest was trained on 5"):
        ens_plugin.analyze(model, F.drop(columns="kind").to_numpy(), LABELS, data="holdout")
    with pytest.raises(InputError, match="labels"):
        ens_plugin.analyze(model, F, THREE, data="holdout")
    boosted = ydf.GradientBoostedTreesLearner(label="y", num_trees=3).train(F.assign(y=LABELS))
    with pytest.raises(UnsupportedModelError, match=r"GradientBoostedTreesModel of ydf.*correct one another"):
        ens_plugin.analyze(boosted, F, LABELS, data="holdout")
