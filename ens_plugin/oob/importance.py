"""Importance of columns by permuting them in out-of-bag rows, and its chart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ens_plugin.adapters.members import column_names, in_threads, model_errors
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.analysis.arguments import as_seed, granted_threads, metric_of_label
from ens_plugin.analysis.copies import as_table
from ens_plugin.analysis.evidence import progress_bar
from ens_plugin.analysis.lists import (
    MemberValues,
    agreement_of_items,
    check_members,
    column_index,
    list_options,
)
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.analysis.unlabelled import Agreement
from ens_plugin.core.bags import Bags
from ens_plugin.core.intervals import dyadic_variance
from ens_plugin.core.lists import RankedItems
from ens_plugin.core.validation import FloatArray, IntArray, as_array, as_count, counted
from ens_plugin.errors import InputError, ends_at_caller
from ens_plugin.findings import Finding
from ens_plugin.oob.predictions import (
    TrainingRows,
    left_out_notes,
    mean_outputs,
    read_training_rows,
    sums_by_group,
    usable_rows,
)
from ens_plugin.report.plots import axes_or_new, inks_of, legend_label, merge_legend
from ens_plugin.report.text import printable, wrapped

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

SHOWN_COLUMNS = 10
# Numbers of rows in all permutations of a column, which are kept: 8 GB.
MOST_PERMUTED = 10**9
# Groups of members, each of which is left out once for the covariance of the importances.
N_PARTS = 20


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Rows as a model takes them, in a form whose columns can be replaced: a DataFrame, an array or a CSC matrix."""

    table: Any
    names: tuple[str, ...]

    def take(self, rows: NDArray[np.intp]) -> ColumnTable:
        """Return some of the rows, by position."""
        part = self.table.iloc[rows] if isinstance(self.table, pd.DataFrame) else self.table[rows]
        return ColumnTable(part, self.names)

    def is_constant(self, column: int) -> bool:
        """Return whether all rows have the same value in a column, missing ones taken for equal."""
        try:
            # A Series, because pandas 2 warns of arrays of its own that hold numbers.
            return bool(pd.factorize(pd.Series(self._values(column)), use_na_sentinel=False)[1].size < 2)
        except TypeError:  # values without a hash
            return False

    def permuted(self, column: int, order: NDArray[np.intp]) -> Any:
        """Return the rows with the values of one column in another order; a copy."""
        if isinstance(self.table, pd.DataFrame):
            frame = self.table.copy(deep=False)
            frame.isetitem(column, self._values(column).take(order))
            return frame
        if sparse.issparse(self.table):
            return _permuted_sparse(self.table, column, order)
        array = self.table.copy()
        array[:, column] = array[order, column]
        return array

    def _values(self, column: int) -> Any:
        # Of a frame the extension array, which keeps categories; a Series would be put back in order by its index.
        if isinstance(self.table, pd.DataFrame):
            return self.table.iloc[:, column].array
        values = self.table[:, [column]]
        return (values.toarray() if hasattr(values, "toarray") else values)[:, 0]


def column_table(X: Any, rows: TrainingRows) -> ColumnTable:
    """Return the training rows as the user gave them, so that their columns can be permuted."""
    table: Any = X
    if isinstance(X, (list, tuple)):
        table = as_array(X, "X")
        if table.dtype.kind in "US":  # NumPy would turn numbers among texts into texts
            table = np.asarray(X, dtype=object)
    elif not isinstance(X, (pd.DataFrame, np.ndarray)) and not sparse.issparse(X):
        # What a step of a pipeline is given must be of the user's own kind.
        table = as_table(rows.features, rows.inner) if rows.inner is X else None
    if table is None or table.ndim != 2:
        raise InputError(
            f"X is of type {type(X).__name__}, whose columns cannot be permuted; pass the training rows as an "
            "array, a sparse matrix or a pandas DataFrame of two dimensions."
        )
    # A sparse matrix keeps which of its values are stored, also zeros, which XGBoost does not take for missing.
    if hasattr(table, "tocsc"):
        table = table.tocsc()
    known = column_names(X)
    names = [f"x{column}" for column in range(table.shape[1])] if known is None else known
    return ColumnTable(table, tuple(map(str, names)))


