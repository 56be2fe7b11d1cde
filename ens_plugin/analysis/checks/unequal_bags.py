"""A doubt about ensembles whose members were trained on unequal numbers of rows, and err unequally."""

from __future__ import annotations

import math

import numpy as np

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import JudgedByLoss
from ens_plugin.analysis.checks.member_losses import compared_rows, member_losses
from ens_plugin.core.tallies.subsets import Sample

__all__ = ["unequal_bag_doubts"]

# Chance makes the two means differ by about half a percent, in bags of rows that are each drawn or not.
SMALLEST_DIFFERENCE = 0.03
FEWEST_STANDARD_ERRORS = 4.0
FEWEST_MEMBERS = 4


def unequal_bag_doubts(adapter: EnsembleAdapter, sample: Sample) -> tuple[str, ...]:
    """Return a doubt where members that leave out more rows, and so count for more rows, err more or less than others.

    Parameters
    ----------
    adapter : EnsembleAdapter
    sample : Sample
        Of training rows.

    Returns
    -------
    tuple of str
    """
    if isinstance(adapter, JudgedByLoss):
        return ()
    # The means differ by at most the product of both spreads, and losses hardly spread by more than their mean.
    # Row by row, because NumPy converts the whole array to count along an axis.
    all_left_out = np.array([np.count_nonzero(own) for own in sample.block.counted])
    if all_left_out.std() < SMALLEST_DIFFERENCE * all_left_out.mean():
        return ()
    part = compared_rows(adapter, sample)
    counted = part.block.counted
    left_out = counted.sum(axis=1).astype(np.float64)
    used = left_out > 0
    if np.count_nonzero(used) < FEWEST_MEMBERS:
        return ()
    summed = (member_losses(adapter, part.block) * counted).sum(axis=1)
    loss, share = summed[used] / left_out[used], left_out[used] / left_out.sum()
    counting, all_alike = float(share @ loss), float(loss.mean())
    if abs(counting - all_alike) < SMALLEST_DIFFERENCE * all_alike or np.ptp(loss) == 0.0:
        return ()
    correlation = float(np.corrcoef(share, loss)[0, 1])
    if abs(correlation) * math.sqrt((loss.size - 2) / max(1.0 - correlation**2, 1e-12)) < FEWEST_STANDARD_ERRORS:
        return ()
    return (
        "The members were trained on unequal numbers of rows, and those of small bags are out of bag for more rows: "
        f"their errors are {counting:.3g} on average as they count here, and {all_alike:.3g} as they count in the "
        "ensemble. So these figures are of another ensemble. Train all members on as many rows, or pass held-out rows, "
        "which none was trained on.",
    )
