"""How the majority of repeated answers depends on their number, up to infinitely many."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ens_plugin.analysis.arguments import as_seed
from ens_plugin.core.answer_shares import SIZES, ShareDraws, draw_majorities, new_interval, share_interval
from ens_plugin.core.validation import (
    NEGLIGIBLE,
    STANDARD_ERRORS,
    FloatArray,
    IntArray,
    as_chance,
    as_numbers,
    counted,
    shown,
)
from ens_plugin.errors import InputError, TooFewMembersError, ends_at_caller
from ens_plugin.findings import Finding, doubts_first, finding, sentences
from ens_plugin.report.result import FEWEST_ROWS, brief
from ens_plugin.report.text import aligned, level_text, markdown_table, with_code, wrapped
from ens_plugin.votes.answers import CountedAnswers, Normalize, count_answers, read_answers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Of a printed result: sizes relative to the samples there are.
SHOWN_TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# The chance of another majority from which on a question is undecided.
UNDECIDED = 0.05
DOUBTED = "Do not use these figures."
# What a result says of its questions and of the size, as JSON has it.
FACTS = ("n_questions", "n_samples", "fewest_samples", "tolerance", "recommended_size")
AGREEMENT = ("agreement", "agreement_lower", "agreement_upper")
# The sizes of draws.
ENDS = np.append(SIZES, np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class VoteReport:
    """How often the majority of k answers is right, and is the answer of infinitely many, for every k.

    Attributes
    ----------
    n_questions : int
    n_samples : int
        Largest number of answers to one question.
    fewest_samples : int
        Smallest number of answers to one question.
    tolerance : float
        What majorities may lose against those of infinitely many samples on these questions: a share of right ones, or
        of changed ones without truth.
    recommended_size : int
        The smallest number of samples from which on no more than `tolerance` is lost; 1000001 if above a million.
    size_interval : tuple of int
        The ends of its interval.
    interval_level : float
    undecided : DataFrame
        The questions whose majority infinitely many samples may overturn, the likeliest first, by name.  Columns:
        `answer` and `runner_up`; `margin`, the difference of their shares; `chance`, that infinitely many samples have
        another majority.
    findings : tuple of Finding
        Doubts about the figures, and notes.

    Examples
    --------
    >>> import ens_plugin
    >>> answers = [["4", "4", "5"], ["7", "9", "7"], ["1", "2", "2"], ["3", "3", "3"]] * 50
    >>> found = ens_plugin.analyze_votes(answers, ["4", "7", "1", "3"] * 50)
    >>> found.n_questions, found.n_samples, found.to_frame().pass_at_k[[1, 2, 3]].round(2).tolist()
    (200, 3, [0.67, 0.92, 1.0])
    """

    n_questions: int
    n_samples: int
    fewest_samples: int
    tolerance: float
    recommended_size: int
    size_interval: tuple[int, int]
    interval_level: float
    undecided: pd.DataFrame
    findings: tuple[Finding, ...]
    _curve: pd.DataFrame

    def __repr__(self) -> str:
        return brief(self, "n_questions", "n_samples", "recommended_size")

    def __str__(self) -> str:
        """Return the result in plain English, in at most 24 lines of 80 characters."""
        return as_text(_answers(self), _table(self))

    @property
    def has_truth(self) -> bool:
        """Whether the right answers are known."""
        return "maj_at_k" in self._curve

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the reasons not to rely on the figures, as sentences."""
        return sentences(self.findings, "doubt")

    def to_frame(self) -> pd.DataFrame:
        """Return shares of the questions by number of samples.

        Returns
        -------
        DataFrame
            The index is the number of samples k, infinity at the end.  Columns: `maj_at_k`, the majority is right;
            `lower` and `upper`, the ends of its interval for these questions, over other samples; `new_lower` and
            `new_upper`, those for new questions like these; `pass_at_k`, some answer is right; `pass_hat_k`, all
            answers are right; `agreement`, the majority is that of infinitely many, with `agreement_lower` and
            `agreement_upper`.  Without truth, only the last three.
        """
        return self.at(sorted({*range(1, self.n_samples + 1), *self._curve.index}))

    def at(self, sizes: Sequence[float] | float) -> pd.DataFrame:
        """Return the table of :meth:`to_frame` at these numbers of samples, each at least 1 and perhaps infinite."""
        wanted = as_numbers(list(sizes) if isinstance(sizes, Iterable) else [sizes], "sizes")
        if wanted.size == 0 or not (wanted >= 1.0).all():
            raise InputError(f"sizes must be numbers of samples from 1 on, got {shown(sizes, 60)}.")
        return _interpolated(self._curve, wanted.tolist())

    def to_json(self) -> str:
        """Return the result as JSON.

        Returns
        -------
        str
            ``schema_version``, the attributes by name, ``curves``, the columns of :meth:`to_frame` by name with ``k``
            (null is infinity), and the undecided questions as a list.
        """
        curves = self.to_frame().reset_index()
        content = {
            "schema_version": 2,
            **{name: getattr(self, name) for name in FACTS},
            "interval": self.size_interval,
            "interval_level": self.interval_level,
            "curves": {name: [at if math.isfinite(at) else None for at in curves[name].tolist()] for name in curves},
            "undecided": [
                {"question": str(question), **row, "answer": str(row["answer"]), "runner_up": _text(row["runner_up"])}
                for question, row in zip(self.undecided.index, self.undecided.to_dict("records"), strict=True)
            ],
            "doubts": self.doubts,
            "warnings": sentences(self.findings, "note"),
        }
        return json.dumps(content, indent=1, allow_nan=False)

    def to_markdown(self) -> str:
        """Return the lines and the table of the summary as Markdown, for a pull request."""
        return as_markdown(_answers(self), _table(self))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of right majorities by number of samples with both intervals; without truth, the agreement.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; those of a new figure if None.

        Returns
        -------
        matplotlib Axes
        """
        from ens_plugin.report.plots import axes_or_new

        ax = axes_or_new(ax)
        name, prefixes = ("maj_at_k", ("", "new_")) if self.has_truth else ("agreement", ("agreement_",))
        shown = 8.0 * max(self.n_samples, self.recommended_size)
        frame, limit = self.to_frame().loc[:shown], self.at([math.inf]).iloc[0]
        (line,) = ax.plot(frame.index, 100.0 * frame[name])
        level = level_text(self.interval_level)
        for prefix, which, opacity in zip(prefixes, ("these", "new"), (0.25, 0.1), strict=False):
            low, high = (100.0 * frame[prefix + end] for end in ("lower", "upper"))
            label = f"{level} interval, {which} questions"
            ax.fill_between(frame.index, low, high, color=line.get_color(), alpha=opacity, lw=0, label=label)
        ax.axhline(100.0 * limit[name], color=line.get_color(), ls="--", lw=1, label="infinitely many samples")
        for size, label, marker in ((self.n_samples, "now", "o"), (self.recommended_size, "enough", "D")):
            value = 100.0 * self.at([size])[name].iloc[0]
            ax.plot([size], [value], marker, color=line.get_color(), label=f"{label}: {size}")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:.0f}")
        ax.set_xlabel("samples to each question")
        ax.set_ylabel("majority right (%)" if self.has_truth else "majority of infinitely many (%)")
        ax.legend(fontsize="small")
        return ax


@ends_at_caller
def analyze_votes(
    answers: Any,
    truth: Any = None,
    *,
    weight: Any = None,
    groups: Any = None,
    normalize: Normalize | None = None,
    tolerance: float = 0.01,
    interval_level: float = 0.95,
    random_state: int | None = 0,
) -> VoteReport:
    """Return how the majority of repeated answers depends on their number, from a few answers to each question.

    "Over how many samples of a language model should we vote?"  From 3 to 16 samples of some hundred questions, it
    estimates how often the majority of k samples is right (maj@k) for every k, up to infinitely many.

    Parameters
    ----------
    answers : DataFrame, mapping or array-like
        A table with the columns ``question`` and ``answer``, one row for each sample; a mapping from question to its
        answers; or one row for each question and one column for each sample, where rows may have different lengths.
        Answers are texts, numbers or anything else that can be a key of a dict.  None, NaN, blank texts and
        ``[invalid]`` stand for what could not be read: they do not vote.  Questions may share answers or not.
    truth : mapping, Series or array-like of shape (n_questions,), optional
        The right answer by question, or in the order in which the questions first appear; by default the column
        ``truth`` of a table.  Of a set or a list of answers any is right, and they count as one answer.  Questions
        with None or NaN are left out.
    weight : like `answers`, optional
        Weight of each vote, such as the model's confidence, by default the column ``weight`` of a table.
    groups : mapping, Series or array-like of shape (n_questions,), optional
        Questions that belong together, such as those about one document, by default the column ``group`` of a table.
        Intervals for new questions treat each group as one independent draw.
    normalize : callable, optional
        Applied to each answer and to the truth; answers with the same result are the same.  It returns None for what
        cannot be read.
    tolerance : float, default=0.01
        Share of right majorities on these questions that may be lost, or gained, against infinitely many samples: 0.01
        is one percentage point.  Without truth, the share of majorities that may be others.
    interval_level : float, default=0.95
    random_state : int or None, default=0

    Returns
    -------
    VoteReport

    Raises
    ------
    InputError
        If answers have none of these forms, cannot be compared, or do not fit the truth.
    TooFewMembersError
        If most questions have one sample.

    Notes
    -----
    Samples must be exchangeable: drawn alike, from one model, one prompt and one temperature.  Different models or
    prompts are not.  Where several answers have most votes, each of them wins equally often.  A rule that takes the
    answer that came first is the same in the mean, because samples are exchangeable.  A question of which no sample
    could be read counts as wrong.  The model of the answers is :mod:`ens_plugin.core.answer_shares`.

    Examples
    --------
    >>> import ens_plugin
    >>> answers = {"2+2": ["4", "4", "5"], "3*3": ["9", "6", "9"], "7-6": ["1", "1", "2"]}
    >>> ens_plugin.analyze_votes(answers, {"2+2": "4", "3*3": "9", "7-6": "1"}).n_samples
    3
    """
    allowed, level = as_chance(tolerance, "tolerance"), as_chance(interval_level, "interval_level")
    found = count_answers(read_answers(answers, truth, weight, groups), normalize)
    _refuse_single(found)
    draws = draw_majorities(found.votes, as_seed(random_state), found.votes_per_sample)
    size, interval = (draws.right if found.votes.has_truth else draws.agreed).size_within(allowed, level)
    return VoteReport(
        n_questions=found.questions.size,
        n_samples=int(found.n_samples.max()),
        fewest_samples=int(found.n_samples.min()),
        tolerance=allowed,
        recommended_size=size,
        size_interval=interval,
        interval_level=level,
        undecided=_undecided(found, draws),
        findings=(*_doubts(found), *_notes(found)),
        _curve=_curve(found, draws, level),
    )


def _refuse_single(found: CountedAnswers) -> None:
    """Refuse questions of one sample each, and answers of which none was given twice."""
    n_samples = found.n_samples
    if n_samples.size < 2:
        raise InputError("There is 1 question; at least 2 are needed, better some hundred.")
    if int((n_samples > 1).sum()) < 2 or np.median(n_samples) < 2:
        several = counted(int((n_samples > 1).sum()), "has", "have", of=counted(n_samples.size, "question"))
        raise TooFewMembersError(
            f"{several} more than one sample, too few to see whether an answer would come again. Draw at least 3 "
            "samples of each question."
        )
    if found.votes.counts.max() < 1.5 * found.votes_per_sample:
        raise InputError(
            "No answer was given twice to any question, so there is no majority. If answers are texts that say the "
            "same in other words, pass normalize: a function that returns what is to be compared, such as the number "
            "at the end."
        )


def _curve(found: CountedAnswers, draws: ShareDraws, level: float) -> pd.DataFrame:
    """Return the table of :meth:`VoteReport.to_frame` at sizes between which it can be interpolated."""
    agreement_lower, agreement_upper = share_interval(draws.agreed.mean, draws.agreed.variance, level)
    columns = {
        "maj_at_k": draws.right.mean,
        "variance": draws.right.variance,
        "new_variance": draws.new_variance,
        "pass_at_k": draws.one_right,
        "pass_hat_k": draws.all_right,
        "agreement": draws.agreed.mean,
        "agreement_lower": agreement_lower,
        "agreement_upper": agreement_upper,
    }
    frame = pd.DataFrame(columns, index=pd.Index(ENDS, name="k"))
    if not found.votes.has_truth:
        return frame[list(AGREEMENT)]
    frame = _interpolated(frame, sorted({*range(1, int(found.n_samples.min()) + 1), *ENDS.tolist()}))
    frame = _anchored(frame, found, draws)
    lower, upper = share_interval(frame["maj_at_k"].to_numpy(), frame["variance"].to_numpy(), level)
    new_lower, new_upper = new_interval(
        frame["maj_at_k"].to_numpy(), frame["new_variance"].to_numpy(), draws.n_units, level
    )
    frame = frame.assign(lower=lower, upper=upper, new_lower=new_lower, new_upper=new_upper)
    n_wrong = found.n_samples - found.n_right
    frame["pass_at_k"] = 1.0 - _continued(_among(n_wrong, found.n_samples), 1.0 - frame["pass_at_k"])
    frame["pass_hat_k"] = _continued(_among(found.n_right, found.n_samples), frame["pass_hat_k"])
    return frame[["maj_at_k", "lower", "upper", "new_lower", "new_upper", "pass_at_k", "pass_hat_k", *AGREEMENT]]


def _anchored(frame: pd.DataFrame, found: CountedAnswers, draws: ShareDraws) -> pd.DataFrame:
    """Return the curve moved to what was counted with one sample and with all, without bias.

    There its variance is that of the counts, and beyond it grows as that of the draws does.
    """
    counts, n_samples = found.votes.counts, found.n_samples
    own_sizes, place = np.unique(n_samples, return_inverse=True)

    def at_own(drawn: FloatArray) -> float:
        by_size = _interpolated(pd.DataFrame(drawn.T, index=ENDS), own_sizes.tolist()).to_numpy()
        return float(by_size[place, np.arange(len(counts))].mean())

    # The majority of two is that of one.
    sizes = np.array([2.0, max(float(n_samples.mean()), 2.0)])
    place_of_sizes, places = -(sizes**-0.5), -(frame.index.to_numpy() ** -0.5)
    wins = np.isclose(counts, counts.max(axis=1, keepdims=True)) & (counts > 0.0)
    all_samples = float((wins[:, 0] / wins.sum(axis=1)).mean())
    one_sample = float((found.n_right / n_samples).mean())
    moved = [one_sample - float(frame["maj_at_k"].iloc[0]), all_samples - at_own(draws.right_of_question)]
    luck = draws.luck_of_question
    of_counts = np.array([float((luck[:, 0] / n_samples).mean()), at_own(luck)]) / len(counts)
    of_draws = np.interp(-(np.array([1.0, sizes[1]]) ** -0.5), places, frame["variance"])
    # Beyond all samples the draws are no better than they tell.
    apart = (of_counts - of_draws).clip([-np.inf, 0.0])
    by_size, more, least = (np.interp(places, place_of_sizes, ends) for ends in (moved, apart, of_counts))
    variance = np.maximum(frame["variance"] + more, least)
    return frame.assign(
        maj_at_k=np.clip(frame["maj_at_k"] + by_size, 0.0, 1.0),
        variance=variance,
        new_variance=np.maximum(frame["new_variance"] + more, variance),
    )


def _continued(known: FloatArray, drawn: pd.Series) -> FloatArray:
    """Return what was counted up to the samples there are, and beyond it that of the draws, moved to meet it."""
    values = drawn.to_numpy()
    beyond = values[known.size :] * known[-1] / max(values[known.size - 1], NEGLIGIBLE)
    return np.append(known, np.minimum(beyond, known[-1]))


def _interpolated(frame: pd.DataFrame, sizes: Sequence[float]) -> pd.DataFrame:
    """Return a table by size at other sizes, interpolated in the inverse root of the size, which is 0 of infinity."""
    wanted = np.asarray(sizes, dtype=np.float64)
    place, known = wanted**-0.5, frame.index.to_numpy(dtype=np.float64) ** -0.5
    columns = {name: np.interp(-place, -known, frame[name]) for name in frame}
    return pd.DataFrame(columns, index=pd.Index(wanted, name="k"))


def _among(n_of_kind: IntArray, n_samples: IntArray) -> FloatArray:
    """Return the chance that k = 1, 2, ... samples of a question are all of one kind, the mean over questions.

    Unbiased (Chen et al. 2021, eq. 1), up to the samples that each question has.
    """
    k = np.arange(int(n_samples.min()))[:, None]
    return np.asarray(np.cumprod(np.maximum(n_of_kind - k, 0.0) / (n_samples - k), axis=0).mean(axis=1))


def _undecided(found: CountedAnswers, draws: ShareDraws) -> pd.DataFrame:
    """Return the questions whose majority may be overturned, the likeliest first."""
    counts, rows = found.votes.counts, np.arange(found.questions.size)[:, None]
    order = np.argsort(-counts, axis=1, kind="stable")[:, :2]
    votes, names = counts[rows, order], found.names[rows, order]
    names[votes == 0] = None
    shares = (votes / np.maximum(counts.sum(axis=1, keepdims=True), NEGLIGIBLE)).T
    columns = {"answer": names[:, 0], "runner_up": names[:, 1], "margin": shares[0] - shares[1]}
    table = pd.DataFrame({**columns, "chance": draws.overturned}, index=found.questions)
    return table[table["chance"] >= UNDECIDED].sort_values("chance", ascending=False, kind="stable")


def _doubts(found: CountedAnswers) -> tuple[Finding, ...]:
    """Return doubts where no answer is ever right, and where questions with fewer samples are others than the rest."""
    if not found.votes.has_truth:
        return ()
    n_samples, counts = found.n_samples, found.votes.counts
    share = counts[:, 0] / np.maximum(counts.sum(axis=1), NEGLIGIBLE)
    if not share.any():
        sentence = (
            "No sample of any question gives the true answer. Check that answers and true ones are in one form, for "
            "example with normalize=."
        )
        return (finding("never-right", sentence),)
    few = n_samples < (np.median(n_samples) if n_samples.min() < np.median(n_samples) else n_samples.max())
    if not few.any() or _are_alike(share[few], share[~few]):
        return ()
    low, high = (float(each.mean()) for each in (share[few], share[~few]))
    sentence = (
        f"Questions with fewer samples are others than the rest: a sample is right for {100 * low:.3g} % of them and "
        f"for {100 * high:.3g} % of the others. For more samples than these have, the majority may be off by more than "
        "its interval. Draw as many samples of each question."
    )
    return (finding("uneven-samples", sentence, right_of_few=low, right_of_others=high),)


def _are_alike(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two means differ by no more than a few standard errors."""
    variance = sum(float(each.var(ddof=1)) / each.size if each.size > 1 else 0.25 for each in (one, other))
    return abs(float(one.mean() - other.mean())) <= STANDARD_ERRORS * math.sqrt(max(variance, NEGLIGIBLE))


