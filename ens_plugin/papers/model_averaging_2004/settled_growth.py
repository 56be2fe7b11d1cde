"""Growth of an average of models until the labels of enough rows are settled (2004, section 8.2)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import WeakEstimateWarning
from ens_plugin.user_warnings import warn_user

__all__ = ["FIRST_BATCH", "SettlingStep", "grow_until_settled", "models_for_share"]

FIRST_BATCH = 25
# An early warning is issued where the models needed are at least FAR times max_size, and those still to fit at least
# MOST_TO_COME times the current ones.
FAR = 3
MOST_TO_COME = 3


class SettlingStep(NamedTuple):
    """One check, during the growth of an average, of the share of training rows whose label is final.

    Attributes
    ----------
    size : int
        Number of models at this check.
    settled : float
        Share of the training rows whose label these models settle.
    needed : int or None
        Number of models that would settle the wanted share, extrapolated; None where no number would.
    seconds : float
        Time since the start of the growth.
    """

    size: int
    settled: float
    needed: int | None
    seconds: float


def grow_until_settled(
    grow: Callable[[int, int], list[Any]],
    models_by_row: Callable[[list[Any]], FloatArray],
    share: float,
    max_size: int,
) -> tuple[list[Any], list[SettlingStep]]:
    """Return models and history, adding models (at most doubling them) until the labels of enough rows are settled.

    Parameters
    ----------
    grow : callable
        ``grow(start, stop)`` returns the models numbered start to stop - 1.
    models_by_row : callable
        Returns for a list of models how many would settle each training row, shape (n_rows,).
    share : float
        Wanted share of settled rows.
    max_size : int
        Largest number of models, at least 3; a WeakEstimateWarning is issued there, or before if foreseeable.

    Returns
    -------
    models : list
    history : list of SettlingStep
    """
    began = time.perf_counter()
    models: list[Any] = []
    history: list[SettlingStep] = []
    announced = False
    size = min(FIRST_BATCH, max_size)
    while True:
        models += grow(len(models), size)
        by_row = models_by_row(models)
        step = SettlingStep(
            size, float(np.mean(by_row <= size)), models_for_share(by_row, share), time.perf_counter() - began
        )
        history.append(step)
        if step.settled >= share:
            return models, history
        if size == max_size:
            warn_user(_unsettled(step, share), WeakEstimateWarning)
            return models, history
        if not announced and _is_out_of_sight(history, max_size):
            announced = True
            warn_user(_announced(step, share, max_size), WeakEstimateWarning)
        size = min(_next_size(step), max_size)


def models_for_share(by_row: FloatArray, share: float) -> int | None:
    """Return how many models settle the labels of a share of the rows, from how many settle each; None if none do."""
    enough = np.sort(by_row)[math.ceil(share * by_row.size) - 1]
    return int(enough) if np.isfinite(enough) else None


def _next_size(step: SettlingStep) -> int:
    """Return the number of models to grow to: at most twice as many, since the number needed is uncertain."""
    if step.needed is None:
        return 2 * step.size
    return min(max(step.needed, step.size + FIRST_BATCH), 2 * step.size)


def _is_out_of_sight(history: list[SettlingStep], max_size: int) -> bool:
    """Return whether two successive checks estimate far more than `max_size` models, with most models still to fit."""
    if len(history) < 2 or max_size - history[-1].size < MOST_TO_COME * history[-1].size:
        return False
    return all(step.needed is None or step.needed > FAR * max_size for step in history[-2:])


def _announced(step: SettlingStep, share: float, max_size: int) -> str:
    needed = (
        "no number of models settles" if step.needed is None else f"about {counted(step.needed, 'model')} would settle"
    )
    return (
        f"As estimated from {counted(step.size, 'model')}, {needed} the labels of {100 * share:g} % of the training "
        f"rows, and max_n_estimators={max_size} are allowed. That many will be fitted, which takes about "
        f"{_seconds_left(step, max_size):.0f} s more. To avoid it, pass a number as n_estimators, for example 100."
    )


def _seconds_left(step: SettlingStep, max_size: int) -> float:
    """Return the seconds that growing to `max_size` will take, at the rate so far."""
    return step.seconds * (max_size / step.size - 1.0)


def _unsettled(step: SettlingStep, share: float) -> str:
    found = (
        f"{counted(step.size, 'model settles', 'models settle')} the labels of {100 * step.settled:.1f} % of the "
        f"training rows; {100 * share:g} % were wanted."
    )
    if step.needed is None:
        return (
            f"{found} By their estimate no number of models would settle as many: too many rows have equal scores. "
            "Pass a smaller share. The current models are kept."
        )
    return (
        f"{found} As estimated from their means and spreads, about {counted(step.needed, 'model')} would. Raise "
        "max_n_estimators, or pass a smaller share or a larger delta. The current models are kept."
    )
