"""The result of growing an ensemble: the model, the estimates during growth, and the reason to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ens_plugin.core.validation import counted
from ens_plugin.report.result import EnsembleReport

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LARGER_PROBE", "Growth", "GrowthStep", "Outcome", "deciding_step", "outcome_of"]

# A size that a probe does not tell is estimated again from as many members.
LARGER_PROBE = 200


@dataclass(frozen=True)
class GrowthStep:
    """One estimate of an ensemble's recommended size, made while it grew.

    Attributes
    ----------
    n_members : int
        Members of the ensemble at this step.
    trained_members : int
        Members trained so far in total; more than `n_members` where the library had to start anew.
    recommended_size : int or None
        Size estimated from this ensemble; None above 20001 (or `max_size`, if larger), without an estimate, and where
        the interval is too wide to tell one.
    interval : tuple of (int, int or None), or None
        95 % interval of `recommended_size`; an upper end of None lies above all sizes tried.  None without an estimate.
    attained : float or None
        At `n_members`, what the criterion is about: the agreement with the infinite ensemble, or the excess of the
        error or the Brier score over the infinite ensemble's, relative to it.
    error : float or None
        Expected error at `n_members`.
    train_seconds, estimate_seconds : float
        Time spent on the members added since the step before, and on this estimate.
    problem : str
        Why no estimate can be used; empty if one can.
    is_rough : bool
        Whether the interval is too wide to tell a size.  Growth then goes on, at most to the upper end of the interval.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> growth = ens_plugin.grow(RandomForestClassifier(random_state=0), X, y, confidence=0.9)
    >>> probe = growth.history[0]
    >>> probe.n_members, probe.trained_members, probe.problem
    (50, 50, '')
    """

    n_members: int
    trained_members: int
    recommended_size: int | None
    interval: tuple[int, int | None] | None
    attained: float | None
    error: float | None
    train_seconds: float
    estimate_seconds: float
    problem: str = ""
    is_rough: bool = False

    @property
    def reach(self) -> int | None:
        """The size that is enough by this estimate: the upper end of a rough one.  None above all sizes tried."""
        if self.is_rough and self.interval is not None:
            return self.interval[1]
        return self.recommended_size


@dataclass(frozen=True, eq=False)
class Growth:
    """A model grown to its recommended size, with the estimates made during growth.

    Attributes
    ----------
    model : fitted ensemble, or Pipeline
        Ensemble of `n_members` members, like one trained at that size at once.
    n_members : int
        Members of `model`.
    report : EnsembleReport or None
        Analysis of the largest ensemble trained: `model`, or all members if some were left out, because more members
        give the better estimate.  None where no estimate could be made.
    history : tuple of GrowthStep
        Every estimate, in order.
    method : {"one_shot", "iterative"}
    converged : bool
        Whether `model` has the size that was estimated to be enough; False where `max_size` or a missing estimate
        stopped it.
    suffices : bool or None
        Whether `n_members` are enough by the last estimate, from all members trained.  They may not be after one
        shot, whose size is estimated from the probe alone.  None without an estimate, and where it does not tell.
    wanted_size : int or None
        Size by the estimate that `n_members` follows, the upper end of its interval where that is rough; None if above
        all sizes tried, or without an estimate.
    reason : str
        Why growth stopped, in a sentence or two.
    trained_members : int
        Members trained in total, with those of the probe and of discarded models.
    seconds : float
        Total time of the growth.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> growth = ens_plugin.grow(RandomForestClassifier(random_state=0), X, y, confidence=0.9)
    >>> growth.converged, growth.n_members == len(growth.model.estimators_), growth.trained_members >= growth.n_members
    (True, True, True)
    """

    model: Any
    n_members: int
    report: EnsembleReport | None
    history: tuple[GrowthStep, ...]
    method: str
    converged: bool
    suffices: bool | None
    wanted_size: int | None
    reason: str
    trained_members: int
    seconds: float

    def __repr__(self) -> str:
        return (
            f"Growth(n_members={self.n_members}, converged={self.converged}, trained_members={self.trained_members}, "
            f"method={self.method!r})"
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a pandas DataFrame with a row for each step and the fields of GrowthStep as columns."""
        import pandas as pd

        return pd.DataFrame([vars(step) for step in self.history])


@dataclass(frozen=True)
class Target:
    """What the size has to reach.

    Attributes
    ----------
    words : str
    measure : str
        What :attr:`GrowthStep.attained` is, in words, with ``{}`` in its place.
    is_share : bool
        Whether that is shown in percent.
    """

    words: str
    measure: str
    is_share: bool


