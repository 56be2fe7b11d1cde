"""Whether repeated verdicts of a judge or a test would be the same tomorrow, and how many repeats that takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ens_plugin.analysis.arguments import as_seed
from ens_plugin.core.answer_shares import SIZES, AnswerVotes, ShareDraws, draw_majorities, first_within, share_interval
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    ROUNDING,
    FloatArray,
    as_chance,
    as_probability,
    as_values,
    counted,
    shown,
)
from ens_plugin.errors import InputError, TooFewMembersError, ends_at_caller
from ens_plugin.report.result import brief
from ens_plugin.report.text import level_text
from ens_plugin.votes.analyze import as_markdown, as_text, range_text, size_text
from ens_plugin.votes.answers import is_unread, read_answers

# Texts in lower case that tools, judges and people write.
VERDICTS = {
    **dict.fromkeys(("pass", "passed", "true", "yes", "correct", "y"), True),
    **dict.fromkeys(("fail", "failed", "false", "no", "incorrect", "n"), False),
}
# Of printed sizes; an even number of repeats ties.
SHOWN_REPEATS = (1, 3, 5, 7, 21, 100)
# What each risk is of, and what happens with its chance.
RISKS = {
    "case": ("a case", "a case gets another verdict"),
    "suite": ("the suite", "the pass rate lies on the other side of {bound:g} %"),
    "winner": ("the winner", "the other system wins"),
}


@dataclass(frozen=True, eq=False, repr=False)
class VerdictReport:
    """How likely verdicts by majorities of repeats are others than those of infinitely many repeats.

    Attributes
    ----------
    n_cases : int
    n_repeats, fewest_repeats : int
        Largest and smallest number of repeats of one case.
    pass_rate : float
        Share of the cases that pass by the majority of their repeats; ties count half.
    pass_rate_interval : tuple of float
        Of the pass rate of infinitely many repeats of these cases.
    interval_level : float
    max_risk : float
        The risk below which a verdict is called stable.
    risks : DataFrame
        The index is the number of repeats.  Columns: `case`, the mean chance that a case gets another verdict than from
        infinitely many repeats; `suite`, that the pass rate comes to lie on the other side of `least_pass_rate`, where
        one is given; and `winner`, that the other one of two systems wins, where there are two.
    repeats : dict of str to int
        The smallest number of repeats from which on each of these risks is below `max_risk`; 1000001 where that is
        above a million.
    cases : DataFrame
        The cases by name, those most in doubt first.  Columns: `passed`, the share of repeats; `verdict`, True, False
        or None at a tie; and `chance`, that infinitely many repeats have the other verdict.
    least_pass_rate : float or None
    gain : float or None
        By how much the pass rate is above that of the baseline.

    Examples
    --------
    >>> from ens_plugin.votes import analyze_verdicts
    >>> runs = {f"case {i}": [True, True, i % 4 > 0] for i in range(40)}
    >>> found = analyze_verdicts(runs, least_pass_rate=0.9)
    >>> found.n_cases, found.pass_rate, list(found.risks.columns)
    (40, 1.0, ['case', 'suite'])
    """

    n_cases: int
    n_repeats: int
    fewest_repeats: int
    pass_rate: float
    pass_rate_interval: tuple[float, float]
    interval_level: float
    max_risk: float
    risks: pd.DataFrame
    repeats: dict[str, int]
    cases: pd.DataFrame
    least_pass_rate: float | None = None
    gain: float | None = None

    def __repr__(self) -> str:
        return brief(self, "n_cases", "n_repeats", "pass_rate", "repeats")

    def __str__(self) -> str:
        """Return the result in plain English, in lines of at most 80 characters."""
        return as_text(_sentences(self), _table(self))

    @property
    def is_stable(self) -> bool:
        """Whether all risks are below `max_risk` with the repeats that each case has."""
        return all(needed <= self.fewest_repeats for needed in self.repeats.values())

    @property
    def passes(self) -> bool:
        """Whether the pass rate is at least `least_pass_rate`, where one is given."""
        return self.least_pass_rate is None or self.pass_rate >= self.least_pass_rate - NEGLIGIBLE

    def risk_at(self, n_repeats: float) -> pd.Series:
        """Return each risk at a number of repeats from 1 on, interpolated between those that are tabulated."""
        if not n_repeats >= 1:
            raise InputError(f"n_repeats must be at least 1, got {shown(n_repeats, 40)}.")
        place = np.log(self.risks.index.to_numpy(dtype=np.float64))
        return self.risks.apply(lambda risk: float(np.interp(np.log(n_repeats), place, risk)))

    def to_markdown(self) -> str:
        """Return the sentences and the table of risks as Markdown, for a pull request."""
        return as_markdown(_sentences(self), _table(self))

    def to_json(self) -> str:
        """Return the attributes by name as JSON; the tables are lists of rows."""
        content = {**vars(self), "is_stable": self.is_stable, "passes": self.passes}
        content["risks"] = self.risks.reset_index(names="repeats").to_dict("records")
        content["cases"] = [
            {"case": str(case), **row}
            for case, row in zip(self.cases.index, self.cases.to_dict("records"), strict=True)
        ]
        return json.dumps({"schema_version": 1, **content}, indent=1, allow_nan=False)


@ends_at_caller
def analyze_verdicts(
    verdicts: Any,
    baseline: Any = None,
    *,
    passes_from: float | None = None,
    least_pass_rate: float | None = None,
    max_risk: float = 0.05,
    interval_level: float = 0.95,
    random_state: int | None = 0,
) -> VerdictReport:
    """Return whether verdicts by the majority of repeats would be the same with other repeats, and from how many on.

    Parameters
    ----------
    verdicts : DataFrame, mapping or array-like
        In the forms of :func:`ens_plugin.analyze_votes`, cases in the place of questions.  Of a table whose column
        ``system`` names two, the first is the baseline of the second; of more, all are one suite.  A verdict is True or
        False, a text such as ``"pass"`` or ``"no"``, or with `passes_from` a number.  None where a judge gave none.
    baseline : like `verdicts`, optional
        The verdicts on the same cases for the system that it is compared with.
    passes_from : float, optional
        The score from which on a case passes.
    least_pass_rate : float, optional
        The pass rate that a suite must have, from 0 to 1.
    max_risk : float, default=0.05
        The risk of another verdict that is allowed.
    interval_level : float, default=0.95
    random_state : int or None, default=0

    Returns
    -------
    VerdictReport

    Raises
    ------
    InputError
        If verdicts have none of these forms, or the baseline has other cases.
    TooFewMembersError
        If most cases have one repeat.

    Notes
    -----
    Repeats must be exchangeable: the same case, prompt and judge, drawn anew.  The shares of passed repeats have the
    model of :mod:`ens_plugin.core.answer_shares`; the verdict of infinitely many repeats is that of the larger share.

    Examples
    --------
    >>> from ens_plugin.votes import analyze_verdicts
    >>> runs = {"greets": ["pass", "pass", "pass"], "refuses": ["fail", "pass", "fail"]}
    >>> analyze_verdicts(runs).cases.verdict.tolist()
    [False, True]
    """
    allowed, level = as_chance(max_risk, "max_risk"), as_chance(interval_level, "interval_level")
    bound = None if least_pass_rate is None else float(as_probability([least_pass_rate], "least_pass_rate")[0])
    passing = None if passes_from is None else float(as_values([passes_from], "passes_from")[0])
    seed, (verdicts, baseline) = as_seed(random_state), _systems(verdicts, baseline)
    cases = _counted(verdicts, passing)
    draws = _draws(cases, seed)
    risks = {"case": 1.0 - draws.agreed_of_question.mean(axis=0)}
    if bound is not None:
        # A pass rate that equals the bound meets it, up to rounding of its decimals.
        risks["suite"] = _crossing(np.where(_pass_rates(draws) > bound - ROUNDING, 1.0, -1.0))
    gain = None
    if baseline is not None:
        other = _aligned(_counted(baseline, passing), cases.index)
        risks["winner"] = _crossing(_pass_rates(draws) - _pass_rates(_draws(other, seed + 1)))
        gain = _pass_rate(cases) - _pass_rate(other)
    n_repeats, (lower, upper) = cases.sum(axis=1), share_interval(draws.right.mean, draws.right.variance, level)
    table = pd.DataFrame({name: risk[:-1] for name, risk in risks.items()}, index=pd.Index(SIZES, name="repeats"))
    return VerdictReport(
        n_cases=len(cases),
        n_repeats=int(n_repeats.max()),
        fewest_repeats=int(n_repeats.min()),
        pass_rate=_pass_rate(cases),
        pass_rate_interval=(float(lower[-1]), float(upper[-1])),
        interval_level=level,
        max_risk=allowed,
        risks=table,
        repeats={name: _first_below(risk[:-1], allowed) for name, risk in risks.items()},
        cases=_cases(cases, draws.overturned),
        least_pass_rate=bound,
        gain=gain,
    )


def _systems(verdicts: Any, baseline: Any) -> tuple[Any, Any]:
    """Return the verdicts on a system and on its baseline: of a table with two systems, the first is the baseline."""
    if not isinstance(verdicts, pd.DataFrame) or "system" not in verdicts or baseline is not None:
        return verdicts, baseline
    system = verdicts["system"]
    if system.nunique(dropna=False) == 2:
        # A log of two systems names its questions by both; the case is what they have in common.
        rows, is_first = verdicts.assign(question=verdicts.get("case", verdicts["question"])), system.isin(system[:1])
        return rows[~is_first], rows[is_first]
    if "case" not in verdicts:
        # Repeats of one case are of one system each.
        both = pd.Series([*zip(verdicts["question"], system, strict=True)], index=verdicts.index)
        verdicts = verdicts.assign(question=both)
    return verdicts, None


def _draws(cases: pd.DataFrame, random_state: int) -> ShareDraws:
    return draw_majorities(AnswerVotes(cases.to_numpy(), has_truth=True, n_answers=2), random_state)


def _counted(verdicts: Any, passes_from: float | None) -> pd.DataFrame:
    """Return how often each case with verdicts passed and failed."""
    table = read_answers(verdicts)
    said = [_verdict(each, passes_from) for each in table.answer.tolist()]
    passed, failed = (
        np.bincount(table.question, [each is kind for each in said], table.questions.size) for kind in (True, False)
    )
    cases = pd.DataFrame({"passed": passed, "failed": failed}, index=table.questions)
    cases = cases[cases.sum(axis=1) > 0]
    if len(cases) < 2:
        raise InputError(f"{counted(len(cases), 'case has', 'cases have')} verdicts; at least 2 are needed.")
    if cases.sum(axis=1).median() < 2:
        raise TooFewMembersError(
            "Most cases have one verdict, too few to see whether it would come again. Repeat each at least 3 times."
        )
    return cases


def _verdict(value: Any, passes_from: float | None) -> bool | None:
    """Return whether a verdict is to pass; None where there is none."""
    if is_unread(value):
        return None
    if isinstance(value, str) and value.strip().lower() in VERDICTS:
        return VERDICTS[value.strip().lower()]
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if is_number and passes_from is not None:
        return bool(value >= passes_from)
    if isinstance(value, (bool, np.bool_)) or (is_number and value in (0, 1)):
        return bool(value)
    remedy = "pass passes_from=, the score from which on a case passes" if is_number else "pass True or False"
    raise InputError(f"{shown(value, 60)} is no verdict; {remedy}.")


def _aligned(found: pd.DataFrame, cases: pd.Index[Any]) -> pd.DataFrame:
    """Return the counts of the same cases in the same order."""
    lacking = [*cases[~cases.isin(found.index)], *found.index[~found.index.isin(cases)]]
    if lacking:
        raise InputError(
            f"The case {shown(lacking[0], 40)} has no verdict in one system; compare them on the same cases."
        )
    return found.iloc[found.index.get_indexer(cases)]


def _pass_rate(cases: pd.DataFrame) -> float:
    """Return the share of the cases that pass by majority; ties count half."""
    return float(np.mean((1.0 + np.sign(cases["passed"] - cases["failed"])) / 2.0))


def _pass_rates(draws: ShareDraws) -> FloatArray:
    """Return the pass rates of the draws, of which one is a whole number of half cases, as ties count half."""
    halves = 2.0 * len(draws.overturned)
    return np.asarray(np.round(draws.drawn * halves) / halves)


def _crossing(apart: FloatArray) -> FloatArray:
    """Return the chance at each size that a difference has another sign than at infinity; half where one is 0."""
    sign = np.sign(np.where(np.abs(apart) < ROUNDING, 0.0, apart))
    return np.asarray(np.abs(sign - sign[:, :, -1:]).mean(axis=(0, 1)) / 2.0)


def _first_below(risk: FloatArray, allowed: float) -> int:
    """Return the smallest odd number of repeats from which on a risk is no longer above the allowed one."""
    # The small even sizes tie.
    chosen = (SIZES % 2 == 1) | (SIZES > 8)
    found = first_within(risk[chosen], allowed, SIZES[chosen])
    return found + 1 - found % 2


def _cases(cases: pd.DataFrame, overturned: FloatArray) -> pd.DataFrame:
    """Return the cases by name with their verdicts, those most in doubt first."""
    passed, failed = cases["passed"], cases["failed"]
    verdict = [None if apart == 0 else apart > 0 for apart in (passed - failed).tolist()]
    table = pd.DataFrame({"passed": passed / (passed + failed), "verdict": verdict, "chance": overturned})
    return table.sort_values("chance", ascending=False, kind="stable")


def _sentences(found: VerdictReport) -> list[str]:
    low, high = (100 * end for end in found.pass_rate_interval)
    lines = [
        f"{100 * found.pass_rate:.1f} % of {counted(found.n_cases, 'case')} pass by the majority of "
        f"{range_text(found.fewest_repeats, found.n_repeats, 'repeat')}; with infinitely many {low:.1f} to "
        f"{high:.1f} % would ({level_text(found.interval_level)} interval)."
    ]
    if found.gain is not None:
        lines.append(f"The pass rate is {100 * found.gain:+.1f} points from that of the baseline.")
    now = found.risk_at(found.fewest_repeats)
    for name, needed in found.repeats.items():
        what = RISKS[name][1].format(bound=100 * (found.least_pass_rate or 0.0))
        repeats = counted(size_text(needed), "repeat is", "repeats are")
        lines.append(
            f"The chance that {what} than with infinitely many repeats is {100 * now[name]:.1f} %; for at most "
            f"{100 * found.max_risk:g} %, {repeats} needed."
        )
    return lines


def _table(found: VerdictReport) -> list[list[str]]:
    sizes = sorted({*SHOWN_REPEATS, found.n_repeats})
    risks = pd.DataFrame({size: found.risk_at(size) for size in sizes})
    rows = (
        [f"risk of {RISKS[name][0]} (%)", *(f"{100 * risk:.1f}" for risk in risks.loc[name])] for name in risks.index
    )
    return [["repeats", *map(str, sizes)], *rows]
