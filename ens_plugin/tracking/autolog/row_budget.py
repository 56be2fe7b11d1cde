"""The number of rows that can be analysed in a given time, and their choice at random."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.checks.distinct_rows import row_cells
from ens_plugin.analysis.rows.hashes import hash_rows
from ens_plugin.analysis.rows.repeats import find_repeats
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import InputError
from ens_plugin.tracking.store.data_digest import data_digest

__all__ = ["PILOT_SHARE", "PassSeconds", "affordable_rows", "pass_seconds"]

PILOT_ROWS = (8, 8, 64, 512, 2048)  # the first call of some members takes longer
PILOT_SHARE = 0.05  # of the time left; a pilot that took longer is long enough to measure the pace
FEW_ROWS = 1000
TOO_FEW_ROWS = 200
ESTIMATE_S = 0.3  # of an analysis after the members' predictions: on two cores of 2020, and rarely more
ESTIMATE_S_PER_ROW = 5e-5
ESTIMATED_ROWS = 20_000  # further rows hardly add to the time of the estimates

HEAD_ROWS = 10_000  # timed to estimate the passes over all rows


class PassSeconds(NamedTuple):
    """Seconds that two passes over all training rows take: the comparison of rows, and their digest."""

    comparison: float
    digest: float


def pass_seconds(X: Any, y: Any) -> PassSeconds:
    """Return the estimated seconds of comparing and digesting all rows, from those for the first 10 000.

    Parameters
    ----------
    X, y : array-like
        Training rows and target.

    Returns
    -------
    PassSeconds
        0 where there are at most 10 000 rows, or where X is neither an array nor a DataFrame.
    """
    if not isinstance(X, np.ndarray | pd.DataFrame) or X.shape[0] <= HEAD_ROWS:
        return PassSeconds(0.0, 0.0)
    # The first pass of a process takes longer.
    tries = [_time_passes(X[:HEAD_ROWS], np.asarray(y[:HEAD_ROWS])) for _ in range(2)]
    comparison, digest = np.min(tries, axis=0) * (X.shape[0] / HEAD_ROWS)
    return PassSeconds(float(comparison), float(digest))


def _time_passes(rows: Any, target: NDArray[Any]) -> PassSeconds:
    start = time.perf_counter()
    hashed = hash_rows(None, rows)
    row_cells(hashed)
    find_repeats(hashed, pd.factorize(target.reshape(-1))[0])
    compared = time.perf_counter()
    data_digest(rows, target)
    return PassSeconds(compared - start, time.perf_counter() - compared)


def affordable_rows(
    adapter: EnsembleAdapter,
    features: Any,
    bags: Bags,
    seconds: float,
    allowance: float,
    random_state: int | None,
    *,
    metric_pace: float,
) -> NDArray[np.intp] | None:
    """Return rows chosen at random, as many as can be analysed in the given time.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows
        All training rows.
    bags : Bags
        In-bag rows of each member.
    seconds : float
        Time left for the members' predictions and the estimates.
    allowance : float
        Time allowed for the whole report; half of it may go into the first 1000 rows, whatever is left.
    random_state : int or None
        Seed of the choice; how many rows are chosen depends on how fast the members predict.
    metric_pace : float
        Seconds for each row of all evaluations of a metric; 0 without one.

    Returns
    -------
    ndarray of intp, shape (n_chosen,), or None
        In ascending order; None if there is time for all rows.

    Raises
    ------
    InputError
        If there is no time for 200 rows.
    """
    n_rows = int(features.shape[0])
    rng = np.random.default_rng(random_state)
    pace = _seconds_per_row(adapter, features, bags, PILOT_SHARE * seconds, rng) + metric_pace
    least = min(FEW_ROWS, n_rows, int(0.5 * allowance / pace))
    n_chosen = max(_rows_within(seconds - ESTIMATE_S, pace), least)
    if n_chosen >= n_rows:
        return None
    if n_chosen < TOO_FEW_ROWS:
        raise InputError(
            f"The members{' and the metric' if metric_pace else ''} take {pace:.2g} s for a row, so there is no time "
            f"for {TOO_FEW_ROWS} rows. Raise max_overhead of ens_plugin.autolog, or call ens_plugin.analyze later."
        )
    return np.sort(rng.choice(n_rows, n_chosen, replace=False))


def _rows_within(seconds: float, pace: float) -> int:
    slow = seconds / (pace + ESTIMATE_S_PER_ROW)
    if slow <= ESTIMATED_ROWS:
        return int(max(slow, 0))
    return int((seconds - ESTIMATED_ROWS * ESTIMATE_S_PER_ROW) / max(pace, 1e-12))


def _seconds_per_row(
    adapter: EnsembleAdapter, features: Any, bags: Bags, enough: float, rng: np.random.Generator
) -> float:
    """Return the seconds that all members take to predict a row, timed on samples of growing size."""
    pace = np.inf
    for size in PILOT_ROWS:
        rows = np.sort(rng.choice(features.shape[0], min(size, features.shape[0]), replace=False))
        part, bags_of_part = features[rows], bags.take(rows)
        start = time.perf_counter()
        adapter.block(part, bags_of_part, slice(0, rows.size))
        elapsed = time.perf_counter() - start
        is_first = np.isinf(pace)
        pace = elapsed / rows.size
        if not is_first and (elapsed > enough or rows.size < size):
            break
    return pace
