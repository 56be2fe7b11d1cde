"""Measurement of the bytes, prediction time and training time that a smaller ensemble saves."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from numpy.typing import ArrayLike

from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.registry import find_adapter, find_library
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.core.validation import counted
from ens_plugin.report.quantities import members_text
from ens_plugin.sizing.predictions import first_rows, predicted
from ens_plugin.sizing.truncate import truncate

__all__ = ["Savings", "measure_savings"]

PREDICTED_ROWS = 10_000
ROUNDS = 5
# Of few members; one fit that something else held up, such as the start of threads, does not move their median.
FIT_ROUNDS = 3
# The time of one member is taken from two fits of different sizes, so that the constant cost of a fit cancels.
FEW, MORE = 2, 10


@dataclass(frozen=True)
class Savings:
    """Costs of an ensemble at its current size, and cut to a smaller size.

    Attributes
    ----------
    n_members, size : int
        Number of members of the ensemble at its current size, and cut.
    bytes_now, bytes_cut : int
        Bytes of the pickled models.
    n_rows : int
        Number of rows whose prediction was timed.
    predict_seconds_now, predict_seconds_cut : float
        Medians over alternating rounds of the model's own ``predict``.
    fit_seconds_per_member : float or None
        Training time of one more member, from medians over alternating fits; None where the model cannot be fitted
        again with fewer members (a Booster has no parameters to fit with), or more members took no longer.
    """

    n_members: int
    size: int
    bytes_now: int
    bytes_cut: int
    n_rows: int
    predict_seconds_now: float
    predict_seconds_cut: float
    fit_seconds_per_member: float | None

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return a table as tuples of text: a header, then for each cost its name, now, cut, and the share saved.

        Examples
        --------
        >>> for row in Savings(100, 40, 2_000_000, 800_000, 150, 0.02, 0.008, None).rows():
        ...     print(row)
        ('', '100 members', '40 members', 'saved')
        ('Size, pickled', '2 MB', '800 kB', '60 %')
        ('Predicting 150 rows', '20 ms', '8 ms', '60 %')
        """
        predicting = self.predict_seconds_now, self.predict_seconds_cut
        rows = [
            ("", members_text(self.n_members), members_text(self.size), "saved"),
            _row("Size, pickled", self.bytes_now, self.bytes_cut, _bytes_text),
            _row(f"Predicting {counted(self.n_rows, 'row')}", *predicting, _seconds_text),
        ]
        each = self.fit_seconds_per_member
        if each is not None:
            rows.append(_row("Training, estimated", each * self.n_members, each * self.size, _seconds_text))
        return rows


def _row(label: str, now: float, cut: float, text: Callable[[float], str]) -> tuple[str, str, str, str]:
    saved = f"{100 * (1 - cut / now):.0f} %" if now > 0 else "-"
    return label, text(now), text(cut), saved


def _bytes_text(count: float) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e6 else f"{count / 1e3:.3g} kB"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def measure_savings(model: Any, X: Any, y: ArrayLike, size: int) -> Savings:
    """Measure the bytes and seconds saved by cutting an ensemble to its first `size` members.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.truncate`; it is not changed.
    X, y : array-like
        Rows like those it was trained on: predictions of the first 10 000 are timed, and the training of a
        few members on all of them.
    size : int
        From 1 to the number of members.

    Returns
    -------
    Savings

    Raises
    ------
    UnsupportedModelError, InputError, NotFittedError
        As for :func:`ens_plugin.truncate`; InputError also for rows in an object of a library, as a DMatrix.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> found = measure_savings(RandomForestClassifier(50, random_state=0).fit(X, y), X, y, 20)
    >>> found.bytes_cut < found.bytes_now
    True
    """
    smaller = truncate(model, size)
    rows = first_rows(X, PREDICTED_ROWS)
    now, cut = _alternating(lambda: predicted(model, rows), lambda: predicted(smaller, rows), ROUNDS)
    ensemble, features = unwrap(model, X)
    n_members = find_adapter(ensemble).n_members
    return Savings(
        n_members=n_members,
        size=size,
        bytes_now=_pickled_bytes(model),
        bytes_cut=_pickled_bytes(smaller),
        n_rows=rows.shape[0] if hasattr(rows, "shape") else len(rows),
        predict_seconds_now=now,
        predict_seconds_cut=cut,
        fit_seconds_per_member=_fit_seconds(ensemble, features, y, n_members),
    )


def _alternating(first: Callable[[], object], second: Callable[[], object], n_rounds: int) -> tuple[float, float]:
    rounds = [(_seconds(first), _seconds(second)) for _ in range(n_rounds)]
    return median(took for took, _ in rounds), median(took for _, took in rounds)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _pickled_bytes(model: Any) -> int:
    try:
        return len(pickle.dumps(model))
    except (pickle.PicklingError, AttributeError, TypeError):
        # A lambda in a pipeline, for example; MLflow stores such models with cloudpickle too.
        import cloudpickle

        return len(cloudpickle.dumps(model))


def _fit_seconds(ensemble: Any, rows: Any, y: ArrayLike, n_members: int) -> float | None:
    parameter = _size_parameter(ensemble, n_members)
    if parameter is None:
        return None
    from sklearn.base import clone

    few, more = (clone(ensemble).set_params(**{parameter: count}) for count in (FEW, MORE))
    with warnings.catch_warnings():
        # They are about models of very few members, which nobody gets.
        warnings.simplefilter("ignore")
        # Copied each time, because a fitted ensemble with warm_start=True is left as it is.
        took_few, took_more = _alternating(
            lambda: clone(few).fit(rows, y), lambda: clone(more).fit(rows, y), FIT_ROUNDS
        )
    return (took_more - took_few) / (MORE - FEW) if took_more > took_few else None


def _size_parameter(ensemble: Any, n_members: int) -> str | None:
    """Return the name of the parameter that sets the number of members; None if there is none."""
    if not hasattr(ensemble, "get_params"):
        return None
    parameters = ensemble.get_params(deep=False)
    named = (find_library(ensemble, Trainable) or Trainable).size_parameters
    return next((name for name in named if parameters.get(name) == n_members), None)
