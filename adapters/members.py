"""What adapters of several libraries share: labels, frames, parameters of members, refusals, threads, draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from traceback import walk_tb
from types import ModuleType
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import (
    LARGEST_VALUE,
    SINGLE_ROUNDING,
    BoolArray,
    FloatArray,
    as_array,
    counted,
    one_line,
    printable,
)
from ens_plugin.core.validation import shown as in_words
from ens_plugin.errors import DataMismatchError, EnsPluginError, EnsPluginWarning, InputError, UnsupportedModelError
from ens_plugin.findings import Finding, finding

Item = TypeVar("Item")
Result = TypeVar("Result")
DrawRule = Literal["with_replacement", "without_replacement", "unknown"]

GROWABLE = (
    "Supported are scikit-learn's RandomForest*, ExtraTrees* and Bagging*, LightGBM's LGBMClassifier and LGBMRegressor "
    "with boosting_type='rf', XGBoost's XGBRFClassifier and XGBRFRegressor, and XGBClassifier and XGBRegressor with "
    "n_estimators=1, also as the last step of a Pipeline"
)

SUPPORTED = (
    "Supported are scikit-learn's RandomForest*, ExtraTrees*, Bagging* and IsolationForest, LightGBM in rf mode, "
    "XGBoost's parallel trees and Spark ML's RandomForest*, each also inside a pipeline or a search, "
    "ens_plugin.CustomEnsemble, imbalanced-learn's BalancedRandomForestClassifier and "
    "BalancedBaggingClassifier, quantile-forest's and scikit-survival's forests, EconML's RegressionForest and, in "
    "agreement(top=) and agreement(within=), its CausalForest, and YDF's RandomForestModel. For yet another library, "
    "write an adapter, which help(ens_plugin.adapters.EnsembleAdapter) describes: register it with "
    "ens_plugin.register_adapter for this Python process, or install it as a package with an entry point of the group "
    "'ens_plugin.adapters' for the command line and every other process."
)
# Attributes of attributes in which damage is looked for: models hold pipelines in searches in pipelines.
DEPTH = 40
# They change no prediction, or are drawn for each member.
_NOT_COMPARED = ("random_state", "random_seed", "seed", "n_jobs", "thread_count", "verbose")
# Differing parameters, and values of each, that a sentence names.
_SHOWN = 3
# Fewer runs of equal parameters than random order has, by so many standard deviations.
FEW_RUNS = 3.0
# By chance, the means of the first members and of the others hardly ever differ by so many standard errors.
CERTAIN, FEWEST_MEMBERS, FEWEST_APART, LEAST_SPREAD = 8.0, 20, 5, 1e-6
# Means that rest on few rows have longer tails than that, and large differences by chance.
LARGEST_KURTOSIS = 9.0


class TableRows:
    """A table that is sliced by rows, and what a library makes of them: the table itself, numbers, or leaves."""

    def __init__(self, table: Any, made: Any = None) -> None:
        self.table, self.made = table, table if made is None else made
        self.shape: tuple[int, ...] = table.shape

    def __getitem__(self, rows: Any) -> TableRows:
        table = self.table.iloc[rows] if hasattr(self.table, "iloc") else self.table[rows]
        return TableRows(table, None if self.made is self.table else self.made[rows])


def column_names(X: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame or of a table or batch of Arrow; None for what has none."""
    # The `columns` of an Arrow Table are arrays.
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def as_pandas(X: Any) -> Any:
    """Return a data frame of another library, or a table or batch of Arrow, as one of pandas; other rows as they are.

    Dictionaries of Arrow, such as the categories of polars, become categories, and missing values NaN.
    """
    is_pandas = hasattr(X, "iloc") and not hasattr(X, "to_pandas")
    if isinstance(X, dict):
        raise InputError("X is a dict, whose columns have no order; pass pandas.DataFrame(X).")
    if is_pandas or column_names(X) is None:
        return X
    try:
        if hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
            return _from_arrow(X)
        return X.to_pandas()
    except Exception as error:  # another library may raise anything
        raise InputError(
            f"X is of type {type(X).__module__.partition('.')[0]}.{type(X).__name__}, whose columns cannot be "
            f"read ({type(error).__name__}: {one_line(str(error), 150)}); pass it as a DataFrame of pandas."
        ) from error


