"""The variance over training sets, estimated from one forest, against that of refits on other training sets.

Friedman's first function with noise of variance 1; mean over 300 fresh rows. The truth is the variance over 100
training sets of what infinitely many trees predict; the estimates of `training_variance` are from forests of 1000
trees, each trained on one of these sets. ± holds the noise of the truth, as if the fresh rows were worth 15
independent ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

FRESH_ROWS = 300
NOISE = 1.0
REFIT_TREES = 100
TREES = 1000
TOLERANCE = 0.15


class Setting(NamedTuple):
    """How the forests are grown; `share` without replacement where it is not 0."""

    rows: int
    max_features: float
    min_samples_leaf: int
    share: float = 0.0

    def name(self) -> str:
        """Return the setting in words."""
        way = f"{self.share:.0%} of the rows without replacement" if self.share else "bootstrap"
        return f"{self.rows} rows, {way}, max_features {self.max_features:g}, leaves of {self.min_samples_leaf}"

    def model(self, n_trees: int, seed: int) -> Any:
        """Return a forest that is not fitted yet."""
        tree = {"max_features": self.max_features, "min_samples_leaf": self.min_samples_leaf}
        if not self.share:
            return RandomForestRegressor(n_trees, random_state=seed, **tree)
        return BaggingRegressor(
            DecisionTreeRegressor(**tree), n_trees, bootstrap=False, max_samples=self.share, random_state=seed
        )


SETTINGS = (
    Setting(200, 1.0, 1),
    Setting(500, 1.0, 1),
    Setting(200, 1.0, 5),
    Setting(200, 1 / 3, 1),
    Setting(500, 1 / 3, 5),
    Setting(200, 1.0, 1, share=0.3),
    Setting(200, 1.0, 1, share=0.632),
)
TRIED = (
    "the mean with the jackknife after the bootstrap is nearer here and 1.25 to 1.3 times the truth for the default "
    "forest; one forest does not show which of the two is nearer, so both are given."
)


class Outcome(NamedTuple):
    """What was found for one setting; `estimates` and `jackknives` are relative to `truth`."""

    truth: float
    uncorrected: float
    estimate: float
    spread: float
    jackknife: float


def fresh_rows() -> NDArray[np.float64]:
    """Rows that the forests predict."""
    rows: NDArray[np.float64] = make_friedman1(FRESH_ROWS, random_state=2**20)[0]
    return rows


def measure(setting: Setting, refits: int, forests: int, n_trees: int, seed: int, n_jobs: int) -> Outcome:
    """Compare the variance over `refits` training sets with the estimates from each of `forests` forests.

    The refits' own variance over seeds, of `REFIT_TREES` trees, is taken off: the truth is that of infinitely many.
    """
    rows = fresh_rows()
    found = Parallel(n_jobs=n_jobs)(
        delayed(_refitted)(setting, rows, 10_000 * seed + number) for number in range(refits)
    )
    predictions, seed_variances = (np.array(part) for part in zip(*found, strict=True))
    truth = float((predictions.var(axis=0, ddof=1) - seed_variances.mean(axis=0)).mean())
    estimates = np.array(
        Parallel(n_jobs=n_jobs)(
            delayed(_estimates)(setting, rows, 10_000 * seed + number, n_trees) for number in range(forests)
        )
    )
    uncorrected, estimate, jackknife = estimates.mean(axis=0) / truth
    spread = float(
        np.hypot(estimates[:, 1].std(ddof=1) / truth / np.sqrt(forests), estimate * np.sqrt(2 / refits / 15))
    )
    return Outcome(truth, float(uncorrected), float(estimate), spread, float(jackknife))


def main(arguments: list[str] | None = None) -> str:
    """Run the script; `arguments` None means the process's own."""
    options = read_options(__name__, __doc__, 100, arguments, smoke=4)
    settings = SETTINGS[:1] + SETTINGS[-1:] if options.smoke else SETTINGS
    outcomes = [_outcome(setting, options) for setting in settings]
    claims = [_claim(setting, outcome) for setting, outcome in zip(settings, outcomes, strict=True)]
    return conclude(__name__, options, claims, [_detail(settings, outcomes)])


def _outcome(setting: Setting, options: Options) -> Outcome:
    forests, n_trees = (2, 60) if options.smoke else (max(options.repetitions // 5, 2), TREES)
    return measure(setting, options.repetitions, forests, n_trees, options.seed, options.n_jobs)


def _claim(setting: Setting, outcome: Outcome) -> Claim:
    return Claim(
        f"estimated variance over variance of refits, {setting.name()}",
        outcome.estimate,
        outcome.spread,
        1 - TOLERANCE,
        1 + TOLERANCE,
        tried=TRIED,
    )


def _detail(settings: Sequence[Setting], outcomes: Sequence[Outcome]) -> str:
    rows = [
        [
            setting.name(),
            f"{outcome.truth:.3f}",
            f"{outcome.uncorrected:.2f}",
            f"{outcome.estimate:.2f}",
            f"{outcome.jackknife:.2f}" if np.isfinite(outcome.jackknife) else "-",
        ]
        for setting, outcome in zip(settings, outcomes, strict=True)
    ]
    return table(["setting", "truth", "uncorrected", "corrected", "jackknife after bootstrap"], rows)


def _training_set(setting: Setting, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows, target = make_friedman1(setting.rows, noise=NOISE, random_state=seed)
    return rows, target


def _refitted(
    setting: Setting, rows: NDArray[np.float64], seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Prediction of a forest on a training set of its own, and its variance over seeds."""
    model = setting.model(REFIT_TREES, seed).fit(*_training_set(setting, seed))
    predicted = np.stack([tree.predict(rows) for tree in model.estimators_])
    return predicted.mean(axis=0), predicted.var(axis=0, ddof=1) / REFIT_TREES


def _estimates(setting: Setting, rows: NDArray[np.float64], seed: int, n_trees: int) -> tuple[float, float, float]:
    X, y = _training_set(setting, seed)
    found = ens_plugin.training_variance(setting.model(n_trees, seed).fit(X, y), X, rows)
    jackknife = np.nan if found.jackknife is None else float(found.jackknife.mean())
    return float(found.uncorrected.mean()), float(found.variance.mean()), jackknife