def _notes(found: CountedAnswers) -> tuple[Finding, ...]:
    notes = []
    if found.questions.size < FEWEST_ROWS:
        text = f"{counted(found.questions.size, 'question')} only: every figure is rough. Pass more questions."
        notes.append(finding("few-rows", text, n_rows=found.questions.size))
    if found.n_unread:
        of_all = counted(found.n_unread, "is", "are", of=counted(int(found.n_samples.sum()) + found.n_unread, "sample"))
        text = f"{of_all} without an answer that could be read, and do not vote: sizes count those that were read."
        notes.append(finding("unread-samples", text, n_unread=found.n_unread))
    return tuple(notes)


def _text(answer: object) -> str | None:
    return None if answer is None else str(answer)


def _answers(found: VoteReport) -> list[str]:
    """Return the answers on size, quality and trust; one answer where a doubt makes the others worthless."""
    first = doubts_first(found.findings)[:1]
    if first and first[0].kind == "doubt":
        return [f"Trust it? {DOUBTED} {with_code(first[0], 300)}"]
    n_samples = range_text(found.fewest_samples, found.n_samples, "sample")
    note = "".join(f". {with_code(each, 200)}" for each in first) or "."
    trust = f"{counted(found.n_questions, 'question')} of {n_samples} each{note}"
    return [f"More samples? {_more(found)}", f"How good? {_quality(found)}", f"Trust it? {trust}"]