def _permuted_sparse(table: Any, column: int, order: NDArray[np.intp]) -> Any:
    matrix = table.copy()
    stored = slice(matrix.indptr[column], matrix.indptr[column + 1])
    place = np.empty(order.size, dtype=matrix.indices.dtype)
    place[order] = np.arange(order.size)
    matrix.indices[stored] = place[matrix.indices[stored]]
    matrix.has_sorted_indices = False
    return matrix.tocsr()


@dataclass(frozen=True, eq=False, repr=False)
class PermutationImportance:
    """How much the out-of-bag error rises when a column is permuted, with the names of scikit-learn's result.

    All figures are in the unit of the error: a share of the rows for the 0-1 error, the square of the target's unit
    for the mean squared error, or the unit of the metric.

    Attributes
    ----------
    importances : ndarray of float64, shape (n_features, n_repeats)
        Error with the column permuted less the error without, by repetition; negative values are chance.
    importances_mean, importances_std : ndarray of float64, shape (n_features,)
        Mean and standard deviation over the repetitions.
    standard_error : ndarray of float64, shape (n_features,)
        Of `importances_mean`, over draws of the rows and permutations, given the members; NaN where a metric was
        passed.  It does not hold what other members, or members trained on other rows, would give.
    feature_names : tuple of str
    error : float
        Out-of-bag error without any permutation, on the same rows; of a metric of which more is better, such as
        ``"roc_auc"``, minus the metric.
    n_rows : int
        Rows that were judged.
    warnings : tuple of str
    judged : JudgedRows
        The rows and the members, for :meth:`agreement`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> found = ens_plugin.oob_permutation_importance(forest, X, y, n_repeats=2)
    >>> found.importances.shape, found.feature_names
    ((4, 2), ('x0', 'x1', 'x2', 'x3'))
    """

    importances: FloatArray
    importances_mean: FloatArray
    importances_std: FloatArray
    standard_error: FloatArray
    feature_names: tuple[str, ...]
    error: float
    n_rows: int
    warnings: tuple[str, ...]
    judged: JudgedRows

    def __repr__(self) -> str:
        """Return the most important columns and the warnings as text."""
        table = self.to_frame().sort_values("importances_mean", ascending=False, kind="stable").head(SHOWN_COLUMNS)
        table = table.dropna(axis="columns", how="all")  # a metric has no standard error
        n_columns = len(self.feature_names)
        which = "the most important first" if n_columns <= SHOWN_COLUMNS else f"the {SHOWN_COLUMNS} most important"
        cautions = (line for text in self.warnings for line in wrapped(f"Warning: {printable(text)}", later="  "))
        title = f"PermutationImportance of {counted(n_columns, 'column')}, {which}:"
        return "\n".join([title, table.to_string(line_width=80), *cautions])

    def to_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each column of X, in the order of X."""
        columns = ("importances_mean", "standard_error", "importances_std")
        index = pd.Index(self.feature_names, name="feature")
        return pd.DataFrame({name: getattr(self, name) for name in columns}, index=index)

    def agreement(
        self,
        top: int,
        *,
        tolerance: float | None = None,
        max_size: int = AnalysisOptions.max_size,
        interval_level: float = AnalysisOptions.interval_level,
    ) -> Agreement:
        """Return how much of the list of the most important columns other members would list too.

        The columns are permuted as before, so that it takes about as long again.  The importance is no mean over
        members: its covariance over members is that of its pseudo-values, which leave out a group of members each
        (``docs/methods/lists.md``).

        Parameters
        ----------
        top : int
            Length of the list.
        tolerance, max_size, interval_level
            As for :func:`ens_plugin.importance_agreement`.

        Returns
        -------
        Agreement

        Raises
        ------
        InputError
            If `top` is larger than the number of columns, or an option is out of range.
        TooFewMembersError
            If the ensemble has fewer than eight members.
        """
        options = list_options(tolerance, max_size, interval_level)
        length = as_count(top, "top", largest=len(self.feature_names))
        check_members(self.judged.training.adapter.n_members)
        return self.judged.agreement(length, self.importances.shape[1], options)

    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the largest importances, at most 20, with two standard errors to each side.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; a new figure with one if None.  Beside importances that the axes already show, the bars
            have the next colour of the axes' property cycle, and a legend names them.
        label : str, optional
            Name in that legend.

        Returns
        -------
        matplotlib Axes
        """
        error = np.nan_to_num(2.0 * self.standard_error)
        return draw_importances(self.feature_names, self.importances_mean, error, label, ax)


