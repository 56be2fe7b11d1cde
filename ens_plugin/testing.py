"""The checks of an adapter's contract, for those who write one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.contract import Aggregation, EnsembleAdapter, Provenance, Task
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.trees import RowOrigin
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.core.bags import Bags
from ens_plugin.core.tally import both_scores
from ens_plugin.core.validation import counted
from ens_plugin.errors import AdapterCheckError, BagError, DataMismatchError, EnsPluginError, UnsupportedModelError

__all__ = [
    "ADAPTER_CHECKS",
    "AdapterCase",
    "AdapterCheck",
    "check_adapter",
    "check_case",
]

Array = NDArray[Any]
Samples = Callable[[Any], Sequence[Array]]


def own_prediction(model: Any, X: Any) -> Array:
    """Return the probabilities that a model predicts, or its values where it predicts none.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from ens_plugin.testing import own_prediction
    >>> own_prediction(LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0]), [[2.0]]).round(3).tolist()
    [2.0]
    """
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))


@dataclass(frozen=True, eq=False)
class AdapterCase:
    """A fitted model, the rows it was trained on, and what its library computes from it.

    Attributes
    ----------
    name : str
    fit : callable
        ``fit()`` returns the fitted model; called once.
    X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    samples : callable or None
        ``samples(ensemble)`` returns the rows that each member drew, repeated or not, from a source other than the
        adapter, such as the library's own record; `ensemble` is unwrapped.  None where there is no such source.
    predict : callable
        ``predict(model, X)`` returns the mean output over all members, as the library computes it.
    tolerance : float
        Largest absolute difference of two outputs that should be equal; 0 means equal to the bit.  Members that
        multiply matrices round by the number of rows.
    proves_rows : bool
        Whether the adapter recognises other rows than the training rows.
    proves_target : bool or None
        Whether it recognises another target than that of training; None means `proves_rows`.
    needs_target : bool
        Whether the bags depend on the target.
    has_columns : bool
        Whether the adapter reads the columns of X.
    counts_rows : bool
        Whether the model determines the number of training rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.testing import AdapterCase
    >>> X, y = load_diabetes(return_X_y=True)
    >>> case = AdapterCase("a small forest", lambda: RandomForestRegressor(10, random_state=0).fit(X, y), X, y)
    >>> case.adapter.n_members, case.has_bags, case.n_rows
    (10, True, 442)
    """

    name: str
    fit: Callable[[], Any]
    X: Any
    y: Any
    samples: Samples | None = None
    predict: Callable[[Any, Any], Array] = own_prediction
    tolerance: float = 0.0
    proves_rows: bool = True
    proves_target: bool | None = None
    needs_target: bool = False
    has_columns: bool = True
    counts_rows: bool = True

    @cached_property
    def model(self) -> Any:
        """The fitted model."""
        return self.fit()

    @cached_property
    def prepared(self) -> tuple[EnsembleAdapter, Any, Any]:
        """The adapter, the rows as they reach it, and the rows as the adapter prepares them."""
        ensemble, rows = unwrap(self.model, self.X)
        adapter = find_adapter(ensemble)
        return adapter, rows, adapter.prepare(rows)

    @property
    def adapter(self) -> EnsembleAdapter:
        """The adapter of the model."""
        return self.prepared[0]

    @property
    def has_bags(self) -> bool:
        """Whether the adapter determines bags; without, only held-out rows can be analysed."""
        return self.adapter.info.bag_provenance != "unknown"

    @property
    def is_portable(self) -> bool:
        """Whether another process can use the model; not if it is on a server."""
        try:
            self.adapter.portable()
        except UnsupportedModelError:
            return False
        return True

    @property
    def checks_target(self) -> bool:
        """Whether the adapter recognises a target that is not the one of the training."""
        return self.proves_rows if self.proves_target is None else self.proves_target

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self.y)

    def bags_for(self, X: Any, y: Any) -> Bags:
        """Return the bags as if X and y were the training rows."""
        ensemble, rows = unwrap(self.model, X)
        adapter = find_adapter(ensemble)
        return adapter.bags(rows, adapter.prepare(rows), y)

    def is_oob(self) -> NDArray[np.bool_]:
        """Return for which rows each member is out of bag, shape (n_members, n_rows); if unknown, a fixed pattern."""
        adapter, rows, features = self.prepared
        if not self.has_bags:
            return np.asarray(np.add.outer(np.arange(adapter.n_members), np.arange(self.n_rows)) % 3 == 0)
        return adapter.block(features, adapter.bags(rows, features, self.y), slice(0, self.n_rows))[1]

    def numeric_outputs(self, wanted: NDArray[np.bool_] | None = None) -> Array:
        """Return the members' outputs, labels as indicators: shape (n_members, n_rows) or (..., n_labels)."""
        adapter, _, features = self.prepared
        outputs = adapter.outputs(features, wanted=wanted)
        if adapter.output_kind == "scores" and outputs.ndim == 2:
            return both_scores(outputs)
        if adapter.output_kind == "labels":
            assert adapter.classes is not None
            return np.asarray(np.eye(len(adapter.classes))[outputs])
        return outputs

    def summed_outputs(self, counted: NDArray[np.bool_]) -> tuple[Array, Array]:
        """Return the sums of outputs over the `counted` members of each row, in member order, and their numbers."""
        outputs = self.numeric_outputs(counted)
        total = np.zeros(outputs.shape[1:])
        for values, rows in zip(outputs, counted, strict=True):
            total[rows] += values[rows]
        return total, counted.sum(axis=0).astype(np.float64)


