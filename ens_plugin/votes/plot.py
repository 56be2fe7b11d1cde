"""The share of right majorities, or of those that infinitely many samples would have, by number of samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ens_plugin.report.text import level_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ens_plugin.votes.analyze import VoteReport


def plot_votes(found: VoteReport, ax: Axes | None = None) -> Axes:
    """Draw the curve of a vote with its intervals and its limit, and mark the samples there are and those needed."""
    from ens_plugin.report.plots import axes_or_new

    ax, name = axes_or_new(ax), "maj_at_k" if found.has_truth else "agreement"
    shown = 8.0 * max(found.n_samples, found.recommended_size)
    frame, limit = found.to_frame().loc[:shown], found.at([math.inf]).iloc[0]
    (line,) = ax.plot(frame.index, 100.0 * frame[name])
    level = level_text(found.interval_level)
    ends = ("lower", "upper") if found.has_truth else ("agreement_lower", "agreement_upper")
    bands = [(ends, f"{level} interval, these questions", 0.25)]
    if found.has_truth:
        bands.append((("new_lower", "new_upper"), f"{level} interval, new questions", 0.1))
    for (low, high), label, opacity in bands:
        ax.fill_between(
            frame.index,
            100.0 * frame[low],
            100.0 * frame[high],
            color=line.get_color(),
            alpha=opacity,
            lw=0,
            label=label,
        )
    ax.axhline(100.0 * limit[name], color=line.get_color(), ls="--", lw=1, label="infinitely many samples")
    for size, label, marker in ((found.n_samples, "now", "o"), (found.recommended_size, "enough", "D")):
        value = 100.0 * found.at([size])[name].iloc[0]
        ax.plot([size], [value], marker, color=line.get_color(), label=f"{label}: {size}")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:.0f}")
    ax.set_xlabel("samples to each question")
    ax.set_ylabel("majority right (%)" if found.has_truth else "majority of infinitely many (%)")
    ax.legend(fontsize="small")
    return ax
