"""How far estimates from a few members are from the reference: bias and RMSE over repetitions, targets, tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.shared.markdown import table
from benchmarks.shared.results import Claim

FloatArray = NDArray[np.float64]

SIZES = (1001.0, np.inf)


@dataclass(frozen=True, eq=False)
class Errors:
    """Estimate minus reference, over repetitions (in error points, or in factors of two)."""

    values: FloatArray

    @property
    def bias(self) -> float:
        return float(self.values.mean())

    @property
    def bias_se(self) -> float:
        return float(self.values.std(ddof=1) / np.sqrt(self.values.size))

    @property
    def rmse(self) -> float:
        return float(np.sqrt(np.mean(self.values**2)))

    @property
    def rmse_se(self) -> float:
        return float(np.std(self.values**2, ddof=1) / np.sqrt(self.values.size) / max(2.0 * self.rmse, 1e-12))

    def shown(self) -> str:
        return f"{self.bias:+.2f} / {self.rmse:.2f}"


@dataclass(frozen=True, eq=False)
class Deviations:
    """The default and a simpler estimate against the reference, by ensemble size and for the recommended size.

    Attributes
    ----------
    truth : float
        Mean of the reference at infinity (%).
    default, simple : mapping
        From size to errors.
    default_size, simple_size : Errors
        Of the recommended size, in factors of two.
    """

    truth: float
    default: Mapping[float, Errors]
    simple: Mapping[float, Errors]
    default_size: Errors
    simple_size: Errors


@dataclass(frozen=True)
class Targets:
    """Targets of the default estimate, and what was tried where it misses them.

    Attributes
    ----------
    rmse : float
        Highest mean RMSE, in points.
    share : float
        Highest RMSE relative to the simple estimate's.
    tried_bias, tried_share : str
    """

    rmse: float
    share: float
    tried_bias: str = ""
    tried_share: str = ""


def by_size(differences: FloatArray) -> dict[float, Errors]:
    """Differences of shape (n_repetitions, n_sizes), in points, by size."""
    return {size: Errors(100.0 * differences[:, column]) for column, size in enumerate(SIZES)}


def deviation_claims(what: str, by_set: Mapping[str, Deviations], simple: str, targets: Targets) -> list[Claim]:
    """Compare averages over data sets with the targets."""
    claims = []
    for size in SIZES:
        where = f"{what}, B = {_shown(size)}"
        default = [found.default[size] for found in by_set.values()]
        worst = max(default, key=lambda errors: abs(errors.bias))
        bias_se = np.sqrt(sum(errors.bias_se**2 for errors in default)) / len(default)
        bias = float(np.mean([abs(errors.bias) for errors in default]))
        rmse, rmse_se = _mean_rmse(default)
        share = rmse / float(np.mean([found.simple[size].rmse for found in by_set.values()]))
        claims += [
            Claim(f"{where}: mean absolute bias (points)", bias, float(bias_se), high=0.25),
            Claim(
                f"{where}: worst absolute bias (points)", abs(worst.bias), worst.bias_se, high=0.6,
                tried=targets.tried_bias,
            ),
            Claim(f"{where}: mean RMSE (points)", rmse, rmse_se, high=targets.rmse),
            Claim(f"{where}: RMSE relative to {simple}'s", share, high=targets.share, tried=targets.tried_share),
        ]  # fmt: skip
    size_rmse, size_se = _mean_rmse([found.default_size for found in by_set.values()])
    return [*claims, Claim(f"{what}: RMSE of log2(recommended size / reference)", size_rmse, size_se, high=0.85)]


def _mean_rmse(errors: list[Errors]) -> tuple[float, float]:
    spread = np.sqrt(sum(one.rmse_se**2 for one in errors)) / len(errors)
    return float(np.mean([one.rmse for one in errors])), float(spread)


def deviation_table(what: str, by_set: Mapping[str, Deviations], simple: str) -> str:
    """Bias / RMSE of every data set."""
    header = [
        what,
        "error at ∞ (%)",
        *(f"default, B = {_shown(size)}" for size in SIZES),
        f"{simple}, B = ∞",
        "size, default",
        f"size, {simple}",
    ]
    rows = [
        [
            name,
            f"{found.truth:.1f}",
            *(found.default[size].shown() for size in SIZES),
            found.simple[np.inf].shown(),
            found.default_size.shown(),
            found.simple_size.shown(),
        ]
        for name, found in by_set.items()
    ]
    return table(header, rows)


def _shown(size: float) -> str:
    return "∞" if np.isinf(size) else f"{size:g}"
