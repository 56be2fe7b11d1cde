"""The reasons for recommended sizes, in sentences."""

from __future__ import annotations

import numpy as np

from ens_plugin.analysis.curves.estimates import ResolvedOptions

__all__ = ["agreement_reason", "excess_reason"]


def agreement_reason(size: int | None, agreement: float, n_members: int, settings: ResolvedOptions) -> str:
    """Return one sentence with the agreement of the members, and the size needed for the wanted agreement."""
    now = f"With {n_members} members, {100 * agreement:.2f} % of the labels are those of the infinite ensemble"
    wanted = f"{100 * settings.confidence:.6g} %"
    if size is None:
        return f"{now}; an agreement of {wanted} takes more than {settings.max_size} members."
    if size <= n_members:
        return f"{now}; {size} members are enough for an agreement of {wanted}."
    return f"{now}; an agreement of {wanted} takes {size} members."


def excess_reason(loss: str, size: int | None, now: float, n_members: int, settings: ResolvedOptions) -> str:
    """Return one sentence with the excess of a loss now, and the size that the wanted excess takes.

    Parameters
    ----------
    loss : str
        With its article left out, such as ``"mean squared error"``.
    size : int or None
        None above the largest size considered.
    now : float
        Relative excess of the current size; NaN where the loss of the infinite ensemble may be 0.
    n_members : int
    settings : ResolvedOptions
    """
    if np.isnan(now):
        return f"The infinite ensemble's {loss} cannot be distinguished from 0, so no relative excess exists."
    below = "below" if now < 0 else "above"
    state = f"With {n_members} members, the {loss} is {100 * abs(now):.2f} % {below} that of the infinite ensemble"
    wanted = f"{100 * settings.tolerance:.6g} %"
    if size is None:
        return f"{state}; an excess of {wanted} takes more than {settings.max_size} members."
    if size <= n_members:
        return f"{state}; {size} members are enough for an excess of {wanted}."
    return f"{state}; an excess of {wanted} takes {size} members."
