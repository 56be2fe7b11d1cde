"""What every adapter promises, for every case."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters import EnsembleAdapter
from ens_plugin.errors import UnsupportedModelError
from ens_plugin.testing import ADAPTER_CHECKS, check_case
from tests.adapters.cases import CASES, REPRESENTATIVES, WITH_BAGS, for_cases
from tests.adapters.harness import Case
from tests.adapters.test_base import Foreign, ForeignAdapter

PROMISES = {check.run.__name__.lstrip("_"): check.promise for check in ADAPTER_CHECKS}
WITHOUT_STORED_OUTPUTS = ("pasting", "custom", "lightgbm", "xgboost", "spark")


def expected_checks(case: Case) -> set[str]:
    """The checks that must not be left out for a case, whatever its adapter describes."""
    names = {
        "accepts_its_model_only",
        "describes_itself",
        "mean_is_the_prediction",
        "wanted_cells_are_those_of_all",
        "ranges_are_parts_of_all",
        "blocks_are_parts_of_all",
        "outputs_have_their_form",
        "nothing_is_modified",
        "another_process_has_the_same_outputs",
        "truncation_keeps_the_first_members",
        "training_rows_are_not_fresh",
    }
    if case in WITH_BAGS:
        names |= {"bags_are_the_published_ones", "bags_leave_rows_out", "a_row_more_or_less_is_refused"}
        names |= {"other_rows_are_refused"} if case.proves_rows else set()
        names |= {"other_target_is_refused"} if case.checks_target else set()
    else:
        names.add("unknown_bags_are_refused")
    if not case.name.startswith(WITHOUT_STORED_OUTPUTS):
        names.add("stored_outputs_are_the_mean")
    if case.has_columns:
        names.add("a_missing_column_is_refused")
    return {PROMISES[name] for name in names}


@for_cases(CASES)
def test_the_adapter_keeps_its_contract(case: Case) -> None:
    assert set(check_case(case)) == expected_checks(case)


def test_every_check_is_made_for_some_case() -> None:
    chosen = [case for case in CASES if case.name in {"forest string labels", "spark two labels"}]
    assert set.union(*map(expected_checks, chosen)) == set(PROMISES.values())


def test_every_class_of_adapter_has_a_case_or_checks_of_its_own() -> None:
    tested: set[Any] = {type(case.adapter) for case in CASES if case.name in REPRESENTATIVES}
    shipped = {cls for cls in EnsembleAdapter.__subclasses__() if cls.__module__.startswith("ens_plugin.")}
    # An analysis makes it of the adapters of several outputs; no model has it.
    for cls in shipped - tested:
        # ens_plugin.adapters.sksurv: those of libraries that may be missing, and of other targets.
        files = (Path(__file__).parent / cls.__module__.split(".")[2]).glob("test_*.py")
        assert any("check_adapter(" in file.read_text(encoding="utf-8") for file in files), cls


FIRST_ROWS = np.zeros((3, 1))
NOT_OFFERED: dict[str, tuple[Any, ...]] = {
    "truncated": (1,),
    "draw_counts": (FIRST_ROWS, FIRST_ROWS, None),
    "bags_by_position": (3,),
    "loss": (np.zeros(3), np.zeros(3)),
    "importances": (),
}
NEUTRAL: dict[str, tuple[tuple[Any, ...], Any]] = {
    "check_form": ((), None),
    "encode_target": ((np.zeros(3),), None),
    "target_weights": ((np.zeros(3),), None),
    "check_members": ((FIRST_ROWS,), None),
    "with_training_weight": ((FIRST_ROWS, np.ones(3)), None),
    "left_out_chances": ((), None),
    "listed_label": ((), 1),
    "verify_rows": ((FIRST_ROWS, np.zeros(3)), "unknown"),
    "column_splits": ((FIRST_ROWS,), (FIRST_ROWS, ())),
    "stored_oob_outputs": ((), None),
    "inverse_link": ((FIRST_ROWS,), FIRST_ROWS),
    "cautions": (("oob",), ()),
    "doubts": ((), ()),
    "leaf_draws": ((FIRST_ROWS,), None),
    "other_prediction": ((), None),
    "are_training_outputs": ((np.zeros((2, 3)), np.zeros(3)), False),
}
OF_MEMBERS = {"block", "mean_of_sum", "combined", "portable"}
REQUIRED = {"accepts", "describe", "prepare", "outputs", "bags"}


@pytest.mark.parametrize("name", NOT_OFFERED)
def test_a_method_that_is_not_offered_raises_one_error_with_what_to_do(name: str) -> None:
    adapter = ForeignAdapter(Foreign())
    assert not adapter.offers(name)
    with pytest.raises(
        UnsupportedModelError,
        match=rf"This Foreign .*: its adapter, ForeignAdapter, does not implement {name}\. (Pass|Train) .*"
        rf"help\(ens_plugin\.adapters\.EnsembleAdapter\.{name}\)",
    ):
        getattr(adapter, name)(*NOT_OFFERED[name])


@pytest.mark.parametrize("name", NEUTRAL)
def test_the_other_optional_methods_return_what_fits_most_ensembles(name: str) -> None:
    adapter = ForeignAdapter(Foreign())
    given, expected = NEUTRAL[name]
    assert not adapter.offers(name)
    found = getattr(adapter, name)(*given)
    assert found is expected or found == expected


def test_by_default_members_predict_their_mean() -> None:
    adapter = ForeignAdapter(Foreign())
    outputs, counted = adapter.block(adapter.prepare(FIRST_ROWS), None, slice(0, 3))
    assert counted.all()
    np.testing.assert_array_equal(adapter.combined(outputs), outputs.mean(axis=0))
    np.testing.assert_array_equal(adapter.mean_of_sum(outputs.sum(axis=0), counted.sum(axis=0)), outputs.mean(axis=0))
    assert adapter.portable() is adapter.model
    assert adapter.loss_name is None


def test_the_table_of_the_contract_has_every_optional_method() -> None:
    described = set(re.findall(r":(?:meth|attr):`(\w+)`  ", str(EnsembleAdapter.__doc__)))
    optional = {name for name, held in vars(EnsembleAdapter).items() if callable(held) and not name.startswith("_")}
    assert described == optional - REQUIRED - {"offers"}
    assert described == set(NOT_OFFERED) | set(NEUTRAL) | OF_MEMBERS


def test_a_method_of_an_adapter_s_own_is_offered() -> None:
    class Cutting(ForeignAdapter):
        def truncated(self, size: int) -> Any:
            return self.model

    assert Cutting(Foreign()).offers("truncated")
    with pytest.raises(AttributeError):
        Cutting(Foreign()).offers("cut")


def test_every_representative_is_a_case() -> None:
    absent = REPRESENTATIVES - {case.name for case in CASES}
    assert all(find_spec(name.split()[0]) is None for name in absent), absent
