"""How often prediction intervals contain the target of fresh rows, and standard errors against refits.

`predict_with_uncertainty` at 95%; forests of 100 trees on 200 rows, unless stated. Each of 100 repetitions draws new
training rows and 500 fresh ones. The ratio compares standard errors with the spread over repetitions of the
predictions of 100 rows. Quiet and noisy are the halves of the fresh rows by the column that the noise of the
heteroscedastic data depends on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import RandomForestRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[np.float64]
Sample = tuple[Array, Array]

LEVEL = 0.95
FRESH_ROWS = 500
COMMON_ROWS = 100
LOW, HIGH = 90.0, 97.0
# Of the standard error: docs/methods/training-variance.md has what it falls short by.
RATIO = (0.8, 1.3)


def _with_noise(rng: np.random.Generator, n_rows: int, noise: Callable[[Array], Array]) -> Sample:
    X, y = make_friedman1(n_rows, random_state=int(rng.integers(2**31)))
    return X, y + noise(X)


def friedman1(rng: np.random.Generator, n_rows: int) -> Sample:
    """Friedman's first function, normal noise of standard deviation 1."""
    return _with_noise(rng, n_rows, lambda X: rng.normal(size=len(X)))


def friedman2(rng: np.random.Generator, n_rows: int) -> Sample:
    """Friedman's second function, with a third of its standard deviation as noise."""
    X, y = make_friedman2(n_rows, noise=125.0, random_state=int(rng.integers(2**31)))
    return X, y


def friedman3(rng: np.random.Generator, n_rows: int) -> Sample:
    """Friedman's third function, with a third of its standard deviation as noise."""
    X, y = make_friedman3(n_rows, noise=0.1, random_state=int(rng.integers(2**31)))
    return X, y


def heavy_tails(rng: np.random.Generator, n_rows: int) -> Sample:
    """Friedman's first function, noise of Student's distribution with 2 degrees of freedom: no variance."""
    return _with_noise(rng, n_rows, lambda X: rng.standard_t(2, len(X)))


def heteroscedastic(rng: np.random.Generator, n_rows: int) -> Sample:
    """Friedman's first function, noise of standard deviation 0.2 to 6 by the sixth column, which has no other part."""
    return _with_noise(rng, n_rows, lambda X: (0.2 + 5.8 * X[:, 5]) * rng.normal(size=len(X)))


def categories(rng: np.random.Generator, n_rows: int) -> Sample:
    """Six columns of four codes each; three of them have effects, two of these together."""
    codes = rng.integers(0, 4, (n_rows, 6))
    effect = np.array([0.0, 3.0, -2.0, 1.0])
    y = effect[codes[:, 0]] + 2.0 * (codes[:, 1] == codes[:, 2]) + rng.normal(size=n_rows)
    return codes.astype(np.float64), y


class Setting(NamedTuple):
    """A data set, how many rows a training set has, and the model."""

    name: str
    sample: Callable[[np.random.Generator, int], Sample] | None
    n_rows: int = 200
    n_members: int = 100
    library: str = "sklearn"


# Without a function to sample from: the diabetes data, split at random.
SETTINGS = (
    Setting("Friedman 1", friedman1),
    Setting("Friedman 2", friedman2),
    Setting("Friedman 3", friedman3),
    Setting("diabetes, halves", None),
    Setting("heavy tails", heavy_tails),
    Setting("heteroscedastic", heteroscedastic),
    Setting("categories", categories),
    Setting("Friedman 1, 60 rows", friedman1, 60),
    Setting("Friedman 1, 15 members", friedman1, 200, 15),
    Setting("Friedman 1, LightGBM", friedman1, library="lightgbm"),
    Setting("Friedman 1, XGBoost", friedman1, library="xgboost"),
)


class Outcome(NamedTuple):
    """Of one setting: coverage in percent with its standard error, mean width, and standard errors over refits'."""

    coverage: float
    spread: float
    width: float
    quiet: float
    noisy: float
    ratio: float