def _from_arrow(X: Any) -> Any:
    import pyarrow as pa

    table = pa.table(X)
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if pa.types.is_null(field.type) or (pa.types.is_boolean(field.type) and column.null_count):
            # pandas would hold these as objects.
            table = table.set_column(place, field.name, column.cast(pa.int8()))
    # The metadata would turn columns into an index, and names into numbers.
    return table.to_pandas(ignore_metadata=True)


def label_codes(labels: ArrayLike, classes: NDArray[Any], name: str = "y") -> NDArray[np.intp]:
    """Return the position of every label in `classes`, in the shape of `labels`."""
    array = as_array(labels, name)
    found, positions, which = find_labels(array, classes, name)
    unknown = [label for label, position in zip(found, positions, strict=True) if position is None]
    if unknown:
        raise DataMismatchError(
            f"{name} holds labels that are not among the model's: {shortened(unknown)}; the model's are "
            f"{shortened(classes.tolist())}. Pass the labels the model was trained on."
        )
    return np.array(positions, dtype=np.intp)[which].reshape(array.shape)


def text_label_codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the positions of labels in the `classes` of a library that keeps every label as text."""
    codes = label_codes(y.astype(str), classes)
    if np.unique(codes).size < 2:
        raise InputError("y holds a single label; pass rows of at least two classes.")
    return codes.astype(np.int64)


def find_labels(
    array: NDArray[Any], classes: NDArray[Any], name: str
) -> tuple[list[Any], list[int | None], NDArray[np.intp]]:
    """Return the distinct labels of an array, the position of each in `classes`, and each entry's index among them."""
    # A label that is not among `classes` has the position None.
    position_of = {label: position for position, label in enumerate(classes.tolist())}
    try:
        found = np.unique(array)
        labels = found.tolist()
        # Unlike the inverse of np.unique, this takes no memory beyond its answer.
        return labels, [position_of.get(label) for label in labels], np.searchsorted(found, array)
    except Exception as error:  # a user's class may raise anything where it is compared
        raise InputError(
            f"{name} mixes labels that cannot be compared ({one_line(str(error))}); use labels of one type."
        ) from error


def code_dtype(n_labels: int) -> type[np.uint8] | type[np.uint16]:
    """Return the smallest unsigned integer type that can number `n_labels` labels."""
    return np.uint8 if n_labels <= 256 else np.uint16


def shortened(items: Sequence[Any], shown: int = 5) -> str:
    """Return the first `shown` items as text, with the number of the others."""
    text = ", ".join(in_words(item) for item in items[:shown])
    return text + (f" and {len(items) - shown} more" if len(items) > shown else "")


def label_positions(scores: ArrayLike) -> NDArray[Any]:
    """Return the position of the label with the highest raw score of each row."""
    found = np.asarray(scores)
    return np.asarray(found.argmax(axis=1) if found.ndim == 2 else found > 0)


def is_text(column: Any) -> bool:
    """Return whether a column of a DataFrame holds text, or objects of any class."""
    kind = column.dtype
    return not hasattr(kind, "categories") and (kind.kind == "O" or getattr(kind, "type", None) is str)


def check_no_text(table: Any) -> None:
    """Raise InputError for a column of text in a DataFrame that a booster is to predict."""
    texts = [str(name) for name, column in table.items() if is_text(column)]
    if texts:
        raise InputError(
            f"X cannot be used: the columns {shortened(texts)} hold text, which boosters take as categories only. Make "
            "them the categories of training: X[column] = X[column].astype(X_train[column].dtype)."
        )


