"""Lists of rows or columns, and values of rows, that infinitely many members or another seed would give too."""

from __future__ import annotations

import re
from collections.abc import Callable
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
from ens_plugin.analysis.unlabelled import Agreement, Words, checked_rows, findings_of_adapter, open_ensemble
from ens_plugin.core.intervals import DrawnCurve
from ens_plugin.core.lists import FEWEST_MEMBERS, MOST_ITEMS, TIED, Laws, RankedItems, close_values, open_items
from ens_plugin.core.validation import MAX_SIZE, FloatArray, IntArray, as_count, counted, plural, shown
from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError, ends_at_caller
from ens_plugin.findings import Finding
from ens_plugin.report.result import SizeRecommendation
from ens_plugin.report.text import level_text, noun_of, printable

LIST_TOLERANCE = 0.05
N_TABULATED = 60
# Of more items, the curve begins at this part of the members.
FEW_ITEMS, FIRST_PART = 2000, 0.25
# Open items are drawn at random where the list takes so many of those that are drawn.
FEWEST_LISTED = 100
PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*%\s*")


def list_options(tolerance: float | None, max_size: int, interval_level: float) -> AnalysisOptions:
    """Return what the size of a list or of values is wanted for, checked."""
    allowed, size = LIST_TOLERANCE if tolerance is None else tolerance, as_count(max_size, "max_size", largest=MAX_SIZE)
    options = AnalysisOptions(criterion="agreement", tolerance=allowed, max_size=size, interval_level=interval_level)
    check_options(options)
    return options


def _shared(law: DrawnCurve, adapter: EnsembleAdapter) -> str:
    return _percent(1.0 - float(law.losses([adapter.n_members])[0]))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _ends(loss: tuple[float, float]) -> str:
    return f"{100 * (1.0 - loss[1]):.3g} to {_percent(1.0 - loss[0])}"


class MemberValues(NamedTuple):
    """What members give each item: for all items the mean, and for some that are open each member's value."""

    items: RankedItems
    rows: IntArray  # of the items
    means: FloatArray


def ranking_agreement(
    model: Any, X: Any, options: AnalysisOptions, *, top: int | None, within: float | str | None, label: object
) -> Agreement:
    """Return the agreement of a list of rows by value or by the probability of a label, or of their values."""
    if top is not None and within is not None:
        raise InputError("top is about a list and within about values. Pass one of them.")
    adapter, inner = open_ensemble(model, X)
    values_of, by = _ranked_output(adapter, label)
    features = checked_rows(adapter, inner)
    check_members(adapter.n_members)
    index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(features.shape[0])
    findings = unit_findings(adapter, features)
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


def _label_code(adapter: EnsembleAdapter, label: Any) -> int:
    classes = adapter.classes
    assert classes is not None
    known: list[Any] = classes.tolist()
    if label is None:
        if classes.size != 2:
            raise InputError(f"Pass label, the label by whose probability rows are ranked: one of {shortened(known)}.")
        return adapter.listed_label()
    if np.ndim(label) > 0 or label not in known:
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
    mean = values.mean(axis=0)
    apart = values - mean
    return np.stack([mean, np.sqrt(np.einsum("mr,mr->r", apart, apart) / (len(values) - 1.0))])


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
    part = 1.0
    if rows.size > MOST_ITEMS:
        end = np.partition(means, n_rows - length)[n_rows - length]
        apart = (means[rows] - end) / np.maximum(sd[rows], np.finfo(np.float64).tiny)
        kept, n_listed, part = _drawn_items(apart, n_listed)
        rows = np.sort(rows[kept])
    if rows.size == 0:
        # Nothing is open: the last row on the list, and the first that is not, stand for all.
        rows, n_listed = np.argsort(-means)[length - 1 : length + 1], 1
    values = np.concatenate(_read(adapter, values_of, features[rows], np.asarray), axis=1)
    items = RankedItems(values, n_listed, part * length - n_listed)
    return MemberValues(items, rows, means)


def _drawn_items(apart: FloatArray, n_listed: int) -> tuple[IntArray, int, float]:
    """Return the open items that are drawn, how many of them the list takes, and for what part of it they stand.

    `apart` is their distance from the end of the list.  Items at random stand for all.  Where these would be a list of
    few, the nearest to its end are taken, and those that are farther stay on the side where they are.  If more are tied
    at the end than are taken, these stand for all that are.
    """
    share = MOST_ITEMS / apart.size
    if share * n_listed >= FEWEST_LISTED:
        kept = np.random.default_rng(0).choice(apart.size, MOST_ITEMS, replace=False)
        return kept, round(share * n_listed), share
    is_tied = np.abs(apart) < TIED
    # Tied items are taken at random, and not by their order.
    order = np.lexsort((np.random.default_rng(0).random(apart.size), np.where(is_tied, 0.0, np.abs(apart))))
    kept, left = order[:MOST_ITEMS], order[MOST_ITEMS:]
    if is_tied[left[0]]:
        part, n_above = kept.size / int(is_tied.sum()), int(((apart > 0.0) & ~is_tied).sum())
        return kept, max(round(part * (n_listed - n_above)), 1), part
    return kept, max(n_listed - int((apart[left] > 0.0).sum()), 1), 1.0


