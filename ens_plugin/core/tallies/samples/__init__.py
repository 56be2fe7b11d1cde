"""Sampled rows: those of two labels with one score, and their order by content."""

from __future__ import annotations

from ens_plugin.core.tallies.samples.content_order import LabelOrder, content_order, move_rows
from ens_plugin.core.tallies.samples.score_block import ScoreBlock

__all__ = ["LabelOrder", "ScoreBlock", "content_order", "move_rows"]
