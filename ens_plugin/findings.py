"""What is found about rows, members and estimates beside the numbers, and the registry of the checks that find it.

A check is one row of :data:`CHECKS` and one function that returns ``finding(code, sentence, **numbers)`` where it finds
something.  To add one, write its row here and the function beside those that read the same things, and call that where
these are called: of rows in :func:`ens_plugin.analysis.rows.read_rows`, of what members predict for them in
:func:`ens_plugin.analysis.analyze.with_member_findings`, of fitted models in :mod:`ens_plugin.analysis.curves`, and of
the whole in :func:`ens_plugin.analysis.analyze.build_report`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Literal

from ens_plugin.errors import InputError

Kind = Literal["doubt", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reader of a report has to know beside its numbers.

    Attributes
    ----------
    code : str
        Name of the check that found it, which :func:`explain` and the reference explain.
    kind : {"doubt", "note"}
        A doubt is a reason not to rely on the figures: the headline states the first one, and the gate and
        ``rightsize`` refuse a report that has any.  A note changes no decision.
    sentence : str
        What was found, why it matters and what to do, in one sentence or a few.
    numbers : dict of str to float
        The numbers in the sentence, by name; shares and errors as fractions of 1.

    Examples
    --------
    >>> found = finding("few-rows", "Only 12 rows: every estimate is imprecise. Pass more rows.", n_rows=12)
    >>> found.kind, found.numbers
    ('note', {'n_rows': 12.0})
    """

    code: str
    kind: Kind
    sentence: str
    numbers: dict[str, float] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return self.sentence

    def with_sentence(self, sentence: str) -> Finding:
        """Return the finding in other words."""
        return replace(self, sentence=sentence)


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the registry: what a check looks for, and when it runs.

    Attributes
    ----------
    code : str
    kind : {"doubt", "note"}
        Of its findings.
    finds : str
        What is wrong where it finds something.
    reads : str
        What it looks at.
    rows : {"training", "held-out", "all"}
        The rows it runs on.
    remedy : str
        What to do about its findings.
    condition : str
        Of a note that the trust in all figures depends on: what has to be true, as words after "if".
    """

    code: str
    kind: Kind
    finds: str
    reads: str
    rows: Literal["training", "held-out", "all"]
    remedy: str
    condition: str = ""


_NAME_GROUPS = "Name what belongs together: analyze(..., groups=...)."
_MORE_MEMBERS = "Train more members."
_TRAIN_ALIKE = "Train all members with the same parameters, in one call of fit."
_MORE_ROWS = "Pass more rows."
_HELD_OUT = "Check the error on held-out rows."
_TRANSFORM = "Model a transformed target such as its logarithm, or use another loss."
_NOTHING = "None is needed."

# By what they read: rows, members, bags, estimates.
_IN_ORDER = (
    # The rows, before any member predicts them.
    Check(
        "predicted-target", "doubt", "y seems to be what this model predicts, not what was observed.",
        "outputs and target", "held-out", "Pass the observed target.",
    ),
    Check(
        "changed-training-rows", "doubt", "The rows seem to be the training rows with changed values.",
        "errors of members in and out of bag by position", "held-out", "Pass rows that were not used for training.",
    ),
    Check(
        "copied-held-out-rows", "doubt", "Many held-out rows are copies of each other, and perhaps of training rows.",
        "features and target", "held-out", "Hold rows out before any are copied.",
    ),
    Check(
        "like-training-rows", "doubt", "The rows may be the training rows in another order.",
        "leaves of all members", "held-out", "Pass rows that were not used for training.",
    ),
    Check(
        "some-training-rows", "doubt", "A part of the rows without labels are training rows.",
        "leaves and bags of all members, or the training rows", "held-out",
        "Pass rows that were not used for training.",
    ),
    Check(
        "other-units", "doubt", "Several columns lie outside of the values at which members split.",
        "features and thresholds", "held-out", "Pass the columns in the units of the training.",
    ),
    Check(
        "moved-columns", "note", "A column lies outside of the values at which members split.",
        "features and thresholds", "held-out", "Convert the unit, or train on newer rows.",
    ),
    Check(
        "unknown-rows", "note", "Nothing in the model shows whether it was trained on these rows.",
        "the model", "held-out", "Make sure that none of them was used for training.",
    ),
    Check(
        "other-agreement", "note", "Rows without labels are closer to call than those with labels, or less close.",
        "outputs", "held-out", "Keep the size for rows like these, or train on rows like them.",
    ),
    Check(
        "never-right", "doubt", "No sample of any question gives the true answer.",
        "answers", "held-out", "Bring answers and true ones into one form, for example with normalize=.",
    ),
    Check(
        "uneven-samples", "doubt", "Questions with fewer samples are harder or easier than the others.",
        "answers", "held-out", "Draw as many samples of each question.",
    ),
    Check(
        "unread-samples", "note", "Samples without an answer that could be read do not vote.",
        "answers", "held-out", "Check how answers are taken from the text, for example with normalize=.",
    ),
    Check(
        "interpolated-rows", "doubt", "Many rows lie exactly between two others, as an oversampler makes them.",
        "features", "training", "Train without the made rows, or pass held-out rows.",
    ),
    # The rows, by what the members predict for them.
    Check(
        "unequal-bags", "doubt", "Members of small bags err more or less than others, and count more out of bag.",
        "bags and errors of members", "training", "Train all members on as many rows.",
    ),
    Check(
        "copies", "doubt", "Copies of rows bias the error by more than its standard error.",
        "features, target, bags and errors of members", "training",
        "Remove copies before training, or name them with groups='identical'.",
    ),
    Check(
        "neighbouring-rows", "doubt",
        "Rows that follow each other belong together; a tree that did not see a row has seen its neighbours.",
        "bags and errors of members", "training", _NAME_GROUPS,
    ),
    Check(
        "sorted-rows", "note", "Rows that follow each other belong together, and the rows are sorted.",
        "bags and errors of members", "training", "Pass later rows as held-out rows if the model is used for them.",
        "new rows are like these and not later ones",
    ),
    Check(
        "subjects", "doubt",
        "Several rows seem to belong to one subject or series; a tree that did not see a row has seen its twins.",
        "features, target, bags and errors of members", "training", _NAME_GROUPS,
    ),
    # The members.
    Check(
        "unlike-members", "doubt", "Members were trained with unequal parameters, as after a warm start.",
        "parameters of members", "all", _TRAIN_ALIKE,
    ),
    Check(
        "members-in-order", "doubt", "Members that follow each other were trained alike, and others were not.",
        "parameters of members", "all", "Give the members in random order, or train them alike.",
    ),
    Check(
        "unlike-bags", "doubt", "The first members were trained on other targets than the last, as after a warm start.",
        "targets in the members' roots", "all", _TRAIN_ALIKE,
    ),
    Check(
        "of-adapter", "doubt", "An adapter that is not part of this package doubts the members.",
        "the model", "all", "See the documentation of the adapter.",
    ),
    # How rows are represented by those that are out of bag.
    Check(
        "missing-weight", "doubt", "Much of the weight lies on rows that are in nearly every bag.",
        "bags and weights", "training", "Leave more rows out of each bag, or train more members.",
    ),
    Check(
        "unevenly-drawn-rows", "note", "The bags do not leave out all rows equally often, which was corrected.",
        "bags and weights", "training", _NOTHING,
    ),
    Check(
        "handful-of-label", "note", "A label has so few rows out of bag that its error cannot be estimated.",
        "bags and labels", "training", _MORE_ROWS,
    ),
    Check(
        "few-scored-rows", "note", "Single rows of a rare label decide the raw scores of many others.",
        "labels", "training", _HELD_OUT,
    ),
    Check(
        "few-groups", "doubt", "There are too few groups to estimate how much groups differ.",
        "groups", "all", "Pass more groups.",
    ),
    Check(
        "large-groups", "doubt", "Nearly every bag holds rows of the larger groups, so the figures leave these out.",
        "groups and bags", "training", "Leave more rows out of each bag, or train members on whole groups.",
    ),
    Check(
        "note-of-adapter", "note", "An adapter that is not part of this package has a note on the model.",
        "the model", "all", "See the documentation of the adapter.",
    ),
    Check(
        "grouped-trees", "note", "One member is a group of trees.", "the model", "all", _NOTHING,
    ),
    Check(
        "shared-bags", "note", "Several trees in turn share a bag, so the recommended size may be too small.",
        "parameters of the model", "all", "Train with bagging_freq=1.",
    ),
    Check(
        "mean-only", "note", "The report is of the predicted mean, not of quantiles.", "the model", "all",
        "Use ens_plugin.adapters.quantile_forest.quantile_at for a quantile.",
    ),
    Check(
        "small-learning-rate", "note", "A learning rate below 1 keeps the predictions near the base score.",
        "parameters of the model", "all", "Train with learning_rate=1.",
    ),
    Check(
        "own-threshold", "note", "The error is that of the forest's own threshold between labels.",
        "the model", "all", "Pass metric='roc_auc' for the order of the scores.",
    ),
    Check(
        "unproved-rows", "note", "Nothing in the model shows whether these are its training rows, in their order.",
        "bags", "training", "Fit with oob_score=True where the model takes it.",
        "X and y are the training rows in their order",
    ),
    Check(
        "unproved-target", "note", "The model keeps too little of its target to prove y.",
        "bags", "training", "Make sure that y is the training target, in training order.",
        "y is the training target in its order",
    ),
    Check("few-rows", "note", "There are so few rows that every estimate is imprecise.", "rows", "all", _MORE_ROWS),
    Check(
        "dropped-rows", "note", "So many rows were left out that the error may be outside of its interval.",
        "bags", "training", _MORE_MEMBERS,
    ),
    # The estimates.
    Check(
        "unknown-roughness", "doubt", "Too few votes leave open whether any rows have close votes.",
        "votes", "all", "Train four times as many members, or use criterion='probability'.",
    ),
    Check(
        "few-large-errors", "doubt", "Half of the squared error lies on very few rows.", "squared errors", "all",
        "Pass more rows, or use a target or loss that these rows do not dominate.",
    ),
    Check(
        "heavy-tail", "doubt", "The tail of the squared errors is too heavy for an interval.",
        "squared errors", "all", _TRANSFORM,
    ),
    Check(
        "concentrated-error", "note", "A few rows have more than half of the squared error.",
        "squared errors", "all", "Check these rows, or model a transformed target.",
    ),
    Check(
        "infinite-log-loss", "doubt", "No size makes the log loss finite.", "probabilities", "all",
        "Train members whose leaves are not pure, calibrate, or choose 'neg_brier_score'.",
    ),
    Check(
        "zero-probabilities", "note", "The log loss is infinite with as many members as there are.",
        "probabilities", "all", _MORE_MEMBERS,
    ),
    Check(
        "assumed-positive-label", "note", "The metric is about the rarer of two labels, because neither is 1.",
        "labels", "all", "Pass positive_label for the other one.",
    ),
    Check(
        "better-than-perfect", "note", "The estimate for infinitely many members was better than perfect.",
        "curve of the metric", "all", _NOTHING,
    ),
    Check(
        "large-tolerance", "note", "The tolerance is a large part of what the score has above chance.",
        "curve of the metric", "all", "Pass a smaller tolerance.",
    ),
    Check(
        "warning-of-scikit-learn", "note", "scikit-learn warns where it computes the metric on these rows.",
        "outputs and target", "all", "See the warning.",
    ),
    Check(
        "few-ranked-rows", "note", "Few rows of the rarest label are ranked, each by members of its own.",
        "bags and labels", "training", _HELD_OUT,
    ),
    Check(
        "few-rows-of-label", "doubt", "A few rows of one label can move the metric further than its interval.",
        "outputs and target", "all", "Add rows of that label.",
    ),
    Check(
        "lowest-score", "doubt", "The score is hardly above its lowest value, so its curve is a guess.",
        "curve of the metric", "all", "Train a better model, or choose a metric of rankings or probabilities.",
    ),
    Check(
        "two-subset-sizes", "doubt", "The metric is known for two sizes of subsets only.", "subsets of members", "all",
        "Train about twice as many members.",
    ),
    Check(
        "error-below-zero", "note", "The error of infinitely many members was estimated below 0.", "curve", "all",
        _NOTHING,
    ),
    Check(
        "rare-label", "note", "The wanted agreement of labels hardly depends on the rarest label.",
        "labels", "all", "Use criterion='probability'.",
    ),
    Check(
        "target-steps", "doubt", "A step of the pipeline was fitted to the target of all rows.",
        "fits of the step to rows in random order", "training",
        "Fit the step within each member, or pass held-out rows.",
    ),
    Check(
        "unjudged-steps", "note", "A step of the pipeline could not be fitted again, and may have seen the target.",
        "fits of the step to rows in random order", "training",
        "Fit the step within each member if it reads the target, or pass held-out rows.",
    ),
    # Several outputs, and parts of the rows.
    Check(
        "demanding-outputs", "note", "Some outputs need many more members than the worst one.",
        "reports of the outputs", "all", "Read the reports of the outputs.",
    ),
    Check(
        "part-of-rows", "note", "Only a part of the rows was analysed, to keep autologging short.",
        "rows", "training", "Raise max_overhead of autolog.",
    ),
)  # fmt: skip

CHECKS: dict[str, Check] = {check.code: check for check in _IN_ORDER}


def finding(code: str, sentence: str, **numbers: float) -> Finding:
    """Return what the check of a code found, in words and numbers."""
    return Finding(code, CHECKS[code].kind, sentence, {name: float(value) for name, value in numbers.items()})


def coded(found: Iterable[Finding | str], code: str) -> tuple[Finding, ...]:
    """Return what an adapter found, with a code for the texts of adapters that are not part of this package."""
    return tuple(each if isinstance(each, Finding) else finding(code, each) for each in found)


def sentences(findings: Iterable[Finding], kind: Kind) -> tuple[str, ...]:
    """Return the sentences of the findings of one kind, in their order."""
    return tuple(found.sentence for found in findings if found.kind == kind)


def distinct(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in their order, those in the same words once."""
    return tuple({found.sentence: found for found in findings}.values())


