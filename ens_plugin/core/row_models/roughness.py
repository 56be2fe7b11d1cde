"""Mixtures with a rougher density than ordinary ensembles have, as far as the rows show it or do not rule it out."""

from __future__ import annotations

from dataclasses import replace

from ens_plugin.core.row_models.density import ROUGHNESS_SCALE, Density, refit_density, rougher_density
from ens_plugin.core.row_models.mixture import Mixture
from ens_plugin.core.row_models.row_model import mean_posterior

__all__ = ["as_rough_as_known", "rougher_than_known"]

TIMES_AS_ROUGH = 4.0


def as_rough_as_known(mixture: Mixture) -> Mixture:
    """Return the mixture with a rougher density, where the votes of the rows show that it is rougher.

    It takes the rows' votes as independent.  Where rows share the votes of the same members, they seem to show more.

    Examples
    --------
    Votes of three kinds of rows, of which none has close votes.

    >>> import numpy as np
    >>> from ens_plugin.core.row_models import fit_mixture
    >>> p = np.repeat([0.02, 0.35, 0.65], 1000)
    >>> smooth = fit_mixture(np.random.default_rng(0).binomial(100, p), np.full(3000, 100))
    >>> found = [model.error([51, np.inf]) for model in (smooth, as_rough_as_known(smooth))]
    >>> truth = np.mean(p > 0.5)
    >>> bool(abs(found[1][0] - truth) < abs(found[0][0] - truth))
    True
    """
    if mixture.density is None:
        return mixture
    density = rougher_density(mixture.density)
    return mixture if density is mixture.density else _with_density(mixture, density)


def rougher_than_known(mixture: Mixture) -> Mixture | None:
    """Return the mixture with a density four times as rough, of which the rows need not know; None where they do.

    Parameters
    ----------
    mixture : Mixture
        Of :func:`as_rough_as_known`; for a point mass there is none.
    """
    density = mixture.density
    if density is None or density.roughness > ROUGHNESS_SCALE:
        return None
    return _with_density(mixture, refit_density(density, TIMES_AS_ROUGH * ROUGHNESS_SCALE))


def _with_density(mixture: Mixture, density: Density) -> Mixture:
    assert mixture.density is not None
    is_sharpened = mixture.weights is not mixture.density.weights
    weights = mean_posterior(mixture, density.weights) if is_sharpened else density.weights
    return replace(mixture, density=density, weights=weights)