def with_trained_categories(table: Any, trained: Mapping[str, Sequence[Any]]) -> Any:
    """Return a DataFrame with some columns as categories: first those of training, then the table's other values."""
    return table.assign(**{name: _as_categories(table[name], list(own)) for name, own in trained.items()})


def trained_columns(X: Any, names: Sequence[str]) -> Any:
    """Return the columns of X that a model was trained on, in their order, as a DataFrame."""
    import pandas as pd

    table: Any = X if isinstance(X, dict) else as_pandas(X)
    frame = table if hasattr(table, "iloc") else pd.DataFrame(table)
    if frame is not table and not isinstance(X, dict):
        if frame.shape[1] != len(names):
            raise DataMismatchError(
                f"X has {counted(frame.shape[1], 'column')}, but the forest was trained on {len(names)}; pass a "
                f"DataFrame with the columns {shortened(names)}."
            )
        frame.columns = names
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise DataMismatchError(f"X lacks columns that the forest was trained on: {shortened(missing)}; add them.")
    return frame[list(names)]


def _as_categories(column: Any, trained: list[Any]) -> Any:
    import pandas as pd

    if all(isinstance(category, str) for category in trained) and column.dtype.kind in "iub":
        # In a csv file, the text "7" and the number look the same, and "True" and the truth value.
        column = column.map(str)
    values = column.dropna().unique().tolist()
    known = set(trained)
    others = [value for value in values if value not in known]
    if values and len(others) == len(values):
        raise DataMismatchError(
            f"No value of the column {str(column.name)!r} is among the categories that the model was trained on: "
            f"{shortened(values)} instead of {shortened(trained)}. Pass the values of training."
        )
    return column.astype(pd.CategoricalDtype([*trained, *others]))


# Reading a long description takes 10 ms.
installed_version = cache(version)


def first_installed(*names: str) -> tuple[str, ...]:
    """Return the first of some distributions that is installed, as a tuple; an empty one where none is."""
    # A library can be importable without any: Spark puts its own PySpark on the `PYTHONPATH`. A model that was read
    # before can be used without its library.
    for name in names:
        try:
            installed_version(name)
        except PackageNotFoundError:
            continue
        return (name,)
    return ()


@dataclass(frozen=True, eq=False)
class DrawCounts:
    """Numbers of times that each member drew each training row, and the rule of drawing.

    Attributes
    ----------
    counts : ndarray of unsigned int, shape (n_members, n_rows)
    rule : {"with_replacement", "without_replacement", "unknown"}
        Unknown: only which rows are in a bag is available, and counts are 0 and 1.
    chance : ndarray of float64, shape (n_rows,), or None
        Chance of each row at each draw; None where all rows have the same.

    Examples
    --------
    >>> from ens_plugin.adapters import counts_of_rows
    >>> counts_of_rows([[0, 0, 2], [1, 2, 2]], 2, 3, "with_replacement").counts.tolist()
    [[2, 0, 1], [0, 1, 2]]
    """

    counts: NDArray[np.unsignedinteger]
    rule: DrawRule
    chance: NDArray[np.float64] | None = None


def counts_of_rows(
    members: Iterable[ArrayLike], n_members: int, n_rows: int, rule: DrawRule, weight: ArrayLike | None = None
) -> DrawCounts:
    """Return how often each member drew each row, counted one member after the other.

    Parameters
    ----------
    members : iterable of array-like of int
        Rows of each member, in any order, repeated as often as they were drawn.
    n_members, n_rows : int
    rule : {"with_replacement", "without_replacement", "unknown"}
    weight : array-like of shape (n_rows,), optional
        What the chance of a row to be drawn is proportional to.

    Examples
    --------
    >>> from ens_plugin.adapters import counts_of_rows
    >>> counts_of_rows([[0, 0, 2], [1, 2, 2]], 2, 3, "with_replacement").counts.tolist()
    [[2, 0, 1], [0, 1, 2]]
    """
    counts: NDArray[np.unsignedinteger] = np.zeros((n_members, n_rows), dtype=np.uint8)
    for member, rows in enumerate(members):
        drawn = np.bincount(np.asarray(rows, dtype=np.intp), minlength=n_rows)
        if drawn.max() > np.iinfo(counts.dtype).max:
            counts = counts.astype(np.uint32)
        counts[member] = drawn
    chance = None if weight is None else np.asarray(weight, dtype=np.float64) / np.sum(weight)
    return DrawCounts(counts, rule, chance)