@ends_at_caller
def oob_permutation_importance(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    metric: Metric | None = None,
    positive_label: object = None,
    n_repeats: int = 5,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    max_rows: int | None = None,
    random_state: int | None = 0,
    n_jobs: int | None = None,
) -> PermutationImportance:
    r"""Return how much the out-of-bag error of an ensemble rises when a column of X is permuted.

    Nothing is trained, and no rows are held out: each row is predicted by its out-of-bag members together, with and
    without the permutation.  A column by which members have only memorised their rows gets no importance.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`.  The columns are those of `X`: what a pipeline makes of them comes after.
    X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features)
        Exactly the training rows, in training order.
    y : array-like of shape (n_rows,)
        The training target.
    metric : str, scorer or callable, optional
        As for :func:`ens_plugin.analyze`; the importance is by how much it gets worse.  None means 0-1 error (a tie
        counts half) or mean squared error.
    positive_label : label, optional
        The label of two that a scorer is about, as for :func:`ens_plugin.analyze`.
    n_repeats : int, default=5
        Permutations of each column.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows in the error.  Values are permuted among rows whatever these weigh, but for those of
        weight 0, which are left out.
    groups : array-like of shape (n_rows,), or "identical", optional
        Rows that belong together, as for :func:`ens_plugin.analyze`; standard errors are then by group.
    max_rows : int, optional
        Largest number of rows to judge, drawn at random.  The time is in proportion to rows, columns and repetitions.
    random_state : int or None, default=0
        Seed of the permutations.  Same input, same seed: same result.
    n_jobs : int or None, default=None
        Threads, joblib's convention; the steps of a pipeline are called from all of them.  The result does not depend
        on it.

    Returns
    -------
    PermutationImportance

    Raises
    ------
    EnsPluginError
        One of its kinds in :mod:`ens_plugin.errors`, as :func:`ens_plugin.analyze`: the rows are not the training rows,
        were trained on without bootstrap, are copies of each other, or are in the bag of every member; an option is
        out of range; the columns of X cannot be permuted (a CustomEnsemble of arrays).

    Notes
    -----
    L. Breiman (2001), *Random forests*, Machine Learning 45, section 10, but for the whole out-of-bag ensemble and not
    tree by tree.  Of columns that go together each may look unimportant, because the others stand in for it;
    permuting one also makes rows that do not occur.  ``docs/how-to/importance.md`` has more on this, and the
    formula of the standard error.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    >>> found = ens_plugin.oob_permutation_importance(forest, X, y)
    >>> sorted(found.to_frame().nlargest(2, "importances_mean").index)
    ['petal length (cm)', 'petal width (cm)']
    """
    seed, repeats = as_seed(random_state), as_count(n_repeats, "n_repeats", largest=100_000)
    largest = None if max_rows is None else as_count(max_rows, "max_rows", 2)
    with model_errors(model), granted_threads(n_jobs):
        rows = read_training_rows(model, X, y, sample_weight, groups, metric_of_label(metric, positive_label))
        judged = _judged_rows(model, rows, column_table(X, rows), largest, seed)
        _check_repeats(repeats, judged.share.size)
        n_columns = len(judged.columns.names)
        of_columns = in_threads(lambda column: judged.importance(column, repeats), range(n_columns))
        found = list(progress_bar(of_columns, n_columns, "columns"))
    importances = np.array([values for values, _ in found]).reshape(n_columns, repeats)
    return PermutationImportance(
        importances=importances,
        importances_mean=importances.mean(axis=1),
        importances_std=importances.std(axis=1),
        standard_error=np.array([error for _, error in found]),
        feature_names=judged.columns.names,
        error=judged.error(judged.mean),
        n_rows=judged.share.size,
        warnings=tuple(found.sentence for found in (*rows.findings, *judged.findings)),
        judged=judged,
    )