class AdapterCheck(NamedTuple):
    """One check of an adapter.

    Attributes
    ----------
    promise : str
        What the contract demands, in a sentence.
    run : callable
        ``run(case)`` raises AdapterCheckError if the adapter breaks the promise.
    applies : callable
        ``applies(case)`` returns whether the check can be made for a case.
    """

    promise: str
    run: Callable[[AdapterCase], None]
    applies: Callable[[AdapterCase], bool] = lambda case: True


def _accepts_its_model_only(case: AdapterCase) -> None:
    cls = type(case.adapter)
    for other in (None, object(), "model", case.X):
        if cls.accepts(other):
            raise AdapterCheckError(
                f"{cls.__name__}.accepts returns True for an object of type {type(other).__name__}, which is no model. "
                "Return True for models of the library only."
            )


def _describes_itself(case: AdapterCase) -> None:
    adapter, info = case.adapter, case.adapter.info
    for name, words in (("task", Task), ("aggregation", Aggregation), ("bag_provenance", Provenance)):
        found, known = getattr(info, name), get_args(words)
        _require(found in known, f"{name} is {found!r}; it has to be one of {', '.join(map(repr, known))}.")
    kinds = {"vote": ("labels",), "mean_proba": ("probabilities", "labels"), "mean_score": ("scores",)}
    fitting = kinds.get(info.aggregation, ("values",))
    _require(
        info.output_kind in fitting,
        f"output_kind={info.output_kind!r} does not go with aggregation={info.aggregation!r}, which needs "
        f"{' or '.join(map(repr, fitting))}.",
    )
    is_regression = info.task == "regression"
    _require(
        (adapter.classes is None) == is_regression,
        f"classes is {adapter.classes!r} for {info.task}; it has to be None for regression, and the labels otherwise.",
    )
    own: Any = getattr(adapter.model, "classes_", None)
    if adapter.classes is not None and np.ndim(own) == 1:
        _require(
            np.array_equal(adapter.classes, own),
            f"classes is {adapter.classes!r}, but the model's classes_ is {own!r}; both have to be equal.",
        )
    _require(adapter.n_members > 0, f"n_members is {adapter.n_members}; it has to be at least 1.")


def _bags_are_the_published_ones(case: AdapterCase) -> None:
    adapter, rows, features = case.prepared
    assert case.samples is not None
    samples = case.samples(adapter.model)
    expected = np.zeros((len(samples), case.n_rows), dtype=bool)
    for member, drawn in enumerate(samples):
        expected[member, drawn] = True
    _require_same(adapter.bags(rows, features, case.y).in_bag(), expected, 0.0, "in-bag marks")
    if not case.needs_target:
        _require_same(adapter.bags(rows, features, None).in_bag(), expected, 0.0, "in-bag marks without y")