def counts_from_bags(bags: Bags, rule: DrawRule) -> DrawCounts:
    """Return draw counts of 0 and 1, from bags without repeated rows or with unknown repeats."""
    return DrawCounts(bags.in_bag().view(np.uint8), rule)


def call_model(predict: Callable[[Any], Any], rows: Any, member: int) -> Any:
    """Return the predictions of one member for some rows."""
    try:
        return predict(rows)
    except EnsPluginError:
        raise
    except Exception as error:  # a user's model may raise anything
        raise InputError(
            f"model {member} failed on rows of X ({reason_of(error)}); pass fitted models, and X in the form they take."
        ) from error


def checked_numbers(outputs: Any, shape: tuple[int, ...], member: int) -> NDArray[np.float64]:
    """Return the outputs of one member as float64, after checking their shape and that they are finite."""
    try:
        array = np.asarray(outputs, dtype=np.float64)
    except Exception as error:  # a user's model may return anything
        raise InputError(
            f"Model {member} returned an object of type {type(outputs).__name__} that holds no numbers "
            f"({reason_of(error)}); it must return one output for each row."
        ) from error
    _check_shape(array, shape, member)
    is_number = (np.abs(array) <= LARGEST_VALUE).reshape(shape[0], -1).all(axis=1)
    if not is_number.all():
        raise InputError(
            f"Model {member} returned NaN, infinite values, or values beyond {LARGEST_VALUE:g} for "
            f"{np.count_nonzero(~is_number)} of {counted(shape[0], 'row')}. Have it predict a number for every row, "
            "also for rows unlike its own (such as IsotonicRegression(out_of_bounds='clip')), or remove it from the "
            "ensemble."
        )
    return array


def checked_labels(outputs: Any, n_rows: int, member: int) -> NDArray[Any]:
    """Return the labels that one member predicts, as an array of shape (n_rows,)."""
    try:
        array = np.asarray(outputs)
    except Exception as error:  # a user's model may return anything
        raise InputError(
            f"Model {member} returned an object of type {type(outputs).__name__} that is no array "
            f"({reason_of(error)}); it must return one label for each row."
        ) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    _check_shape(array, (n_rows,), member)
    return array


@contextmanager
def model_errors(model: object) -> Iterator[None]:
    """Raise UnsupportedModelError in place of any exception of another library that the block raises."""
    try:
        yield
    except (EnsPluginError, EnsPluginWarning):  # a warning of ours that a filter turns into an error
        raise
    except Exception as error:  # a model, or a user's object inside it, may raise anything
        if (adapter := _failed_adapter(error)) is not None:
            raise UnsupportedModelError(
                f"{adapter.__name__}, the adapter of this {type(model).__name__}, failed ({reason_of(error)}). It is "
                f"no part of ens_plugin: report this to the authors of {adapter.__module__}, who can compare it with "
                "the contract by ens_plugin.testing.check_adapter."
            ) from error
        raise UnsupportedModelError(
            f"This {type(model).__name__} could not be used on these rows ({reason_of(error)}). If its own predict(X) "
            "fails too, the model is damaged or X has another form than it takes. If not, please report this as a "
            "defect of ens_plugin."
        ) from error


