"""Simulation of how much margins against the strongest of many rivals are too low (docs/methods.md, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from ens_plugin.core.row_models.label_shares import LabelVotes, fit_label_shares
from ens_plugin.core.row_models.margins import MarginModel, fit_margins
from ens_plugin.core.row_models.row_model import model_error
from ens_plugin.core.tallies.margin_tally import strongest_rival
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["RivalShift", "fit_rival_shift"]

# The simulation is a numerical integration: its seed is fixed, so that no random_state changes the estimate.
SEED = 20_130_701
DRAWN_ROWS = 6_000
# With few rows, the sampling error of the shift is far larger than that of the simulation.
FEWEST_DRAWS, MOST_DRAWS = 2, 12
SIZES_PER_MEMBER = (1.0, 3.0, 9.0)


class RivalShift(NamedTuple):
    """The shift that corrects margins for noisily selected rivals, with its noise.

    Attributes
    ----------
    shift, shift_loss : float
        See :class:`ens_plugin.core.row_models.margins.MarginModel`.
    left_out : ndarray, shape (n_simulations, 2)
        Both without each of the independent simulations that they are from.
    """

    shift: float
    shift_loss: float
    left_out: FloatArray


def fit_rival_shift(votes: LabelVotes, weight: FloatArray) -> RivalShift:
    """Fit the shift that corrects margins for noisily selected rivals, and by how much it is less in small ensembles.

    Parameters
    ----------
    votes : LabelVotes
    weight : ndarray, shape (n_rows,)
    """
    rng = np.random.default_rng(SEED)
    weight = weight / weight.mean()
    shares, votes_per_member = fit_label_shares(votes, weight), votes.per_member
    typical = float(np.average(votes.trials, weights=weight))
    sizes = np.array([*(np.ceil(ratio * typical) for ratio in SIZES_PER_MEMBER), np.inf])
    models, errors = [], []
    for _ in range(int(np.clip(-(-DRAWN_ROWS // votes.target.size), FEWEST_DRAWS, MOST_DRAWS))):
        drawn = shares.draw(rng)
        models.append(_simulated_model(drawn, votes, weight, votes_per_member, rng))
        errors.append([_true_error(drawn, votes.target, weight, size * votes_per_member, rng) for size in sizes])

    def fitted(kept: Sequence[int]) -> tuple[float, float]:
        used, truth = [models[place] for place in kept], np.mean([errors[place] for place in kept], axis=0)
        shift = _shift(used, float(truth[-1]))
        return shift, _shift_loss(used, shift, sizes[:-1], truth[:-1])

    every = range(len(models))
    left_out = [fitted([place for place in every if place != one]) for one in every]
    return RivalShift(*fitted(every), np.array(left_out))


def _simulated_model(
    drawn: FloatArray, votes: LabelVotes, weight: FloatArray, votes_per_member: float, rng: np.random.Generator
) -> MarginModel:
    """Fit a margin model to votes simulated from label shares."""
    n = np.maximum(np.round(votes.trials * votes_per_member), 2.0)
    found = rng.multinomial(n.astype(np.int64), drawn)
    rows = np.arange(n.size)
    true, rival = (
        found[rows, labels].astype(np.float64) for labels in (votes.target, strongest_rival(found, votes.target))
    )
    margin = (true - rival) / n
    variance = ((true + rival) / n - margin**2) * n / (n - 1.0) / votes_per_member
    return fit_margins(margin, np.sqrt(np.maximum(variance, 0.0)), votes.trials, weight)


def _true_error(
    drawn: FloatArray, target: IntArray, weight: FloatArray, votes: float, rng: np.random.Generator
) -> float:
    """Return the error of ensembles with a given number of votes, on rows with given label shares."""
    found = drawn if np.isinf(votes) else rng.multinomial(round(votes), drawn)
    return float(np.average(np.argmax(found, axis=1) != target, weights=weight))


def _shift(models: Sequence[MarginModel], truth: float) -> float:
    """Return the shift at which the mean of the models has the true error at infinity; 0 if there is none."""

    def excess(shift: float) -> float:
        return float(_mean_error(models, shift, 0.0, np.array([np.inf]))[0]) - truth

    reach = min(*(float(model.distance[-1]) for model in models), *(-float(model.distance[0]) for model in models))
    unshifted = excess(0.0)
    if unshifted * excess(reach) < 0.0:
        return float(brentq(excess, 0.0, reach, xtol=1e-6))
    if unshifted * excess(-reach) < 0.0:
        return float(brentq(excess, -reach, 0.0, xtol=1e-6))
    return 0.0


def _shift_loss(models: Sequence[MarginModel], shift: float, sizes: FloatArray, truth: FloatArray) -> float:
    """Return the loss of shift by 1/size with which the models fit the true errors at finite sizes best."""

    def miss(loss: float) -> float:
        return float(np.sum((_mean_error(models, shift, loss, sizes) - truth) ** 2))

    reach = min(-float(model.distance[0]) for model in models)
    return float(minimize_scalar(miss, bounds=(0.0, sizes[0] * reach), method="bounded", options={"xatol": 1e-3}).x)


def _mean_error(models: Sequence[MarginModel], shift: float, shift_loss: float, sizes: FloatArray) -> FloatArray:
    """Return the mean of the models' errors at each size."""
    shifted = [replace(model, shift=shift, shift_loss=shift_loss) for model in models]
    return np.asarray(np.mean([model_error(model, sizes) for model in shifted], axis=0))