def _bags_leave_rows_out(case: AdapterCase) -> None:
    is_oob = case.is_oob()
    adapter = case.adapter
    wanted = (adapter.n_members, case.n_rows)
    _require(
        is_oob.shape == wanted, f"block() returns a mask of out-of-bag rows of shape {is_oob.shape}, not {wanted}."
    )
    _require(bool(is_oob.any()), "No row is out of any member's bag: raise BagError instead.")


def _stored_outputs_are_the_mean(case: AdapterCase) -> None:
    stored, is_oob = case.adapter.stored_oob_outputs(), case.is_oob()
    assert stored is not None
    total, count = case.summed_outputs(is_oob)
    has_members = count > 0
    mean = case.adapter.mean_of_sum(total, np.maximum(count, 1.0))
    _require_same(mean[has_members], np.asarray(stored)[has_members], case.tolerance, "mean out-of-bag outputs")


def _mean_is_the_prediction(case: AdapterCase) -> None:
    adapter = case.adapter
    total, count = case.summed_outputs(np.ones((adapter.n_members, case.n_rows), dtype=bool))
    mean = total / count.reshape(-1, *(1,) * (total.ndim - 1))
    own = np.asarray(case.predict(case.model, case.X))
    if mean.ndim == 2 and own.ndim == 1:
        raise AdapterCheckError(
            f"The mean outputs have a column for each of {mean.shape[1]} labels, and what the model predicts has none. "
            "Pass predict= to the check, a function (model, X) that returns the probabilities, or of a vote the share "
            "of the members by label."
        )
    _require_same(adapter.inverse_link(mean), own, case.tolerance, "mean outputs")


def _wanted_cells_are_those_of_all(case: AdapterCase) -> None:
    adapter, _, features = case.prepared
    wanted = case.is_oob()
    part, full = adapter.outputs(features, wanted=wanted), adapter.outputs(features)
    _require(bool(np.isfinite(part).all()), "Some outputs that are not wanted are infinite or NaN.")
    _require_same(part[wanted], full[wanted], case.tolerance, "wanted outputs")


def _ranges_are_parts_of_all(case: AdapterCase) -> None:
    adapter, _, features = case.prepared
    full, rows = adapter.outputs(features), np.arange(case.n_rows)[::3]
    for members in (range(1), range(min(1, adapter.n_members - 1), adapter.n_members)):
        own = full[members.start : members.stop]
        _require_same(adapter.outputs(features, members), own, case.tolerance, f"outputs of {members}")
        found = adapter.outputs(features[rows], members)
        _require_same(found, own[:, rows], case.tolerance, f"outputs of {members} for every third row")


def _blocks_are_parts_of_all(case: AdapterCase) -> None:
    adapter, _, features = case.prepared
    blocks = [adapter.outputs(features[slice(start, start + 7)]) for start in range(0, case.n_rows, 7)]
    _require_same(np.concatenate(blocks, axis=1), adapter.outputs(features), case.tolerance, "outputs by block")


def _outputs_have_their_form(case: AdapterCase) -> None:
    adapter, _, features = case.prepared
    outputs, kind, classes = adapter.outputs(features), adapter.output_kind, adapter.classes
    n_labels = 0 if classes is None else len(classes)
    _require(features.shape[0] == case.n_rows, f"prepare(X).shape[0] is {features.shape[0]}, not {case.n_rows}.")
    cells = (adapter.n_members, case.n_rows)
    # Two labels may be scored by one number.
    has_labels = kind == "probabilities" or (kind == "scores" and (n_labels != 2 or outputs.ndim == 3))
    expected = (*cells, n_labels) if has_labels else cells
    _require(outputs.shape == expected, f"outputs() has shape {outputs.shape}, not {expected}.")
    if kind == "labels":
        _require(outputs.dtype.kind in "iu", f"outputs() has dtype {outputs.dtype}, not integer codes into classes.")
        _require(bool(outputs.max() < n_labels), f"outputs() has the code {outputs.max()}, not below {n_labels}.")
    else:
        _require(outputs.dtype == np.float64, f"outputs() has dtype {outputs.dtype}, not float64.")