def first_doubt(findings: Iterable[Finding]) -> Finding | None:
    """Return the doubt that stops whatever would rest on the figures: answers, cuts, growth and verdicts of the gate.

    It is the one that is stated in their place; None where nothing is stopped.
    """
    return next((found for found in findings if found.kind == "doubt"), None)


def doubts_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order in which they are stated."""
    return sorted(findings, key=lambda found: found.kind != "doubt")


def codes_of(findings: Iterable[Finding]) -> list[str]:
    """Return the codes of findings, doubts first, each once."""
    return list(dict.fromkeys(found.code for found in doubts_first(findings)))


def explain(code: str) -> str:
    """Return what a code means: what the check finds, what it reads, on which rows it runs, and what to do.

    Raises
    ------
    InputError
        If no check has this code.

    Examples
    --------
    >>> print(explain("few-rows"))
    few-rows, a note: There are so few rows that every estimate is imprecise.
    Reads: rows; all rows.
    What to do: Pass more rows.
    """
    check = CHECKS.get(code)
    if check is None:
        near = get_close_matches(code, CHECKS, n=3, cutoff=0.5)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"No check has the code {code!r}.{meant} `ens-plugin explain` lists all codes.")
    return (
        f"{check.code}, a {check.kind}: {check.finds}\n"
        f"Reads: {check.reads}; {check.rows} rows.\n"
        f"What to do: {check.remedy}"
    )