def _failed_adapter(error: Exception) -> type | None:
    """Return the class of the adapter outside of this package in whose code an exception was raised, or None."""
    # Recognised by the name of its base class, whose module imports this one.
    frames = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
    for cls in (type(own) for own in frames if own is not None):
        is_adapter = any(base.__name__ == "EnsembleAdapter" for base in cls.__mro__)
        if is_adapter and cls.__module__.partition(".")[0] != "ens_plugin":
            return cls
    return None


@contextmanager
def refusals() -> Iterator[None]:
    """Raise InputError, with the same message, in place of a ValueError of a library that the block raises."""
    try:
        yield
    except EnsPluginError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def reason_of(error: BaseException) -> str:
    """Return the class of an exception and the first line of its message, as text."""
    try:
        text = str(error)
    except Exception:  # a user's exception may raise where it is printed
        text = ""
    return f"{type(error).__name__}: {one_line(text.strip().partition(chr(10))[0])}"


def _check_shape(array: NDArray[Any], shape: tuple[int, ...], member: int) -> None:
    if array.shape != shape:
        raise InputError(
            f"Model {member} returned shape {array.shape} where {shape} is expected; it must have one output."
        )


def held_objects(model: object) -> Iterator[Any]:
    """Yield a model and every object that it holds in attributes, lists, dicts and arrays of objects, once each."""
    seen: dict[int, object] = {}
    waiting: list[tuple[object, int]] = [(model, 0)]
    while waiting:
        held, depth = waiting.pop()
        if held is None or id(held) in seen or isinstance(held, (str, bytes, int, float, type, ModuleType)):
            continue
        seen[id(held)] = held
        yield held
        if depth < DEPTH:
            waiting.extend((part, depth + 1) for part in parts(held))


def parts(held: Any) -> list[Any]:
    """Return the objects that are attributes of an object, or items of a list, a dict or an array of objects."""
    if isinstance(held, np.ndarray):
        return held.ravel().tolist() if held.dtype.kind == "O" else []
    if isinstance(held, (list, tuple, set, frozenset)):
        return list(held)
    if isinstance(held, dict):
        return list(held.values())
    attributes = getattr(held, "__dict__", None)
    return list(attributes.values()) if isinstance(attributes, dict) and not callable(held) else []


def unequal_member_doubts(
    members: Sequence[Any], **numbers: Sequence[float] | FloatArray | None
) -> tuple[Finding, ...]:
    """Return a doubt where members were trained with unequal parameters, as after a warm start with others."""
    # The members' own parameters are compared; those of the ensemble may have been changed since.
    known = {name: np.asarray(own, dtype=np.float64) for name, own in numbers.items() if own is not None}
    differing = {name: own for name, own in known.items() if np.ptp(own) > SINGLE_ROUNDING * own.max()}
    found = {f"the number of {name}": [f"{number:.0f}" for number in own] for name, own in differing.items()}
    found = {**found, **_unequal(members)}
    if not found:
        return ()
    sentence = (
        f"The members were not trained alike: {_listed(found)}. So they are not draws of one learner, and the first "
        "differ from the last: these figures are those of a mixture, which no smaller or larger ensemble is. Refit all "
        "members with the same parameters, in one call of fit."
    )
    return (finding("unlike-members", sentence),)


def order_doubts(members: Sequence[Any]) -> tuple[Finding, ...]:
    """Return a doubt where the members' parameters are unequal, and the same ones follow each other."""
    # Parameters that differ at random from member to member are part of the learner. The number of runs of members with
    # equal parameters is compared with that of random order (Wald and Wolfowitz 1940, for any number of kinds).
    found = _unequal(members)
    if not found or not _has_few_runs(list(zip(*found.values(), strict=True))):
        return ()
    sentence = (
        f"Members that follow each other were trained alike, and others were not: {_listed(found)}. So the first "
        "members differ from the last, and a smaller or larger ensemble is another mixture than these figures are of. "
        "Give the members in random order if this mixture is what you want, or train all with the same parameters."
    )
    return (finding("members-in-order", sentence),)