def _nothing_is_modified(case: AdapterCase) -> None:
    parts = {"X": case.X, "y": case.y}
    if case.is_portable:
        parts["model"] = case.model
    before = {name: pickle.dumps(part) for name, part in parts.items()}
    # Some libraries pickle one and the same model differently each time.
    comparable = [name for name, part in parts.items() if pickle.dumps(part) == before[name]]
    case.adapter.outputs(case.prepared[2], wanted=case.is_oob())
    changed = [name for name in comparable if pickle.dumps(parts[name]) != before[name] and _pickles_alike(parts[name])]
    _require(not changed, f"outputs() modified {' and '.join(changed)}; it has to leave them as they are.")


def _pickles_alike(part: Any) -> bool:
    """Return whether pickles of a part to which nothing is done are the same; two of some libraries' are by chance."""
    return len({pickle.dumps(part) for _ in range(5)}) == 1


def _another_process_has_the_same_outputs(case: AdapterCase) -> None:
    adapter, rows, features = case.prepared
    again = find_adapter(pickle.loads(pickle.dumps(adapter.portable())))
    found = again.outputs(again.prepare(rows))
    _require_same(found, adapter.outputs(features), case.tolerance, "outputs of the pickled model")


def _a_row_more_or_less_is_refused(case: AdapterCase) -> None:
    for n_rows in (case.n_rows - 1, *[case.n_rows + 1] * case.counts_rows):
        rows = np.arange(n_rows) % case.n_rows
        _require_refusal(
            partial(case.bags_for, _rows_of(case.X, rows), _rows_of(case.y, rows)),
            f"bags() for {n_rows} rows, where the model was trained on {case.n_rows}",
        )


def _other_rows_are_refused(case: AdapterCase) -> None:
    rows = np.random.default_rng(0).permutation(case.n_rows)
    message = "not the rows the model was trained on"
    moved = _rows_of(case.y, rows)
    targets = [moved] if case.needs_target else [None, moved]
    for y in targets:
        _require_refusal(
            partial(case.bags_for, _rows_of(case.X, rows), y),
            f"bags() for permuted rows {'without' if y is None else 'with'} y",
            message,
            hint=" If rows are recognised by y, pass needs_target=True to the check; if by nothing, proves_rows=False.",
        )


def _other_target_is_refused(case: AdapterCase) -> None:
    rows = np.random.default_rng(0).permutation(case.n_rows)
    _require_refusal(
        lambda: case.bags_for(case.X, _rows_of(case.y, rows)),
        "bags() for a permuted y",
        "not the target the model was trained on",
        hint=" If nothing shows another y, pass proves_target=False to the check.",
    )


def _unknown_bags_are_refused(case: AdapterCase) -> None:
    _require_refusal(lambda: case.bags_for(case.X, case.y), "bags() of unknown provenance", '="holdout"', BagError)


def _training_rows_are_not_fresh(case: AdapterCase) -> None:
    features = case.prepared[2]
    for y, how in ((case.y, "with y"), (None, "with y=None")):
        found = case.adapter.verify_rows(features, y)
        _require(found in get_args(RowOrigin), f"verify_rows() {how} returned {found!r}.")
        _require(found != "fresh", f"verify_rows() {how} called the training rows fresh.")


def _a_missing_column_is_refused(case: AdapterCase) -> None:
    X = case.X.iloc[:, :-1] if hasattr(case.X, "iloc") else case.X[:, :-1]
    _require_refusal(lambda: case.adapter.prepare(unwrap(case.model, X)[1]), "prepare() without the last column")


