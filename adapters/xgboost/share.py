"""The values of `subsample` that may have given the share of rows that a booster's trees count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.xgboost.hessians import Hessians

__all__ = ["Share"]

SPREADS = 5.0
MAX_SHARES = 40
# Usual values of more than two digits, which few rows cannot distinguish from others; 0.632 is a bootstrap's.
USUAL_SHARES = (0.632, 1 / 3, 2 / 3, 0.333, 0.667)


@dataclass(frozen=True)
class Share:
    """Share of rows counted by the roots of the first round's trees, its standard deviation, and whether it is 1."""

    mean: float
    sd: float
    is_whole: bool

    @classmethod
    def of_roots(cls, hessians: Hessians, total: NDArray[np.float64], n_effective: float) -> Share:
        """Return the share of the training rows that the trees' roots count.

        Parameters
        ----------
        hessians : Hessians
        total : ndarray, shape (n_groups,)
            Sums of the second derivatives over all training rows.
        n_effective : float
            Number of rows with equal derivatives that would have the same variance (Kish).
        """
        forest = hessians.forest
        first = np.flatnonzero(forest.round == 0)
        roots = np.array([forest.trees[tree].covers[0] for tree in first], dtype=np.float64)
        shares = roots / total[forest.group[first]]
        mean = float(shares.mean())
        spread = np.sqrt(max(mean * (1 - mean), 0.0) / n_effective)
        whole = np.abs(shares - 1.0) <= hessians.tolerance()[first]
        return cls(mean, float(spread / np.sqrt(np.unique(roots).size)), bool(whole.all()))

    @classmethod
    def sampled(cls, hessians: Hessians) -> Share:
        """Return the share of rows that the trees were trained on, by the sums in their roots."""
        rows = slice(0, hessians.weight.size)
        hessian = np.asarray(hessians.at(rows, hessians.first(rows)), dtype=np.float64)
        total, squares = hessian.sum(axis=0), (hessian**2).sum(axis=0)
        return cls.of_roots(hessians, total, 1.0 / float((squares / total**2).mean()))

    def fits(self, subsample: float) -> bool:
        """Return whether a value of `subsample` below 1 may have given the counted share of rows."""
        return 0 < subsample < 1 and abs(self.mean - subsample) <= SPREADS * self.sd + 1e-6

    def candidates(self, subsample: float) -> list[float]:
        """Return values of `subsample` that may have given the counted share: the booster's, usual and round ones."""
        found = [value for value in (subsample, *USUAL_SHARES) if self.fits(value)]
        for digits in (1, 2, 3, 4):
            unit = 10.0**-digits
            low, high = (round((self.mean + side * SPREADS * self.sd) / unit) for side in (-1, 1))
            near = sorted((k * unit for k in range(low, high + 1)), key=lambda value: abs(value - self.mean))
            found += [round(value, digits) for value in near if self.fits(value)]
            if len(found) >= MAX_SHARES:
                break
        return list(dict.fromkeys(found))[:MAX_SHARES]
