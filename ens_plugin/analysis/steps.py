"""The steps before an ensemble: whether they have seen the target of rows that are out of bag."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.unwrap import inner_ensemble, layers, steps_before
from ens_plugin.analysis.arguments import target_array
from ens_plugin.core.explained import Explained, explained
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.validation import STANDARD_ERRORS, FloatArray, one_line, printable
from ens_plugin.errors import DataMismatchError, EnsPluginWarning, WeakEstimateWarning, warn_user
from ens_plugin.findings import Finding, finding

# Of the variance of a target that the rows tell nothing of. A share just below has moved an error by 3.5 points; half
# of it would doubt encoders of ten categories in a thousand rows, which move it by none.
LARGEST_SHARE = 0.02
# Rows that a step is fitted to, in all orders together: of fewer, chance explains that share too, and more take longer.
ORDERED_ROWS, MOST_ORDERS = 2000, 8
# Values that are compared with the target, which takes time, but those of so many columns at least.
MOST_VALUES, FEWEST_COLUMNS = 20_000_000, 64
# Packages of scikit-learn whose transformers read no target, but for two, one of which calls a user's function.
WITHOUT_TARGET = {
    "cluster", "compose", "decomposition", "feature_extraction", "impute", "kernel_approximation", "pipeline",
    "preprocessing", "random_projection",
}  # fmt: skip
EXCEPTIONS = {"FunctionTransformer", "TargetEncoder"}


def step_findings(model: Any, X: Any, y: Any, *, as_trained: bool = False, not_judged: str = "") -> tuple[Finding, ...]:
    """Return doubts about steps that have seen the target of the training rows, and notes on steps not judged."""
    # A row is not new to an ensemble if a step has put its target into the rows. So each step is fitted again, to the
    # rows in a random order, of which the target tells nothing: what it gives explains the target only as far as the
    # step has seen it. All rows are needed, because a step learns more of them by heart the fewer they are.
    # `as_trained` is for rows as `fit_transform` gave them to the ensemble, in place of `transform`. A `y` of None
    # stands for a random target. With `not_judged`, a reason, no step is fitted, and X and y may be None.
    steps = _steps(model)
    if not_judged:
        return tuple(_Step(name, step, X, y).note(not_judged) for name, step in steps if _may_read_target(step))
    found = list[Finding]()
    for judged in _judged_steps(model, X, y):
        try:
            share = judged.share(as_trained)
        except Exception as error:  # a step may be of any library, or the user's own
            found.append(judged.note(one_line(f"{type(error).__name__}: {error}".rstrip("."))))
        else:
            found += [judged.doubt(share)] if share > LARGEST_SHARE else []
    return tuple(found)


def warn_of_steps(model: Any, X: Any, y: Any) -> None:
    """Warn of what is found about the steps, where no report carries it."""
    for found in step_findings(model, X, y):
        warn_user(found.sentence, WeakEstimateWarning if found.kind == "doubt" else EnsPluginWarning)


@contextmanager
def cross_fitting_explained(model: Any, X: Any, y: Any) -> Iterator[None]:
    """Add to a refusal of the training rows that a step gives them other values than at training."""
    try:
        yield
    except DataMismatchError as error:
        crossed = next((step for step in _judged_steps(model, X, y) if step.is_cross_fitted()), None)
        if crossed is None:
            raise
        raise DataMismatchError(
            f"{error} {crossed.words} may be the reason: it gives training rows other values in fit_transform "
            "than in transform. Pass the ensemble, model[-1], with the rows that it was trained on: "
            "sklearn.base.clone(model[:-1]).fit_transform(X, y), where the step's random_state is a number."
        ) from error


def _steps(model: Any) -> list[tuple[str, Any]]:
    return [step for layer in layers(model) for step in steps_before(layer)]


def _judged_steps(model: Any, X: Any, y: Any) -> Iterator[_Step]:
    """Yield the steps that may read a target, with the rows as they reach them."""
    steps = _steps(model)
    while steps and not _may_read_target(steps[-1][1]):
        steps.pop()
    target = _random_target(model, X) if steps and y is None else y
    for name, step in steps:
        if _may_read_target(step):
            yield _Step(name, step, X, target)
        try:
            X = step.transform(X)
        except Exception:  # growing and autologging have the rows from fit_transform
            X = None


def _random_target(model: Any, X: Any) -> NDArray[Any]:
    rng, n_rows = np.random.default_rng(0), X.shape[0] if hasattr(X, "shape") else len(X)
    labels = getattr(inner_ensemble(model), "classes_", None)
    return rng.normal(size=n_rows) if labels is None else rng.choice(np.asarray(labels), n_rows)


def _may_read_target(step: Any) -> bool:
    return any(map(_is_unknown, _parts(step)))


def _parts(step: Any) -> list[Any]:
    """Return a step and the estimators inside it."""
    return [step, *(part for part in _parameters(step).values() if hasattr(part, "fit") and not isinstance(part, type))]


def _parameters(step: Any) -> dict[str, Any]:
    try:
        return dict(step.get_params())
    except Exception:  # the user's own steps need not have parameters
        return {}


def _is_unknown(part: Any) -> bool:
    library, package, *_ = [*type(part).__module__.split("."), ""]
    return library != "sklearn" or package not in WITHOUT_TARGET or type(part).__name__ in EXCEPTIONS


def _is_fixed(part: Any) -> bool:
    return type(part).__name__ == "FrozenEstimator" or getattr(part, "prefit", False) is True


@dataclass(frozen=True, eq=False)
class _Step:
    """A fitted step before an ensemble, the rows that reach it, and their target."""

    name: str
    step: Any
    rows: Any
    target: Any

    def share(self, as_trained: bool) -> float:
        """Return the share of the variance of a target without signal that the step explains; 0 for little of it."""
        found = self._share(as_trained)
        if found <= LARGEST_SHARE or (any(map(_is_fixed, _parts(self.step))) and not self._is_of_these_rows()):
            return 0.0
        # Cross-fitting leaves a little in few rows. Means without a row's own target tell it as well as those with it.
        return 0.0 if as_trained and found < self._share(False) / 2 else found

    def _share(self, as_trained: bool) -> float:
        from sklearn.utils import shuffle

        own, targets = self.step.transform(self.rows), _columns_of_target(self.target)
        n_rows, found, share = len(targets[0]), list[list[list[Explained]]](), 0.0
        n_orders = min(math.ceil(ORDERED_ROWS / n_rows), MOST_ORDERS)
        while share <= LARGEST_SHARE and len(found) < n_orders:
            rows, known = shuffle(self.rows, own, random_state=len(found))
            if hasattr(rows, "set_axis"):
                rows = rows.set_axis(self.rows.index)  # libraries match rows and target by index
            changed = _other_columns(self._given(rows, as_trained), known)
            if not changed:
                return 0.0
            found.append([explained(changed, target) for target in targets])
            shares, standard_errors = np.mean(found, axis=0).reshape(-1, 2).T
            share = float(shares[standard_errors * math.sqrt(len(found)) > STANDARD_ERRORS].max(initial=0.0))
        return share

    def _given(self, rows: Any, as_trained: bool = False, seed: int = 0) -> Any:
        """Return what the step gives for rows in some order, once it is fitted to them."""
        step = _unfitted(self.step)
        with _undisturbed(seed):
            if as_trained and hasattr(step, "fit_transform"):
                return step.fit_transform(rows, self.target)
            return step.fit(rows, self.target).transform(rows)

    def _is_of_these_rows(self) -> bool:
        """Return whether the step gives what a fit to these rows gives, as far as another such fit gives it."""
        own, again, other = self.step.transform(self.rows), self._given(self.rows), self._given(self.rows, seed=1)
        unlike, by_chance = (len(_other_columns(given, again)) / given.shape[1] for given in (own, other))
        spread = math.sqrt(by_chance * (1.0 - by_chance) / own.shape[1])
        return bool(unlike < min(1.0, by_chance + 2.0 * spread + 1e-9))

    def is_cross_fitted(self) -> bool:
        """Return whether ``fit_transform`` gives the rows other values than ``transform``; False if it fails."""
        try:
            step = _unfitted(self.step)
            with _undisturbed():
                return bool(_other_columns(step.fit_transform(self.rows, self.target), step.transform(self.rows)))
        except Exception:  # a step may be of any library, or the user's own
            return False

    @property
    def words(self) -> str:
        """The step in a sentence."""
        kinds = dict.fromkeys(type(part).__name__ for part in _parts(self.step) if _is_unknown(part))
        inside = "" if _is_unknown(self.step) else f" with {printable(', '.join(kinds), 60)}"
        kind = printable(type(self.step).__name__, 60)
        return f"Step {printable(self.name, 60)!r} of the pipeline ({kind}{inside})"

    def doubt(self, share: float) -> Finding:
        """Return the doubt that the step has seen the target of the rows."""
        return finding(
            "target-steps",
            f"{self.words} was fitted to the target of all rows, so no row is new to the ensemble, and the out-of-bag "
            "error may be far too low. Fitted to the rows in random order, of which the target tells nothing, it "
            f"explains {100 * share:.2g} % of the target's variance. Fit the step within each member, as "
            "BaggingClassifier(make_pipeline(step, tree)) does, or pass held-out rows.",
            share=share,
        )

    def note(self, reason: str) -> Finding:
        """Return the note that the step was not judged."""
        return finding(
            "unjudged-steps",
            f"{self.words} was not fitted again ({reason}), so nothing tells whether it has seen the target of the "
            "rows. If it reads the target, fit it within each member, or pass held-out rows.",
        )


def _unfitted(step: Any) -> Any:
    """Return a copy of a step to fit, which keeps nothing on disk."""
    from sklearn.base import clone

    if type(step).__name__ == "FrozenEstimator":
        return _unfitted(step.estimator)
    fresh = clone(step, safe=False)  # a deep copy of what has no parameters
    for name, value in _parameters(fresh).items():
        own = name.rpartition("__")[2]
        if _is_fixed(value):
            fresh.set_params(**{name: _unfitted(value)})
        elif own in ("memory", "prefit") and value is not None:
            fresh.set_params(**{name: None if own == "memory" else False})
    return fresh


@contextmanager
def _undisturbed(seed: int = 0) -> Iterator[None]:
    """Fit without warnings, without runs of MLflow, and without taking random numbers from the program's."""
    from sklearn.utils import check_random_state

    numbers = check_random_state(None)
    state = numbers.get_state()
    with ExitStack() as restored:
        restored.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if "mlflow" in sys.modules:
            from mlflow.utils.autologging_utils import disable_autologging

            restored.enter_context(disable_autologging())
        restored.callback(numbers.set_state, state)
        numbers.seed(seed)
        yield


