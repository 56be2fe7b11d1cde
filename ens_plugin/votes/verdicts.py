"""Whether repeated verdicts of a judge or a test would be the same tomorrow, and how many repeats that takes."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ens_plugin.analysis.arguments import as_seed
from ens_plugin.core.answer_shares import ROUNDING, SIZES, AnswerVotes, ShareDraws, draw_majorities, first_within
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray, as_chance, as_numbers, counted, shown
from ens_plugin.errors import InputError, TooFewMembersError, ends_at_caller
from ens_plugin.report.result import brief
from ens_plugin.report.text import aligned, level_text, markdown_table, wrapped
from ens_plugin.votes.analyze import size_text, tabulated
from ens_plugin.votes.answers import AnswerTable, is_unread, read_answers

PASSED = ("pass", "passed", "true", "yes", "correct", "y")
FAILED = ("fail", "failed", "false", "no", "incorrect", "n")
# Of printed sizes; an even number of repeats ties.
SHOWN_REPEATS = (1, 3, 5, 7, 21, 100)
# What each kind of verdict is called where its risk is told.
NAMES = {"case": "a case", "suite": "the suite", "winner": "the winner"}


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
        lines = [line for sentence in _sentences(self) for line in wrapped(sentence, later="  ")]
        return "\n".join([*lines, "", *aligned(_table(self))])

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
        found = {name: float(np.interp(np.log(n_repeats), place, self.risks[name])) for name in self.risks}
        return pd.Series(found)

    def to_markdown(self) -> str:
        """Return the sentences and the table of risks as Markdown, for a pull request."""
        return "\n".join([*(f"- {sentence}" for sentence in _sentences(self)), "", *markdown_table(_table(self))])

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
        The pass rate that a suite must have, at most 1.
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
    bound, seed = _bound(least_pass_rate), as_seed(random_state)
    passing = None if passes_from is None else float(as_numbers([passes_from], "passes_from")[0])
    if passing is not None and math.isnan(passing):
        raise InputError("passes_from is NaN, which no score reaches; pass the score from which on a case passes.")
    verdicts, baseline = _systems(verdicts, baseline)
    cases, counts = _counted(read_answers(verdicts), passing)
    draws = _draws(counts, seed)
    risks = {"case": 1.0 - draws.agreed_of_question.mean(axis=0)}
    if bound is not None:
        risks["suite"] = _crossing(draws.drawn - bound)
    gain = None
    if baseline is not None:
        other = _aligned(_counted(read_answers(baseline), passing), cases)
        risks["winner"] = _crossing(draws.drawn - _draws(other, seed + 1).drawn)
        gain = float(_passes(counts).mean() - _passes(other).mean())
    lower, upper = (each[-1] for each in draws.right.interval(level))
    table = pd.DataFrame({name: risk[:-1] for name, risk in risks.items()}, index=pd.Index(SIZES, name="repeats"))
    return VerdictReport(
        n_cases=len(cases),
        n_repeats=int(counts.sum(axis=1).max()),
        fewest_repeats=int(counts.sum(axis=1).min()),
        pass_rate=float(_passes(counts).mean()),
        pass_rate_interval=(float(lower), float(upper)),
        interval_level=level,
        max_risk=allowed,
        risks=table,
        repeats={name: _first_below(risk[:-1], allowed) for name, risk in risks.items()},
        cases=_cases(cases, counts, draws),
        least_pass_rate=bound,
        gain=gain,
    )


def _bound(least_pass_rate: float | None) -> float | None:
    """Return the pass rate that is wanted, which may be 1: all cases."""
    is_all = isinstance(least_pass_rate, (int, float)) and least_pass_rate == 1
    return least_pass_rate if least_pass_rate is None or is_all else as_chance(least_pass_rate, "least_pass_rate")


def _systems(verdicts: Any, baseline: Any) -> tuple[Any, Any]:
    """Return the verdicts on a system and on its baseline: of a table with two systems, the first is the baseline."""
    if not isinstance(verdicts, pd.DataFrame) or "system" not in verdicts or baseline is not None:
        return verdicts, baseline
    names = verdicts["system"].unique().tolist()
    if len(names) != 2:
        # Repeats of one case are of one system each.
        both = pd.Series([*zip(verdicts["question"], verdicts["system"], strict=True)], index=verdicts.index)
        return verdicts if "case" in verdicts else verdicts.assign(question=both), None
    # A log of two systems names its questions by both; the case is what they have in common.
    rows = verdicts.assign(question=verdicts["case"]) if "case" in verdicts else verdicts
    parts = [rows[rows["system"] == name] for name in names]
    return parts[1], parts[0]


def _draws(counts: FloatArray, random_state: int) -> ShareDraws:
    return draw_majorities(AnswerVotes(counts, has_truth=True, n_answers=2), random_state)


def _counted(table: AnswerTable, passes_from: float | None) -> tuple[pd.Index[Any], FloatArray]:
    """Return the cases with verdicts and how often each passed and failed, shape (n_cases, 2)."""
    verdicts = [_verdict(each, passes_from) for each in table.answer.tolist()]
    known = np.array([each is not None for each in verdicts])
    has_passed = np.array([each is True for each in verdicts])
    counts = np.zeros((table.questions.size, 2))
    for column, chosen in enumerate((known & has_passed, known & ~has_passed)):
        counts[:, column] = np.bincount(table.question[chosen], minlength=table.questions.size)
    kept = np.flatnonzero(counts.sum(axis=1))
    if kept.size < 2:
        raise InputError(f"{counted(kept.size, 'case has', 'cases have')} verdicts; at least 2 are needed.")
    if np.median(counts[kept].sum(axis=1)) < 2:
        raise TooFewMembersError(
            "Most cases have one verdict, too few to see whether it would come again. Repeat each at least 3 times."
        )
    return table.questions[kept], counts[kept]


def _verdict(value: Any, passes_from: float | None) -> bool | None:
    """Return whether a verdict is to pass; None where there is none."""
    if is_unread(value):
        return None
    if isinstance(value, str) and value.strip().lower() in PASSED + FAILED:
        return value.strip().lower() in PASSED
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if is_number and passes_from is not None:
        return bool(value >= passes_from)
    if isinstance(value, (bool, np.bool_)) or (is_number and value in (0, 1)):
        return bool(value)
    remedy = "pass passes_from=, the score from which on a case passes" if is_number else "pass True or False"
    raise InputError(f"{shown(value, 60)} is no verdict; {remedy}.")


def _aligned(found: tuple[pd.Index[Any], FloatArray], cases: pd.Index[Any]) -> FloatArray:
    """Return the counts of the same cases in the same order."""
    names, counts = found
    place = names.get_indexer(cases)
    if len(names) != len(cases) or (place < 0).any():
        lacking = [*cases[place < 0], *names[~names.isin(cases)]][0]
        raise InputError(f"The case {shown(lacking, 40)} has no verdict in one system; compare them on the same cases.")
    return np.asarray(counts[place])


def _passes(counts: FloatArray) -> FloatArray:
    """Return 1 for each case that passes by majority, 0 for others, and 1/2 for ties."""
    return np.asarray((1.0 + np.sign(counts[:, 0] - counts[:, 1])) / 2.0)


def _crossing(apart: FloatArray) -> FloatArray:
    """Return the chance at each size that a difference has another sign than at infinity; half where one is 0."""
    # A pass rate that equals the bound meets it, up to rounding of its decimals.
    sign = np.sign(np.where(np.abs(apart) < ROUNDING, 0.0, apart))
    return np.asarray(np.abs(sign - sign[:, :, -1:]).mean(axis=(0, 1)) / 2.0)


def _first_below(risk: FloatArray, allowed: float) -> int:
    """Return the smallest odd number of repeats from which on a risk is no longer above the allowed one."""
    # The small even sizes tie.
    chosen = (SIZES % 2 == 1) | (SIZES > 8)
    found = tabulated(first_within(risk[chosen], allowed, SIZES[chosen]))
    return found + 1 - found % 2


def _cases(cases: pd.Index[Any], counts: FloatArray, draws: ShareDraws) -> pd.DataFrame:
    passes = _passes(counts)
    table = pd.DataFrame(
        {
            "passed": counts[:, 0] / counts.sum(axis=1),
            "verdict": [None if each == 0.5 else bool(each) for each in passes],
            "chance": draws.overturned,
        },
        index=cases,
    )
    return table.sort_values("chance", ascending=False, kind="stable")


def _sentences(found: VerdictReport) -> list[str]:
    low, high = found.pass_rate_interval
    level = level_text(found.interval_level)
    lines = [
        f"{100 * found.pass_rate:.1f} % of {counted(found.n_cases, 'case')} pass by the majority of "
        f"{_repeats(found)}; with infinitely many {100 * low:.1f} to {100 * high:.1f} % would "
        f"({level} interval)."
    ]
    if found.gain is not None:
        lines.append(f"The pass rate is {100 * found.gain:+.1f} points from that of the baseline.")
    now = found.risk_at(found.fewest_repeats)
    for name, needed in found.repeats.items():
        what = {
            "case": "a case gets another verdict",
            "suite": f"the pass rate lies on the other side of {100 * (found.least_pass_rate or 0.0):g} %",
            "winner": "the other system wins",
        }[name]
        verb = "is" if needed == 1 else "are"
        lines.append(
            f"The chance that {what} than with infinitely many repeats is {100 * now[name]:.1f} %; for at most "
            f"{100 * found.max_risk:g} %, {size_text(needed)} repeat{'s' * (needed != 1)} {verb} needed."
        )
    return lines


def _repeats(found: VerdictReport) -> str:
    most = counted(found.n_repeats, "repeat")
    return most if found.fewest_repeats == found.n_repeats else f"{found.fewest_repeats} to {most}"


def _table(found: VerdictReport) -> list[list[str]]:
    sizes = sorted({*SHOWN_REPEATS, found.n_repeats})
    rows = [["repeats", *map(str, sizes)]]
    for name in found.repeats:
        rows.append([f"risk of {NAMES[name]} (%)", *(f"{100 * found.risk_at(size)[name]:.1f}" for size in sizes)])
    return rows