def _more(found: VoteReport) -> str:
    level, (first, last) = level_text(found.interval_level), found.size_interval
    point = counted(f"{100 * found.tolerance:.3g}", "point")
    what = f"within {point} of infinitely many" if found.has_truth else f"at most {point} other than infinitely many"
    size = size_text(found.recommended_size)
    needed = counted(size, "sample to each question is", "samples to each question are")
    more = "Yes" if found.recommended_size > found.n_samples else "No"
    return f"{more}: {needed} {what} ({level} interval {size_text(first)} to {size_text(last)})."


def _quality(found: VoteReport) -> str:
    here, limit = (row for _, row in found.at([found.n_samples, math.inf]).iterrows())
    changed = f"{100 * (1 - here.agreement):.1f} % of the majorities would change with infinitely many"
    if not found.has_truth:
        return f"{changed}; {counted(len(found.undecided), 'question is', 'questions are')} undecided."
    return (
        f"{100 * here.maj_at_k:.1f} % right with {counted(found.n_samples, 'sample')}, {100 * limit.maj_at_k:.1f} % "
        f"with infinitely many on these questions ({level_text(found.interval_level)} interval {100 * limit.lower:.1f} "
        f"to {100 * limit.upper:.1f}), {100 * limit.new_lower:.1f} to {100 * limit.new_upper:.1f} on new ones like "
        f"them. {changed}."
    )


