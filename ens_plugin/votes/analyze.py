"""How the majority of repeated answers depends on their number, up to infinitely many."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ens_plugin.adapters.custom import MISSING, AnswerAdapter, AnswerEnsemble
from ens_plugin.analysis.analyze import run_analysis
from ens_plugin.analysis.arguments import granted_threads
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.analysis.unlabelled import Agreement, agreement_of
from ens_plugin.core.partitions import fit_partitions
from ens_plugin.core.validation import STANDARD_ERRORS, FloatArray, counted, previous_odd_size, shown
from ens_plugin.errors import InputError, TooFewMembersError, WeakEstimateWarning, ends_at_caller
from ens_plugin.findings import Finding, doubts_first, finding
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import SizeRecommendation, brief, with_findings
from ens_plugin.report.text import (
    aligned,
    level_text,
    recommended_interval_text,
    recommended_text,
    with_code,
    wrapped,
)
from ens_plugin.votes.answers import CodedAnswers, Normalize, code_answers, read_answers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Of so many questions or fewer, codings are averaged: with 300, one moves the result by half a point.
CODED_QUESTIONS, MOST_CODINGS = 3000, 8
# Of a printed result: sizes relative to the samples there are.
SHOWN_TIMES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# What the core calls them.
_WORDS = {"row": "question", "member": "sample", "label": "answer"}


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
    ties_to : float
        Largest even number of samples up to which the majority is as good as that of one sample less: 2, infinite where
        questions have two answers, and 0 with weights.
    report : EnsembleReport or None
        The error of the majority by number of samples, with intervals over other questions of the same kind, and the
        sizes that are enough; its rows are the questions with a known truth.  None without truth.
    agreement : Agreement
        How often the majority is the answer of infinitely many samples, for which no truth is needed.
    undecided : DataFrame
        The questions whose majority answer the samples leave open, the closest first, by name.  Columns: `answer` and
        `runner_up`; `margin`, the difference of their shares; `needed`, the samples that this question needs (infinite
        at a tie).
    pass_at_k : ndarray of float64, shape (n,), or None
        Share of the questions with at least one right answer among k = 1, 2, ... n, unbiased; n is the smallest number
        of samples of a question.  None without truth.

    Examples
    --------
    >>> import ens_plugin
    >>> answers = [["4", "4", "5"], ["7", "9", "7"], ["1", "2", "2"], ["3", "3", "3"]] * 50
    >>> found = ens_plugin.analyze_votes(answers, ["4", "7", "1", "3"] * 50)
    >>> found.n_questions, found.n_samples, found.pass_at_k.round(2).tolist()
    (200, 3, [0.67, 0.92, 1.0])
    """

    n_questions: int
    n_samples: int
    fewest_samples: int
    ties_to: float
    report: EnsembleReport | None
    agreement: Agreement
    pass_at_k: FloatArray | None

    def __repr__(self) -> str:
        return brief(self, "n_questions", "n_samples")

    def __str__(self) -> str:
        """Return the result in plain English, in at most 24 lines of 80 characters."""
        return "\n".join(_summary_lines(self))

    @property
    def undecided(self) -> pd.DataFrame:
        """The questions whose majority answer the samples leave open."""
        return self.agreement.undecided.rename(columns={"label": "answer"})

    @property
    def recommended_size(self) -> int | None:
        """The number of samples that is enough by the wanted criterion; None where it cannot be told."""
        return self._advice.size

    def to_frame(self) -> pd.DataFrame:
        """Return shares of the questions by number of samples.

        Returns
        -------
        DataFrame
            The index is the number of samples k, infinity at the end.  Columns: `maj_at_k`, the majority is right, with
            `lower` and `upper`, the ends of its interval; `pass_at_k`, some answer is right (NaN where k is above the
            samples of some question); `agreement`, the majority is that of infinitely many.  Without truth, only the
            last.
        """
        sizes = self.agreement.recommendation.sizes if self.report is None else self.report.error_curve.sizes
        return self._at([*np.unique(np.append(np.arange(1, self.n_samples + 1), sizes)), math.inf])

    def _at(self, sizes: Sequence[float]) -> pd.DataFrame:
        """Return the table of :meth:`to_frame` at these sizes; NaN where a size is not tabulated or known."""
        index = pd.Index(np.asarray(sizes, dtype=np.float64), name="k")
        shares = {"agreement": self._agreement_at(index.to_numpy())}
        if self.report is None or self.pass_at_k is None:
            return pd.DataFrame(shares, index=index)
        curve = self.report.error_curve
        # Ties of an even number of samples are shared, and not the first label's as of a forest.
        odd = previous_odd_size(index, self.ties_to).tolist()
        ends = np.array([curve.interval_at(size) for size in odd])
        known = pd.Series(self.pass_at_k, index=np.arange(1.0, self.pass_at_k.size + 1))
        columns = {
            "maj_at_k": [1.0 - curve.at(size) for size in odd],
            "lower": 1.0 - ends[:, 1],
            "upper": 1.0 - ends[:, 0],
            "pass_at_k": known.reindex(index),
        }
        return pd.DataFrame({**columns, **shares}, index=index)

    def _agreement_at(self, sizes: FloatArray) -> FloatArray:
        """Return the agreement, interpolated in the logarithm of the size; the majority of two is that of one."""
        advice = self.agreement.recommendation
        place = np.log(previous_odd_size(sizes, self.ties_to))
        values = 1.0 - np.interp(place, np.log(advice.sizes), advice.losses, right=math.nan)
        return np.where(np.isinf(sizes), 1.0, values)

    def to_json(self) -> str:
        """Return the result as JSON.

        Returns
        -------
        str
            ``schema_version``, the numbers of questions and samples, ``curves``, the columns of :meth:`to_frame` by
            name with ``k`` (null is infinity, and of a share that it is not known), ``recommended_size`` with its
            ``criterion`` and ``interval``, and the ``agreement`` as :meth:`Agreement.to_json` has it.
        """
        frame, advice = self.to_frame().reset_index(), self._advice
        content = {
            "schema_version": 1,
            "n_questions": self.n_questions,
            "n_samples": self.n_samples,
            "fewest_samples": self.fewest_samples,
            "criterion": advice.criterion,
            "recommended_size": advice.size,
            "interval": list(advice.interval),
            "curves": {
                str(name): [value if math.isfinite(value) else None for value in frame[name].tolist()] for name in frame
            },
            "agreement": json.loads(self.agreement.to_json()),
        }
        return json.dumps(content, indent=1, allow_nan=False)

    @property
    def _advice(self) -> SizeRecommendation:
        return (self.agreement if self.report is None else self.report).recommendation

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the error of the majority by number of samples; without truth, the agreement."""
        return (self.agreement if self.report is None else self.report).plot(ax)


@ends_at_caller
def analyze_votes(
    answers: Any,
    truth: Any = None,
    *,
    weight: Any = None,
    groups: Any = None,
    normalize: Normalize | None = None,
    unparsed: Literal["wrong", "ignored"] = "wrong",
    criterion: Literal["error", "agreement"] = "error",
    tolerance: float | None = AnalysisOptions.tolerance,
    max_size: int = AnalysisOptions.max_size,
    interval_level: float = AnalysisOptions.interval_level,
    random_state: int | None = AnalysisOptions.random_state,
    n_jobs: int | None = AnalysisOptions.n_jobs,
) -> VoteReport:
    """Return how the majority of repeated answers depends on their number, from a few answers to each question.

    "Over how many samples of a language model should we vote?"  From 3 to 16 samples of some hundred questions, it
    estimates how often the majority of k samples is right (maj@k) for every k, up to infinitely many.

    Parameters
    ----------
    answers : DataFrame, mapping or array-like
        A table with the columns ``question`` and ``answer``, one row for each sample; a mapping from question to its
        answers; or one row for each question and one column for each sample, where rows may have different lengths.
        Answers are texts, numbers or anything else that can be a key of a dict; None or NaN where no answer could be
        read.  Questions may share answers or not.
    truth : mapping, Series or array-like of shape (n_questions,), optional
        The right answer by question, or in the order in which the questions first appear; by default the column
        ``truth`` of a table.  Questions with None or NaN count for the agreement only.
    weight : like `answers`, optional
        Weight of each vote, such as the model's confidence, by default the column ``weight`` of a table.
    groups : mapping, Series or array-like of shape (n_questions,), optional
        Questions that belong together, such as those about one document, by default the column ``group`` of a table.
        Intervals treat each group as one independent draw.
    normalize : callable, optional
        Applied to each answer and to the truth; answers with the same result are the same.  It returns None for what
        cannot be read.
    unparsed : {"wrong", "ignored"}, default="wrong"
        What answers that could not be read do.  ``"wrong"``: together they are one answer that may win and is wrong,
        as in most evaluation tools.  ``"ignored"``: they do not vote, and numbers of samples are those of answers that
        could be read.
    criterion : {"error", "agreement"}, default="error"
        By which the recommended number of samples is chosen; without truth, by agreement.
    tolerance : float, optional
        What majorities may lose against those of infinitely many samples.  By ``"error"``: a share of their error, by
        default the largest of 2 % of it, 0.2 percentage points and 0.3 standard errors; by ``"agreement"``: the share
        of other answers, 0.01 by default.
    max_size : int, default=20001
        Largest number of samples to consider.
    interval_level : float, default=0.95
    random_state : int or None, default=0
    n_jobs : int or None, default=None
        Threads, joblib's convention.  The result does not depend on it.

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
    prompts are not.  Each question has labels of its own, and its answers get codes in random order, so that no code
    wins ties more often than others.  Where several answers have most votes, each of them wins equally often.  A rule
    that takes the answer that came first is the same in the mean, because samples are exchangeable.

    Examples
    --------
    >>> import ens_plugin
    >>> answers = {"2+2": ["4", "4", "5"], "3*3": ["9", "6", "9"], "7-6": ["1", "1", "2"]}
    >>> ens_plugin.analyze_votes(answers, {"2+2": "4", "3*3": "9", "7-6": "1"}).n_samples
    3
    """
    if unparsed not in ("wrong", "ignored"):
        raise InputError(f"unparsed must be 'wrong' or 'ignored', got {shown(unparsed)}.")
    if criterion not in ("error", "agreement"):
        raise InputError(f"criterion must be 'error' or 'agreement', got {shown(criterion)}.")
    table = read_answers(answers, truth, weight, groups)
    coded = code_answers(table, normalize, ignores_unparsed=unparsed == "ignored", random_state=random_state)
    coded, notes = _answered(coded)
    options = AnalysisOptions(
        data="holdout", criterion=criterion, tolerance=tolerance, max_size=max_size,
        interval_level=interval_level, random_state=random_state, n_jobs=n_jobs,
    )  # fmt: skip
    with granted_threads(n_jobs), warnings.catch_warnings():
        # The result has a finding of its own about few questions.
        warnings.simplefilter("ignore", WeakEstimateWarning)
        agreement = _agreement(coded, options)
        known = None if coded.truth is None else coded.take(np.flatnonzero(coded.truth >= 0))
        report = None if known is None else _report(known, agreement, options, notes)
    return VoteReport(
        n_questions=coded.questions.size,
        n_samples=int(coded.n_samples.max()),
        fewest_samples=int(coded.n_samples.min()),
        ties_to=0.0 if coded.weight is not None else math.inf if coded.names.shape[1] == 2 else 2.0,
        report=report,
        agreement=replace(agreement, findings=(*agreement.findings, *notes)),
        pass_at_k=None if known is None else _pass_at_k(known),
    )


def _answered(coded: CodedAnswers) -> tuple[CodedAnswers, tuple[Finding, ...]]:
    """Return the questions that have answers, with a note on the others; refuse questions of one sample each."""
    n_samples = coded.n_samples
    n_several = int((n_samples > 1).sum())
    if n_several < 2 or np.median(n_samples) < 2:
        found = counted(n_several, "has", "have", of=counted(n_samples.size, "question"))
        raise TooFewMembersError(
            f"{found} more than one sample, too few to see whether an answer would come again. Draw at least 3 samples "
            "of each question."
        )
    if not _has_repeats(coded):
        raise InputError(
            "No answer was given twice to any question, so there is no majority. If answers are texts that say the "
            "same in other words, pass normalize: a function that returns what is to be compared, such as the number "
            "at the end."
        )
    if (n_samples > 0).all():
        return coded, ()
    n_empty = int((n_samples == 0).sum())
    sentence = f"{counted(n_empty, 'question is', 'questions are')} left out, without any answer that could be read."
    return coded.take(np.flatnonzero(n_samples)), (finding("dropped-rows", sentence, n_dropped=n_empty),)


def _doubts_about_truth(known: CodedAnswers) -> tuple[Finding, ...]:
    """Return doubts where no answer is ever right, and where questions with fewer samples are others than the rest."""
    n_samples = known.n_samples
    share = (known.codes == known.right).sum(axis=0) / n_samples
    if not share.any():
        sentence = (
            "No sample of any question gives the true answer. Check that answers and true ones are in one form, for "
            "example with normalize=."
        )
        return (finding("never-right", sentence),)
    few = n_samples < np.median(n_samples)
    if not few.any():
        few = n_samples < n_samples.max()
    if not few.any() or _are_alike(share[few], share[~few]):
        return ()
    low, high = (100.0 * float(each.mean()) for each in (share[few], share[~few]))
    sentence = (
        f"Questions with fewer samples are others than the rest: a sample is right for {low:.3g} % of them and for "
        f"{high:.3g} % of the others. For more samples than these have, the majority may be off by more than its "
        "interval. Draw as many samples of each question."
    )
    return (finding("uneven-samples", sentence, right_of_few=low / 100.0, right_of_others=high / 100.0),)


def _are_alike(one: FloatArray, other: FloatArray) -> bool:
    """Return whether two means differ by no more than a few standard errors."""
    variance = sum(float(each.var(ddof=1)) / each.size if each.size > 1 else 0.25 for each in (one, other))
    return abs(float(one.mean() - other.mean())) <= STANDARD_ERRORS * math.sqrt(max(variance, 1e-12))


def _has_repeats(coded: CodedAnswers) -> bool:
    """Return whether some question got the same answer twice."""
    ordered = np.sort(coded.codes, axis=0)
    return bool(np.any((ordered[1:] == ordered[:-1]) & (ordered[1:] != MISSING)))


def _ensemble(coded: CodedAnswers) -> AnswerEnsemble:
    return AnswerEnsemble(coded.codes, coded.names.shape[1], coded.weight)


def _agreement(coded: CodedAnswers, options: AnalysisOptions) -> Agreement:
    """Return the agreement of all questions, with the answers in the place of their codes."""
    adapter = AnswerAdapter(_ensemble(coded))
    law = None
    # Votes on two answers are those of two labels, whose distribution needs no model of rivals.
    if coded.weight is None and coded.names.shape[1] > 2:
        law = fit_partitions(coded.codes, coded.groups, options.random_state)
    found = agreement_of(adapter, np.arange(coded.questions.size)[:, None], options, coded.questions, law=law)
    place = coded.questions.get_indexer(found.undecided.index)
    columns = {name: coded.names[place, found.undecided[name]] for name in ("label", "runner_up")}
    return replace(found, undecided=found.undecided.assign(**columns))


def _report(
    known: CodedAnswers, agreement: Agreement, options: AnalysisOptions, notes: tuple[Finding, ...]
) -> EnsembleReport:
    """Return the report of the questions with a known truth, with the agreement of all."""
    if known.questions.size < 2:
        raise InputError(
            f"The truth of {counted(known.questions.size, 'question')} is known; at least 2 are needed, better some "
            "hundred. Without truth, leave it out: the agreement with infinitely many samples needs none."
        )
    rng, own_options = np.random.default_rng(options.random_state), replace(options, groups=known.groups)
    n_codings = min(max(CODED_QUESTIONS // known.questions.size, 1), MOST_CODINGS)
    codings = [known, *(known.recoded(rng) for _ in range(n_codings - 1))]
    report = _averaged([run_analysis(_ensemble(each), None, each.right, own_options) for each in codings])
    own, chosen = agreement.recommendation, report.recommendation
    criteria = tuple(own if each.criterion == "agreement" else each for each in report.criteria)
    # Codes are no labels: what is told by label means nothing.
    kept = tuple(each for each in report.basis.findings if each.code != "unevenly-drawn-rows")
    changed = replace(
        report,
        criteria=criteria,
        recommendation=own if chosen.criterion == "agreement" else chosen,
        label_errors=(),
        basis=replace(report.basis, labels=(), findings=kept),
    )
    return with_findings(changed, (*notes, *_doubts_about_truth(known)))


def _averaged(reports: Sequence[EnsembleReport]) -> EnsembleReport:
    """Return the report in the middle by its limit, with the mean of all curves."""
    # A tie goes to the lower code, which is another answer with each coding.
    middle = sorted(reports, key=lambda each: each.error_curve.asymptote)[len(reports) // 2]
    sizes, curves = middle.error_curve.sizes, [each.error_curve for each in reports]
    ends = np.mean([[curve.interval_at(size) for size in (*sizes, math.inf)] for curve in curves], axis=0)
    limit = float(np.mean([curve.asymptote for curve in curves]))
    curve = replace(
        middle.error_curve,
        error=np.mean([[each.at(size) for size in sizes] for each in curves], axis=0),
        lower=ends[:-1, 0],
        upper=ends[:-1, 1],
        asymptote=limit,
        asymptote_interval=(float(ends[-1, 0]), float(ends[-1, 1])),
        asymptote_raw=float(np.mean([curve.asymptote_raw for curve in curves])),
    )
    parts = replace(middle.bias_variance, ensemble_error=curve.at(middle.n_members), asymptotic_error=limit, bias=limit)
    return replace(middle, error_curve=curve, bias_variance=parts)


def _pass_at_k(known: CodedAnswers) -> FloatArray:
    """Return the share of questions with at least one right answer among k (Chen et al. 2021, eq. 1)."""
    n_samples = known.n_samples
    n_wrong = n_samples - (known.codes == known.right).sum(axis=0)
    k = np.arange(int(n_samples.min()))[:, None]
    none_right = np.cumprod(np.maximum(n_wrong - k, 0) / (n_samples - k), axis=0)
    return np.asarray(1.0 - none_right.mean(axis=1))


def _summary_lines(found: VoteReport) -> list[str]:
    report = found.report
    findings = (found.agreement if report is None else report).findings
    first = doubts_first(findings)[:1]
    first = [each.with_sentence(_in_words(each.sentence)) for each in first]
    lines = [line for each in first for line in wrapped(f"Warning: {with_code(each, 150)}", later="  ")]
    for sentence in _sentences(found):
        lines += wrapped(sentence)
    return [*lines, "", *aligned(_table(found)), "", *aligned(_needs(found))]


def _in_words(sentence: str) -> str:
    """Return a sentence about rows, members and labels as one about questions, samples and answers."""
    for word, own in _WORDS.items():
        sentence = re.sub(rf"\b{word}(?=s?\b)", own, sentence)
        sentence = re.sub(rf"\b{word.title()}(?=s?\b)", own.title(), sentence)
    return sentence


def _sentences(found: VoteReport) -> list[str]:
    most, fewest = counted(found.n_samples, "sample"), found.fewest_samples
    samples = most if fewest == found.n_samples else f"{fewest} to {most}"
    asked = f"{counted(found.n_questions, 'question')} of {samples} each."
    agreement = found.agreement
    settled = (
        f"{100 * agreement.agreement:.3g} % of the majority answers are those of infinitely many samples; "
        f"{counted(len(found.undecided), 'question is', 'questions are')} undecided (result.undecided)."
    )
    if found.report is None:
        return [asked, settled]
    here, limit = 100.0 * found._at([found.n_samples, math.inf]).maj_at_k
    right = f"The majority is right for {here:.1f} % with {most}, {limit:.1f} % with infinitely many."
    return [f"{asked} {right}", settled]


def _table(found: VoteReport) -> list[list[str]]:
    """Return shares of the questions, in percent, at sizes around the number of samples."""
    sizes: list[float] = [1.0, *(round(times * found.n_samples) for times in SHOWN_TIMES), math.inf]
    sizes = [size for size in dict.fromkeys(sizes) if size >= 1]
    frame = found._at(sizes)
    heads = ["samples", *("infinite" if math.isinf(size) else f"{size:.0f}" for size in sizes)]
    names = {
        "maj_at_k": "majority right (%)",
        "lower": f"  {level_text(found.agreement.interval_level)} interval from",
        "upper": "  to",
        "pass_at_k": "some answer right (%)",
        "agreement": "as infinitely many (%)",
    }
    return [heads, *([text, *_shares(frame[name])] for name, text in names.items() if name in frame)]


def _shares(column: pd.Series) -> list[str]:
    return ["" if math.isnan(share) else f"{100 * share:.1f}" for share in column]


def _needs(found: VoteReport) -> list[list[str]]:
    """Return the samples needed for agreement and, with truth, for the error, with their intervals."""
    report = found.report
    advices: list[SizeRecommendation] = [found.agreement.recommendation]
    if report is not None:
        advices = [each for each in report.criteria if each.criterion == "error"] + advices
    level = level_text(found.agreement.interval_level)
    rows = [["needed for", "samples", f"{level} interval"]]
    for advice in advices:
        rows.append([_purpose(advice), recommended_text(advice), recommended_interval_text(advice)])
    return rows


def _purpose(advice: SizeRecommendation) -> str:
    if advice.criterion == "agreement":
        return f"{level_text(1.0 - advice.tolerance)} of answers as infinitely many"
    return f"an accuracy within {100 * advice.tolerance:.2g} points of that of infinitely many"