def agreement_of_items(
    adapter: EnsembleAdapter,
    found: MemberValues,
    length: int,
    index: pd.Index[Any],
    words: tuple[str, str],
    options: AnalysisOptions,
    findings: tuple[Finding, ...] = (),
) -> Agreement:
    """Return the agreement of a list of items, which have these names and are ranked by their means."""
    findings = (*findings, *findings_of_adapter(adapter, "list"))
    noun = noun_of(type(adapter.model).__name__, findings)
    first = 1.0 if found.means.size <= FEW_ITEMS else FIRST_PART * adapter.n_members
    laws = found.items.laws(max(options.max_size, 2 * adapter.n_members), first)
    chances = found.items.chances()
    is_listed = np.zeros(found.means.size, dtype=bool)
    is_listed[np.argsort(-found.means, kind="stable")[:length]] = True
    columns = {"value": found.means[found.rows], "listed": is_listed[found.rows], "chance": chances}
    undecided = pd.DataFrame(columns, index=index[found.rows])
    assert options.tolerance is not None
    # Of many tied rows, one that is listed by chance has hardly any chance of its own.
    undecided = undecided[np.abs(columns["listed"] - chances) > options.tolerance]
    undecided = undecided.iloc[np.argsort(np.abs(undecided["chance"] - 0.5), kind="stable")]
    (item, by), members = words, counted(adapter.n_members, noun)
    missed, apart = (law.loss_interval(adapter.n_members, options.interval_level) for law in laws)
    shared = (
        f"Of the list of the {counted(length, item)} with the largest {by} (of {len(index)}), {members} have "
        f"{_shared(laws.to_infinity, adapter)} in common with infinitely many ({level_text(options.interval_level)} "
        f"interval {_ends(missed)}), and {_shared(laws.between, adapter)} with as many trained with another seed "
        f"({_ends(apart)})."
    )
    left_open = f"No {item} is undecided."
    if not undecided.empty:
        left_open = (
            f"{counted(len(undecided), f'{item} is', f'{item}s are')} undecided: infinitely many may or may not list "
            f"them (result.undecided; the closest is {printable(str(undecided.index[0]), 40)})."
        )
    caption = f"lists an item of another list by as many {plural(noun)}"
    own = Words(shared, left_open, caption, f"The chance is that infinitely many {plural(noun)} list the {item}.")
    return _agreement(adapter, laws, len(index), undecided, own, options, findings)


def _agreement_of_values(
    adapter: EnsembleAdapter,
    values_of: Callable[[Outputs], FloatArray],
    features: Any,
    within: float | str,
    by: str,
    options: AnalysisOptions,
    findings: tuple[Finding, ...],
) -> Agreement:
    findings = (*findings, *findings_of_adapter(adapter, "list"))
    n_rows, noun = features.shape[0], noun_of(type(adapter.model).__name__, findings)
    rows = np.sort(np.random.default_rng(0).permutation(n_rows)[:MOST_ITEMS])
    values = np.concatenate(_read(adapter, values_of, features[rows], np.asarray), axis=1)
    distance = _distance(within, values)
    laws = close_values(values, distance, max(options.max_size, 2 * adapter.n_members))
    shared = (
        f"Of {counted(n_rows, 'row')}, {counted(adapter.n_members, noun)} give {_shared(laws.to_infinity, adapter)} a "
        f"{by} within {distance:.4g} of that of infinitely many, and {_shared(laws.between, adapter)} within that of "
        "as many trained with another seed."
    )
    caption = f"gives a row a value close to that of as many other {plural(noun)}"
    words = Words(shared, "Values are close or not; none is undecided.", caption, "")
    return _agreement(adapter, laws, n_rows, pd.DataFrame(), words, options, findings)


def _distance(within: float | str, values: FloatArray) -> float:
    """Return a distance of values, given in their unit or in percent of the standard deviation of their means."""
    share = PERCENT.fullmatch(within) if isinstance(within, str) else None
    means = values.mean(axis=0)
    sd = float(means.std()) if np.ptp(means) > TIED * np.abs(means).max() else 0.0
    distance = float(share[1]) / 100.0 * sd if share else within
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
    words: Words,
    options: AnalysisOptions,
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
        words=words,
        to_infinity=laws.to_infinity,
        between=laws.between,
        findings=findings,
    )


def _size(laws: Laws, n_members: int, options: AnalysisOptions) -> SizeRecommendation:
    """Return the size by the overlap, which is a promise as every recommended size."""
    law, allowed, max_size = laws.between, options.tolerance, options.max_size
    assert allowed is not None
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
        reason=f"{_percent(loss)} differ between two ensembles of {counted(n_members, 'member')}; {_percent(allowed)} "
        f"are allowed, which takes {takes}.",
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
    options = list_options(tolerance, max_size, interval_level)
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