def bag_doubts(means: FloatArray) -> tuple[Finding, ...]:
    """Return a doubt where the first members were trained on bags of other targets than the last ones."""
    # So they are after a warm start with another `class_weight` or `sample_weight`, which no member keeps.
    n_members = len(means)
    spread = means.std(axis=0)
    differ = spread > LEAST_SPREAD * np.abs(means).max(axis=0)
    columns = means[:, differ]
    if n_members < FEWEST_MEMBERS or columns.shape[1] == 0:
        return ()
    scaled = (columns - columns.mean(axis=0)) / spread[differ]
    first = np.arange(FEWEST_APART, n_members - FEWEST_APART + 1)[:, None]
    # Of each split in two: the correlation of the values with being among the first, and its Student's t.
    correlation = np.cumsum(scaled, axis=0)[first[:, 0] - 1] / np.sqrt(first * (n_members - first))
    t = np.abs(correlation) * np.sqrt((n_members - 2) / np.maximum(1.0 - correlation**2, 1e-12))
    for column in np.argsort(-t.max(axis=0)):
        split = int(np.argmax(t[:, column]))
        if t[split, column] < CERTAIN:
            break
        parts = np.split(columns[:, column], [int(first[split, 0])])
        if _kurtosis(np.concatenate([part - part.mean() for part in parts])) <= LARGEST_KURTOSIS:
            return (_unlike_bags(*parts),)
    return ()


def _kurtosis(deviations: FloatArray) -> float:
    """Return the fourth moment over the squared second one; 0 where nothing deviates."""
    squares = float(np.mean(deviations**2))
    return float(np.mean(deviations**4)) / squares**2 if squares > 0 else 0.0


def _unlike_bags(first: FloatArray, others: FloatArray) -> Finding:
    return finding(
        "unlike-bags",
        f"The members were not trained alike: the bags of the first {first.size} have a mean target, or share of a "
        f"label, of {first.mean():.3g}, and those of the other {others.size} of {others.mean():.3g}, as after a warm "
        "start with another class_weight or sample_weight. These figures are those of a mixture, which no smaller or "
        "larger ensemble is. Refit all members in one call of fit.",
        mean_of_first=float(first.mean()),
        mean_of_others=float(others.mean()),
    )


def _unequal(members: Sequence[Any]) -> dict[str, list[str]]:
    """Return the parameters that differ between members, with the value of each member as text."""
    if not all(hasattr(member, "get_params") for member in members):
        return {}
    kinds = {type(member) for member in members}
    if len(kinds) > 1:
        return {"the class": [type(member).__name__ for member in members]}
    found = _by_attributes(members) if all(hasattr(member, "tree_") for member in members) else _by_get_params(members)
    unequal = {name: values for name, values in found.items() if len(set(map(id, values))) > 1}
    texts = {name: [_text(value) for value in values] for name, values in unequal.items()}
    return {name: own for name, own in texts.items() if len(set(own)) > 1}


