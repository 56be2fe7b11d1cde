"""What every adapter promises, for every case."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters import EnsembleAdapter
from ens_plugin.adapters.unwrap.stacked_outputs import StackedOutputs
from ens_plugin.errors import BagError, DataMismatchError
from tests.adapters.cases import CASES, REPRESENTATIVES, for_cases
from tests.adapters.harness import (
    Case,
    assert_same,
    drop_column,
    frozen,
    has_normalised_mean,
    mean_output,
    permutation,
    take_rows,
)

# Said of linear trees, rightly, and tested where it belongs.
pytestmark = pytest.mark.filterwarnings("ignore:Whether Booster.refit")

every_case = for_cases(CASES)


def where(attribute: str) -> pytest.MarkDecorator:
    return for_cases([case for case in CASES if getattr(case, attribute)])


def with_stored_outputs() -> list[Case]:
    return [case for case in CASES if not case.name.startswith(("pasting", "custom", "lightgbm", "xgboost", "spark"))]


@where("has_bags")
def test_bags_are_the_published_ones(case: Case) -> None:
    adapter, rows, features = case.road
    samples = case.samples(adapter.model)
    expected = np.zeros((len(samples), case.n_rows), dtype=bool)
    for member, drawn in enumerate(samples):
        expected[member, drawn] = True
    np.testing.assert_array_equal(adapter.bags(rows, features, case.y).in_bag(), expected)
    if not case.needs_target:
        np.testing.assert_array_equal(adapter.bags(rows, features, None).in_bag(), expected)


@for_cases(with_stored_outputs())
def test_mean_over_out_of_bag_members_is_the_library_s_own(case: Case) -> None:
    stored = case.road[0].stored_oob_outputs()
    assert stored is not None
    assert_same(mean_output(case, case.seen()), stored, case.tolerance)


@every_case
def test_mean_over_all_members_is_the_model_s_prediction(case: Case) -> None:
    adapter = case.road[0]
    everybody = np.ones((adapter.n_members, case.n_rows), dtype=bool)
    # mean_output divides Bagging's sums by their sum, as its out-of-bag routine does; its predict_proba by the count.
    divides_otherwise = has_normalised_mean(case) and adapter.output_kind == "probabilities"
    tolerance = max(case.tolerance, 1e-14 if divides_otherwise else 0.0)
    assert_same(adapter.inverse_link(mean_output(case, everybody)), case.predict(case.model, case.X), tolerance)


@every_case
def test_wanted_cells_are_those_of_the_full_outputs(case: Case) -> None:
    adapter, _, features = case.road
    wanted = case.seen()
    assert wanted.any()
    partial, full = adapter.outputs(features, wanted=wanted), adapter.outputs(features)
    assert np.isfinite(partial).all()
    assert_same(partial[wanted], full[wanted], case.tolerance)


@every_case
def test_a_range_of_members_predicts_what_they_predict_among_all(case: Case) -> None:
    adapter, _, features = case.road
    full = adapter.outputs(features)
    rows = np.arange(case.n_rows)[::3]
    for members in (range(1), range(1, adapter.n_members)):
        chosen = slice(members.start, members.stop)
        assert_same(adapter.outputs(features, members), full[chosen], case.tolerance)
        assert_same(adapter.outputs(features[rows], members), full[chosen][:, rows], case.tolerance)


@every_case
def test_blocks_of_rows_change_nothing(case: Case) -> None:
    adapter, _, features = case.road
    blocks = [adapter.outputs(features[slice(start, start + 7)]) for start in range(0, case.n_rows, 7)]
    assert_same(np.concatenate(blocks, axis=1), adapter.outputs(features), case.tolerance)


@every_case
def test_outputs_have_the_promised_form(case: Case) -> None:
    adapter, _, features = case.road
    outputs = adapter.outputs(features)
    assert features.shape[0] == case.n_rows
    assert outputs.shape[:2] == (adapter.n_members, case.n_rows)
    assert (adapter.classes is None) == (adapter.info.task == "regression")
    if adapter.output_kind == "labels":
        assert adapter.classes is not None
        assert outputs.ndim == 2
        assert outputs.dtype.kind in "iu"
        assert outputs.max() < len(adapter.classes)
    elif adapter.output_kind == "values":
        assert outputs.ndim == 2
        assert outputs.dtype == np.float64
    else:
        assert adapter.classes is not None
        # Two labels may be scored by one number.
        one_score = adapter.output_kind == "scores" and len(adapter.classes) == 2 and outputs.ndim == 2
        assert one_score or outputs.shape[2] == len(adapter.classes)
        assert outputs.dtype == np.float64


@every_case
def test_model_and_rows_are_not_modified(case: Case) -> None:
    adapter, _, _ = case.road
    before = frozen(case.model), frozen(case.X), frozen(case.y)
    adapter.outputs(case.road[2], wanted=case.seen())
    assert (frozen(case.model), frozen(case.X), frozen(case.y)) == before


@where("has_bags")
@pytest.mark.parametrize("n_extra", [-1, 1], ids=["one row less", "one row more"])
def test_other_number_of_rows_is_refused(case: Case, n_extra: int) -> None:
    rows = np.arange(case.n_rows + n_extra) % case.n_rows
    if case.name == "custom estimators" and n_extra == 1:
        # Given bags do not state the number of rows, only that these exist.
        assert case.bags_for(take_rows(case.X, rows), case.y[rows]).n_rows == case.n_rows + 1
        return
    with pytest.raises(DataMismatchError, match="rows"):
        case.bags_for(take_rows(case.X, rows), case.y[rows])


@where("knows_rows")
def test_permuted_rows_are_refused(case: Case) -> None:
    rows = permutation(case.n_rows)
    if not case.needs_target:
        with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
            case.bags_for(take_rows(case.X, rows), None)
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        case.bags_for(take_rows(case.X, rows), case.y[rows])


@where("checks_target")
def test_permuted_target_is_refused(case: Case) -> None:
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        case.bags_for(case.X, case.y[permutation(case.n_rows)])


@for_cases([c for c in CASES if not c.has_bags])
def test_bags_that_cannot_be_known_are_refused(case: Case) -> None:
    with pytest.raises(BagError, match=r'Pass data="holdout"'):
        case.bags_for(case.X, case.y)


@where("has_columns")
def test_missing_column_is_refused(case: Case) -> None:
    with pytest.raises(DataMismatchError):
        case.bags_for(drop_column(case.X), case.y)


def test_every_class_of_adapter_has_a_case() -> None:
    tested: set[Any] = {type(case.road[0]) for case in CASES if case.name in REPRESENTATIVES}
    shipped = {cls for cls in EnsembleAdapter.__subclasses__() if cls.__module__.startswith("ens_plugin.")}
    # An analysis makes it of the adapters of several outputs; no model has it.
    assert shipped - {StackedOutputs} <= tested


def test_every_representative_is_a_case() -> None:
    absent = REPRESENTATIVES - {case.name for case in CASES}
    assert all(find_spec(name.split()[0]) is None for name in absent), absent
