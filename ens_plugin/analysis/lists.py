"""Lists of rows or columns, and values of rows, that infinitely many members or another seed would give too."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import in_threads, model_errors, shortened
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import inner_ensemble
from ens_plugin.analysis.arguments import check_options
from ens_plugin.analysis.evidence import row_blocks
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.analysis.rows import unit_findings
from ens_plugin.analysis.sizes import promised_size
from ens_plugin.analysis.unlabelled import Agreement, checked_rows, open_ensemble
from ens_plugin.core.lists import FEWEST_MEMBERS, MOST_ITEMS, Laws, RankedItems, close_values, open_items
from ens_plugin.core.validation import MAX_SIZE, FloatArray, IntArray, as_count, counted, shown
from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError, ends_at_caller
from ens_plugin.findings import Finding, coded
from ens_plugin.report.result import SizeRecommendation
from ens_plugin.report.text import level_text, noun_of, printable

LIST_TOLERANCE = 0.05
N_TABULATED = 60
# Tables of more rows are read twice, and their curve begins at this part of the members.
FIRST_PART = 0.25
PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")


@dataclass(frozen=True)
class SharedOptions:
    """What the size is wanted for: options of agreements of lists and values, checked when made."""

    tolerance: float | None = None
    max_size: int = AnalysisOptions.max_size
    interval_level: float = AnalysisOptions.interval_level

    def __post_init__(self) -> None:
        check_options(
            AnalysisOptions(criterion="agreement", tolerance=self.allowed, interval_level=self.interval_level)
        )
        as_count(self.max_size, "max_size", largest=MAX_SIZE)

    @property
    def allowed(self) -> float:
        """Return the part that may differ between two ensembles of the recommended size."""
        return LIST_TOLERANCE if self.tolerance is None else self.tolerance


@dataclass(frozen=True)
class ListSubject:
    """A list of the items with the largest values, as what an agreement is of."""

    noun: str  # of a member
    item: str
    length: int
    by: str
    caption: str = "lists an item that another ensemble of that size lists"
    note: str = "The chance is that infinitely many {noun}s list it."

    @property
    def heads(self) -> tuple[str, ...]:
        """Return the heads of the undecided items on a page."""
        return self.item, self.by, "listed now", "chance"

    def sentence(self, found: Agreement) -> str:
        """Return how much of the list infinitely many, and as many other, members are expected to have."""
        level = level_text(found.interval_level)
        return (
            f"Of the list of the {counted(self.length, self.item)} with the largest {self.by} (of {found.n_rows}), "
            f"{counted(found.n_members, self.noun)} have {_share(found.agreement)} in common with infinitely many "
            f"({level} interval {_ends(found.agreement_interval)}), and {_share(found.overlap)} with as many trained "
            f"with another seed ({_ends(found.overlap_interval)})."
        )

    def undecided_sentence(self, found: Agreement) -> str:
        """Return how many items may or may not be on the list of infinitely many members."""
        if found.undecided.empty:
            return f"No {self.item} is undecided."
        closest = printable(str(found.undecided.index[0]), 40)
        return (
            f"{counted(len(found.undecided), f'{self.item} is', f'{self.item}s are')} undecided: infinitely many "
            f"may or may not list them (result.undecided; the closest is {closest})."
        )

    def texts(self, row: Any) -> list[str]:
        """Return the value, whether it is listed, and its chance."""
        return [f"{row.value:.4g}", "yes" if row.listed else "no", f"{row.chance:.2f}"]

    def as_dict(self, row: Any) -> dict[str, Any]:
        """Return the columns as values of JSON."""
        return {"value": float(row.value), "listed": bool(row.listed), "chance": float(row.chance)}


@dataclass(frozen=True)
class ValueSubject(ListSubject):
    """Values of rows that are close to those of other members, as what an agreement is of."""

    distance: float = 0.0
    caption: str = "gives an item a value close to that of another ensemble of that size"

    def sentence(self, found: Agreement) -> str:
        """Return how many values are close to those of infinitely many, and of as many other, members."""
        members, distance = counted(found.n_members, self.noun), f"{self.distance:.4g}"
        return (
            f"Of {counted(found.n_rows, self.item)}, {members} give {_share(found.agreement)} a {self.by} within "
            f"{distance} of that of infinitely many, and {_share(found.overlap)} within that of as many trained with "
            "another seed."
        )

    def undecided_sentence(self, found: Agreement) -> str:
        """Return that values are not decided on."""
        return "Values are close or not; none is undecided."


def _share(share: float) -> str:
    return f"{100 * share:.3g} %"


def _ends(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:.3g} to {100 * interval[1]:.3g} %"


class MemberValues(NamedTuple):
    """What members give each item: for all items the mean, and for some that are open each member's value."""

    items: RankedItems
    rows: IntArray  # of the items
    means: FloatArray