def _truncation_keeps_the_first_members(case: AdapterCase) -> None:
    adapter, rows, features = case.prepared
    full = adapter.outputs(features)
    for size in sorted({1, (adapter.n_members + 1) // 2, adapter.n_members}):
        try:
            part = find_adapter(adapter.truncated(size))
        except UnsupportedModelError:
            # The contract allows it: no smaller model can be made.
            return
        _require(part.n_members == size, f"truncated({size}) has {counted(part.n_members, 'member')}, not {size}.")
        if part.output_kind == adapter.output_kind:
            found = part.outputs(part.prepare(rows))
            _require_same(found, full[:size], case.tolerance, f"outputs of truncated({size})")


def _rows_of(values: Any, rows: Array) -> Any:
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def _require(holds: bool, found: str) -> None:
    if not holds:
        raise AdapterCheckError(found)


def _require_refusal(
    call: Callable[[], Any],
    what: str,
    message: str = "",
    kind: type[EnsPluginError] = DataMismatchError,
    hint: str = "",
) -> None:
    try:
        call()
    except kind as error:
        if message not in str(error):
            raise AdapterCheckError(f"{what} raised {kind.__name__} without {message!r}: {error}") from error
    except Exception as error:  # an adapter under test may raise anything
        found = f"{what} raised {type(error).__name__} in place of ens_plugin.errors.{kind.__name__}: {error}"
        raise AdapterCheckError(found) from error
    else:
        raise AdapterCheckError(f"{what} returned in place of raising ens_plugin.errors.{kind.__name__}.{hint}")


def _require_same(actual: Any, expected: Any, tolerance: float, what: str) -> None:
    """Raise AdapterCheckError unless two arrays are equal to the bit, or within a tolerance where one is stated."""
    found, wanted = np.asarray(actual), np.asarray(expected)
    if found.shape != wanted.shape:
        raise AdapterCheckError(f"The {what} have shape {found.shape}, not {wanted.shape}.")
    is_same = found == wanted
    if tolerance > 0:
        is_same |= np.abs(found - wanted) <= tolerance
    if found.dtype.kind == "f" and wanted.dtype.kind == "f":
        is_same |= np.isnan(found) & np.isnan(wanted)
    if not is_same.all():
        first = tuple(int(place) for place in np.argwhere(~is_same)[0])
        raise AdapterCheckError(
            f"{np.count_nonzero(~is_same)} of {is_same.size} {what} differ from what they should be by more than "
            f"{tolerance:g}; the first, at {first}, is {found[first]} in place of {wanted[first]}."
            f"{_hint_of_rounding(found, wanted, tolerance)}"
        )


def _hint_of_rounding(found: Array, wanted: Array, tolerance: float) -> str:
    is_numeric = found.dtype.kind == "f" and wanted.dtype.kind == "f"
    if tolerance > 0 or not (is_numeric and np.allclose(found, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)):
        return ""
    return " If that is rounding, as of members that multiply matrices, pass tolerance=1e-9 to the check."


def _has_bags(case: AdapterCase) -> bool:
    return case.has_bags


ADAPTER_CHECKS: tuple[AdapterCheck, ...] = (
    AdapterCheck("accepts() takes models of its library only, and does not raise.", _accepts_its_model_only),
    AdapterCheck("describe() agrees with itself, and with the model's classes_.", _describes_itself),
    AdapterCheck(
        "bags() returns the rows that each member drew, with and without y.",
        _bags_are_the_published_ones,
        lambda case: case.has_bags and case.samples is not None,
    ),
    AdapterCheck("Some rows are out of bag.", _bags_leave_rows_out, _has_bags),
    AdapterCheck(
        "The mean output of the members out of bag is what the library stored at training.",
        _stored_outputs_are_the_mean,
        lambda case: case.has_bags and case.adapter.stored_oob_outputs() is not None,
    ),
    AdapterCheck("The mean output of all members is the model's own prediction.", _mean_is_the_prediction),
    AdapterCheck("outputs(wanted=...) has the outputs of all where wanted.", _wanted_cells_are_those_of_all),
    AdapterCheck("outputs(members=...) has the outputs of these members among all.", _ranges_are_parts_of_all),
    AdapterCheck("outputs() of a block of rows are those among all rows.", _blocks_are_parts_of_all),
    AdapterCheck("outputs() have the shape and type of their output_kind.", _outputs_have_their_form),
    AdapterCheck("The model and the rows are not modified.", _nothing_is_modified),
    AdapterCheck(
        "portable() can be pickled, and has the same outputs.",
        _another_process_has_the_same_outputs,
        lambda case: case.is_portable,
    ),
    AdapterCheck("bags() refuses a row more or less than at training.", _a_row_more_or_less_is_refused, _has_bags),
    AdapterCheck(
        "bags() refuses rows in another order.",
        _other_rows_are_refused,
        lambda case: case.has_bags and case.proves_rows,
    ),
    AdapterCheck(
        "bags() refuses a target in another order.",
        _other_target_is_refused,
        lambda case: case.has_bags and case.checks_target,
    ),
    AdapterCheck(
        "bags() of unknown provenance are refused with what to do.",
        _unknown_bags_are_refused,
        lambda case: not case.has_bags,
    ),
    AdapterCheck("verify_rows() never calls training rows fresh, with and without y.", _training_rows_are_not_fresh),
    AdapterCheck("prepare() refuses rows with a column less.", _a_missing_column_is_refused, lambda c: c.has_columns),
    AdapterCheck(
        "truncated(size) has the first members.",
        _truncation_keeps_the_first_members,
        lambda case: case.adapter.offers("truncated"),
    ),
)


def check_adapter(
    model: Any,
    X: Any,
    y: Any,
    *,
    samples: Samples | None = None,
    predict: Callable[[Any, Any], Array] = own_prediction,
    tolerance: float = 0.0,
    proves_rows: bool = True,
    proves_target: bool | None = None,
    needs_target: bool = False,
) -> tuple[str, ...]:
    """Check that the adapter of a fitted model keeps the contract, and return the promises that were checked.

    The adapter is found as :func:`ens_plugin.analyze` finds it: registered, offered by an installed distribution, or
    built in.

    Parameters
    ----------
    model : fitted ensemble
        Trained on `X` and `y`; a Pipeline or a search of one is taken apart.
    X : array-like, sparse matrix or DataFrame of shape (n_rows, n_features)
        The training rows, in training order; at least 30 of them, with at least two columns.
    y : array-like of shape (n_rows,)
    samples, predict, tolerance, proves_rows, proves_target, needs_target
        As of :class:`AdapterCase`.  With `samples`, the bags are compared with those of another source.

    Returns
    -------
    tuple of str

    Raises
    ------
    AdapterCheckError
        If promises are broken: the message has each with what was found.
    UnsupportedModelError
        If no adapter accepts the model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.testing import check_adapter
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    >>> len(check_adapter(forest, X, y, samples=lambda forest: forest.estimators_samples_))
    17
    """
    case = AdapterCase(
        name=type(model).__name__,
        fit=lambda: model,
        X=X,
        y=y if hasattr(y, "iloc") else np.asarray(y),
        samples=samples,
        predict=predict,
        tolerance=tolerance,
        proves_rows=proves_rows,
        proves_target=proves_target,
        needs_target=needs_target,
    )
    return check_case(case)


def check_case(case: AdapterCase) -> tuple[str, ...]:
    """Make all checks that apply to a case, as :func:`check_adapter`, and return the promises that were checked.

    Raises
    ------
    AdapterCheckError, UnsupportedModelError
        As :func:`check_adapter`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from ens_plugin.testing import AdapterCase, check_case
    >>> X, y = load_diabetes(return_X_y=True)
    >>> case = AdapterCase("a small forest", lambda: RandomForestRegressor(10, random_state=0).fit(X, y), X, y)
    >>> len(check_case(case))
    16
    """
    name = type(case.adapter).__name__
    checks = [check for check in ADAPTER_CHECKS if check.applies(case)]
    failures = [f"- {check.promise}\n  {found}" for check in checks if (found := _failure(check, case)) is not None]
    if failures:
        raise AdapterCheckError(
            f"{name} breaks {len(failures)} of {counted(len(checks), 'promise')} for {case.name}:\n"
            + "\n".join(failures)
        )
    return tuple(check.promise for check in checks)


def _failure(check: AdapterCheck, case: AdapterCase) -> str | None:
    try:
        check.run(case)
    except AdapterCheckError as error:
        return str(error)
    except Exception as error:  # an adapter under test may raise anything
        return f"It raised {type(error).__name__}: {error}"
    return None
