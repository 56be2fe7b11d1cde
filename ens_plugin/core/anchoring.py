r"""Anchoring: a model's curve, put right at small sizes by averages over subsets of the members.

Where the model's form is an approximation (margins, soft votes), its error at small sizes is known
without bias from random subsets.  The difference is added back, and fades as 1/B beyond the largest
subset, so that the infinite ensemble's error is the model's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator

from ens_plugin.core.row_model import RowModel, model_error, row_means
from ens_plugin.core.subsets import Sample, subset_error
from ens_plugin.core.validation import as_sizes

__all__ = ["Anchor", "anchor_models", "mean_error"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

N_ORDERS = 32


@dataclass(frozen=True, eq=False)
class Anchor:
    """Differences between subset averages and the model, at each size on the rows with enough members.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Subset sizes, ascending.
    differences : ndarray, shape (n_sizes,)
        Subset average minus model.
    """

    sizes: IntArray
    differences: FloatArray

    def at(self, sizes: ArrayLike) -> FloatArray:
        """The difference to add at each size: a monotone cubic in 1/B between the known ones, 0 at infinity."""
        inverse = np.append(1.0 / self.sizes, 0.0)[::-1]
        known = np.append(self.differences, 0.0)[::-1]
        return np.asarray(PchipInterpolator(inverse, known)(1.0 / as_sizes(sizes)))


def mean_error(models: list[RowModel], sizes: ArrayLike) -> FloatArray:
    """Mean of the models' errors at each size."""
    return np.asarray(np.mean([model_error(model, sizes) for model in models], axis=0))


def anchor_models(models: list[RowModel], sample: Sample, sizes: IntArray, rng: np.random.Generator) -> Anchor:
    """Compare the mean of the models with random subsets of the sampled rows' members.

    Parameters
    ----------
    models : list of RowModel
    sample : Sample
        Rows numbered as in the models.
    sizes : ndarray of int, shape (n_sizes,)
        Sizes that most rows can answer.
    rng : numpy Generator
    """
    by_model = [row_means(model, model.error_by_point(sizes), sample.rows) for model in models]
    enough = sample.block.seen.sum(axis=0) >= sizes[:, None]
    weight = np.where(enough, sample.weight, 0.0)
    expected = np.sum(np.mean(by_model, axis=0) * weight, axis=1) / weight.sum(axis=1)
    return Anchor(sizes, subset_error(sample, sizes, N_ORDERS, rng) - expected)
