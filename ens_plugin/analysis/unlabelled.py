"""Whether an ensemble decides as a larger one would, without labels: its labels, its lists and its values."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.custom import CustomEnsemble, EstimatorEnsemble
from ens_plugin.adapters.members import several_outputs
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import inner_ensemble, output_count, unwrap
from ens_plugin.analysis.arguments import resolve_options
from ens_plugin.analysis.copies import HashedRows, hash_rows, row_cells
from ens_plugin.analysis.estimates import ResolvedOptions, are_votes
from ens_plugin.analysis.evidence import Evidence, tally_rows
from ens_plugin.analysis.labels import (
    DRAWN_ROWS,
    agreement_law,
    curve_sizes,
    draw_alike_rows,
    draw_labels,
    gap_doubts,
    labelled_by_members,
    largest_tied,
    overlap_law,
    subset_rates,
)
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.analysis.rows import unit_findings
from ens_plugin.analysis.sizes import (
    agreement_size,
    choose_recommendation,
)
from ens_plugin.core.intervals import DrawnCurve
from ens_plugin.core.label_draws import LabelDraws
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import LeadTally, tally_leads
from ens_plugin.core.training_rows import TrainingShare, estimate_training_share, share_of_equal_rows
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray, as_count, counted, plural, previous_odd_size
from ens_plugin.errors import (
    DataMismatchError,
    EnsPluginError,
    InputError,
    UnsupportedModelError,
)
from ens_plugin.findings import Finding, coded, doubts_first, finding, sentences
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.rendering import Page, render
from ens_plugin.report.result import FEWEST_ROWS, SizeRecommendation, brief, changed, with_findings
from ens_plugin.report.text import (
    level_text,
    noun_of,
    printable,
    recommended_interval_text,
    recommended_text,
    size_interval_text,
    with_code,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


SCHEMA_VERSION = 1
# Of the undecided rows on a page.
MOST_ROWS = 20
# Of a printed result: sizes relative to the present one, and characters of a warning.
SHOWN_TIMES = (0.25, 0.5, 1.0, 2.0, 4.0)
LONGEST_WARNING = 150
OTHER_CRITERION = ", or use criterion='probability'."
TRAINING_ROWS = (
    "These rows, or many of them, are rows the model was trained on: members agree about rows they were trained on, "
    "so that the agreement would be too high. Pass rows that were not used for training. Of training rows, "
    "ens_plugin.analyze(model, X, y, criterion='agreement') has the agreement of out-of-bag members."
)
# Shares of training rows among the rows from which the agreement is doubted, and refused.
DOUBTED_SHARE, REFUSED_SHARE = 0.1, 0.5
SHOWN_ROWS = 5
LIKE_TRAINING_ROWS = (
    "These rows may be the ones the model was trained on: every leaf of every tree holds at least as many of them as "
    "of its training rows. If they are, the agreement is far too high. Pass only rows that were not used for training."
)
UNKNOWN_ROWS = (
    "Nothing in this model shows, without labels, whether it was trained on these rows. If it was, the agreement is "
    "far too high."
)


class Words(NamedTuple):
    """What an agreement is of: its first and last sentence, and on a page the caption and what explains the table."""

    shared: str
    undecided: str
    caption: str
    note: str


@dataclass(frozen=True, eq=False, repr=False)
class Agreement(Page):
    """How much of its labels, of a list or of its values an ensemble shares with infinitely many members.

    Attributes
    ----------
    model : str
        Class of the ensemble.
    n_members, n_rows : int
        The rows are columns where a list is one of columns.
    recommendation : SizeRecommendation
        The size for the wanted agreement of labels, or the wanted overlap of lists and values, with its interval.
    interval_level : float
    probability_sd : float or None
        How much the probability, or share of votes, of a row's predicted label differs from that of infinitely many
        members: the root mean square over rows.  None where the members give raw scores, and of lists and values.
    undecided : DataFrame
        What the present members leave open, the closest first; the index is that of the rows, or has the names of the
        columns.  Of labels the rows with less than the wanted agreement: `label`, predicted, and `runner_up`;
        `margin`, the mean support for the former minus that for the latter; `needed`, the members that this row needs
        (infinite at a tie).  Of a list, the items that infinitely many members may or may not list: `value`, by which
        they are ranked; `listed`, now; `chance`, to be on the list of infinitely many.  Of values none.
    words : Words
        What the agreement is of.
    to_infinity, between : DrawnCurve
        The loss against infinitely many members, and against other members of the same number, by size.
    findings : tuple of Finding
        Doubts about the figures, and notes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X[:300], y[:300])
    >>> found = ens_plugin.agreement(forest, X[300:])
    >>> found.n_members, found.n_rows, list(found.undecided.columns)
    (100, 269, ['label', 'runner_up', 'margin', 'needed'])
    """

    model: str
    n_members: int
    n_rows: int
    recommendation: SizeRecommendation
    interval_level: float
    probability_sd: float | None
    undecided: pd.DataFrame
    words: Words
    to_infinity: DrawnCurve
    between: DrawnCurve
    findings: tuple[Finding, ...] = ()

    def __repr__(self) -> str:
        return brief(self, "model", "n_members", "n_rows", "agreement", "recommended_size")

    def __str__(self) -> str:
        """Return the result in at most 15 lines of plain English."""
        return "\n".join(_summary_lines(self))

    @property
    def agreement(self) -> float:
        """Return the share of labels, of the list or of values that infinitely many members are expected to share."""
        return self.agreement_at(self.n_members)

    @property
    def agreement_interval(self) -> tuple[float, float]:
        """Return the interval of the agreement, at `interval_level`."""
        low, high = self.to_infinity.loss_interval(self.n_members, self.interval_level)
        return 1.0 - high, 1.0 - low

    @property
    def overlap(self) -> float:
        """Return the share that another ensemble of the same size is expected to share."""
        return self.overlap_at(self.n_members)

    @property
    def overlap_interval(self) -> tuple[float, float]:
        """Return the interval of the overlap, at `interval_level`."""
        low, high = self.between.loss_interval(self.n_members, self.interval_level)
        return 1.0 - high, 1.0 - low

    def agreement_at(self, size: int) -> float:
        """Return the agreement of an ensemble of so many members with infinitely many; of each size of the curve."""
        return 1.0 - float(self.to_infinity.losses([self._tabulated(size)])[0])

    def overlap_at(self, size: int) -> float:
        """Return the overlap of two ensembles of so many members each."""
        return 1.0 - float(self.between.losses([self._tabulated(size)])[0])

    def _tabulated(self, size: int) -> int:
        return as_count(size, "size", smallest=int(self.recommendation.sizes[0]))

    @property
    def noun(self) -> str:
        """Return what a member is called, such as "tree"."""
        return noun_of(self.model, self.findings)

    @property
    def recommended_size(self) -> int | None:
        """Return the size that is wanted; None where it is above `max_size`, or cannot be told."""
        return self.recommendation.size

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the reasons not to rely on the figures, as sentences."""
        return sentences(self.findings, "doubt")

    def to_frame(self) -> pd.DataFrame:
        """Return the agreement and the overlap by size.

        Returns
        -------
        DataFrame
            Columns ``agreement`` and ``overlap``; the index is the number of members.
        """
        sizes = self.recommendation.sizes
        laws = {"agreement": self.to_infinity, "overlap": self.between}
        columns = {name: 1.0 - law.losses(sizes) for name, law in laws.items()}
        return pd.DataFrame(columns, index=pd.Index(sizes, name="n_members"))

    def to_json(self) -> str:
        """Return the result as JSON.

        Returns
        -------
        str
            ``schema_version``, the attributes by name, ``sizes`` and ``losses`` of the recommendation (of labels
            against infinitely many members, else against as many others), and the undecided rows as a list with their
            ``row`` in the index; a number that is not finite is null.
        """
        advice = self.recommendation
        content = {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "n_members": self.n_members,
            "n_rows": self.n_rows,
            "agreement": self.agreement,
            "agreement_interval": self.agreement_interval,
            "overlap": self.overlap,
            "overlap_interval": self.overlap_interval,
            "tolerance": advice.tolerance,
            "recommended_size": advice.size,
            "interval": list(advice.interval),
            "interval_level": self.interval_level,
            "max_size": advice.max_size,
            "reason": advice.reason,
            "probability_sd": self.probability_sd,
            "sizes": advice.sizes.tolist(),
            "losses": advice.losses.tolist(),
            "undecided": [
                {"row": row.Index if isinstance(row.Index, int) else str(row.Index), **_as_dict(row)}
                for row in self.undecided.itertuples()
            ],
            "doubts": list(self.doubts),
            "warnings": list(sentences(self.findings, "note")),
        }
        return json.dumps(content, indent=1, allow_nan=False)

    def _page(self) -> str:
        from ens_plugin.report.size_curves import criterion_curve
        from ens_plugin.report.svg import pictures

        noun = self.noun
        curve = criterion_curve(self.recommendation, self.n_members, self.recommendation.criterion, "recommended", noun)
        headline, *sentences = _sentences(self)
        shown = self.undecided.head(MOST_ROWS)
        rows = [[_cell(cell) for cell in row] for row in shown.itertuples()]
        return render(
            "agreement.html.j2",
            model=printable(self.model, 80),
            members=counted(self.n_members, noun),
            noun=noun,
            agreement=f"{100 * self.agreement:.4g} %",
            headline=headline,
            sentences=sentences,
            warnings=[with_code(each) for each in self.findings],
            agreement_pictures=pictures([curve]),
            heads=[
                "row" if shown.index.name is None else str(shown.index.name),
                *(name.replace("_", " ") for name in shown.columns),
            ],
            words=self.words,
            rows=rows,
            n_undecided=len(self.undecided),
            n_left_out=len(self.undecided) - len(rows),
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share that decides on the size by size, as :func:`ens_plugin.report.plots.plot_agreement` does."""
        from ens_plugin.report.plots import plot_agreement

        return plot_agreement(self.recommendation, n_members=self.n_members, noun=self.noun, ax=ax)


def _cell(value: Any) -> str:
    """Return a value of an undecided row as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if math.isfinite(value) else "infinitely many"
    return printable(str(value), 40)


def _as_dict(row: Any) -> dict[str, Any]:
    """Return the columns of an undecided row as values of JSON."""
    own = row._asdict()
    del own["Index"]
    numbers = {name: value if math.isfinite(value) else None for name, value in own.items() if isinstance(value, float)}
    return {**{name: value if isinstance(value, bool) else str(value) for name, value in own.items()}, **numbers}


def _summary_lines(found: Agreement) -> list[str]:
    """Return the lines of a printed result; at most 15."""
    first = doubts_first(found.findings)[:1]
    lines = [line for each in first for line in wrapped(f"Warning: {with_code(each, LONGEST_WARNING)}", later="  ")]
    lines += [line for sentence in _sentences(found) for line in wrapped(sentence)]
    return [*lines, "", *_table_lines(found, found.noun)]


def _sentences(found: Agreement) -> list[str]:
    """Return the agreement, the size for the wanted one, the spread of probabilities and the undecided rows."""
    noun, advice = found.noun, found.recommendation
    wanted, level = level_text(1.0 - advice.tolerance), level_text(found.interval_level)
    verb = "is" if advice.size == 1 else "are"
    takes = f"For {wanted}, {counted(recommended_text(advice), noun)} {verb} needed"
    sentences = [
        found.words.shared,
        f"{takes} ({level} interval {recommended_interval_text(advice)}).",
    ]
    if found.probability_sd is not None:
        points = f"{100 * found.probability_sd:.2g}"
        sentences.append(f"The probability of a row's label is off by {points} percentage points (root mean square).")
    return [*sentences, found.words.undecided]


def _words_of_labels(
    noun: str, n_members: int, n_rows: int, found: SizeRecommendation, undecided: pd.DataFrame
) -> Words:
    assert found.agreement is not None
    shared = (
        f"On these {counted(n_rows, 'row')}, {counted(n_members, noun)} predict the label that infinitely many would "
        f"for {100 * found.agreement:.4g} %."
    )
    wanted = level_text(1.0 - found.tolerance)
    left_open = f"No row is undecided: each has its label with a chance of {wanted} or more."
    if not undecided.empty:
        rows = counted(len(undecided), "row is undecided: its", "rows are undecided: their")
        left_open = (
            f"{rows} chance to have the label of infinitely many is below {wanted} (result.undecided; the closest is "
            f"row {printable(str(undecided.index[0]), 40)})."
        )
    caption = f"predicts a row's label as infinitely many {plural(noun)} would"
    note = (
        "The margin is the mean support for the label less that for the runner-up. A row at a tie needs "
        f"infinitely many {plural(noun)}."
    )
    return Words(shared, left_open, caption, note)


def _table_lines(found: Agreement, noun: str) -> list[str]:
    """Return what is shared at a few sizes around the present one, as lines of a table."""
    by_size = found.to_frame()
    wanted = [max(round(times * found.n_members), 1) for times in SHOWN_TIMES]
    shown = [size for size in dict.fromkeys(wanted) if size <= by_size.index[-1]]
    width = max(16, len(plural(noun)))
    lines = [f"{plural(noun):<{width}}" + "".join(f"{size:>9}" for size in shown)]
    for name, values in by_size.items():
        shares = [100.0 * float(np.interp(size, by_size.index, values)) for size in shown]
        lines.append(f"{f'{name} (%)':<{width}}" + "".join(f"{share:>9.2f}" for share in shares))
    return lines


def agreement_beside(model: Any, options: AnalysisOptions, trained: Any) -> Agreement:
    """Return the agreement on the rows without labels of an analysis; errors say that they are about these."""
    # `trained` are the training rows, with which they are compared; None in an analysis of held-out rows.
    try:
        return agreement_on(model, options.unlabelled, options, trained=trained)
    except EnsPluginError as error:
        raise type(error)(f"Of the rows passed as unlabelled: {error}") from None


def agreement_on(model: Any, X: Any, options: AnalysisOptions, *, trained: Any = None) -> Agreement:
    """Return the agreement on rows without labels, by those options of an analysis that concern it."""
    adapter, inner = _open(model, X)
    features = checked_rows(adapter, inner)
    index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(features.shape[0])
    share = None if trained is None else _share_of_equal(model, adapter, hash_rows(features, inner), trained)
    return agreement_of(adapter, features, options, index, rows=inner, share=share)


def _share_of_equal(model: Any, adapter: EnsembleAdapter, own: HashedRows | None, trained: Any) -> TrainingShare | None:
    """Return the share of rows that equal training rows, more often than by nature; None of rows that are no table."""
    _, rows = unwrap(model, trained, are_fresh=True)
    known = hash_rows(adapter.prepare(rows), rows)
    return None if own is None or known is None else share_of_equal_rows(own.hashes, known.hashes)


def agreement_of(
    adapter: EnsembleAdapter,
    features: Any,
    options: AnalysisOptions,
    index: pd.Index[Any],
    *,
    rows: Any = None,
    share: TrainingShare | None = None,
) -> Agreement:
    """Return the agreement on prepared rows, which have these names; `rows` are the same as the user gave them."""
    # `share` is that of training rows, where they were compared.
    wanted = AnalysisOptions(
        data="holdout",
        criterion="agreement",
        tolerance=options.tolerance if options.criterion == "agreement" else None,
        max_size=options.max_size,
        interval_level=options.interval_level,
        random_state=options.random_state,
    )
    settings = resolve_options(adapter, wanted)
    return _result(adapter, features, features if rows is None else rows, settings, index, share)


def with_agreement(report: EnsembleReport, found: Agreement) -> EnsembleReport:
    """Return a report whose agreement, and size by it, are those found on rows without labels."""
    own = next(each for each in report.criteria if each.criterion == "agreement")
    criteria = tuple(
        replace(found.recommendation, is_required=own.is_required)
        if each is own
        else replace(each, agreement=found.agreement)
        for each in report.criteria
    )
    basis = replace(report.basis, n_unlabelled=found.n_rows)
    chosen = choose_recommendation(criteria)
    with_others = changed(report, criteria=criteria, recommendation=chosen, basis=basis)
    return with_findings(with_others, (*_other_agreement(own, found), *_of_other_rows(found.findings)))


def _other_agreement(own: SizeRecommendation, found: Agreement) -> tuple[Finding, ...]:
    """Return a note where the rows with labels have another size by agreement; else none."""
    if _meet(own.interval, found.recommendation.interval):
        return ()
    assert own.agreement is not None
    closer = "closer" if found.agreement < own.agreement else "less close"
    sentence = (
        f"The {counted(found.n_rows, 'row')} without labels are {closer} to call than those with labels, on which the "
        f"agreement is {100 * own.agreement:.4g} % and not {100 * found.agreement:.4g} %, and the size by it "
        f"{size_interval_text(own.interval, own.max_size)}. The size by agreement is for rows like those without "
        "labels."
    )
    numbers = {"agreement": found.agreement, "agreement_with_labels": own.agreement}
    return (finding("other-agreement", sentence, **numbers),)


def _meet(one: tuple[int, int | None], other: tuple[int, int | None]) -> bool:
    """Return whether two intervals of a size have a size in common; an end of None is above all sizes."""
    return all(high is None or low <= high for low, high in ((one[0], other[1]), (other[0], one[1])))


def _of_other_rows(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return findings about rows without labels in a report that is about other rows too."""
    return tuple(each.with_sentence(f"Of the rows without labels: {each.sentence}") for each in findings)


def _open(model: Any, X: Any) -> tuple[EnsembleAdapter, Any]:
    """Return the adapter of a classifier, and the rows as they reach its ensemble; refuse other models."""
    adapter, rows = open_ensemble(model, X)
    if adapter.info.task != "classification":
        raise UnsupportedModelError(
            f"This {type(adapter.model).__name__} predicts values, which hardly ever are exactly those "
            "of infinitely many members, so there is no agreement of labels. Pass top for the rows with the largest "
            "values, within for how close the values are, or a classifier. Of the error by size, "
            "ens_plugin.analyze(model, X, y) has values too."
        )
    adapter.check_form()
    return adapter, rows


def open_ensemble(model: Any, X: Any) -> tuple[EnsembleAdapter, Any]:
    """Return the adapter of an ensemble whose members can predict other rows, and the rows as they reach it."""
    inner_model = inner_ensemble(model)
    if (n_outputs := output_count(inner_model)) > 1:
        raise UnsupportedModelError(several_outputs(type(inner_model).__name__, n_outputs))
    if isinstance(inner_model, CustomEnsemble) and not isinstance(inner_model, EstimatorEnsemble):
        raise InputError(
            "This CustomEnsemble was made of arrays, so its members cannot predict other rows. Make it of fitted "
            "models: CustomEnsemble.from_estimators(models)."
        )
    ensemble, rows = unwrap(model, X, are_fresh=True)
    return find_adapter(ensemble), rows


def checked_rows(adapter: EnsembleAdapter, rows: Any) -> Any:
    """Return the rows as the adapter prepares them; refuse fewer than two."""
    if getattr(rows, "shape", (1,))[0] == 0 or (isinstance(rows, list) and not rows):
        raise InputError("X has no rows; pass rows that the model can predict.")
    features = adapter.prepare(rows)
    if features.shape[0] < 2:
        raise InputError(
            f"X has {counted(features.shape[0], 'row')}, and an agreement is a share of many. Pass at least "
            "2 rows, better a thousand."
        )
    adapter.check_members(features)
    return features


def _origin_findings(
    adapter: EnsembleAdapter, features: Any, index: pd.Index[Any], share: TrainingShare | None
) -> tuple[Finding, ...]:
    """Return a doubt about rows that may be training rows, a note where no model would show it; refuse proved ones."""
    origin = adapter.verify_rows(features, None)
    if origin == "training":
        raise DataMismatchError(TRAINING_ROWS)
    if share is None and (draws := adapter.leaf_draws(features)) is not None:
        share = estimate_training_share(draws)
    if share is not None and share.upper >= DOUBTED_SHARE:
        return (_training_finding(share, index),)
    if origin == "like_training":
        return (finding("like-training-rows", LIKE_TRAINING_ROWS),)
    return (finding("unknown-rows", UNKNOWN_ROWS),) if origin == "unknown" else ()


def _training_finding(share: TrainingShare, index: pd.Index[Any]) -> Finding:
    """Return the doubt about rows of which a part are training rows; refuse them from a half on."""
    named = ", ".join(printable(str(name), 40) for name in index[share.rows[:SHOWN_ROWS]])
    part = (
        f"An estimated {100 * share.share:.0f} % of these {len(index)} rows (95 % interval up to "
        f"{100 * share.upper:.0f} %) are rows the model was trained on, such as row {named}. Members agree about rows "
        "they were trained on, so that the agreement is too high. Pass rows none of which was used for training; "
        "leaving out the recognised ones alone does not help, because they are those that members disagree about."
    )
    if share.share >= REFUSED_SHARE:
        raise DataMismatchError(
            f"{part} Of training rows, ens_plugin.analyze(model, X, y, criterion='agreement') has the agreement of "
            "out-of-bag members."
        )
    return finding("some-training-rows", part, share=share.share, upper=share.upper)


def _read(adapter: EnsembleAdapter, features: Any, settings: ResolvedOptions) -> tuple[Evidence, LeadTally]:
    """Return what remains of the members' outputs for the rows, which have no target, and their leading labels."""
    rng, n_rows = np.random.default_rng(settings.random_state), features.shape[0]
    no_target, weight = np.zeros(n_rows, dtype=np.int64), np.ones(n_rows)
    evidence = tally_rows(adapter, features, None, no_target, weight, tally=tally_leads, rng=rng, progress=None)
    assert isinstance(evidence.tally, LeadTally)
    return evidence.sort_samples(), evidence.tally


def _members_needed(leads: LeadTally, confidence: float) -> FloatArray:
    """Return how many members each row needs for the wanted chance of its label; infinity at a tie (2013 eq. 12)."""
    mean, sd = leads.mean, leads.sd
    apart = np.where(mean > 0, mean, 1.0)
    needed = np.where(mean > 0, np.ceil((float(ndtri(confidence)) * sd / apart) ** 2), np.inf)
    # Members that all give a row the same outputs leave nothing to decide, even at a tie.
    return np.where(sd > NEGLIGIBLE, np.maximum(needed, 1.0), 1.0)


def _undecided_rows(
    adapter: EnsembleAdapter, leads: LeadTally, confidence: float, index: pd.Index[Any]
) -> pd.DataFrame:
    """Return the rows that need more members than there are, the closest first."""
    assert adapter.classes is not None
    needed, mean = _members_needed(leads, confidence), leads.mean
    label, runner_up = (vars(leads)[name] for name in ("label", "runner_up"))
    rows = np.flatnonzero(needed > adapter.n_members)
    rows = rows[np.argsort(mean[rows] / leads.sd[rows], kind="stable")]
    columns = {
        "label": adapter.classes[label[rows]],
        "runner_up": adapter.classes[runner_up[rows]],
        "margin": mean[rows],
        "needed": needed[rows],
    }
    return pd.DataFrame(columns, index=index[rows])


def _probability_sd(adapter: EnsembleAdapter, sample: Sample) -> float | None:
    """Return the root mean square of the standard errors of the leading labels' probabilities; None for scores."""
    if adapter.output_kind == "scores":
        return None
    block = sample.block
    lead = np.argmax(block.support, axis=1)
    if block.outputs.ndim == 2:
        own = (block.outputs == lead).astype(np.float64)
    else:
        own = block.outputs[:, np.arange(lead.size), lead]
    return float(np.sqrt(np.mean(own.var(axis=0, ddof=1) / adapter.n_members)))


def _draws(adapter: EnsembleAdapter, evidence: Evidence) -> LabelDraws:
    """Return draws of the rows' outputs, as an analysis of labelled rows has them."""
    has_scores, n_effective = adapter.output_kind == "scores", evidence.weight.n_effective
    alike = draw_alike_rows(evidence.sample, evidence.sampled_cell, n_effective, has_scores=has_scores)
    if alike is not None:
        return alike
    sample = labelled_by_members(evidence.sample.some_rows(DRAWN_ROWS))
    # The agreement rests on the drawn rows alone, which no sum over all rows corrects.
    weight = np.full(sample.rows.size, min(n_effective / sample.rows.size, 1.0))
    return draw_labels(sample, weight, subset_rates(sample.block), has_scores=has_scores)


def _laws_and_doubts(
    adapter: EnsembleAdapter, evidence: Evidence, settings: ResolvedOptions
) -> tuple[DrawnCurve, DrawnCurve, tuple[Finding, ...]]:
    """Return the laws of the agreement and of the overlap by draws, and a doubt where votes may not be close."""
    draws, block = _draws(adapter, evidence), evidence.sample.block
    ties_to = largest_tied(draws.n_labels, has_votes=are_votes(block))
    sizes = curve_sizes(settings.max_size, float(previous_odd_size(adapter.n_members, ties_to)))
    doubts = gap_doubts(draws, block, adapter.n_members, settings)
    own = tuple(each.with_sentence(each.sentence.replace(OTHER_CRITERION, ".")) for each in doubts)
    to_infinity, between = (law(draws, sizes, settings.random_state, ties_to) for law in (agreement_law, overlap_law))
    return to_infinity, between, own


def _result(
    adapter: EnsembleAdapter,
    features: Any,
    rows: Any,
    settings: ResolvedOptions,
    index: pd.Index[Any],
    share: TrainingShare | None,
) -> Agreement:
    of_origin = _origin_findings(adapter, features, index, share)
    evidence, leads = _read(adapter, features, settings)
    n_members, n_rows = adapter.n_members, leads.n_rows
    evidence = replace(evidence, cell=row_cells(hash_rows(features, rows)))
    to_infinity, between, doubts = _laws_and_doubts(adapter, evidence, settings)
    of_model = (*unit_findings(adapter, features), *findings_of_adapter(adapter, "holdout"))
    findings = (*of_origin, *of_model, *_few_rows(n_rows), *doubts)
    name, advice = type(adapter.model).__name__, agreement_size(to_infinity, n_members, settings)
    undecided = _undecided_rows(adapter, leads, 1.0 - settings.agreement_tolerance, index)
    return Agreement(
        model=name,
        n_members=n_members,
        n_rows=n_rows,
        recommendation=advice,
        interval_level=settings.interval_level,
        probability_sd=_probability_sd(adapter, evidence.sample),
        undecided=undecided,
        words=_words_of_labels(noun_of(name, findings), n_members, n_rows, advice, undecided),
        to_infinity=to_infinity,
        between=between,
        findings=findings,
    )


def findings_of_adapter(adapter: EnsembleAdapter, data: str) -> tuple[Finding, ...]:
    """Return what an adapter finds about its model, on held-out rows or for a list."""
    return (*coded(adapter.doubts(), "of-adapter"), *coded(adapter.cautions(data), "note-of-adapter"))


def _few_rows(n_rows: int) -> tuple[Finding, ...]:
    if n_rows >= FEWEST_ROWS:
        return ()
    return (finding("few-rows", f"Only {n_rows} rows: every estimate is imprecise. Pass more rows.", n_rows=n_rows),)
