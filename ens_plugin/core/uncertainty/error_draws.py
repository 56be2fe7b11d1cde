"""The 0-1 error by size with draws from its posterior, and the size from which on it is close to its limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.row_models.anchoring import Anchor, mean_error
from ens_plugin.core.row_models.row_model import RowModel
from ens_plugin.core.uncertainty.intervals import N_DRAWS, PosteriorDraws, density_gradient, odd_grid
from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["ErrorDraws", "combine_draws", "draw_errors", "size_of_approach"]


@record
class ErrorDraws:
    """The error at a grid of odd sizes, and draws of it from its posterior.

    Attributes
    ----------
    sizes : ndarray, shape (n_sizes,)
        Ascending; the last one is infinity.
    error : ndarray, shape (n_sizes,)
    draws : ndarray, shape (n_draws, n_sizes)
    even_shift : ndarray, shape (n_sizes,), or None
        What ties of hard votes add to the error at the even size above each size; None where they add nothing.
    """

    sizes: FloatArray
    error: FloatArray
    draws: FloatArray
    even_shift: FloatArray | None = None

    @property
    def is_known(self) -> bool:
        """Whether the error of the infinite ensemble is above 0, so that an excess relative to it exists."""
        return bool(self.error[-1] > 0)

    def excess(self, sizes: ArrayLike) -> FloatArray:
        """Return the error relative to that of the infinite ensemble, less 1; NaN where that is 0."""
        wanted = 1.0 / np.asarray(sizes, dtype=np.float64)
        if not self.is_known:
            return np.full(wanted.shape, np.nan)
        relative = self.error / self.error[-1] - 1.0
        return np.asarray(np.interp(wanted, 1.0 / self.sizes[::-1], relative[::-1]))

    def close_size(self, tolerance: float) -> float:
        """Return the odd size from which on the error is at most ``1 + tolerance`` times its limit.

        Infinity if the error is above that at every size of the grid, or if the limit is 0.

        Examples
        --------
        >>> sizes = np.array([1.0, 3.0, 101.0, np.inf])
        >>> found = ErrorDraws(sizes, 0.1 + 0.05 / sizes, np.empty((0, 4)))
        >>> found.close_size(0.1), found.close_size(0.001)
        (5.0, inf)
        """
        return float(_first_close(self.sizes, self.error[None], tolerance)[0]) if self.is_known else np.inf

    def close_size_draws(self, tolerance: float) -> FloatArray:
        """Return :meth:`close_size` of each draw, shape (n_draws,)."""
        return _first_close(self.sizes, self.draws, tolerance)

    def spread(self, errors: FloatArray, random_state: int) -> ErrorDraws:
        """Return the draws spread further by errors of the curve that a jackknife found, shape (n_groups, n_sizes).

        Multiples of the errors have Student's distribution with n_groups - 1 degrees of freedom.
        """
        n_errors = errors.shape[0]
        if n_errors < 2:
            return self
        rng = np.random.default_rng([random_state, n_errors])
        n_draws, freedom = self.draws.shape[0], n_errors - 1
        scale = np.sqrt(freedom / rng.chisquare(freedom, (n_draws, 1)))
        return replace(self, draws=self.draws + scale * rng.standard_normal((n_draws, n_errors)) @ errors)


def draw_errors(
    models: Sequence[RowModel], anchor: Anchor | None, max_size: int, drawn: Sequence[PosteriorDraws | None]
) -> ErrorDraws:
    """Return the error of the fitted models by size, with draws of their densities from the Laplace approximation.

    Parameters
    ----------
    models : sequence of RowModel
        Whose errors are averaged.
    anchor : Anchor or None
        What subsets of the members add to the models' errors; taken as known.
    max_size : int
        Largest size of the grid.
    drawn : sequence of PosteriorDraws or None
        :func:`ens_plugin.core.uncertainty.intervals.draw_posteriors` of each model.
    """
    sizes = np.append(odd_grid(max_size).astype(np.float64), np.inf)
    shift = np.zeros(sizes.size) if anchor is None else anchor.at(sizes)
    draws = np.mean([_model_draws(model, sizes, own) for model, own in zip(models, drawn, strict=True)], axis=0)
    return ErrorDraws(sizes, mean_error(list(models), sizes) + shift, draws + shift)


def _model_draws(model: RowModel, sizes: FloatArray, drawn: PosteriorDraws | None) -> FloatArray:
    """Return the errors of other rows of the same population: linear in the drawn changes of the density.

    The mean posteriors of the rows vary less the more members there are, because they are about these rows alone.  The
    errors of the drawn densities themselves vary too much with few members, whose approximation has long tails.
    """
    by_point = model.error_by_point(sizes)
    error = by_point @ model.point_weights
    if drawn is None or model.density is None:
        return np.tile(error, (N_DRAWS, 1))
    return np.asarray(error + drawn.steps @ density_gradient(model, model.density, by_point).T)


def combine_draws(parts: Sequence[ErrorDraws], share: FloatArray) -> ErrorDraws:
    """Return the errors of all rows from those of disjoint parts of them, with their shares of the weight."""
    # The parts are independent, and their draws came from one seed: each part's are taken in an order of its own.
    mixed = [part.draws[np.random.default_rng(index).permutation(N_DRAWS)] for index, part in enumerate(parts)]
    shifts = [np.zeros(part.sizes.size) if part.even_shift is None else part.even_shift for part in parts]
    return ErrorDraws(
        parts[0].sizes,
        np.asarray(share @ np.array([part.error for part in parts])),
        np.asarray(np.tensordot(share, np.array(mixed), axes=1)),
        None if all(part.even_shift is None for part in parts) else np.asarray(share @ np.array(shifts)),
    )


def _first_close(sizes: FloatArray, errors: FloatArray, tolerance: float) -> FloatArray:
    """Return the odd size from which on each curve stays within the tolerance of its limit, or infinity.

    Parameters
    ----------
    sizes : ndarray, shape (n_sizes,)
    errors : ndarray, shape (n_curves, n_sizes)
    tolerance : float
    """
    close = sizes_of_approach(sizes, errors[:, :-1] - (1.0 + tolerance) * np.maximum(errors[:, -1:], 0.0))
    return np.asarray(2 * np.ceil((close - 1.0) / 2.0 - 1e-9) + 1)


def size_of_approach(sizes: FloatArray, excess: FloatArray) -> float:
    """Return the size, not rounded, from which on an excess is at most 0; infinity where the last one is above.

    Parameters
    ----------
    sizes : ndarray, shape (n_sizes,)
        Ascending; the last one is infinity.
    excess : ndarray, shape (n_sizes - 1,)
        At all sizes but infinity; linear in 1/size between them.

    Examples
    --------
    >>> size_of_approach(np.array([1.0, 2.0, 4.0, np.inf]), np.array([2.0, 1.0, -1.0]))
    2.6666666666666665
    """
    return float(sizes_of_approach(sizes, excess[None])[0])


def sizes_of_approach(sizes: FloatArray, excess: FloatArray) -> FloatArray:
    """Return :func:`size_of_approach` of several curves; `excess` has shape (n_curves, n_sizes - 1)."""
    is_far = excess > 0
    n_finite = excess.shape[1]
    last = n_finite - 1 - np.argmax(is_far[:, ::-1], axis=1)
    found = np.where(is_far.any(axis=1), np.inf, sizes[0])
    curve = np.flatnonzero(is_far.any(axis=1) & (last < n_finite - 1))
    here, beyond = last[curve], last[curve] + 1
    part = excess[curve, here] / (excess[curve, here] - excess[curve, beyond])
    found[curve] = 1.0 / (1.0 / sizes[here] + part * (1.0 / sizes[beyond] - 1.0 / sizes[here]))
    return found
