"""Doubts about ensembles whose members were trained with unequal parameters, as a warm start can do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from ens_plugin.core.validation import FloatArray, counted, printable

__all__ = ["bag_doubts", "order_doubts", "unequal_member_doubts"]

# Relative rounding of numbers of rows, which are sums of weights.
CLOSE = 1e-6
# They change no prediction, or are drawn for each member.
_NOT_COMPARED = ("random_state", "random_seed", "seed", "n_jobs", "thread_count", "verbose")
_SHOWN = 3
# Fewer runs of equal parameters than random order has, by so many standard deviations.
FEW_RUNS = 3.0
# By chance, the means of the first members and of the others hardly ever differ by so many standard errors.
CERTAIN, FEWEST_MEMBERS, FEWEST_APART, LEAST_SPREAD = 8.0, 20, 5, 1e-6
# Means that rest on few rows have longer tails than that, and large differences by chance.
LARGEST_KURTOSIS = 9.0


def unequal_member_doubts(members: Sequence[Any], **numbers: Sequence[float] | FloatArray | None) -> tuple[str, ...]:
    """Return a doubt where members were trained with unequal parameters, as after a warm start with others.

    The members' own parameters are compared; those of the ensemble may have been changed since.

    Parameters
    ----------
    members : sequence of fitted estimators
    **numbers : sequence of n_members float, or None
        What else is equal for members that were trained alike, such as their numbers of rows, by its name.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> unequal_member_doubts([DecisionTreeClassifier(random_state=seed) for seed in range(3)])
    ()
    >>> text, = unequal_member_doubts([DecisionTreeClassifier(max_depth=depth) for depth in (2, 2, 3)])
    >>> text[:77]
    'The members were not trained alike: max_depth was 2 for 2 and 3 for 1 of them'
    >>> unequal_member_doubts([None] * 3, rows=[100, 100, 50])[0][36:81]
    'the number of rows was 100 for 2 and 50 for 1'
    """
    known = {name: np.asarray(own, dtype=np.float64) for name, own in numbers.items() if own is not None}
    differing = {name: own for name, own in known.items() if np.ptp(own) > CLOSE * own.max()}
    found = {f"the number of {name}": [f"{number:.0f}" for number in own] for name, own in differing.items()}
    found = {**found, **_unequal(members)}
    if not found:
        return ()
    return (
        f"The members were not trained alike: {_listed(found)}. So they are not draws of one learner, and the first "
        "differ from the last: these figures are those of a mixture, which no smaller or larger ensemble is. Refit all "
        "members with the same parameters, in one call of fit.",
    )


def order_doubts(members: Sequence[Any]) -> tuple[str, ...]:
    """Return a doubt where the members' parameters are unequal, and the same ones follow each other.

    Parameters that differ at random from member to member are part of the learner.  The number of runs of members with
    equal parameters is compared with that of random order (Wald and Wolfowitz 1940, for any number of kinds).

    Parameters
    ----------
    members : sequence of fitted models
        Of any library; those without ``get_params`` are not compared.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> stump, tree = DecisionTreeClassifier(max_depth=1), DecisionTreeClassifier()
    >>> len(order_doubts([stump] * 10 + [tree] * 10)), len(order_doubts([stump, tree] * 10))
    (1, 0)
    """
    found = _unequal(members)
    if not found or not _has_few_runs(list(zip(*found.values(), strict=True))):
        return ()
    return (
        f"Members that follow each other were trained alike, and others were not: {_listed(found)}. So the first "
        "members differ from the last, and a smaller or larger ensemble is another mixture than these figures are of. "
        "Give the members in random order if this mixture is what you want, or train all with the same parameters.",
    )


def bag_doubts(means: FloatArray) -> tuple[str, ...]:
    """Return a doubt where the first members were trained on bags of other targets than the last ones.

    So they are after a warm start with another ``class_weight`` or ``sample_weight``, which no member keeps.

    Parameters
    ----------
    means : ndarray, shape (n_members, n_columns)
        Mean target of each member's bag, or the share of each label in it.

    Returns
    -------
    tuple of str

    Examples
    --------
    >>> bags = np.random.default_rng(0).normal(0.2, 0.01, (40, 1))
    >>> bag_doubts(bags), len(bag_doubts(bags + np.repeat([[0.0], [0.1]], 20, axis=0)))
    ((), 1)
    """
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


def _unlike_bags(first: FloatArray, others: FloatArray) -> str:
    return (
        f"The members were not trained alike: the bags of the first {first.size} have a mean target, or share of a "
        f"label, of {first.mean():.3g}, and those of the other {others.size} of {others.mean():.3g}, as after a warm "
        "start with another class_weight or sample_weight. These figures are those of a mixture, which no smaller or "
        "larger ensemble is. Refit all members in one call of fit."
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
    """Return the parameters of trees, none of which is an estimator; get_params would take much longer.

    A tree that was stored by an earlier release lacks the parameters that it did not have.
    """
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