def _check_repeats(n_repeats: int, n_rows: int) -> None:
    if n_repeats * n_rows > MOST_PERMUTED:
        raise InputError(
            f"n_repeats={n_repeats} permutations of {counted(n_rows, 'row')} do not fit into memory. Pass n_repeats of "
            f"at most {MOST_PERMUTED // n_rows}, or judge fewer rows with max_rows."
        )


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """Training rows with an out-of-bag member."""

    model: Any  # as the user gave it
    training: TrainingRows
    features: Any  # prepared, of the judged rows, as all that follow
    bags: Bags
    columns: ColumnTable
    mean: FloatArray  # out-of-bag outputs
    target: NDArray[Any]  # label codes or values
    labels: NDArray[Any]  # as the user gave them
    share: FloatArray  # of the weight
    unit: NDArray[np.integer]  # number of the row, or of its group
    seed: int  # of the permutations
    findings: tuple[Finding, ...]

    def agreement(self, length: int, n_repeats: int, options: AnalysisOptions) -> Agreement:
        """Return the agreement of the list of the most important columns."""
        adapter, n_columns = self.training.adapter, len(self.columns.names)
        group = np.random.default_rng(0).permutation(np.arange(adapter.n_members) % min(N_PARTS, adapter.n_members))
        n_groups, errors = int(group.max()) + 1, self._errors_without(self.features, group)

        def pseudo_values(column: int) -> FloatArray:
            """Return what each group of members adds to the importance, whose mean is nearly the importance."""
            if self.columns.is_constant(column):
                return np.zeros(n_groups)
            orders = self._orders(column, n_repeats)
            permuted = [self._errors_without(self._permuted(column, order), group) for order in orders]
            rise = np.mean(permuted, axis=0) - errors
            return np.asarray(n_groups * rise[0] - (n_groups - 1.0) * rise[1:])

        values = np.stack(list(in_threads(pseudo_values, range(n_columns))), axis=1)
        items = RankedItems(values, length, per_row=adapter.n_members / n_groups)
        found = MemberValues(items, np.arange(n_columns), values.mean(axis=0))
        words = ("column", "importance")
        return agreement_of_items(adapter, found, length, column_index(self.columns.names), words, options)

    def _errors_without(self, features: Any, group: IntArray) -> FloatArray:
        """Return the error of all members, and then without each group of them."""
        total, trials = sums_by_group(self.training.adapter, features, self.bags, group)
        left, number = (np.concatenate([own.sum(axis=0)[None], own.sum(axis=0) - own]) for own in (total, trials))
        # A row whose only members are of one group keeps them.
        number = number.reshape(*number.shape, *(1,) * (left.ndim - 2))
        left, number = np.where(number > 0, left, left[:1]), np.where(number > 0, number, number[:1])
        return np.array([self.error(own) for own in left / number])

    def importance(self, column: int, n_repeats: int) -> tuple[FloatArray, float]:
        """Return the rise of the error by repetition, and the standard error of its mean."""
        if self.columns.is_constant(column):
            return np.zeros(n_repeats), 0.0 if self.training.metric is None else np.nan
        orders = self._orders(column, n_repeats)
        means = (self._permuted_mean(column, order) for order in orders)
        if self.training.metric is not None:
            error = self.error(self.mean)
            return np.array([self.error(mean) - error for mean in means]), np.nan
        losses = self._losses(self.mean)
        rises = np.array([self._losses(mean) - losses for mean in means])
        importances = rises @ self.share
        terms = self.share * (rises - importances.mean()) / n_repeats
        to, origin = np.tile(self.unit, n_repeats), self.unit[np.concatenate(orders)]
        return importances, float(np.sqrt(dyadic_variance(terms.reshape(-1), to, origin)))

    def error(self, mean: FloatArray) -> float:
        """Return the mean loss of these mean outputs, or the metric, negated where greater is better."""
        metric = self.training.metric
        if metric is None:
            return float(self.share @ self._losses(mean))
        weight = self.share if metric.takes_weights and np.ptp(self.share) > 0 else None
        value = metric.value(self.labels, self.training.adapter.inverse_link(mean), weight)
        return -value if metric.greater_is_better else value

    def _orders(self, column: int, n_repeats: int) -> list[NDArray[np.intp]]:
        """Return the rows in the order of each permutation of a column."""
        seeds = ([self.seed, column, repeat] for repeat in range(n_repeats))
        return [np.random.default_rng(seed).permutation(self.share.size) for seed in seeds]

    def _permuted(self, column: int, order: NDArray[np.intp]) -> Any:
        return self.training.adapter.prepare(unwrap(self.model, self.columns.permuted(column, order))[1])

    def _permuted_mean(self, column: int, order: NDArray[np.intp]) -> FloatArray:
        return mean_outputs(self.training.adapter, self._permuted(column, order), self.bags).mean

    def _losses(self, mean: FloatArray) -> FloatArray:
        if self.training.adapter.classes is None:
            return np.asarray((mean - self.target) ** 2)
        return zero_one_losses(mean, self.target)