def ranking_agreement(
    model: Any, X: Any, options: SharedOptions, *, top: int | None, within: float | str | None, label: object
) -> Agreement:
    """Return the agreement of a list of rows by value or by the probability of a label, or of their values."""
    if top is not None and within is not None:
        raise InputError("top is about a list and within about values. Pass one of them.")
    adapter, inner = open_ensemble(model, X)
    values_of, by = _ranked_output(adapter, label)
    features = checked_rows(adapter, inner)
    check_members(adapter.n_members)
    index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(features.shape[0])
    findings = (*unit_findings(adapter, features), *coded(adapter.doubts(), "of-adapter"))
    if within is not None:
        if adapter.output_kind == "scores":
            raise UnsupportedModelError("Members of this model give raw scores, which have no unit. Pass top.")
        return _agreement_of_values(adapter, values_of, features, within, by, options, findings)
    assert top is not None
    length = as_count(top, "top", largest=len(index))
    found = _member_values(adapter, values_of, features, length)
    return agreement_of_items(adapter, found, length, index, ("row", by), options, findings)


Outputs = NDArray[Any]


def _ranked_output(adapter: EnsembleAdapter, label: object) -> tuple[Callable[[Outputs], FloatArray], str]:
    """Return the function from outputs of members to what rows are ranked by, and its name."""
    name = type(adapter.model).__name__
    if adapter.offers("combined"):
        raise UnsupportedModelError(f"This {name} does not predict the mean of its members. Pass the forest itself.")
    if adapter.classes is None:
        if label is not None:
            raise InputError(f"label={shown(label)}, but this {name} predicts values. Leave label out.")
        return lambda outputs: np.asarray(outputs, dtype=np.float64), "value"
    code = _label_code(adapter, label)
    by = f"probability of {printable(str(adapter.classes[code]), 40)}"
    if adapter.output_kind == "labels":
        return lambda outputs: np.asarray(outputs == code, dtype=np.float64), by
    if adapter.output_kind == "probabilities":
        return lambda outputs: np.asarray(outputs[..., code], dtype=np.float64), by
    if adapter.classes.size > 2:
        raise UnsupportedModelError(
            f"Members of this {name} give raw scores for {adapter.classes.size} labels, and the probability of one "
            "depends on all of them, so that it is no mean over members. Train it on one label against the others."
        )

    def score(outputs: Outputs) -> FloatArray:
        of_second = outputs if outputs.ndim == 2 else outputs[..., 1] - outputs[..., 0]
        return np.asarray(of_second if code == 1 else -of_second, dtype=np.float64)

    return score, f"score of {printable(str(adapter.classes[code]), 40)}"


def _label_code(adapter: EnsembleAdapter, label: object) -> int:
    classes = adapter.classes
    assert classes is not None
    known: list[Any] = classes.tolist()
    if label is None:
        if classes.size > 2:
            raise InputError(f"Pass label, the label by whose probability rows are ranked: one of {shortened(known)}.")
        return adapter.listed_label
    if label not in known:
        raise InputError(f"label={shown(label)} is none of the model's labels: {shortened(known)}.")
    return known.index(label)


def check_members(n_members: int) -> None:
    """Raise TooFewMembersError for fewer members than tell how they spread."""
    if n_members < FEWEST_MEMBERS:
        raise TooFewMembersError(
            f"The ensemble has {counted(n_members, 'member')}, whose spread tells nothing of larger ones. Train at "
            f"least {FEWEST_MEMBERS}, better 50."
        )


def _read(
    adapter: EnsembleAdapter, values_of: Callable[[Outputs], FloatArray], features: Any, reduced: Callable[..., Any]
) -> list[Any]:
    """Return what remains of the members' values, of each block of rows."""
    blocks = row_blocks(adapter, features.shape[0])
    return list(in_threads(lambda rows: reduced(values_of(adapter.block(features[rows], None, rows)[0])), blocks))