def _table(found: VoteReport) -> list[list[str]]:
    """Return shares of the questions, in percent, at sizes around the number of samples."""
    sizes = [1.0, *(round(times * found.n_samples) for times in SHOWN_TIMES), math.inf]
    frame = found.at([size for size in dict.fromkeys(sizes) if size >= 1])
    names = {
        "maj_at_k": "majority right (%)",
        "lower": f"  {level_text(found.interval_level)} interval from",
        "upper": "  to",
        "pass_at_k": "some answer right (%)",
        "pass_hat_k": "all answers right (%)",
        "agreement": "as infinitely many (%)",
    }
    heads = ["samples", *("infinite" if math.isinf(size) else f"{size:.0f}" for size in frame.index)]
    rows = ([text, *(f"{100 * share:.1f}" for share in frame[name])] for name, text in names.items() if name in frame)
    return [heads, *rows]


def as_text(answers: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """Return sentences and the table below them, in lines of at most 80 characters."""
    return "\n".join([*(line for each in answers for line in wrapped(each, later="  ")), "", *aligned(table)])


def as_markdown(answers: Sequence[str], table: Sequence[Sequence[str]]) -> str:
    """Return sentences as a list, and the table below them, as Markdown."""
    return "\n".join([*(f"- {each}" for each in answers), "", *markdown_table(table)])


def size_text(size: int) -> str:
    """Return a number of samples as text; of one above all that are tabulated, that it is."""
    return f"more than {SIZES[-1]}" if size > SIZES[-1] else str(size)


def range_text(fewest: int, most: int, one: str) -> str:
    """Return how many samples questions have."""
    return counted(most if fewest == most else f"{fewest} to {most}", one)