def measure(setting: Setting, repetitions: int, seed: int = 0, n_jobs: int = 1) -> Outcome:
    """Return how the intervals of so many training sets do on fresh rows.

    The ratio is of the root mean square standard error to the root mean variance of the prediction over training sets.
    """
    found = Parallel(n_jobs=n_jobs)(delayed(_repetition)(setting, seed, number) for number in range(repetitions))
    shares, prediction, standard_error = (np.array(part) for part in zip(*found, strict=True))
    coverage, quiet, noisy, width = shares.mean(axis=0).tolist()
    variance = float(prediction.var(axis=0, ddof=1).mean()) if setting.sample else np.nan
    return Outcome(
        coverage=100.0 * coverage,
        spread=100.0 * float(shares[:, 0].std(ddof=1)) / math.sqrt(repetitions),
        width=width,
        quiet=100.0 * quiet,
        noisy=100.0 * noisy,
        ratio=math.sqrt(float(np.mean(standard_error**2)) / variance) if setting.sample else np.nan,
    )


def _repetition(setting: Setting, seed: int, number: int) -> tuple[Array, Array, Array]:
    """Return coverage (whole, quiet, noisy) with the width, predictions of common rows and their standard errors."""
    rng = np.random.default_rng([seed, number])
    X, y, fresh, target, common = _rows(setting, rng)
    model = _model(setting, int(rng.integers(2**31))).fit(X, y)
    rows = np.concatenate([fresh, common])
    # Equal rows of categories are separate cases.
    found = ens_plugin.predict_with_uncertainty(model, X, y, rows, interval_level=LEVEL, groups=np.arange(y.size))
    assert found.lower is not None
    assert found.upper is not None
    n_fresh = target.size
    inside = (found.lower[:n_fresh] <= target) & (target <= found.upper[:n_fresh])
    noise = fresh[:, min(5, fresh.shape[1] - 1)]
    quiet = noise <= np.median(noise)
    shares = np.array([inside.mean(), inside[quiet].mean(), inside[~quiet].mean(), found.upper[0] - found.lower[0]])
    return shares, found.prediction[n_fresh:], found.standard_error[n_fresh:]


def _rows(setting: Setting, rng: np.random.Generator) -> tuple[Array, Array, Array, Array, Array]:
    """Return training rows, fresh rows, and rows that are the same for all training sets."""
    if setting.sample is None:
        X, y = load_diabetes(return_X_y=True)
        train, test = np.array_split(rng.permutation(y.size), 2)
        return X[train], y[train], X[test], y[test], X[:0]
    common = setting.sample(np.random.default_rng(2**20), COMMON_ROWS)[0]
    return *setting.sample(rng, setting.n_rows), *setting.sample(rng, FRESH_ROWS), common


def _model(setting: Setting, seed: int) -> Any:
    if setting.library == "sklearn":
        return RandomForestRegressor(setting.n_members, random_state=seed)
    if setting.library == "xgboost":
        return import_module("xgboost").XGBRFRegressor(
            n_estimators=setting.n_members, subsample=0.63, max_depth=8, random_state=seed, n_jobs=1
        )
    return import_module("lightgbm").LGBMRegressor(
        boosting_type="rf",
        n_estimators=setting.n_members,
        subsample=0.63,
        subsample_freq=1,
        min_child_samples=3,
        random_state=seed % 2**15,
        n_jobs=1,
        verbose=-1,
    )


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 100, arguments, smoke=2)
    known = [setting for setting in SETTINGS if setting.library == "sklearn" or find_spec(setting.library)]
    settings = known[:1] + known[3:4] if options.smoke else known
    outcomes = {setting: measure(setting, options.repetitions, options.seed, options.n_jobs) for setting in settings}
    return conclude(__name__, options, _claims(outcomes), [_detail(outcomes)])


def _claims(outcomes: dict[Setting, Outcome]) -> list[Claim]:
    claims = [
        Claim(f"coverage, {setting.name} (%)", found.coverage, found.spread, LOW, HIGH, digits=1)
        for setting, found in outcomes.items()
    ]
    first, found = next(iter(outcomes.items()))
    return [*claims, Claim(f"standard error over that of refits, {first.name}", found.ratio, None, *RATIO)]


def _detail(outcomes: dict[Setting, Outcome]) -> str:
    rows = [
        [
            setting.name,
            f"{found.coverage:.1f}",
            f"{found.quiet:.1f}",
            f"{found.noisy:.1f}",
            f"{found.width:.3g}",
            f"{found.ratio:.2f}" if np.isfinite(found.ratio) else "-",
        ]
        for setting, found in outcomes.items()
    ]
    return table(["setting", "coverage (%)", "quiet half", "noisy half", "width", "standard error / refits"], rows)