def _mean_and_sd(values: FloatArray) -> FloatArray:
    return np.stack([values.mean(axis=0), values.std(axis=0, ddof=1)])


def _member_values(
    adapter: EnsembleAdapter, values_of: Callable[[Outputs], FloatArray], features: Any, length: int
) -> MemberValues:
    """Return the members' values of all rows or, of many rows, of those whose place is open."""
    n_rows, n_members = features.shape[0], adapter.n_members
    if n_rows <= MOST_ITEMS:
        values = np.concatenate(_read(adapter, values_of, features, np.asarray), axis=1)
        return MemberValues(RankedItems(values, length), np.arange(n_rows), values.mean(axis=0))
    means, sd = np.concatenate(_read(adapter, values_of, features, _mean_and_sd), axis=1)
    is_open, n_listed = open_items(means, sd, length, 1.0 / (FIRST_PART * n_members))
    rows = np.flatnonzero(is_open)
    part = min(MOST_ITEMS / max(rows.size, 1), 1.0)
    rows = np.sort(np.random.default_rng(0).choice(rows, int(part * rows.size), replace=False))
    if rows.size == 0:
        rows = np.argsort(-means)[: length + 1]
        n_listed = length
    values = np.concatenate(_read(adapter, values_of, features[rows], np.asarray), axis=1)
    items = RankedItems(values, round(part * n_listed), part * (length - n_listed))
    return MemberValues(items, rows, means)


def agreement_of_items(
    adapter: EnsembleAdapter,
    found: MemberValues,
    length: int,
    index: pd.Index[Any],
    words: tuple[str, str],
    options: SharedOptions,
    findings: tuple[Finding, ...] = (),
) -> Agreement:
    """Return the agreement of a list of items, which have these names and are ranked by their means."""
    noun = noun_of(type(adapter.model).__name__)
    is_whole = found.rows.size == found.means.size
    first = 2.0 if is_whole else max(FIRST_PART * adapter.n_members, 2.0)
    laws = found.items.laws(max(options.max_size, 2 * adapter.n_members), first)
    chances = found.items.chances()
    is_listed = np.zeros(found.means.size, dtype=bool)
    is_listed[np.argsort(-found.means, kind="stable")[:length]] = True
    frame = {"value": found.means[found.rows], "listed": is_listed[found.rows], "chance": chances}
    undecided = pd.DataFrame(frame, index=index[found.rows])
    undecided = undecided[(chances > options.allowed) & (chances < 1.0 - options.allowed)]
    undecided = undecided.iloc[np.argsort(np.abs(undecided["chance"] - 0.5), kind="stable")]
    return _agreement(
        adapter, laws, len(index), undecided, ListSubject(noun, words[0], length, words[1]), options, findings
    )


def _agreement_of_values(
    adapter: EnsembleAdapter,
    values_of: Callable[[Outputs], FloatArray],
    features: Any,
    within: float | str,
    by: str,
    options: SharedOptions,
    findings: tuple[Finding, ...],
) -> Agreement:
    n_rows = features.shape[0]
    rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:MOST_ITEMS])
    values = np.concatenate(_read(adapter, values_of, features[rows], np.asarray), axis=1)
    distance = _distance(within, values)
    laws = close_values(values, distance, max(options.max_size, 2 * adapter.n_members))
    nothing = pd.DataFrame({"value": [], "listed": [], "chance": []})
    subject = ValueSubject(noun_of(type(adapter.model).__name__), "row", rows.size, by, distance=distance)
    return _agreement(adapter, laws, n_rows, nothing, subject, options, findings)


def _distance(within: float | str, values: FloatArray) -> float:
    """Return a distance of values, given in their unit or in percent of the standard deviation of their means."""
    share = PERCENT.fullmatch(within) if isinstance(within, str) else None
    distance = float(share[1]) / 100.0 * float(values.mean(axis=0).std()) if share else within
    if isinstance(distance, bool) or not isinstance(distance, Real) or not 0.0 < float(distance) < np.inf:
        raise InputError(
            f'within={shown(within)} is no distance above 0. Pass one in the unit of the values, or as "5 %" of their '
            "standard deviation over the rows, which must differ."
        )
    return float(distance)


