"""Verdicts by majorities of repeats: forms, risks where the chances are known, and what is printed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ens_plugin.errors import EnsPluginError
from ens_plugin.votes import VerdictReport, analyze_verdicts, verdicts

RUNS = {f"case {place}": [True, True, place % 4 > 0] for place in range(40)}


def judged(chances: np.ndarray, n_repeats: int, seed: int) -> list[list[bool]]:
    passed = np.random.default_rng(seed).random((chances.size, n_repeats)) < chances[:, None]
    return [row.tolist() for row in passed]


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "numbers of 0 and 1": ({case: [int(each) for each in row] for case, row in RUNS.items()}, {}),
    "words": ({case: ["Pass" if each else "fail" for each in row] for case, row in RUNS.items()}, {}),
    "scores": ({case: [0.9 if each else 0.2 for each in row] for case, row in RUNS.items()}, {"passes_from": 0.5}),
    "table": (
        pd.DataFrame([(case, each) for case, row in RUNS.items() for each in row], columns=["question", "answer"]),
        {},
    ),
    "with repeats that gave none": ({case: [*row, None, ""] for case, row in RUNS.items()}, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_verdicts_is_the_same(form: str) -> None:
    verdicts, options = FORMS[form]
    assert analyze_verdicts(verdicts, **options).to_json() == analyze_verdicts(RUNS).to_json()


def test_pass_rate_and_cases_are_by_majority() -> None:
    found = analyze_verdicts({"a": [True] * 3, "b": [False, True, False], "c": [True, False]})
    assert found.pass_rate == pytest.approx(0.5)
    assert found.cases.verdict.to_dict() == {"a": True, "b": False, "c": None}
    assert found.cases.passed.to_dict() == pytest.approx({"a": 1.0, "b": 1 / 3, "c": 0.5})


@pytest.mark.slow
@pytest.mark.parametrize(("n_cases", "n_repeats"), [(25, 3), (50, 5), (200, 5)])
def test_risks_of_cases_are_the_true_ones_on_average(n_cases: int, n_repeats: int) -> None:
    apart = []
    for seed in range(12):
        chances = np.random.default_rng(seed).beta(3, 1, n_cases)
        found = analyze_verdicts(judged(chances, n_repeats, seed))
        # A new run of as many repeats, against the larger chance.
        runs = np.random.default_rng(seed + 99).binomial(n_repeats, chances, (2000, n_cases)) * 2 > n_repeats
        apart.append(found.risk_at(n_repeats)["case"] - np.mean(runs != (chances > 0.5)))
    assert np.mean(apart) == pytest.approx(0.0, abs=0.03)


def test_a_crossing_is_another_sign_than_at_infinity() -> None:
    """Of two draws, each with two sets of votes: the last column is infinity, and 0 is half of either."""
    apart = np.array([[[0.1, -0.1, 0.2], [0.1, 0.0, 0.2]], [[-0.1, -0.2, 0.2], [-0.1, 0.1, -0.2]]])
    assert verdicts._crossing(apart).tolist() == [0.25, 0.875, 0.0]


@pytest.mark.slow
def test_a_suite_far_from_its_bound_is_stable_and_one_close_to_it_is_not() -> None:
    chances = np.repeat([0.97, 0.55, 0.05], [280, 60, 60])
    risks = [
        [analyze_verdicts(judged(chances, 5, seed), least_pass_rate=bound).risk_at(5)["suite"] for bound in (0.6, 0.8)]
        for seed in range(3)
    ]
    far, close = np.mean(risks, axis=0)
    assert far < 0.01
    assert close > 0.1


def test_equal_systems_have_no_sure_winner_and_unlike_ones_have() -> None:
    chances = np.random.default_rng(0).beta(3, 1.5, 60)
    close = analyze_verdicts(judged(chances, 5, 1), judged(chances, 5, 2))
    far = analyze_verdicts(judged(chances, 5, 1), judged(0.3 * chances, 5, 2))
    assert close.risk_at(5)["winner"] > 0.15
    assert far.risk_at(5)["winner"] < 0.02
    assert far.gain is not None
    assert far.gain > 0.3


def test_cases_that_always_pass_are_no_answer_from_0_to_100() -> None:
    found = analyze_verdicts({case: [True] * 3 for case in range(25)}, least_pass_rate=0.9)
    assert found.pass_rate_interval[0] > 0.9
    assert found.is_stable


def test_a_suite_at_its_bound_fails_only_where_a_case_does() -> None:
    risks = analyze_verdicts([[True] * 3] * 5, least_pass_rate=1.0).risks
    assert 0.0 < risks["suite"].iloc[0] < 0.1
    # A tie is half of another verdict.
    assert (risks["suite"] <= 5 * 2 * risks["case"] + 1e-9).all()


def test_more_repeats_than_needed_are_stable_and_fewer_are_not() -> None:
    chances = np.random.default_rng(0).beta(2, 2, 60)
    assert not analyze_verdicts(judged(chances, 3, 0)).is_stable
    assert analyze_verdicts(judged(np.repeat([0.99, 0.01], 30), 9, 0)).is_stable


def test_cases_of_few_repeats_are_judged_by_these() -> None:
    """One case of many repeats makes no other one stable."""
    chances = np.random.default_rng(0).beta(1.5, 1.5, 60)
    rows = judged(chances, 3, 0)
    assert not analyze_verdicts(rows).is_stable
    found = analyze_verdicts([*rows, [True] * 1001])
    assert not found.is_stable
    assert "3 to 1001 repeats" in str(found)


@pytest.mark.parametrize("rate", [0.5, 1])
def test_a_suite_passes_by_its_pass_rate(rate: float) -> None:
    found = analyze_verdicts([[False] * 9] * 40, least_pass_rate=rate)
    assert found.is_stable
    assert not found.passes


def test_of_more_than_two_systems_each_has_cases_of_its_own() -> None:
    rows = [(f"q{case}", system, system != "C") for case in range(20) for system in "ABC" for _ in range(3)]
    found = analyze_verdicts(pd.DataFrame(rows, columns=["question", "system", "answer"]))
    assert (found.n_cases, found.n_repeats) == (60, 3)
    assert found.pass_rate == pytest.approx(2 / 3)


def test_of_two_systems_the_first_is_the_baseline() -> None:
    rows = [(f"q{case}", system, system == "new" or case > 9) for case in range(20) for system in ("old", "new")] * 3
    found = analyze_verdicts(pd.DataFrame(rows, columns=["question", "system", "answer"]))
    assert found.gain == pytest.approx(0.5)


def test_a_risk_that_no_number_of_repeats_allows_is_said_so() -> None:
    found = analyze_verdicts([[True, False] * 3] * 100, max_risk=1e-9)
    assert found.repeats["case"] > 1_000_000
    assert "more than 1000000 repeats" in str(found).replace("\n  ", " ")


def test_texts_are_narrow_and_json_is_whole() -> None:
    found: VerdictReport = analyze_verdicts(RUNS, {case: [True] * 3 for case in RUNS}, least_pass_rate=0.9)
    assert max(map(len, str(found).splitlines())) <= 80
    assert found.to_markdown().count("\n|") == 5
    content = json.loads(found.to_json())
    assert {"case", "suite", "winner"} <= content["repeats"].keys()
    assert len(content["cases"]) == 40


WRONG: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "other texts": ({"a": ["great", "pass"], "b": ["pass"] * 2}, None, {}, "'great' is no verdict"),
    "scores without a bound": ([[0.4, 0.7]] * 30, None, {}, "passes_from"),
    "one repeat": ([[True]] * 30, None, {}, "Repeat each"),
    "no verdicts": ([[None, None]] * 30, None, {}, "0 cases have verdicts"),
    "other cases": (RUNS, {"another": [True] * 3, "b": [True] * 3}, {}, "has no verdict in one system"),
    "a rate in percent": (RUNS, None, {"least_pass_rate": 90}, "least_pass_rate must lie"),
    "no score": (RUNS, None, {"passes_from": float("nan")}, "NaN"),
    "a negative seed": (RUNS, None, {"random_state": -1}, "random_state"),
    "a risk of 0": (RUNS, None, {"max_risk": 0.0}, "max_risk must lie"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused(name: str) -> None:
    verdicts, baseline, options, message = WRONG[name]
    with pytest.raises(EnsPluginError, match=message):
        analyze_verdicts(verdicts, baseline, **options)
