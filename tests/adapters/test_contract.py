"""What every adapter promises, for every case."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ens_plugin.adapters import EnsembleAdapter
from ens_plugin.adapters.unwrap import StackedOutputs
from ens_plugin.testing import ADAPTER_CHECKS, check_case
from tests.adapters.cases import CASES, REPRESENTATIVES, WITH_BAGS, for_cases
from tests.adapters.harness import Case

# Said of linear trees, rightly, and tested where it belongs.

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
    for cls in shipped - {StackedOutputs} - tested:
        # ens_plugin.adapters.sksurv: those of libraries that may be missing, and of other targets.
        files = (Path(__file__).parent / cls.__module__.split(".")[2]).glob("test_*.py")
        assert any("check_adapter(" in file.read_text(encoding="utf-8") for file in files), cls


def test_every_representative_is_a_case() -> None:
    absent = REPRESENTATIVES - {case.name for case in CASES}
    assert all(find_spec(name.split()[0]) is None for name in absent), absent