def _by_attributes(trees: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the parameters of trees, none of which is an estimator; get_params would take much longer."""
    # A tree that was stored by an earlier release lacks the parameters that it did not have.
    names = [name for name in signature(type(trees[0])).parameters if name not in _NOT_COMPARED]
    return {name: [getattr(tree, name, None) for tree in trees] for name in names}


def _by_get_params(members: Sequence[Any]) -> dict[str, list[Any]]:
    try:
        parameters = [member.get_params() for member in members]
    except AttributeError:  # of a member that was stored by another release of its library
        return {}
    names = [name for name in parameters[0] if name.rpartition("__")[2] not in _NOT_COMPARED]
    return {name: [own.get(name) for own in parameters] for name in names}


def _text(value: Any) -> str:
    """Return a value as a text that is equal for equal values; of other objects only their class."""
    if isinstance(value, np.ndarray):
        return str(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else type(value).__name__


def _listed(found: dict[str, list[str]]) -> str:
    texts = [f"{name} was {_values(values)}" for name, values in list(found.items())[:_SHOWN]]
    rest = len(found) - _SHOWN
    return "; ".join([*texts, *([f"and {counted(rest, 'other parameter')} differed"] if rest > 0 else [])])


def _values(values: list[str]) -> str:
    numbers = Counter(values)
    shown = [f"{printable(text, 40)} for {number}" for text, number in list(numbers.items())[:_SHOWN]]
    if len(numbers) > _SHOWN:
        return f"{', '.join(shown)} and another value for the rest"
    return f"{', '.join(shown[:-1])} and {shown[-1]} of them"


def _has_few_runs(kinds: list[Any]) -> bool:
    """Return whether equal members stand next to each other more often than in random order."""
    n = len(kinds)
    sizes = np.array(list(Counter(kinds).values()), dtype=np.float64)
    n_runs = 1 + sum(kind != previous for kind, previous in zip(kinds[1:], kinds[:-1], strict=True))
    squares, cubes = float((sizes**2).sum()), float((sizes**3).sum())
    mean = (n * (n + 1) - squares) / n
    variance = (squares * (squares + n * (n + 1)) - 2 * n * cubes - n**3) / (n**2 * (n - 1.0))
    return variance > 0 and n_runs < mean - FEW_RUNS * variance**0.5


def several_outputs(name: str, n_outputs: int, what: str = "This function") -> str:
    """Return the message that a function takes models of one output only, with what to do instead."""
    if n_outputs == 1:
        return f"This {name} has a single output. Pass its only estimator, model.estimators_[0], with y of one column."
    return (
        f"This {name} predicts {n_outputs} outputs. {what} takes one: pass ens_plugin.split_outputs(model)[k], which "
        "predicts output k alone, with y[:, k]. (ens_plugin.analyze, grow and truncate take the whole model.)"
    )


def several_targets(name: str, n_outputs: int) -> str:
    """Return the message that an ensemble of a library other than scikit-learn was trained on several columns of y."""
    return (
        f"This {name} was trained on {n_outputs} columns of y, and only models of one column can be analysed. "
        "Train one model for each column, or a MultiOutputClassifier or MultiOutputRegressor of such models, which "
        "ens_plugin.analyze takes. If the columns indicate one label of several, train on y.argmax(axis=1)."
    )


_EXACT = (
    "X and y must be the exact training rows in training order, with the values that the model itself was given; for "
    'rows the model was not trained on pass data="holdout".'
)


def other_rows(found: str) -> DataMismatchError:
    """Return the error for rows of which `found`, a part of a sentence, shows that they are not the training rows."""
    return DataMismatchError(f"These are not the rows the model was trained on: {found}. {_EXACT}")


def other_target(is_other: BoolArray, tree: int, what: str = "a value") -> DataMismatchError:
    """Return the error for a target that cannot give what some leaves of a tree hold."""
    return DataMismatchError(
        f"y is not the target the model was trained on: {np.count_nonzero(is_other)} of {is_other.size} leaves of tree "
        f"{tree} hold {what} that y of the rows in them cannot give. {_EXACT}"
    )


def other_row_count(model: object, n_rows: int, trained: str) -> DataMismatchError:
    """Return the error for another number of rows than a model was trained on."""
    return DataMismatchError(
        f"X has {counted(n_rows, 'row')}, but the {type(model).__name__} was trained on {trained}. Pass the exact "
        'training rows in training order, or data="holdout" for rows the model was not trained on.'
    )


def in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Yield the result of `work` for every item, in order, from as many threads as joblib's context allows."""
    # joblib's own Parallel checks every 10 ms whether a thread has finished, a tenth of the time of an analysis.
    from joblib import effective_n_jobs

    n_threads = min(effective_n_jobs(None), len(items))
    if n_threads <= 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield from pool.map(work, items)