def _agreement(
    adapter: EnsembleAdapter,
    laws: Laws,
    n_items: int,
    undecided: pd.DataFrame,
    subject: ListSubject,
    options: SharedOptions,
    findings: tuple[Finding, ...],
) -> Agreement:
    return Agreement(
        model=type(adapter.model).__name__,
        n_members=adapter.n_members,
        n_rows=n_items,
        recommendation=_size(laws, adapter.n_members, options),
        interval_level=options.interval_level,
        probability_sd=None,
        undecided=undecided,
        subject=subject,
        to_infinity=laws.to_infinity,
        between=laws.between,
        findings=findings,
    )


def _size(laws: Laws, n_members: int, options: SharedOptions) -> SizeRecommendation:
    """Return the size by the overlap, which is a promise as every recommended size."""
    law, allowed, max_size = laws.between, options.allowed, options.max_size
    promise = promised_size(law, allowed, max_size)
    low, high = law.size_interval(allowed, max_size, options.interval_level)
    to_infinity, loss = (float(own.losses([n_members])[0]) for own in laws)
    takes = f"more than {counted(max_size, 'member')}" if promise is None else counted(promise, "member")
    end = max(max_size, 2 * n_members)
    sizes = np.geomspace(law.sizes[0], end, N_TABULATED).astype(np.int64)
    sizes = np.unique([*sizes, n_members, end])
    return SizeRecommendation(
        size=promise,
        criterion="overlap",
        tolerance=allowed,
        loss=loss,
        limit=1.0,
        agreement=1.0 - to_infinity,
        interval=(low if promise is None else min(low, promise), None if high is None or promise is None else high),
        reason=f"{_share(loss)} differ between two ensembles of {counted(n_members, 'member')}; {_share(allowed)} are "
        f"allowed, which takes {takes}.",
        max_size=max_size,
        is_required=True,
        sizes=sizes,
        losses=law.losses(sizes),
    )


@ends_at_caller
def importance_agreement(
    model: Any,
    *,
    top: int,
    tolerance: float | None = None,
    max_size: int = AnalysisOptions.max_size,
    interval_level: float = AnalysisOptions.interval_level,
) -> Agreement:
    """Return how much of the list of the most important columns, by impurity, other trees would list too.

    The importance of a column by impurity is a mean over trees, as in ``feature_importances_``.  No rows are needed.
    That it prefers columns of many values, and columns by which trees have only memorised their rows, is left as it is:
    of :func:`ens_plugin.oob_permutation_importance`, :meth:`~ens_plugin.PermutationImportance.agreement` is the same.

    Parameters
    ----------
    model : fitted ensemble
        A forest, extremely randomised trees or bagged trees of scikit-learn, or a quantile forest.
    top : int
        Length of the list.
    tolerance : float, default=0.05
        Part of the list that may differ between two ensembles of the recommended size, below 0.5.
    max_size : int, default=20001
        Largest size to consider.
    interval_level : float, default=0.95
        Level of the intervals, over other members.

    Returns
    -------
    Agreement

    Raises
    ------
    InputError
        If `top` is larger than the number of columns, or an option is out of range.
    TooFewMembersError
        If the ensemble has fewer than eight members.
    UnsupportedModelError
        If its members have no importances whose mean is that of the ensemble.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> found = ens_plugin.importance_agreement(forest, top=10)
    >>> found.n_rows, 0.6 < found.overlap < found.overlap_at(1000)
    (30, True)
    """
    options = SharedOptions(tolerance, max_size, interval_level)
    with model_errors(model):
        adapter = find_adapter(inner_ensemble(model))
        check_members(adapter.n_members)
        values = adapter.importances()
        length = as_count(top, "top", largest=values.shape[1])
        names = getattr(adapter.model, "feature_names_in_", None)
        index = column_index(values.shape[1] if names is None else names)
        found = MemberValues(RankedItems(values, length), np.arange(values.shape[1]), values.mean(axis=0))
        return agreement_of_items(adapter, found, length, index, ("column", "importance"), options)


def column_index(names: Any) -> pd.Index[Any]:
    """Return the names of columns, or of so many without a name, as an index."""
    return pd.Index([f"x{place}" for place in range(names)] if isinstance(names, int) else list(names), name="feature")