def zero_one_losses(mean: FloatArray, target: NDArray[Any]) -> FloatArray:
    """Return 0, 1, or 1/2 where the true label ties with the best other one, shape (n_rows,)."""
    rows = np.arange(target.size)
    others = mean.copy()
    others[rows, target] = -np.inf
    return np.asarray((1.0 - np.sign(mean[rows, target] - others.max(axis=1))) / 2.0)


def _judged_rows(model: Any, rows: TrainingRows, columns: ColumnTable, max_rows: int | None, seed: int) -> JudgedRows:
    chosen = np.flatnonzero(rows.weight > 0)
    if max_rows is not None and chosen.size > max_rows:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, max_rows, replace=False))
    outputs = mean_outputs(rows.adapter, rows.features[chosen], rows.bags.take(chosen))
    usable = usable_rows(rows, chosen, outputs.trials)
    kept = chosen[usable]
    weight = rows.weight[kept]
    units = np.arange(kept.size) if rows.groups is None else np.unique(rows.groups[kept], return_inverse=True)[1]
    return JudgedRows(
        model=model,
        training=rows,
        features=rows.features[kept],
        bags=rows.bags.take(kept),
        columns=columns.take(kept),
        mean=outputs.mean[usable],
        target=rows.target[kept],
        labels=rows.labels[kept],
        share=weight / weight.sum(),
        unit=units,
        seed=seed,
        findings=left_out_notes(chosen.size - kept.size, chosen.size),
    )


@dataclass(frozen=True, eq=False)
class _Importances:
    name: str
    colour: Any
    mean: dict[str, float]
    half_width: dict[str, float]


# Of the first bar of each ensemble.  The artists know their axes, so that what a user clears is forgotten.
_importances_of: WeakKeyDictionary[Artist, _Importances] = WeakKeyDictionary()


def draw_importances(
    names: tuple[str, ...], mean: FloatArray, half_width: FloatArray, label: str | None, ax: Axes | None
) -> Axes:
    """Draw importances as bars, beside those that the axes already show."""
    ax = axes_or_new(ax)
    shown = [_importances_of[bar] for bar in ax.patches if bar in _importances_of]
    # Without data, a bar takes the next colour of the axes' property cycle.
    (bar,) = ax.barh([0.0], [0.0])
    colour = bar.get_facecolor()
    bar.remove()
    name = legend_label(label or "importance", {one.name for one in shown})
    columns = [dict(zip(names, values.tolist(), strict=True)) for values in (mean, half_width)]
    _erase(ax)
    _draw(ax, [*shown, _Importances(name, colour, *columns)])
    return ax


def _erase(ax: Axes) -> None:
    ours = [container for container in ax.containers if len(container) and container[0] in _importances_of]
    for container in ours:
        errorbar = getattr(container, "errorbar", None)
        if errorbar is not None:
            errorbar.remove()
        container.remove()
    for container in [container for container in ax.containers if not len(container)]:
        container.remove()


def _draw(ax: Axes, ensembles: list[_Importances]) -> None:
    columns = _largest(ensembles)
    height = 0.8 / len(ensembles)
    for place, one in enumerate(ensembles):
        # The first ensemble is on top, as in the legend.
        middle = np.arange(len(columns)) + (len(ensembles) - 1 - 2 * place) * height / 2.0
        bars = ax.barh(
            middle,
            [one.mean.get(name, 0.0) for name in columns],
            height=height,
            xerr=[one.half_width.get(name, 0.0) for name in columns],
            color=one.colour,
            ecolor=inks_of(ax).ink,
            label=one.name if len(ensembles) > 1 else "_importances",
        )
        _importances_of[bars[0]] = one
    ax.set_yticks(range(len(columns)), columns, parse_math=False)
    has_lines = any(width > 0 for one in ensembles for width in one.half_width.values())
    ax.set_xlabel("Rise of the out-of-bag error" + has_lines * "\nlines: two standard errors to each side")
    if len(ensembles) > 1:
        merge_legend(ax)


def _largest(ensembles: list[_Importances]) -> list[str]:
    """Return the columns of the largest importances in any ensemble, the largest last; equal ones in order."""
    largest: dict[str, float] = {}
    for one in ensembles:
        for name, value in one.mean.items():
            largest[name] = max(value, largest.get(name, value))
    return sorted(largest, key=lambda name: largest[name])[-20:]
