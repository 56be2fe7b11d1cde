"""Cautions about an estimated variance over training sets, from how the bags were drawn and from its noise."""

from __future__ import annotations

import numpy as np

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.shared.draws import DrawCounts
from ens_plugin.core.validation import FloatArray, counted

__all__ = ["FEWEST_ROWS", "cautions_of_formula", "cautions_of_noise", "cautions_of_rows", "cautions_of_sampling"]

FEWEST_ROWS = 30


def cautions_of_sampling(adapter: EnsembleAdapter, draws: DrawCounts, n_units: int) -> tuple[str, ...]:
    """Return the warnings about few rows or groups, `n_units` of them, and about weights taken from them."""
    cautions = []
    if n_units < FEWEST_ROWS:
        cautions.append(
            f"Only {counted(n_units, 'row or group was', 'rows or groups were')} drawn from the population: every "
            "estimate is imprecise."
        )
    if draws.chance is not None:
        cautions.append(
            "Rows were drawn by weight: each row is assumed to have the same weight in other training sets."
        )
    if getattr(adapter.model, "class_weight", None) == "balanced":
        cautions.append(
            "class_weight='balanced' takes the share of each label from the whole training set; the variance of these "
            "shares over training sets is not corrected for."
        )
    return tuple(cautions)


def cautions_of_formula(draws: DrawCounts, oob_chance: FloatArray | None) -> tuple[str, ...]:
    """Return the warnings about the jackknives that these bags allow."""
    cautions = []
    if draws.rule == "with_replacement":
        cautions.append(
            "The infinitesimal jackknife tends to be too small where members choose among few features or split to the "
            "last row (0.66 to 1.01 times the truth was measured), the jackknife after the bootstrap too large (1.17 "
            "to 1.59 times)."
        )
        if oob_chance is None:
            cautions.append(
                "Some rows are in nearly every bag, or not as often as expected by chance: the jackknife after the "
                "bootstrap is left out."
            )
    elif draws.rule == "without_replacement":
        share = 1 - float(oob_chance.mean()) if oob_chance is not None else 1.0
        cautions.append(
            f"Bags were drawn without replacement and hold {share:.0%} of the rows; the formula is exact for a small "
            "share, and tends to be too large for a large one (1.80 times the truth was measured at 63 %)."
        )
    else:
        cautions.append(
            "Bags are known as a mask, without repetitions: this is the jackknife after the bootstrap, which tends to "
            "be too large (1.17 to 1.59 times the truth was measured). Pass index arrays, each row as often as it was "
            "drawn."
        )
    return tuple(cautions)


def cautions_of_rows(n_repeated: int, n_rows: int) -> tuple[str, ...]:
    """Return a warning that some training rows equal an earlier one; an empty tuple where none does."""
    if not n_repeated:
        return ()
    return (
        f"{counted(n_repeated, 'equals', 'equal', of=f'{n_rows} training rows')} an earlier "
        "one. If they are copies, the variance is too small: pass groups, in which equal rows have one group.",
    )


def cautions_of_noise(variance: FloatArray, noise: FloatArray, n_members: int) -> tuple[str, ...]:
    """Return a warning that too few members make single variances noisy, with how many to train; empty where enough."""
    mean, spread = float(variance.mean()), float(noise.mean())
    if spread == 0 or spread <= 0.5 * mean:
        return ()
    negative = np.count_nonzero(variance < 0)
    found = (
        f"{n_members} members are too few to estimate the variance of a single prediction: noise {spread:.3g} against "
    )
    found += f"a mean of {mean:.3g}" + (f", {negative} of {variance.size} negative" if negative else "")
    advice = f"about {n_members * spread / (0.5 * mean):.0f}" if mean > 0.1 * spread else "many more"
    return (f"{found}. Train {advice} members, or use only the mean over the rows.",)