@dataclass(frozen=True)
class Outcome:
    """Number of members to keep, and other fields of :class:`Growth`, decided from the history."""

    n_members: int
    converged: bool
    suffices: bool | None
    wanted_size: int | None
    reason: str


def outcome_of(method: str, history: Sequence[GrowthStep], max_size: int, target: Target) -> Outcome:
    """Return how many members to keep for a target, and why."""
    last = history[-1]
    # One shot uses the probe's estimate only: using the second one as well would be another method.
    decided = deciding_step(history) if method == "one_shot" else last
    wanted, trained = decided.reach, last.n_members
    if last.problem:
        found = counted(trained, "member was", "members were")
        reason = f"{found} trained, and no size can be estimated from that: {last.problem}"
        return Outcome(trained, False, None, None, reason)
    is_above = decided.interval is not None and decided.interval[0] > max_size
    if decided.is_rough and decided.reach is None and not is_above:
        return Outcome(trained, False, None, None, _open_ended(last, target))
    if wanted is None or wanted > max_size:
        return Outcome(trained, False, _suffices(last, trained), wanted, _stopped(decided, last, max_size, target))
    kept = min(wanted, trained)
    return Outcome(kept, True, _suffices(last, kept), wanted, _finished(decided, last, kept, target))


def deciding_step(history: Sequence[GrowthStep]) -> GrowthStep:
    """Return the first estimate that tells a size, or was made from 200 members; else the last one."""
    return next((step for step in history if not step.is_rough or step.n_members >= LARGER_PROBE), history[-1])


def _suffices(last: GrowthStep, n_members: int) -> bool | None:
    """Return whether the members are enough by an estimate; None where it does not tell."""
    if last.is_rough and last.interval is not None and last.interval[0] <= n_members < (last.reach or math.inf):
        return None
    return last.reach is not None and last.reach <= n_members


def _open_ended(last: GrowthStep, target: Target) -> str:
    return (
        f"Not converged: how many members are needed for {target.words} cannot be told from "
        f"{counted(last.n_members, 'member')} {_interval(last)}. {_attained(last, target)} Pass more rows, or lower "
        "the target."
    )


def _stopped(decided: GrowthStep, last: GrowthStep, max_size: int, target: Target) -> str:
    takes = _taken(decided)
    return (
        f"Not converged: stopped at max_size={max_size}, while {target.words} takes {takes}, as estimated from "
        f"{counted(decided.n_members, 'member')}. {_attained(last, target)} Raise max_size, or lower the target."
    )


def _taken(step: GrowthStep) -> str:
    """Return how many members the target takes by an estimate, in words."""
    if step.is_rough:
        return f"a number of members that cannot be told {_interval(step)}"
    if step.recommended_size is None:
        return "more members than the largest size tried"
    return f"about {counted(step.recommended_size, 'member')} {_interval(step)}"


def _finished(decided: GrowthStep, last: GrowthStep, kept: int, target: Target) -> str:
    high = None if decided.interval is None else decided.interval[1]
    enough = "probably enough" if high is None or kept < high else "enough"
    found = (
        f"{counted(kept, 'member is', 'members are')} {enough} for {target.words} {_interval(decided)}, as estimated "
        f"from {counted(decided.n_members, 'member')}"
    )
    if decided.is_rough:
        return (
            f"How many members are needed for {target.words} cannot be told from "
            f"{counted(decided.n_members, 'member')} {_interval(decided)}. The upper end is enough, so "
            f"{counted(kept, 'member is', 'members are')} kept."
        )
    if last is decided:
        return f"{found}." if kept == last.n_members else f"{found}; the others were left out."
    return f"{found}. A second estimate, from all members trained, {_second(last, kept)}. {_attained(last, target)}"


def _second(last: GrowthStep, kept: int) -> str:
    """Return what a second estimate does to the first one, as a verb with its object."""
    suffices = _suffices(last, kept)
    if suffices is None:
        return f"does not tell more {_interval(last)}"
    if suffices:
        return "confirms this"
    wanted = "more than the largest size tried" if last.reach is None else f"{last.reach}"
    return f"recommends {wanted}"


def _interval(step: GrowthStep) -> str:
    if step.interval is None:
        return ""
    low, high = step.interval
    return f"(95 % interval {low} to {'above the largest size tried' if high is None else high})"


def _attained(last: GrowthStep, target: Target) -> str:
    if last.attained is None:
        return ""
    value = f"{100 * last.attained:.4g} %" if target.is_share else f"{last.attained:.4g}"
    return f"At {counted(last.n_members, 'member')}, {target.measure.format(value)}."
