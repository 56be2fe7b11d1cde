"""What is known of whether rows are training rows."""

from __future__ import annotations

from typing import Literal

__all__ = ["RowOrigin"]

RowOrigin = Literal["training", "like_training", "fresh", "unknown"]
