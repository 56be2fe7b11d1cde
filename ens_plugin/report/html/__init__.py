"""A report as HTML: a page of its own, and cards in notebooks."""

from __future__ import annotations

from ens_plugin.report.html.page import render_page, write_page

__all__ = ["render_page", "write_page"]