def _other_columns(table: Any, known: Any) -> list[FloatArray]:
    """Return the columns of what a step gives that another table does not have; some of very many."""
    keys = {_key(column) for column in _columns(known)}
    places = [place for place, column in enumerate(_columns(table)) if _key(column) not in keys]
    most = max(MOST_VALUES // table.shape[0], FEWEST_COLUMNS)
    chosen = {places[place] for place in spread_rows(len(places), most)}
    return [column for place, column in enumerate(_columns(table)) if place in chosen]


def _columns(table: Any) -> Iterator[FloatArray]:
    """Yield the columns of an array, a data frame or a sparse matrix as numbers."""
    if hasattr(table, "tocsc"):
        table = table.tocsc()
    elif not hasattr(table, "iloc"):
        table = np.asarray(table)
    for place in range(table.shape[1]):
        column = table.iloc[:, place] if hasattr(table, "iloc") else table[:, [place]]
        values = np.asarray(column.toarray() if hasattr(column, "toarray") else column).reshape(-1)
        yield np.asarray(values if values.dtype.kind in "biuf" else pd.factorize(values)[0], dtype=np.float64)


def _key(column: FloatArray) -> int:
    """Return the hash of a column to four digits: sums over rows in another order differ in the last ones."""
    spread = float(column[np.isfinite(column)].std()) if np.isfinite(column).any() else 0.0
    return hash((np.round(column / spread, 4) + 0.0 if spread > 0.0 else column).tobytes())


def _columns_of_target(y: Any) -> Sequence[FloatArray]:
    """Return each output of the target as columns of mean 0: values, and a few random numbers for each label."""
    target = target_array(y)
    found = list[FloatArray]()
    for column in target.reshape(len(target), -1).T:
        codes, labels = pd.factorize(column, sort=True)
        if column.dtype.kind in "biuf":
            found.append(column.astype(np.float64)[:, None])
        if column.dtype.kind not in "biuf" or 2 < labels.size <= math.sqrt(codes.size):
            found.append(np.random.default_rng(0).normal(size=(labels.size, 3))[codes])
    return [values - values.mean(axis=0) for values in found]
