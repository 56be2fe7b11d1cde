"""The stores that the tests of tracking use."""

from __future__ import annotations
